"""What is remembered of a job on its way to being reclaimed: `status.reclaim`, the only memory there is."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from stoker.api.dljob import MAX_HISTORY, ReclaimStatus
from stoker.findings.finding import rfc3339, single_line
from stoker.findings.vocabulary import ReclaimMode, ReclaimState
from stoker.reclaim.transitions import WARNABLE

MAX_REASON = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The fields of `status.reclaim`, as models.dljob.ReclaimStatus describes them. `state` None: never looked at."""

    state: ReclaimState | None = None
    reason: str = ""
    rule: str | None = None
    handled_resume: str | None = None
    handled_snooze: str | None = None
    idle_since: datetime | None = None
    warned_at: datetime | None = None
    deadline: datetime | None = None
    action: ReclaimMode | None = None
    job_uid: str | None = None
    pod_uids: frozenset[str] = frozenset()
    reclaimed_at: datetime | None = None
    resumed_at: datetime | None = None
    snoozed_until: datetime | None = None
    snoozes: int = 0
    policy: str | None = None
    notified: tuple[str, ...] = ()
    history: tuple[str, ...] = ()

    @property
    def has_warning(self) -> bool:
        """Whether a recorded warning is in force."""
        return self.state in WARNABLE and self.warned_at is not None and self.deadline is not None

    def without_warning(self) -> "Record":
        """The same with no warning in force."""
        return replace(self, rule=None, warned_at=None, deadline=None, job_uid=None, pod_uids=frozenset())

    def remembering(self, now: datetime, words: str, *, over: str | None = None) -> "Record":
        """The same with one more line of history; the oldest falls out. In place of the last line where that says
        something that begins with `over`: a flurry of such news is one.
        """
        line = f"{rfc3339(now)} {single_line(words)}"
        again = over is not None and self.history and self.history[-1].partition(" ")[2].startswith(over)
        return replace(self, history=(*(self.history[:-1] if again else self.history), line)[-MAX_HISTORY:])

    @classmethod
    def from_status(cls, status: ReclaimStatus | None) -> "Record":
        """Read `status.reclaim`."""
        if status is None:
            return cls()
        return cls(
            state=status.state,
            reason=status.reason or "",
            rule=status.rule,
            handled_resume=status.handled_resume,
            handled_snooze=status.handled_snooze,
            idle_since=_utc(status.idle_since),
            warned_at=_utc(status.warned_at),
            deadline=_utc(status.deadline),
            action=None if status.action is None else ReclaimMode(status.action),
            job_uid=status.job_uid,
            pod_uids=frozenset(status.pod_uids),
            reclaimed_at=_utc(status.reclaimed_at),
            resumed_at=_utc(status.resumed_at),
            snoozed_until=_utc(status.snoozed_until),
            snoozes=status.snoozes or 0,
            policy=status.policy,
            notified=status.notified,
            history=status.history,
        )

    def to_status(self) -> dict[str, Any]:
        """`status.reclaim`, absent values omitted."""
        entry: dict[str, Any] = {
            "state": self.state.value if self.state is not None else None,
            "reason": single_line(self.reason)[:MAX_REASON] or None,
            "rule": self.rule,
            "handledResume": self.handled_resume,
            "handledSnooze": self.handled_snooze,
            "idleSince": _time(self.idle_since),
            "warnedAt": _time(self.warned_at),
            "deadline": _time(self.deadline),
            "action": self.action.value if self.action is not None else None,
            "jobUID": self.job_uid,
            "podUIDs": sorted(self.pod_uids),
            "reclaimedAt": _time(self.reclaimed_at),
            "resumedAt": _time(self.resumed_at),
            "snoozedUntil": _time(self.snoozed_until),
            "snoozes": self.snoozes or None,
            "policy": self.policy,
            "notified": list(self.notified),
            "history": list(self.history),
        }
        # An empty word of the owner's is a word, and is taken once.
        return {key: value for key, value in entry.items() if value not in (None, [])}


def _utc(time: datetime | None) -> datetime | None:
    """The time in UTC; what lies beyond UTC's calendar is moved into it."""
    if time is None:
        return None
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return time.replace(tzinfo=UTC)


def _time(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time)
