"""Jobs whose kind or request is the cause: people at a prompt, GPUs too many, GPUs kept, programs without GPUs."""

import numpy as np

from simulator_b.draft import Draft, Part
from simulator_b.hardware import GB
from simulator_b.mechanism import NODE_JOBS, mechanism
from stoker.findings.vocabulary import Category

INTERACTIVE, OVER = Category.INTERACTIVE_JOB, Category.GPU_OVERSUBSCRIPTION
UNRELEASED, NON_DL = Category.UNRELEASED_JOB, Category.NON_DL_JOB
TYPING = {"net_rx": 900.0, "net_tx": 2500.0}
"""Bytes/s of a terminal or a web page in use."""


@mechanism(INTERACTIVE)
def notebook_cells(draft: Draft) -> None:
    """A notebook: cells that run for seconds to minutes, and a person who reads, thinks and goes to lunch."""
    draft.facts["interactive_entry"] = True
    draft.phase(draft.scale(120, 1500), pod={"cpu": 0.15, **TYPING}, rough=0.8, blame=INTERACTIVE)
    draft.start(draft.between(0.08, 0.7), seconds=20)
    work = draft.kernels(draft.pick(("eager", "fp32", "transformer", "launch-bound")))
    end = draft.scale(5_000, 30_000)
    while draft.life < end:
        think = draft.scale(30, 900) if draft.rng.random() < 0.93 else draft.scale(2_000, 6_000)
        draft.phase(think, pod={"cpu": 0.06, **TYPING}, rough=1.0, blame=INTERACTIVE)
        kind = draft.rng.random()
        if kind < 0.35:
            draft.phase(draft.scale(2, 40), pod={"cpu": draft.between(0.8, 3), "disk_read": 3e7}, blame=INTERACTIVE)
        else:
            draft.phase(draft.scale(1, 90), gpu=work, pod={"cpu": 0.5, **TYPING}, active=[0])


@mechanism(INTERACTIVE)
def shell_session(draft: Draft) -> None:
    """`sleep infinity`, and a person who tries the training again and again over ssh: most tries end by an error."""
    end = draft.scale(6_000, 28_000)
    draft.phase(draft.scale(60, 2_500), pod={"cpu": 0.01}, blame=INTERACTIVE)
    while draft.life < end:
        edit = draft.scale(90, 1_800) if draft.rng.random() < 0.9 else draft.scale(3_000, 5_500)
        draft.phase(edit, pod={"cpu": 0.05, **TYPING}, rough=1.2, blame=INTERACTIVE)
        if draft.rng.random() < 0.15:
            draft.phase(draft.scale(15, 90), pod={"cpu": 0.9, "net_rx": 1.5e7, "disk_write": 3e7}, blame=INTERACTIVE)
        draft.start(draft.between(0.2, 0.8), seconds=draft.scale(8, 40))
        if draft.rng.random() < 0.6:
            draft.train(draft.scale(10, 220), draft.pick(("transformer", "convnet", "eager")))
        draft.release()


@mechanism(INTERACTIVE)
def remote_editor(draft: Draft) -> None:
    """An editor's server in the pod, and a debugger that stands at breakpoints while the model lies in memory."""
    server = {"cpu": 0.25, "net_rx": 4e3, "net_tx": 2.5e4}
    end = draft.scale(6_000, 26_000)
    draft.phase(draft.scale(200, 1_200), pod=server, rough=0.9, blame=INTERACTIVE)
    while draft.life < end:
        draft.start(draft.between(0.1, 0.5), seconds=draft.scale(10, 35), ranks=[0])
        for _ in range(int(draft.rng.integers(2, 14))):
            draft.phase(draft.scale(15, 700), pod=server, rough=0.9, blame=INTERACTIVE)
            draft.phase(draft.scale(0.5, 15), gpu=draft.kernels("eager"), pod={"cpu": 0.5}, active=[0])
        draft.release()
        draft.phase(draft.scale(60, 1_500), pod=server, rough=0.9, blame=INTERACTIVE)


