"""InferenceServices: servers that a runtime completes, and custom ones."""

import pytest

from stoker.findings.vocabulary import JobType
from tests.lint.kinds.manifests import faults, findings, read

MODEL = """
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: llama}
    spec:
      predictor:
        minReplicas: 2
        model:
          modelFormat: {name: huggingface}
          storageUri: hf://meta-llama/Llama-3.1-8B
          args: [--model_name=llama, --max-model-len=4096]
          resources: {limits: {nvidia.com/gpu: 4}}
"""
CUSTOM = """
    apiVersion: serving.kserve.io/v1beta1
    kind: InferenceService
    metadata: {name: llama}
    spec:
      predictor:
        containers:
        - name: kserve-container
          image: vllm/vllm-openai:v0.9.1
          command: [vllm, serve, /mnt/models, --tensor-parallel-size=2]
          resources: {limits: {nvidia.com/gpu: 4}}
      transformer:
        containers:
        - {name: kserve-container, image: "registry.example.com/tokens:1"}
"""


def test_the_server_of_a_model_is_what_a_runtime_makes_of_it() -> None:
    (seen,) = read(MODEL)
    assert (seen.kind, seen.copies, seen.gpus, seen.job_type) == ("InferenceService", 2, 8, JobType.SERVING)
    assert (seen.environment_known, seen.entry_known, seen.image.reference) == (False, False, None)
    assert seen.paths.limits == "spec.predictor.model.resources.limits"
    assert faults(MODEL) == []


def test_what_a_model_says_itself_is_judged() -> None:
    image = MODEL.replace("modelFormat:", "image: 'tensorflow/serving:2.19.0'\n          modelFormat:")
    (found,) = findings(image)
    assert found.rule == "image-cpu-only"
    assert found.field_path == "spec.predictor.model.image"


def test_a_custom_server_is_a_pod() -> None:
    (found,) = findings(CUSTOM)
    assert (found.rule, found.field_path) == ("serving-parallelism", "spec.predictor.containers[0].command[3]")
    assert faults(CUSTOM.replace("size=2", "size=4")) == []


def test_workers_on_other_nodes_are_counted() -> None:
    several = (
        MODEL
        + """
        workerSpec:
          pipelineParallelSize: 3
          containers:
          - {name: worker-container, resources: {limits: {nvidia.com/gpu: 4}}}
"""
    )
    server, worker = read(several)
    assert (server.gpus, worker.gpus, worker.image.reference) == (8, 16, None)
    assert faults(several) == []


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("minReplicas: 2", "minReplicas: two", "spec.predictor.minReplicas"),
        ("predictor:", "predict:", "spec.predictor"),
        ("args: [--model_name=llama,", "args: [1,", "spec.predictor.model.args[0]"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    assert ("schema", field) in faults(MODEL.replace(old, new, 1))
