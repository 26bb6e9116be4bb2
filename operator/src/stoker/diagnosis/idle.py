"""Whether a job as a whole is idle, by the safety rules of reclaim: missing is never idle, and a contradiction means
active.
"""

from datetime import datetime, timedelta

from stoker.models.diagnosis import Idleness
from stoker.models.screen import Screen
from stoker.models.series import JobFacts


def idleness(
    facts: JobFacts,
    screen: Screen,
    *,
    window: timedelta,
    min_coverage_percent: float,
    now: datetime,
    idle_percent: float = 0.0,
) -> Idleness:
    """Judge one job by the cluster's screen.

    `window` is how long the job must have been idle (the policy's or the job's `idleAfter`); the screen must cover at
    least that.
    """
    raise NotImplementedError
