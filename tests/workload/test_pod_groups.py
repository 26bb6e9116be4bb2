"""Which pods that no DLJob owns belong together, and what is known of them."""

from typing import Any

import pytest

from stoker.models.vocabulary import JobType
from stoker.workload import ProgramFacts
from stoker.workload.pod_groups import group_facts, groups

START = "2026-11-21T06:00:00Z"


def pod(
    name: str,
    *,
    owner: tuple[str, str] | None = ("Job", "bert"),
    gpus: int = 8,
    phase: str = "Running",
    created: str = START,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with a container `main` that holds GPUs and a sidecar without."""
    own = containers or [
        {"name": "sidecar"},
        {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus), "cpu": "16"}}},
    ]
    references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    state: dict[str, Any] = {"running": {"startedAt": created}}
    if phase in {"Succeeded", "Failed"}:
        state = {"terminated": {"startedAt": created, "finishedAt": "2026-11-21T07:00:00Z", "exitCode": 1}}
    return {
        "metadata": {
            "name": name,
            "namespace": "nlp",
            "uid": f"uid-{name}",
            "creationTimestamp": created,
            "labels": labels or {},
            "annotations": annotations or {},
            "ownerReferences": references,
        },
        "spec": {"nodeName": "gpu-1", "containers": own, **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": one["name"], "restartCount": 0, "state": state} for one in own],
        },
    }


def indexed(name: str, index: int, **options: Any) -> dict[str, Any]:
    return pod(name, annotations={"batch.kubernetes.io/job-completion-index": str(index)}, **options)


def test_the_pods_of_one_owner_are_one_job_and_what_holds_no_gpus_is_none() -> None:
    found = groups(
        [
            indexed("bert-1", 1),
            indexed("bert-0", 0),
            pod("web", owner=("ReplicaSet", "web"), containers=[{"name": "nginx"}]),
            pod("ours", labels={"stoker.dev/dljob": "gpt"}),
            pod("alone", owner=None, gpus=1),
        ]
    )
    assert [(group.kind, group.name, len(group.pods)) for group in found] == [("Job", "bert", 2), ("Pod", "alone", 1)]


@pytest.mark.parametrize(
    "owner, labels, kind, name, job_type",
    [
        (("PyTorchJob", "bert"), {"training.kubeflow.org/job-name": "bert"}, "PyTorchJob", "bert", JobType.TRAINING),
        (("Job", "set-workers-0"), {"jobset.sigs.k8s.io/jobset-name": "set"}, "JobSet", "set", JobType.TRAINING),
        (("RayCluster", "ray-x"), {"ray.io/cluster": "ray-x"}, "RayCluster", "ray-x", JobType.TRAINING),
        (("ReplicaSet", "llm-7d9f"), {"pod-template-hash": "7d9f"}, "Deployment", "llm", JobType.SERVING),
        (("StatefulSet", "db"), {}, "StatefulSet", "db", JobType.SERVING),
        (("StatefulSet", "me"), {"notebook-name": "me"}, "Notebook", "me", JobType.INTERACTIVE),
        (("StatefulSet", "x-0"), {"leaderworkerset.sigs.k8s.io/name": "x"}, "LeaderWorkerSet", "x", JobType.SERVING),
    ],
)
def test_controllers_of_several_pods_are_known(
    owner: tuple[str, str], labels: dict[str, str], kind: str, name: str, job_type: JobType
) -> None:
    (group,) = groups([pod("one", owner=owner, labels=labels), pod("two", owner=owner, labels=labels)])
    assert (group.kind, group.name) == (kind, name)
    assert group_facts(group, ProgramFacts()).job_type is job_type


def test_the_container_with_the_gpus_stands_for_the_program() -> None:
    (group,) = groups([indexed("bert-0", 0, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})])
    facts = group_facts(group, ProgramFacts(processes_per_node=8))
    (only,) = facts.pods
    assert group.container == "main"
    assert (facts.nodes, facts.gpus_per_node, facts.gpu_resource) == (1, 8, "nvidia.com/gpu")
    assert (facts.gpu_product, facts.processes_per_node) == ("NVIDIA-H100-80GB-HBM3", 8)
    assert (only.gpus, only.cpu_limit, only.node, only.ready) == (8, 16.0, "gpu-1", True)
    assert only.started_at is not None


def test_ranks_are_the_controllers_own() -> None:
    role, index = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
    owner = ("PyTorchJob", "bert")
    pods = [
        pod("bert-worker-0", owner=owner, labels={role: "worker", index: "0"}),
        pod("bert-master-0", owner=owner, labels={role: "master", index: "0"}),
        pod("bert-worker-1", owner=owner, labels={role: "worker", index: "1"}),
    ]
    (group,) = groups(pods)
    facts = group_facts(group, ProgramFacts())
    assert [(one.rank, one.name) for one in facts.pods] == [
        (0, "bert-master-0"),
        (1, "bert-worker-0"),
        (2, "bert-worker-1"),
    ]


def test_a_pod_that_another_has_replaced_is_a_former_one() -> None:
    pods = [
        indexed("bert-0-aaaaa", 0, phase="Failed"),
        indexed("bert-0-bbbbb", 0, created="2026-11-21T07:05:00Z"),
        indexed("bert-1-ccccc", 1),
    ]
    facts = group_facts(groups(pods)[0], ProgramFacts())
    assert [one.name for one in facts.pods] == ["bert-0-bbbbb", "bert-1-ccccc"]
    assert [one.name for one in facts.former_pods] == ["bert-0-aaaaa"]
    assert facts.nodes == 2


def test_without_numbers_failed_pods_were_replaced_by_those_that_are_there() -> None:
    pods = [
        pod("bert-a", phase="Failed"),
        pod("bert-b", phase="Failed", created="2026-11-21T07:01:00Z"),
        pod("bert-c", created="2026-11-21T07:02:00Z"),
    ]
    facts = group_facts(groups(pods)[0], ProgramFacts())
    assert [one.name for one in facts.pods] == ["bert-c"]
    assert [one.name for one in facts.former_pods] == ["bert-a", "bert-b"]
