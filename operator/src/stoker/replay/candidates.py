"""The jobs that may have been idle for long enough, by their outlines: of the others nothing more need be read."""

from datetime import datetime, timedelta

import numpy as np

from stoker.api.duration import parse_duration
from stoker.diagnosis.series.stages import runs
from stoker.policy.effective import EffectivePolicy
from stoker.telemetry.activity import IDLE_PROFILING_PERCENT
from stoker.telemetry.past import Grid, JobOutline


def first_idle(outline: JobOutline, grid: Grid, policy: EffectivePolicy, since: datetime) -> datetime | None:
    """When the first idle time began that may be long enough to matter after `since`; None without one.

    An idle time that is long enough fills all coarse steps but the first and the last. A step without a sample may be
    idle.
    """
    window = min(windows(policy))
    level = max(float(policy.thresholds.idle_percent), IDLE_PROFILING_PERCENT)
    with np.errstate(invalid="ignore"):
        idle = outline.held & ~(outline.peak > level)
    least = max(int(window / grid.step) - 1, 1)
    for first, last in runs(idle):
        if last - first >= least and grid.time(last) > since and np.isfinite(outline.peak[first:last]).any():
            return grid.time(first - 1)
    return None


def last_held(outline: JobOutline, grid: Grid) -> datetime:
    """When the job was last seen to hold its GPUs; the grid's start for one that never did."""
    places = np.flatnonzero(outline.held)
    return grid.time(int(places[-1])) if len(places) else grid.start


def windows(policy: EffectivePolicy) -> tuple[timedelta, ...]:
    """How long jobs must be idle under the policy, of whichever class they are: labels that a class may ask for are
    not all known.
    """
    classes = (one.idle_after for one in policy.reclaim.classes)
    return (policy.reclaim.idle_after, *(parse_duration(one) for one in classes if one is not None))


__all__ = ["first_idle", "last_held", "windows"]
