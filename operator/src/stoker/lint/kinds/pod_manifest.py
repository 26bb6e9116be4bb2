"""Reads manifests that hold Kubernetes' own pod templates: their schema, and the containers of their pods.

Each kind gives its schema and its sets of pods; nothing is injected that its own controller does not inject.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.schema import Violation, explained
from stoker.api.structural import PRESERVE_UNKNOWN, Schema, faults, unknown_fields
from stoker.lint.kinds.kind import ManifestError, ManifestReader, ReadContext
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_set import Owner, PodSet, read_containers
from stoker.lint.submission import Submission

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "format": "int32", "minimum": 0}


def object_with(properties: Mapping[str, Schema], *required: str) -> Schema:
    """The schema of an object with these fields."""
    return {"type": "object", "properties": properties, "required": required}


def part_of_object(properties: Mapping[str, Schema], *required: str) -> Schema:
    """The schema of an object of which only these fields are read; what else it has is let pass."""
    return {**object_with(properties, *required), PRESERVE_UNKNOWN: True}


def with_properties(schema: Schema, properties: Mapping[str, Schema]) -> Schema:
    """The schema of an object, with other schemas for some of its fields."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def whole_object(spec: Schema) -> Schema:
    """The schema of an object with this spec."""
    # The status is what the cluster says; nothing of it is read.
    parts: Mapping[str, Schema] = {"apiVersion": TEXT, "kind": TEXT, "status": {"type": "object"}}
    return object_with({**parts, "metadata": kubernetes_schema.object_metadata(), "spec": spec}, "spec")


def pod_manifest_reader(
    schema: Callable[[], Schema],
    pod_sets: Callable[[Mapping[str, Any]], Iterator[PodSet]] | None = None,
    *,
    pod_sets_in: Callable[[Mapping[str, Any], ReadContext], Iterator[PodSet]] | None = None,
) -> ManifestReader:
    """The reader of a kind.

    schema: of the whole object, made when it is first needed. pod_sets: the pods that a document makes, by template;
    pod_sets_in: the same of a kind that refers to other objects. Without either it makes none.
    """

    def broken(document: Mapping[str, Any]) -> list[Violation]:
        return [explained(fault) for fault in faults(schema(), document)]

    def unknown(document: Mapping[str, Any]) -> Iterator[Violation]:
        for fault in unknown_fields(schema(), document):
            if fault.path[0] == "spec":
                yield explained(fault)

    def violations(document: Mapping[str, Any]) -> list[Violation]:
        return [*unknown(document), *broken(document)]

    def submissions(document: Mapping[str, Any], context: ReadContext) -> list[Submission]:
        if wrong := broken(document):
            raise ManifestError(wrong)
        owner = _owner(document)
        if pod_sets_in is not None:
            sets = pod_sets_in(document, context)
        else:
            sets = iter(()) if pod_sets is None else pod_sets(document)
        return [found for pods in sets for found in read_containers(owner, pods, context)]

    return ManifestReader(violations=violations, submissions=submissions)


def _owner(document: Mapping[str, Any]) -> Owner:
    metadata = mapping(document.get("metadata"))
    return Owner(
        kind=document["kind"],
        name=metadata.get("name") or metadata.get("generateName") or "",
        namespace=metadata.get("namespace") or "",
        labels={name: text or "" for name, text in mapping(metadata.get("labels")).items()},
        annotations={name: text or "" for name, text in mapping(metadata.get("annotations")).items()},
    )


__all__ = [
    "COUNT",
    "FLAG",
    "TEXT",
    "object_with",
    "part_of_object",
    "pod_manifest_reader",
    "whole_object",
    "with_properties",
]
