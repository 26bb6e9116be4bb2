"""What goes wrong between a GPU and us, on a real Prometheus: it ends in Unknown with a reason, or in the right number,
never in "idle" and never in a wrong one.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from e2e.clock import off_by
from e2e.scenarios.metrics.recorded import NAMESPACE, History, RecordedPrometheus, Value, constant
from e2e.telemetry.proxy import application
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.diagnosis.idleness import idleness, screen_request
from stoker.diagnosis.job import diagnose
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.findings.vocabulary import UnknownReason
from stoker.policy.effective import BUILT_IN
from stoker.telemetry.screen import MetricsUnavailable
from stoker.telemetry.series import JobFacts, PodFacts

pytestmark = pytest.mark.e2e

WINDOW = timedelta(minutes=60)
HOURS = 3
FOREIGN = 10_000
UTIL, GRAPHICS = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
LOOK = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.diagnosis.idleness import screen_request
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.telemetry.series import JobFacts, PodFacts

async def look():
    now = datetime.now(UTC)
    pod = PodFacts(name="idle", uid="a", rank=0, gpus=1, started_at=now - timedelta(hours=2))
    job = JobFacts(namespace="team", name="idle", uid="a", nodes=1, gpus_per_node=1, pods=(pod,))
    async with PrometheusSource(PrometheusAccess(url=sys.argv[1])) as source:
        await source.screen([screen_request(job, window=timedelta(hours=1), now=now)], now)

asyncio.run(look())
"""
IDLE: dict[str, Value] = {UTIL: constant(0), GRAPHICS: constant(0), "DCGM_FI_DEV_FB_USED": constant(20_000)}
BUSY: dict[str, Value] = IDLE | {UTIL: constant(90), GRAPHICS: constant(0.8)}


def between(value: Value, oldest: float, newest: float) -> Value:
    """Samples of these ages only."""
    return lambda age: value(age) if newest <= age <= oldest else None


def cut(metrics: Mapping[str, Value], oldest: float, newest: float) -> dict[str, Value]:
    return {metric: between(value, oldest, newest) for metric, value in metrics.items()}


def history(end: datetime) -> History:
    """Jobs that would be called idle, each with something wrong, and some that work."""
    story = History(end=end, seconds=HOURS * 3600)
    story.gpu("idle", 0, IDLE)
    story.gpu("busy", 0, BUSY)
    # What is older was dropped by the retention.
    story.gpu("forgotten", 0, cut(IDLE, 4500, 0))
    # Another pod of that name elsewhere, which rests; and one whose name only begins alike.
    story.gpu("namesake", 0, BUSY)
    story.gpu("namesake", 0, IDLE, namespace="other-team", uuid="GPU-other")
    story.gpu("namesake-2", 0, IDLE, uuid="GPU-2")
    # Scraped without honouring labels: the exporter's own pod stands where the workload's should.
    clash = {"namespace": "gpu-operator", "exported_namespace": NAMESPACE, "exported_pod": "clashing"}
    story.gpu("exporter", 0, BUSY, uuid="GPU-clash", **clash)
    # A program's own metric under the exporter's name: it says of no device.
    story.gpu("boasting", 0, IDLE, uuid="GPU-boast")
    story.gpu("boasting", 0, {UTIL: constant(100)}, UUID="", job="my-app")
    # Two exporters on one node, and two replicas of Prometheus; of the former one may not see what works.
    for exporter in ("gpu-1:9400", "gpu-1:9500"):
        for replica in ("a", "b"):
            story.gpu("told-four-times", 0, IDLE, instance=exporter, prometheus_replica=replica)
    story.gpu("half-blind", 0, BUSY, instance="gpu-1:9400")
    story.gpu("half-blind", 0, IDLE, instance="gpu-1:9500")
    # The device broke 40 minutes ago; the pod got another one.
    story.gpu("replaced", 3, cut(BUSY, 1e9, 2400), uuid="GPU-broken")
    story.gpu("replaced", 3, cut(IDLE, 2399, 0), uuid="GPU-fresh")
    return story


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, now: datetime) -> Iterator[RecordedPrometheus]:
    with RecordedPrometheus(tmp_path_factory.mktemp("prom"), history(now).lines()) as running:
        yield running


