"""Whether an idle job's GPUs are taken back, and how far that has come: pure.

`plan(case)` is the whole decision. A controller makes a Case of what it has read (`Candidate`, `Constraints`,
`Execution`, the record in status), carries out the Plan, and plans again; `explain(case)` says what each gate answers.
"""

from stoker.reclaim.candidate import (
    MINIMUM_WARNING_GRACE,
    NOBODY,
    UNCONSTRAINED,
    Candidate,
    Constraints,
    Execution,
    Obstruction,
    Presence,
)
from stoker.reclaim.case import Case, idle_after, reclaimable_cause
from stoker.reclaim.completion import ActionEffect, completed, is_done, reclaimed, reclaimed_notice, without_job
from stoker.reclaim.eligibility import (
    Eligibility,
    eligibility,
    last_start,
    observed,
    of_facts,
    pod_uids,
    presumed,
)
from stoker.reclaim.explanation import Explanation, GateResult, explain
from stoker.reclaim.gate import FACTS, Gate, GateGroup, Reads
from stoker.reclaim.gates import GATES
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.planning import Plan, plan
from stoker.reclaim.record import HistoryEntry, NotificationRecord, Record, revisions_to_status
from stoker.reclaim.resumption import Resumption, resumed, started_by_hand
from stoker.reclaim.steps import ACTS, Step
from stoker.reclaim.transitions import TRANSITIONS, Trigger, after

__all__ = [
    "ACTS",
    "UNCONSTRAINED",
    "FACTS",
    "GATES",
    "HistoryEntry",
    "NotificationRecord",
    "revisions_to_status",
    "MINIMUM_WARNING_GRACE",
    "NOBODY",
    "TRANSITIONS",
    "GateResult",
    "ActionEffect",
    "Candidate",
    "Case",
    "Constraints",
    "Eligibility",
    "Execution",
    "Explanation",
    "Gate",
    "Notice",
    "NoticeReason",
    "Obstruction",
    "Trigger",
    "Plan",
    "Presence",
    "Reads",
    "Record",
    "Resumption",
    "GateGroup",
    "Step",
    "after",
    "completed",
    "is_done",
    "reclaimed",
    "reclaimed_notice",
    "without_job",
    "eligibility",
    "explain",
    "idle_after",
    "last_start",
    "observed",
    "of_facts",
    "pod_uids",
    "plan",
    "presumed",
    "reclaimable_cause",
    "resumed",
    "started_by_hand",
]
