"""How long warnings have stood, by a clock that nobody sets: the times in a status are of whatever clock wrote them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.adapters.clock import Clock
from stoker.reclaim import Record

CLOCKS_APART = timedelta(seconds=150)
"""How far the clock of a process that recorded a warning may be from this one's: both act only where Prometheus' is
within a minute of theirs (adapters.prometheus, MAX_SKEW), and the record may have taken a request's time to be written
(adapters.kubernetes, REQUEST_TIMEOUT).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A warning that this process has recorded, and when by the steady clock."""

    warned_at: datetime
    at: float


class Graces:
    """Knows of the warnings that this process has recorded itself, by the DLJob's uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recorded: dict[str, _Recorded] = {}

    def wrote(self, uid: str, before: Record, after: Record) -> None:
        """The record of a job was written, and is on the API server."""
        if not after.has_warning:
            self._recorded.pop(uid, None)
        elif after.warned_at is not None and after.warned_at != before.warned_at:
            self._recorded[uid] = _Recorded(warned_at=after.warned_at, at=self._clock.monotonic())

    def left(self, uid: str, record: Record) -> float:
        """Seconds until a warning's grace is over, whatever clocks have done meanwhile; at most 0 when it is. One that
        another process has recorded stands until this clock is past the deadline by as much as the two may be apart.
        """
        if record.warned_at is None or record.deadline is None:
            return float("inf")
        grace = record.deadline - record.warned_at
        mine = self._recorded.get(uid)
        if mine is not None and mine.warned_at == record.warned_at:
            return grace.total_seconds() - (self._clock.monotonic() - mine.at)
        # Compressed time, as in tests, compresses what clocks may be apart.
        return (record.deadline + min(CLOCKS_APART, grace / 2) - self._clock.now()).total_seconds()
