"""Reads the cluster's nodes, the room on some of them, and the pending pods that wait for GPUs.

Used by constraints.py, only when a job is due for reclaim. What a pod requests and where it may run follows the
scheduler's rules as far as they can be evaluated from outside; `reclaim.pressure` has the computation.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import NODES, PODS, ApiError, KubernetesApi, Object, Resource
from stoker.findings.quantity import exact_quantity
from stoker.reclaim.pressure import (
    NAME_FIELD,
    Amounts,
    Node,
    PendingPod,
    Requirement,
    Taint,
    Toleration,
    Waiting,
    added,
)
from stoker.workload.pods import read_time

logger = logging.getLogger(__name__)

ODD = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError)
"""The exceptions that a malformed object causes while it is read. Only that object is left out."""
NODES_KEPT = timedelta(minutes=1)
"""How long the list of nodes is reused. Chosen because autoscalers add and remove nodes within minutes."""
FAILURE_KEPT = timedelta(seconds=5)
"""How long the error of a failed read is reused before the next attempt."""
READ_AT_ONCE = 8
"""Parallel requests for nodes' pods."""
CLAIMS_READ = 50
"""Persistent volume claims that one search reads."""
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes")
SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
Claim = tuple[str, str]
"""A persistent volume claim's namespace and name."""
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


class CapacityUnreadableError(Exception):
    """Nodes or pods could not be listed, or their content is malformed; the text says why."""


class Capacity:
    """Reads nodes and pods, with short caches. Every method may raise CapacityUnreadableError."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._nodes: tuple[datetime, tuple[Node, ...], dict[str, int]] | None = None
        self._failed: tuple[datetime, str] | None = None
        """The time and reason of the last failed list of nodes."""
        self._claims: dict[Claim, tuple[datetime, bool]] = {}
        self._lock = asyncio.Lock()

    async def gpus(self) -> Mapping[str, int]:
        """The cluster's total of each extended resource, over all nodes, by resource name."""
        return (await self._read_nodes())[2]

    async def nodes(self) -> Sequence[Node]:
        """The schedulable nodes. Their `room` is everything allocatable, as if no pod ran there."""
        return (await self._read_nodes())[1]

    async def waiting(self, resources: Collection[str]) -> Sequence[Waiting]:
        """The pending pods that wait for a node and request any of these extended resources, by owner. Owners with a
        pod that can't be evaluated are left out (`demand_of`).
        """
        pods = await self._pods("status.phase=Pending")
        with _understood():
            pods = [pod for pod in pods if is_understood(pod)]
            claims = sorted(
                {claim for pod in pods if requests_of(pod).keys() & set(resources) for claim in claims_of(pod)}
            )
            free = [claim for claim in claims[:CLAIMS_READ] if await self._is_everywhere(*claim)]
            return [one for one in waiting_of(pods, frozenset(free)) if one.asks_for(resources)]

    async def _is_everywhere(self, namespace: str, name: str) -> bool:
        """Whether a claim's volume can be mounted on any node by several pods; False when it can't be read."""
        now = self._clock.now()
        known = self._claims.get((namespace, name))
        if known is None or now - known[0] >= NODES_KEPT:
            try:
                claim = await self._api.get(CLAIMS, namespace, name)
                volume = await self._api.get(VOLUMES, None, claim["spec"].get("volumeName") or "-")
                known = now, is_everywhere(claim, volume)
            except ApiError:
                known = now, False
            fresh = {key: one for key, one in self._claims.items() if now - one[0] < NODES_KEPT}
            self._claims = {**fresh, (namespace, name): known}
        return known[1]

    async def with_room(self, nodes: Iterable[Node], *, leaving: frozenset[str]) -> list[Node]:
        """The nodes with their free room. Requests of pods that are ending, or whose controller's uid is in `leaving`,
        count as free. A node with a pod that can't be read is left out.
        """
        gate = asyncio.Semaphore(READ_AT_ONCE)

        async def read(node: Node) -> Node | None:
            async with gate:
                pods = await self._pods(f"spec.nodeName={node.name}")
            held: Amounts = {}
            for pod in pods:
                if not is_understood(pod):
                    return None  # the pod's requests are unknown, and so is the node's free room
                if not _is_leaving(pod, leaving):
                    held = added(held, requests_of(pod))
            return replace(node, room=added(node.room, held, -1))

        with _understood():
            found = await asyncio.gather(*map(read, nodes))
        return [node for node in found if node is not None]

    async def _pods(self, fields: str) -> list[Object]:
        with _understood():
            pods, _ = await self._api.list(PODS, fields=fields)
        return pods

    async def _read_nodes(self) -> tuple[datetime, tuple[Node, ...], dict[str, int]]:
        async with self._lock:
            now = self._clock.now()
            if self._nodes is not None and now - self._nodes[0] < NODES_KEPT:
                return self._nodes
            if self._failed is not None and now - self._failed[0] < FAILURE_KEPT:
                raise CapacityUnreadableError(self._failed[1])
            try:
                with _understood():
                    listed, _ = await self._api.list(NODES)
                    listed = [node for node in listed if _is_node(node)]
                    self._nodes = now, tuple(map(node_of, filter(_takes_pods, listed))), _devices(listed)
            except CapacityUnreadableError as error:
                self._failed = now, str(error)
                raise
            return self._nodes


