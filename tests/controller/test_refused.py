"""What is refused, or can't be looked after, is told, is not run, and is not tried for ever."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    EVENTS,
    JOBS,
    ApiError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooLargeError,
)
from stoker.controller import reconcile
from stoker.controller.requeue import AT_ONCE, REFUSED
from tests.controller.passes import World
from tests.workload.building import JOB_UID

OWN_VERDICT = InvalidError(
    "create", code=422, reason="Invalid", answer='Job.batch "bert" is invalid: spec.template: bad'
)
MAY_CHANGE = [
    InvalidError("create", code=422, reason="Invalid", answer='admission webhook "w" denied the request: no'),
    InvalidError(
        "create",
        code=422,
        reason="Invalid",
        answer="jobs.batch \"bert\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
    ),
    ForbiddenError("create", code=403, reason="Forbidden", answer="exceeded quota: q"),
    InvalidError("create", code=400, reason="BadRequest", answer="something new"),
]


def refusing(world: World, error: ApiError, verb: str = "create jobs") -> None:
    def refuse(asked: str) -> None:
        if asked == verb:
            raise error

    world.api.before = refuse


def ready(world: World) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in world.status["conditions"] if one["type"] == "PodsReady")
    return found


async def test_the_api_servers_own_verdict_on_the_job_is_final_and_asked_for_once() -> None:
    world = World()
    refusing(world, OWN_VERDICT)
    assert await world.reconcile() == AT_ONCE
    for _ in range(5):
        assert await world.reconcile() is None
    assert world.api.requests.count("create jobs") == 1
    failed = next(one for one in world.status["conditions"] if one["type"] == "Failed")
    assert (world.status["phase"], failed["status"], failed["reason"]) == ("Failed", "True", "JobInvalid")
    (event,) = world.events
    assert (event["reason"], event["type"]) == ("Failed", "Warning")


@pytest.mark.parametrize("error", MAY_CHANGE, ids=lambda error: error.answer[:20])
async def test_what_may_be_taken_later_is_tried_again_with_a_growing_delay(error: ApiError) -> None:
    world = World()
    refusing(world, error)
    assert await world.reconcile() == REFUSED
    assert world.status["phase"] == "Pending"
    world.api.before = lambda _: None
    await world.reconcile()
    assert "jobUID" in world.status


async def test_events_of_a_job_that_lacks_pods_are_listed_ever_less_often() -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Pending"}, nodes=2)
    world.put_job(nodes=2)
    event = {
        "metadata": {"name": "e"},
        "reason": "FailedCreate",
        "regarding": {"uid": JOB_UID},
        "note": "Error creating: pods is forbidden: exceeded quota: few, requested: pods=1",
    }
    world.api.store(EVENTS, "team", event)
    asked: list[int] = []
    for second in range(1800):
        # The scan, the lists and others have it looked at all the time.
        await world.reconcile()
        if world.api.requests.count("list events") > len(asked):
            asked.append(second)
        world.clock.time += timedelta(seconds=1)
    assert ready(world)["reason"] == "QuotaExceeded"
    assert [later - earlier for earlier, later in pairwise(asked)] == [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]


async def test_an_event_that_is_written_after_the_last_change_of_the_job_is_found() -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Pending"})
    world.put_job()
    pause = await world.reconcile()
    assert isinstance(pause, float)
    assert ready(world)["reason"] == "Pending"
    event = {
        "metadata": {"name": "e"},
        "reason": "FailedCreate",
        "regarding": {"uid": JOB_UID},
        "note": 'Error creating: pods "x" is forbidden: violates PodSecurity "baseline:latest": privileged',
    }
    world.api.store(EVENTS, "team", event)
    world.clock.time += timedelta(seconds=pause)
    await world.reconcile()
    assert ready(world)["reason"] == "PodSecurity"


async def test_what_is_too_large_is_not_run() -> None:
    world = World(env=[{"name": f"V{n}", "value": "x" * 100_000} for n in range(3)])
    assert await world.reconcile() in {AT_ONCE, None}
    assert "create jobs" not in world.api.requests
    failed = next(one for one in world.status["conditions"] if one["type"] == "Failed")
    assert (failed["reason"], "bytes as JSON" in failed["message"]) == ("Refused", True)


@pytest.mark.parametrize(
    "error, reason",
    [
        (TooLargeError("replace", code=500, reason="InternalError"), "StatusTooLarge"),
        (InvalidError("replace", code=422, reason="Invalid"), "StatusRefused"),
    ],
    ids=["too-large", "invalid"],
)
async def test_a_job_whose_status_can_not_be_written_is_told_of_by_an_event_and_is_not_run(
    error: ApiError, reason: str
) -> None:
    world = World(env=[{"name": f"V{n}", "value": "x" * 100_000} for n in range(12)])
    refusing(world, error, "replace dljobs")
    for _ in range(3):
        assert await world.reconcile() == REFUSED
    assert "create jobs" not in world.api.requests
    (event,) = world.events
    assert (event["reason"], event["series"]["count"]) == (reason, 3)


@pytest.mark.parametrize("levels", [70, 120])
async def test_what_is_too_deep_is_not_run(levels: int) -> None:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"a": inner}
    world = World(podTemplate={"spec": {"zzz": inner}})
    await world.reconcile()
    assert "create jobs" not in world.api.requests
    failed = next(one for one in world.status["conditions"] if one["type"] == "Failed")
    assert (failed["reason"], "levels" in failed["message"]) == ("Refused", True)


async def test_a_large_job_that_runs_already_is_left_running() -> None:
    world = World(
        status={"jobUID": JOB_UID, "phase": "Running"},
        env=[{"name": f"V{n}", "value": "x" * 100_000} for n in range(3)],
    )
    world.put_job()
    await world.reconcile()
    assert world.status["phase"] != "Failed"


async def test_a_fault_of_ours_shows_in_the_jobs_status_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def broken(*_: object, **__: object) -> None:
        raise KeyError("oh\x1b[2J")

    with monkeypatch.context() as patched:
        patched.setattr(reconcile, "observe", broken)
        with pytest.raises(KeyError):
            await world.reconcile()
        assert (ready(world)["status"], ready(world)["reason"]) == ("Unknown", "InternalError")
        assert "KeyError" in ready(world)["message"]
        assert "\x1b" not in ready(world)["message"]
        writes = len(world.writes)
        with pytest.raises(KeyError):
            await world.reconcile()
        assert len(world.writes) == writes, "it is written once"
    await world.reconcile()
    assert ready(world)["reason"] != "InternalError"


async def test_a_fault_of_a_job_that_is_gone_raises_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(reconcile, "observe", broken)
    refusing(world, NotFoundError("replace", code=404, reason="NotFound"), "replace dljobs")
    with pytest.raises(RuntimeError):
        await world.reconcile()
    assert (DLJOBS, "team", "bert") in world.api.objects
    assert (JOBS, "team", "bert") in world.api.objects
