"""Volcano's Job (batch.volcano.sh/v1alpha1): tasks that are scheduled together, and the variables of its plugins."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.lint.kinds.container import Variable
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import listed, mapping
from stoker.lint.kinds.pod_manifest import COUNT, TEXT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

_REACHED = frozenset({"ssh", "mpi"})
"""Plugins by which one task's launcher starts programs in the pods of the others."""


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of each task; who works with whom, nobody but the programs knows."""
    spec = document["spec"]
    tasks = [mapping(one) for one in listed(spec.get("tasks"))]
    plugins = mapping(spec.get("plugins"))
    total = sum(max(1, whole_number(task, "replicas", 1)) for task in tasks)
    variables = tuple(_injected(plugins, total))
    for index, task in enumerate(tasks):
        pods = mapping(mapping(task.get("template")).get("spec"))
        yield PodSet(
            spec=pods,
            at=f"spec.tasks[{index}].template.spec",
            copies=max(1, whole_number(task, "replicas", 1)),
            rank="VC_TASK_INDEX" if "env" in plugins else "",
            variables=variables,
            driven=len(tasks) > 1 and bool(_REACHED & plugins.keys()) and _waits_for_ssh(pods),
        )


def _waits_for_ssh(pods: Mapping[str, Any]) -> bool:
    """Whether a pod runs sshd, for the launcher in another one."""
    containers = map(mapping, listed(pods.get("containers")))
    words = (word for one in containers for name in ("command", "args") for word in listed(one.get(name)))
    return any("sshd" in str(word) and "mpirun" not in str(word) for word in words)


def _injected(plugins: Mapping[str, Any], total: int) -> Iterator[Variable]:
    """The variables of the plugins env and pytorch (pkg/controllers/job/plugins)."""
    if "env" in plugins:
        yield "VC_TASK_INDEX", "", None
        yield "VK_TASK_INDEX", "", None
    if "pytorch" in plugins:
        yield "MASTER_ADDR", "", None
        yield "MASTER_PORT", "", None
        yield "WORLD_SIZE", "", str(total) if total == 1 else None
        yield "RANK", "", "0" if total == 1 else None


@lru_cache(maxsize=1)
def _schema() -> Schema:
    task = part_of_object({"name": TEXT, "replicas": COUNT, "template": kubernetes_schema.pod_template()}, "template")
    plugins = {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}
    return whole_object(part_of_object({"tasks": {"type": "array", "items": task}, "plugins": plugins}, "tasks"))


VOLCANO_JOB = WorkloadKind(
    name="VolcanoJob",
    kind="Job",
    group="batch.volcano.sh",
    version="v1alpha1",
    plural="jobs",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=("volcano.sh/job-name",),
    role_labels=("volcano.sh/task-spec",),
    number_labels=(("volcano.sh/task-index",),),
)

__all__ = ["VOLCANO_JOB"]
