"""The pods with GPUs that no DLJob made, by the workload that they belong to. Used by the controller, where the chart's
value workloads.kinds is on.

A cluster has many more pods than pods with GPUs. So the metadata of all pods is watched, and of the pods themselves
only those with GPUs are read, in the namespaces where a policy asks for them (`spec.workloads`). Pods that one object
made from one template have the same resources: the first of them is read to know whether the others hold GPUs.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.adapters.kubernetes.client import PODS, ApiError, NotFoundError, Object, Resource
from stoker.cluster.cache import Key, key_of, slim_containers, version_of
from stoker.cluster.faults import Faults
from stoker.cluster.owners import Owner, Owners
from stoker.cluster.policies import Policies
from stoker.lint.kinds.gpu_resource import gpu_request
from stoker.lint.kinds.pod import listed, mapping
from stoker.workload.manifest import DLJOB_LABEL, controller_of

logger = logging.getLogger(__name__)

SELECTOR = f"!{DLJOB_LABEL}"
READERS = 4
"""Pods that are read at the same time. Chosen small: after a start thousands may wait, and reconciling goes on."""
RETRY = 2.0
"""Seconds after which a failed list, watch or read is tried again."""
GONE = 410
"""The status of a watch whose resource version is too old."""
PER_POD = (
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "leaderworkerset.sigs.k8s.io/group-index",
    "statefulset.kubernetes.io/pod-name",
    "training.kubeflow.org/replica-index",
)
"""Labels that number the pods of one template."""

Template = tuple[str, frozenset[tuple[str, str]]]
"""The uid of the pod's controller, and the labels that all pods of a template share."""


class PodReader(Protocol):
    """The requests that are made here. Each may raise ApiError."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object: ...

    async def list_metadata(
        self, resource: Resource, namespace: str | None, *, labels: str
    ) -> tuple[list[Object], str]: ...

    def watch_metadata(
        self, resource: Resource, namespace: str | None, *, labels: str, version: str
    ) -> AsyncIterator[tuple[str, Object]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the watch has told of a pod."""

    uid: str
    version: int
    template: Template | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUPod:
    """A pod with GPUs and the topmost object that it belongs to."""

    pod: Object
    owner: Owner


