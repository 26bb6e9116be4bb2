"""The decision whether an idle job's GPUs are taken back; pure."""

from stoker.reclaim.decision import Candidate, Decision, Notice, NoticeReason, Step, decide, idle_after
from stoker.reclaim.eligibility import Eligibility, candidate, eligibility, presumed
from stoker.reclaim.record import Record
from stoker.reclaim.resumption import Resumption, resumed

__all__ = [
    "Candidate",
    "Decision",
    "Eligibility",
    "Notice",
    "NoticeReason",
    "Record",
    "Resumption",
    "Step",
    "candidate",
    "decide",
    "eligibility",
    "idle_after",
    "presumed",
    "resumed",
]
