"""Whether somebody waits for the GPUs that a reclaim would free, and would then fit.

It asks what the scheduler asks first: node selectors, required node affinity, taints, and resources. What else a pod
may demand can't be judged here, and who demands it counts as waiting for nothing: doubt means no pressure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

Amounts = Mapping[str, Fraction]
"""Resources by their names, in their units."""
NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint; those that only ask to be preferred are none."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A pod's toleration; an empty key tolerates all, an empty effect each."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint keeps the pod away no longer."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.exists
        return self.key == taint.key and (self.exists or self.value == taint.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One demand on a node's labels, or on its name (NAME_FIELD)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the node meets it; an operator that is not known is never met."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
            case _:
                return False

    def _compares(self, value: str | None) -> bool:
        try:
            number, bound = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that takes pods, and the room on it. `labels` hold its name, too."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    room: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPod:
    """What one pending pod asks for. `terms`: the node must meet all requirements of one; without any, every node
    does.
    """

    requests: Amounts
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()

    def may_run_on(self, node: Node) -> bool:
        """Whether the pod may run on the node, were there room."""
        return (
            all(node.labels.get(key) == value for key, value in self.selector.items())
            and (self.terms is None or any(_meets(term, node) for term in self.terms))
            and all(any(one.tolerates(taint) for one in self.tolerations) for taint in node.taints)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The pending pods of one owner, which start together or not at all."""

    owner: str
    since: datetime
    pods: tuple[PendingPod, ...]

    def asks_for(self, resources: Iterable[str]) -> bool:
        """Whether one of the pods asks for any of these."""
        return any(pod.requests.get(name, 0) > 0 for pod in self.pods for name in resources)

    def may_run_on(self, node: Node) -> bool:
        """Whether one of the pods may run on the node."""
        return any(pod.may_run_on(node) for pod in self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What the reclaim of a job frees, by node."""

    job_uid: str
    by_node: Mapping[str, Amounts]


def pressed(waiting: Iterable[Waiting], nodes: Sequence[Node], gains: Sequence[Gain]) -> frozenset[str]:
    """The jobs that must go for who waits, of those that are due, in the order in which they are to go.

    Who waits longest is thought of first, and for each as few jobs as possible, of which the first ones go. Who would
    fit without any waits for something else, or for the scheduler, which is about to come to it.
    """
    left = list(gains)
    room: dict[str, Amounts] = {node.name: node.room for node in nodes}
    chosen: set[str] = set()
    for group in sorted(waiting, key=lambda one: (one.since, one.owner)):
        if (taken := _placed(group, nodes, room)) is not None:
            room = taken
            continue
        if _placed(group, nodes, _with(room, left)) is None:
            continue
        going = left
        for one in reversed(left):
            fewer = [other for other in going if other is not one]
            if _placed(group, nodes, _with(room, fewer)) is not None:
                going = fewer
        room = _placed(group, nodes, _with(room, going)) or room
        chosen |= {one.job_uid for one in going}
        left = [one for one in left if one not in going]
    return frozenset(chosen)


def _placed(group: Waiting, nodes: Sequence[Node], room: Mapping[str, Amounts]) -> dict[str, Amounts] | None:
    """The room that is left when all pods of the group have found a node, those with the most devices first, each where
    it leaves the least; None when one found none. A better packing may exist: then nobody is reclaimed for it.
    """
    left = dict(room)
    for pod in sorted(group.pods, key=_devices, reverse=True):
        fitting = [node for node in nodes if pod.may_run_on(node) and _fits(pod.requests, left[node.name])]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: [left[node.name].get(name, 0) for name in sorted(pod.requests)])
        left[best.name] = {
            name: amount - pod.requests.get(name, Fraction(0)) for name, amount in left[best.name].items()
        }
    return left


def _devices(pod: PendingPod) -> Fraction:
    return sum((amount for name, amount in pod.requests.items() if "/" in name), Fraction(0))


def _fits(requests: Amounts, room: Amounts) -> bool:
    return all(amount <= room.get(name, Fraction(0)) for name, amount in requests.items() if amount > 0)


def _with(room: Mapping[str, Amounts], gains: Iterable[Gain]) -> dict[str, Amounts]:
    """The room with what the reclaims free, on the nodes that are known."""
    more = dict(room)
    for gain in gains:
        for name, amounts in gain.by_node.items():
            if name in more:
                more[name] = added(more[name], amounts)
    return more


def added(one: Amounts, other: Amounts, sign: int = 1) -> dict[str, Fraction]:
    """The sum, or with `sign` -1 the difference."""
    return {name: one.get(name, Fraction(0)) + sign * other.get(name, Fraction(0)) for name in {*one, *other}}


def _meets(term: Sequence[Requirement], node: Node) -> bool:
    """An empty term is met by no node (k8s.io/api/core/v1, NodeSelectorTerm)."""
    return bool(term) and all(one.holds(node.labels) for one in term)
