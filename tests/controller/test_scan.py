"""The metrics tick: who is looked at, over which window, and what is known when the metrics are away."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.controller.looks import Looks
from stoker.controller.manifests import Manifests
from stoker.controller.policies import Policies
from stoker.controller.queue import WorkQueue
from stoker.controller.scan import EXAMINED, WINDOWS, Scanner, _chosen
from stoker.controller.store import Key, Store
from stoker.models.diagnosis import IdlenessState
from stoker.models.finding import rfc3339
from stoker.models.screen import MetricsUnavailable, Screen
from stoker.models.series import JobFacts, JobSeries
from stoker.models.vocabulary import UnknownReason
from tests.workload.building import JOB_UID, dljob_object, pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class StoppedClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


class Asked:
    """Remembers what it was asked; it has no samples of anything."""

    def __init__(self) -> None:
        self.windows: list[timedelta] = []
        self.examined: list[str] = []
        self.error: MetricsUnavailable | None = None
        self.hangs = False

    async def screen(self, window: timedelta, now: datetime) -> Screen:
        self.windows.append(window)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return Screen(at=now, window=window)

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        self.examined.append(facts.name)
        times = np.arange(start.timestamp(), end.timestamp() + 1, step.total_seconds())
        return JobSeries(times=times, step=step.total_seconds())


class World:
    def __init__(self) -> None:
        self.store, self.looks, self.metrics = Store(), Looks(), Asked()
        self.queue: WorkQueue[Key] = WorkQueue()
        clock = StoppedClock()
        policies = Policies(self.store.policies, self.store.namespaces)
        self.scanner = Scanner(
            self.store,
            self.queue,
            self.looks,
            self.metrics,
            policies,
            Manifests(policies, clock),
            clock,
            interval=timedelta(seconds=30),
        )
        self._versions: Iterator[int] = iter(range(1, 10_000))

    def add(self, name: str, *, phase: str = "Running", pods: int = 1, **options: Any) -> None:
        """A DLJob with pods that have run for seven hours; `status` and fields of the spec as options."""
        status = {"phase": phase, "jobUID": f"{JOB_UID}-{name}", **options.pop("status", {})}
        raw = dljob_object(name, status=status, **options)
        raw["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(next(self._versions))}
        self.store.dljobs.put(raw)
        for rank in range(pods):
            one = pod(rank)
            one["metadata"] |= {
                "name": f"{name}-{rank}",
                "labels": {"stoker.dev/dljob": name},
                "resourceVersion": str(next(self._versions)),
                "ownerReferences": [{"controller": True, "uid": f"{JOB_UID}-{name}"}],
            }
            self.store.pods.put(one)

    def state(self, name: str) -> IdlenessState | None:
        look = self.looks.get(f"uid-{name}")
        return None if look is None else look.idleness.state


async def test_without_jobs_nothing_is_asked() -> None:
    world = World()
    await world.scanner.tick()
    assert not world.metrics.windows


async def test_only_jobs_that_hold_gpus_are_looked_at() -> None:
    world = World()
    for phase in ("Pending", "Queued", "Suspended", "Reclaimed"):
        world.add(phase.lower(), phase=phase)
    world.add("no-gpus", gpusPerNode=0)
    world.add("running")
    await world.scanner.tick()
    assert world.metrics.examined == ["running"]
    assert len(world.queue) == 1


async def test_one_screen_for_all_jobs_of_one_window() -> None:
    world = World()
    for number in range(50):
        world.add(f"job-{number}")
    await world.scanner.tick()
    assert world.metrics.windows == [timedelta(hours=1)]
    assert len(world.queue) == 50


async def test_jobs_are_examined_in_rotation_within_the_budget() -> None:
    world = World()
    for number in range(EXAMINED + 5):
        world.add(f"job-{number}")
    await world.scanner.tick()
    assert len(world.metrics.examined) == EXAMINED
    await world.scanner.tick()
    assert set(world.metrics.examined[: EXAMINED + 5]) == {f"job-{number}" for number in range(EXAMINED + 5)}


async def test_jobs_whose_series_fail_do_not_keep_the_others_from_being_examined() -> None:
    """Those that ended too early for any sample would be wanted again and again."""
    world = World()
    ended = {"completionTime": rfc3339(NOW)}
    for number in range(EXAMINED):
        world.add(f"ended-{number}", phase="Failed", status=ended)
    world.add("running")
    for _ in range(3):
        await world.scanner.tick()
    assert "running" in world.metrics.examined


async def test_a_warned_job_is_examined_in_every_tick() -> None:
    world = World()
    for number in range(2 * EXAMINED):
        world.add(f"job-{number}")
    world.add("warned", status={"reclaim": {"state": "Warned", "deadline": rfc3339(NOW)}})
    for _ in range(3):
        await world.scanner.tick()
    assert world.metrics.examined.count("warned") == 3


def test_at_most_so_many_windows_and_nobody_judged_by_a_shorter_one() -> None:
    wanted = {timedelta(minutes=minutes) for minutes in range(10, 31)}
    chosen = _chosen(wanted)
    assert len(chosen) == WINDOWS
    assert max(chosen) == max(wanted)
    assert _chosen(set(chosen)) == chosen


async def test_a_job_with_its_own_window_gets_its_own_screen() -> None:
    world = World()
    world.add("own", reclaim={"idleAfter": "10m"})
    world.add("default")
    await world.scanner.tick()
    assert world.metrics.windows == [timedelta(minutes=10), timedelta(hours=1)]


@pytest.mark.parametrize("reason", [UnknownReason.PROMETHEUS_UNAVAILABLE, UnknownReason.PARTIAL])
async def test_without_metrics_every_job_is_unknown_for_that_reason(reason: UnknownReason) -> None:
    world = World()
    world.add("job")
    world.metrics.error = MetricsUnavailable(reason, "no answer")
    await world.scanner.tick()
    look = world.looks.get("uid-job")
    assert look is not None
    assert (look.idleness.state, look.idleness.reason) == (IdlenessState.UNKNOWN, reason)
    assert look.diagnosis is None or look.diagnosis.utilization is None or reason is UnknownReason.PARTIAL
    assert len(world.queue) == 1


async def test_a_source_that_never_answers_leaves_every_job_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.controller.scan.SCREEN_TIMEOUT", 0.01)
    world = World()
    world.add("job")
    world.metrics.hangs = True
    await world.scanner.tick()
    assert world.state("job") is IdlenessState.UNKNOWN


async def test_a_job_without_samples_is_unknown_never_idle() -> None:
    world = World()
    world.add("job")
    await world.scanner.tick()
    assert world.state("job") is IdlenessState.UNKNOWN


async def test_a_finished_job_gets_one_final_look() -> None:
    world = World()
    ended = "2026-11-21T11:59:00Z"
    world.add("fresh", phase="Succeeded", status={"completionTime": ended})
    world.add(
        "seen", phase="Succeeded", status={"completionTime": ended, "utilization": {"asOf": "2026-11-21T11:59:30Z"}}
    )
    world.add("old", phase="Failed", status={"completionTime": "2026-11-14T09:00:00Z"})
    world.add("without-pods", phase="Failed", pods=0, status={"completionTime": ended})
    await world.scanner.tick()
    assert world.metrics.examined == ["fresh"]


async def test_a_job_that_cannot_be_read_does_not_hide_the_others() -> None:
    world = World()
    world.add("broken", image=7)
    world.add("good")
    await world.scanner.tick()
    assert world.metrics.examined == ["good"]


async def test_jobs_that_are_gone_are_forgotten() -> None:
    world = World()
    world.add("job")
    await world.scanner.tick()
    world.store.dljobs.compare([], version=100_000)
    await world.scanner.tick()
    assert world.looks.get("uid-job") is None
