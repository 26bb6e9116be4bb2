"""The hosts that a launcher is given, by a file or a list."""

from collections.abc import Mapping
from dataclasses import dataclass

from stoker.lint.launch.launchers.counts import LaunchContext
from stoker.lint.launch.model import Count, CountSource
from stoker.lint.launch.options import Option
from stoker.shell.model import Invocation, Word

MAX_HOSTS = 4_096
"""Hosts of a list that are read."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Slots by host (None: the host doesn't say); `slots` is empty where the hosts can't be seen."""

    slots: Mapping[str, int | None]
    words: tuple[Word, ...]

    def nodes(self) -> Count:
        return self._count(len(self.slots) or None)

    def per_node(self) -> Count:
        """Slots of each node; unknown where nodes differ."""
        numbers = set(self.slots.values())
        return self._count(next(iter(numbers)) if len(numbers) == 1 else None)

    def total(self) -> Count:
        """Slots of all nodes."""
        numbers = [number for number in self.slots.values() if number is not None]
        return self._count(sum(numbers) if numbers and len(numbers) == len(self.slots) else None)

    def _count(self, number: int | None) -> Count:
        possible = None if number is None else frozenset({number})
        return Count(possible=possible, source=CountSource.OPTION, words=self.words)


def hosts_in(text: str | None, words: tuple[Word, ...]) -> Hosts:
    """Of a host file: `a slots=8`, `a:8`, `a`."""
    slots: dict[str, int | None] = {}
    for line in (text or "").splitlines()[:MAX_HOSTS]:
        parts = line.split("#", 1)[0].split()
        if parts:
            name, _, attached = parts[0].partition(":")
            slots[name] = _number(next((part[6:] for part in parts[1:] if part.startswith("slots=")), attached))
    return Hosts(slots, words)


def given_hosts(
    listed: Option | None, file: Option | None, invocation: Invocation, context: LaunchContext
) -> Hosts | None:
    """The hosts of `-H a:4,b:4` or else of a host file; None where neither is given."""
    if listed is not None and listed.value is not None:
        slots: dict[str, int | None] = {}
        for part in (listed.value.text or "").split(",")[:MAX_HOSTS]:
            name, _, number = part.strip().partition(":")
            if name:
                taken, before = _number(number), slots.get(name, 0)
                slots[name] = None if taken is None or before is None else before + taken
        return Hosts(slots, listed.words)
    return None if file is None else hosts_in(context.file(invocation, file.value), file.words)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None
