"""What a gate answers that holds a job back."""

from dataclasses import dataclass
from datetime import datetime

from stoker.reclaim.steps import Step
from stoker.reclaim.transitions import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class GateHold:
    """Why a gate holds a job back, `until` when if that is known, and what would change it, as advice to the reader."""

    trigger: Trigger
    reason: str
    until: datetime | None = None
    reason_names_until: bool = False
    """The reason says until when, so that text need not say it again."""
    change: str = ""
    observes: bool = False
    """Everything else would hold: the job is reported as one that would be reclaimed."""
    step: Step = Step.RECORD
    """What the controller does next."""
    is_told: bool = False
    """The record says the reason, though everything else in it is kept (Trigger.KEPT)."""
