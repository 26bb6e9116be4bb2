"""Kinds that are told by where their pod templates stand: the reader of such a kind, from field paths alone.

Used for Kubernetes' own and other kinds whose pods need no more than their template to be judged, and for the kinds
that a site adds (lint.kinds.site_kinds).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from stoker.api import kubernetes_schema
from stoker.api.schema import field_path_of
from stoker.api.structural import Schema
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import ManifestReader
from stoker.lint.kinds.pod import mapping
from stoker.lint.kinds.pod_manifest import COUNT, part_of_object, pod_manifest_reader, whole_object
from stoker.lint.kinds.pod_set import PodSet, whole_number

EACH_ITEM, EACH_ENTRY = "[]", "*"
"""In a path: every item of a list, and every entry of a mapping."""

_PART = re.compile(r"[A-Za-z][\w-]*(?:\[\])?|\*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateField:
    """Where the manifests of a kind have pod templates.

    template: their field path, in which `[]` stands for each item of a list and `*` for each entry of a mapping:
    `spec.tasks[].template`. copies: the field that says how many pods one of them makes, with the same items and
    entries; "" for one pod.
    """

    template: str
    copies: str = ""


def path_fault(path: str) -> str | None:
    """What is wrong with a path to a pod template or a number of copies; None for a right one."""
    if not path.startswith("spec.") or not all(_PART.fullmatch(part) for part in path.split(".")):
        return "must be a field path such as spec.template, spec.tasks[].template or spec.replicaSpecs.*.template"
    return None


def copies_fault(field: TemplateField) -> str | None:
    """What is wrong with the field of copies beside its template; None for a right one."""
    wild, parts = _wild_prefix(field.template), _parts(field.copies)
    if not field.copies or (parts[: len(wild)] == wild and not {EACH_ITEM, EACH_ENTRY} & set(parts[len(wild) :])):
        return None
    return f"must be one field for each {field.template}"


def template_reader(fields: Sequence[TemplateField], job_type: JobType = JobType.TRAINING) -> ManifestReader:
    """The reader of a kind that has its pod templates at these places.

    Whether pods work together is not known from a template: what is said of their number is said of one pod.
    """

    def pod_sets(document: Mapping[str, Any]) -> Iterator[PodSet]:
        for field in fields:
            for at, template, copies in _found(document, field):
                yield PodSet(
                    spec=mapping(template.get("spec")),
                    at=f"{at}.spec",
                    copies=max(1, copies),
                    job_type=job_type,
                )

    @cache
    def schema() -> Schema:
        return schema_of(fields)

    return pod_manifest_reader(schema, pod_sets)


def schema_of(fields: Sequence[TemplateField]) -> Schema:
    """The schema of an object that has its pod templates at these places, as far as it is read.

    The only template of a kind is required, and those of items and entries that are there.
    """
    places: dict[tuple[str, ...], Callable[[], Schema]] = {}
    for field in fields:
        places[_parts(field.template)] = kubernetes_schema.pod_template
        if field.copies:
            places[_parts(field.copies)] = lambda: COUNT
    required = {_parts(field.template) for field in fields}

    def node(at: tuple[str, ...], *, sole: bool) -> Schema:
        if at in places:
            return places[at]()
        below = dict.fromkeys(parts[len(at)] for parts in places if parts[: len(at)] == at)
        if EACH_ITEM in below:
            return {"type": "array", "items": node((*at, EACH_ITEM), sole=True)}
        if EACH_ENTRY in below:
            return {"type": "object", "additionalProperties": node((*at, EACH_ENTRY), sole=True)}
        needed = [name for name in below if sole and any(one[: len(at) + 1] == (*at, name) for one in required)]
        return part_of_object({name: node((*at, name), sole=sole) for name in below}, *needed)

    return whole_object(node(("spec",), sole=len(fields) == 1))


def _parts(path: str) -> tuple[str, ...]:
    """`spec.tasks[].template` as ("spec", "tasks", "[]", "template")."""
    return tuple(path.replace(EACH_ITEM, f".{EACH_ITEM}").split(".")) if path else ()


def _wild_prefix(path: str) -> tuple[str, ...]:
    """A path up to its last list or mapping."""
    parts = _parts(path)
    last = max((index for index, part in enumerate(parts) if part in {EACH_ITEM, EACH_ENTRY}), default=-1)
    return parts[: last + 1]


def _found(document: Mapping[str, Any], field: TemplateField) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    """The templates of a document that its schema accepts: where each stands, the template, and its copies."""
    prefix = _wild_prefix(field.template)
    rest, copies = _parts(field.template)[len(prefix) :], _parts(field.copies)[len(prefix) :]
    for at, holder in _walk(document, prefix):
        template = _below(holder, rest)
        counts = _below(holder, copies[:-1]) if copies else {}
        if template:
            number = whole_number(counts, copies[-1], 1) if copies else 1
            yield ".".join(part for part in (at, *rest) if part), template, number


def _walk(value: Any, parts: tuple[str, ...], at: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping at a path, with where it stands."""
    if not parts:
        yield at, mapping(value)
        return
    head, rest = parts[0], parts[1:]
    if head == EACH_ITEM:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _walk(item, rest, f"{at}[{index}]")
    elif head == EACH_ENTRY:
        for name, item in mapping(value).items():
            yield from _walk(item, rest, f"{at}{field_path_of((name,), inner=True)}")
    else:
        yield from _walk(mapping(value).get(head), rest, f"{at}.{head}".removeprefix("."))


def _below(value: Mapping[str, Any], parts: Sequence[str]) -> Mapping[str, Any]:
    for part in parts:
        value = mapping(value.get(part))
    return value


__all__ = ["TemplateField", "copies_fault", "path_fault", "schema_of", "template_reader"]
