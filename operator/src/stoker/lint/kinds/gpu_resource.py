"""The extended resources by which containers ask for GPUs: which are whole devices, and how many a container wants.

Used by the readers of manifests, and by workload for pods that run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.findings.quantity import quantity
from stoker.lint.kinds.pod import listed, mapping

WHOLE_GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
"""Extended resources of which one unit is one whole device. Slices (MIG, time-sliced) can't be counted as devices."""

MAX_GPUS = 1024
"""A larger number is a mistake that the API server tells better."""

_GPU = re.compile(r"[^/]+/(?:[a-z]?gpu|mig-|dcu|i915$|xe$|vcuda)[^/]*")
_SHARE = re.compile(r"mem|core|percent")
"""In the name of a resource that counts parts of a device: its memory, its cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """The GPUs that a container asks for: the resource, its number, and the field where it stands."""

    resource: str
    count: int
    field: str


def counts_gpus(resource: str) -> bool:
    """Whether the units of an extended resource are GPUs or partitions of them, and not amounts of their memory."""
    return bool(_GPU.fullmatch(resource)) and not _SHARE.search(resource)


def gpu_request(container: Mapping[str, Any], at: str, field: str = "resources") -> GpuRequest | None:
    """What a container as the API writes it, at this field path, asks for; None for one without GPUs.

    field: what its resources are called there.

    Where the manifest asks for several kinds, or for parts of devices, the resource is one whose units are no devices.
    GPUs of a resource claim (dynamic resource allocation) have no number and aren't seen.
    """
    resources = mapping(container.get("resources"))
    for where in ("limits", "requests"):
        asked = {
            name: int(number)
            for name, value in mapping(resources.get(where)).items()
            if _GPU.fullmatch(str(name)) and (number := quantity(value) or 0) >= 1
        }
        if asked:
            whole = {name: number for name, number in asked.items() if not _SHARE.search(name)}
            partial = asked.keys() - WHOLE_GPU_RESOURCES
            resource = min(partial or asked)
            return GpuRequest(
                resource=resource,
                count=min(sum(whole.values()) or 1, MAX_GPUS),
                field=f"{at}.{field}.{where}[{resource}]",
            )
    return None


def uncounted_gpus(spec: Mapping[str, Any], resource: str) -> str | None:
    """How a pod holds GPUs, or may, that are not units of this resource; None where it does not.

    Claims of dynamic resource allocation don't tell in the pod what they are for. A container that ends before the
    others start gives back what it held.
    """
    claims = [str(mapping(claim).get("name")) for claim in listed(spec.get("resourceClaims"))]
    if claims:
        return f"resource claim {claims[0]}" if len(claims) == 1 else f"{len(claims)} resource claims"
    sidecars = (one for one in listed(spec.get("initContainers")) if mapping(one).get("restartPolicy") == "Always")
    for container in map(mapping, (*listed(spec.get("containers")), *sidecars)):
        resources = mapping(container.get("resources"))
        for asked in (mapping(resources.get("limits")), mapping(resources.get("requests"))):
            for name in sorted(map(str, asked)):
                if name != resource and _GPU.fullmatch(name) and str(asked[name]) != "0":
                    return f"{name} of container {container.get('name')}"
    return None


__all__ = ["WHOLE_GPU_RESOURCES", "GpuRequest", "counts_gpus", "gpu_request", "uncounted_gpus"]
