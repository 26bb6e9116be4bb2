"""A resource's objects as last seen, kept by a watch and checked against a list."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    version: int
    value: T
    was_watched: bool
    """Whether the watch has told of this version, too; if not, a list has."""


class Mirror(Generic[T]):
    """What is read of each object of one cluster-scoped resource, by name.

    The watch tells of changes at once, but it may fall silent, and after a gap it never tells of what was deleted
    meanwhile. So a list now and then says what there is. Both may be late: resource versions decide which of two is
    newer, and a deletion is remembered until a list has been taken after it.

    An object that can't be read keeps its last good value.
    """

    def __init__(self, resource: str, read: Callable[[Mapping[str, Any]], T], changed: Callable[[], None]) -> None:
        """Mirror `resource` (for messages). `read` raises ValueError for an invalid object; `changed` is told of any
        change.
        """
        self._resource = resource
        self._read = read
        self._changed = changed
        self._entries: dict[str, _Entry[T]] = {}
        self._deleted: dict[str, int] = {}
        self._overdue = 0
        self.is_listed = False

    def __iter__(self) -> Iterator[T]:
        return (entry.value for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, name: str) -> T | None:
        """What is known of the object with this name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.value

    def watched(self, kind: str | None, obj: Mapping[str, Any]) -> None:
        """Take an event of the watch: ADDED, MODIFIED, DELETED, or None for an object that the watch began with."""
        name, version = _name(obj), _version(obj)
        if kind == "DELETED":
            self._deleted[name] = version
            self._remove(name, version)
        else:
            self._put(name, version, obj, was_watched=True)

    def listed(self, objects: Iterable[Mapping[str, Any]], version: int) -> None:
        """Take a complete list, as of resource version `version`."""
        # What an earlier list brought and the watch has not told of since, it never will.
        self._overdue = sum(not entry.was_watched for entry in self._entries.values())
        found = {_name(obj): obj for obj in objects}
        for name in self._entries.keys() - found.keys():
            self._remove(name, version)
        for name, obj in found.items():
            self._put(name, _version(obj), obj, was_watched=False)
        self._deleted = {name: deleted for name, deleted in self._deleted.items() if deleted > version}
        self.is_listed = True

    def not_listed(self) -> str | None:
        """Why the mirror can't be relied on yet, or None."""
        return None if self.is_listed else f"{self._resource} not listed yet"

    def stalled(self) -> str | None:
        """Says so if changes that a list has seen were not told of by the watch until the next list."""
        return f"the watch of {self._resource} missed {self._overdue} changes" if self._overdue else None

    def _put(self, name: str, version: int, obj: Mapping[str, Any], *, was_watched: bool) -> None:
        known = self._entries.get(name)
        if known is not None and known.version >= version:
            known.was_watched |= was_watched and known.version == version
            return
        if self._deleted.get(name, -1) >= version:
            return
        try:
            value = self._read(obj)
        except ValueError as error:
            kept = "the last valid one stays in force" if known is not None else "it is ignored"
            logger.error("%s %s is invalid, %s: %s", self._resource, name, kept, error)  # noqa: TRY400 -- not our fault
            if known is not None:
                known.version, known.was_watched = version, was_watched
            return
        self._entries[name] = _Entry(version, value, was_watched)
        if known is None or known.value != value:
            self._changed()

    def _remove(self, name: str, version: int) -> None:
        known = self._entries.get(name)
        if known is not None and known.version <= version:
            del self._entries[name]
            self._changed()


def _name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def _version(obj: Mapping[str, Any]) -> int:
    """Resource versions are decimal numbers, and grow with every change in the cluster."""
    return int(obj["metadata"]["resourceVersion"])
