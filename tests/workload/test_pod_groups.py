"""Which pods that no DLJob owns belong together, and what is known of them."""

from typing import Any

import pytest

from stoker.findings.vocabulary import JobType
from stoker.workload import ProgramFacts
from stoker.workload.pod_groups import group_facts, groups

START = "2026-11-21T06:00:00Z"


def pod(
    name: str,
    *,
    owner: tuple[str, str] | None = ("Job", "bert"),
    owner_uid: str = "",
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
    references = [{"kind": owner[0], "name": owner[1], "uid": owner_uid, "controller": True}] if owner else []
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


def member(name: str, labels: dict[str, str], *, owner: tuple[str, str], **options: Any) -> dict[str, Any]:
    """A pod with labels as a controller of several pods writes them; `completion` is that of an Indexed Job."""
    completion = options.pop("completion", None)
    annotations = {} if completion is None else {"batch.kubernetes.io/job-completion-index": str(completion)}
    return pod(name, owner=owner, labels=labels, annotations=annotations, **options)


def of_jobset(name: str, role: str, job: int, completion: int, *, uid: str = "set-1", **options: Any) -> dict[str, Any]:
    """A pod of a child Job, with the labels that JobSet 0.12 writes."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "set",
        "jobset.sigs.k8s.io/jobset-uid": uid,
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/job-index": str(job),
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    return member(name, labels, owner=("Job", f"set-{role}-{job}"), completion=completion, **options)


def of_kubeflow(name: str, role: str, index: int, kind: str) -> dict[str, Any]:
    labels = {
        "training.kubeflow.org/job-name": "job",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    return member(name, labels, owner=(kind, "job"))


def of_workers(name: str, group: str, worker: int) -> dict[str, Any]:
    """A pod of a LeaderWorkerSet: leaders and workers belong to StatefulSets that each number theirs."""
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "lws",
        "leaderworkerset.sigs.k8s.io/group-index": group,
        "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
        "apps.kubernetes.io/pod-index": group if worker == 0 else str(worker),
    }
    return member(name, labels, owner=("StatefulSet", "lws" if worker == 0 else f"lws-{group}"))


def of_mpi(name: str, role: str, index: int | None, owner: tuple[str, str]) -> dict[str, Any]:
    labels = {"training.kubeflow.org/job-name": "mpi", "training.kubeflow.org/job-role": role}
    numbered = {} if index is None else {"training.kubeflow.org/replica-index": str(index)}
    return member(name, {**labels, **numbered}, owner=owner)


def of_volcano(name: str, task: str, index: int) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": "job", "volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    return member(name, labels, owner=("Job", "job"))


def of_ray(name: str, group: str) -> dict[str, Any]:
    return member(name, {"ray.io/cluster": "ray", "ray.io/group": group}, owner=("RayCluster", "ray"))


@pytest.mark.parametrize(
    "kind, pods",
    [
        ("JobSet", [of_jobset("a", "leader", 0, 0), of_jobset("b", "worker", 0, 0), of_jobset("c", "worker", 0, 1)]),
        ("JobSet", [of_jobset("a", "worker", 0, 0), of_jobset("b", "worker", 1, 0)]),
        ("TFJob", [of_kubeflow(role, role, 0, "TFJob") for role in ("chief", "ps", "worker", "evaluator")]),
        ("PyTorchJob", [of_kubeflow("m", "master", 0, "PyTorchJob"), of_kubeflow("w", "worker", 0, "PyTorchJob")]),
        (
            "MPIJob",
            [of_mpi("l", "launcher", None, ("Job", "mpi-launcher")), of_mpi("w", "worker", 0, ("MPIJob", "mpi"))],
        ),
        ("LeaderWorkerSet", [of_workers(f"{group}-{worker}", group, worker) for group in "01" for worker in (0, 1, 2)]),
        ("LeaderWorkerSet", [of_workers(group, group, 0) for group in ("0f1e2d3c", "9a8b7c6d")]),
        ("VolcanoJob", [of_volcano("a", "master", 0), of_volcano("b", "worker", 0), of_volcano("c", "worker", 1)]),
        ("RayCluster", [of_ray("head", "headgroup"), of_ray("b", "gpu"), of_ray("c", "gpu")]),
    ],
)
def test_pods_that_run_beside_one_another_are_not_taken_for_each_others_former_selves(
    kind: str, pods: list[dict[str, Any]]
) -> None:
    """Each role of such an object, and each child of it, numbers its pods from 0."""
    (group,) = groups(pods)
    facts = group_facts(group, ProgramFacts())
    assert group.kind == kind
    assert {one.name for one in facts.pods} == {one["metadata"]["name"] for one in pods}
    assert [one.rank for one in facts.pods] == list(range(len(pods)))
    assert (facts.former_pods, facts.nodes, facts.gpus) == ((), len(pods), 8 * len(pods))


def test_the_pods_of_a_jobsets_later_attempt_replace_those_of_the_one_before() -> None:
    later = "2026-11-21T08:00:00Z"
    pods = [
        of_jobset("old-leader", "leader", 0, 0, phase="Failed"),
        of_jobset("old-worker", "worker", 0, 0, phase="Failed"),
        of_jobset("leader", "leader", 0, 0, created=later),
        of_jobset("worker", "worker", 0, 0, created=later),
    ]
    facts = group_facts(groups(pods)[0], ProgramFacts())
    assert [one.name for one in facts.pods] == ["leader", "worker"]
    assert [one.name for one in facts.former_pods] == ["old-leader", "old-worker"]


@pytest.mark.parametrize(
    "before, after",
    [
        (
            of_jobset("old", "worker", 0, 0),
            of_jobset("new", "worker", 0, 0, uid="set-2", created="2026-11-21T08:00:00Z"),
        ),
        (indexed("old", 0, owner_uid="one"), indexed("new", 0, owner_uid="two", created="2026-11-21T08:00:00Z")),
    ],
)
def test_an_object_that_was_created_anew_is_another_job_than_its_former_self(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    old, new = groups([after, before])
    assert ([one["metadata"]["name"] for one in old.pods], old.replaced) == (["old"], True)
    assert ([one["metadata"]["name"] for one in new.pods], new.replaced) == (["new"], False)
    assert group_facts(old, ProgramFacts()).uid != group_facts(new, ProgramFacts()).uid


def test_pods_of_unlike_size_are_counted_as_they_are() -> None:
    facts = group_facts(
        groups([of_jobset("leader", "leader", 0, 0, gpus=1), of_jobset("worker", "worker", 0, 0, gpus=8)])[0],
        ProgramFacts(),
    )
    assert (facts.gpus, [facts.gpus_of(one) for one in facts.pods]) == (9, [1, 8])


def test_a_pod_that_runs_is_not_the_former_self_of_one_that_has_ended_since() -> None:
    facts = group_facts(
        groups([pod("busy"), pod("failed", phase="Failed", created="2026-11-21T08:00:00Z")])[0], ProgramFacts()
    )
    assert [one.name for one in facts.pods] == ["busy"]
    assert [one.name for one in facts.former_pods] == ["failed"]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "\u0663", "9" * 5000, "NaN"])
def test_an_index_that_is_no_number_is_none(text: str) -> None:
    made = [pod(name, annotations={"batch.kubernetes.io/job-completion-index": text}) for name in ("a", "b")]
    (group,) = groups(made)
    assert {one["metadata"]["name"] for one in group.pods} == {"a", "b"}
