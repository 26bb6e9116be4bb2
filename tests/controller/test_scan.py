"""The metrics tick: who is looked at, over which window, and what is known when the metrics are away."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.api.dljob import DLJob
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import WorkQueue
from stoker.controller.assembly import Substitutes
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.scan import EXAMINED, FAILURES
from stoker.findings.diagnosis import IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import GpuWindow, MetricsSource, MetricsUnavailable, PodSummary, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi
from tests.workload.building import JOB_UID, dljob_object, pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class StoppedClock:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds


class Asked:
    """Remembers what it was asked; it has no samples of anything."""

    def __init__(self) -> None:
        self.screens: list[list[ScreenRequest]] = []
        self.summaries: dict[str, float] = {}
        """Of each job that is summarized at: its mean."""
        self.resting: set[str] = set()
        """Jobs whose GPUs rest, as a detailed check shows."""
        self.deferred: set[str] = set()
        self.unreadable: set[str] = set()
        """Jobs whose series can't be read."""
        self.examined: list[str] = []
        self.error: MetricsUnavailable | None = None
        self.hangs = False

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        self.screens.append(list(requests))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return [self._screen(request, now) for request in requests]

    def _screen(self, request: ScreenRequest, now: datetime) -> Screen:
        summaries, gpus = {}, {}
        for key in request.pods:
            job, _, rank = key[1].rpartition("-")
            if job in self.summaries:
                summaries[key] = PodSummary(averages={GpuSignal.UTIL: self.summaries[job]})
            if job in self.resting - self.deferred:
                gpus[key] = tuple(
                    GpuWindow(
                        gpu=f"GPU-{job}-{rank}-{index}",
                        peaks={GpuSignal.UTIL: 0},
                        coverage_percent=100,
                        last_sample_at=now,
                    )
                    for index in range(8)
                )
            if job in self.resting:
                summaries[key] = PodSummary(averages={GpuSignal.UTIL: 0})
        deferred = any(key[1].rpartition("-")[0] in self.deferred for key in request.pods)
        return Screen(at=now, window=request.window, summaries=summaries, gpus=gpus, deferred=deferred)

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        self.examined.append(facts.name)
        if facts.name in self.unreadable:
            raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "too many samples")
        times = np.arange(start.timestamp(), end.timestamp() + 1, step.total_seconds())
        return JobSeries(times=times, step=step.total_seconds())


class Waiting(WorkQueue[Key]):
    def take(self) -> list[str]:
        """The names of all that wait, who no longer do."""
        names = []
        while (key := self.pick()) is not None:
            names.append(key.name)
        return names


async def nobody(*_: object) -> None:
    """Examines no job."""


