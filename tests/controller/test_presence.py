"""Who is seen in a job's pods, what is not known, and when anything is asked at all."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stoker.adapters.jupyter import Jupyter, Server, Unreadable, Use
from stoker.api.dljob import DLJob
from stoker.controller import presence
from stoker.controller.presence import CHECKED_TOGETHER, FAILED, FRESH, KEPT, PresenceChecker, PresenceQuery
from stoker.diagnosis.series.person import cpus_unseen
from stoker.findings.vocabulary import UnknownReason
from stoker.reclaim import NOBODY, Presence
from stoker.telemetry.screen import MetricsUnavailable, Screen, ScreenRequest
from stoker.telemetry.series import JobFacts, JobSeries, PodSeries, PodSignal
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock
from tests.workload.building import dljob_object, pod
from tests.workload.building import job as child

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WINDOW = timedelta(hours=1)
LONG_AGO = NOW - timedelta(hours=3)


class FakeJupyter(Jupyter):
    """Says of every server what a test wants it to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Server] = []
        self.says: Use | Exception = Use(last_activity=LONG_AGO)
        self.gate: asyncio.Event | None = None

    async def use(self, server: Server, now: datetime) -> Use:
        self.asked.append(server)
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Cpus:
    """The cores that each step of the window used, the same in every pod; None for no series."""

    def __init__(self) -> None:
        self.cores: list[float] | None = [0.01] * 120
        self.complete = True
        self.error: MetricsUnavailable | None = None
        self.asked: list[tuple[datetime, datetime]] = []

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        raise AssertionError("presence needs no screen")

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        self.asked.append((start, end))
        if self.error is not None:
            raise self.error
        seconds = step.total_seconds()
        times = np.arange(start.timestamp() + seconds, end.timestamp() + 1, seconds)
        if self.cores is None:
            return JobSeries(times=times, step=seconds, complete=self.complete)
        signals = {PodSignal.CPU: np.array(self.cores)}
        pods = tuple(PodSeries(pod=one.name, signals=signals) for one in facts.pods)
        return JobSeries(times=times, step=seconds, pods=pods, complete=self.complete)


class World:
    """A job that serves notebooks, in which nobody has been for three hours."""

    def __init__(self) -> None:
        self.clock, self.jupyter, self.cpus = HeldClock(NOW), FakeJupyter(), Cpus()
        controller = assembled(FakeApi(), self.clock, jupyter=self.jupyter, metrics=self.cpus)
        self.manifests, self.presences = controller.manifests, controller.presences
        self.pod = pod()
        self.pod["status"]["podIP"] = "10.1.2.3"

    def job(self, *, status: dict[str, Any] | None = None, name: str = "bert", **metadata: Any) -> DLJob:
        raw = dljob_object(name=name, status=status, script="jupyter lab --port=9999 --ServerApp.base_url=/ann")
        raw["metadata"] |= metadata
        return DLJob.model_validate(raw)

    async def look(self, job: DLJob | None = None, *, interactive: bool = False, afresh: bool = True) -> Presence:
        query = PresenceQuery(child=child(), window=WINDOW, interactive=interactive, afresh=afresh)
        job = job or self.job()
        await self.manifests.review(job)
        return await self.presences.of(job, [self.pod], query)


@pytest.fixture
def world() -> World:
    return World()


# ------------------------------------------------------------------------------------------------------------ sessions


async def test_a_session_is_read_off_the_status_and_nothing_else_is_asked(world: World) -> None:
    job = world.job(status={"lastSession": "2026-11-21T11:30:00Z"})
    seen = await world.presences.of(job, [world.pod])
    assert seen == Presence(last_seen=datetime(2026, 11, 21, 11, 30, tzinfo=UTC), how="a session was opened")
    assert await world.presences.of(world.job(), [world.pod]) == NOBODY
    assert (world.jupyter.asked, world.cpus.asked) == ([], [])


async def test_the_latest_of_a_session_and_a_notebooks_use_counts(world: World) -> None:
    job = world.job(status={"lastSession": "2026-11-21T11:30:00Z"})
    world.jupyter.says = Use(last_activity=NOW - timedelta(minutes=50))
    assert (await world.look(job)).how == "a session was opened"
    world.clock.time += timedelta(seconds=KEPT)
    world.jupyter.says = Use(last_activity=NOW)
    assert (await world.look(job)) == Presence(last_seen=NOW, how="its Jupyter was used")


# ----------------------------------------------------------------------------------------------------------- notebooks


async def test_the_server_that_the_script_starts_is_asked_at_its_pods_address(world: World) -> None:
    assert await world.look() == Presence(last_seen=LONG_AGO, how="its Jupyter was used")
    started = datetime(2026, 11, 21, 5, tzinfo=UTC)
    (asked,) = world.jupyter.asked
    assert (str(asked.address), asked.port, asked.base, asked.token) == ("10.1.2.3", 9999, "/ann", None)
    assert asked.started == started


