"""What of a pod's manifest must be right before it can be read: the types of the fields that rules look at.

The rest of Kubernetes' schema is the API server's to check.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.models.quantity import quantity
from stoker.models.schema import MAX_VALUE, Violation


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. allowed: the words of the error."""

    allowed: str
    accepts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; some must have an item."""

    item: "Schema"
    filled: bool = False


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping with keys of any name."""

    value: "Schema"


@dataclass(frozen=True, slots=True)
class Object:
    """A mapping with known fields; others are let pass."""

    fields: Mapping[str, "Schema"]
    required: frozenset[str] = field(default=frozenset())


Schema = Scalar | ListOf | MapOf | Object


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


TEXT = Scalar("a text, in quotes where it looks like a number", lambda value: isinstance(value, str))
BOOLEAN = Scalar("true or false", lambda value: isinstance(value, bool))
NUMBER = Scalar("a whole number from 0", _whole)
QUANTITY = Scalar("a quantity such as 8, 500m or 64Gi", lambda value: quantity(value) is not None)
ANYTHING = Object({})

ENVIRONMENT = ListOf(Object({"name": TEXT, "value": TEXT, "valueFrom": ANYTHING}, frozenset({"name"})))
CONTAINER = Object(
    {
        "name": TEXT,
        "image": TEXT,
        "command": ListOf(TEXT),
        "args": ListOf(TEXT),
        "workingDir": TEXT,
        "env": ENVIRONMENT,
        "envFrom": ListOf(ANYTHING),
        "resources": Object({"limits": MapOf(QUANTITY), "requests": MapOf(QUANTITY)}),
        "volumeMounts": ListOf(Object({"name": TEXT, "mountPath": TEXT}, frozenset({"name", "mountPath"}))),
    },
    frozenset({"name"}),
)
POD_SPEC = Object(
    {
        "containers": ListOf(CONTAINER, filled=True),
        "initContainers": ListOf(CONTAINER),
        "volumes": ListOf(Object({"name": TEXT}, frozenset({"name"}))),
        "hostIPC": BOOLEAN,
        "subdomain": TEXT,
    },
    frozenset({"containers"}),
)
METADATA = Object(
    {"name": TEXT, "generateName": TEXT, "namespace": TEXT, "labels": MapOf(TEXT), "annotations": MapOf(TEXT)}
)
TEMPLATE = Object({"metadata": METADATA, "spec": POD_SPEC}, frozenset({"spec"}))
POD = Object({"metadata": METADATA, "spec": POD_SPEC}, frozenset({"spec"}))
JOB = Object(
    {
        "metadata": METADATA,
        "spec": Object(
            {
                "parallelism": NUMBER,
                "completions": NUMBER,
                "completionMode": Scalar("Indexed or NonIndexed", lambda value: value in ("Indexed", "NonIndexed")),
                "template": TEMPLATE,
            },
            frozenset({"template"}),
        ),
    },
    frozenset({"spec"}),
)
REPLICAS = Object({"replicas": NUMBER, "template": TEMPLATE}, frozenset({"template"}))
PYTORCH_JOB = Object(
    {
        "metadata": METADATA,
        "spec": Object(
            {
                "nprocPerNode": TEXT,
                "elasticPolicy": Object(
                    {
                        "minReplicas": NUMBER,
                        "maxReplicas": NUMBER,
                        "nProcPerNode": NUMBER,
                        "maxRestarts": NUMBER,
                        "rdzvBackend": TEXT,
                    }
                ),
                "pytorchReplicaSpecs": Object({"Master": REPLICAS, "Worker": REPLICAS}),
            },
            frozenset({"pytorchReplicaSpecs"}),
        ),
    },
    frozenset({"spec"}),
)


def violations(schema: Schema, value: Any, path: str = "") -> Iterator[Violation]:
    """Where a value breaks a schema; null counts as absent or empty, as for the API server."""
    if value is None:
        return
    match schema:
        case Scalar(allowed, accepts):
            if not accepts(value):
                yield _refused(path, value, allowed)
        case ListOf(item, filled):
            if not isinstance(value, list):
                yield _refused(path, value, "a list")
                return
            if filled and not value:
                yield Violation(field_path=path, message="must not be empty")
            for index, one in enumerate(value):
                empty: Any = {} if isinstance(item, Object) else None  # what null is among the items
                yield from violations(item, empty if one is None else one, f"{path}[{index}]")
        case MapOf(one):
            if not isinstance(value, Mapping):
                yield _refused(path, value, "a mapping")
                return
            for key, inner in value.items():
                yield from violations(one, inner, f"{path}[{key}]")
        case Object(fields, required):
            if not isinstance(value, Mapping):
                yield _refused(path, value, "a mapping")
                return
            for name, inner in fields.items():
                place = f"{path}.{name}".lstrip(".")
                if name in required and value.get(name) is None:
                    yield Violation(field_path=place, message="required")
                yield from violations(inner, value.get(name), place)


def _refused(path: str, value: Any, allowed: str) -> Violation:
    said = repr(value) if isinstance(value, str | int | float) else ""
    shown = f"{said}: " if 0 < len(said) <= MAX_VALUE else ""
    return Violation(field_path=path, message=f"{shown}must be {allowed}")


__all__ = ["CONTAINER", "JOB", "POD", "PYTORCH_JOB", "Schema", "violations"]
