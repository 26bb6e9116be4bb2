"""Lays a user's partial pod template over the operator's, list items paired by name as Kubernetes' strategic merge
does.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""The key that pairs a list's items (the `patchMergeKey` tags of k8s.io/api/core/v1)."""

ADDED = frozenset({"tolerations"})
"""Lists whose items add up: Kubernetes replaces them, but a user's toleration must not cost the job the one for its
GPUs.
"""


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`patch` laid over `base`: mappings field by field, lists with a merge key item by item, all else replaced."""
    merged = dict(deepcopy(base))
    for key, value in patch.items():
        ours = merged.get(key)
        if isinstance(ours, dict) and isinstance(value, Mapping):
            merged[key] = merge(ours, value)
        elif isinstance(ours, list) and isinstance(value, list) and key in MERGE_KEYS:
            merged[key] = _merge_items(ours, value, MERGE_KEYS[key])
        elif isinstance(ours, list) and isinstance(value, list) and key in ADDED:
            merged[key] = ours + [deepcopy(item) for item in value if item not in ours]
        else:
            merged[key] = deepcopy(value)
    return merged


def _merge_items(ours: list[Any], theirs: list[Any], key: str) -> list[Any]:
    """Items paired by `key`, ours first; what can't be paired is appended."""
    merged = list(ours)
    places = {item.get(key): place for place, item in enumerate(ours) if isinstance(item, dict)}
    for item in theirs:
        place = places.get(item.get(key)) if isinstance(item, Mapping) else None
        if place is None:
            merged.append(deepcopy(item))
        else:
            merged[place] = merge(merged[place], item)
    return merged
