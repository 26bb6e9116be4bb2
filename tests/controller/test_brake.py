"""The brake of each policy, as the controller feeds it and keeps it in the policy's status."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import EVENTS, POLICIES, ConflictError, UnavailableError
from stoker.api.policy import UtilizationPolicy
from stoker.api.schema import violations
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.assembly import Substitutes
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim
from stoker.reclaim.brake import JobActivity
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock, failing

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
JOBS = "abcdef"


class World:
    """Policies and their brakes in an API server of one's own."""

    def __init__(self, *names: str) -> None:
        self.api, self.clock, self.cache = FakeApi(), HeldClock(NOW), ClusterCache(Faults())
        for name in names or ("default",):
            kind = {"apiVersion": "stoker.dev/v1alpha1", "kind": "UtilizationPolicy"}
            raw = {**kind, "metadata": {"name": name, "generation": 7}, "spec": {}, "status": {"observedGeneration": 7}}
            self.cache.policies.put(self.api.store(POLICIES, None, raw))
        self.restart()

    def restart(self) -> None:
        self.brakes = assembled(self.api, self.clock, substitutes=Substitutes(cache=self.cache)).brakes

    async def look(self, works: str = "", rests: str = "", *, policy: str = "default") -> None:
        self.clock.time += timedelta(seconds=30)
        effective = EffectivePolicy(sources=("default", policy) if policy != "default" else ("default",))
        seen = [*((one, True) for one in works), *((one, False) for one in rests)]
        await self.brakes.scanned(
            (effective, JobActivity(job_uid=uid, job=f"team/{uid}", gpus=8, works=state)) for uid, state in seen
        )

    async def brake(self) -> None:
        """Six jobs worked, and rest."""
        await self.look(JOBS)
        await self.look(rests=JOBS)

    def annotate(self, value: str) -> None:
        raw = self.api.objects[POLICIES, None, "default"]
        metadata = {**raw["metadata"], "annotations": {"stoker.dev/release-brake": value}}
        self.cache.policies.put(self.api.store(POLICIES, None, {**raw, "metadata": metadata}))

    def status(self, name: str = "default") -> dict[str, Any]:
        raw = self.api.objects[POLICIES, None, name]
        spec: dict[str, Any] = {"namespaceSelector": {}} if name != "default" else {}
        assert violations(UtilizationPolicy, {**raw, "spec": spec}) == []
        status: dict[str, Any] = raw.get("status", {})
        return status

    def condition(self) -> dict[str, Any] | None:
        return next((one for one in self.status().get("conditions", ()) if one["type"] == "ReclaimStopped"), None)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [obj for (resource, _, _), obj in self.api.objects.items() if resource == EVENTS]

    @property
    def writes(self) -> int:
        return self.api.requests.count("replace utilizationpolicies")


async def test_mass_idleness_is_written_into_the_status_and_told_by_condition_and_event() -> None:
    world = World()
    await world.brake()
    status = world.status()
    assert status["brake"]["since"] == "2026-11-21T12:01:00Z"
    assert "6 jobs with 48 of 48 active GPUs" in status["brake"]["message"]
    assert [one["job"] for one in status["recentIdle"]] == [f"team/{uid}" for uid in JOBS]
    condition = world.condition()
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "MassIdle")
    assert "kubectl annotate utilizationpolicy default" in condition["message"]
    (event,) = world.events
    assert (event["reason"], event["type"], event["metadata"]["namespace"]) == ("ReclaimBraked", "Warning", "default")
    assert "namespace" not in event["regarding"]
    obstruction = world.brakes.obstruction("default")
    assert obstruction is not None
    assert "since 2026-11-21T12:01:00Z" in obstruction.reason


async def test_a_tick_without_news_writes_nothing() -> None:
    world = World()
    await world.brake()
    writes = world.writes
    assert writes == 1
    await world.look(rests=JOBS)
    assert (world.writes, len(world.events)) == (writes, 1)


async def test_a_restarted_controller_holds_before_it_has_looked_and_lets_go_when_they_work() -> None:
    world = World()
    await world.brake()
    world.restart()
    assert world.brakes.obstruction("default") is not None
    await world.look(rests=JOBS)
    assert world.brakes.obstruction("default") is not None
    assert len(world.events) == 1, "told once"
    await world.look(JOBS)
    assert world.brakes.obstruction("default") is None
    assert "brake" not in world.status()
    assert "recentIdle" not in world.status()
    condition = world.condition()
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "GoesOn")
    assert [one["reason"] for one in world.events] == ["ReclaimBraked", "BrakeReleased"]


async def test_the_annotation_releases_it_once_and_a_restart_does_not_bring_it_back() -> None:
    world = World()
    await world.brake()
    world.annotate("1")
    await world.look(rests=JOBS)
    status = world.status()
    assert "brake" not in status
    assert status["handledRelease"] == "1"
    assert all(one["released"] for one in status["recentIdle"])
    world.restart()
    await world.look(rests=JOBS)
    assert world.brakes.obstruction("default") is None
    assert "the brake was released by annotation" in world.events[-1]["note"]


async def test_jobs_that_are_all_gone_release_it() -> None:
    world = World()
    await world.brake()
    await world.look()
    assert world.brakes.obstruction("default") is None
    assert "brake" not in world.status()


async def test_each_policy_has_its_own() -> None:
    world = World("default", "research")
    await world.look(JOBS, policy="research")
    await world.look(rests=JOBS, policy="research")
    assert world.brakes.obstruction("research") is not None
    assert world.brakes.obstruction("default") is None
    assert "brake" not in world.status()
    assert world.brakes.obstruction("nowhere") is None


async def test_what_others_write_meanwhile_is_kept() -> None:
    world = World()
    await world.look(JOBS)
    raw = world.api.objects[POLICIES, None, "default"]
    recent = [{"jobUID": "x", "time": "2026-11-21T11:59:00Z", "gpus": 8}]
    world.api.store(POLICIES, None, {**raw, "status": {"recentReclaims": recent}})
    await world.look(rests=JOBS)
    assert world.status()["recentReclaims"] == recent
    assert "brake" in world.status()


@pytest.mark.parametrize(
    "error", [ConflictError("x", code=409, reason="Conflict"), UnavailableError("x", code=None, reason="late")]
)
async def test_what_can_not_be_written_holds_all_the_same_and_is_written_later(error: Exception) -> None:
    world = World()
    await world.look(JOBS)
    world.api.before = failing(error)  # type: ignore[arg-type]  # both are ApiErrors
    await world.look(rests=JOBS)
    assert world.brakes.obstruction("default") is not None
    assert "brake" not in world.status()
    world.api.before = lambda _: None
    await world.look(rests=JOBS)
    assert "brake" in world.status()


async def test_the_policys_own_numbers_count() -> None:
    world = World()
    policy = EffectivePolicy(sources=("default",), reclaim=EffectiveReclaim(window=timedelta(minutes=10)))
    for number in range(len(JOBS)):
        world.clock.time += timedelta(minutes=3)
        await world.brakes.scanned(
            (policy, JobActivity(job_uid=uid, job=uid, gpus=8, works=place > number)) for place, uid in enumerate(JOBS)
        )
    assert world.brakes.obstruction("default") is None, "never five within ten minutes"
