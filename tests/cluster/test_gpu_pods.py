import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    Answer,
    ApiError,
    NotFoundError,
    Object,
    Resource,
    UnavailableError,
)
from stoker.cluster import gpu_pods
from stoker.cluster.cache import Collection
from stoker.cluster.faults import Faults
from stoker.cluster.gpu_pods import GPUPods
from stoker.cluster.owners import Owner, Owners
from stoker.cluster.policies import Policies


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_pods, "RETRY", 0.0)


def pod(
    name: str, labels: Mapping[str, str] | None = None, *, gpus: int = 1, owner: str = "", namespace: str = "team"
) -> Object:
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "labels": dict(labels or {}),
            "ownerReferences": [controller] if owner else [],
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


class Server:
    """Pods, and a watch that delivers their changes. `refusals` are raised by the next requests, one each."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Object] = {}
        self.read_names: list[str] = []
        self.refusals: list[ApiError] = []
        self.lists = 0
        self.late: asyncio.Event | None = None
        """The next read is answered when this is set, with what it would have been answered at once."""
        self._version = 0
        self._events: asyncio.Queue[tuple[str, Object] | ApiError] = asyncio.Queue()

    def put(self, body: Object, *, silently: bool = False) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        kind = "MODIFIED" if key in self.pods else "ADDED"
        self.pods[key] = body
        if not silently:
            self._events.put_nowait((kind, {"metadata": body["metadata"]}))

    def remove(self, name: str, *, silently: bool = False) -> None:
        gone = self.pods.pop(("team", name))
        if not silently:
            self._events.put_nowait(("DELETED", {"metadata": gone["metadata"]}))

    def break_watch(self, error: ApiError) -> None:
        self._events.put_nowait(error)

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        await asyncio.sleep(0)
        self._refuse()
        self.read_names.append(name)
        if (namespace or "", name) not in self.pods:
            raise NotFoundError("get", code=404, reason="NotFound")
        found = self.pods[namespace or "", name]
        if (late := self.late) is not None:
            self.late = None
            await late.wait()
        return found

    async def list_metadata(
        self, resource: Resource, namespace: str | None, *, labels: str
    ) -> tuple[list[Object], str]:
        self._refuse()
        assert labels == "!stoker.dev/dljob"
        self.lists += 1
        # What the watch would have told before is in the list.
        while not self._events.empty():
            self._events.get_nowait()
        return [{"metadata": one["metadata"]} for one in self.pods.values()], str(self._version)

    async def watch_metadata(
        self, resource: Resource, namespace: str | None, *, labels: str, version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        while True:
            event = await self._events.get()
            if isinstance(event, ApiError):
                raise event
            yield event

    async def get_metadata(self, resource: Resource, namespace: str | None, name: str) -> Object:
        raise NotFoundError("get", code=404, reason="NotFound")

    async def read(self, path: str) -> Answer:
        raise NotFoundError("get", code=404, reason="NotFound")


class World:
    def __init__(self) -> None:
        self.server = Server()
        self.policies, namespaces = Collection(), Collection()
        self._edits = 0
        for name in ("team", "other"):
            namespaces.put({"metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"team": name}}})
        in_force = Policies(self.policies, namespaces)
        self.watch(["*"])
        self.pods = GPUPods(self.server, Owners(self.server), in_force, Faults())
        self.changed: list[str] = []
        self.pods.follow(lambda owner: self.changed.append(owner.name))

    def watch(self, kinds: list[str]) -> None:
        """Have the policy of the namespace team name these kinds."""
        self._edits += 1
        version = str(self._edits)
        spec = {"namespaceSelector": {"matchLabels": {"team": "team"}}, "workloads": {"kinds": kinds}}
        metadata = {"name": "team", "uid": "p", "resourceVersion": version, "generation": self._edits}
        self.policies.watched("MODIFIED", {"metadata": metadata, "spec": spec})

    def held(self) -> Mapping[str, list[str]]:
        """The names of the pods with GPUs, by their owner's name."""
        return {
            owner.name: sorted(one["metadata"]["name"] for one in self.pods.pods_of(owner))
            for owner in self.pods.owners()
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.pods.run())
        async with asyncio.timeout(60):
            await self.pods.listed.wait()
            yield
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()

    async def until(self, **held: list[str]) -> None:
        async with asyncio.timeout(60):
            while self.held() != held:
                await asyncio.sleep(0)


