"""What is told of a job's life by events, each once."""

from datetime import timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import UnavailableError
from stoker.controller.lifecycle_events import TROUBLES, status_events
from stoker.controller.scan_results import ScanResult
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.vocabulary import UnknownReason
from tests.controller.passes import NOW, World
from tests.workload.building import JOB_UID, pod


def status(phase: str | None, *, ready: str = "Pending", **more: Any) -> dict[str, Any]:
    conditions = [
        {"type": "PodsReady", "status": "False", "reason": ready, "message": f"{ready} it is"},
        {"type": "Failed", "status": "True", "reason": more.pop("failed", "Error"), "message": "it failed"},
    ]
    return {"phase": phase, "conditions": conditions, **more}


@pytest.mark.parametrize(
    "before, after, reasons",
    [
        ({}, status("Pending", jobUID="u"), ["Created"]),
        (status("Pending", jobUID="u"), status("Pending", jobUID="u"), []),
        (status("Starting"), status("Running", ready="PodsReady"), ["Started"]),
        (status("Running"), status("Suspended"), ["Suspended"]),
        (status("Suspended"), status("Pending"), ["Resumed"]),
        (status("Suspended"), status("Failed"), ["Failed"]),
        (status("Running"), status("Queued", ready="Queued"), ["Queued"]),
        (status("Reclaimed"), status("Pending"), []),
        (status("Running"), status("Succeeded"), ["Succeeded"]),
        (status("Pending"), status("Failed", failed="Refused"), []),
        (status("Pending"), status("Pending", ready="JobInvalid"), ["JobInvalid"]),
        (status("Pending", ready="JobInvalid"), status("Pending", ready="JobInvalid"), []),
    ],
)
def test_what_became_of_a_job_is_told(before: dict[str, Any], after: dict[str, Any], reasons: list[str]) -> None:
    assert [event.reason for event in status_events(before, after, NOW)] == reasons


async def test_a_job_tells_of_its_creation_its_start_and_its_suspension() -> None:
    world = World()
    await world.reconcile()
    world.put_job()
    world.put_pods(pod())
    await world.reconcile()
    await world.reconcile()
    assert [event["reason"] for event in world.events] == ["Created", "Started"]


async def test_what_keeps_a_job_from_being_created_is_told_once() -> None:
    world = World()

    def fail(asked: str) -> None:
        if asked == "create jobs":
            raise UnavailableError("create", code=500, reason="InternalError", answer='failed calling webhook "w"')

    world.api.before = fail
    for _ in range(3):
        await world.reconcile()
    (event,) = world.events
    assert (event["type"], event["reason"]) == ("Warning", "JobNotCreated")
    assert "the admission webhook w does not answer" in event["note"]
    assert "series" not in event


def test_every_trouble_is_a_condition_of_a_job() -> None:
    assert set(map(str, TROUBLES)) == {"PodsReady", "Suspended", "CreatedWithWarnings"}


# ----------------------------------------------------------------------------------------------- when it was looked at


class Running(World):
    def __init__(self) -> None:
        super().__init__(status={"jobUID": JOB_UID})
        self.put_job()
        self.put_pods(pod())

    async def look(self, **idleness: Any) -> None:
        seen = Idleness(observed_at=self.clock.time, **{"state": IdlenessState.ACTIVE, **idleness})
        self.scan_results.put(self.uid, ScanResult(idleness=seen))
        await self.reconcile()


async def test_a_status_says_when_the_job_was_looked_at_and_says_it_anew_each_quarter_of_an_hour() -> None:
    world = Running()
    await world.look()
    assert world.status["lookedAt"] == "2026-11-21T12:00:00Z"
    writes = len(world.writes)
    world.clock.time += timedelta(minutes=9)
    await world.look()
    assert len(world.writes) == writes
    world.clock.time += timedelta(minutes=6)
    await world.look()
    assert world.status["lookedAt"] == "2026-11-21T12:15:00Z"


async def test_before_its_first_look_a_controller_does_not_say_that_it_has_looked() -> None:
    world = Running()
    away = {"state": IdlenessState.UNKNOWN, "reason": UnknownReason.PROMETHEUS_UNAVAILABLE, "message": "refused"}
    await world.look(**away)
    world.restart()
    world.clock.time += timedelta(hours=1)
    world.put_pods(pod(ready=False))
    await world.reconcile()
    assert world.status["phase"] == "Starting"
    assert world.status["lookedAt"] == "2026-11-21T12:00:00Z"


async def test_a_message_with_figures_is_renewed_with_the_next_write() -> None:
    world = Running()
    for minute, message in ((0, "samples cover 40 %"), (1, "samples cover 41 %"), (16, "samples cover 60 %")):
        world.clock.time = NOW + timedelta(minutes=minute)
        await world.look(state=IdlenessState.UNKNOWN, reason=UnknownReason.PARTIAL, message=message)
        idle = next(one for one in world.status["conditions"] if one["type"] == "Idle")
        assert idle["message"] == ("samples cover 60 %" if minute == 16 else "samples cover 40 %")


async def test_the_idle_time_of_a_job_that_holds_no_gpus_does_not_grow() -> None:
    record = {"state": "Idle", "idleSince": "2026-11-21T10:00:00Z"}
    world = World(status={"jobUID": JOB_UID, "phase": "Running", "idleSince": record["idleSince"], "reclaim": record})
    world.put_job()
    world.put_pods(pod())
    await world.reconcile()
    assert world.status["idleSince"] == "2026-11-21T10:00:00Z"
    taken = World(status={**world.status, "reclaim": {**record, "state": "Reclaimed", "action": "Suspend"}})
    taken.put_job(suspend=True, annotations={"stoker.dev/suspended-by": "reclaim"})
    await taken.reconcile()
    assert taken.status["phase"] == "Reclaimed"
    assert "idleSince" not in taken.status
    assert taken.status["reclaim"]["idleSince"] == "2026-11-21T10:00:00Z", "what it was reclaimed for"
