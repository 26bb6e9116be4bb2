"""What a manifest of pods must look like to be read, by its kind: Kubernetes' own schema, and the training operator's
around it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.schema import Violation, explained
from stoker.api.structural import Schema, faults, unknown_fields

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 0}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _with(schema: Schema, properties: Mapping[str, Schema]) -> Schema:
    """The schema of an object, with other schemas for some of its fields."""
    return {**schema, "properties": {**schema["properties"], **properties}}


@lru_cache(maxsize=1)
def _template() -> Schema:
    spec = kubernetes_schema.pod_spec()
    containers = {**spec["properties"]["containers"], "minItems": 1}
    metadata = kubernetes_schema.object_metadata()
    return _object({"metadata": metadata, "spec": _with(spec, {"containers": containers})}, "spec")


def _whole(spec: Schema) -> Schema:
    """The schema of an object with this spec."""
    # The status is what the cluster says; nothing of it is read.
    parts: Mapping[str, Schema] = {"apiVersion": _TEXT, "kind": _TEXT, "status": {"type": "object"}}
    return _object({**parts, "metadata": kubernetes_schema.object_metadata(), "spec": spec}, "spec")


def _pod() -> Schema:
    return _whole(_template()["properties"]["spec"])


def _job() -> Schema:
    return _whole(
        _with(
            kubernetes_schema.job_spec(),
            {
                "parallelism": _COUNT,
                "completions": _COUNT,
                "completionMode": {"type": "string", "enum": ["Indexed", "NonIndexed"]},
                "template": _template(),
            },
        )
    )


def _pytorch_job() -> Schema:
    """As far as it is read: kubeflow.org/v1 of the training operator 1.9."""
    replicas = _object({"replicas": _COUNT, "template": _template()}, "template")
    elastic = {
        **dict.fromkeys(("minReplicas", "maxReplicas", "nProcPerNode", "maxRestarts"), _COUNT),
        "rdzvBackend": _TEXT,
    }
    spec = {
        "nprocPerNode": _TEXT,
        "elasticPolicy": _object(elastic),
        "pytorchReplicaSpecs": _object({"Master": replicas, "Worker": replicas}),
    }
    return _whole(_object(spec, "pytorchReplicaSpecs"))


_KINDS = {("v1", "Pod"): _pod, ("batch/v1", "Job"): _job, ("kubeflow.org/v1", "PyTorchJob"): _pytorch_job}
_KUBERNETES_OWN = frozenset({("v1", "Pod"), ("batch/v1", "Job")})


@lru_cache
def schema_of(api_version: str, kind: str) -> Schema | None:
    """The schema of a kind; None for one that is not read."""
    make = _KINDS.get((api_version, kind))
    return None if make is None else make()


def violations(schema: Schema, value: Any) -> list[Violation]:
    """Where a value breaks a schema; unknown fields are let pass."""
    return [explained(fault) for fault in faults(schema, value)]


def unknown_violations(document: Mapping[str, Any]) -> Iterator[Violation]:
    """The fields of a Pod or Job that Kubernetes does not know, of a PyTorchJob those of its pods."""
    key = str(document.get("apiVersion")), str(document.get("kind"))
    schema = schema_of(*key)
    for fault in unknown_fields(schema, document) if schema is not None else ():
        in_template = any(one == "template" for one in fault.path)
        if fault.path[0] == "spec" and (key in _KUBERNETES_OWN or in_template):
            yield explained(fault)


__all__ = ["schema_of", "unknown_violations", "violations"]