def facts(name: str, now: datetime, *, age: timedelta = timedelta(hours=HOURS)) -> JobFacts:
    pod = PodFacts(name=name, uid=name, rank=0, node="gpu-1", gpus=1, started_at=now - age, ready=True)
    return JobFacts(namespace=NAMESPACE, name=name, uid=name, nodes=1, gpus_per_node=1, pods=(pod,))


async def judged(source: PrometheusSource, job: JobFacts, now: datetime) -> Idleness:
    [screen] = await source.screen([screen_request(job, window=WINDOW, now=now)], now)
    return idleness(job, screen, window=WINDOW, min_coverage_percent=90, now=now)


async def diagnosed(source: PrometheusSource, job: JobFacts, now: datetime) -> Diagnosis:
    start = min(pod.started_at for pod in (*job.pods, *job.former_pods) if pod.started_at is not None)
    series = await source.series(job, start, now, timedelta(seconds=30))
    return diagnose(job, series, (), BUILT_IN.thresholds, now)


async def unavailable(source: PrometheusSource, now: datetime) -> list[MetricsUnavailable]:
    """Why neither a screen nor a series can be had."""
    job = facts("idle", now)
    reasons: list[MetricsUnavailable] = []
    for look in (judged(source, job, now), diagnosed(source, job, now)):
        with pytest.raises(MetricsUnavailable) as refused:
            await look
        reasons.append(refused.value)
    return reasons


@asynccontextmanager
async def failing(
    upstream: str, *, timeout: timedelta = timedelta(seconds=6), **fault: Any
) -> AsyncIterator[PrometheusSource]:
    """That server behind a proxy that misbehaves."""
    runner = web.AppRunner(application(upstream), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with ClientSession() as session, session.put(f"{url}/-/fault", json=fault) as answer:
            assert answer.status == 204
        async with PrometheusSource(PrometheusAccess(url=url, timeout=timeout), max_skew=None) as source:
            yield source
    finally:
        await runner.cleanup()


# --------------------------------------------------------------------------------------------------------- the server


@pytest.mark.parametrize(
    "fault, said",
    [
        ({"mode": "slow", "seconds": 30}, "did not answer within 0.5 s"),
        ({"mode": "error", "status": 500}, "500"),
        ({"mode": "error", "status": 503}, "503"),
        ({"mode": "error", "status": 429}, "429"),
        ({"mode": "reset"}, "can't be reached"),
        ({"mode": "truncate"}, "can't be reached"),
    ],
)
async def test_a_server_that_fails_makes_everything_unknown(
    prometheus: RecordedPrometheus, now: datetime, fault: dict[str, Any], said: str
) -> None:
    async with failing(prometheus.url, timeout=timedelta(seconds=0.5), **fault) as source:
        for error in await unavailable(source, now):
            assert error.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
            assert said in error.message


async def test_a_server_that_is_down_makes_everything_unknown(now: datetime) -> None:
    async with PrometheusSource(PrometheusAccess(url="http://127.0.0.1:9")) as source:
        for error in await unavailable(source, now):
            assert error.reason is UnknownReason.PROMETHEUS_UNAVAILABLE
            assert "refused" in error.message


async def test_an_answer_without_rows_is_not_idle(prometheus: RecordedPrometheus, now: datetime) -> None:
    async with failing(prometheus.url, mode="empty") as source:
        answer = await judged(source, facts("idle", now), now)
        assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, UnknownReason.NO_SAMPLES)
        assert (await diagnosed(source, facts("idle", now), now)).unknown is UnknownReason.NO_SAMPLES


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
async def test_an_answer_in_part_is_not_idle(prometheus: RecordedPrometheus, now: datetime, keep: float) -> None:
    async with failing(prometheus.url, mode="partial", keep=keep) as source:
        answer = await judged(source, facts("idle", now), now)
        assert answer.state is IdlenessState.UNKNOWN
        found = await diagnosed(source, facts("idle", now), now)
        assert found.unknown is UnknownReason.PARTIAL
        assert found.findings == ()
        assert found.idle_since is None


