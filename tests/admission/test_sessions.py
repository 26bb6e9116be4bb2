"""Sessions in pods: allowed before anything is asked, then noted once in the status of the job that the pod is of."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, PODS, UnavailableError
from stoker.admission.admission_review import AdmissionRequest, Operation
from stoker.admission.sessions import NOTED_EVERY, REMEMBERED, WAITING, Recent, Sessions
from stoker.cluster.cache import Key
from tests.controller.cluster import FakeApi, HeldClock
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EXEC = AdmissionRequest(
    uid="1",
    operation=Operation.CONNECT,
    group="",
    kind="PodExecOptions",
    resource="pods",
    subresource="exec",
    name="bert-0-abcde",
    namespace="team",
    new_object={"kind": "PodExecOptions", "apiVersion": "v1", "command": ["sh"]},
    old_object=None,
    dry_run=False,
)


def pod(name: str = "bert-0-abcde", **metadata: Any) -> dict[str, Any]:
    owner = {"kind": "Job", "name": "bert", "uid": "job"}
    labels = {"stoker.dev/dljob": "bert"}
    return {"metadata": {"name": name, "namespace": "team", "labels": labels, "ownerReferences": [owner], **metadata}}


class World:
    """A DLJob with two pods, and what is noted of it."""

    def __init__(self) -> None:
        self.api, self.clock, self.results = FakeApi(), HeldClock(NOW), list[str]()
        self.sessions = Sessions(self.clock, self.results.append)
        self.api.store(DLJOBS, "team", dljob_object(status={"phase": "Running", "gpus": 8}))
        for name in ("bert-0-abcde", "bert-1-fghij"):
            self.api.store(PODS, "team", pod(name))

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.api.objects[DLJOBS, "team", "bert"]["status"]
        return status

    async def until(self, probe: Callable[[], bool]) -> None:
        """Let the recorder work until this holds."""
        async with asyncio.timeout(5):
            while not probe():
                await asyncio.sleep(0)

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """The background part at work."""
        task = asyncio.create_task(self.sessions.run(self.api, retry_after=(0, 0)))
        yield
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_a_session_is_allowed_at_once_and_noted_afterwards_beside_what_the_status_says(
    world: World, subresource: str
) -> None:
    assert (await world.sessions(replace(EXEC, subresource=subresource))).allowed
    assert world.api.requests == [], "nobody waits for the API server"
    async with world.recording():
        await world.until(lambda: bool(world.results))
    assert world.results == ["noted"]
    assert world.status == {"phase": "Running", "gpus": 8, "lastSession": "2026-11-21T12:00:00Z"}


async def test_a_jobs_sessions_are_noted_once_a_minute_whichever_pod_they_are_in(world: World) -> None:
    async with world.recording():
        for _ in range(50):
            await world.sessions(EXEC)
        await world.until(lambda: world.results == ["noted"])
        before = world.api.requests.count("get pods")
        await world.sessions(replace(EXEC, name="bert-1-fghij"))
        await world.until(lambda: world.api.requests.count("get pods") == before + 1)
        world.clock.time += timedelta(seconds=NOTED_EVERY)
        await world.sessions(EXEC)
        await world.until(lambda: world.results == ["noted", "noted"])
    assert world.status["lastSession"] == "2026-11-21T12:01:00Z"
    assert world.api.requests.count("patch dljobs") == 2


@pytest.mark.parametrize(
    "request_",
    [
        replace(EXEC, dry_run=True),
        replace(EXEC, subresource="proxy"),
        replace(EXEC, operation=Operation.CREATE),
        replace(EXEC, namespace=None),
        replace(EXEC, name=""),
    ],
    ids=["dry run", "proxy", "no connect", "no namespace", "no name"],
)
async def test_what_opens_no_session_is_allowed_and_forgotten(world: World, request_: AdmissionRequest) -> None:
    assert (await world.sessions(request_)).allowed
    async with world.recording():
        await world.sessions(replace(EXEC, name="bert-1-fghij"))
        await world.until(lambda: bool(world.results))
    assert world.api.requests == ["get pods", "patch dljobs"], "only the session that came after it"


@pytest.mark.parametrize(
    "other",
    [
        pod("other", labels={}),
        pod("other", ownerReferences=[]),
        pod("other", ownerReferences=[{"kind": "Job", "name": "x"}]),
    ],
    ids=["no label", "a label alone", "of another Job"],
)
async def test_a_pod_that_no_dljob_has_made_is_nobodys(world: World, other: dict[str, Any]) -> None:
    world.api.store(PODS, "team", other)
    async with world.recording():
        await world.sessions(replace(EXEC, name="other"))
        await world.until(lambda: "get pods" in world.api.requests)
        await world.sessions(EXEC)
        await world.until(lambda: bool(world.results))
    assert world.api.requests.count("patch dljobs") == 1


async def test_what_fails_is_tried_again_and_then_counted(world: World) -> None:
    failures = 0

    def fail(request: str) -> None:
        nonlocal failures
        if request == "patch dljobs":
            failures += 1
            if failures in {1, 3, 4, 5}:
                raise UnavailableError(request, code=503, reason="later")

    world.api.before = fail
    async with world.recording():
        await world.sessions(EXEC)
        await world.until(lambda: world.results == ["noted"])
        world.clock.time += timedelta(seconds=NOTED_EVERY)
        await world.sessions(EXEC)
        await world.until(lambda: world.results == ["noted", "failed"])
        await world.sessions(EXEC)
        await world.until(lambda: world.results == ["noted", "failed", "noted"])


async def test_a_job_or_pod_that_is_gone_is_no_failure(world: World) -> None:
    del world.api.objects[DLJOBS, "team", "bert"]
    async with world.recording():
        await world.sessions(EXEC)
        await world.sessions(replace(EXEC, name="gone"))
        await world.until(lambda: world.api.requests.count("get pods") == 2 and "patch dljobs" in world.api.requests)
    assert world.results == []


async def test_too_many_at_once_are_allowed_and_dropped(world: World) -> None:
    answers = [await world.sessions(replace(EXEC, name=f"pod-{number}")) for number in range(WAITING + 3)]
    assert all(answer.allowed for answer in answers)
    assert world.results == ["dropped"] * 3


async def test_names_that_do_not_exist_are_not_remembered_without_end(world: World) -> None:
    recent = Recent(world.clock)
    for number in range(REMEMBERED + 1000):
        assert recent.is_due(Key("team", f"pod-{number}"))
    assert len(recent) == REMEMBERED
    assert not recent.is_due(Key("team", f"pod-{REMEMBERED + 999}"))
    world.clock.time += timedelta(seconds=NOTED_EVERY)
    assert recent.is_due(Key("team", "pod-later"))
    assert len(recent) == 1, "what is old is forgotten with the next one"
