"""Durations as Kubernetes users write them: `90s`, `60m`, `1h30m`."""

import re
from datetime import timedelta

PATTERN = r"^(?:[0-9]{1,6}h)?(?:[0-9]{1,6}m)?(?:[0-9]{1,6}s)?$"
_PARTS = re.compile(r"^(?:(?P<hours>[0-9]{1,6})h)?(?:(?P<minutes>[0-9]{1,6})m)?(?:(?P<seconds>[0-9]{1,6})s)?$")
MAX_LENGTH = 24
"""Characters; three numbers of six digits with their units have 21."""


def parse_duration(text: str) -> timedelta:
    """Read `60m`, `1h30m`, `90s`. Raises ValueError for anything else, an empty text included."""
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        msg = f"{text!r} is not a duration: write 90s, 60m or 1h30m"
        raise ValueError(msg)
    return timedelta(**{unit: int(amount) for unit, amount in match.groupdict(default="0").items()})


def format_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it, whole seconds, the largest units first: `1h30m`, `0s`."""
    seconds = int(duration.total_seconds())
    parts = ((seconds // 3600, "h"), (seconds % 3600 // 60, "m"), (seconds % 60, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"
