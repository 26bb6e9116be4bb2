"""What a manifest says of itself: whether it is one of Stoker's kinds, its metadata, its name."""

from collections.abc import Mapping
from typing import Any

from stoker.api.names import GROUP
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


__all__ = ["is_ours", "metadata", "object_name"]
