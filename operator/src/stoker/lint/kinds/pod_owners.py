"""Kinds whose pods Stoker knows, and whose manifests it does not read: other controllers' jobs, services, notebooks.

The rules read a pod of each role of them (`stoker diagnose`).
"""

from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind

INFERENCE_SERVICE = WorkloadKind(
    name="InferenceService", name_labels=("serving.kserve.io/inferenceservice",), job_type=JobType.SERVING
)

__all__ = [
    "INFERENCE_SERVICE",
]
