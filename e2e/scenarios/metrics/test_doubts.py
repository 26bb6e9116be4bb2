"""What a real Prometheus must make of series that hide work or that nobody should believe."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from e2e.scenarios.metrics.recorded import History, RecordedPrometheus, Value, constant
from stoker.adapters.prometheus.access import LabelMatcher, PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.diagnosis.idleness import idleness
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import ScreenRequest
from stoker.telemetry.series import JobFacts, PodFacts

LONG = timedelta(hours=8)
HOUR = timedelta(hours=1)
UTIL, GRAPHICS = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
POWER, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
REST = {UTIL: constant(0), GRAPHICS: constant(0)}
H200 = "NVIDIA H200"


def without(value: Value, *gaps: tuple[float, float]) -> Value:
    """Without samples in these times, in seconds before the end."""
    return lambda age: None if any(end < age <= start for start, end in gaps) else value(age)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> Iterator[RecordedPrometheus]:
    story = History(end=now, seconds=10 * 3600)
    gaps = {
        "gap-of-twelve-minutes": [(7_200.0, 6_480.0)],
        "gaps-of-seven-minutes": [(start, start - 420.0) for start in (4_000.0, 9_000.0, 15_000.0, 21_000.0)],
        "gap-before-the-window": [(30_600.0, 29_400.0)],
    }
    for pod, spans in gaps.items():
        story.gpu(pod, 0, {metric: without(value, *spans) for metric, value in REST.items()})
    story.gpu("h200-at-rest", 0, REST | {POWER: constant(124)}, modelName=H200)
    story.gpu("h200-swings", 0, REST | {POWER: lambda age: 160 if int(age) % 600 < 60 else 124}, modelName=H200)
    story.gpu("h200-even", 0, REST | {POWER: constant(540)}, modelName=H200)
    story.gpu("h200-decayed", 0, REST | {POWER: lambda age: 600 if age > 4_000 else 124}, modelName=H200)
    # Kernels between the samples of utilization, which the energy counter has: 40 W more on average for ten minutes.
    kernels: Value = lambda age: 70_000.0 if 1_200 < age <= 1_800 else 30_000.0  # noqa: E731 - milliwatts
    story.gpu("l4-kernels", 0, REST, modelName="NVIDIA L4")
    story.gpu("l4-rest", 0, REST, modelName="NVIDIA L4")
    for pod, watts in (("l4-kernels", kernels), ("l4-rest", constant(30_000.0))):
        story.pod(pod, ENERGY, watts, UUID=f"GPU-{pod}-0", gpu="0", modelName="NVIDIA L4", container="trainer")
    # An exporter that knows the pods and is stuck, and one that does not and tells the truth.
    story.gpu("stuck", 0, REST)
    story.gpu("", 0, {UTIL: constant(93)}, uuid="GPU-stuck-0", namespace="", container="", job="other")
    # A tenant's own exporter.
    story.gpu("unsampled", 0, REST, job="tenant/fake")
    story.gpu("sampled", 0, REST, job="dcgm-exporter", cluster="a")
    story.gpu("sampled", 1, REST | {UTIL: constant(99)}, job="tenant/fake")
    with RecordedPrometheus(tmp_path_factory.mktemp("doubts"), story.lines()) as running:
        yield running


async def judged(
    source: PrometheusSource, pod: str, now: datetime, window: timedelta = HOUR, *, coverage: float = 90.0
) -> Idleness:
    held = PodFacts(name=pod, uid=pod, rank=0, gpus=1, started_at=now - timedelta(hours=9.5), ready=True)
    facts = JobFacts(namespace="team", name=pod, uid=pod, nodes=1, gpus_per_node=1, pods=(held,))
    (screen,) = await source.screen([ScreenRequest(pods=(("team", pod),), window=window)], now)
    return idleness(facts, screen, window=window, min_coverage_percent=coverage, now=now)


async def test_a_gap_longer_than_ten_minutes_ends_a_window_whatever_share_is_covered(
    source: PrometheusSource, now: datetime
) -> None:
    answer = await judged(source, "gap-of-twelve-minutes", now, LONG)
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.PARTIAL)
    assert "for more than 10 min within the last 8.0 h" in answer.message
    assert answer.coverage_percent is not None
    assert answer.coverage_percent >= 95
    # Until it lies before the window: the rest begins behind it.
    late = await judged(source, "gap-of-twelve-minutes", now)
    assert late.state is IdlenessState.IDLE
    assert late.since is not None
    assert late.since >= now - timedelta(seconds=6_480 + 60)


@pytest.mark.parametrize("pod", ["gaps-of-seven-minutes", "gap-before-the-window"])
async def test_shorter_gaps_count_as_missing_samples_only(source: PrometheusSource, pod: str, now: datetime) -> None:
    assert (await judged(source, pod, now, LONG)).state is IdlenessState.IDLE


@pytest.mark.parametrize(
    "pod, state",
    [
        ("h200-at-rest", IdlenessState.IDLE),
        ("h200-swings", IdlenessState.ACTIVE),
        ("h200-even", IdlenessState.ACTIVE),
        ("h200-decayed", IdlenessState.ACTIVE),
        ("l4-rest", IdlenessState.IDLE),
        ("l4-kernels", IdlenessState.ACTIVE),
    ],
)
async def test_power_contradicts_for_models_of_which_no_figure_is_known(
    source: PrometheusSource, pod: str, state: IdlenessState, now: datetime
) -> None:
    if pod == "h200-even":
        # What rest draws is learned from another GPU of the model.
        await judged(source, "h200-at-rest", now)
    assert (await judged(source, pod, now, HOUR if pod != "h200-decayed" else 2 * HOUR)).state is state


async def test_another_exporters_values_of_the_same_device_count(source: PrometheusSource, now: datetime) -> None:
    answer = await judged(source, "stuck", now)
    assert answer.state is IdlenessState.ACTIVE
    assert "util was over its idle level" in answer.message


async def test_only_series_that_the_matchers_believe_are_read(prometheus: RecordedPrometheus, now: datetime) -> None:
    async def ask(pod: str, *matchers: str) -> Idleness:
        access = PrometheusAccess(url=prometheus.url, matchers=tuple(map(LabelMatcher.parse, matchers)))
        async with PrometheusSource(access, max_skew=None) as source:
            return await judged(source, pod, now)

    assert (await ask("unsampled")).state is IdlenessState.IDLE
    answer = await ask("unsampled", 'job=~"dcgm-exporter|kubelet"')
    assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES)
    assert (await ask("sampled")).state is IdlenessState.ACTIVE
    assert (await ask("sampled", "job=dcgm-exporter")).state is IdlenessState.IDLE
    assert (await ask("sampled", "job=dcgm-exporter", "cluster=b")).state is IdlenessState.UNKNOWN
