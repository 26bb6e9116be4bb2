"""Simulated jobs obey their own physics, and agree with what the study measured."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.hardware import A100, V100
from simulator.job import Story
from simulator.networks import BERT_LARGE, RESNET50, SWIN_BASE, VIDEO
from simulator.timeline import GPU_FIELDS, POD_FIELDS, GpuUse, Pattern, PodUse, Stretch, Timeline
from simulator.training import Exchange, Storage, Training

ENGINE, POWER, RX = GPU_FIELDS.index("engine"), GPU_FIELDS.index("power"), GPU_FIELDS.index("rx")
CPU, RECEIVED, SENT = POD_FIELDS.index("cpu"), POD_FIELDS.index("net_rx"), POD_FIELDS.index("net_tx")
IMAGES = Training(gpu=A100, network=RESNET50, batch=256, cpu_limit=8, workers=8, cpu_per_sample=2e-3)


def played(training: Training, seconds: float = 600.0, seed: int = 0) -> Timeline:
    """Only steps, no start-up."""
    story = Story(np.random.default_rng(seed), training)
    story.train(story.regime(), seconds)
    return story.timeline()


def mean(timeline: Timeline, role: str, field: int) -> float:
    return float(timeline.integral(role, np.array([timeline.duration]))[0, field] / timeline.duration)


def utilization(training: Training) -> float:
    return 100 * mean(played(training), "lead", ENGINE)


# ------------------------------------------------------------------------------------------------------- conservation


def test_integrals_over_any_cuts_add_up_to_the_whole() -> None:
    timeline = played(IMAGES, 300.0)
    cuts = np.sort(np.random.default_rng(3).uniform(0, 300, 500))

    for role in ("lead", "head"):
        totals = timeline.integral(role, np.concatenate([[0.0], cuts, [300.0]]))
        assert (np.diff(totals, axis=0) >= -1e-6 * np.abs(totals[-1])).all()
        assert np.diff(totals, axis=0).sum(axis=0) == pytest.approx(totals[-1])


def test_the_integral_of_a_pattern_is_the_sum_of_its_stretches_whatever_part_is_played() -> None:
    def stretch(seconds: float, rx: float) -> Stretch:
        return Stretch(seconds=seconds, activity="any", uses={"lead": GpuUse(rx=rx)})

    timeline = Timeline([(Pattern([stretch(1, 10), stretch(2, 40)]), 7.5), (Pattern([stretch(5, 2)]), 5)])

    received = timeline.integral("lead", np.array([0.5, 1.5, 3.0, 7.5, 8.5, 20.0]))[:, RX]
    # 90 a round; two rounds and 1.5 s; then 2 a second, which goes on after the end
    assert received == pytest.approx([5, 30, 90, 180 + 10 + 20, 212, 210 + 25])


def test_what_runs_beside_a_regime_adds_to_it() -> None:
    regime = Pattern([Stretch(seconds=2, activity="any", uses={"head": PodUse(cpu=1)})])
    both = Timeline([(regime.over({"head": PodUse(cpu=0.5, net_tx=7)}), 3)])

    total = both.integral("head", np.array([3.0]))[0]
    assert (total[CPU], total[SENT]) == pytest.approx((4.5, 21))


def test_a_job_receives_the_bytes_of_the_samples_that_it_trains_on() -> None:
    training = replace(IMAGES, storage=Storage.OBJECTS, latency=5e-3, bandwidth=1e9, cpu_per_sample=1e-4)
    timeline = played(training, 900.0)

    steps = mean(timeline, "lead", ENGINE) * 900 / training.busy
    samples = steps * training.batch
    assert mean(timeline, "head", RECEIVED) * 900 == pytest.approx(samples * RESNET50.stored_bytes, rel=0.08)


def test_no_pod_uses_more_cores_than_its_limit_and_no_gpu_more_power_than_its_own() -> None:
    timeline = played(replace(IMAGES, cpu_per_sample=0.1))
    times = np.arange(0.0, 600.0, 0.1)

    assert timeline.value("head", times)[:, CPU].max() <= 8.0
    power = timeline.value("lead", times)[:, POWER]
    assert power.min() >= A100.context
    assert power.max() <= A100.limit


def test_a_checkpoint_sends_its_size_and_lasts_as_long_as_the_link_needs() -> None:
    story = Story(np.random.default_rng(1), replace(IMAGES, network=BERT_LARGE))
    seconds = story.checkpoint(4e9, 1e8, remote=True)

    sent = story.timeline().integral("head", np.array([seconds]))[0, SENT]
    assert sent == pytest.approx(4e9, rel=0.05)
    assert seconds == pytest.approx(4e9 / 1e8 + 4e9 / (A100.pageable * 1e9))


# -------------------------------------------------------------------------------------------------- what halving does

BOUND: dict[str, tuple[Training, dict[str, Any]]] = {
    "cores": (replace(IMAGES, cpu_per_sample=5e-3), {"cpu_limit": 4.0}),
    "workers": (replace(IMAGES, cpu_per_sample=5e-3, cpu_limit=64, workers=4), {"workers": 2}),
    "bandwidth": (
        replace(IMAGES, storage=Storage.MOUNT, bandwidth=1.2e8, cpu_per_sample=1e-4),
        {"bandwidth": 6e7},
    ),
    "pageable copies": (
        replace(IMAGES, network=replace(VIDEO, gflop=4), batch=32, pinned=False, cpu_per_sample=0.0),
        {"gpu": replace(A100, pageable=A100.pageable / 2)},
    ),
    "network between nodes": (
        Training(
            gpu=A100,
            network=BERT_LARGE,
            batch=16,
            ranks=8,
            ranks_per_pod=4,
            exchange=Exchange.HOST,
            network_bandwidth=1.2e9,
        ),
        {"network_bandwidth": 6e8},
    ),
}


@pytest.mark.parametrize("resource", BOUND)
def test_utilization_falls_by_nearly_half_when_what_bounds_it_is_halved(resource: str) -> None:
    training, half = BOUND[resource]

    before, after = utilization(training), utilization(replace(training, **half))
    assert before < 80
    assert 0.4 * before < after < 0.75 * before


def test_more_of_what_does_not_bound_it_changes_nothing() -> None:
    assert utilization(replace(IMAGES, cpu_per_sample=5e-3, bandwidth=1e12)) == pytest.approx(
        utilization(replace(IMAGES, cpu_per_sample=5e-3)), abs=0.5
    )


def test_pinned_copies_run_beside_the_kernels_and_pageable_ones_do_not() -> None:
    training = replace(IMAGES, network=VIDEO, batch=24, cpu_per_sample=0.0)

    assert utilization(training) > utilization(replace(training, pinned=False)) + 5
    assert mean(played(training), "lead", RX) > mean(played(replace(training, pinned=False)), "lead", RX)


def test_peers_spin_in_nccl_while_rank_0_saves_and_rest_where_the_host_waits() -> None:
    ranks = replace(IMAGES, network=BERT_LARGE, ranks=4, ranks_per_pod=4)
    for exchange, engine in ((Exchange.NCCL, 1.0), (Exchange.HOST, 0.0)):
        story = Story(np.random.default_rng(1), replace(ranks, exchange=exchange))
        seconds = story.checkpoint(4e9, 1e8, remote=True)
        writing = np.array([seconds - 1.0])
        assert story.timeline().value("peers", writing)[0, ENGINE] == engine
        assert story.timeline().value("lead", writing)[0, ENGINE] == 0.0


# --------------------------------------------------------------------------------- the study's tables (section 4.5)

# 8 V100, batch sizes of all GPUs together. One number was fitted for each model: the host's time a step.
BERT = Training(
    gpu=V100, network=BERT_LARGE, batch=4, ranks=8, ranks_per_pod=8, exchange=Exchange.NCCL, host_gap=27e-3, overlap=1.0
)
SWIN = replace(
    BERT,
    network=replace(SWIN_BASE, name="swin-large", parameters=197, gflop=34.5, activations=720),
    batch=1,
    host_gap=19e-3,
)
STUDY = [
    *((BERT, 8, *row) for row in ((32, 64.40, 19.46), (64, 70.43, 22.03), (128, 79.40, 27.92), (256, 85.59, 39.15))),
    *((BERT, 8, *row) for row in ((512, 88.48, 61.53), (768, 90.78, 84.87))),
    *((SWIN, 8, *row) for row in ((8, 57.79, 13.95), (16, 63.80, 16.49), (32, 73.90, 21.14), (64, 79.36, 29.97))),
    *((SWIN, 8, *row) for row in ((128, 82.46, 48.12), (256, 85.05, 84.86))),
]


@pytest.mark.parametrize("training, gpus, batch, percent, memory", STUDY)
def test_utilization_and_memory_follow_the_study_s_batch_sizes(
    training: Training, gpus: int, batch: int, percent: float, memory: float
) -> None:
    training = replace(training, batch=batch // gpus)

    assert 100 * training.gpu_memory / training.gpu.memory == pytest.approx(memory, abs=6)
    assert utilization(training) == pytest.approx(percent, abs=12)


def test_an_epoch_of_168_s_that_saves_for_96_s_is_used_as_the_study_says() -> None:
    """Section 4.2: 96 s of a 168 s epoch saving, 39.57 % in all, on one V100."""
    training = replace(BERT, batch=48, ranks=1, ranks_per_pod=1, exchange=Exchange.NONE, cpu_per_sample=0.0)
    story = Story(np.random.default_rng(5), training)
    regime = story.regime()
    for _ in range(20):
        story.train(regime, 72)
        story.wait(96, "checkpoint")

    assert 100 * mean(story.timeline(), "lead", ENGINE) == pytest.approx(39.57, abs=3)
