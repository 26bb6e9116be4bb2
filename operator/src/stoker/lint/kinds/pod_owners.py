"""Kinds whose pods Stoker knows, and whose manifests it does not read: other controllers' jobs, services, notebooks.

The rules read a pod of each role of them (`stoker diagnose`).
"""

from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind

VOLCANO_JOB = WorkloadKind(
    name="VolcanoJob",
    name_labels=("volcano.sh/job-name",),
    role_labels=("volcano.sh/task-spec",),
    number_labels=(("volcano.sh/task-index",),),
)

RAY_CLUSTER = WorkloadKind(
    name="RayCluster",
    group="ray.io",
    version="v1",
    plural="rayclusters",
    name_labels=("ray.io/cluster",),
    role_labels=("ray.io/group", "ray.io/node-type"),
    owned=True,  # by a RayJob or a RayService
)

RAY_SERVICE = WorkloadKind(name="RayService", job_type=JobType.SERVING)

INFERENCE_SERVICE = WorkloadKind(
    name="InferenceService", name_labels=("serving.kserve.io/inferenceservice",), job_type=JobType.SERVING
)

__all__ = [
    "INFERENCE_SERVICE",
    "RAY_CLUSTER",
    "RAY_SERVICE",
    "VOLCANO_JOB",
]