class World:
    """A scanner over DLJobs in memory; `source` is asked in place of `metrics`, if given."""

    def __init__(self, source: MetricsSource | None = None) -> None:
        self.cache, self.metrics, self.queue, self.clock = (
            ClusterCache(Faults()),
            Asked(),
            Waiting(faults=Faults()),
            StoppedClock(),
        )
        self.cache.namespaces.put({"metadata": {"name": "team", "resourceVersion": "1"}})
        parts = Substitutes(cache=self.cache, queue=self.queue)
        controller = assembled(FakeApi(), self.clock, metrics=source or self.metrics, substitutes=parts)
        self.scanner, self.scan_results = controller.scanner, controller.scan_results
        self._versions: Iterator[int] = iter(range(1, 10_000))

    def add(
        self,
        name: str,
        *,
        phase: str = "Running",
        pods: int = 1,
        started: str | None = "2026-11-21T05:00:00Z",
        ready: bool = True,
        namespace: str = "team",
        **options: Any,
    ) -> None:
        """A DLJob with pods that have run for seven hours; `status` and fields of the spec as options."""
        status = {"phase": phase, "jobUID": f"{JOB_UID}-{name}", **options.pop("status", {})}
        raw = dljob_object(name, status=status, **options)
        version = str(next(self._versions))
        raw["metadata"] |= {"namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
        self.cache.dljobs.put(raw)
        for rank in range(pods):
            one = pod(rank, started=started, ready=ready)
            one["metadata"] |= {
                "name": f"{name}-{rank}",
                "namespace": namespace,
                "labels": {"stoker.dev/dljob": name},
                "resourceVersion": str(next(self._versions)),
                "ownerReferences": [{"controller": True, "uid": f"{JOB_UID}-{name}"}],
            }
            self.cache.pods.put(one)

    async def tick(self) -> None:
        """Half a minute after the last one."""
        self.clock.seconds += 30
        await self.scanner.tick()

    def state(self, name: str) -> IdlenessState | None:
        look = self.scan_results.get(f"uid-{name}")
        return None if look is None else look.idleness.state


async def test_without_jobs_nothing_is_asked() -> None:
    world = World()
    await world.tick()
    assert not world.metrics.screens


async def test_only_jobs_that_hold_gpus_are_looked_at() -> None:
    world = World()
    for phase in ("Pending", "Queued", "Suspended", "Reclaimed"):
        world.add(phase.lower(), phase=phase)
    world.add("no-gpus", gpusPerNode=0)
    world.add("running")
    await world.tick()
    assert world.metrics.examined == ["running"]
    assert len(world.queue) == 1


async def test_one_screen_for_all_jobs_whatever_their_windows() -> None:
    world = World()
    for number in range(50):
        world.add(f"job-{number}", reclaim={"idleAfter": f"{10 + number}m"})
    world.add("default")
    await world.tick()
    (requests,) = world.metrics.screens
    assert {request.window for request in requests} == {timedelta(minutes=minutes) for minutes in range(10, 61)}
    assert len(world.queue) == 51


async def test_only_who_can_be_idle_by_its_age_is_looked_at_closely() -> None:
    world = World()
    world.add("old")
    world.add("young", started="2026-11-21T11:30:00Z")
    world.add("not-ready", ready=False)
    await world.tick()
    (requests,) = world.metrics.screens
    assert {request.pods[0][1]: request.detailed for request in requests} == {
        "old-0": True,
        "young-0": False,
        "not-ready-0": False,
    }


async def test_a_tick_asks_one_screen_and_the_series_of_a_bounded_number_of_jobs() -> None:
    """What a screen asks of the server is bounded by its own tests: six queries at most."""
    world = World()
    for number in range(10 * EXAMINED):
        world.add(f"job-{number}")
    for _ in range(3):
        await world.tick()
    assert len(world.metrics.screens) == 3
    assert len(world.metrics.examined) == 3 * EXAMINED


async def test_a_crowd_of_one_namespace_is_not_asked_for_before_another() -> None:
    """A screen looks closely at the first few hundred pods that rest."""
    world = World()
    for number in range(50):
        world.add(f"crowd-{number}", status={"reclaim": {"state": "Warned", "deadline": rfc3339(NOW)}})
    world.add("alone", namespace="other")
    await world.tick()
    (requests,) = world.metrics.screens
    assert requests[1].pods[0] == ("other", "alone-0")


async def test_only_jobs_of_which_there_is_news_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(EXAMINED):
        world.add(f"examined-{number}")
    world.add("quiet", phase="Starting", started=None)
    world.add("idle")
    world.metrics.resting = {"idle"}
    await world.tick()
    assert len(world.queue.take()) == EXAMINED + 2
    monkeypatch.setattr(world.scanner, "_examine", nobody)
    for resting, news in (({"idle"}, ["idle"]), (set(), ["idle"]), (set(), [])):
        world.metrics.resting = resting
        await world.tick()
        assert world.queue.take() == news


async def test_what_did_not_change_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    for number in range(3):
        world.add(f"job-{number}")
    read: list[str] = []
    validate = DLJob.model_validate

    def counted(raw: Any) -> DLJob:
        read.append(raw["metadata"]["name"])
        return validate(raw)

    monkeypatch.setattr(DLJob, "model_validate", counted)
    await world.tick()
    assert set(read) == {"job-0", "job-1", "job-2"}
    read.clear()
    await world.tick()
    assert read == []
    world.add("job-1", phase="Starting")
    await world.tick()
    assert read == ["job-1"]


async def test_jobs_are_examined_in_rotation_within_the_budget() -> None:
    world = World()
    for number in range(EXAMINED + 5):
        world.add(f"job-{number}")
    await world.tick()
    assert len(world.metrics.examined) == EXAMINED
    await world.tick()
    assert set(world.metrics.examined[: EXAMINED + 5]) == {f"job-{number}" for number in range(EXAMINED + 5)}


async def test_jobs_whose_series_fail_do_not_keep_the_others_from_being_examined() -> None:
    """Those that ended too early for any sample would be wanted again and again."""
    world = World()
    ended = {"completionTime": rfc3339(NOW)}
    for number in range(EXAMINED):
        world.add(f"ended-{number}", phase="Failed", status=ended)
    world.add("running")
    for _ in range(3):
        await world.tick()
    assert "running" in world.metrics.examined


async def test_a_warned_job_is_examined_in_every_tick() -> None:
    world = World()
    for number in range(2 * EXAMINED):
        world.add(f"job-{number}")
    world.add("warned", status={"reclaim": {"state": "Warned", "deadline": rfc3339(NOW)}})
    for _ in range(3):
        await world.tick()
    assert world.metrics.examined.count("warned") == 3


async def test_a_job_whose_reclaim_waits_for_an_examination_gets_the_next_one() -> None:
    world = World()
    for number in range(3 * EXAMINED):
        world.add(f"warned-{number}", status={"reclaim": {"state": "Warned", "deadline": rfc3339(NOW)}})
    waits = f"warned-{3 * EXAMINED - 1}"
    world.scan_results.want(f"uid-{waits}")
    await world.tick()
    assert world.metrics.examined[0] == waits


async def test_a_screen_says_whom_to_examine() -> None:
    """Who looks low comes before those who don't, even if these were there first."""
    world = World()
    for number in range(EXAMINED):
        world.add(f"busy-{number}")
        world.metrics.summaries[f"busy-{number}"] = 90
    world.add("low")
    world.metrics.summaries["low"] = 20
    await world.tick()
    assert world.metrics.examined[0] == "low"


async def test_a_job_that_is_put_off_keeps_what_a_close_look_has_said_while_it_is_fresh() -> None:
    world = World()
    world.add("job")
    world.metrics.resting = {"job"}
    await world.tick()
    assert world.state("job") is IdlenessState.IDLE
    world.metrics.deferred = {"job"}
    for minutes, state in ((3, IdlenessState.IDLE), (4, IdlenessState.UNKNOWN)):
        world.clock.time = NOW + timedelta(minutes=minutes)
        await world.tick()
        assert world.state("job") is state


async def test_who_waited_longest_for_a_close_look_is_asked_for_first() -> None:
    world = World()
    for name in ("first", "second", "warned"):
        status = {"reclaim": {"state": "Warned", "deadline": rfc3339(NOW)}} if name == "warned" else {}
        world.add(name, status=status)
    world.metrics.resting = {"first", "second", "warned"}
    world.metrics.deferred = {"second"}
    for _ in range(2):
        await world.tick()
    assert [request.pods[0][1] for request in world.metrics.screens[-1]] == ["warned-0", "second-0", "first-0"]


async def test_a_job_whose_series_can_not_be_read_blocks_nobody() -> None:
    world = World()
    for number in range(FAILURES - 1):
        world.add(f"huge-{number}")
        world.metrics.summaries[f"huge-{number}"] = 10
    world.add("job")
    world.metrics.unreadable = {f"huge-{number}" for number in range(FAILURES - 1)}
    await world.tick()
    assert world.metrics.examined[-1] == "job"


async def test_after_some_failures_in_a_row_the_tick_gives_up() -> None:
    world = World()
    for number in range(EXAMINED):
        world.add(f"job-{number}")
    world.metrics.unreadable = {f"job-{number}" for number in range(EXAMINED)}
    await world.tick()
    assert len(world.metrics.examined) == FAILURES


@pytest.mark.parametrize("reason", [UnknownReason.PROMETHEUS_UNAVAILABLE, UnknownReason.PARTIAL])
async def test_without_metrics_every_job_is_unknown_for_that_reason(reason: UnknownReason) -> None:
    world = World()
    world.add("job")
    world.metrics.error = MetricsUnavailable(reason, "no answer")
    await world.tick()
    look = world.scan_results.get("uid-job")
    assert look is not None
    assert (look.idleness.state, look.idleness.reason) == (IdlenessState.UNKNOWN, reason)
    assert look.diagnosis is None or look.diagnosis.utilization is None or reason is UnknownReason.PARTIAL
    assert len(world.queue) == 1


async def test_a_source_that_never_answers_leaves_every_job_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.controller.scan.SCREEN_TIMEOUT", 0.01)
    world = World()
    world.add("job")
    world.metrics.hangs = True
    await world.tick()
    assert world.state("job") is IdlenessState.UNKNOWN


async def test_a_job_without_samples_is_unknown_never_idle() -> None:
    world = World()
    world.add("job")
    await world.tick()
    assert world.state("job") is IdlenessState.UNKNOWN


async def test_a_finished_job_gets_one_final_look() -> None:
    world = World()
    ended = "2026-11-21T11:59:00Z"
    world.add("fresh", phase="Succeeded", status={"completionTime": ended})
    world.add(
        "seen", phase="Succeeded", status={"completionTime": ended, "utilization": {"asOf": "2026-11-21T11:59:30Z"}}
    )
    world.add("old", phase="Failed", status={"completionTime": "2026-11-14T09:00:00Z"})
    world.add("never-ran", phase="Failed", pods=0, status={"completionTime": ended})
    await world.tick()
    assert world.metrics.examined == ["fresh"]


async def test_a_finished_job_is_looked_at_once_more_when_its_last_samples_have_arrived() -> None:
    world = World()
    at_its_end = {"completionTime": "2026-11-21T11:57:00Z", "utilization": {"asOf": "2026-11-21T11:57:05Z"}}
    settled = {"completionTime": "2026-11-21T11:57:00Z", "utilization": {"asOf": "2026-11-21T11:59:00Z"}}
    world.add("at-its-end", phase="Succeeded", status=at_its_end)
    world.add("settled", phase="Succeeded", status=settled)
    await world.tick()
    assert world.metrics.examined == ["at-its-end"]


async def test_a_finished_job_whose_pods_are_gone_is_looked_at_by_what_its_status_remembers() -> None:
    world = World()
    run = {"name": "gone-0-abcde", "rank": 0, "node": "gpu-1", "gpus": 8, "since": "2026-11-21T05:00:00Z"}
    world.add("gone", phase="Failed", pods=0, status={"completionTime": "2026-11-21T11:59:00Z", "pods": [run]})
    await world.tick()
    assert world.metrics.examined == ["gone"]


async def test_a_job_that_reclaim_deleted_gets_its_final_look() -> None:
    """Its figures end with its pods, and nobody asks whether it is idle now."""
    times = {"since": "2026-11-21T05:00:00Z", "until": "2026-11-21T11:00:00Z"}
    runs = [{"name": "bert-0-abcde", "rank": 0, "node": "gpu-0", "gpus": 8, **times}]
    record = {"state": "Reclaimed", "action": "Delete", "reclaimedAt": "2026-11-21T11:00:30Z"}
    world = World()
    world.add("bert", phase="Reclaimed", pods=0, status={"reclaim": record, "pods": runs})
    world.add("held", phase="Reclaimed", pods=0, status={"reclaim": {**record, "action": "Suspend"}, "pods": runs})
    await world.scanner.tick()
    assert world.metrics.examined == ["bert"]
    assert world.metrics.screens == []


async def test_a_job_that_cannot_be_read_does_not_hide_the_others() -> None:
    world = World()
    world.add("broken", image=7)
    world.add("good")
    await world.tick()
    assert world.metrics.examined == ["good"]


async def test_jobs_that_are_gone_are_forgotten() -> None:
    world = World()
    world.add("job")
    await world.tick()
    world.cache.dljobs.compare([], version=100_000)
    await world.tick()
    assert world.scan_results.get("uid-job") is None


async def test_a_job_that_starts_while_a_tick_reads_manifests_is_scanned_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.add("first")
    settle = ManifestCache.settle

    async def starts_another(manifests: ManifestCache) -> bool:
        if world.cache.dljobs.get(Key("team", "second")) is None:
            world.add("second")
        return await settle(manifests) or True

    monkeypatch.setattr(ManifestCache, "settle", starts_another)
    await world.tick()
    assert world.state("first") is not None
    assert world.state("second") is None
    await world.tick()
    assert world.state("second") is not None
