"""The metrics' source against a real Prometheus whose history is known sample by sample."""

import asyncio
import re
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from e2e.scenarios.metrics.recorded import NAMESPACE, History, RecordedPrometheus, Value, constant, until
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.screen import WINDOWS
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.controller.scan import EXAMINED
from stoker.diagnosis.idleness import idleness, screen_request
from stoker.diagnosis.job import diagnose
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import Category, Confidence, UnknownReason
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.screen import MetricsUnavailable, Screen
from stoker.telemetry.series import GpuSignal, JobFacts, PodFacts, PodSignal
from tests.controller.test_scan import World

pytestmark = pytest.mark.e2e

WINDOW = timedelta(minutes=60)
HOURS = 12
GPUS = 8
RESTING = 12
"""Jobs that a whole tick finds at rest."""
REST: dict[str, Value] = {
    "DCGM_FI_DEV_GPU_UTIL": constant(0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(0),
    "DCGM_FI_DEV_FB_USED": constant(20_000),
    "DCGM_FI_DEV_FB_FREE": constant(60_000),
    "DCGM_FI_DEV_POWER_USAGE": constant(118),
    "DCGM_FI_PROF_PCIE_RX_BYTES": constant(2e5),
}
IDLE_90_MINUTES: dict[str, Value] = REST | {
    "DCGM_FI_DEV_GPU_UTIL": until(5400, 90, 0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": until(5400, 0.88, 0),
    "DCGM_FI_DEV_POWER_USAGE": until(5400, 600, 120),
}
HOSTILE = 'bert"} or vector(0) #'


def without(value: Value, last: float, first: float) -> Value:
    """No samples from `first` to `last` seconds before the end."""
    return lambda age: None if last < age <= first else value(age)


def history(end: datetime) -> History:
    """One pod for each thing that a screen must tell apart; 200 series of GPUs over twelve hours."""
    story = History(end=end, seconds=HOURS * 3600)

    def pod(name: str, metrics: Mapping[str, Value], gpus: int = 1, **labels: str) -> None:
        for index in range(gpus):
            story.gpu(name, index, metrics, **labels)

    pod("idle", IDLE_90_MINUTES, GPUS)
    pod("idle-half-an-hour", REST | {"DCGM_FI_DEV_GPU_UTIL": until(1800, 90, 0)})
    pod("busy", REST | {"DCGM_FI_DEV_GPU_UTIL": constant(97), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(0.93)})
    pod("profiling-stuck", REST | {"DCGM_FI_DEV_GPU_UTIL": constant(99)})
    pod("utilization-stuck", REST | {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(0.4)})
    pod("pcie-only", REST | {"DCGM_FI_PROF_PCIE_RX_BYTES": constant(3e9)})
    pod("power-only", REST | {"DCGM_FI_DEV_POWER_USAGE": constant(400)})
    pod("one-spike", REST | {"DCGM_FI_DEV_GPU_UTIL": lambda age: 35 if 1200 <= age < 1230 else 0})
    for index in range(GPUS):
        story.gpu("one-busy-of-eight", index, REST | ({"DCGM_FI_DEV_GPU_UTIL": constant(80)} if index == 5 else {}))
    for index in range(GPUS - 1):
        story.gpu("one-without-samples", index, REST)
    pod("gap-of-ten-minutes", {metric: without(value, 600, 1200) for metric, value in REST.items()})
    pod("exporter-dead", {metric: without(value, -1, 600) for metric, value in REST.items()})
    pod(
        "not-a-number",
        REST
        | {"DCGM_FI_DEV_GPU_UTIL": constant(float("nan")), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(float("nan"))},
    )
    pod(
        "blank",
        REST
        | {"DCGM_FI_DEV_GPU_UTIL": constant(9223372036854775794)}
        | {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda _: None},
    )
    # Zeros, and then an exporter that has nothing more to say.
    pod("not-a-number-lately", REST | {"DCGM_FI_DEV_GPU_UTIL": until(2700, 0, float("nan"))})
    # The same beside a value that shows work.
    pod(
        "not-a-number-but-busy",
        REST
        | {
            "DCGM_FI_DEV_GPU_UTIL": until(2700, 0, float("nan")),
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(0.4),
        },
    )
    # One sample of an hour, off the minute.
    pod("one-not-a-number", REST | {"DCGM_FI_DEV_GPU_UTIL": lambda age: float("nan") if age == 1230 else 0})
    pod("one-blank", REST | {"DCGM_FI_DEV_GPU_UTIL": lambda age: 9223372036854775794 if age == 1200 else 0})
    pod("one-blank-but-busy", REST | {"DCGM_FI_DEV_GPU_UTIL": lambda age: 9223372036854775794 if age == 1200 else 99})
    story.gpu("shared-a", 0, REST, uuid="GPU-shared")
    story.gpu("shared-b", 0, REST, uuid="GPU-shared")
    # Another pod held the device until four minutes ago.
    story.gpu("before", 0, {metric: without(value, -1, 240) for metric, value in REST.items()}, uuid="GPU-handed-over")
    story.gpu("handed-over", 0, REST, uuid="GPU-handed-over")
    only_graphics = {name: value for name, value in REST.items() if name != "DCGM_FI_DEV_GPU_UTIL"}
    story.gpu("slice-idle", 0, only_graphics, uuid="GPU-mig", GPU_I_ID="1", GPU_I_PROFILE="1g.10gb")
    story.gpu(
        "slice-busy",
        0,
        only_graphics | {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": constant(0.5)},
        uuid="GPU-mig",
        GPU_I_ID="2",
        GPU_I_PROFILE="1g.10gb",
    )
    # Scraped without honouring the exporter's labels.
    pod("exporter", REST, namespace="gpu-operator", exported_namespace=NAMESPACE, exported_pod="relabelled")
    # dcgm-exporter 4.9: other names, base units.
    story.gpu(
        "new-names",
        0,
        {
            "DCGM_FI_DEV_GPU_UTIL_RATIO": until(5400, 0.9, 0),
            "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": until(5400, 0.8, 0),
            "DCGM_FI_DEV_FB_USED_BYTES": constant(20_000 * 1024 * 1024),
            "DCGM_FI_DEV_FB_FREE_BYTES": constant(60_000 * 1024 * 1024),
            "DCGM_FI_DEV_BOARD_POWER_WATTS": constant(118),
        },
    )
    pod(HOSTILE, IDLE_90_MINUTES)
    for number in range(RESTING):
        pod(f"resting-{number}-0", REST, GPUS)
    # At rest all the time, but for what nobody knows three hours ago.
    pod("rested-across-a-gap", {metric: without(value, 10_200, 10_800) for metric, value in REST.items()})
    pod(
        "rested-across-a-nan",
        REST | {"DCGM_FI_DEV_GPU_UTIL": lambda age: float("nan") if 10_200 < age <= 10_230 else 0},
    )

    for name, cores in (("idle", 0.04), ("new-names", 0.04)):
        story.pod(name, "container_cpu_usage_seconds_total", until(5400, 6.0, cores), container="trainer")
        # The whole pod's cgroup, and the same series by a second scrape job: neither may be added.
        story.pod(name, "container_cpu_usage_seconds_total", constant(50), container="")
        story.pod(name, "container_cpu_usage_seconds_total", until(5400, 6.0, cores), container="trainer", job="other")
        story.pod(name, "container_network_receive_bytes_total", until(5400, 4e6, 900), interface="eth0")
        story.pod(name, "container_network_transmit_bytes_total", until(5400, 1e6, 900), interface="eth0")
        story.pod(name, "container_memory_working_set_bytes", constant(64e9), counter=False, container="trainer")
        story.pod(name, "container_fs_writes_bytes_total", constant(1000), container="trainer", device="/dev/nvme0n1")
    return story


def facts(pod: str, gpus: int = 1, *, now: datetime, age: timedelta = timedelta(hours=HOURS)) -> JobFacts:
    return JobFacts(
        namespace=NAMESPACE,
        name="bert",
        uid="job",
        nodes=1,
        gpus_per_node=gpus,
        pods=(PodFacts(name=pod, uid="u", rank=0, node="gpu-1", gpus=gpus, started_at=now - age, ready=True),),
    )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> Iterator[RecordedPrometheus]:
    with RecordedPrometheus(tmp_path_factory.mktemp("prom"), history(now).lines()) as running:
        yield running


async def seen(
    source: PrometheusSource, pod: str, now: datetime, gpus: int = 1, *, age: timedelta = timedelta(hours=HOURS)
) -> Screen:
    """The screen of one job among several."""
    others = [facts(other, now=now) for other in ("busy", "one-spike", "nowhere")]
    jobs = [*others, facts(pod, gpus, now=now, age=age)]
    return (await source.screen([screen_request(job, window=WINDOW, now=now) for job in jobs], now))[-1]


async def judged(source: PrometheusSource, pod: str, now: datetime, gpus: int = 1) -> Idleness:
    screen = await seen(source, pod, now, gpus)
    return idleness(facts(pod, gpus, now=now), screen, window=WINDOW, min_coverage_percent=90, now=now)


@pytest.mark.parametrize(
    "pod, gpus, state, reason",
    [
        ("idle", 8, IdlenessState.IDLE, None),
        ("relabelled", 1, IdlenessState.IDLE, None),
        ("slice-idle", 1, IdlenessState.IDLE, None),
        ("new-names", 1, IdlenessState.IDLE, None),
        (HOSTILE, 1, IdlenessState.IDLE, None),
        ("handed-over", 1, IdlenessState.IDLE, None),
        ("idle-half-an-hour", 1, IdlenessState.ACTIVE, None),
        ("busy", 1, IdlenessState.ACTIVE, None),
        ("profiling-stuck", 1, IdlenessState.ACTIVE, None),
        ("utilization-stuck", 1, IdlenessState.ACTIVE, None),
        ("pcie-only", 1, IdlenessState.ACTIVE, None),
        ("power-only", 1, IdlenessState.ACTIVE, None),
        ("one-spike", 1, IdlenessState.ACTIVE, None),
        ("one-busy-of-eight", 8, IdlenessState.ACTIVE, None),
        ("slice-busy", 1, IdlenessState.ACTIVE, None),
        ("one-without-samples", 8, IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES),
        ("nowhere", 1, IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES),
        ("exporter", 1, IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES),
        ("not-a-number", 1, IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES),
        ("blank", 1, IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES),
        ("not-a-number-lately", 1, IdlenessState.UNKNOWN, UnknownReason.PARTIAL),
        ("not-a-number-but-busy", 1, IdlenessState.ACTIVE, None),
        ("one-not-a-number", 1, IdlenessState.UNKNOWN, UnknownReason.PARTIAL),
        ("one-blank", 1, IdlenessState.UNKNOWN, UnknownReason.PARTIAL),
        ("one-blank-but-busy", 1, IdlenessState.ACTIVE, None),
        ("gap-of-ten-minutes", 1, IdlenessState.UNKNOWN, UnknownReason.PARTIAL),
        ("exporter-dead", 1, IdlenessState.UNKNOWN, UnknownReason.STALE),
        ("shared-a", 1, IdlenessState.UNKNOWN, UnknownReason.PARTIAL),
    ],
)
async def test_a_screen_tells_idle_from_everything_that_is_not(
    source: PrometheusSource, now: datetime, pod: str, gpus: int, state: IdlenessState, reason: UnknownReason | None
) -> None:
    answer = await judged(source, pod, now, gpus)
    assert (answer.state, answer.reason) == (state, reason), answer.message


async def test_idle_since_is_the_end_of_the_work(source: PrometheusSource, now: datetime) -> None:
    """Five-minute steps: up to five minutes late, never early."""
    for pod, gpus in (("idle", 8), ("new-names", 1)):
        since = (await judged(source, pod, now, gpus)).since
        assert since is not None
        # The last sample with work is 90 minutes and 30 seconds old.
        assert timedelta(0) <= since - (now - timedelta(seconds=5430)) <= timedelta(minutes=5)


@pytest.mark.parametrize("pod", ["rested-across-a-gap", "rested-across-a-nan"])
async def test_an_idle_stretch_reaches_over_nothing_that_is_not_known(
    source: PrometheusSource, now: datetime, pod: str
) -> None:
    """Neither a gap of ten minutes nor a single sample that is no value is taken for rest."""
    since = (await judged(source, pod, now)).since
    assert since is not None
    # From the last time of which nothing is known to the first sample after it, which is an interval later at either
    # end, and from there to the next step of five minutes.
    assert timedelta(0) <= since - (now - timedelta(seconds=10_230)) <= timedelta(minutes=6)


async def test_a_job_younger_than_the_window_is_not_idle_yet(source: PrometheusSource, now: datetime) -> None:
    young = facts("idle", 8, now=now, age=timedelta(minutes=50))
    screen = await seen(source, "idle", now, 8, age=timedelta(minutes=50))
    answer = idleness(young, screen, window=WINDOW, min_coverage_percent=90, now=now)
    assert answer.state is IdlenessState.ACTIVE
    assert "counts as idle after 60 min" in answer.message


async def test_series_are_what_was_recorded(source: PrometheusSource, now: datetime) -> None:
    job = facts("idle", 8, now=now)
    series = await source.series(job, now - timedelta(hours=HOURS), now, timedelta(seconds=30))
    assert series.complete
    assert len(series.gpus) == 8
    assert [gpu.index for gpu in series.gpus] == [str(index) for index in range(8)]
    age = now.timestamp() - series.times
    for signal, before, after in (
        (GpuSignal.UTIL, 90, 0),
        (GpuSignal.GRAPHICS, 88, 0),
        (GpuSignal.POWER, 600, 120),
        (GpuSignal.MEMORY_USED, 20_000, 20_000),
    ):
        values = series.gpus[0].signals[signal]
        np.testing.assert_allclose(values[age > 5460][2:], before)
        np.testing.assert_allclose(values[age < 5340], after)
    cpu = next(pod.signals[PodSignal.CPU] for pod in series.pods)
    known = cpu[(age < 5000) & np.isfinite(cpu)]
    np.testing.assert_allclose(known, 0.04, rtol=0.01)


async def test_a_gap_stays_a_gap(source: PrometheusSource, now: datetime) -> None:
    job = facts("gap-of-ten-minutes", now=now)
    series = await source.series(job, now - timedelta(hours=2), now, timedelta(seconds=30))
    util = series.gpus[0].signals[GpuSignal.UTIL]
    age = now.timestamp() - series.times
    assert np.isnan(util[(age > 660) & (age < 1140)]).all()
    assert np.isfinite(util[(age > 1300) | (age < 500)]).all()


async def test_new_names_come_in_the_same_units(source: PrometheusSource, now: datetime) -> None:
    job = facts("new-names", now=now)
    series = await source.series(job, now - timedelta(hours=3), now, timedelta(seconds=30))
    signals = series.gpus[0].signals
    age = now.timestamp() - series.times
    np.testing.assert_allclose(signals[GpuSignal.UTIL][age > 5460][2:], 90)
    np.testing.assert_allclose(signals[GpuSignal.MEMORY_USED], 20_000)


async def test_the_container_clips_its_series(source: PrometheusSource, now: datetime) -> None:
    """What the GPU did before the container started is another's."""
    job = facts("idle", 8, now=now, age=timedelta(hours=1))
    series = await source.series(job, now - timedelta(hours=3), now, timedelta(seconds=30))
    age = now.timestamp() - series.times
    assert np.isnan(series.gpus[0].signals[GpuSignal.UTIL][age > 3660]).all()


async def test_from_prometheus_to_a_finding(source: PrometheusSource, now: datetime) -> None:
    job = facts("idle", 8, now=now)
    series = await source.series(job, now - timedelta(hours=HOURS), now, timedelta(seconds=30))
    diagnosis = diagnose(job, series, (), BUILT_IN.thresholds, now)
    assert diagnosis.unknown is None
    assert diagnosis.utilization is not None
    # 10.5 of 12 hours at 88 %.
    assert diagnosis.utilization.average_percent == pytest.approx(77, abs=0.5)
    (finding,) = diagnosis.findings
    assert (finding.category, finding.confidence) == (Category.UNRELEASED_JOB, Confidence.LIKELY)
    assert finding.gpu_hours_idle == pytest.approx(8 * 1.5, rel=0.02)


async def test_an_empty_prometheus_knows_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RecordedPrometheus(tmp_path_factory.mktemp("empty")) as empty:
        async with PrometheusSource(PrometheusAccess(url=empty.url)) as source:
            now = datetime.now(UTC)
            answer = await judged(source, "idle", now)
            assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES)
            job = facts("idle", now=now)
            series = await source.series(job, now - timedelta(hours=1), now, timedelta(seconds=30))
            assert diagnose(job, series, (), BUILT_IN.thresholds, now).unknown is UnknownReason.NO_SAMPLES

            empty.stop()
            with pytest.raises(MetricsUnavailable, match="refused") as down:
                await seen(source, "idle", now)
            assert down.value.reason is UnknownReason.PROMETHEUS_UNAVAILABLE


async def test_partial_answers_prove_activity_but_never_idleness(
    tmp_path_factory: pytest.TempPathFactory, now: datetime
) -> None:
    """A Prometheus whose remote storage fails answers with what it has, and a warning."""
    story = History(end=now, seconds=3 * 3600)
    story.gpu("idle", 0, REST)
    story.gpu("busy", 0, REST | {"DCGM_FI_DEV_GPU_UTIL": constant(97)})
    folder = tmp_path_factory.mktemp("partial")
    with RecordedPrometheus(folder, story.lines(), failing_remote_read=True) as prometheus:
        async with PrometheusSource(PrometheusAccess(url=prometheus.url), max_skew=None) as source:
            assert not (await seen(source, "idle", now)).complete
            answer = await judged(source, "idle", now)
            assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.PARTIAL)
            assert "remote" in answer.message
            assert (await judged(source, "busy", now)).state is IdlenessState.ACTIVE
            job = facts("idle", now=now)
            series = await source.series(job, now - timedelta(hours=1), now, timedelta(seconds=30))
            assert not series.complete
            assert diagnose(job, series, (), BUILT_IN.thresholds, now).unknown is UnknownReason.PARTIAL


async def test_a_scrape_a_minute_is_full_coverage(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> None:
    story = History(end=now, seconds=3 * 3600, step=60)
    story.gpu(
        "idle",
        0,
        REST | {"DCGM_FI_DEV_GPU_UTIL": until(5400, 90, 0), "DCGM_FI_PROF_GR_ENGINE_ACTIVE": until(5400, 0.9, 0)},
    )
    with RecordedPrometheus(tmp_path_factory.mktemp("minute"), story.lines()) as prometheus:
        async with PrometheusSource(PrometheusAccess(url=prometheus.url), max_skew=None) as source:
            assert (await judged(source, "idle", now)).state is IdlenessState.IDLE
            job = facts("idle", now=now, age=timedelta(hours=3))
            series = await source.series(job, now - timedelta(hours=3), now, timedelta(seconds=30))
            used = diagnose(job, series, (), BUILT_IN.thresholds, now).utilization
            assert used is not None
            assert used.coverage_percent == pytest.approx(100, abs=1)
            assert used.average_percent == pytest.approx(45, abs=1)


async def test_a_clock_that_is_not_prometheus_own_is_noticed(prometheus: RecordedPrometheus, now: datetime) -> None:
    async with PrometheusSource(PrometheusAccess(url=prometheus.url)) as source:
        with pytest.raises(MetricsUnavailable, match="clock") as skewed:
            await seen(source, "idle", now - timedelta(minutes=20))
        assert skewed.value.reason is UnknownReason.STALE


async def test_the_loop_is_free_while_prometheus_is_asked(source: PrometheusSource, now: datetime) -> None:
    """No blocking call: other work of the loop goes on during a screen."""
    turns = 0
    asking = asyncio.create_task(seen(source, "idle", now))
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    await asking
    assert turns > 100


async def test_a_screen_costs_three_queries_whatever_the_number_of_jobs_and_windows(
    prometheus: RecordedPrometheus, source: PrometheusSource, now: datetime
) -> None:
    """By Prometheus' own count: a summary, a detailed check, since when. A job's series cost two."""
    pods = {track.labels["pod"] for track in history(now).tracks}
    jobs = [facts(pod, now=now) for pod in sorted(pods)]
    before = asked(prometheus)
    windows = (timedelta(minutes=10 + number) for number in range(len(jobs)))
    screens = await source.screen(
        [screen_request(job, window=window, now=now) for job, window in zip(jobs, windows, strict=True)], now
    )
    screened = asked(prometheus)
    assert len({screen.window for screen in screens}) == WINDOWS
    await source.series(facts("idle", 8, now=now), now - timedelta(hours=HOURS), now, timedelta(seconds=30))
    assert (screened - before, asked(prometheus) - screened) == (3, 2)


async def test_a_tick_asks_six_queries_at_most_beside_its_examinations(
    prometheus: RecordedPrometheus, source: PrometheusSource, now: datetime
) -> None:
    """The controller's whole tick over 50 jobs with windows of their own, by Prometheus' own count."""
    world = World(source)
    world.clock.time = now
    for number in range(50):
        window = {"idleAfter": f"{10 + number}m"}
        world.add(f"resting-{number}", started=rfc3339(now - timedelta(hours=7)), reclaim=window)
    for _ in range(2):
        before = asked(prometheus)
        await world.tick()
        assert asked(prometheus) - before <= 6 + 2 * EXAMINED
    states = [world.state(f"resting-{number}") for number in range(50)]
    assert states == [IdlenessState.IDLE] * RESTING + [IdlenessState.UNKNOWN] * (50 - RESTING)


async def test_of_many_jobs_each_is_judged_by_its_own_window(source: PrometheusSource, now: datetime) -> None:
    jobs = {"idle": facts("idle", 8, now=now)}
    jobs |= {pod: facts(pod, now=now) for pod in ("idle-half-an-hour", "one-spike", "new-names")}
    windows = [timedelta(minutes=minutes) for minutes in (15, 25, 45, 80)]
    for turn in range(len(jobs)):
        windows_of = dict(zip(jobs, windows[turn:] + windows[:turn], strict=True))
        screens = await source.screen([screen_request(jobs[pod], window=windows_of[pod], now=now) for pod in jobs], now)
        for pod, screen in zip(jobs, screens, strict=True):
            window = windows_of[pod]
            assert screen.window == window
            answer = idleness(jobs[pod], screen, window=window, min_coverage_percent=90, now=now)
            rested = {"idle-half-an-hour": timedelta(minutes=30), "one-spike": timedelta(minutes=20)}.get(pod, window)
            assert answer.state is (IdlenessState.IDLE if window <= rested else IdlenessState.ACTIVE), (pod, window)


def asked(prometheus: RecordedPrometheus) -> int:
    """How many queries the server has answered."""
    with urllib.request.urlopen(f"{prometheus.url}/metrics") as answer:
        text = answer.read().decode()
    counts = re.findall(
        r'^prometheus_http_requests_total\{.*handler="/api/v1/query(?:_range)?".*\} (\S+)$', text, re.MULTILINE
    )
    return int(sum(map(float, counts)))