async def test_of_a_template_without_gpus_one_pod_is_read() -> None:
    world = World()
    for number in range(20):
        world.server.put(pod(f"web-{number}", gpus=0, owner="web"))
        world.server.put(pod(f"llm-{number}", owner="llm"))
    world.server.put(pod("alone"))
    async with world.running():
        assert sorted(world.held()) == ["alone", "llm"]
        assert len(world.held()["llm"]) == 20
        read = {name for name in world.server.read_names if name.startswith("web-")}
        assert 1 <= len(read) <= gpu_pods.READERS


async def test_pods_of_a_template_are_told_apart_by_labels_that_do_not_number_them() -> None:
    world = World()
    world.server.put(pod("head", {"role": "head"}, gpus=0, owner="ray"))
    number = "batch.kubernetes.io/job-completion-index"
    for index in "01":
        world.server.put(pod(f"worker-{index}", {"role": "worker", number: index}, owner="ray"))
    async with world.running():
        assert world.held() == {"ray": ["worker-0", "worker-1"]}


async def test_changes_and_deletions_are_followed() -> None:
    world = World()
    async with world.running():
        world.server.put(pod("a", owner="job"))
        await world.until(job=["a"])
        world.changed.clear()
        started = pod("a", owner="job")
        started["status"] = {"phase": "Running"}
        world.server.put(started)
        async with asyncio.timeout(60):
            while not world.changed:
                await asyncio.sleep(0)
        [owner] = world.pods.owners()
        assert world.pods.pods_of(owner)[0]["status"] == {"phase": "Running"}
        world.server.remove("a")
        await world.until()


async def test_a_pod_of_the_same_name_may_belong_to_another_one() -> None:
    world = World()
    world.server.put(pod("a", owner="first"))
    async with world.running():
        assert world.held() == {"first": ["a"]}
        other = pod("a", owner="second")
        other["metadata"]["uid"] = "another"
        world.server.put(other)
        await world.until(second=["a"])


@pytest.mark.parametrize(
    "error",
    [ApiError("watch", code=410, reason="Expired"), UnavailableError("watch", code=None, reason="ClientError")],
)
async def test_what_went_while_the_watch_was_broken_is_forgotten(error: ApiError) -> None:
    world = World()
    world.server.put(pod("a", owner="job"))
    world.server.put(pod("b", owner="job"))
    async with world.running():
        world.server.remove("a", silently=True)
        world.server.put(pod("c", owner="job"), silently=True)
        world.server.break_watch(error)
        await world.until(job=["b", "c"])
        assert world.server.lists == 2


async def test_an_answer_that_comes_late_replaces_no_newer_one() -> None:
    world = World()
    world.server.put(pod("a", owner="job"))
    async with world.running():
        late = world.server.late = asyncio.Event()
        before = len(world.server.read_names)
        world.server.put(pod("a", owner="job"))
        while len(world.server.read_names) == before:
            await asyncio.sleep(0)
        newest = pod("a", owner="job")
        newest["status"] = {"phase": "Running"}
        world.server.put(newest)
        while len(world.server.read_names) == before + 1:
            await asyncio.sleep(0)
        late.set()
        for _ in range(20):
            await asyncio.sleep(0)
        (owner,) = world.pods.owners()
        (held,) = world.pods.pods_of(owner)
        assert held["status"] == {"phase": "Running"}


async def test_an_outage_delays_and_loses_nothing() -> None:
    world = World()
    world.server.put(pod("a", owner="job"))
    world.server.refusals = [UnavailableError("any", code=None, reason="ClientError") for _ in range(5)]
    async with world.running():
        await world.until(job=["a"])


async def test_only_where_a_policy_names_kinds_pods_are_read() -> None:
    world = World()
    world.server.put(pod("a", owner="job"))
    world.server.put(pod("b", owner="job", namespace="other"))
    async with world.running():
        assert world.held() == {"job": ["a"]}
        assert world.server.read_names == ["a"]
        world.watch([])
        await world.until()
        world.watch(["Job"])
        await world.until(job=["a"])


async def test_a_pod_that_can_not_be_read_hides_no_other() -> None:
    world = World()
    strange: Any = pod("strange", owner="job")
    strange["metadata"]["labels"] = None
    broken: Any = pod("broken", owner="broken")
    broken["metadata"]["ownerReferences"] = [{"controller": True}]
    world.server.put(strange)
    world.server.put(broken)
    world.server.put(pod("a", owner="llm"))
    async with world.running():
        assert world.held()["llm"] == ["a"]


async def test_followers_are_called_with_the_workload() -> None:
    world = World()
    seen = list[Owner]()
    world.pods.follow(seen.append)
    world.server.put(pod("a", owner="job"))
    async with world.running():
        assert [(one.namespace, one.kind, one.name) for one in seen] == [("team", "Job", "job")]
