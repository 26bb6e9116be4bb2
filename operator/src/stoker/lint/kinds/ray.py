"""KubeRay's kinds (ray.io/v1 of 1.6): RayCluster, RayJob and RayService, and what KubeRay adds to their pods.

The first container of each pod runs `ray start` with the group's rayStartParams, after the command of its own. Without
`num-gpus` among them Ray gets the GPUs of the container's limits. /dev/shm is as large as the pod's memory.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.schema import field_path_of
from stoker.api.structural import Schema
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.container import Argument
from stoker.lint.kinds.gpu_resource import GpuRequest, gpu_request
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import SHARED_MEMORY, listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, FLAG, TEXT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

OWN_COMMAND = "ray.io/overwrite-container-cmd"
"""The annotation of a pod template whose container starts Ray by itself."""

_SHARED = "stoker-shared-memory"


def _pods_of_cluster(spec: Mapping[str, Any], at: str, job_type: JobType) -> Iterator[PodSet]:
    """The head and the workers of a cluster's spec at this field path."""
    head = mapping(spec["headGroupSpec"])
    yield _pods_of_group(head, f"{at}.headGroupSpec", 1, job_type, head=True)
    for index, group in enumerate(map(mapping, listed(spec.get("workerGroupSpecs")))):
        least = whole_number(group, "minReplicas", 1)
        copies = max(1, whole_number(group, "replicas", least)) * max(1, whole_number(group, "numOfHosts", 1))
        yield _pods_of_group(group, f"{at}.workerGroupSpecs[{index}]", copies, job_type)


def _pods_of_group(group: Mapping[str, Any], at: str, copies: int, job_type: JobType, *, head: bool = False) -> PodSet:
    template = mapping(group.get("template"))
    spec = _with_shared_memory(mapping(template.get("spec")))
    containers = [mapping(one) for one in listed(spec.get("containers"))]
    annotations = mapping(mapping(template.get("metadata")).get("annotations"))
    own = bool(containers) and any(containers[0].get(name) for name in ("command", "args"))
    replaced = str(annotations.get(OWN_COMMAND)).lower() == "true"
    return PodSet(
        spec=spec,
        at=f"{at}.template.spec",
        copies=copies,
        job_type=job_type,
        command=None if own or replaced else tuple(_start(group, at, head=head)),
    )


def _start(group: Mapping[str, Any], at: str, *, head: bool) -> Iterator[Argument]:
    """The command that KubeRay makes of a group's parameters, as far as it matters, with the field of each word."""
    field = f"{at}.rayStartParams"
    yield from ((field, word) for word in (("ray", "start", "--head") if head else ("ray", "start")))
    for name, value in mapping(group.get("rayStartParams")).items():
        if isinstance(value, str):
            yield f"{field}{field_path_of((name,), inner=True)}", f"--{name}={value}"
    yield field, "--block"


def _with_shared_memory(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod's spec with the volume that KubeRay mounts at /dev/shm, where nothing is mounted there."""
    containers = [mapping(one) for one in listed(spec.get("containers"))]
    if not containers:
        return spec
    mounts = [mapping(one) for one in listed(containers[0].get("volumeMounts"))]
    if any(str(mount.get("mountPath", "")).rstrip("/") == SHARED_MEMORY for mount in mounts):
        return spec
    first = {**containers[0], "volumeMounts": [*mounts, {"name": _SHARED, "mountPath": SHARED_MEMORY}]}
    volumes = [*listed(spec.get("volumes")), {"name": _SHARED, "emptyDir": {"medium": "Memory"}}]
    return {**spec, "containers": [first, *containers[1:]], "volumes": volumes}


def _of_cluster(document: Mapping[str, Any]) -> Iterator[PodSet]:
    return _pods_of_cluster(document["spec"], "spec", JobType.TRAINING)


def _of_service(document: Mapping[str, Any]) -> Iterator[PodSet]:
    return _pods_of_cluster(document["spec"]["rayClusterConfig"], "spec.rayClusterConfig", JobType.SERVING)


def _of_job(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of the job's cluster, and its entry point, which Ray runs on the head.

    A job for a cluster that is there already (`clusterSelector`) has no pods of its own.
    """
    spec = document["spec"]
    cluster = mapping(spec.get("rayClusterSpec"))
    if not cluster:
        return
    sets = list(_pods_of_cluster(cluster, "spec.rayClusterSpec", JobType.TRAINING))
    yield from sets
    entrypoint = spec.get("entrypoint")
    held = max(filter(None, (_gpus_of(pods) for pods in sets)), key=lambda one: one.count, default=None)
    if isinstance(entrypoint, str) and held is not None:
        yield PodSet(
            spec={**sets[0].spec, "initContainers": [], "containers": [_driver(sets[0].spec)]},
            at=sets[0].at,
            command=(("spec.entrypoint", "/bin/sh"), ("spec.entrypoint", "-c"), ("spec.entrypoint", entrypoint)),
            drives=held,
        )


def _driver(head: Mapping[str, Any]) -> Mapping[str, Any]:
    """The head's container without its GPUs: the entry point's tasks use those of the cluster."""
    first = mapping(next(iter(listed(head.get("containers"))), {}))
    return {name: value for name, value in first.items() if name != "resources"}


def _gpus_of(pods: PodSet) -> GpuRequest | None:
    containers = enumerate(map(mapping, listed(pods.spec.get("containers"))))
    asked = (gpu_request(one, f"{pods.at}.containers[{index}]") for index, one in containers)
    return next((one for one in asked if one is not None), None)


@lru_cache(maxsize=1)
def _cluster_schema() -> Schema:
    parameters = {"type": "object", "additionalProperties": TEXT}
    group = {"rayStartParams": parameters, "template": kubernetes_schema.pod_template()}
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas", "numOfHosts"), COUNT)
    workers = {"type": "array", "items": part_of_object({**group, **counts, "groupName": TEXT}, "template")}
    head = part_of_object(group, "template")
    cluster = {"headGroupSpec": head, "workerGroupSpecs": workers, "enableInTreeAutoscaling": FLAG}
    return part_of_object(cluster, "headGroupSpec")


def _schema_with(field: str, *required: str) -> Callable[[], Schema]:
    """The schema of an object that has the cluster's spec in a field of its own."""

    @cache
    def schema() -> Schema:
        return whole_object(part_of_object({field: _cluster_schema(), "entrypoint": TEXT}, *required))

    return schema


RAY_CLUSTER = WorkloadKind(
    name="RayCluster",
    group="ray.io",
    version="v1",
    plural="rayclusters",
    reader=pod_manifest_reader(cache(lambda: whole_object(_cluster_schema())), _of_cluster),
    name_labels=("ray.io/cluster",),
    role_labels=("ray.io/group", "ray.io/node-type"),
    owned=True,  # by a RayJob or a RayService
)

RAY_JOB = WorkloadKind(
    name="RayJob",
    group="ray.io",
    version="v1",
    plural="rayjobs",
    reader=pod_manifest_reader(_schema_with("rayClusterSpec"), _of_job),
)

RAY_SERVICE = WorkloadKind(
    name="RayService",
    group="ray.io",
    version="v1",
    plural="rayservices",
    reader=pod_manifest_reader(_schema_with("rayClusterConfig", "rayClusterConfig"), _of_service),
    job_type=JobType.SERVING,
)

__all__ = ["RAY_CLUSTER", "RAY_JOB", "RAY_SERVICE"]
