"""The safety rules of reclaim, as far as metrics go: missing is never idle, a contradiction means active."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.diagnosis.idleness import idleness, screen_request
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import GpuWindow, PodKey, PodSummary, Screen
from stoker.telemetry.series import GpuSignal, JobFacts, PodFacts

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
WINDOW = timedelta(minutes=60)
REST: Mapping[GpuSignal, float] = {
    GpuSignal.UTIL: 0,
    GpuSignal.GRAPHICS: 0,
    GpuSignal.PCIE_RX: 2e5,
    GpuSignal.POWER: 95,
    GpuSignal.MEMORY_USED: 20_000,
}


def gpu(index: int, **changes: object) -> GpuWindow:
    known = GpuWindow(
        gpu=f"GPU-{index}",
        index=str(index),
        peaks=REST,
        coverage_percent=100,
        last_sample_at=NOW - timedelta(seconds=20),
        context_idle_watts=80,
    )
    return replace(known, **changes)  # type: ignore[arg-type]  # any field


def job(nodes: int = 2, gpus: int = 4, started: timedelta = timedelta(hours=5)) -> JobFacts:
    return JobFacts(
        namespace="team",
        name="bert",
        uid="j",
        nodes=nodes,
        gpus_per_node=gpus,
        pods=tuple(
            PodFacts(name=f"bert-{rank}", uid=f"u{rank}", rank=rank, gpus=gpus, started_at=NOW - started, ready=True)
            for rank in range(nodes)
        ),
    )


def screen(facts: JobFacts, changed: Mapping[tuple[int, int], GpuWindow | None] | None = None) -> Screen:
    """Every GPU at rest, but for the changed ones: (rank, index); None takes the GPU away."""
    gpus: dict[PodKey, tuple[GpuWindow, ...]] = {}
    for pod in facts.pods:
        windows = [(changed or {}).get((pod.rank, index), gpu(10 * pod.rank + index)) for index in range(pod.gpus)]
        gpus["team", pod.name] = tuple(window for window in windows if window is not None)
    return Screen(at=NOW, window=WINDOW, gpus=gpus)


def judge(facts: JobFacts, seen: Screen, window: timedelta = WINDOW, now: datetime = NOW) -> Idleness:
    return idleness(facts, seen, window=window, min_coverage_percent=90, now=now)


def test_a_job_whose_every_gpu_rests_is_idle() -> None:
    answer = judge(job(), screen(job()))
    assert answer.state is IdlenessState.IDLE
    assert answer.since == NOW - WINDOW
    assert answer.pod_uids == {"u0", "u1"}


def test_idle_since_reaches_back_as_far_as_every_gpu_was_quiet() -> None:
    facts = job(nodes=1, gpus=2)
    early, late = NOW - timedelta(hours=3), NOW - timedelta(hours=2)
    seen = screen(facts, {(0, 0): gpu(0, quiet_since=early), (0, 1): gpu(1, quiet_since=late)})
    assert judge(facts, seen).since == late


def test_idle_since_never_lies_before_the_latest_start() -> None:
    facts = job(nodes=1, gpus=1, started=timedelta(minutes=70))
    seen = screen(facts, {(0, 0): gpu(0, quiet_since=NOW - timedelta(hours=9))})
    assert judge(facts, seen).since == NOW - timedelta(minutes=70)


@pytest.mark.parametrize(
    "signal, peak",
    [
        (GpuSignal.UTIL, 1),
        (GpuSignal.GRAPHICS, 0.4),
        (GpuSignal.SM_ACTIVE, 0.4),
        (GpuSignal.TENSOR, 0.4),
        (GpuSignal.DRAM, 2),
        (GpuSignal.PCIE_RX, 2e7),
        (GpuSignal.PCIE_TX, 2e7),
        (GpuSignal.NVLINK, 1e9),
        (GpuSignal.ENCODER, 3),
        (GpuSignal.DECODER, 3),
        (GpuSignal.POWER, 96),
    ],
)
def test_any_signal_of_any_gpu_over_its_idle_level_means_active(signal: GpuSignal, peak: float) -> None:
    facts = job()
    answer = judge(facts, screen(facts, {(1, 3): gpu(13, peaks={**REST, signal: peak})}))
    assert answer.state is IdlenessState.ACTIVE
    assert answer.message.startswith(f"GPU 13 of pod bert-1: {signal} was over its idle level of ")
    assert answer.message.endswith(" in the last 60 min")


def test_power_up_to_fifteen_watts_over_context_idle_is_rest() -> None:
    facts = job(nodes=1, gpus=1)
    assert (
        judge(facts, screen(facts, {(0, 0): gpu(0, peaks={**REST, GpuSignal.POWER: 95})})).state is IdlenessState.IDLE
    )


def test_power_without_anything_to_compare_it_with_says_nothing() -> None:
    facts = job(nodes=1, gpus=1)
    seen = screen(facts, {(0, 0): gpu(0, peaks={**REST, GpuSignal.POWER: 300}, context_idle_watts=None)})
    assert judge(facts, seen).state is IdlenessState.IDLE


def test_allocated_memory_is_no_activity() -> None:
    facts = job(nodes=1, gpus=1)
    seen = screen(facts, {(0, 0): gpu(0, peaks={**REST, GpuSignal.MEMORY_USED: 79_000})})
    assert judge(facts, seen).state is IdlenessState.IDLE


@pytest.mark.parametrize("signal, peak", [(GpuSignal.UTIL, 1), (GpuSignal.GRAPHICS, 0.4)])
def test_work_at_a_glance_means_active_whatever_a_close_look_says(signal: GpuSignal, peak: float) -> None:
    facts = job()
    summaries = {
        ("team", "bert-0"): PodSummary(averages={signal: 0}),
        ("team", "bert-1"): PodSummary(averages={signal: peak}),
    }
    for gpus in (screen(facts).gpus, {}):
        answer = judge(facts, Screen(at=NOW, window=WINDOW, summaries=summaries, gpus=gpus))
        assert answer.state is IdlenessState.ACTIVE
        assert f"GPUs of pod bert-1: {signal} was over its idle level" in answer.message


def test_rest_at_a_glance_proves_nothing() -> None:
    facts = job()
    summaries = {("team", pod.name): PodSummary(averages={GpuSignal.UTIL: 0}) for pod in facts.pods}
    answer = judge(facts, Screen(at=NOW, window=WINDOW, summaries=summaries, deferred=True))
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.PARTIAL)
    young = job(started=timedelta(minutes=20))
    answer = judge(young, Screen(at=NOW, window=WINDOW, summaries=summaries))
    assert answer.state is IdlenessState.ACTIVE
    assert "started at 2026-11-21T11:40:00Z" in answer.message


def test_a_pod_that_not_even_a_glance_has_seen_has_no_samples() -> None:
    facts = job()
    summaries = {("team", "bert-0"): PodSummary(averages={GpuSignal.UTIL: 0})}
    answer = judge(facts, Screen(at=NOW, window=WINDOW, summaries=summaries))
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES)


@pytest.mark.parametrize(
    "facts, detailed",
    [
        (job(), True),
        (job(started=WINDOW), True),
        (job(started=timedelta(minutes=59)), False),
        (replace(job(), pods=job().pods[:1]), False),
        (replace(job(), pods=(job().pods[0], replace(job().pods[1], ready=False))), False),
        (replace(job(), pods=(job().pods[0], replace(job().pods[1], started_at=None))), False),
    ],
)
def test_a_detailed_check_is_asked_for_only_where_a_job_can_be_idle(facts: JobFacts, *, detailed: bool) -> None:
    asked = screen_request(facts, window=WINDOW, now=NOW)
    assert asked.detailed is detailed
    assert asked.pods == tuple(("team", pod.name) for pod in facts.pods)


@pytest.mark.parametrize(
    "changed, reason",
    [
        (None, UnknownReason.NO_SAMPLES),
        (gpu(13, peaks={}), UnknownReason.NO_SAMPLES),
        (gpu(13, peaks={GpuSignal.UTIL: math.nan}), UnknownReason.NO_SAMPLES),
        (gpu(13, peaks={GpuSignal.POWER: 80, GpuSignal.PCIE_RX: 0}), UnknownReason.NO_SAMPLES),
        (gpu(12), UnknownReason.NO_SAMPLES),
        (gpu(13, last_sample_at=None), UnknownReason.STALE),
        (gpu(13, last_sample_at=NOW - timedelta(minutes=4)), UnknownReason.STALE),
        (gpu(13, coverage_percent=89.9), UnknownReason.PARTIAL),
        (gpu(13, coverage_percent=math.nan), UnknownReason.PARTIAL),
        (gpu(13, doubtful=True), UnknownReason.PARTIAL),
        (gpu(13, shared=True), UnknownReason.PARTIAL),
        (gpu(13, has_gap=True), UnknownReason.PARTIAL),
        (gpu(13, partition=True, peaks={GpuSignal.UTIL: 0, GpuSignal.POWER: 95}), UnknownReason.NO_SAMPLES),
        (gpu(13, shared=True, peaks={**REST, GpuSignal.UTIL: 99}), UnknownReason.PARTIAL),
    ],
)
def test_one_gpu_that_can_not_be_judged_makes_the_job_unknown(changed: GpuWindow | None, reason: UnknownReason) -> None:
    facts = job()
    answer = judge(facts, screen(facts, {(1, 3): changed}))
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, reason)
    assert answer.message


def test_gpus_that_are_not_counted_make_a_resting_job_unknown_and_a_working_one_active() -> None:
    """A claim for four more GPUs: the one that is counted rests, and that is all that samples can say."""
    facts = job()
    claims = replace(facts, pods=(facts.pods[0], replace(facts.pods[1], uncounted_gpus="resource claim gpus")))
    answer = judge(claims, screen(claims))
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.UNCOUNTED_GPUS)
    assert "pod bert-1" in answer.message
    assert "resource claim gpus" in answer.message
    busy = screen(claims, {(0, 0): gpu(0, peaks={**REST, GpuSignal.UTIL: 99})})
    assert judge(claims, busy).state is IdlenessState.ACTIVE


def test_coverage_at_the_bound_is_enough() -> None:
    facts = job(nodes=1, gpus=1)
    answer = judge(facts, screen(facts, {(0, 0): gpu(0, coverage_percent=90)}))
    assert (answer.state, answer.coverage_percent) == (IdlenessState.IDLE, 90)


def test_a_partial_answer_proves_activity_but_not_idleness() -> None:
    facts = job()
    partial = replace(screen(facts), complete=False, message="remote_read: connection refused")
    answer = judge(facts, partial)
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.PARTIAL)
    assert "remote_read" in answer.message
    busy = screen(facts, {(0, 0): gpu(0, peaks={**REST, GpuSignal.UTIL: 99})})
    assert judge(facts, replace(busy, complete=False)).state is IdlenessState.ACTIVE


def test_a_doubtful_gpu_that_shows_activity_is_active() -> None:
    facts = job()
    busy = gpu(13, doubtful=True, peaks={**REST, GpuSignal.GRAPHICS: 40})
    assert judge(facts, screen(facts, {(1, 3): busy})).state is IdlenessState.ACTIVE


def test_an_old_screen_and_one_from_the_future_are_stale() -> None:
    facts = job()
    for now in (NOW + timedelta(minutes=4), NOW - timedelta(minutes=2)):
        answer = judge(facts, screen(facts), now=now)
        assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.STALE)


def test_a_screen_shorter_than_the_window_proves_nothing() -> None:
    facts = job()
    assert judge(facts, screen(facts), window=timedelta(hours=2)).state is IdlenessState.UNKNOWN


def test_the_clock_starts_with_the_latest_container() -> None:
    facts = job()
    young = replace(facts.pods[1], started_at=NOW - timedelta(minutes=59))
    answer = judge(replace(facts, pods=(facts.pods[0], young)), screen(facts))
    assert answer.state is IdlenessState.ACTIVE
    assert "started at 2026-11-21T11:01:00Z" in answer.message


def test_a_job_younger_than_the_screen_is_not_idle_even_if_its_own_window_is_shorter() -> None:
    """The screen's window reaches back before the start: what it says is not about this job alone."""
    facts = job(started=timedelta(minutes=40))
    assert judge(facts, screen(facts), window=timedelta(minutes=30)).state is IdlenessState.ACTIVE


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ready": False}, "not ready"),
        ({"terminating": True}, "terminating"),
        ({"started_at": None}, "has not started"),
        ({"finished_at": NOW - timedelta(hours=1)}, "has ended"),
    ],
)
def test_a_job_with_a_pod_that_does_not_run_waits(changes: Mapping[str, object], message: str) -> None:
    facts = job()
    changed = replace(facts, pods=(facts.pods[0], replace(facts.pods[1], **changes)))  # type: ignore[arg-type]  # any field
    answer = judge(changed, screen(facts))
    assert answer.state is IdlenessState.WAITING
    assert message in answer.message


