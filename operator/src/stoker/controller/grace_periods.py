"""How long warnings have stood, by a clock that nobody sets: the times in a status are of whatever clock wrote them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

from stoker.adapters.clock import Clock
from stoker.reclaim import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A warning that this process has recorded, and when by the monotonic clock."""

    warned_at: datetime
    at: float


class WarningAges:
    """Knows of the warnings that this process has recorded itself, by the DLJob's uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recorded: dict[str, _Recorded] = {}

    def wrote(self, uid: str, before: Record, after: Record) -> None:
        """The record of a job was written, and is on the API server: a warning in it begins now."""
        if not after.has_warning:
            self._recorded.pop(uid, None)
        elif after.warned_at is not None and after.warned_at != before.warned_at:
            self._recorded[uid] = _Recorded(warned_at=after.warned_at, at=self._clock.monotonic())

    def age(self, uid: str, record: Record) -> timedelta | None:
        """How long the record's warning has been on the API server; None where another process has recorded it."""
        mine = self._recorded.get(uid)
        if mine is None or mine.warned_at != record.warned_at:
            return None
        # Rounded down, so that no grace is shorter than granted.
        return timedelta(microseconds=floor((self._clock.monotonic() - mine.at) * 1e6))