@mechanism(INTERACTIVE, shapes=((1, 1), (1, 2)))
def demo_page(draft: Draft) -> None:
    """A web page by which its author tries a model: some prompts in a row, then nothing for a while."""
    draft.start(draft.between(0.3, 0.8))
    end = draft.scale(6_000, 25_000)
    while draft.life < end:
        for _ in range(int(draft.rng.integers(1, 9))):
            draft.phase(draft.scale(8, 60), pod={"cpu": 0.05, **TYPING}, rough=1.0, blame=INTERACTIVE)
            draft.phase(draft.scale(1, 12), gpu=draft.kernels("decode"), pod={"cpu": 0.6, "net_tx": 5e4}, active=[0])
        draft.phase(draft.scale(200, 2_500), pod={"cpu": 0.04}, blame=INTERACTIVE)


def _with_spare(draft: Draft, used: list[int], kind: str, seconds: float) -> None:
    draft.start(draft.between(0.35, 0.85), ranks=used)
    draft.train(seconds, kind, stall=draft.between(0.02, 0.12), active=used, rest_blame=OVER)


@mechanism(OVER, shapes=((1, 4), (1, 8)))
def fewer_processes(draft: Draft) -> None:
    """A launcher with half as many processes as the job has GPUs."""
    if draft.rng.random() < 0.5:
        draft.facts["processes_per_node"] = draft.per_node // 2
    _with_spare(draft, list(range(draft.per_node // 2)), "transformer", draft.scale(2_400, 16_000))
    draft.finish()


@mechanism(OVER, shapes=((2, 2), (2, 4), (2, 8)))
def idle_second_node(draft: Draft) -> None:
    """Two nodes are requested; the launcher on the first was never told of the second, which sleeps."""
    _with_spare(draft, list(draft.ranks_of(0)), draft.pick(("convnet", "transformer")), draft.scale(2_400, 14_000))
    draft.finish()


@mechanism(OVER, shapes=((1, 4), (1, 8)))
def few_trials(draft: Draft) -> None:
    """A search that runs two trials at a time, each on a GPU of its own, in a job with more."""
    used = [0, 1]
    end = draft.scale(4_000, 14_000)
    while draft.life < end:
        draft.start(draft.between(0.2, 0.6), seconds=draft.scale(15, 40), ranks=used)
        draft.train(draft.scale(500, 2_200), "convnet", alone=True, active=used, rest_blame=OVER)
        draft.release()


@mechanism(OVER, shapes=((1, 4), (1, 8)), cards=("A100", "H100", "L40S"))
def small_tensor_parallel(draft: Draft) -> None:
    """A batch inference with tensor parallelism over two GPUs, in a job with more."""
    draft.start(0.9, ranks=[0, 1])
    seconds = draft.scale(3_000, 12_000)
    work = {**draft.kernels("decode", alone=True), "link": 0.04 * draft.card.link}
    draft.loop(
        seconds,
        [Part(seconds=0.08, gpu={}, pod={"cpu": 1.5}), Part(seconds=2.4, spread=0.4, gpu=work)],
        active=[0, 1],
        rest_blame=OVER,
    )


def _trained(draft: Draft) -> float:
    """A training without a fault, and how long it took."""
    draft.finished = draft.rng.random() < 0.35
    draft.start(draft.between(0.3, 0.85))
    draft.train(draft.scale(1_500, 6_000), draft.pick(("transformer", "convnet", "diffusion")))
    draft.finish()
    return draft.life


@mechanism(UNRELEASED, shapes=(*NODE_JOBS, (1, 1)))
def sleep_after_training(draft: Draft) -> None:
    """The script ends in a long sleep, after the training process has gone."""
    seconds = _trained(draft)
    draft.release()
    draft.rss = 0.05 * GB
    draft.phase(seconds * draft.between(1.1, 3.0), pod={"cpu": 0.001}, rough=0.3, blame=UNRELEASED)


@mechanism(UNRELEASED)
def board_left_running(draft: Draft) -> None:
    """After the training a log viewer keeps the container alive: it rereads its files each half minute."""
    seconds = _trained(draft)
    draft.release()
    draft.rss = 0.9 * GB
    viewer = [Part(seconds=29, spread=0.05, pod={"cpu": 0.02}), Part(seconds=1.2, pod={"cpu": 0.9, "disk_read": 2e6})]
    draft.loop(seconds * draft.between(1.1, 2.5), [_blamed(part) for part in viewer])


@mechanism(UNRELEASED, shapes=((1, 1), (1, 2), (1, 4), (2, 4)))
def asks_whether_to_end(draft: Draft) -> None:
    """The script asks a server every ten seconds whether it may end; the answer is always no."""
    seconds = _trained(draft)
    draft.release()
    draft.rss = 0.1 * GB
    asks = [Part(seconds=10, spread=0.02, pod={"cpu": 0.005}), Part(seconds=0.1, pod={"cpu": 0.6, "net_rx": 3e4})]
    draft.loop(seconds * draft.between(1.1, 2.2), [_blamed(part) for part in asks])


@mechanism(UNRELEASED, or_else=(Category.STALLED, INTERACTIVE), shapes=((1, 1), (1, 4)))
def kept_for_a_look(draft: Draft) -> None:
    """The program waits at a prompt for its author after the training, its model still in memory."""
    seconds = _trained(draft)
    draft.phase(seconds * draft.between(1.1, 3.0), pod={"cpu": 0.005}, rough=0.3, blame=UNRELEASED)


def _blamed(part: Part) -> Part:
    return Part(seconds=part.seconds, spread=part.spread, pod=part.pod, blame=UNRELEASED)


@mechanism(NON_DL)
def grid_search(draft: Draft) -> None:
    """A search over tree models on all cores."""
    cores = 0.9 * (draft.limit or draft.host.cores)
    draft.phase(draft.scale(20, 200), pod={"cpu": 1.0, "disk_read": 2e8}, blame=NON_DL)
    draft.rss = draft.scale(4, 60) * GB
    folds = [
        Part(seconds=draft.scale(20, 200), spread=0.4, pod={"cpu": cores}, blame=NON_DL),
        Part(seconds=draft.scale(2, 15), spread=0.5, pod={"cpu": 1.1}, blame=NON_DL),
    ]
    draft.loop(draft.scale(2_500, 20_000), folds)


@mechanism(NON_DL, shapes=((1, 1), (2, 1), (4, 1)))
def table_shuffle(draft: Draft) -> None:
    """Executors of a data analysis: read, compute, shuffle over the network, write."""
    cores = 0.8 * (draft.limit or draft.host.cores)
    net = draft.scale(5e7, 4e8)
    stages = [
        Part(seconds=40, spread=0.5, pod={"cpu": 0.3 * cores, "net_rx": net, "io_wait": 0.3}, blame=NON_DL),
        Part(seconds=draft.scale(60, 240), spread=0.4, pod={"cpu": cores}, blame=NON_DL),
        Part(seconds=30, spread=0.5, pod={"cpu": 0.2 * cores, "net_rx": net, "net_tx": net}, blame=NON_DL),
        Part(seconds=15, spread=0.5, pod={"cpu": 2, "disk_write": 3e8, "io_wait": 0.4}, blame=NON_DL),
    ]
    draft.rss = draft.scale(8, 80) * GB
    draft.loop(draft.scale(2_500, 15_000), stages)


@mechanism(NON_DL, shapes=((1, 1), (2, 1), (2, 2)))
def flow_solver(draft: Draft) -> None:
    """A solver of differential equations with MPI on CPUs: constant load, halos over the network each step."""
    cores = 0.95 * (draft.limit or draft.host.cores)
    halo = {"net_rx": 2e7, "net_tx": 2e7} if draft.nodes > 1 else {}
    draft.rss = draft.scale(5, 100) * GB
    draft.loop(
        draft.scale(3_000, 25_000),
        [
            Part(seconds=draft.scale(2, 20), spread=0.03, pod={"cpu": cores, **halo}, blame=NON_DL),
            Part(seconds=0.3, pod={"cpu": 0.5 * cores, "disk_write": 5e7}, blame=NON_DL),
        ],
    )


@mechanism(NON_DL, shapes=((1, 1),))
def video_conversion(draft: Draft) -> None:
    """A conversion of videos by a program that was built without support for GPUs."""
    cores = draft.between(0.6, 0.9) * (draft.limit or draft.host.cores)
    rates = np.array([draft.scale(1e6, 2e7), draft.scale(5e5, 8e6)])
    files = [
        Part(seconds=draft.scale(60, 600), spread=0.7, pod={"cpu": cores, "disk_read": rates[0]}, blame=NON_DL),
        Part(seconds=3, pod={"cpu": 0.4, "disk_write": 10 * rates[1], "net_tx": rates[1]}, blame=NON_DL),
    ]
    draft.rss = 3 * GB
    draft.loop(draft.scale(2_500, 14_000), files)