async def test_the_token_of_the_pods_environment_is_shown(world: World) -> None:
    world.pod["spec"]["containers"][0]["env"] = [{"name": "JUPYTER_TOKEN", "value": "abc"}]
    await world.look()
    assert [server.token for server in world.jupyter.asked] == ["abc"]


async def test_what_goes_on_right_now_is_told_as_of_the_last_five_minutes(world: World) -> None:
    """So that the status is not written anew with every look."""
    world.clock.time = NOW + timedelta(minutes=7, seconds=13)
    world.jupyter.says = Use(last_activity=LONG_AGO, busy="a notebook is open")
    assert await world.look() == Presence(last_seen=NOW + timedelta(minutes=5), how="a notebook is open")


@pytest.mark.parametrize("fault", [Unreadable("it requires a token"), RuntimeError("a fault of ours")])
async def test_a_server_that_says_nothing_leaves_it_unknown(world: World, fault: Exception) -> None:
    world.jupyter.says = fault
    seen = await world.look()
    assert seen.unknown is not None
    assert seen.last_seen is None


async def test_a_session_of_now_needs_no_answer_of_the_notebook(world: World) -> None:
    world.jupyter.says = Unreadable("it does not answer in time")
    assert (await world.look(world.job(status={"lastSession": "2026-11-21T11:30:00Z"}))).unknown is None
    assert (await world.look(world.job(status={"lastSession": "2026-11-21T10:30:00Z"}))).unknown is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "kubernetes", ""])
async def test_nothing_but_a_pods_own_address_is_asked(world: World, address: str) -> None:
    world.pod["status"]["podIP"] = address
    assert (await world.look()).unknown is not None
    assert world.jupyter.asked == []


async def test_a_pod_in_its_nodes_network_is_not_asked(world: World) -> None:
    world.pod["spec"]["hostNetwork"] = True
    seen = await world.look()
    assert seen.unknown is not None
    assert "its node's network" in seen.unknown
    assert world.jupyter.asked == []


async def test_the_owners_annotation_counts_before_the_script(world: World) -> None:
    assert await world.look(world.job(annotations={"stoker.dev/jupyter": "off"})) == NOBODY
    assert world.jupyter.asked == []
    await world.look(world.job(annotations={"stoker.dev/jupyter": "7777/x"}, uid="another"))
    assert [(server.port, server.base) for server in world.jupyter.asked] == [(7777, "/x")]
    seen = await world.look(world.job(annotations={"stoker.dev/jupyter": "here"}, uid="a third"))
    assert seen.unknown is not None
    assert "must be a port" in seen.unknown


# ---------------------------------------------------------------------------------------------------------------- CPUs


async def test_the_cpus_of_an_interactive_job_are_looked_at_over_its_window(world: World) -> None:
    assert world.cpus.cores is not None
    off = world.job(annotations={"stoker.dev/jupyter": "off"})
    assert await world.look(off, interactive=True) == NOBODY
    assert world.cpus.asked == [(NOW - WINDOW, NOW)]
    world.clock.time += timedelta(seconds=KEPT)
    world.cpus.cores[-30] = 1.5
    seen = await world.look(off, interactive=True)
    assert seen == Presence(last_seen=NOW - timedelta(minutes=10), how="its CPUs were busy")


async def test_other_jobs_cpus_say_nothing(world: World) -> None:
    await world.look()
    assert world.cpus.asked == []


async def test_where_somebody_is_seen_the_cpus_are_not_looked_at(world: World) -> None:
    world.jupyter.says = Use(last_activity=NOW)
    await world.look(interactive=True)
    assert world.cpus.asked == []


async def test_no_series_of_cpus_are_no_trace_and_no_answer_is_not_known(world: World) -> None:
    off = world.job(annotations={"stoker.dev/jupyter": "off"})
    world.cpus.cores = None
    assert await world.look(off, interactive=True) == NOBODY
    for fault in ("partial", "down"):
        world.clock.time += timedelta(seconds=KEPT)
        world.cpus.complete = fault != "partial"
        if fault == "down":
            world.cpus.error = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "down")
        assert (await world.look(off, interactive=True)).unknown is not None


async def test_samples_that_are_no_values_are_no_work(world: World) -> None:
    world.cpus.cores = [float("nan")] * 120
    assert await world.look(world.job(annotations={"stoker.dev/jupyter": "off"}), interactive=True) == NOBODY


