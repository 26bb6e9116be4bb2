"""Kubernetes' own kinds of workload: the Job, and the Pod by itself."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.lint.kinds.kind import SuspendField, WorkloadKind
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_manifest import COUNT, pod_manifest_reader, whole_object, with_properties
from stoker.lint.kinds.pod_set import PodSet, whole_number

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"


@lru_cache(maxsize=1)
def _pod_schema() -> Schema:
    return whole_object(kubernetes_schema.pod_template()["properties"]["spec"])


@lru_cache(maxsize=1)
def _job_schema() -> Schema:
    return whole_object(
        with_properties(
            kubernetes_schema.job_spec(),
            {
                "parallelism": COUNT,
                "completions": COUNT,
                "completionMode": {"type": "string", "enum": ["Indexed", "NonIndexed"]},
                "template": kubernetes_schema.pod_template(),
            },
        )
    )


def _pod_sets_of_pod(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """A pod by itself; it may still be one node of several."""
    yield PodSet(spec=mapping(document.get("spec")), at="spec")


def _pod_sets_of_job(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of a Job: nodes of one group where they can find one another, else independent copies.

    They can with a completion index, as many at a time as there are in all, and a subdomain under which their host
    names resolve (Kubernetes documentation, "Job with Pod-to-Pod Communication").
    """
    spec = mapping(document.get("spec"))
    template = mapping(mapping(spec.get("template")).get("spec"))
    indexed = spec.get("completionMode") == "Indexed"
    parallel = whole_number(spec, "parallelism", 1)
    pods = max(1, min(parallel, whole_number(spec, "completions", parallel)))
    group = indexed and bool(template.get("subdomain")) and pods == spec.get("completions")
    index = "0" if pods == 1 and spec.get("completions") == 1 else None
    yield PodSet(
        spec=template,
        at="spec.template.spec",
        nodes_field="spec.completions" if group else "spec.parallelism",
        nodes=pods if group else 1,
        nodes_known=group,
        copies=1 if group else pods,
        rank="JOB_COMPLETION_INDEX" if indexed else "",
        variables=(("JOB_COMPLETION_INDEX", "", index),) if indexed else (),
    )


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

__all__ = ["INDEX_ANNOTATION", "JOB", "POD", "SUSPEND"]
