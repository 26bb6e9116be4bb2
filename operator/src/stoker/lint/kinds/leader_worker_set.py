"""LeaderWorkerSet (leaderworkerset.x-k8s.io/v1, 0.9): groups of one leader and its workers, which serve together."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.structural import Schema
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_manifest import COUNT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

_AT = "spec.leaderWorkerTemplate"
_RANK = "LWS_WORKER_INDEX"


def _pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
    """The pods of a group, as many times as there are groups.

    Where the leader has a template of its own, the roles run different programs, and nothing is said of their number.
    """
    template = mapping(document["spec"][_AT.removeprefix("spec.")])
    groups, size = max(1, whole_number(document["spec"], "replicas", 1)), max(1, whole_number(template, "size", 1))
    leader = mapping(template.get("leaderTemplate"))
    injected = (("LWS_LEADER_ADDRESS", "", None), ("LWS_GROUP_SIZE", f"{_AT}.size", str(size)))
    if leader:
        yield PodSet(
            spec=mapping(leader.get("spec")),
            at=f"{_AT}.leaderTemplate.spec",
            copies=groups,
            variables=(*injected, (_RANK, "", "0")),
            job_type=JobType.SERVING,
        )
    if not leader or size > 1:
        yield PodSet(
            spec=mapping(template["workerTemplate"].get("spec")),
            at=f"{_AT}.workerTemplate.spec",
            nodes_field=f"{_AT}.size",
            nodes=1 if leader else size,
            nodes_known=not leader,
            copies=groups * (size - 1) if leader else groups,
            rank=_RANK,
            variables=(*injected, (_RANK, "", "0" if size == 1 else None)),
            job_type=JobType.SERVING,
        )


@lru_cache(maxsize=1)
def _schema() -> Schema:
    template = kubernetes_schema.pod_template()
    pods = {"size": COUNT, "leaderTemplate": template, "workerTemplate": template}
    spec = {"replicas": COUNT, "leaderWorkerTemplate": part_of_object(pods, "workerTemplate")}
    return whole_object(part_of_object(spec, "leaderWorkerTemplate"))


LEADER_WORKER_SET = WorkloadKind(
    name="LeaderWorkerSet",
    group="leaderworkerset.x-k8s.io",
    version="v1",
    plural="leaderworkersets",
    reader=pod_manifest_reader(_schema, _pod_sets),
    name_labels=("leaderworkerset.sigs.k8s.io/name",),
    role_labels=("leaderworkerset.sigs.k8s.io/group-index",),
    number_labels=(("leaderworkerset.sigs.k8s.io/worker-index",),),
    job_type=JobType.SERVING,
)

__all__ = ["LEADER_WORKER_SET"]
