"""Which GPUWorkloads are created, written and deleted. What Kubernetes does with them is tried end to end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import GPU_WORKLOADS, ForbiddenError, Object, UnavailableError
from stoker.cluster.cache import Key
from stoker.cluster.workqueue import Transient
from stoker.controller.assembly import Controller, WatchedWorkloads
from stoker.controller.gpu_workloads import REFUSED
from tests.cluster.test_gpu_pods import Server, pod
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock

KEY = Key("team", "job-train")
NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def running(name: str, *, owner: str = "train", gpus: int = 8) -> Object:
    one = pod(name, gpus=gpus, owner=owner)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-02T10:00:00Z"}
    state = {"running": {"startedAt": "2026-03-02T10:00:00Z"}}
    one["spec"]["nodeName"] = "gpu-1"
    one["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, ready],
        "containerStatuses": [{"name": "main", "state": state, "ready": True}],
    }
    return one


class World:
    def __init__(self) -> None:
        self.api, self.server = FakeApi(), Server()
        self.controller: Controller = assembled(self.api, HeldClock(NOW), pods=self.server)
        metadata = {"name": "team", "uid": "n", "resourceVersion": "1", "labels": {}}
        self.controller.cache.namespaces.put({"metadata": metadata})
        self._edits = 1
        self.policy("*")

    @property
    def others(self) -> WatchedWorkloads:
        assert self.controller.others is not None
        return self.controller.others

    def policy(self, *kinds: str) -> None:
        """Have the policy name these kinds."""
        self._edits += 1
        version = {"resourceVersion": str(self._edits), "generation": self._edits}
        body = {"metadata": {"name": "default", "uid": "p", **version}, "spec": {"workloads": {"kinds": list(kinds)}}}
        self.controller.cache.policies.watched("MODIFIED", body)

    def put(self, body: Object) -> None:
        """Somebody's GPUWorkload, which the watch has delivered."""
        self.controller.cache.gpu_workloads.put(self.api.store(GPU_WORKLOADS, "team", body))

    def stored(self) -> Object | None:
        return self.api.objects.get((GPU_WORKLOADS, "team", KEY.name))

    async def reconcile(self) -> Any:
        return await self.others.reconciler.reconcile(KEY)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.others.pods.run())
        async with asyncio.timeout(60):
            await self.others.pods.listed.wait()
            yield
        task.cancel()
        await asyncio.wait([task])


async def test_a_workload_gets_one_that_its_owner_owns() -> None:
    world = World()
    world.server.put(running("train-0"))
    world.server.put(running("train-1"))
    async with world.watching():
        assert await world.reconcile() is None
    stored = world.stored()
    assert stored is not None
    assert stored["spec"]["owner"] == {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train"}
    assert stored["metadata"]["ownerReferences"][0]["uid"] == "uid-train"
    status = stored["status"]
    assert (status["phase"], status["gpus"], status["ready"]) == ("Running", 16, "2/2")
    assert {one["name"] for one in status["pods"]} == {"train-0", "train-1"}
    assert not [one for one in world.api.requests if one.split()[1] not in {"gpuworkloads", "events"}]


async def test_kinds_of_one_name_in_two_groups_get_one_each() -> None:
    world = World()
    volcano = running("v-0")
    volcano["metadata"]["ownerReferences"][0] |= {"apiVersion": "batch.volcano.sh/v1alpha1", "uid": "uid-volcano"}
    world.server.put(running("train-0"))
    world.server.put(volcano)
    async with world.watching():
        for name in (KEY.name, "volcanojob-train"):
            assert await world.others.reconciler.reconcile(Key("team", name)) is None
    made = {key[2]: one["spec"]["owner"]["uid"] for key, one in world.api.objects.items() if key[0] == GPU_WORKLOADS}
    assert made == {KEY.name: "uid-train", "volcanojob-train": "uid-volcano"}


async def test_nothing_is_written_where_nothing_has_changed() -> None:
    world = World()
    world.server.put(running("train-0"))
    async with world.watching():
        await world.reconcile()
        world.api.requests.clear()
        await world.reconcile()
    assert world.api.requests == []


@pytest.mark.parametrize("kinds", [(), ("Deployment", "JobSet")])
async def test_a_kind_that_no_policy_names_gets_none(kinds: tuple[str, ...]) -> None:
    world = World()
    world.server.put(running("train-0"))
    async with world.watching():
        world.policy(*kinds)
        await world.reconcile()
    assert world.stored() is None


async def test_it_is_deleted_when_no_policy_names_its_kind_any_more() -> None:
    world = World()
    world.server.put(running("train-0"))
    async with world.watching():
        await world.reconcile()
        world.policy("JobSet")
        await world.reconcile()
    assert world.stored() is None


async def test_it_stays_when_its_pods_are_gone_and_remembers_them() -> None:
    world = World()
    world.server.put(running("train-0"))
    async with world.watching():
        await world.reconcile()
        world.server.remove("train-0")
        while world.others.pods.owners():
            await asyncio.sleep(0)
        await world.reconcile()
    stored = world.stored()
    assert stored is not None
    assert (stored["status"]["phase"], stored["status"]["gpus"]) == ("Pending", 8)
    [run] = stored["status"]["pods"]
    assert (run["name"], "until" in run) == ("train-0", True)


async def test_another_object_of_the_same_name_gets_another_one() -> None:
    world = World()
    world.server.put(running("train-0"))
    async with world.watching():
        await world.reconcile()
        world.server.remove("train-0")
        second = running("train-0")
        second["metadata"]["uid"] = "second"
        second["metadata"]["ownerReferences"][0]["uid"] = "uid-second"
        world.server.put(second)
        while [one.uid for one in world.others.pods.owners()] != ["uid-second"]:
            await asyncio.sleep(0)
        await world.reconcile()
        assert world.stored() is None
        world.controller.cache.gpu_workloads.compare([], version=1000)  # the watch has delivered the deletion
        await world.reconcile()
    stored = world.stored()
    assert stored is not None
    assert stored["spec"]["owner"]["uid"] == "uid-second"


async def test_one_that_can_not_be_read_is_made_again() -> None:
    world = World()
    world.server.put(running("train-0"))
    world.put({"metadata": {"name": KEY.name, "namespace": "team"}, "spec": {"owner": "somebody"}})
    async with world.watching():
        await world.reconcile()
        assert world.stored() is None
        world.controller.cache.gpu_workloads.compare([], version=1000)
        await world.reconcile()
    assert world.stored() is not None


async def test_a_refusal_is_no_reason_to_ask_again_at_once() -> None:
    world = World()
    world.server.put(running("train-0"))

    def refuse(request: str) -> None:
        if request == "create gpuworkloads":
            raise ForbiddenError("create", code=403, reason="Forbidden")

    world.api.before = refuse
    async with world.watching():
        assert await world.reconcile() == REFUSED


async def test_an_outage_is_tried_again() -> None:
    world = World()
    world.server.put(running("train-0"))

    def refuse(request: str) -> None:
        raise UnavailableError(request, code=None, reason="ClientError")

    world.api.before = refuse
    async with world.watching():
        with pytest.raises(Transient):
            await world.reconcile()