async def test_a_query_that_is_too_large_is_asked_more_coarsely(tmp_path: Path, now: datetime) -> None:
    """The server's own bound on samples, far below what 30 s over three hours need."""
    story = History(end=now, seconds=HOURS * 3600)
    story.gpu("busy", 0, BUSY)
    with RecordedPrometheus(tmp_path, story.lines(), options=["--query.max-samples=500"]) as small:
        async with PrometheusSource(PrometheusAccess(url=small.url), max_skew=None) as source:
            job = facts("busy", now)
            series = await source.series(job, now - timedelta(hours=HOURS), now, timedelta(seconds=30))
            assert series.step > 30
            used = diagnose(job, series, (), BUILT_IN.thresholds, now).utilization
            assert used is not None
            assert used.average_percent == pytest.approx(80, abs=1)


async def test_a_bound_that_no_query_keeps_is_said(tmp_path: Path, now: datetime) -> None:
    story = History(end=now, seconds=600)
    story.gpu("busy", 0, BUSY)
    with RecordedPrometheus(tmp_path, story.lines(), options=["--query.max-samples=2"]) as tiny:
        async with PrometheusSource(PrometheusAccess(url=tiny.url), max_skew=None) as source:
            with pytest.raises(MetricsUnavailable, match="too many samples"):
                await diagnosed(source, facts("busy", now), now)


# ------------------------------------------------------------------------------------------------------------- clocks


@pytest.mark.parametrize("minutes", [5, -5])
async def test_a_clock_of_ours_that_is_off_makes_everything_unknown(
    prometheus: RecordedPrometheus, minutes: int
) -> None:
    wrong = datetime.now(UTC) + timedelta(minutes=minutes)
    async with PrometheusSource(PrometheusAccess(url=prometheus.url)) as source:
        with pytest.raises(MetricsUnavailable, match="clock") as refused:
            await judged(source, facts("idle", wrong), wrong)
        assert refused.value.reason is UnknownReason.STALE
        if minutes > 0:
            # Five minutes that Prometheus can't have yet would look like a gap.
            with pytest.raises(MetricsUnavailable, match="behind ours"):
                await diagnosed(source, facts("idle", wrong), wrong)


@pytest.mark.parametrize("minutes", [5, -5])
def test_a_process_whose_clock_is_off_knows_it(prometheus: RecordedPrometheus, tmp_path: Path, minutes: int) -> None:
    """By libfaketime, on a Python of its own."""
    program = tmp_path / "look.py"
    program.write_text(LOOK)
    environment = off_by(minutes) | {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, str(program), prometheus.url]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60)
    side = "behind" if minutes > 0 else "ahead of"
    assert f"s {side} ours" in done.stderr


@pytest.mark.parametrize("minutes, reason", [(-5, UnknownReason.STALE), (5, UnknownReason.PARTIAL)])
async def test_samples_of_another_clock_prove_no_idleness(tmp_path: Path, minutes: int, reason: UnknownReason) -> None:
    """An agent that stamps the samples of its node itself, five minutes off."""
    now = datetime.now(UTC)
    story = History(end=now + timedelta(minutes=minutes), seconds=HOURS * 3600)
    story.gpu("idle", 0, IDLE)
    with RecordedPrometheus(tmp_path, story.lines()) as skewed:
        async with PrometheusSource(PrometheusAccess(url=skewed.url)) as source:
            answer = await judged(source, facts("idle", now), now)
            assert (answer.state, answer.reason) == (IdlenessState.UNKNOWN, reason)


# --------------------------------------------------------------------------------------------------------- the samples


