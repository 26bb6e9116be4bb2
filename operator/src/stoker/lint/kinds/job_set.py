"""JobSet (jobset.x-k8s.io/v1alpha2, 0.12): Jobs that start, fail and end together.

Its webhook makes the child Jobs Indexed unless they say otherwise, and gives their pods host names that resolve, unless
`network.enableDNSHostnames` is false.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.lint.kinds.gpu_resource import gpu_request
from stoker.lint.kinds.job import INDEX_ANNOTATION, job_spec_schema, pods_of_job
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.pod_manifest import (
    COUNT,
    FLAG,
    TEXT,
    object_with,
    part_of_object,
    pod_manifest_reader,
    whole_object,
)
from stoker.lint.kinds.pod_set import PodSet, whole_number


def pods_of_replicated_jobs(spec: Mapping[str, Any], at: str) -> Iterator[PodSet]:
    """The pods of a JobSet's spec at this field path.

    The pods of a child Job are one group. Whether several child Jobs work together, nobody but their program knows.
    """
    resolved = mapping(spec.get("network")).get("enableDNSHostnames") is not False
    jobs = [mapping(one) for one in listed(spec.get("replicatedJobs"))]
    alone = sum(map(_asks_for_gpus, jobs)) == 1
    for index, job in enumerate(jobs):
        replicas = max(1, whole_number(job, "replicas", 1))
        yield pods_of_job(
            mapping(job["template"].get("spec")),
            f"{at}.replicatedJobs[{index}].template.spec",
            indexed=True,
            resolved=resolved,
            replicas=replicas,
            alone=alone and replicas == 1,
        )


def _asks_for_gpus(job: Mapping[str, Any]) -> bool:
    pods = mapping(mapping(mapping(mapping(job["template"]).get("spec")).get("template")).get("spec"))
    return any(gpu_request(mapping(one), "") is not None for one in listed(pods.get("containers")))


@lru_cache(maxsize=1)
def job_set_spec_schema() -> Schema:
    """The schema of a JobSet's spec, as far as it is read."""
    template = object_with({"metadata": kubernetes_schema.object_metadata(), "spec": job_spec_schema()}, "spec")
    job = part_of_object({"name": TEXT, "replicas": COUNT, "template": template}, "name", "template")
    network = part_of_object({"enableDNSHostnames": FLAG})
    return part_of_object({"replicatedJobs": {"type": "array", "items": job}, "network": network})


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return whole_object(job_set_spec_schema())


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    return pods_of_replicated_jobs(document["spec"], "spec")


JOB_SET = WorkloadKind(
    name="JobSet",
    group="jobset.x-k8s.io",
    version="v1alpha2",
    plural="jobsets",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=("jobset.sigs.k8s.io/jobset-name",),
    uid_label="jobset.sigs.k8s.io/jobset-uid",
    role_labels=("jobset.sigs.k8s.io/replicatedjob-name",),
    # A child Job's completion indexes begin at 0 in every child Job.
    number_labels=(("jobset.sigs.k8s.io/job-index", INDEX_ANNOTATION),),
    owned=True,  # by a TrainJob
)

__all__ = ["JOB_SET", "job_set_spec_schema", "pods_of_replicated_jobs"]