class GPUPods:
    """Holds the pods with GPUs, and calls `changed` with the workload whose pods have changed."""

    def __init__(
        self, api: PodReader, owners: Owners, policies: Policies, faults: Faults, *, namespaces: Sequence[str] = ()
    ) -> None:
        """Without `namespaces` all are watched."""
        self._scopes: Sequence[str | None] = namespaces or (None,)
        self._unlisted = set(self._scopes)
        self._api = api
        self._owners = owners
        self._policies = policies
        self._faults = faults
        self._known: dict[Key, _Known] = {}
        self._has_gpus: dict[Template, bool] = {}
        self._pods: dict[Key, GPUPod] = {}
        self._members: dict[Owner, dict[Key, GPUPod]] = defaultdict(dict)
        self._unread: dict[Key, None] = {}
        """The pods to read, the oldest first."""
        self._wake = asyncio.Event()
        self._followers: list[Callable[[Owner], None]] = []
        self.listed = asyncio.Event()
        """Set once all pods have been listed, and those with GPUs have been read."""
        policies.follow(self._policy_changed)

    def follow(self, follower: Callable[[Owner], None]) -> None:
        """Call `follower` from now on with each workload whose pods have changed."""
        self._followers.append(follower)

    def owners(self) -> Iterable[Owner]:
        """The workloads that have pods with GPUs."""
        return list(self._members)

    def pods_of(self, owner: Owner) -> list[Object]:
        """The pods with GPUs of a workload, as they were read last."""
        return [held.pod for held in self._members.get(owner, {}).values()]

    async def run(self) -> None:
        """List, watch and read until cancelled."""
        async with asyncio.TaskGroup() as group:
            for scope in self._scopes:
                group.create_task(self._watch(scope))
            for _ in range(READERS):
                group.create_task(self._read_waiting())

    # -------------------------------------------------------------------------------------------------------- watching

    async def _watch(self, namespace: str | None) -> None:
        failing = False
        while True:
            try:
                version = await self._list(namespace)
                failing = False
                while True:
                    version = await self._follow(namespace, version)
            except ApiError as error:
                if error.code == GONE:
                    continue
                if not failing:
                    logger.warning("Can't watch pods, trying again every %g s: %s", RETRY, error)
                failing = True
                await asyncio.sleep(RETRY)

    async def _list(self, namespace: str | None) -> str:
        listed, version = await self._api.list_metadata(PODS, namespace, labels=SELECTOR)
        present = {key_of(one) for one in listed}
        for key in [key for key in self._known if namespace in {None, key.namespace} and key not in present]:
            self._forget(key)
        for one in listed:
            self._take(one)
        alive = {known.template for known in self._known.values()}
        self._has_gpus = {template: holds for template, holds in self._has_gpus.items() if template in alive}
        self._unlisted.discard(namespace)
        self._wake.set()
        return version

    async def _follow(self, namespace: str | None, version: str) -> str:
        """Take the changes of one watch; returns the resource version to go on from."""
        async for kind, obj in self._api.watch_metadata(PODS, namespace, labels=SELECTOR, version=version):
            version = str(obj["metadata"]["resourceVersion"])
            if kind == "DELETED":
                self._forget(key_of(obj))
            elif kind != "BOOKMARK":
                self._take(obj)
        return version

    def _take(self, obj: Object) -> None:
        key = key_of(obj)
        try:
            known = _Known(uid=obj["metadata"]["uid"], version=version_of(obj), template=_template(obj))
        except Exception as error:
            self._faults.caught("pods", str(key), error)
            return
        before = self._known.get(key)
        if before == known:
            return
        if before is not None and before.uid != known.uid:
            self._drop(key)
        self._known[key] = known
        self._want(key)

    def _want(self, key: Key) -> None:
        """Have a pod read, if it may have GPUs and a policy asks for such."""
        known = self._known[key]
        if not self._policies.of(key.namespace).workloads.kinds:
            self._drop(key)
        elif known.template is None or self._has_gpus.get(known.template, True):
            self._unread[key] = None
            self._wake.set()

    def _forget(self, key: Key) -> None:
        self._known.pop(key, None)
        self._drop(key)

    def _drop(self, key: Key) -> None:
        self._unread.pop(key, None)
        held = self._pods.pop(key, None)
        if held is None:
            return
        members = self._members[held.owner]
        members.pop(key, None)
        if not members:
            del self._members[held.owner]
        self._notify(held.owner)

    def _policy_changed(self, namespace: str | None) -> None:
        for key in list(self._known):
            if namespace in {None, key.namespace}:
                self._want(key)

    def _notify(self, owner: Owner) -> None:
        for follower in self._followers:
            follower(owner)

    # --------------------------------------------------------------------------------------------------------- reading

    async def _read_waiting(self) -> None:
        while True:
            while not self._unread:
                if not self._unlisted:
                    self.listed.set()
                self._wake.clear()
                await self._wake.wait()
            key = next(iter(self._unread))
            del self._unread[key]
            try:
                await self._read(key)
            except ApiError as error:
                logger.info("pod %s is not read: %s", key, error)
                await asyncio.sleep(RETRY)
                if key in self._known:
                    self._want(key)
            except Exception as error:
                self._faults.caught("pods", str(key), error)
            else:
                self._faults.passed("pods", str(key))

    async def _read(self, key: Key) -> None:
        known = self._known.get(key)
        if known is None:
            return
        if known.template is not None and self._has_gpus.get(known.template) is False:
            return
        try:
            pod = await self._api.get(PODS, key.namespace, key.name)
        except NotFoundError:
            return  # the watch will say that it is gone
        if pod["metadata"]["uid"] != known.uid:
            return  # the watch will tell of the new one
        holds = has_gpus(pod)
        if known.template is not None:
            self._has_gpus[known.template] = holds
        if not holds:
            return
        held = self._pods.get(key)
        owner = held.owner if held is not None else await self._owners.topmost(pod)
        if key not in self._known or self._known[key].uid != known.uid:
            return  # it went while its owner was asked for
        newest = self._pods.get(key)
        if newest is not None and version_of(newest.pod) >= version_of(pod):
            return  # another reader was asked for it later, and was answered first
        self._pods[key] = self._members[owner][key] = GPUPod(pod=slim_containers(pod), owner=owner)
        self._notify(owner)


def has_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether one of its containers asks for GPUs, by an extended resource."""
    spec = mapping(pod.get("spec"))
    containers = (*listed(spec.get("containers")), *listed(spec.get("initContainers")))
    return any(gpu_request(mapping(one), "") is not None for one in containers)


def _template(obj: Mapping[str, Any]) -> Template | None:
    """What tells that two pods have the same resources; None for a pod without a controller."""
    reference = controller_of(obj)
    if reference is None:
        return None
    labels = mapping(obj["metadata"].get("labels"))
    return str(reference["uid"]), frozenset((name, str(value)) for name, value in labels.items() if name not in PER_POD)
