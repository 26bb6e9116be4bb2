"""Since when a job is idle: computed from its full series, where the screen only knows the last window."""

from datetime import datetime

import numpy as np

from stoker.diagnosis.series.examination import Examination
from stoker.diagnosis.series.stages import runs

LONGEST_GAP_SECONDS = 180.0
"""Samples may be missing for this long without a doubt of what happened meanwhile: three scrapes of a minute each."""


def idle_since(exam: Examination) -> datetime | None:
    """Since when every GPU of a job that still runs has been sampled and idle.

    None where one works now, or where the last samples, or those of a longer gap, are missing: missing is not idle.
    """
    alive = np.flatnonzero(exam.life)
    if not exam.running or not len(alive):
        return None
    end = int(alive[-1]) + 1
    working = np.flatnonzero(exam.any_busy)
    first = max(int(working[-1]) + 1 if len(working) else 0, int(alive[0]))
    gaps = [
        (start, stop)
        for start, stop in runs(~exam.all_idle & exam.steps(first, end))
        if (stop - start) * exam.step > LONGEST_GAP_SECONDS
    ]
    first = gaps[-1][1] if gaps else first
    return exam.time(first) if exam.all_idle[first:end].any() else None
