"""Jobs of pods that no DLJob owns: which pods belong together, and what diagnosis must know of them."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from stoker.api.dljob import TRAINER
from stoker.findings.quantity import small_number
from stoker.lint.kinds.apps import DEPLOYMENT, REPLICA_SET
from stoker.lint.kinds.gpu_resource import GpuRequest, gpu_request
from stoker.lint.kinds.job import JOB, POD
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.mpi_job import MPI_JOB
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.registry import KINDS, kind_named
from stoker.telemetry.series import JobFacts
from stoker.workload import pods as pod_status
from stoker.workload.facts import ProgramFacts, pod_facts, selected_product
from stoker.workload.manifest import DLJOB_LABEL
from stoker.workload.volumes import keeps_results, mounts_storage

NAME_LABELS: Mapping[str, WorkloadKind] = {label: kind for kind in KINDS for label in kind.name_labels}
"""Labels by which controllers of several pods mark their own, in the order in which they are asked."""
UID_LABELS = tuple(kind.uid_label for kind in KINDS if kind.uid_label)
ROLE_LABELS = tuple(dict.fromkeys(label for kind in KINDS for label in kind.role_labels))
"""Labels that tell apart pods of one object that are numbered separately; the first that is there counts."""
NUMBER_LABELS = tuple(dict.fromkeys(labels for kind in KINDS for labels in kind.number_labels))
"""Labels and annotations that number the pods of one role; the first entry whose first label is there counts."""
LEADERS = frozenset({"chief", "driver", "head", "headgroup", "launcher", "leader", "master"})
"""Roles whose pods come first."""
_Role = tuple[bool, int, str]
"""Whether it follows the leaders, its number if it is one, its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods with GPUs that one object made, in the order of their creation. A pod of nobody's is a group by itself.

    `uid` is the object's, as far as its pods name it; `replaced`: another object of the same name was created since.
    """

    kind: str
    namespace: str
    name: str
    pods: tuple[Mapping[str, Any], ...]
    uid: str = ""
    replaced: bool = False

    @property
    def container(self) -> str:
        """The name of the container that holds the latest pod's GPUs."""
        found = _trainer(self.pods[-1])
        assert found is not None  # groups has asked
        return found[0]

    @property
    def spec(self) -> Mapping[str, Any]:
        """The latest pod's, with the container that holds the GPUs under the name that a DLJob gives it."""
        return mapping(_with_trainer(self.pods[-1])["spec"])

    @property
    def children(self) -> frozenset[str]:
        """The names of the objects between it and its pods: a JobSet's Jobs, a Deployment's ReplicaSets."""
        return frozenset(str(owner.get("name")) for pod in self.pods if (owner := _controller(pod)) is not None)

    def roles(self) -> list[tuple[Mapping[str, Any], int]]:
        """The latest pod of each role, and how many pods the role has beside one another."""
        ranks: dict[_Role, set[int]] = {}
        latest: dict[_Role, Mapping[str, Any]] = {}
        for pod, rank in zip(self.pods, _ranks(self.pods), strict=True):
            ranks.setdefault(_role(pod), set()).add(rank)
            latest[_role(pod)] = pod
        return [(latest[role], len(ranks[role])) for role in sorted(latest)]


def groups(pods: Iterable[Mapping[str, Any]]) -> list[PodGroup]:
    """The pods that hold GPUs, by what made them; those of DLJobs are left out."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for pod in sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
        if DLJOB_LABEL in mapping(pod["metadata"].get("labels")) or _request(pod) is None:
            continue
        kind, name = _owner(pod)
        found.setdefault((pod["metadata"]["namespace"], kind, name), []).append(pod)
    return [
        group
        for (namespace, kind, name), members in sorted(found.items())
        for group in _by_uid(kind, namespace, name, members)
    ]


def group_facts(group: PodGroup, program: ProgramFacts) -> JobFacts:
    """The facts of a group. Of pods that replaced one another the latest counts, the others are its former pods."""
    requests = [request for pod in group.pods if (request := _request(pod)) is not None]
    resource = max(requests, key=lambda request: request.count).resource
    known = [pod_facts(_with_trainer(pod), resource) for pod in group.pods]
    ranked = [replace(pod, rank=rank) for pod, rank in zip(known, _ranks(group.pods), strict=True)]
    # What still runs is no former pod, whatever was created after it.
    order = sorted(zip(group.pods, ranked, strict=True), key=lambda one: not pod_status.is_finished(one[0]))
    latest = {pod.rank: pod for _, pod in order}
    return JobFacts(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid or f"{group.namespace}/{group.kind}/{group.name}",
        nodes=len(latest),
        gpus_per_node=max(pod.gpus for pod in ranked),
        gpus_of_pods=sum(pod.gpus for pod in latest.values()),
        gpu_resource=resource,
        gpu_product=selected_product(group.pods, resource),
        job_type=kind_named(group.kind).job_type,
        framework=program.framework,
        pods=tuple(pod for _, pod in sorted(latest.items())),
        former_pods=tuple(pod for pod in ranked if latest[pod.rank] is not pod and pod.started_at is not None),
        interactive_entry=program.interactive_entry,
        starts_server=program.serves,
        offers=program.offers,
        processes_per_node=program.processes_per_node,
        batch_size=program.batch_size,
        has_persistent_volume=all(keeps_results(pod["spec"]) for pod in group.pods),
        mounts_storage=any(mounts_storage(pod["spec"]) for pod in group.pods),
    )


def _by_uid(kind: str, namespace: str, name: str, pods: Sequence[Mapping[str, Any]]) -> list[PodGroup]:
    """One group for each object that had this name. Pods without an owner belong to the latest."""
    uids = [_owner_uid(pod, name) for pod in pods]
    latest = next((uid for uid in reversed(uids) if uid), "")
    return [
        PodGroup(
            kind=kind,
            namespace=namespace,
            name=name,
            pods=tuple(pod for pod, own in zip(pods, uids, strict=True) if (own or latest) == uid),
            uid=uid,
            replaced=uid != latest,
        )
        for uid in dict.fromkeys(own or latest for own in uids)
    ]


def _owner_uid(pod: Mapping[str, Any], name: str) -> str:
    """The uid of the object that the pod's group stands for; empty where only something between the two is known."""
    labels = mapping(pod["metadata"].get("labels"))
    if (marked := next((labels[label] for label in UID_LABELS if label in labels), None)) is not None:
        return str(marked)
    owner = mapping(_controller(pod))
    return str(owner.get("uid") or "") if owner.get("name") == name else ""