async def test_what_the_retention_dropped_widens_the_bounds(source: PrometheusSource, now: datetime) -> None:
    """75 of 180 minutes are known, at 0: the job may have used up to 58 % of its GPU, and nobody calls that low."""
    found = await diagnosed(source, facts("forgotten", now), now)
    assert found.utilization is not None
    assert found.utilization.average_percent is None
    assert found.utilization.coverage_percent == pytest.approx(42, abs=1)
    assert found.utilization.average_percent_range is not None
    low, high = found.utilization.average_percent_range
    assert low == pytest.approx(0, abs=0.1)
    assert high == pytest.approx(58, abs=1)


async def test_a_namesake_in_another_namespace_is_another(source: PrometheusSource, now: datetime) -> None:
    job = facts("namesake", now)
    assert (await judged(source, job, now)).state is IdlenessState.ACTIVE
    found = await diagnosed(source, job, now)
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(80, abs=0.5)


async def test_labels_that_clash_are_read_from_where_prometheus_keeps_them(
    source: PrometheusSource, now: datetime
) -> None:
    assert (await judged(source, facts("clashing", now), now)).state is IdlenessState.ACTIVE
    found = await diagnosed(source, facts("clashing", now), now)
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(80, abs=0.5)
    exporter = replace(facts("exporter", now), namespace="gpu-operator")
    assert (await judged(source, exporter, now)).reason is UnknownReason.NO_SAMPLES
    assert (await diagnosed(source, exporter, now)).unknown is UnknownReason.NO_SAMPLES


async def test_a_programs_own_metric_is_no_devices(source: PrometheusSource, now: datetime) -> None:
    found = await diagnosed(source, facts("boasting", now), now)
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(0, abs=0.1)


async def test_a_gpu_that_is_told_four_times_rests_once(source: PrometheusSource, now: datetime) -> None:
    job = facts("told-four-times", now)
    assert (await judged(source, job, now)).state is IdlenessState.IDLE
    found = await diagnosed(source, job, now)
    assert found.utilization is not None
    assert found.utilization.coverage_percent == pytest.approx(100, abs=1)
    assert found.utilization.gpu_hours == pytest.approx(HOURS, abs=0.05)
    assert len(found.utilization.gpus) == 1


async def test_an_exporter_that_sees_nothing_hides_no_work(source: PrometheusSource, now: datetime) -> None:
    job = facts("half-blind", now)
    assert (await judged(source, job, now)).state is IdlenessState.ACTIVE
    found = await diagnosed(source, job, now)
    assert found.utilization is not None
    assert found.utilization.average_percent == pytest.approx(80, abs=0.5)


async def test_a_replaced_gpu_is_two_devices_of_one_life(source: PrometheusSource, now: datetime) -> None:
    """140 minutes at 80 % and 40 at 0: neither the old device's work nor the new one's rest is lost."""
    job = facts("replaced", now)
    assert (await judged(source, job, now)).state is not IdlenessState.IDLE
    found = await diagnosed(source, job, now)
    assert found.utilization is not None
    assert found.utilization.coverage_percent == pytest.approx(100, abs=1)
    assert found.utilization.average_percent == pytest.approx(80 * 140 / 180, abs=1)


async def test_ten_thousand_foreign_series_change_nothing(tmp_path: Path, now: datetime) -> None:
    story = History(end=now, seconds=4500, step=60)
    for number in range(FOREIGN):
        foreign: Value = constant(number % 100)
        story.gpu(f"pod-{number // 8}", number % 8, {UTIL: foreign}, namespace=f"team-{number % 97}")
    story.gpu("idle", 0, IDLE)
    story.gpu("busy", 0, BUSY)
    with RecordedPrometheus(tmp_path, story.lines()) as crowded:
        async with PrometheusSource(PrometheusAccess(url=crowded.url), max_skew=None) as source:
            age = timedelta(seconds=4500)
            for name, state in (("idle", IdlenessState.IDLE), ("busy", IdlenessState.ACTIVE)):
                job = facts(name, now, age=age)
                answer = await judged(source, job, now)
                assert answer.state is state, answer.message
            found = await diagnosed(source, facts("busy", now, age=age), now)
            assert found.utilization is not None
            assert found.utilization.average_percent == pytest.approx(80, abs=0.5)
