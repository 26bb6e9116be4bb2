"""What is remembered of a job on its way to being reclaimed: `status.reclaim`, which is the only memory of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from stoker.api.schema import readable
from stoker.api.status import MAX_HISTORY, NotificationStatus, PolicyRevisionStatus, ReclaimHistoryEntry, ReclaimStatus
from stoker.findings.finding import optional_time, rfc3339, single_line
from stoker.findings.vocabulary import NotificationEvent, NotificationResult, ReclaimEvent, ReclaimMode, ReclaimState
from stoker.policy.effective import PolicyRevision
from stoker.reclaim.transitions import WARNABLE

MAX_REASON = 512
"""Characters of a reason; chosen so that a full history stays below 8 KiB of the status."""

EVENT_WORDS: Mapping[ReclaimEvent, str] = {
    ReclaimEvent.WARNED: "warned",
    ReclaimEvent.CANCELLED: "warning cancelled",
    ReclaimEvent.RECLAIMED: "reclaimed",
    ReclaimEvent.RESUMED: "resumed",
    ReclaimEvent.SNOOZED: "snoozed",
    ReclaimEvent.SNOOZE_WITHDRAWN: "snooze withdrawn",
    ReclaimEvent.POLICY_CHANGED: "policy changed",
}
"""The events of the history in text for people: explain, digests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One event of a job's reclaim history; `policy` is the one that decided, None where the owner did."""

    time: datetime
    event: ReclaimEvent
    reason: str = ""
    policy: PolicyRevision | None = None

    @property
    def text(self) -> str:
        """`warned: UnreleasedJob (likely), 8 GPUs idle since 2026-11-21T14:00:00Z (default@3)`, for people."""
        reason = f": {self.reason}" if self.reason else ""
        policy = f" ({self.policy})" if self.policy is not None else ""
        return f"{EVENT_WORDS[self.event]}{reason}{policy}"

    @classmethod
    def from_status(cls, entry: ReclaimHistoryEntry) -> "HistoryEntry":
        """Read an entry of `status.reclaim.history`."""
        policy = None if entry.policy is None else PolicyRevision(name=entry.policy, generation=entry.generation)
        return cls(time=_in_calendar(entry.time), event=entry.event, reason=entry.reason or "", policy=policy)

    def to_status(self) -> dict[str, Any]:
        """An entry of `status.reclaim.history`, absent values omitted."""
        entry: dict[str, Any] = {"time": rfc3339(self.time), "event": self.event.value}
        if self.reason:
            entry["reason"] = self.reason
        if self.policy is not None:
            entry["policy"] = self.policy.name
            if self.policy.generation is not None:
                entry["generation"] = self.policy.generation
        return entry


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRecord:
    """What became of a notification: what it was about and when that happened, the result and when it was known."""

    event: NotificationEvent
    event_time: datetime
    result: NotificationResult
    time: datetime

    @classmethod
    def from_status(cls, entry: NotificationStatus) -> "NotificationRecord":
        """Read an entry of `status.reclaim.notified`."""
        times = {"event_time": _in_calendar(entry.event_time), "time": _in_calendar(entry.time)}
        return cls(event=entry.event, result=entry.result, **times)

    def to_status(self) -> dict[str, str]:
        """An entry of `status.reclaim.notified`."""
        return {
            "event": self.event.value,
            "eventTime": rfc3339(self.event_time),
            "result": self.result.value,
            "time": rfc3339(self.time),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The fields of `status.reclaim`, as api.status.ReclaimStatus describes them. `state` None: never scanned."""

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
    policies: tuple[PolicyRevision, ...] = ()
    notified: tuple[NotificationRecord, ...] = ()
    history: tuple[HistoryEntry, ...] = ()

    @property
    def has_warning(self) -> bool:
        """Whether a recorded warning is in force."""
        return self.state in WARNABLE and self.warned_at is not None and self.deadline is not None

    def without_warning(self) -> "Record":
        """The same with no warning in force."""
        return replace(self, rule=None, warned_at=None, deadline=None, job_uid=None, pod_uids=frozenset())

    def remembering(
        self,
        now: datetime,
        event: ReclaimEvent,
        reason: str = "",
        *,
        policies: tuple[PolicyRevision, ...] = (),
        replaces_same: bool = False,
    ) -> "Record":
        """The same with one more entry in the history; the oldest falls out. The last of `policies` decided.

        `replaces_same`: the entry replaces the last one where that is of the same event.
        """
        entry = HistoryEntry(
            time=now,
            event=event,
            reason=single_line(reason)[:MAX_REASON],
            policy=policies[-1] if policies else None,
        )
        again = replaces_same and self.history and self.history[-1].event is event
        return replace(self, history=(*(self.history[:-1] if again else self.history), entry)[-MAX_HISTORY:])

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "Record":
        """The record of a DLJob as the API server has it; fields that this version can't read are left out."""
        written = (raw.get("status") or {}).get("reclaim")
        status, _, _ = readable(ReclaimStatus, written)
        return cls.from_status(status)

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
            policies=tuple(map(_revision, status.policies)),
            notified=tuple(map(NotificationRecord.from_status, status.notified)),
            history=tuple(map(HistoryEntry.from_status, status.history)),
        )

    def to_status(self) -> dict[str, Any]:
        """`status.reclaim`, absent values omitted."""
        entry: dict[str, Any] = {
            "state": self.state.value if self.state is not None else None,
            "reason": single_line(self.reason)[:MAX_REASON] or None,
            "rule": self.rule,
            "handledResume": self.handled_resume,
            "handledSnooze": self.handled_snooze,
            "idleSince": optional_time(self.idle_since),
            "warnedAt": optional_time(self.warned_at),
            "deadline": optional_time(self.deadline),
            "action": self.action.value if self.action is not None else None,
            "jobUID": self.job_uid,
            "podUIDs": sorted(self.pod_uids),
            "reclaimedAt": optional_time(self.reclaimed_at),
            "resumedAt": optional_time(self.resumed_at),
            "snoozedUntil": optional_time(self.snoozed_until),
            "snoozes": self.snoozes or None,
            "policies": revisions_to_status(self.policies),
            "notified": [entry.to_status() for entry in self.notified],
            "history": [entry.to_status() for entry in self.history],
        }
        # An empty annotation of the owner counts as a response, once.
        return {key: value for key, value in entry.items() if value not in (None, [])}


def revisions_to_status(revisions: Iterable[PolicyRevision]) -> list[dict[str, Any]]:
    """A list of policies with their generations, for a status, an audit line or JSON."""
    entries = ({"name": one.name, "generation": one.generation} for one in revisions)
    return [{key: value for key, value in entry.items() if value is not None} for entry in entries]


def _revision(entry: PolicyRevisionStatus) -> PolicyRevision:
    return PolicyRevision(name=entry.name, generation=entry.generation)


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else _in_calendar(time)


def _in_calendar(time: datetime) -> datetime:
    """The time in UTC; what lies beyond UTC's calendar is moved into it."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return time.replace(tzinfo=UTC)