@contextmanager
def _understood() -> Iterator[None]:
    """Turn API errors and malformed objects into CapacityUnreadableError."""
    try:
        yield
    except ApiError as error:
        raise CapacityUnreadableError(str(error)) from error
    except ODD as error:
        raise CapacityUnreadableError(f"an object that can't be read ({error})") from error


def is_understood(pod: Object) -> bool:
    """Whether a pod's requests, demands, claims and owner can be read. A malformed pod is logged and left out."""
    try:
        requests_of(pod)
        demand_of(pod)
        list(claims_of(pod))
        _owner(pod)
    except ODD as error:
        logger.warning("pod %s can't be read: %s", pod.get("metadata", {}).get("name"), error)
        return False
    return True


def _is_node(node: Object) -> bool:
    try:
        node_of(node)
        _devices([node])
    except ODD as error:
        logger.warning("node %s can't be read: %s", node.get("metadata", {}).get("name"), error)
        return False
    return True


def _takes_pods(node: Mapping[str, Any]) -> bool:
    return not node.get("spec", {}).get("unschedulable")


def _devices(nodes: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The nodes' total of each extended resource. Their names contain a slash (`nvidia.com/gpu`)."""
    total: Counter[str] = Counter()
    for node in nodes:
        for name, amount in amounts(node.get("status", {}).get("allocatable")).items():
            if "/" in name:
                total[name] += int(amount)
    return dict(total)


def node_of(raw: Mapping[str, Any]) -> Node:
    """A node from its JSON. Its `room` is everything allocatable. Raises one of ODD if it is malformed."""
    name = raw["metadata"]["name"]
    taints = (
        Taint(key=one["key"], value=one.get("value") or "", effect=one["effect"])
        for one in raw.get("spec", {}).get("taints") or ()
        if one["effect"] in KEEPS_AWAY
    )
    return Node(
        name=name,
        labels={**(raw["metadata"].get("labels") or {}), NAME_FIELD: name},
        taints=tuple(taints),
        room=amounts(raw.get("status", {}).get("allocatable")),
    )


def claims_of(pod: Mapping[str, Any]) -> Iterator[Claim]:
    """The persistent volume claims of a pod's volumes."""
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield pod["metadata"]["namespace"], claim["claimName"]


def is_everywhere(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Whether a bound volume allows a pod on every node: it has no node affinity and no zone, and several nodes may
    mount it at a time.
    """
    labels = volume["metadata"].get("labels") or {}
    return (
        claim.get("status", {}).get("phase") == "Bound"
        and bool(SHARED & set(claim["spec"].get("accessModes") or ()))
        and not volume["spec"].get("nodeAffinity")
        and not any(name.endswith((".kubernetes.io/zone", ".kubernetes.io/region")) for name in labels)
    )


def waiting_of(pods: Iterable[Object], everywhere: Container[Claim] = ()) -> list[Waiting]:
    """Group the pods that wait for a node by their owner. An owner with a pod that can't be evaluated is left out.

    `everywhere` are the claims whose volumes can be mounted on any node.
    """
    groups: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            groups[_owner(pod)].append(pod)
    found: list[Waiting] = []
    for owner, members in groups.items():
        demands = [demand_of(pod, everywhere) for pod in members]
        since = [time for pod in members if (time := read_time(pod["metadata"].get("creationTimestamp"))) is not None]
        judged = tuple(one for one in demands if one is not None)
        if len(judged) == len(members) == len(since):
            found.append(Waiting(owner=owner, since=min(since), pods=judged))
    return found


def demand_of(pod: Mapping[str, Any], everywhere: Container[Claim] = ()) -> PendingPod | None:
    """What a pending pod demands of a node, or None if freed GPUs would not help it or its demands can't be evaluated.

    None for a pod that the scheduler has not reported as unschedulable, that preempts others (nominatedNodeName), or
    that has scheduling gates, as queues set them. None also for a pod with a required affinity to other pods, a strict
    topology spread, host ports, volumes that are not `everywhere`, or device claims.
    """
    spec, status = pod["spec"], pod.get("status", {})
    unschedulable = any(
        one["type"] == "PodScheduled" and one["status"] == "False" and one.get("reason") == "Unschedulable"
        for one in status.get("conditions") or ()
    )
    affinity = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    unjudged = (
        any((affinity.get(kind) or {}).get(required) for kind in ("podAffinity", "podAntiAffinity"))
        or any(one.get("whenUnsatisfiable") != "ScheduleAnyway" for one in spec.get("topologySpreadConstraints") or ())
        or any(claim not in everywhere for claim in claims_of(pod))
        or any({"ephemeral", "csi"} & one.keys() for one in spec.get("volumes") or ())
        or any(port.get("hostPort") for one in spec.get("containers", ()) for port in one.get("ports") or ())
        or spec.get("resourceClaims")
    )
    if not unschedulable or unjudged or spec.get("schedulingGates") or status.get("nominatedNodeName"):
        return None
    selected = (affinity.get("nodeAffinity") or {}).get(required)
    terms = None if selected is None else tuple(map(_term, selected.get("nodeSelectorTerms") or ()))
    tolerations = (
        Toleration(
            key=one.get("key") or "",
            exists=one.get("operator") == "Exists",
            value=one.get("value") or "",
            effect=one.get("effect") or "",
        )
        for one in spec.get("tolerations") or ()
    )
    return PendingPod(
        requests=requests_of(pod),
        selector=spec.get("nodeSelector") or {},
        terms=terms,
        tolerations=tuple(tolerations),
    )


def requests_of(pod: Mapping[str, Any]) -> dict[str, Fraction]:
    """A pod's requests as the scheduler counts them, by resource, in the resource's base unit.

    They are the larger of two sums: the containers with the sidecars (init containers that restart always), and the
    largest init container with the sidecars started before it. The pod's overhead is added. Requests of the pod itself
    replace the sums of its containers.
    """
    spec = pod["spec"]
    total: Amounts = {"pods": Fraction(1)}
    largest: dict[str, Fraction] = {}
    stays: Amounts = {}
    for one in spec.get("initContainers") or ():
        own = _requests(one)
        if one.get("restartPolicy") == "Always":
            stays = added(stays, own)
            own = dict(stays)
        else:
            own = added(own, stays)
        largest = {name: max(largest.get(name, Fraction(0)), own.get(name, Fraction(0))) for name in {*largest, *own}}
    for one in spec.get("containers") or ():
        total = added(total, _requests(one))
    total = added(total, stays)
    whole = _requests(spec)
    most = {name: max(total.get(name, Fraction(0)), largest.get(name, Fraction(0))) for name in {*total, *largest}}
    return added({**most, **whole}, amounts(spec.get("overhead")))


def _requests(holder: Mapping[str, Any]) -> dict[str, Fraction]:
    resources = holder.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def amounts(given: Mapping[str, Any] | None) -> dict[str, Fraction]:
    """Kubernetes quantities as exact numbers in base units (`500m` is 1/2). Raises ValueError for anything else."""
    found: dict[str, Fraction] = {}
    for name, value in (given or {}).items():
        if (amount := exact_quantity(value)) is None:
            message = f"{str(value)[:64]!r} is not a quantity"
            raise ValueError(message)
        found[name] = amount
    return found


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    given = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
    return tuple(
        Requirement(key=one["key"], operator=one["operator"], values=tuple(one.get("values") or ())) for one in given
    )


def _owner(pod: Mapping[str, Any]) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one["uid"]) for one in owners if one.get("controller")), str(pod["metadata"]["uid"]))


def _is_leaving(pod: Mapping[str, Any], leaving: frozenset[str]) -> bool:
    """Whether the pod's resources are free or will be soon."""
    over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return over or "deletionTimestamp" in pod["metadata"] or _owner(pod) in leaving
