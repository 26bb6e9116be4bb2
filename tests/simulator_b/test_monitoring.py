"""What exporters and queries make of a job that is known exactly."""

from dataclasses import replace

import numpy as np
import pytest

from simulator import Tier
from simulator_b import DrawnJob, draw, record
from simulator_b.track import GPU_FLOWS, GPU_LEVELS, POD_FLOWS, POD_LEVELS, Block, Track
from stoker.telemetry.series import GpuSignal, JobSeries, PodSignal


def played(busy: float, period: float, seconds: float = 14_400.0, seed: int = 1) -> DrawnJob:
    """One GPU that works for the first part `busy` of each period, at 300 W over an otherwise constant 80 W."""
    job = draw("grid-search", seed)
    count = int(seconds / period)
    lengths = np.tile([busy * period, (1 - busy) * period], count)
    on = np.tile([1.0, 0.0], count)
    gpu = Block(lengths, {"busy": on, "sm": on, "rx": 1e9 * on, "watts": 80 + 300 * on, "memory": 9e3, "context": 1.0})
    pod = Block(lengths, {"cpu": 1.5, "net_rx": 2e7, "rss": 1e9})
    facts = replace(job.facts, nodes=1, gpus_per_node=1, pods=(replace(job.facts.pods[0], gpus=1, finished_at=None),))
    return replace(
        job,
        facts=facts,
        life=count * period,
        gpus=(Track.of([gpu], GPU_FLOWS, GPU_LEVELS),),
        pods=(Track.of([pod], POD_FLOWS, POD_LEVELS),),
    )


def gpu(series: JobSeries, signal: GpuSignal) -> np.ndarray:
    values = series.gpus[0].signals[signal]
    return values[np.isfinite(values)]


def pod(series: JobSeries, signal: PodSignal) -> np.ndarray:
    values = series.pods[0].signals[signal]
    return values[np.isfinite(values)]


def test_means_over_intervals_agree_with_the_truth() -> None:
    _, series, _ = record(played(0.4, 7.0), Tier.EXTRAS)

    assert gpu(series, GpuSignal.GRAPHICS).mean() == pytest.approx(40, rel=0.05)
    assert gpu(series, GpuSignal.POWER).mean() == pytest.approx(80 + 0.4 * 300, rel=0.02)
    assert gpu(series, GpuSignal.PCIE_RX).mean() == pytest.approx(0.4e9, rel=0.2)
    assert gpu(series, GpuSignal.PCIE_RX).mean() >= 0.4e9 * 0.97
    assert pod(series, PodSignal.CPU).mean() == pytest.approx(1.5, rel=0.01)
    assert pod(series, PodSignal.NET_RX).mean() == pytest.approx(2e7, rel=0.01)


def test_utilization_is_that_of_the_last_moment_and_no_mean() -> None:
    """A cycle of a minute reads as all or nothing, where the mean over the interval lies between."""
    util = np.concatenate(
        [gpu(record(played(0.5, 57.0, seed=seed), Tier.UTIL_ONLY)[1], GpuSignal.UTIL) for seed in range(5)]
    )
    between = ((util > 5) & (util < 95)).mean()

    assert between < 0.5  # steps that hold two samples are means of two moments
    assert util.mean() == pytest.approx(50, abs=8)


@pytest.mark.parametrize("seed", range(4))
def test_a_tier_with_more_signals_has_the_same_values_of_the_others(seed: int) -> None:
    job = draw("shard-by-shard", seed)
    least, most = (record(job, tier)[1] for tier in (Tier.UTIL_ONLY, Tier.EXTRAS))

    assert set(least.gpus[0].signals) == {GpuSignal.UTIL}
    assert set(least.pods[0].signals) < set(most.pods[0].signals)
    for one, other in ((least.gpus[0], most.gpus[0]), (least.pods[0], most.pods[0])):
        for signal, values in one.signals.items():
            np.testing.assert_array_equal(values, other.signals[signal])  # type: ignore[index]  # of the same kind


def test_what_is_missing_is_never_zero() -> None:
    """A GPU that always works never reads idle, whatever scrapes fail."""
    shares = []
    for seed in range(25):
        _, series, _ = record(played(0.999, 100.0, seed=seed), Tier.DEFAULTS)
        shares.append(float(np.isfinite(series.gpus[0].signals[GpuSignal.UTIL]).mean()))
        assert np.median(gpu(series, GpuSignal.UTIL)) == 100
        assert gpu(series, GpuSignal.MEMORY_USED).min() > 8e3
        for signal in (PodSignal.NET_RX, PodSignal.CPU):
            assert pod(series, signal).min() >= 0

    assert min(shares) < 0.99 <= max(shares)


def test_some_exporters_may_not_read_profiling_fields_and_then_have_none() -> None:
    signals = [set(record(played(0.5, 9.0, 1_800.0, seed), Tier.DEFAULTS)[1].gpus[0].signals) for seed in range(80)]
    without = [one for one in signals if GpuSignal.GRAPHICS not in one]

    assert 0 < len(without) < 20
    assert all(GpuSignal.TENSOR not in one and GpuSignal.POWER in one for one in without)
