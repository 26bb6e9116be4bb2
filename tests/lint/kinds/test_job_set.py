"""JobSets: which of their pods are one group, and where what is found stands."""

import pytest

from tests.lint.kinds.manifests import faults, findings, read

JOB_SET = """
    apiVersion: jobset.x-k8s.io/v1alpha2
    kind: JobSet
    metadata: {{name: llama, namespace: nlp}}
    spec:
      network: {{enableDNSHostnames: {resolved}}}
      failurePolicy: {{maxRestarts: 2}}
      replicatedJobs:
      - name: leader
        template:
          spec:
            template:
              spec:
                containers:
                - {{name: leader, image: "registry.example.com/tools:1", command: [python, watch.py]}}
      - name: workers
        replicas: {replicas}
        template:
          spec:
            parallelism: 4
            completions: 4
            template:
              spec:
                containers:
                - name: worker
                  image: registry.example.com/train:1
                  command: [torchrun, --nnodes={nodes}, --nproc_per_node={processes}, train.py]
                  resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
AT = "spec.replicatedJobs[1].template.spec"


def job_set(*, resolved: str = "true", replicas: str = "1", nodes: int = 4, processes: int = 8) -> str:
    return JOB_SET.format(resolved=resolved, replicas=replicas, nodes=nodes, processes=processes)


def test_the_pods_of_a_replicated_job_are_one_group() -> None:
    (seen,) = read(job_set())
    assert (seen.kind, seen.name, seen.namespace) == ("JobSet", "llama", "nlp")
    assert (seen.nodes, seen.nodes_known, seen.copies, seen.gpus) == (4, True, 1, 32)
    assert (seen.rank, seen.environment["JOB_COMPLETION_INDEX"]) == ("JOB_COMPLETION_INDEX", None)
    assert seen.paths.nodes == f"{AT}.completions"
    assert faults(job_set()) == []


def test_a_launcher_that_waits_for_more_nodes_is_found() -> None:
    (found,) = findings(job_set(nodes=8))
    at = f"{AT}.template.spec.containers[0].command[1]"
    assert (found.rule, found.field_path, found.region.line) == ("launcher-nodes-mismatch", at, 27)
    assert f"{AT}.completions" in found.fix


def test_processes_per_node_are_judged_whatever_the_group_is() -> None:
    expected = [("launcher-too-few", f"{AT}.template.spec.containers[0].command[2]")]
    for replicas in ("1", "3"):
        assert faults(job_set(processes=4, replicas=replicas)) == expected


@pytest.mark.parametrize("resolved, replicas", [("true", "2"), ("false", "1")])
def test_a_group_is_unknown_of_several_jobs_and_of_pods_that_cannot_find_one_another(
    resolved: str, replicas: str
) -> None:
    (seen,) = read(job_set(resolved=resolved, replicas=replicas))
    assert not seen.nodes_known
    assert seen.gpus == 32 * int(replicas)
    assert faults(job_set(resolved=resolved, replicas=replicas, nodes=8)) == []


def test_two_replicated_jobs_with_gpus_may_work_together() -> None:
    both = job_set().replace("command: [python, watch.py]", "resources: {limits: {nvidia.com/gpu: 1}}")
    assert [seen.nodes_known for seen in read(both)] == [False, False]


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("replicas: 1", "replicas: one", "spec.replicatedJobs[1].replicas"),
        ("replicatedJobs:", "replicatedJobs: 1 #", "spec.replicatedJobs"),
        ("parallelism: 4", "paralelism: 4", f"{AT}.paralelism"),
        ("name: worker\n", "nam: worker\n", f"{AT}.template.spec.containers[0].nam"),
        ("enableDNSHostnames: true", "enableDNSHostnames: 1", "spec.network.enableDNSHostnames"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    text = job_set()
    assert old in text
    if new.endswith("#"):
        text = text[: text.index(old)] + new
    assert ("schema", field) in faults(text.replace(old, new, 1))
