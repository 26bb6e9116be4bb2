"""Kubeflow's MPIJob: v2beta1 of the MPI operator 0.8, and v1 of the training operator 1.9.

The launcher starts its programs on the GPUs of the workers, by ssh or kubectl; the workers wait for it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api.structural import Schema
from stoker.lint.kinds.gpu_resource import GpuRequest, gpu_request
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.kubeflow_jobs import NAME_LABEL, NUMBER_LABEL, ROLE_LABELS, replica_schema, replicas_of
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet

_FIELD = "mpiReplicaSpecs"
LAUNCHER, WORKER = "Launcher", "Worker"


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    roles = {role: (at, pods, count) for role, at, pods, count in replicas_of(document, _FIELD)}
    driven = _most(*roles[WORKER][:2]) if WORKER in roles else None
    if WORKER in roles:
        at, pods, count = roles[WORKER]
        yield PodSet(spec=pods, at=at, copies=count, driven=True)
    if LAUNCHER in roles:
        at, pods, _ = roles[LAUNCHER]
        yield PodSet(
            spec=pods,
            at=at,
            nodes_field=f"spec.{_FIELD}.{WORKER}.replicas",
            nodes=roles[WORKER][2] if driven is not None else 1,
            drives=driven,
        )


def _most(at: str, pods: Mapping[str, Any]) -> GpuRequest | None:
    """The GPUs of a pod: those of its container with the most."""
    containers = enumerate(map(mapping, listed(pods.get("containers"))))
    asked = (gpu_request(one, f"{at}.containers[{index}]") for index, one in containers)
    return max((one for one in asked if one is not None), key=lambda one: one.count, default=None)


@lru_cache(maxsize=1)
def _schema() -> Schema:
    roles = {"type": "object", "additionalProperties": replica_schema()}
    return whole_object(part_of_object({"slotsPerWorker": COUNT, _FIELD: roles}, _FIELD))


MPI_JOB = WorkloadKind(
    name="MPIJob",
    group="kubeflow.org",
    version="v2beta1",
    plural="mpijobs",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=(NAME_LABEL,),
    shares_labels=True,
    role_labels=ROLE_LABELS,
    number_labels=((NUMBER_LABEL,),),
)
"""The launcher of v2beta1 is the pod of a Job of its own."""

__all__ = ["MPI_JOB"]
