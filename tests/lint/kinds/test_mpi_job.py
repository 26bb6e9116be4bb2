"""MPIJobs: a launcher without GPUs, and workers that wait for it."""

import pytest

from tests.lint.kinds.manifests import faults, read

JOB = """
    apiVersion: kubeflow.org/{version}
    kind: MPIJob
    metadata: {{name: resnet}}
    spec:
      slotsPerWorker: 8
      runPolicy: {{cleanPodPolicy: Running}}
      mpiReplicaSpecs:
        Launcher:
          replicas: 1
          template:
            spec:
              containers:
              - name: launcher
                image: {image}
                command: [sh, -c, {command!r}]
        Worker:
          replicas: 2
          template:
            spec:
              containers:
              - name: worker
                image: registry.example.com/horovod:1
                command: [/usr/sbin/sshd, -De]
                resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
LAUNCHER = "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"


def mpi_job(
    command: str = "mpirun -np 16 python train.py", *, version: str = "v2beta1", image: str = "registry.example.com/m:1"
) -> str:
    return JOB.format(command=command, version=version, image=image)


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_the_launcher_drives_the_workers_gpus(version: str) -> None:
    worker, launcher = read(mpi_job(version=version))
    assert (worker.gpus, worker.drives, worker.plan, worker.copies) == (16, False, None, 2)
    assert (launcher.gpus, launcher.drives, launcher.nodes, launcher.gpus_per_node) == (16, True, 2, 8)
    assert launcher.plan is not None
    assert launcher.paths.image == f"{LAUNCHER}.image"
    assert launcher.paths.gpus_per_node.startswith("spec.mpiReplicaSpecs.Worker.")
    assert faults(mpi_job(version=version)) == []


@pytest.mark.parametrize(
    "command",
    [
        "mpirun --allow-run-as-root -np 16 -bind-to none -map-by slot python train.py",
        "mpirun --npernode 8 python train.py",
        "mpirun -hostfile /etc/mpi/hostfile python train.py",
        "horovodrun -np 16 python train.py",
        "deepspeed --hostfile /etc/mpi/hostfile train.py",
    ],
)
def test_counts_of_a_launcher_are_those_of_all_workers(command: str) -> None:
    assert faults(mpi_job(command)) == []


def test_the_launcher_needs_no_framework() -> None:
    assert faults(mpi_job(image="python:3.12.4")) == []


@pytest.mark.parametrize(
    "command, rule",
    [
        ("mpirun -np 16 python train.py; sleep infinity", "endless-tail"),
        ("mpirun -np 16 python train.py; sleep 7200", "trailing-sleep"),
        ("jupyter lab", "interactive-entry"),
        ("pip install torch==2.7.0; mpirun -np 16 python train.py", "image-installs-framework"),
    ],
)
def test_what_keeps_the_workers_waiting_is_found_at_the_launcher(command: str, rule: str) -> None:
    assert (rule, f"{LAUNCHER}.command[2]") in faults(mpi_job(command, image="python:3.12.4"))


def test_a_launcher_with_gpus_is_a_program_of_its_own() -> None:
    text = mpi_job().replace(
        "name: launcher\n", "name: launcher\n                resources: {limits: {nvidia.com/gpu: 8}}\n"
    )
    _, launcher = read(text)
    assert not launcher.drives
    assert launcher.paths.gpus_per_node.startswith(LAUNCHER)


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("slotsPerWorker: 8", "slotsPerWorker: all", "spec.slotsPerWorker"),
        ("replicas: 2", "replicas: -2", "spec.mpiReplicaSpecs.Worker.replicas"),
        ("mpiReplicaSpecs:", "replicaSpecs:", "spec.mpiReplicaSpecs"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(mpi_job().replace(old, new, 1))
