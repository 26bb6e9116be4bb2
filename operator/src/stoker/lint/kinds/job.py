"""Kubernetes' own kinds of batch workload: the Job, the CronJob, and the Pod by itself."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.lint.kinds.kind import SuspendField, WorkloadKind
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_manifest import (
    COUNT,
    object_with,
    part_of_object,
    pod_manifest_reader,
    whole_object,
    with_properties,
)
from stoker.lint.kinds.pod_set import PodSet, whole_number

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"


@lru_cache(maxsize=1)
def _pod_schema() -> Schema:
    return whole_object(kubernetes_schema.pod_template()["properties"]["spec"])


@lru_cache(maxsize=1)
def job_spec_schema() -> Schema:
    """The schema of a Job's spec; `kubernetes_schema` has a looser one of what is read here."""
    return with_properties(
        kubernetes_schema.job_spec(),
        {
            "parallelism": COUNT,
            "completions": COUNT,
            "completionMode": {"type": "string", "enum": ["Indexed", "NonIndexed"]},
            "template": kubernetes_schema.pod_template(),
        },
    )


@lru_cache(maxsize=1)
def _job_schema() -> Schema:
    return whole_object(job_spec_schema())


@lru_cache(maxsize=1)
def _cron_job_schema() -> Schema:
    metadata = kubernetes_schema.object_metadata()
    template = object_with({"metadata": metadata, "spec": job_spec_schema()}, "spec")
    return whole_object(part_of_object({"jobTemplate": template}, "jobTemplate"))


def _pod_sets_of_pod(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """A pod by itself; it may still be one node of several."""
    yield PodSet(spec=mapping(document.get("spec")), at="spec")


def pods_of_job(
    spec: Mapping[str, Any],
    at: str,
    *,
    indexed: bool = False,
    resolved: bool = False,
    replicas: int = 1,
    alone: bool = True,
) -> PodSet:
    """The pods of a Job with this spec at this field path: nodes of one group where they can find one another, else
    independent copies.

    They can with a completion index, as many at a time as there are in all, and a subdomain under which their host
    names resolve (Kubernetes documentation, "Job with Pod-to-Pod Communication").

    indexed: it is Indexed unless it says otherwise. resolved: its owner gives it a subdomain. replicas: how many such
    Jobs there are. alone: no other Job may work with it.
    """
    template = mapping(mapping(spec.get("template")).get("spec"))
    indexed = spec.get("completionMode", "Indexed" if indexed else None) == "Indexed"
    parallel = whole_number(spec, "parallelism", 1)
    pods = max(1, min(parallel, whole_number(spec, "completions", parallel)))
    complete = pods == whole_number(spec, "completions", 1 if resolved and pods == 1 else 0)
    group = indexed and (resolved or bool(template.get("subdomain"))) and complete
    index = "0" if pods == 1 and complete and alone else None
    return PodSet(
        spec=template,
        at=f"{at}.template.spec",
        nodes_field=f"{at}.completions" if group else f"{at}.parallelism",
        nodes=pods if group else 1,
        nodes_known=group and alone,
        copies=replicas if group else replicas * pods,
        rank="JOB_COMPLETION_INDEX" if indexed else "",
        variables=(("JOB_COMPLETION_INDEX", "", index),) if indexed else (),
    )


def _pod_sets_of_job(document: Mapping[str, Any]) -> Iterator[PodSet]:
    yield pods_of_job(mapping(document.get("spec")), "spec")


def _pod_sets_of_cron_job(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of one run."""
    yield pods_of_job(mapping(document["spec"]["jobTemplate"].get("spec")), "spec.jobTemplate.spec")


SUSPEND = SuspendField(name="suspend", suspended=True)
"""`spec.suspend` of a Job."""

POD = WorkloadKind(
    name="Pod",
    version="v1",
    plural="pods",
    reader=pod_manifest_reader(_pod_schema, _pod_sets_of_pod),
)

JOB = WorkloadKind(
    name="Job",
    group="batch",
    version="v1",
    plural="jobs",
    reader=pod_manifest_reader(_job_schema, _pod_sets_of_job),
    number_labels=((INDEX_ANNOTATION,),),
    suspend=SUSPEND,
)

CRON_JOB = WorkloadKind(
    name="CronJob",
    group="batch",
    version="v1",
    plural="cronjobs",
    reader=pod_manifest_reader(_cron_job_schema, _pod_sets_of_cron_job),
)
"""Its pods are its Jobs'; `spec.suspend` of a CronJob ends nothing that runs."""

__all__ = ["CRON_JOB", "INDEX_ANNOTATION", "JOB", "POD", "SUSPEND", "job_spec_schema", "pods_of_job"]
