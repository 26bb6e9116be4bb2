"""Jobs without a fault: whatever is named here is wrong."""

import numpy as np

from simulator_b.draft import Draft, Part
from simulator_b.hardware import MIB
from simulator_b.mechanism import LARGE, NODE_JOBS, SMALL_JOBS, mechanism
from stoker.findings.vocabulary import JobType


@mechanism(shapes=(*SMALL_JOBS, (1, 8), (2, 8)))
def mixed_precision(draft: Draft) -> None:
    """A plain training in half precision."""
    draft.start(draft.between(0.4, 0.9))
    draft.train(draft.scale(2_500, 20_000), "transformer")
    draft.finish()


@mechanism(cards=("T4", "V100", "A10", "A100", "L40S"))
def single_precision(draft: Draft) -> None:
    """A training in fp32: no tensor core ever works."""
    draft.start(draft.between(0.3, 0.8))
    draft.train(draft.scale(2_500, 18_000), "fp32", stall=0.05)
    draft.finish()


@mechanism()
def eager_kernels(draft: Draft) -> None:
    """Eager code with many kernels: small gaps everywhere, and a utilization that hovers around three quarters."""
    draft.start(draft.between(0.4, 0.85))
    step = draft.scale(0.2, 0.8)
    work = draft.kernels("eager")
    draft.loop(draft.scale(2_500, 16_000), [Part(seconds=step, spread=0.15, gpu={**work, "rx": 2e7}, pod={"cpu": 1.0})])
    draft.finish()


@mechanism()
def short_dips(draft: Draft) -> None:
    """A minute of full work, then some seconds for logs and shuffling, again and again."""
    draft.start(draft.between(0.4, 0.85))
    run = draft.scale(30, 90)
    draft.loop(
        draft.scale(2_500, 16_000),
        [
            Part(seconds=run, spread=0.05, gpu={**draft.kernels("convnet"), "rx": 6e7}, pod={"cpu": 2.0}),
            Part(seconds=0.12 * run, spread=0.3, pod={"cpu": 3.0, "disk_read": 5e7}),
        ],
    )
    draft.finish()


@mechanism(cards=("A10", "L40S", "A100", "H100"), shapes=((1, 1), (1, 2)))
def serving(draft: Draft) -> None:
    """A server of a model, whose load rises and falls with its users' day; it says what it is."""
    draft.facts["job_type"] = JobType.SERVING
    draft.finished = False
    draft.start(0.9)
    hours = draft.between(4, 9)
    phase = draft.between(0, 24)
    work = draft.kernels("decode", alone=True)
    for quarter in np.arange(0, hours, 0.25):
        load = 0.55 + 0.3 * np.sin(2 * np.pi * (phase + quarter) / 24) + draft.rng.normal(0, 0.04)
        load = float(np.clip(load, 0.15, 0.95))
        pause = Part(seconds=max(1.5 * (1 - load), 0.05), spread=1.0, pod={"cpu": 0.4, "net_rx": 2e4, "net_tx": 6e4})
        draft.loop(900, [Part(seconds=1.5 * load, spread=0.6, gpu=work, pod={"cpu": 1.0, "net_tx": 1e5}), pause])


@mechanism(shapes=SMALL_JOBS)
def rollouts_by_design(draft: Draft) -> None:
    """Reinforcement learning of a language model: it samples answers, a program judges them, then it learns."""
    draft.start(draft.between(0.6, 0.9))
    draft.loop(
        draft.scale(3_500, 16_000),
        [
            Part(seconds=draft.scale(15, 50), spread=0.25, gpu={**draft.kernels("decode"), "busy": 0.93}),
            Part(seconds=draft.scale(3, 7), spread=0.4, pod={"cpu": 4.0}),
            Part(seconds=draft.scale(12, 30), gpu={**draft.kernels("transformer"), "rx": 1e7}, pod={"cpu": 1.0}),
        ],
    )


@mechanism(shapes=((1, 8), (2, 8)), cards=LARGE)
def accumulated_gradients(draft: Draft) -> None:
    """Many micro-batches for one exchange of gradients, over links that the pod's network does not show."""
    draft.start(draft.between(0.7, 0.95))
    step = draft.scale(4, 20)
    link = 0.35 * draft.card.link
    work = draft.kernels("transformer", alone=True)
    draft.loop(
        draft.scale(3_500, 18_000),
        [
            Part(seconds=0.93 * step, spread=0.03, gpu={**work, "rx": 3e6}, pod={"cpu": 2.0}),
            Part(seconds=0.07 * step, spread=0.1, gpu={"busy": 1.0, "sm": 0.25, "dram": 0.2, "link": link}),
        ],
    )
    draft.finish(size=12e9)


@mechanism(shapes=((1, 4), (1, 8)), cards=LARGE)
def pipeline_stages(draft: Draft) -> None:
    """A pipeline of stages with enough micro-batches: each waits for its neighbours for a fifth of a step."""
    draft.start(draft.between(0.6, 0.92))
    step = draft.scale(2, 8)
    bubble = draft.between(0.12, 0.22)
    work = draft.kernels("transformer", alone=True)
    draft.loop(
        draft.scale(3_000, 15_000),
        [
            Part(seconds=bubble * step / 2, spread=0.1, gpu={"link": 0.01 * draft.card.link}),
            Part(seconds=(1 - bubble) * step, spread=0.03, gpu={**work, "link": 2e10},
                 pod={"cpu": 1.5}),
            Part(seconds=bubble * step / 2, spread=0.1, gpu={"link": 0.01 * draft.card.link}),
        ],
    )  # fmt: skip
    draft.finish(size=8e9)


