"""Which jobs may have rested for long enough, by their outlines: of the others nothing more need be read."""

from datetime import datetime, timedelta

import numpy as np

from stoker.models.duration import parse_duration
from stoker.models.past import Grid, JobOutline
from stoker.models.policy import EffectivePolicy, JobTraits
from stoker.reclaim import idle_after
from stoker.replay.screens import job_type
from stoker.subjects.series.activity import IDLE_PROFILING_PERCENT
from stoker.subjects.series.stages import runs


def first_rest(outline: JobOutline, grid: Grid, policy: EffectivePolicy, since: datetime) -> datetime | None:
    """When the first rest began that may be long enough to matter after `since`; None without one.

    A rest that is long enough fills all coarse steps but the first and the last. A step without a sample may be one of
    rest.
    """
    identity = outline.identity
    traits = JobTraits(
        job_type=job_type(identity.job_type),
        priority_class=identity.priority or None,
        gpu_product=identity.product or None,
    )
    window = min(idle_after(None, traits, policy), policy.reclaim.idle_after, *_classes(policy))
    level = max(float(policy.thresholds.idle_percent), IDLE_PROFILING_PERCENT)
    with np.errstate(invalid="ignore"):
        rests = outline.held & ~(outline.peak > level)
    least = max(int(window / grid.step) - 1, 1)
    for first, last in runs(rests):
        if last - first >= least and grid.time(last) > since and np.isfinite(outline.peak[first:last]).any():
            return grid.time(first - 1)
    return None


def _classes(policy: EffectivePolicy) -> list[timedelta]:
    """What any class of the policy asks for: labels that a class may ask for are not all known."""
    return [parse_duration(one.idle_after) for one in policy.reclaim.classes if one.idle_after is not None]


__all__ = ["first_rest"]
