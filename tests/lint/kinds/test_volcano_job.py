"""Volcano's Jobs: tasks, and what the plugins set."""

import pytest

from tests.lint.kinds.manifests import faults, read

JOB = """
    apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {{name: bert}}
    spec:
      minAvailable: 3
      schedulerName: volcano
      plugins: {plugins}
      tasks:
      - name: master
        replicas: 1
        policies: [{{event: TaskCompleted, action: CompleteJob}}]
        template:
          spec:
            containers:
            - name: main
              image: registry.example.com/train:1
              command: {master}
              resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
      - name: worker
        replicas: 2
        template:
          spec:
            containers:
            - name: main
              image: registry.example.com/train:1
              command: {worker}
              resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
TORCHRUN = "[torchrun, --nnodes=3, --nproc_per_node=8, train.py]"


def volcano(plugins: str = "{pytorch: []}", *, master: str = TORCHRUN, worker: str = TORCHRUN, gpus: int = 8) -> str:
    return JOB.format(plugins=plugins, master=master, worker=worker, gpus=gpus)


def test_each_task_is_read_with_what_the_plugins_set() -> None:
    master, worker = read(volcano('{pytorch: ["--master=master"], env: [], svc: []}'))
    assert (master.kind, master.copies, worker.copies, worker.gpus) == ("Job", 1, 2, 16)
    assert {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "VC_TASK_INDEX"} <= worker.environment.keys()
    assert worker.paths.image == "spec.tasks[1].template.spec.containers[0].image"
    assert worker.rank == "VC_TASK_INDEX"
    assert faults(volcano()) == []


def test_processes_per_node_are_judged_in_each_task() -> None:
    half = TORCHRUN.replace("=8", "=4")
    assert faults(volcano(worker=half)) == [
        ("launcher-too-few", "spec.tasks[1].template.spec.containers[0].command[2]")
    ]


def test_workers_that_wait_for_mpirun_run_nothing_by_themselves() -> None:
    text = volcano(
        "{ssh: [], svc: []}", master="[mpirun, -np, '16', python, train.py]", worker="[/usr/sbin/sshd, -D]", gpus=0
    )
    (worker,) = read(text)
    assert worker.plan is None
    assert faults(text) == []
    assert [rule for rule, _ in faults(text.replace("ssh: [], ", ""))] == ["interactive-entry"]


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("replicas: 2", "replicas: two", "spec.tasks[1].replicas"),
        ("tasks:", "task:", "spec.tasks"),
        ("plugins: {pytorch: []}", "plugins: {pytorch: x}", "spec.plugins.pytorch"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(volcano().replace(old, new, 1))