def _controller(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The reference to what made the pod."""
    references = map(mapping, listed(pod["metadata"].get("ownerReferences")))
    return next((one for one in references if one.get("controller")), None)


def _owner(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of what made the pod: the outermost that its labels and its owner tell."""
    metadata = pod["metadata"]
    labels = mapping(metadata.get("labels"))
    owner = _controller(pod)
    for label, kind in NAME_LABELS.items():
        if labels.get(label):
            return _kind_of_shared_label(owner) if kind.shares_labels else kind.name, str(labels[label])
    if owner is not None:
        made_by, name, revision = str(owner.get("kind")), str(owner.get("name")), labels.get("pod-template-hash")
        if made_by == REPLICA_SET.name and revision:
            return DEPLOYMENT.name, name.removesuffix(f"-{revision}")
        return made_by, name
    return POD.name, str(metadata["name"])


def _kind_of_shared_label(owner: Mapping[str, Any] | None) -> str:
    """The kind of a job of Kubeflow's training operators. An MPIJob's launcher is the pod of a Job of its own."""
    kind = str(mapping(owner).get("kind") or MPI_JOB.name)
    return MPI_JOB.name if kind == JOB.name else kind


def _trainer(pod: Mapping[str, Any]) -> tuple[str, GpuRequest] | None:
    """The container with the most GPUs, which stands for the program; the first of equals."""
    asked = [
        (str(container["name"]), request)
        for container in map(mapping, listed(pod["spec"].get("containers")))
        if (request := gpu_request(container, "")) is not None
    ]
    return max(asked, key=lambda one: one[1].count, default=None)


def _request(pod: Mapping[str, Any]) -> GpuRequest | None:
    found = _trainer(pod)
    return None if found is None else found[1]


def _with_trainer(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod with its GPUs' container under the name that a DLJob's has."""
    found = _trainer(pod)
    assert found is not None  # groups has asked
    renamed: dict[str, Any] = copy.deepcopy(dict(pod))
    for container in (
        *renamed["spec"]["containers"],
        *mapping(renamed.get("status")).get("containerStatuses", ()),
    ):
        container["name"] = TRAINER if container["name"] == found[0] else f"not-{container['name']}"
    return renamed


def _ranks(pods: Sequence[Mapping[str, Any]]) -> list[int]:
    """Each pod's rank: pods of the same role and number replaced one another. Ranks are the controller's own numbers
    where there is one role with one number a pod, else they count through roles, leaders first, and numbers.
    """
    by_role: dict[_Role, list[int]] = {}
    for place, pod in enumerate(pods):
        by_role.setdefault(_role(pod), []).append(place)
    slots: dict[int, tuple[_Role, tuple[int, ...]]] = {}
    for role, places in by_role.items():
        numbers = [_numbers(pods[place]) for place in places]
        if any(number is None for number in numbers):
            numbers = [(turn,) for turn in _turns([pods[place] for place in places])]
        slots |= {place: (role, number or ()) for place, number in zip(places, numbers, strict=True)}
    if len(by_role) == 1 and all(len(number) == 1 for _, number in slots.values()):
        return [slots[place][1][0] for place in range(len(pods))]
    rank_of = {slot: rank for rank, slot in enumerate(sorted(set(slots.values())))}
    return [rank_of[slots[place]] for place in range(len(pods))]


def _turns(pods: Sequence[Mapping[str, Any]]) -> list[int]:
    """Numbers for pods of one role without any: those that are there each have their own, and of those that have ended
    as many ran at a time.
    """
    there = [not pod_status.is_finished(pod) for pod in pods]
    width = sum(there) or sum(pod_status.phase(pod) == "Succeeded" for pod in pods) or 1
    if not any(there):
        return [(place - len(pods)) % width for place in range(len(pods))]
    counters = {True: count(), False: count()}
    return [next(counters[is_there]) % width for is_there in there]


def _role(pod: Mapping[str, Any]) -> "_Role":
    """What its controller calls its part, in the order of ranks."""
    labels = mapping(pod["metadata"].get("labels"))
    role = next((str(labels[label]) for label in ROLE_LABELS if labels.get(label)), "")
    return role.lower() not in LEADERS, small_number(role) or 0, role


def _numbers(pod: Mapping[str, Any]) -> tuple[int, ...] | None:
    """How its controller numbers it within its role; None where it does not."""
    metadata = pod["metadata"]
    known = {**mapping(metadata.get("annotations")), **mapping(metadata.get("labels"))}
    labels = next((labels for labels in NUMBER_LABELS if labels[0] in known), None)
    if labels is None:
        return None
    numbers = [small_number(known.get(label)) for label in labels]
    return None if None in numbers else tuple(number for number in numbers if number is not None)


__all__ = ["PodGroup", "group_facts", "groups"]
