"""Measures the age of warnings by the monotonic clock. Used by the reclaimer for the warning's grace period.

The times in a status come from the wall clock of the process that wrote them, which may be wrong or may be set.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import floor

from stoker.adapters.clock import Clock
from stoker.reclaim import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A warning that this process has written, and the time of the write by the monotonic clock."""

    warned_at: datetime
    at: float


class WarningAges:
    """The ages of the warnings that this process has written itself, by the DLJob's uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recorded: dict[str, _Recorded] = {}

    def wrote(self, uid: str, before: Record, after: Record) -> None:
        """Note that the record `after` has replaced `before` in the status. A new warning in it has the age 0 now."""
        if not after.has_warning:
            self._recorded.pop(uid, None)
        elif after.warned_at is not None and after.warned_at != before.warned_at:
            self._recorded[uid] = _Recorded(warned_at=after.warned_at, at=self._clock.monotonic())

    def age(self, uid: str, record: Record) -> timedelta | None:
        """How long the record's warning has been on the API server; None if another process has written it."""
        mine = self._recorded.get(uid)
        if mine is None or mine.warned_at != record.warned_at:
            return None
        # Rounded down, so that no grace period is shorter than announced.
        return timedelta(microseconds=floor((self._clock.monotonic() - mine.at) * 1e6))
