"""Numbers, stretches of time and GPUs as findings say them."""

from collections.abc import Iterable
from datetime import datetime

from stoker.findings.finding import rfc3339
from stoker.findings.quantity import small_number


def percent(value: float) -> str:
    """A percentage as people write it: whole above 10, one decimal below, and never a rounded-away difference from 0
    or 100.
    """
    if 0 < value < 0.1:
        return "under 0.1 %"
    if value >= 99.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value < 9.95 or value > 99 else f"{value:.0f} %"


def gib(mebibytes: float) -> str:
    """A size in GiB."""
    size = mebibytes / 1024
    return f"{size:.0f} GiB" if size >= 10 else f"{size:.1f} GiB"


def minutes(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def gpu_hours(hours: float) -> str:
    """An amount of GPU time."""
    return f"{hours:.1f} GPU-hours"


def interval(since: datetime, until: datetime | None) -> str:
    """A stretch of time."""
    return f"since {rfc3339(since)}" if until is None else f"{rfc3339(since)} to {rfc3339(until)}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 GPU`, `4 GPUs`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def all_gpus(number: int) -> str:
    """All GPUs of a job, as the subject of a sentence in the perfect."""
    return "The GPU of the job has" if number == 1 else f"All {number} GPUs of the job have"


def ranges(indices: Iterable[str]) -> str:
    """GPU numbers with neighbours joined: `0-3, 6`; identities that aren't numbers stand as they are."""
    numbers: list[int] = []
    words: list[str] = []
    for index in indices:
        number = small_number(index)
        if number is None:
            words.append(index)
        else:
            numbers.append(number)
    parts: list[str] = []
    numbers.sort()
    start = 0
    for position in range(1, len(numbers) + 1):
        if position == len(numbers) or numbers[position] != numbers[position - 1] + 1:
            first, last = numbers[start], numbers[position - 1]
            parts.append(str(first) if first == last else f"{first}-{last}")
            start = position
    return ", ".join([*parts, *sorted(words)])


def size(number: float) -> str:
    """An amount of bytes: `1.5 GB`, `340 MB`, `20 kB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}" if number < 9.95 * scale else f"{number / scale:.0f} {unit}"
    return f"{number / 1e3:.0f} kB"


def rate(speed: float) -> str:
    """Bytes a second."""
    return f"{size(speed)}/s"
