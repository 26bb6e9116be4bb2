"""Kubernetes' own schema of pods and Jobs, and the pod templates that follow from it: a whole one, as Jobs have it, and
the partial one of a DLJob's podTemplate.

The schema is the API server's (api/kubernetes_job.json, made by hack/kubernetes_schema.py). The CRD, the webhook and
`stoker lint` read the same one.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from stoker.api.schema import INT_OR_STRING, LIST_TYPE
from stoker.api.structural import QUANTITY, QUANTITY_OF_CRD, QUANTITY_PATTERN, Schema

MAX_CONTAINERS = 32
"""Containers, and as many init containers, of a pod template."""
MAX_WORDS = 1024
"""Words of a command or of its arguments."""
MAX_VARIABLES = 256
"""Variables of one container."""
MAX_LONG_TEXT = 65_536
"""Characters of a word, of a variable's value, of an annotation."""

_MAX_ITEMS = {
    "containers": MAX_CONTAINERS,
    "initContainers": MAX_CONTAINERS,
    "command": MAX_WORDS,
    "args": MAX_WORDS,
    "env": MAX_VARIABLES,
}
_USUAL_ITEMS, _USUAL_ENTRIES, _USUAL_LENGTH = 256, 128, 4096
_LONG_TEXTS = frozenset({"command", "args", "value"})

_TEMPLATE_METADATA = (
    "annotations",
    "creationTimestamp",
    "finalizers",
    "generateName",
    "labels",
    "name",
    "namespace",
)
"""What people write into a pod template's metadata; Kubernetes uses labels, annotations and finalizers of it."""
_REFUSED_IN_TEMPLATES = frozenset({"ephemeralContainers"})


@lru_cache(maxsize=1)
def kubernetes_job() -> Mapping[str, Any]:
    """What the file holds: `kubernetes`, the version; `metadata`, of every object; `spec`, a Job's."""
    document: Mapping[str, Any] = json.loads(Path(__file__).with_name("kubernetes_job.json").read_bytes())
    return document


def job_spec() -> Schema:
    """The schema of a Job's spec."""
    schema: Schema = kubernetes_job()["spec"]
    return schema


def object_metadata() -> Schema:
    """The schema of an object's metadata."""
    schema: Schema = kubernetes_job()["metadata"]
    return schema


def pod_spec() -> Schema:
    """The schema of a pod's spec."""
    schema: Schema = job_spec()["properties"]["template"]["properties"]["spec"]
    return schema


def container() -> Schema:
    """The schema of a container."""
    schema: Schema = pod_spec()["properties"]["containers"]["items"]
    return schema


@lru_cache(maxsize=1)
def pod_template() -> Schema:
    """The schema of a whole pod template, as Jobs have it, with at least one container."""
    spec = pod_spec()
    containers = {**spec["properties"]["containers"], "minItems": 1}
    whole_spec = {**spec, "properties": {**spec["properties"], "containers": containers}}
    return {"type": "object", "properties": {"metadata": object_metadata(), "spec": whole_spec}, "required": ("spec",)}


@lru_cache(maxsize=1)
def partial_template() -> Schema:
    """The schema of spec.podTemplate: a pod template, every list, mapping and text of it bounded.

    It is merged onto the operator's own, item by item. So it need not name containers, and of an item that may change
    one of the operator's only its key is required: a container's name, a mount's path.
    """
    spec = pod_spec()["properties"]
    metadata = object_metadata()["properties"]
    template = _bounded(
        {
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {name: metadata[name] for name in _TEMPLATE_METADATA}},
                "spec": {
                    "type": "object",
                    "properties": {name: spec[name] for name in spec if name not in _REFUSED_IN_TEMPLATES},
                },
            },
        }
    )
    # Programs that write a template from Go's types write it so.
    template["properties"]["metadata"]["properties"]["creationTimestamp"]["nullable"] = True
    for group in ("containers", "initContainers"):
        one = template["properties"]["spec"]["properties"][group]["items"]
        one["properties"]["volumeMounts"]["items"]["required"] = ["mountPath"]
    return template


def _bounded(schema: Schema, name: str = "") -> dict[str, Any]:
    """A copy with a bound on every list, mapping and text; `name` is the field that it is the schema of."""
    if schema.get("format") == QUANTITY:
        return {"format": QUANTITY_OF_CRD}
    bounded = dict(schema)
    match schema.get("type"):
        case "object":
            if "properties" in schema:
                bounded["properties"] = {key: _bounded(child, key) for key, child in schema["properties"].items()}
            if "additionalProperties" in schema:
                bounded["additionalProperties"] = _bounded(schema["additionalProperties"], "value")
                bounded["maxProperties"] = _USUAL_ENTRIES
        case "array":
            bounded["items"] = _bounded(schema["items"], name)
            bounded["maxItems"] = _MAX_ITEMS.get(name, _USUAL_ITEMS)
        case "string" if "format" not in schema:
            bounded["maxLength"] = MAX_LONG_TEXT if name in _LONG_TEXTS else _USUAL_LENGTH
    return bounded


def structural(schema: Schema) -> dict[str, Any]:
    """A schema in the words of a CustomResourceDefinition."""
    if schema.get("type") is None:
        pattern = {"pattern": QUANTITY_PATTERN} if schema["format"] == QUANTITY_OF_CRD else {}
        return {INT_OR_STRING: True, **pattern}
    written = dict(schema)
    if "properties" in schema:
        written["properties"] = {name: structural(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            written[key] = structural(schema[key])
    if schema["type"] == "array":
        written[LIST_TYPE] = "atomic"
    return written