@pytest.mark.parametrize("silence, known", [(slice(40, 60), True), (slice(40, 61), False), (slice(90, 120), False)])
async def test_where_cpus_are_seen_a_silence_of_theirs_hides_work(world: World, silence: slice, known: bool) -> None:
    """A cluster may be without cAdvisor; where it is there and stops, nobody knows what a person does meanwhile."""
    cores = np.full(120, 0.01)
    cores[silence] = np.nan
    world.cpus.cores = list(cores)
    seen = await world.look(world.job(annotations={"stoker.dev/jupyter": "off"}), interactive=True)
    assert (seen == NOBODY) is known
    assert known or seen.unknown is not None


def test_a_pod_whose_cpus_alone_are_not_seen_may_work() -> None:
    times = np.arange(0.0, 3600.0, 30.0)
    seen = PodSeries(pod="bert-0", signals={PodSignal.CPU: np.full(120, 0.01)})
    series = JobSeries(times=times, step=30.0, pods=(seen,))
    assert not cpus_unseen(series, ["bert-0"])
    assert cpus_unseen(series, ["bert-0", "bert-1"])
    assert not cpus_unseen(replace(series, pods=()), ["bert-0", "bert-1"]), "there is no cAdvisor"


# ---------------------------------------------------------------------------------------------------------------- cost


async def test_an_answer_serves_for_minutes_where_nothing_hangs_on_it_and_for_seconds_where_a_reclaim_does(
    world: World,
) -> None:
    async def asked(after: float, *, afresh: bool) -> int:
        world.clock.time += timedelta(seconds=after)
        before = len(world.jupyter.asked)
        await world.look(afresh=afresh)
        return len(world.jupyter.asked) - before

    assert await asked(0, afresh=True) == 1
    assert await asked(FRESH - 1, afresh=True) == 0
    assert await asked(2, afresh=True) == 1
    assert await asked(KEPT - 1, afresh=False) == 0
    assert await asked(2, afresh=False) == 1
    world.jupyter.says = Unreadable("it does not answer in time")
    assert await asked(KEPT, afresh=False) == 1
    assert await asked(FAILED - 1, afresh=True) == 0
    assert await asked(2, afresh=True) == 1
    world.jupyter.says = Use(last_activity=world.clock.time, busy="a notebook is open")
    assert await asked(FAILED, afresh=True) == 1
    assert await asked(KEPT - 1, afresh=True) == 0, "that somebody is there leads to no action"


async def test_an_answer_about_other_pods_does_not_serve(world: World) -> None:
    await world.look()
    world.pod["metadata"]["uid"] = "another"
    await world.look()
    assert len(world.jupyter.asked) == 2


async def test_servers_that_do_not_answer_hold_up_no_more_than_half_of_the_workers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for a moment; then what was said of them last is said again, if nothing hangs on it."""
    monkeypatch.setattr(presence, "PATIENCE", 0.01)
    known = world.job(uid="known")
    await world.look(known)
    world.clock.time += timedelta(seconds=KEPT)
    world.jupyter.asked.clear()
    world.jupyter.gate = asyncio.Event()
    jobs = [world.job(uid=f"job-{number}") for number in range(CHECKED_TOGETHER + 3)]
    scan_results = [asyncio.create_task(world.look(job)) for job in jobs]
    while len(world.jupyter.asked) < CHECKED_TOGETHER or sum(look.done() for look in scan_results) < 3:
        await asyncio.sleep(0)
    assert all(look.result().unknown is not None for look in scan_results[CHECKED_TOGETHER:])
    assert (await world.look(known, afresh=False)).last_seen == LONG_AGO
    assert (await world.look(known, afresh=True)).unknown is not None
    world.jupyter.gate.set()
    assert all(seen.last_seen == LONG_AGO for seen in await asyncio.gather(*scan_results[:CHECKED_TOGETHER]))


async def test_of_many_servers_the_first_that_does_not_tell_ends_the_look(world: World) -> None:
    pods = [pod() for _ in range(3)]
    for one in pods:
        one["status"]["podIP"] = "10.1.2.3"
    query = PresenceQuery(child=child(), window=WINDOW, interactive=False, afresh=True)
    for uid in ("healthy", "silent"):
        await world.manifests.review(world.job(uid=uid))
    assert (await world.presences.of(world.job(uid="healthy"), pods, query)).last_seen == LONG_AGO
    assert len(world.jupyter.asked) == 3
    world.jupyter.says = Unreadable("it does not answer in time")
    assert (await world.presences.of(world.job(uid="silent"), pods, query)).unknown is not None
    assert len(world.jupyter.asked) == 3 + 1


async def test_however_many_servers_a_job_has_they_are_asked_for_a_bounded_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "NOTEBOOKS_TIMEOUT", 0.01)
    world.jupyter.gate = asyncio.Event()
    assert (await world.look()).unknown == "its Jupyter servers do not all answer in time"


async def test_a_controller_that_asks_nobody_knows_only_sessions(world: World) -> None:
    world.presences = PresenceChecker()
    assert await world.look(interactive=True) == NOBODY
