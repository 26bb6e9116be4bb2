"""All kinds of workload that Stoker knows. Whatever depends on a kind asks its record here; nothing else lists kinds.

Used by lint.files.judgement, inspection.clustered and workload.pod_groups.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.lint.kinds import apps
from stoker.lint.kinds.dljob import DLJOB
from stoker.lint.kinds.inference_service import INFERENCE_SERVICE
from stoker.lint.kinds.job import CRON_JOB, JOB, POD
from stoker.lint.kinds.job_set import JOB_SET
from stoker.lint.kinds.kind import ReadContext, WorkloadKind
from stoker.lint.kinds.kubeflow_jobs import KUBEFLOW_JOBS
from stoker.lint.kinds.leader_worker_set import LEADER_WORKER_SET
from stoker.lint.kinds.mpi_job import MPI_JOB
from stoker.lint.kinds.pytorch_job import PYTORCH_JOB
from stoker.lint.kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from stoker.lint.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME
from stoker.lint.kinds.volcano_job import VOLCANO_JOB
from stoker.lint.submission import Submission

KINDS: tuple[WorkloadKind, ...] = (
    DLJOB,
    PYTORCH_JOB,
    *KUBEFLOW_JOBS,
    MPI_JOB,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    CLUSTER_TRAINING_RUNTIME,
    JOB_SET,
    LEADER_WORKER_SET,
    VOLCANO_JOB,
    RAY_JOB,
    RAY_SERVICE,
    RAY_CLUSTER,
    INFERENCE_SERVICE,
    apps.NOTEBOOK,
    JOB,
    CRON_JOB,
    apps.DEPLOYMENT,
    apps.REPLICA_SET,
    apps.STATEFUL_SET,
    POD,
)
"""In the order in which a pod's labels are asked: a kind that makes others, as a JobSet makes Jobs, comes first."""

_BY_NAME: Mapping[str, WorkloadKind] = {kind.name: kind for kind in KINDS}


def kind_named(name: str) -> WorkloadKind:
    """The record of a kind; of one that is not known, a record that says no more than its name."""
    return _BY_NAME.get(name) or WorkloadKind(name=name)


def readable_kind(document: Any, kinds: Sequence[WorkloadKind] = KINDS) -> WorkloadKind | None:
    """The kind of a document that the rules can judge; None for every other document. kinds: those that are known."""
    if not isinstance(document, Mapping):
        return None
    return next((kind for kind in kinds if kind.reader is not None and kind.is_of(document)), None)


def kind_of(api_version: str, kind: str) -> WorkloadKind:
    """The record of what an owner reference names; of a kind that is not known, a record that says no more than its
    name.
    """
    reference = {"apiVersion": api_version, "kind": kind}
    return next((one for one in KINDS if one.group and one.is_of(reference)), None) or kind_named(kind)


def submissions(document: Mapping[str, Any], context: ReadContext | None = None) -> list[Submission]:
    """What rules look at of a document: its containers that ask for GPUs, and the init containers beside them.

    Empty for a document of a kind that is not read, and for one without GPUs. Raises ManifestError for one that breaks
    its schema where it is read.
    """
    kind = readable_kind(document)
    return [] if kind is None or kind.reader is None else kind.reader.submissions(document, context or ReadContext())


__all__ = ["KINDS", "kind_named", "kind_of", "readable_kind", "submissions"]
