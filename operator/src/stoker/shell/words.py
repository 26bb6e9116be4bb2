"""What single words mean to the programs that scripts start: shells, options, durations, globs, CUDA_VISIBLE_DEVICES.

One of the three modules of this package that others import (see `stoker.shell`). Everything here is a pure function of
one text.
"""

import re
from dataclasses import dataclass

from stoker.shell.interpreter import glob
from stoker.shell.interpreter.glob import PatternTooLargeError

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
"""Programs that read `-c TEXT` and script files as this package does."""

_SHORT_OPTIONS = re.compile(r"-[A-Za-z]+")


def has_short_option(word: str, letters: str) -> bool:
    """Whether a word is options of one letter, and one of these among them."""
    return _SHORT_OPTIONS.fullmatch(word) is not None and any(letter in word for letter in letters)


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration(text: str) -> float | None:
    """Seconds of `sleep` and `timeout`: "90", "1.5h", "infinity"; None if it isn't one."""
    if text.lower() in ("inf", "infinity"):
        return float("inf")
    unit = _UNITS.get(text[-1:], 0)
    number = text[:-1] if unit else text
    try:
        return float(number) * (unit or 1) if number and number[0] in "0123456789." else None
    except ValueError:
        return None


def matches_glob(pattern: str, text: str) -> bool | None:
    """Whether a whole text matches a shell pattern: `*`, `?`, `[a-z]`.

    None where the text or the pattern is longer than is followed, and for extended patterns (`@(a|b)`).
    """
    try:
        return glob.matches(pattern, text)
    except PatternTooLargeError:
        return None


VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""The variables that hide devices, the one that counts first."""


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """What a value names: `indices` ("0,1", "", "-1"), or `identifiers` ("GPU-3a...") and no indices."""

    indices: tuple[int, ...] | None
    identifiers: tuple[str, ...] = ()


def visible_devices(text: str) -> VisibleDevices:
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


def count_visible_devices(text: str, granted: int) -> int | None:
    """How many of a pod's granted devices a program sees; None if that can't be told."""
    devices = visible_devices(text)
    if devices.identifiers or devices.indices is None:
        return None
    beyond = next((position for position, index in enumerate(devices.indices) if index >= granted), None)
    return len(devices.indices) if beyond is None else beyond


__all__ = [
    "SHELLS",
    "VISIBLE_DEVICES",
    "VisibleDevices",
    "count_visible_devices",
    "duration",
    "has_short_option",
    "matches_glob",
    "visible_devices",
]
