"""Samples onto the grid: missing stays missing, and only the container's own life counts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.series import FloatArray, GpuSignal, JobFacts, PodFacts, PodSignal

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
T0 = START.timestamp()
STEP = timedelta(seconds=30)
POD = PodFacts(name="bert-0-x", uid="u", rank=0, gpus=1, started_at=START, ready=True)
FACTS = JobFacts(namespace="team", name="bert", uid="j", nodes=1, gpus_per_node=1, pods=(POD,))


def util(*points: tuple[float, float], facts: JobFacts = FACTS, minutes: float = 2) -> FloatArray:
    trace = Trace(signal=GpuSignal.UTIL, pod="bert-0-x", gpu="GPU-1", points=[(T0 + t, v) for t, v in points])
    series = job_series(facts, [trace], start=START, end=START + timedelta(minutes=minutes), step=STEP)
    return series.gpus[0].signals[GpuSignal.UTIL]


def test_a_step_holds_its_end_and_not_its_start() -> None:
    np.testing.assert_array_equal(util((0, 9), (30, 1), (31, 2), (60, 4), (120, 8)), [1, 3, np.nan, 8])


def test_a_value_scraped_twice_counts_once() -> None:
    np.testing.assert_array_equal(util((10, 50), (25, 50), (40, 70), (55, 70)), [50, 70, np.nan, np.nan])


def test_what_is_no_number_is_missing() -> None:
    np.testing.assert_array_equal(util((30, float("nan")), (60, float("inf"))), [np.nan] * 4)


def test_samples_outside_of_the_containers_life_are_anothers() -> None:
    own = replace(POD, started_at=START + timedelta(seconds=40), finished_at=START + timedelta(seconds=95))
    facts = replace(FACTS, pods=(own,))
    np.testing.assert_array_equal(util((30, 1), (60, 2), (90, 3), (120, 4), facts=facts), [np.nan, 2, 3, np.nan])


def test_a_container_that_has_not_started_has_no_samples() -> None:
    facts = replace(FACTS, pods=(replace(POD, started_at=None),))
    assert np.isnan(util((30, 1), facts=facts)).all()


def test_gpus_are_in_the_order_of_their_numbers_and_strangers_are_left_out() -> None:
    traces = [
        Trace(signal=GpuSignal.UTIL, pod=pod, gpu=f"GPU-{index}", index=str(index), points=[])
        for pod, index in (("bert-0-x", 10), ("bert-0-x", 9), ("other", 0))
    ]
    series = job_series(FACTS, traces, start=START, end=START + STEP, step=STEP)
    assert [gpu.index for gpu in series.gpus] == ["9", "10"]


def test_a_device_under_changed_labels_continues_its_series() -> None:
    traces = [
        Trace(signal=PodSignal.CPU, pod="bert-0-x", points=[(T0 + 30, 1.0)]),
        Trace(signal=PodSignal.CPU, pod="bert-0-x", points=[(T0 + 60, 2.0)]),
    ]
    series = job_series(FACTS, traces, start=START, end=START + 2 * STEP, step=STEP)
    np.testing.assert_array_equal(series.pods[0].signals[PodSignal.CPU], [1, 2])


@pytest.mark.parametrize("step", [timedelta(0), timedelta(seconds=-1)])
def test_a_step_must_be_positive(step: timedelta) -> None:
    with pytest.raises(ValueError, match="positive"):
        job_series(FACTS, [], start=START, end=START, step=step)


def test_a_time_needs_its_zone() -> None:
    with pytest.raises(ValueError, match="zone"):
        job_series(FACTS, [], start=START.replace(tzinfo=None), end=START, step=STEP)
