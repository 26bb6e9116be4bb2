"""Deployments, ReplicaSets, StatefulSets, Notebooks and CronJobs: the kinds with one pod template."""

import pytest

from stoker.findings.vocabulary import JobType
from tests.lint.kinds.manifests import faults, findings, read

WORKLOAD = """
    apiVersion: {version}
    kind: {kind}
    metadata: {{name: chat}}
    spec:
      replicas: 3
      template:
        spec:
          containers:
          - name: proxy
            image: registry.example.com/proxy:1
          - name: main
            image: registry.example.com/serve:1
            command: {command}
            resources: {{limits: {{nvidia.com/gpu: 2}}}}
"""
SERVING = [("apps/v1", "Deployment"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")]
KINDS = [*SERVING, ("kubeflow.org/v1", "Notebook")]


def workload(version: str, kind: str, command: str = "[python, serve.py]") -> str:
    return WORKLOAD.format(version=version, kind=kind, command=command)


@pytest.mark.parametrize("version, kind", KINDS)
def test_the_pods_of_a_template_are_copies_of_which_no_group_is_known(version: str, kind: str) -> None:
    (seen,) = read(workload(version, kind))
    notebook = kind == "Notebook"
    assert (seen.kind, seen.name, seen.nodes, seen.nodes_known) == (kind, "chat", 1, False)
    assert (seen.copies, seen.gpus) == ((1, 2) if notebook else (3, 6))
    assert seen.job_type is (JobType.INTERACTIVE if notebook else JobType.SERVING)
    assert seen.paths.limits == "spec.template.spec.containers[1].resources.limits"


@pytest.mark.parametrize("version, kind", KINDS)
@pytest.mark.parametrize(
    "command",
    [
        "[python, serve.py]",
        "[sh, -c, 'python serve.py; sleep infinity']",
        "[sh, -c, 'python serve.py; while true; do sleep 60; done']",
    ],
)
def test_what_serves_or_is_worked_in_may_wait(version: str, kind: str, command: str) -> None:
    assert faults(workload(version, kind, command)) == []


@pytest.mark.parametrize("command", ["[jupyter, lab, --ip=0.0.0.0]", "[sleep, infinity]"])
def test_only_in_a_notebook_may_gpus_be_held_for_somebody_to_come(command: str) -> None:
    assert faults(workload("kubeflow.org/v1", "Notebook", command)) == []
    for version, kind in SERVING:
        assert [rule for rule, _ in faults(workload(version, kind, command))] == ["interactive-entry"]


def test_a_server_that_leaves_gpus_is_found() -> None:
    (found,) = findings(workload("apps/v1", "Deployment", "[vllm, serve, meta-llama/Llama-3.1-8B]"))
    assert (found.rule, found.field_path) == ("serving-parallelism", "spec.template.spec.containers[1].command[0]")


CRON_JOB = """
    apiVersion: batch/v1
    kind: CronJob
    metadata: {name: nightly}
    spec:
      schedule: "0 3 * * *"
      concurrencyPolicy: Forbid
      jobTemplate:
        spec:
          parallelism: 2
          template:
            spec:
              restartPolicy: Never
              containers:
              - name: main
                image: registry.example.com/train:1
                command: [torchrun, --nproc_per_node=4, train.py]
                resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_a_cron_job_is_the_job_that_it_starts() -> None:
    (seen,) = read(CRON_JOB)
    assert (seen.kind, seen.gpus, seen.job_type) == ("CronJob", 16, JobType.TRAINING)
    at = "spec.jobTemplate.spec.template.spec.containers[0]"
    assert faults(CRON_JOB) == [("launcher-too-few", f"{at}.command[1]")]


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("parallelism: 2", "parallelism: two", "spec.jobTemplate.spec.parallelism"),
        ("parallelism: 2", "paralelism: 2", "spec.jobTemplate.spec.paralelism"),
        ("jobTemplate:", "template:", "spec.jobTemplate"),
        ("command: [", "comand: [", "spec.jobTemplate.spec.template.spec.containers[0].comand"),
    ],
)
def test_a_broken_cron_job_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(CRON_JOB.replace(old, new, 1))
