"""Kinds of `apps/v1`, and Kubeflow's Notebook: one pod template, and pods that serve or that somebody works in."""

from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.template_field import TemplateField, template_reader

_PODS = (TemplateField(template="spec.template", copies="spec.replicas"),)

DEPLOYMENT = WorkloadKind(
    name="Deployment",
    group="apps",
    version="v1",
    plural="deployments",
    reader=template_reader(_PODS, JobType.SERVING),
    job_type=JobType.SERVING,
)

REPLICA_SET = WorkloadKind(
    name="ReplicaSet",
    group="apps",
    version="v1",
    plural="replicasets",
    reader=template_reader(_PODS, JobType.SERVING),
    job_type=JobType.SERVING,
)

STATEFUL_SET = WorkloadKind(
    name="StatefulSet",
    group="apps",
    version="v1",
    plural="statefulsets",
    reader=template_reader(_PODS, JobType.SERVING),
    number_labels=(("apps.kubernetes.io/pod-index",),),
    job_type=JobType.SERVING,
)

NOTEBOOK = WorkloadKind(
    name="Notebook",
    group="kubeflow.org",
    version="v1",
    plural="notebooks",
    reader=template_reader((TemplateField(template="spec.template"),), JobType.INTERACTIVE),
    name_labels=("notebook-name", "hub.jupyter.org/username"),
    job_type=JobType.INTERACTIVE,
)
"""Kubeflow's notebooks. The pods of JupyterHub's users, which no object of this kind made, are marked alike."""

__all__ = ["DEPLOYMENT", "NOTEBOOK", "REPLICA_SET", "STATEFUL_SET"]
