"""The cluster's nodes, what runs on some of them, and what waits for GPUs: read only when a job is due."""

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
"""What an object raises that is not as the API describes it: it concerns that object alone."""
NODES_KEPT = timedelta(minutes=1)
"""How long the list of nodes is used again: nodes come and go within minutes."""
FAILURE_KEPT = timedelta(seconds=5)
"""How long a failed read is not repeated."""
READ_AT_ONCE = 8
"""Requests for nodes' pods at a time."""
CLAIMS_READ = 50
"""Persistent volume claims that are read in one search."""
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
VOLUMES = Resource("", "v1", "persistentvolumes")
SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
Claim = tuple[str, str]
"""A persistent volume claim's namespace and name."""
KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})


class CapacityUnreadableError(Exception):
    """Nodes or pods could not be read, or hold what nobody understands."""


class Capacity:
    """Reads them. Every method may raise CapacityUnreadableError; what could not be read is not asked for again at
    once.
    """

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._nodes: tuple[datetime, tuple[Node, ...], dict[str, int]] | None = None
        self._failed: tuple[datetime, str] | None = None
        """When nodes could not be read, and why."""
        self._claims: dict[Claim, tuple[datetime, bool]] = {}
        self._lock = asyncio.Lock()

    async def gpus(self) -> Mapping[str, int]:
        """How many of each extended resource the cluster has, on whatever nodes."""
        return (await self._read_nodes())[2]

    async def nodes(self) -> Sequence[Node]:
        """The nodes that take pods; their room is all that they have."""
        return (await self._read_nodes())[1]

    async def waiting(self, resources: Collection[str]) -> Sequence[Waiting]:
        """The pending pods that wait for a node and ask for any of these, by owner, as far as they can be judged
        (`demand_of`).
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
        """Whether a claim's volume may be mounted on any node, by many pods. One that can't be read may not."""
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
        """The nodes with what is free on them. What pods hold that are ending, or whose owner is `leaving` (by uid),
        counts as free.
        """
        gate = asyncio.Semaphore(READ_AT_ONCE)

        async def read(node: Node) -> Node | None:
            async with gate:
                pods = await self._pods(f"spec.nodeName={node.name}")
            held: Amounts = {}
            for pod in pods:
                if not is_understood(pod):
                    return None  # what it holds is not known, so neither is what is free beside it
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
    """Whatever keeps the answer from being read is one error, with a reason for people."""
    try:
        yield
    except ApiError as error:
        raise CapacityUnreadableError(str(error)) from error
    except ODD as error:
        raise CapacityUnreadableError(f"an object that can't be read ({error})") from error


def is_understood(pod: Object) -> bool:
    """Whether it can be said what a pod asks for, and for how long. One that can't be read concerns itself alone."""
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
    """How many of each extended resource the nodes have together."""
    total: Counter[str] = Counter()
    for node in nodes:
        for name, amount in amounts(node.get("status", {}).get("allocatable")).items():
            if "/" in name:
                total[name] += int(amount)
    return dict(total)


def node_of(raw: Mapping[str, Any]) -> Node:
    """A node with all that it has for pods."""
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
    """The claims of volumes that a pod mounts."""
    for volume in pod["spec"].get("volumes") or ():
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            yield pod["metadata"]["namespace"], claim["claimName"]


def is_everywhere(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Whether a bound volume keeps a pod from no node: no affinity, no zone, and more than one node at a time."""
    labels = volume["metadata"].get("labels") or {}
    return (
        claim.get("status", {}).get("phase") == "Bound"
        and bool(SHARED & set(claim["spec"].get("accessModes") or ()))
        and not volume["spec"].get("nodeAffinity")
        and not any(name.endswith((".kubernetes.io/zone", ".kubernetes.io/region")) for name in labels)
    )


def waiting_of(pods: Iterable[Object], everywhere: Container[Claim] = ()) -> list[Waiting]:
    """Those that wait for a node, together with the others of their owner. An owner with a pending pod that can't be
    judged waits for nothing. Volumes that are `everywhere` keep nobody from a node.
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
    """What a pending pod asks for. None for one that the scheduler has not found unschedulable, that it makes room for
    itself (preemption), that is held back by a gate, as queues do, or that demands what can't be judged: affinity to
    other pods, an even spread, host ports, volumes that are not `everywhere`, claims on devices.
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
    """What a pod asks for, as the scheduler counts it: its containers together with the init containers that stay, or
    the largest that runs before them, and the overhead.
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
    """Quantities as numbers in their units. Raises ValueError for what is none."""
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
    """Whether what the pod holds is free, or about to be."""
    over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return over or "deletionTimestamp" in pod["metadata"] or _owner(pod) in leaving
