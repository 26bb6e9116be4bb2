"""Kinds that a site adds without code: the record of a kind as data.

```yaml
kinds:
- kind: ElasticJob
  group: elastic.iml.github.io
  version: v1alpha1
  podTemplates:
  - template: spec.replicaSpecs.*.template
    copies: spec.replicaSpecs.*.replicas
```

Used by lint.files.kind_files for `stoker lint --kinds`; docs/kinds.md explains the fields.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.api.schema import Violation, explained
from stoker.api.structural import Fault, Schema, faults, unknown_fields
from stoker.findings.vocabulary import JobType
from stoker.lint.kinds.kind import WorkloadKind
from stoker.lint.kinds.pod_manifest import TEXT, object_with
from stoker.lint.kinds.registry import KINDS
from stoker.lint.kinds.template_field import TemplateField, copies_fault, path_fault, template_reader

MAX_KINDS, MAX_TEMPLATES, MAX_LABELS = 64, 32, 8
"""Chosen because the largest known kind has five templates, and no site runs as many kinds of GPU workload."""

_NAME: Schema = {"type": "string", "pattern": r"^[A-Z][A-Za-z0-9]{0,62}$"}
_GROUP: Schema = {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$"}
_VERSION: Schema = {"type": "string", "pattern": r"^v[0-9]+((alpha|beta)[0-9]+)?$"}
_PLURAL: Schema = {"type": "string", "pattern": r"^[a-z]([a-z0-9-]*[a-z0-9])?$"}
_JOB_TYPE: Schema = {"type": "string", "enum": tuple(JobType)}
_LABELS: Schema = {"type": "array", "items": TEXT, "maxItems": MAX_LABELS}

_LABEL_FIELDS = {"name": _LABELS, "uid": TEXT, "role": _LABELS, "number": _LABELS}
_TEMPLATE = object_with({"template": TEXT, "copies": TEXT}, "template")
_KIND = object_with(
    {
        "kind": _NAME,
        "group": _GROUP,
        "version": _VERSION,
        "plural": _PLURAL,
        "jobType": _JOB_TYPE,
        "podTemplates": {"type": "array", "items": _TEMPLATE, "minItems": 1, "maxItems": MAX_TEMPLATES},
        "labels": object_with(_LABEL_FIELDS),
    },
    "kind",
    "group",
    "version",
    "podTemplates",
)
SCHEMA = object_with({"kinds": {"type": "array", "items": _KIND, "minItems": 1, "maxItems": MAX_KINDS}}, "kinds")


class SiteKindsError(ValueError):
    """Kinds that can't be used; the message names each field, its value, and what is allowed."""


def site_kinds(document: Any) -> tuple[WorkloadKind, ...]:
    """The records that a document describes. Raises SiteKindsError."""
    wrong = [explained(fault) for fault in (*unknown_fields(SCHEMA, document), *faults(SCHEMA, document))]
    wrong = wrong or list(_faults_of_meaning(document["kinds"]))
    if wrong:
        raise SiteKindsError("; ".join(map(str, wrong)))
    return tuple(_record(one) for one in document["kinds"])


def _record(given: Mapping[str, Any]) -> WorkloadKind:
    job_type = JobType(given.get("jobType") or JobType.TRAINING)
    labels = given.get("labels") or {}
    number = tuple(labels.get("number") or ())
    return WorkloadKind(
        name=given["kind"],
        group=given["group"],
        version=given["version"],
        plural=given.get("plural") or f"{given['kind'].lower()}s",
        reader=template_reader([_template(one) for one in given["podTemplates"]], job_type),
        name_labels=tuple(labels.get("name") or ()),
        uid_label=labels.get("uid") or "",
        role_labels=tuple(labels.get("role") or ()),
        number_labels=(number,) if number else (),
        job_type=job_type,
    )


def _template(given: Mapping[str, Any]) -> TemplateField:
    return TemplateField(template=given["template"], copies=given.get("copies") or "")


def _faults_of_meaning(kinds: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    """What the schema can't say: paths, and kinds that are known already."""
    known = {(kind.group, kind.kind or kind.name) for kind in KINDS}
    for index, given in enumerate(kinds):
        name = (given["group"], given["kind"])
        if name in known:
            yield explained(
                Fault(
                    path=("kinds", index, "kind"),
                    message=f"{given['group']} has a kind of this name already",
                    value=name[1],
                )
            )
        known.add(name)
        for number, one in enumerate(given["podTemplates"]):
            field, at = _template(one), ("kinds", index, "podTemplates", number)
            if (message := path_fault(field.template)) is not None:
                yield explained(Fault(path=(*at, "template"), message=message, value=field.template))
            elif field.copies and (message := path_fault(field.copies) or copies_fault(field)) is not None:
                yield explained(Fault(path=(*at, "copies"), message=message, value=field.copies))


__all__ = ["SCHEMA", "SiteKindsError", "site_kinds"]
