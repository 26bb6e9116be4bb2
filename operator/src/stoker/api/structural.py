"""Checks a value against a structural schema, with the API server's answers: null counts as absent, a field that the
schema does not name is dropped.

Used for podTemplate in the API's models, for the manifests of other kinds (lint.kinds) and for word lists.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any

Schema = Mapping[str, Any]
"""A node: `type` with its keywords (properties, required, items, additionalProperties, bounds, enum, format), or the
format `quantity`, `quantity-of-crd` or `int-or-string` alone, of which the API has no type.
"""
Path = tuple[int | str, ...]

QUANTITY, INT_OR_STRING = "quantity", "int-or-string"
QUANTITY_OF_CRD = "quantity-of-crd"
"""A quantity in a custom resource, whose schema has no word for `cpu: 0.5`: a fraction is written in quotes."""
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_QUANTITY = re.compile(QUANTITY_PATTERN)
PRESERVE_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
"""Marks an object of which the schema names only some fields: the others are let pass."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_INTEGERS: Mapping[str, tuple[int, int]] = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

A_QUANTITY = "must be a quantity such as 8, 500m or 64Gi"
A_TEXT = "must be a text, in quotes where it looks like a number"


class FaultKind(StrEnum):
    """In what way a value breaks its schema."""

    INVALID = "Invalid"
    REQUIRED = "Required"
    """A required field is missing."""
    UNKNOWN_FIELD = "UnknownField"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where a value breaks its schema: the path from the value's root, what is allowed, and what stands there (None
    where that says nothing).
    """

    path: Path
    message: str
    value: Any = None
    kind: FaultKind = FaultKind.INVALID


def is_quantity(value: object) -> bool:
    """Whether the API takes a value for a quantity: a whole number, or a text such as "500m" or "64Gi"."""
    if isinstance(value, str):
        return _QUANTITY.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(text: str) -> bool:
    """Whether a text is a time as the API writes it (RFC 3339)."""
    return _TIME.fullmatch(text) is not None


def faults(schema: Schema, value: Any, path: Path = ()) -> Iterator[Fault]:
    """Everything in which a value breaks its schema. Unknown fields are let pass, see `unknown_fields`."""
    if value is None:
        return
    match schema.get("type"), schema.get("format"):
        case "object", _:
            yield from _object_faults(schema, value, path)
        case "array", _:
            yield from _list_faults(schema, value, path)
        case kind, form:
            message = _scalar_fault(schema, value, kind or form)
            if message is not None:
                yield Fault(path=path, message=message, value=value)


def unknown_fields(schema: Schema, value: Any, path: Path = ()) -> Iterator[Fault]:
    """The fields that the schema does not name, each with the name that was probably meant."""
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        rest = schema.get("additionalProperties") or None
        for name, inner in value.items():
            child = properties.get(name, rest)
            if child is not None:
                yield from unknown_fields(child, inner, (*path, name))
            elif properties and not schema.get(PRESERVE_UNKNOWN):
                yield Fault(path=(*path, name), message=unknown(name, properties), kind=FaultKind.UNKNOWN_FIELD)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from unknown_fields(schema["items"], item, (*path, index))


def unknown(name: object, known: Collection[str], elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """What is said of an unknown field, given the names that are known there, and what to write for those that are
    known elsewhere.
    """
    if name in elsewhere:
        return f"unknown field: {elsewhere[str(name)]}"
    nearest = nearest_name(str(name), known)
    if nearest is not None:
        return f"unknown field: did you mean {nearest}?"
    farther = nearest_name(str(name), elsewhere)
    return "unknown field" if farther is None else f"unknown field: {elsewhere[farther]}"


def nearest_name(name: str, known: Collection[str]) -> str | None:
    """The known name that somebody who wrote `name` probably meant; None if none is near, or the text is not a name."""
    if not 0 < len(name) <= MAX_NAME:
        return None
    by_lower = {one.lower(): one for one in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None


MAX_NAME = 80
"""Characters of a name that near ones are looked for."""


def depth(value: Any) -> int:
    """The levels of mappings and lists, found without recursion."""
    deepest = 0
    stack = [(value, 1)]
    while stack:
        current, level = stack.pop()
        if isinstance(current, Mapping | list):
            deepest = max(deepest, level)
            inner = current.values() if isinstance(current, Mapping) else current
            stack.extend((one, level + 1) for one in inner)
    return deepest


def without_nulls(value: Any) -> Any:
    """The value as the API server stores it: a field that is null is absent."""
    if isinstance(value, Mapping):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _object_faults(schema: Schema, value: Any, path: Path) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(path=path, message="must be an object", value=value)
        return
    if len(value) > (most := schema.get("maxProperties", len(value))):
        yield Fault(path=path, message=f"has {len(value)} entries, at most {most} are allowed")
        return
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties") or None
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield Fault(path=(*path, name), message="required", kind=FaultKind.REQUIRED)
    for name, inner in value.items():
        child = properties.get(name, rest)
        if child is not None:
            yield from faults(child, inner, (*path, name))


def _list_faults(schema: Schema, value: Any, path: Path) -> Iterator[Fault]:
    if not isinstance(value, list):
        yield Fault(path=path, message="must be a list", value=value)
        return
    if len(value) > (most := schema.get("maxItems", len(value))):
        yield Fault(path=path, message=f"has {len(value)} items, at most {most} are allowed")
        return
    if len(value) < schema.get("minItems", 0):
        yield Fault(path=path, message="must not be empty")
    for index, item in enumerate(value):
        if item is None:
            yield Fault(path=(*path, index), message="must not be null")
        else:
            yield from faults(schema["items"], item, (*path, index))


def _scalar_fault(schema: Schema, value: Any, kind: str | None) -> str | None:
    match kind:
        case "string":
            return _text_fault(schema, value)
        case "integer":
            return _integer_fault(schema, value)
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "quantity":
            return None if is_quantity(value) or isinstance(value, float) else A_QUANTITY
        case "quantity-of-crd":
            return None if is_quantity(value) else A_QUANTITY
        case "int-or-string":
            return None if _is_integer(value) or isinstance(value, str) else "must be a whole number or a text"
        case _:
            msg = f"no structural schema: {dict(schema)}"
            raise TypeError(msg)


def _text_fault(schema: Schema, value: Any) -> str | None:
    if not isinstance(value, str):
        return A_TEXT
    if len(value) > (most := schema.get("maxLength", len(value))):
        return f"has {len(value)} characters, at most {most} are allowed"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        return f"must match {schema['pattern']}"
    if schema.get("format") == "date-time" and not is_time(value):
        return "must be a time with its zone, such as 2026-11-21T18:00:00Z"
    return None


def _integer_fault(schema: Schema, value: Any) -> str | None:
    if not _is_integer(value):
        return "must be a whole number"
    least, most = _INTEGERS[schema.get("format", "int64")]
    least, most = schema.get("minimum", least), schema.get("maximum", most)
    return None if least <= value <= most else f"must be a whole number from {least} to {most}"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
