"""What serves a model is known by its program, whatever type the job says it is."""

from typing import Any

import pytest

from stoker.api.dljob import DLJob
from stoker.workload import program_facts
from tests.workload.building import dljob_object


def serves(**spec: Any) -> bool:
    raw = dljob_object(**spec)
    if "script" not in spec:
        del raw["spec"]["script"]
    return program_facts(DLJob.model_validate(raw)).serves


@pytest.mark.parametrize(
    "script",
    [
        "vllm serve meta/model",
        "pip install vllm\nexec python -m vllm.entrypoints.openai.api_server --model m",
        "python3 -m sglang.launch_server --model-path m",
        "tritonserver --model-repository=/models",
        "text-generation-launcher --model-id m",
        "lmdeploy serve api_server m",
        "ollama serve &\nsleep infinity",
        "torchserve --start --model-store s",
        "trtllm-serve m",
        "/opt/bin/llama-server -m x.gguf",
        "ray start --head\nserve run app:app",
        "bentoml serve .",
        "mlflow models serve -m m",
        "uvicorn app:app --host 0.0.0.0",
        "python -m uvicorn app:app",
        "python -m fastchat.serve.model_worker",
        "tensorflow_model_server --port=8500",
        "if [ -d /models ]; then exec vllm serve /models; fi",
    ],
)
def test_a_server_of_models_is_one_whatever_the_job_says(script: str) -> None:
    assert serves(script=script)


@pytest.mark.parametrize(
    "script",
    ["torchrun train.py", "python train.py", "python -m torch.distributed.run train.py", "jupyter lab",
     "sleep infinity", "mlflow run .", "ollama pull m\npython train.py"],
)  # fmt: skip
def test_what_serves_nobody_is_none(script: str) -> None:
    assert not serves(script=script)


def test_an_image_that_is_a_server_is_one_as_it_stands() -> None:
    assert serves(image="vllm/vllm-openai:v0.11.0")
    assert serves(image="vllm/vllm-openai:v0.11.0", args=["--model", "m"])
    assert not serves(image="registry.corp/bert:1")


@pytest.mark.parametrize(
    "trainer, declared",
    [
        ({"ports": [{"containerPort": 8000}]}, "port 8000"),
        ({"readinessProbe": {"httpGet": {"port": 8000}}}, "a readiness probe"),
        ({"ports": []}, None),
        ({"livenessProbe": {"exec": {"command": ["true"]}}}, None),
        ({}, None),
    ],
)
def test_a_port_or_a_readiness_probe_is_what_a_service_declares(trainer: dict[str, Any], declared: str | None) -> None:
    raw = dljob_object(podTemplate={"spec": {"containers": [{"name": "trainer", **trainer}]}})
    assert program_facts(DLJob.model_validate(raw)).offers == declared


def test_the_ports_of_sidecars_and_of_notebooks_are_no_service() -> None:
    port = {"ports": [{"containerPort": 9090}]}
    beside = {"spec": {"containers": [{"name": "trainer"}, {"name": "metrics", "image": "a:1", **port}]}}
    assert program_facts(DLJob.model_validate(dljob_object(podTemplate=beside))).offers is None
    own = {"spec": {"containers": [{"name": "trainer", **port}]}}
    raw = dljob_object(script="jupyter lab", podTemplate=own)
    assert program_facts(DLJob.model_validate(raw)).offers is None
