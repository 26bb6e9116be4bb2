"""What a controller does next with a job, as a plan says (planning.Plan)."""

from enum import StrEnum


class Step(StrEnum):
    """The next step. After each of CHECK_AGAIN, TAKE_SLOT and RECORD_INTENT the controller plans again."""

    RECORD = "Record"
    """Write the record, and nothing more."""
    WARN = "Warn"
    """Write the record, which warns the owner: the grace of the warning begins then."""
    EXAMINE = "Examine"
    """Write the record, and ask for an examination of the job's metrics."""
    CHECK_AGAIN = "CheckAgain"
    """Write the record, and read all objects and metrics afresh."""
    TAKE_SLOT = "TakeSlot"
    """Take one of the reclaims that the policy allows within its window."""
    RECORD_INTENT = "RecordIntent"
    """Write the record, which says what is about to be done."""
    SUSPEND = "Suspend"
    """Suspend the Job."""
    DELETE = "Delete"
    """Delete the Job."""
    RETRY = "Retry"
    """Write nothing, and begin the pass anew at once."""
    STOP = "Stop"
    """Write nothing; the next pass plans anew."""


ACTS = frozenset({Step.SUSPEND, Step.DELETE})
"""Steps that take the GPUs away: the last ones of a plan."""
CONFIRMED = frozenset({Step.CHECK_AGAIN, Step.TAKE_SLOT, Step.RECORD_INTENT, *ACTS})
"""Steps of a job for which every condition of a reclaim holds but those of the group ACTION."""