@mechanism(shapes=(*SMALL_JOBS, (1, 8)))
def long_validation(draft: Draft) -> None:
    """Each half hour a validation of ten minutes, at a good rate, without gradients."""
    draft.start(draft.between(0.5, 0.85))
    end = draft.scale(6_000, 16_000)
    test = {**draft.kernels("convnet"), "rx": 1.5e8}
    while draft.life < end:
        draft.train(draft.scale(1_200, 2_200), "transformer")
        draft.loop(draft.scale(300, 700), [Part(seconds=0.4, gpu=test, pod={"cpu": 3.0}), Part(seconds=0.05)])
    draft.finish()


@mechanism(shapes=((1, 8),), cards=LARGE)
def mixture_of_experts(draft: Draft) -> None:
    """Experts on all GPUs: tokens cross NVLink in each layer, and unequal loads leave small waits."""
    draft.start(draft.between(0.75, 0.95))
    work = draft.kernels("transformer", alone=True)
    step = draft.scale(0.5, 2.0)
    draft.loop(
        draft.scale(3_500, 16_000),
        [
            Part(seconds=0.7 * step, gpu={**work, "link": 0.15 * draft.card.link}, pod={"cpu": 2.0}),
            Part(seconds=0.22 * step, spread=0.3, gpu={"busy": 0.97, "sm": 0.2, "link": 0.4 * draft.card.link}),
            Part(seconds=0.08 * step, spread=0.5),
        ],
    )
    draft.finish(size=15e9)


@mechanism(shapes=(*NODE_JOBS, (1, 1)), cards=("A100", "H100", "L40S", "A10"))
def saves_in_the_background(draft: Draft) -> None:
    """Checkpoints are copied to the host in seconds, and written to the store while the training goes on."""
    draft.start(draft.between(0.5, 0.9))
    size = 0.25 * draft.card.memory * MIB
    copy = size / draft.card.pinned * 1.5
    work = draft.kernels("transformer")
    write = draft.scale(60, 200)
    end = draft.scale(4_000, 15_000)
    while draft.life < end:
        draft.train(draft.scale(250, 900), "transformer")
        draft.phase(copy, gpu=lambda rank: {"tx": size / copy} if rank == 0 else {}, pod={"cpu": 1.0})
        upload = {"net_tx": size / write, "cpu": 1.5}
        draft.loop(write, [Part(seconds=0.8, gpu={**work, "rx": 1e7}, pod=upload), Part(seconds=0.02, pod=upload)])
    draft.finish()


@mechanism()
def well_fed_stream(draft: Draft) -> None:
    """Samples stream from the store at a high rate, and arrive before they are needed."""
    draft.start(draft.between(0.4, 0.8))
    use = draft.scale(0.2, 0.9)
    rate = draft.scale(8e7, 5e8)
    draft.fed(
        draft.scale(2_500, 14_000), make=use * 8 * 0.75, use=use, workers=8, compute=draft.kernels("convnet"),
        cores=0.5 * draft.per_node, batch={"net_rx": rate * use, "rx": 2 * rate * use / draft.per_node}, spread=0.3,
    )  # fmt: skip
    draft.finish()


@mechanism(shapes=SMALL_JOBS)
def sampled_graphs(draft: Draft) -> None:
    """A graph network with neighbours sampled on the CPU, mostly ahead of time."""
    draft.start(draft.between(0.3, 0.7))
    use = draft.scale(0.15, 0.6)
    draft.fed(
        draft.scale(2_500, 14_000), make=use * 6 * 1.02, use=use, workers=6, compute=draft.kernels("graph"),
        cores=0.9, batch={"rx": draft.scale(3e7, 4e8) * use}, spread=0.4,
    )  # fmt: skip
    draft.finish()


@mechanism(shapes=((1, 1), (1, 2)))
def short_and_good(draft: Draft) -> None:
    """A training of a quarter of an hour: its start is a visible part of it."""
    draft.start(draft.between(0.4, 0.8), seconds=draft.between(30, 80))
    draft.train(draft.scale(700, 1_200), draft.pick(("convnet", "diffusion")))
    draft.finish()


@mechanism(shapes=SMALL_JOBS, cards=("A10", "L40S", "A100", "H100"))
def batch_inference(draft: Draft) -> None:
    """An offline evaluation with large batches; it says what it is."""
    draft.facts["job_type"] = JobType.EVALUATION
    draft.start(0.88)
    draft.loop(
        draft.scale(2_500, 12_000),
        [
            Part(seconds=draft.scale(3, 20), spread=0.3, gpu={**draft.kernels("decode", alone=True), "rx": 2e6}),
            Part(seconds=draft.between(0.1, 0.8), spread=0.5, pod={"cpu": 2.0, "disk_write": 2e6}),
        ],
    )
