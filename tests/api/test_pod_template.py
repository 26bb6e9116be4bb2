"""spec.podTemplate is checked by Kubernetes' own schema: what is misspelt is said, what is partial is right."""

from typing import Any

import pytest

from stoker.api import kubernetes_schema
from stoker.api.dljob import DLJob, DLJobSpec
from stoker.api.schema import structural_schema, violations


def document(template: Any, **spec: Any) -> dict[str, Any]:
    whole = {"gpusPerNode": 8, "image": "a/b:1", "podTemplate": template, **spec}
    return {"apiVersion": "stoker.dev/v1alpha1", "kind": "DLJob", "metadata": {"name": "a"}, "spec": whole}


def messages(template: Any) -> list[str]:
    return [str(one).removeprefix("spec.podTemplate.") for one in violations(DLJob, document(template))]


def trainer(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "trainer", **fields}]}}


@pytest.mark.parametrize(
    "template, message",
    [
        ({"spec": {"tolerationz": []}}, "spec.tolerationz: unknown field: did you mean tolerations?"),
        ({"spec": {"nodeselector": {}}}, "spec.nodeselector: unknown field: did you mean nodeSelector?"),
        (trainer(volumeMount=[]), "spec.containers[0].volumeMount: unknown field: did you mean volumeMounts?"),
        (trainer(env=[{"name": "A", "val": "1"}]), "spec.containers[0].env[0].val: unknown field: did you mean value?"),
        (
            {"spec": {"ephemeralContainers": []}},
            "spec.ephemeralContainers: unknown field",
        ),
        ({"metadata": {"label": {}}}, "metadata.label: unknown field: did you mean labels?"),
        ({"spec": {"x": {"deep": {"er": 1}}}}, "spec.x: unknown field"),
        ({"spec": {"volumes": {}}}, "spec.volumes: must be a list"),
        ({"spec": {"volumes": [{"emptyDir": {}}]}}, "spec.volumes[0].name: required"),
        ({"spec": {"volumes": [None]}}, "spec.volumes[0]: must not be null"),
        (
            {"spec": {"nodeSelector": {"pool": 1}}},
            "spec.nodeSelector.pool: 1: must be a text, in quotes where it looks",
        ),
        ({"spec": {"priority": True}}, "spec.priority: true: must be a whole number"),
        ({"spec": {"priority": 2**31}}, "spec.priority: must be a whole number from -2147483648 to"),
        ({"spec": {"hostIPC": "yes"}}, "spec.hostIPC: 'yes': must be true or false"),
        ({"spec": {"dnsPolicy": "Cluster"}}, "spec.dnsPolicy: 'Cluster': must be one of ClusterFirst"),
        (
            {"spec": {"volumes": [{"name": "s", "emptyDir": {"sizeLimit": "8X"}}]}},
            "sizeLimit: '8X': must be a quantity",
        ),
        (
            trainer(ports=[{"containerPort": 8080}], livenessProbe={"httpGet": {"port": 1.5}}),
            "httpGet.port: 1.5: must be",
        ),
        ({"metadata": {"creationTimestamp": "today"}}, "metadata.creationTimestamp: 'today': must be a time"),
        ({"spec": {"nodeName": "n" * 5000}}, "spec.nodeName: has 5000 characters, at most 4096 are allowed"),
        (trainer(args=["x"] * 1025), "spec.containers[0].args: has 1025 items, at most 1024 are allowed"),
        ({"metadata": {"labels": {str(n): "" for n in range(129)}}}, "metadata.labels: has 129 entries, at most 128"),
    ],
)
def test_what_kubernetes_does_not_know_or_take_is_said_with_its_place(template: Any, message: str) -> None:
    assert [one for one in messages(template) if message in one], messages(template)


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"metadata": {"creationTimestamp": None, "labels": None}, "spec": {"tolerations": None}},
        trainer(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        trainer(volumeMounts=[{"mountPath": "/dev/shm", "readOnly": True}]),
        trainer(resources={"limits": {"cpu": 8, "memory": "64Gi"}, "claims": [{"name": "nic"}]}),
        trainer(livenessProbe={"httpGet": {"port": "http"}}, readinessProbe={"tcpSocket": {"port": 80}}),
        {"spec": {"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "64Gi"}}]}},
    ],
)
def test_a_template_may_be_partial(template: Any) -> None:
    assert messages(template) == []


def test_a_field_that_is_null_is_absent() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"nodeSelector": {"a": None, "b": "c"}}}
    job = DLJob.model_validate(document(template))
    assert job.spec.pod_template == {"metadata": {}, "spec": {"nodeSelector": {"b": "c"}}}


def test_an_unknown_field_is_kept_for_a_cluster_whose_schema_knows_it() -> None:
    """The API server drops what its CRD does not know; what comes through may be a field of a newer Kubernetes."""
    template = {"spec": {"fieldOfTheFuture": {"a": 1}}}
    assert DLJob.model_validate(document(template)).spec.pod_template == template


@pytest.mark.parametrize("levels", [65, 500, 5_000])
def test_a_deep_template_is_refused_before_anything_walks_through_it(levels: int) -> None:
    inner: Any = 1
    for _ in range(levels):
        inner = {"a": inner}
    assert messages({"spec": {"x": inner}})[0].startswith(f"spec.podTemplate: has {levels + 2} levels, at most 64")


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"gpuPerNode": 8}, "spec.gpuPerNode: unknown field: did you mean gpusPerNode?"),
        ({"volumes": []}, "spec.volumes: unknown field: it is a field of the pod: set it in spec.podTemplate.spec"),
        (
            {"volumeMounts": []},
            "spec.volumeMounts: unknown field: set it in spec.podTemplate.spec.containers, in the container trainer",
        ),
        (
            {"toleration": []},
            "spec.toleration: unknown field: it is a field of the pod: set it in spec.podTemplate.spec",
        ),
        ({"replicas": 4}, "spec.replicas: unknown field: did you mean nodes?"),
        ({"resources": {"limit": {}}}, "spec.resources.limit: unknown field: did you mean limits?"),
        ({"env": [{"name": "A", "vale": "1"}]}, "spec.env[0].vale: unknown field: did you mean value?"),
        ({"zzz": 1}, "spec.zzz: unknown field"),
        ({"x" * 100_000: 1}, f"spec.{'x' * 100_000}: unknown field"),
    ],
)
def test_an_unknown_field_of_the_spec_is_told_with_what_was_meant(spec: dict[str, Any], message: str) -> None:
    assert [str(one) for one in violations(DLJob, document({}, **spec))] == [message]


def test_the_crd_has_the_same_schema() -> None:
    template = structural_schema(DLJobSpec)["properties"]["podTemplate"]
    template.pop("description")
    assert template == kubernetes_schema.structural(kubernetes_schema.partial_template())
    assert {"volumes", "tolerations", "containers"} <= set(template["properties"]["spec"]["properties"])
