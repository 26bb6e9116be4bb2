"""The training operator's kinds beside the PyTorchJob."""

import pytest

from stoker.findings.vocabulary import Framework
from tests.lint.kinds.manifests import faults, read

JOB = """
    apiVersion: kubeflow.org/v1
    kind: {kind}
    metadata: {{name: mnist}}
    spec:
      {field}:
        {first}:
          replicas: 1
          restartPolicy: OnFailure
          template:
            spec:
              containers:
              - {{name: main, image: "registry.example.com/train:1", command: [python, train.py]}}
        Worker:
          replicas: 4
          template:
            spec:
              containers:
              - name: main
                image: registry.example.com/train:1
                command: [python, train.py]
                resources: {{limits: {{nvidia.com/gpu: 2}}}}
"""
KINDS = [
    ("TFJob", "tfReplicaSpecs", "PS", "TF_CONFIG", None),
    ("PaddleJob", "paddleReplicaSpecs", "Master", "PADDLE_NNODES", "5"),
    ("XGBoostJob", "xgbReplicaSpecs", "Master", "WORLD_SIZE", "5"),
    ("MXJob", "mxReplicaSpecs", "Scheduler", "MX_CONFIG", None),
    ("JAXJob", "jaxReplicaSpecs", "Coordinator", "NUM_PROCESSES", "5"),
]


@pytest.mark.parametrize("kind, field, first, variable, value", KINDS)
def test_the_pods_of_each_role_are_read_with_what_the_operator_sets(
    kind: str, field: str, first: str, variable: str, value: str | None
) -> None:
    text = JOB.format(kind=kind, field=field, first=first)
    (seen,) = read(text)
    assert (seen.kind, seen.name, seen.copies, seen.gpus, seen.nodes_known) == (kind, "mnist", 4, 8, False)
    assert seen.environment[variable] == value
    assert seen.paths.image == f"spec.{field}.Worker.template.spec.containers[0].image"
    assert faults(text) == []


def test_a_tf_job_of_one_pod_has_no_cluster() -> None:
    text = JOB.format(kind="TFJob", field="tfReplicaSpecs", first="PS").replace("replicas: 4", "replicas: 1")
    alone = text[: text.index("        PS:")] + text[text.index("        Worker:") :]
    (seen,) = read(alone)
    assert "TF_CONFIG" not in seen.environment
    assert seen.framework is Framework.TENSORFLOW


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("replicas: 4", "replicas: many", "spec.tfReplicaSpecs.Worker.replicas"),
        ("tfReplicaSpecs:", "replicaSpecs:", "spec.tfReplicaSpecs"),
        (
            "command: [python, train.py]\n",
            "comand: [python]\n",
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0]",
        ),
        ("        PS:", "        PS: {}\n        Evaluator:", "spec.tfReplicaSpecs.PS.template"),
    ],
)
def test_what_breaks_the_schema_is_told_with_the_field(old: str, new: str, field: str) -> None:
    text = JOB.format(kind="TFJob", field="tfReplicaSpecs", first="PS")
    assert old in text
    found = faults(text.replace(old, new, 1))
    assert any(rule == "schema" and at.startswith(field) for rule, at in found), found
