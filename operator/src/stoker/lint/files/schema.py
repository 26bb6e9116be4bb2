"""What `stoker lint` says of the API's schema: the same violations that the API server would refuse."""

import re
from collections.abc import Mapping
from typing import Any

from stoker.api.bounds import out_of_bounds
from stoker.api.dljob import MAX_NAME_LENGTH, NAME_PATTERN, DLJob
from stoker.api.names import GROUP
from stoker.api.schema import MAX_VALUE, ApiModel, Violation
from stoker.api.schema import violations as all_violations
from stoker.lint.files.manifests import Manifest


def is_ours(manifest: Manifest, kind: str) -> bool:
    """Whether a manifest is of a kind of Stoker's."""
    version = manifest.value.get("apiVersion") if isinstance(manifest.value, Mapping) else None
    return manifest.kind == kind and (not isinstance(version, str) or version.partition("/")[0] == GROUP)


def metadata(manifest: Manifest) -> Mapping[str, Any]:
    """An object's metadata; empty where there is none."""
    found = manifest.value.get("metadata") if isinstance(manifest.value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def object_name(manifest: Manifest) -> str:
    """What an object is called, or what its name will begin with; empty for what has neither."""
    return str(metadata(manifest).get("name") or metadata(manifest).get("generateName") or "")


def violations(model: type[ApiModel], document: Mapping[str, Any]) -> list[Violation]:
    """Where a manifest breaks the schema, unknown fields included; what the server alone writes is let pass."""
    found = [
        one
        for one in all_violations(model, document)
        if not (
            one.field_path.startswith(("metadata.", "metadata[", "status")) and one.message.startswith("unknown field")
        )
    ]
    if too_much := out_of_bounds(document):
        return too_much
    missing = [Violation(field_path=key, message="required") for key in ("apiVersion", "kind") if key not in document]
    return [*missing, *_name_violations(model, document), *found]


def _name_violations(model: type[ApiModel], document: Mapping[str, Any]) -> list[Violation]:
    """What the CRD's own rule says of a DLJob's name."""
    path, own = "metadata.name", document.get("metadata")
    if model is not DLJob or not isinstance(own, Mapping):
        return []
    name = own.get("name")
    if not name:
        return [] if own.get("generateName") else [Violation(field_path=path, message="required")]
    if not isinstance(name, str):
        return []
    if len(name) > MAX_NAME_LENGTH:
        message = f"has {len(name)} characters, at most {MAX_NAME_LENGTH} are allowed: its pods are called NAME-RANK"
    elif not re.match(NAME_PATTERN, name):
        allowed = "must consist of lower-case letters, digits and -, the first and last a letter or digit"
        nearest = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        message = f"{allowed}: for example {nearest}" if nearest else allowed
    else:
        return []
    return [Violation(field_path=path, message=f'"{name[:MAX_VALUE]}" {message}')]


__all__ = ["is_ours", "metadata", "object_name", "violations"]
