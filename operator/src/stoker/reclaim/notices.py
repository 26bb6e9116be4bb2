"""What reclaim tells: by events, the audit log, metrics, and where a policy asks for it, messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.findings.vocabulary import ReclaimEvent
from stoker.policy.effective import PolicyRevision


class NoticeReason(StrEnum):
    """Reasons of the events about reclaim."""

    WARNED = ReclaimEvent.WARNED.value
    CANCELLED = ReclaimEvent.CANCELLED.value
    WOULD_RECLAIM = "WouldReclaim"
    RECLAIMED = ReclaimEvent.RECLAIMED.value
    RESUMED = ReclaimEvent.RESUMED.value
    SNOOZED = ReclaimEvent.SNOOZED.value
    SNOOZE_WITHDRAWN = ReclaimEvent.SNOOZE_WITHDRAWN.value
    SNOOZE_CLAMPED = "SnoozeClamped"
    SNOOZE_IGNORED = "SnoozeIgnored"
    BRAKED = "ReclaimBraked"
    """Of a policy: so much turned idle at once that reclaim stops."""
    RELEASED = "BrakeReleased"
    """Of a policy: reclaim may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event for the job's owner, sent after the record is written. `episode` distinguishes one occasion from the
    next; `numbers` are what it was based on, for the audit log; `policies` decided, none where the owner did.
    """

    reason: NoticeReason
    message: str
    episode: str
    numbers: Mapping[str, str | int | float] = field(default_factory=dict)
    policies: tuple[PolicyRevision, ...] = ()
