"""TrainJobs: what follows from a runtime of the input, from one that Kubeflow delivers, and from an unknown one."""

import pytest
import yaml

from stoker.findings.vocabulary import Framework
from stoker.lint.kinds.kind import ReadContext
from stoker.lint.kinds.registry import submissions
from stoker.lint.submission import Submission
from tests.lint.kinds.manifests import faults, findings

TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: llama, namespace: nlp}}
spec:
  runtimeRef: {{name: {runtime}, kind: {kind}}}
  trainer:
    numNodes: {nodes}
    command: {command}
    resourcesPerNode:
      limits: {{nvidia.com/gpu: 8}}
"""
RUNTIME = """
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: {kind}
metadata: {{name: ours}}
spec:
  mlPolicy: {{numNodes: 4, torch: {{}}}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}}}
          spec:
            template:
              spec:
                containers:
                - {{name: dataset-initializer, image: "registry.example.com/fetch:1"}}
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: {image}
                  command: [torchrun, --nproc_per_node=4, train.py]
                  env: [{{name: A, value: runtime}}, {{name: B, value: runtime}}]
"""


def train_job(
    runtime: str = "torch-distributed",
    *,
    kind: str = "ClusterTrainingRuntime",
    nodes: int = 2,
    command: str = "[torchrun, train.py]",
) -> str:
    return TRAIN_JOB.format(runtime=runtime, kind=kind, nodes=nodes, command=command)


def ours(
    kind: str = "ClusterTrainingRuntime", *, policy: str = "torch: {}", image: str = "registry.example.com/t:1"
) -> str:
    return RUNTIME.format(kind=kind, policy=policy, image=image)


def read(text: str) -> Submission:
    documents = list(yaml.safe_load_all(text))
    objects = {(one["kind"], one["metadata"]["name"]): one for one in documents[1:]}
    (seen,) = submissions(documents[0], ReadContext(objects=objects))
    return seen


def test_torchrun_is_told_its_group_by_a_runtime_that_kubeflow_delivers() -> None:
    seen = read(train_job())
    assert (seen.kind, seen.nodes, seen.nodes_known, seen.gpus, seen.framework) == (
        "TrainJob",
        2,
        True,
        16,
        Framework.PYTORCH,
    )
    group = {name: seen.environment[name] for name in seen.environment if name.startswith("PET_")}
    assert group == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": None,
        "PET_MASTER_ADDR": "llama-node-0-0.llama",
        "PET_MASTER_PORT": "29500",
    }
    assert faults(train_job()) == []
    assert faults(train_job(command="[torchrun, --nnodes=2, --nproc_per_node=8, train.py]")) == []


@pytest.mark.parametrize(
    "command, rule, word",
    [
        ("[torchrun, --nproc_per_node=4, train.py]", "launcher-too-few", 1),
        ("[torchrun, --nnodes=4, train.py]", "launcher-nodes-mismatch", 1),
    ],
)
def test_what_a_trainer_says_against_its_sizes_is_found(command: str, rule: str, word: int) -> None:
    (found,) = findings(train_job(command=command))
    assert (found.rule, found.field_path) == (rule, f"spec.trainer.command[{word}]")
    assert "spec.trainer." in found.fix


def test_processes_per_node_may_be_a_field() -> None:
    (found,) = findings(train_job().replace("numNodes: 2", "numNodes: 2\n    numProcPerNode: 4"))
    assert (found.rule, found.field_path) == ("launcher-too-few", "spec.trainer.numProcPerNode")


def test_of_an_unknown_runtime_nothing_is_guessed() -> None:
    text = train_job("ours", kind="TrainingRuntime", command="[torchrun, train.py]")
    seen = read(text)
    assert (seen.environment["PET_NPROC_PER_NODE"], seen.environment_known, seen.nodes_known) == (None, False, False)
    assert seen.image.reference is None
    assert faults(text) == []
    half = train_job("ours", command="[torchrun, --nproc_per_node=4, train.py]")
    assert [rule for rule, _ in faults(half)] == ["launcher-too-few"]
    assert faults(train_job("ours", command="[python, train.py, --num_workers=8]")) == []


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_a_runtime_of_the_input_is_below_what_the_trainer_says(kind: str) -> None:
    whole = train_job("ours", kind=kind).replace(
        "    command: [torchrun, train.py]\n", "    env: [{name: B, value: own}]\n"
    )
    seen = read(whole + ours(kind))
    assert seen.image.text == "registry.example.com/t:1"
    assert (seen.environment["A"], seen.environment["B"]) == ("runtime", "own")
    assert seen.environment["PET_NNODES"] == "2"
    assert faults(whole + ours(kind)) == [("launcher-too-few", "spec.trainer.command[1]")]
    assert faults(train_job("ours", kind=kind) + ours(kind)) == []


def test_the_runtime_says_how_many_nodes_unless_the_trainer_does() -> None:
    text = train_job("ours").replace("    numNodes: 2\n", "")
    assert (read(text + ours()).nodes, read(text).nodes_known) == (4, False)


def test_the_image_of_a_runtime_is_judged_with_its_jobs() -> None:
    (found,) = findings(train_job("ours") + ours(image="tensorflow/tensorflow:2.17.0"))
    assert (found.rule, found.field_path) == ("image-cpu-only", "spec.trainer.image")


def test_jax_is_told_its_processes() -> None:
    seen = read(train_job("jax-distributed", command="[python, train.py]"))
    assert (seen.environment["JAX_NUM_PROCESSES"], seen.framework) == ("2", Framework.JAX)
    assert "PET_NNODES" not in seen.environment
    assert faults(train_job("jax-distributed", command="[python, train.py]")) == []


def test_the_trainer_of_mpi_drives_all_nodes() -> None:
    text = train_job("deepspeed-distributed", command="[mpirun, -np, '16', python, train.py]")
    assert read(text).drives
    assert faults(text) == []
    assert not read(train_job("deepspeed-distributed", nodes=1)).drives


def test_a_command_that_the_trainer_completes_is_not_judged() -> None:
    assert read(train_job(command="[tune, run]")).plan is None


def test_a_train_job_without_gpus_is_no_submission() -> None:
    assert faults(train_job().replace("nvidia.com/gpu: 8", "cpu: 8")) == []


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("numNodes: 2", "numNodes: two", "spec.trainer.numNodes"),
        ("numNodes: 2", "numNode: 2", "spec.trainer.numNode"),
        ("runtimeRef:", "runtime:", "spec.runtimeRef"),
        ("nvidia.com/gpu: 8", "nvidia.com/gpu: [8]", "spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(train_job().replace(old, new, 1))


def test_a_runtime_that_breaks_its_schema_is_told_and_not_read() -> None:
    broken = ours().replace("numNodes: 4", "numNodes: four")
    assert faults(train_job("ours") + broken) == [("schema", "spec.mlPolicy.numNodes")]
