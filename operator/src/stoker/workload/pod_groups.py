"""Jobs of pods that no DLJob owns: which pods belong together, and what diagnosis must know of them."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.models.dljob import GPU_PRODUCT_LABELS, TRAINER
from stoker.models.series import JobFacts
from stoker.models.vocabulary import JobType
from stoker.subjects.gpu_resource import GpuRequest, gpu_request
from stoker.subjects.pod import listed, mapping
from stoker.workload import pods as pod_status
from stoker.workload.facts import ProgramFacts, pod_facts, writes_to_claim
from stoker.workload.manifest import DLJOB_LABEL

GROUP_LABELS = (
    ("training.kubeflow.org/job-name", ""),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("serving.kserve.io/inferenceservice", "InferenceService"),
    ("notebook-name", "Notebook"),
    ("hub.jupyter.org/username", "Notebook"),
)
"""Labels by which controllers of several pods mark their own, and the kind where it is not the owner's."""
RANK_LABELS = ("training.kubeflow.org/replica-index", "apps.kubernetes.io/pod-index")
ROLE_LABEL = "training.kubeflow.org/replica-type"
SERVING = frozenset({"Deployment", "InferenceService", "LeaderWorkerSet", "ReplicaSet", "StatefulSet"})
"""Kinds that keep their pods for ever: what they run is a service, whatever its GPUs do."""
INTERACTIVE = frozenset({"Notebook"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods with GPUs that one object made, in the order of their creation. A pod of nobody's is a group by itself."""

    kind: str
    namespace: str
    name: str
    pods: tuple[Mapping[str, Any], ...]

    @property
    def container(self) -> str:
        """The name of the container that holds the latest pod's GPUs."""
        found = _trainer(self.pods[-1])
        assert found is not None  # groups has asked
        return found[0]


def groups(pods: Iterable[Mapping[str, Any]]) -> list[PodGroup]:
    """The pods that hold GPUs, by what made them; those of DLJobs are left out."""
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for pod in sorted(pods, key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
        if DLJOB_LABEL in mapping(pod["metadata"].get("labels")) or _request(pod) is None:
            continue
        kind, name = _owner(pod)
        found.setdefault((pod["metadata"]["namespace"], kind, name), []).append(pod)
    return [
        PodGroup(kind=kind, namespace=namespace, name=name, pods=tuple(members))
        for (namespace, kind, name), members in sorted(found.items())
    ]


def group_facts(group: PodGroup, program: ProgramFacts) -> JobFacts:
    """The facts of a group. Of pods that replaced one another the latest counts, the others are its former pods."""
    requests = [request for pod in group.pods if (request := _request(pod)) is not None]
    resource = max(requests, key=lambda request: request.count).resource
    known = [pod_facts(_with_trainer(pod), resource) for pod in group.pods]
    ranked = [replace(pod, rank=rank) for pod, rank in zip(known, _ranks(group.pods), strict=True)]
    latest = {pod.rank: pod for pod in ranked}
    return JobFacts(
        namespace=group.namespace,
        name=group.name,
        uid=f"{group.namespace}/{group.kind}/{group.name}",
        nodes=len(latest),
        gpus_per_node=max(pod.gpus for pod in ranked),
        gpu_resource=resource,
        gpu_product=_product(group.pods, resource),
        job_type=_job_type(group.kind),
        framework=program.framework,
        pods=tuple(pod for _, pod in sorted(latest.items())),
        former_pods=tuple(pod for pod in ranked if latest[pod.rank] is not pod and pod.started_at is not None),
        interactive_entry=program.interactive_entry,
        processes_per_node=program.processes_per_node,
        batch_size=program.batch_size,
        has_persistent_volume=writes_to_claim(group.pods[-1]["spec"]),
    )


def _owner(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of what made the pod: the outermost that its labels and its owner tell."""
    metadata = pod["metadata"]
    labels = mapping(metadata.get("labels"))
    owner = next((one for one in listed(metadata.get("ownerReferences")) if one.get("controller")), None)
    for label, kind in GROUP_LABELS:
        if labels.get(label):
            return kind or str(mapping(owner).get("kind") or "Job"), str(labels[label])
    if owner is not None:
        kind, name, revision = str(owner["kind"]), str(owner["name"]), labels.get("pod-template-hash")
        return ("Deployment", name.removesuffix(f"-{revision}")) if kind == "ReplicaSet" and revision else (kind, name)
    return "Pod", str(metadata["name"])


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
    """Each pod's rank as its controller numbers it; else they take turns, as many at a time as are there together."""
    numbered = [_rank(pod) for pod in pods]
    if all(rank is not None for rank in numbered):
        return [rank for rank in numbered if rank is not None]
    there = sum(not pod_status.is_finished(pod) for pod in pods)
    width = there or sum(pod_status.phase(pod) == "Succeeded" for pod in pods) or 1
    # The last ones are those that are there.
    return [(place - len(pods)) % width for place in range(len(pods))]


def _rank(pod: Mapping[str, Any]) -> int | None:
    labels = mapping(pod["metadata"].get("labels"))
    annotations = mapping(pod["metadata"].get("annotations"))
    for text in (annotations.get(pod_status.INDEX_ANNOTATION), *map(labels.get, RANK_LABELS)):
        if text is not None and str(text).isdecimal():
            # A PyTorchJob numbers its workers from 0, and they follow the master.
            return int(text) + (labels.get(ROLE_LABEL) == "worker")
    return None


def _job_type(kind: str) -> JobType:
    if kind in SERVING:
        return JobType.SERVING
    return JobType.INTERACTIVE if kind in INTERACTIVE else JobType.TRAINING


def _product(pods: Sequence[Mapping[str, Any]], resource: str) -> str | None:
    label = GPU_PRODUCT_LABELS.get(resource.partition("/")[0])
    if label is None:
        return None
    selectors = [mapping(pod["spec"].get("nodeSelector")) for pod in pods]
    return next((str(selector[label]) for selector in selectors if label in selector), None)


__all__ = ["PodGroup", "group_facts", "groups"]
