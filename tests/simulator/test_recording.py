"""What monitoring shows of a simulated job, and what it hides."""

import numpy as np
import pytest

from simulator import CASES, SimulatedJob, Tier, record, simulate
from simulator.timeline import GPU_FIELDS
from stoker.telemetry.series import FloatArray, GpuSignal, PodSignal

ENGINE, RX, POWER = (GPU_FIELDS.index(name) for name in ("engine", "rx", "power"))


def clean(case: str) -> SimulatedJob:
    """A job of the case whose recording has no exporter fault."""
    return next(
        job
        for job in (simulate(case, seed) for seed in range(50))
        if GpuSignal.GRAPHICS in (signals := record(job, Tier.DEFAULTS)[1].gpus[0].signals)
        and np.nanmax(signals[GpuSignal.GRAPHICS]) > 0
    )


def first_gpu(job: SimulatedJob, tier: Tier, signal: GpuSignal) -> FloatArray:
    return record(job, tier)[1].gpus[0].signals[signal]


def test_each_tier_adds_signals_to_the_one_below() -> None:
    job = simulate("steady", 1)
    extras = record(job, Tier.EXTRAS)[1]
    defaults, least = record(job, Tier.DEFAULTS)[1], record(job, Tier.UTIL_ONLY)[1]

    assert set(least.gpus[0].signals) == {GpuSignal.UTIL}
    assert set(defaults.gpus[0].signals) - set(extras.gpus[0].signals) == set()
    assert set(extras.gpus[0].signals) - set(defaults.gpus[0].signals) == {GpuSignal.SM_ACTIVE, GpuSignal.NVLINK}
    assert PodSignal.CPU_PRESSURE in extras.pods[0].signals
    assert set(least.pods[0].signals) == set(defaults.pods[0].signals) < set(extras.pods[0].signals)


def test_the_engine_s_interval_means_give_the_job_s_true_utilization() -> None:
    job = clean("preprocessing-cores")

    assert np.nanmean(first_gpu(job, Tier.DEFAULTS, GpuSignal.GRAPHICS)) == pytest.approx(job.utilization, abs=2)


def test_a_short_window_every_30_s_shows_anything_but_the_mean_where_the_load_changes_within_seconds() -> None:
    job = clean("reinforcement-learning")
    util, mean = (first_gpu(job, Tier.DEFAULTS, one) for one in (GpuSignal.UTIL, GpuSignal.GRAPHICS))

    assert np.nanstd(util) > 2 * np.nanstd(mean)


def test_what_a_counter_s_rates_add_up_to_is_what_the_pod_sent() -> None:
    job = simulate("checkpoint-remote", 3)
    series = record(job, Tier.DEFAULTS)[1]
    sent = series.pods[0].signals[PodSignal.NET_TX]
    truth = job.pods[0].pod_total(np.array([job.life]))[0, 3]

    assert np.nanmean(sent) * job.life == pytest.approx(truth, rel=0.05)


def test_the_same_job_and_tier_always_give_the_same_samples() -> None:
    one, other = (record(simulate("read-mount", 5), Tier.EXTRAS)[1] for _ in range(2))

    for left, right in zip(one.gpus, other.gpus, strict=True):
        for signal, values in left.signals.items():
            np.testing.assert_array_equal(values, right.signals[signal])


def test_profiling_shows_nothing_or_zero_in_some_jobs_while_most_are_well() -> None:
    seen = {"well": 0, "absent": 0, "stuck": 0}
    for seed in range(100):
        engine = (
            record(simulate("small-batch-recurrent", seed), Tier.DEFAULTS)[1].gpus[0].signals.get(GpuSignal.GRAPHICS)
        )
        seen["absent" if engine is None else "well" if np.nansum(engine) else "stuck"] += 1
        if all(seen.values()):
            break

    assert seen["well"] > seen["absent"] > 0
    assert seen["well"] > seen["stuck"] > 0


def test_a_scrape_that_fails_leaves_a_gap_and_no_zero() -> None:
    jobs = [simulate("hung-at-start", seed) for seed in range(12)]
    utils = [record(job, Tier.UTIL_ONLY)[1].gpus[0].signals[GpuSignal.UTIL][20:-2] for job in jobs]

    assert any(np.isnan(util).any() for util in utils)
    assert all(np.nanmin(util) > 90 for util in utils)


def test_a_job_whose_containers_never_started_has_facts_and_no_samples() -> None:
    facts, series, now = record(simulate("init-container", 1), Tier.DEFAULTS)

    assert not series.gpus
    assert all(pod.started_at is None and pod.waiting_for for pod in facts.pods)
    assert now > simulate("init-container", 1).started_at


def test_a_look_in_the_middle_of_a_job_s_life_sees_half_of_it() -> None:
    job = next(job for job in (simulate("steady", seed) for seed in range(9)) if job.facts.pods[0].finished_at)
    half = job.started_at + (record(job, Tier.DEFAULTS)[2] - job.started_at) / 2

    whole, (facts, part, now) = record(job, Tier.DEFAULTS)[1], record(job, Tier.DEFAULTS, half)
    assert len(part.times) == pytest.approx(len(whole.times) / 2, abs=1)
    assert now == half
    assert all(pod.finished_at is None and pod.ready for pod in facts.pods)


def test_a_time_before_the_job_is_refused() -> None:
    job = simulate("steady", 1)

    with pytest.raises(ValueError, match="is not after the job's start"):
        record(job, Tier.DEFAULTS, job.started_at)


@pytest.mark.parametrize("case", CASES)
def test_every_case_can_be_recorded(case: str) -> None:
    facts, series, now = record(simulate(case, 11), Tier.EXTRAS)

    assert facts.gpus == facts.nodes * facts.gpus_per_node
    assert len(series.gpus) == sum(pod.gpus for pod in facts.pods if pod.started_at is not None)
    assert now.tzinfo is not None
