"""The decision whether an idle job's GPUs are taken back; pure."""

from stoker.reclaim.candidate import (
    CALM,
    MINIMUM_WARNING_GRACE,
    NOBODY,
    Candidate,
    Circumstances,
    Obstruction,
    Presence,
)
from stoker.reclaim.decision import Decision, Step, decide
from stoker.reclaim.eligibility import Eligibility, candidate, eligibility, presumed
from stoker.reclaim.explanation import Answer, Explanation, explain
from stoker.reclaim.gates import FACTS, GATES, Case, Stage, idle_after, reclaimable_cause
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.record import HistoryEntry, NotificationRecord, Record, revisions_to_status
from stoker.reclaim.resumption import Resumption, resumed, started_by_hand
from stoker.reclaim.transitions import TRANSITIONS, Outcome, after

__all__ = [
    "CALM",
    "FACTS",
    "GATES",
    "HistoryEntry",
    "NotificationRecord",
    "revisions_to_status",
    "MINIMUM_WARNING_GRACE",
    "NOBODY",
    "TRANSITIONS",
    "Answer",
    "Candidate",
    "Case",
    "Circumstances",
    "Decision",
    "Eligibility",
    "Explanation",
    "Notice",
    "NoticeReason",
    "Obstruction",
    "Outcome",
    "Presence",
    "Record",
    "Resumption",
    "Stage",
    "Step",
    "after",
    "candidate",
    "decide",
    "eligibility",
    "explain",
    "idle_after",
    "presumed",
    "reclaimable_cause",
    "resumed",
    "started_by_hand",
]
