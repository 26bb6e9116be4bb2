"""Objects for tests: DLJobs, Jobs and pods as the API server would give them."""

from typing import Any

from stoker.api.dljob import DLJob

UID = "11111111-1111-1111-1111-111111111111"
JOB_UID = "22222222-2222-2222-2222-222222222222"
WITH_VOLUME: dict[str, Any] = {
    "spec": {
        "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
        "containers": [{"name": "trainer", "volumeMounts": [{"name": "results", "mountPath": "/results"}]}],
    }
}
"""A podTemplate under which what the trainer writes outlives its pods."""


def dljob(
    name: str = "bert", status: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> DLJob:
    """A DLJob with eight GPUs on one node unless `spec` says otherwise."""
    return DLJob.model_validate(dljob_object(name, status, labels, **spec))


def dljob_object(
    name: str = "bert", status: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """The same as JSON."""
    body: dict[str, Any] = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": UID,
            "resourceVersion": "10",
            "generation": 3,
            "labels": labels or {},
        },
        "spec": {"gpusPerNode": 8, "image": "registry.corp/bert:1", "script": "torchrun train.py", **spec},
    }
    return body if status is None else {**body, "status": status}


def job(
    *,
    nodes: int = 1,
    suspend: bool = False,
    annotations: dict[str, str] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A DLJob's Job."""
    return {
        "metadata": {
            "name": "bert",
            "namespace": "team",
            "uid": JOB_UID,
            "resourceVersion": "11",
            "annotations": annotations or {},
            "labels": {"stoker.dev/dljob": "bert"},
            "ownerReferences": [{"controller": True, "uid": UID}],
        },
        "spec": {"suspend": suspend, "parallelism": nodes, "completions": nodes},
        "status": {"conditions": conditions or [], **status},
    }


def pod(
    rank: int = 0,
    *,
    ready: bool = True,
    node: str | None = "gpu-0",
    phase: str = "Running",
    started: str | None = "2026-11-21T05:00:00Z",
    terminating: bool = False,
    conditions: list[dict[str, Any]] | None = None,
    state: dict[str, Any] | None = None,
    uid: str | None = None,
) -> dict[str, Any]:
    """A pod of the Job."""
    metadata: dict[str, Any] = {
        "name": f"bert-{rank}-abcde",
        "namespace": "team",
        "uid": uid or f"pod-{rank}",
        "resourceVersion": "12",
        "labels": {"stoker.dev/dljob": "bert"},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
        "ownerReferences": [{"controller": True, "uid": JOB_UID}],
    }
    if terminating:
        metadata["deletionTimestamp"] = "2026-11-21T06:00:00Z"
    running = {"running": {"startedAt": started}} if started is not None else {"waiting": {"reason": "Creating"}}
    return {
        "metadata": metadata,
        "spec": {
            **({"nodeName": node} if node is not None else {}),
            "containers": [{"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "500m"}}}],
        },
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}, *(conditions or [])],
            "containerStatuses": [
                {"name": "trainer", "image": "registry.corp/bert:1", "restartCount": 0, "state": state or running}
            ],
        },
    }