def test_a_job_with_too_few_pods_waits() -> None:
    facts = job()
    assert judge(replace(facts, pods=facts.pods[:1]), screen(facts)).state is IdlenessState.WAITING


def test_a_job_without_gpus_is_never_idle() -> None:
    facts = job(nodes=1, gpus=0)
    assert judge(facts, screen(facts)).state is IdlenessState.UNKNOWN


signals = st.sampled_from(list(GpuSignal))
values = st.one_of(
    st.floats(min_value=0, max_value=1e11), st.just(math.nan), st.just(math.inf), st.just(0.0), st.just(0.3)
)
windows = st.builds(
    lambda index, peaks, coverage, age, watts, shared, doubtful, has_gap: gpu(
        index,
        peaks=peaks,
        coverage_percent=coverage,
        last_sample_at=None if age is None else NOW - timedelta(seconds=age),
        context_idle_watts=watts,
        shared=shared,
        doubtful=doubtful,
        has_gap=has_gap,
    ),
    st.integers(0, 3),
    st.dictionaries(signals, values),
    st.one_of(st.floats(0, 100), st.just(math.nan), st.just(100.0)),
    st.one_of(st.none(), st.integers(0, 600)),
    st.one_of(st.none(), st.just(80.0)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def test_gpus_of_a_product_shared_in_time_say_nothing_though_the_exporter_does_not_tell() -> None:
    facts = replace(job(), gpu_product="NVIDIA-A100-SXM4-80GB-SHARED")
    seen = idleness(facts, screen(facts), window=WINDOW, min_coverage_percent=90, now=NOW)
    assert (seen.state, seen.reason) == (IdlenessState.UNKNOWN, UnknownReason.PARTIAL)
    assert "shared by several pods" in seen.message


@given(st.lists(windows, max_size=4), st.booleans())
def test_nothing_is_idle_unless_every_gpu_of_the_pod_speaks_lately_and_often(
    seen: list[GpuWindow], complete: bool
) -> None:
    """Whatever the screen holds: Idle means four devices, each with enough and fresh samples, none shared."""
    facts = job(nodes=1, gpus=4)
    answer = judge(facts, Screen(at=NOW, window=WINDOW, gpus={("team", "bert-0"): tuple(seen)}, complete=complete))
    if answer.state is IdlenessState.IDLE:
        assert complete
        assert len({window.gpu for window in seen}) == 4
        for window in seen:
            assert window.coverage_percent >= 90
            assert window.last_sample_at is not None
            assert not window.shared
            assert not window.doubtful
            assert not window.has_gap
            primary = [window.peaks.get(GpuSignal.UTIL, math.nan), window.peaks.get(GpuSignal.GRAPHICS, math.nan)]
            assert any(math.isfinite(value) for value in primary)


@given(
    st.integers(0, 3),
    st.sampled_from([GpuSignal.UTIL, GpuSignal.GRAPHICS, GpuSignal.PCIE_TX, GpuSignal.ENCODER]),
    st.lists(windows, min_size=3, max_size=3),
)
def test_one_busy_gpu_is_never_idle(place: int, signal: GpuSignal, others: list[GpuWindow]) -> None:
    facts = job(nodes=1, gpus=4)
    seen = [*others[:place], gpu(9, peaks={**REST, signal: 1e8}), *others[place:]]
    answer = judge(facts, Screen(at=NOW, window=WINDOW, gpus={("team", "bert-0"): tuple(seen)}))
    assert answer.state is not IdlenessState.IDLE


@given(st.integers(0, 3), windows)
def test_taking_a_gpus_samples_away_never_makes_a_job_idle(place: int, other: GpuWindow) -> None:
    facts = job(nodes=1, gpus=4)
    seen = [gpu(0), gpu(1), gpu(2), other]
    del seen[place]
    answer = judge(facts, Screen(at=NOW, window=WINDOW, gpus={("team", "bert-0"): tuple(seen)}))
    assert answer.state is not IdlenessState.IDLE
