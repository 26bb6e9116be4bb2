"""CUDA_VISIBLE_DEVICES as CUDA reads it."""

import re
from dataclasses import dataclass

VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""The variables that hide devices, the one that counts first."""


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """What a value names: `indices` ("0,1", "", "-1"), or `identifiers` ("GPU-3a...") and no indices."""

    indices: tuple[int, ...] | None
    identifiers: tuple[str, ...] = ()


def parse(text: str) -> VisibleDevices:
    """The devices of a value; the list ends at the first negative index or `NoDevFiles`. Indices: None for no list."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if any(part.startswith(("GPU-", "MIG-")) for part in parts):
        return VisibleDevices(None, tuple(parts))
    indices: list[int] = []
    for part in parts:
        if part == "NoDevFiles":
            break
        if not re.fullmatch(r"-?\d{1,4}", part):
            return VisibleDevices(None)
        if int(part) < 0:
            break
        indices.append(int(part))
    return VisibleDevices(tuple(dict.fromkeys(indices)))


def count(text: str, granted: int) -> int | None:
    """How many of a pod's granted devices a program sees; None if that can't be told."""
    devices = parse(text)
    if devices.identifiers or devices.indices is None:
        return None
    beyond = next((position for position, index in enumerate(devices.indices) if index >= granted), None)
    return len(devices.indices) if beyond is None else beyond
