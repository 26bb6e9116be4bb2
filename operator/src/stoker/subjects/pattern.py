"""Patterns in a job's series that more than one rule must recognize."""

from itertools import pairwise

import numpy as np

from stoker.models.series import FloatArray
from stoker.models.vocabulary import JobType
from stoker.subjects.examination import Examination
from stoker.subjects.grid import BoolArray

INTERACTIVE_USE_PERCENT = 5.0
"""Life utilization under which a job may be interactive; the study's example has less than 1 % (ICSE 2024, section
4.1).
"""
LEAST_BURSTS = 3
"""Two pauses at least: one has no regularity."""
IRREGULAR_VARIATION = 1.0
"""Coefficient of variation of the pauses. Poisson events have 1, periodic work has next to 0."""
LEAST_PAUSE_SECONDS = 120.0
"""A shorter pause is one of a program, not of a person."""
STATE_SEPARATION_POINTS = 25.0
"""Two levels of use that lie closer than this are one level with noise."""


def irregular_bursts(exam: Examination) -> int:
    """How many bursts of work a job has, where their pauses are as irregular as a person's; 0 where they are not."""
    bursts = exam.bursts
    joined: list[tuple[int, int]] = []
    for first, last in bursts:
        if joined and (first - joined[-1][1]) * exam.step < LEAST_PAUSE_SECONDS:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    if len(joined) < LEAST_BURSTS:
        return 0
    gaps = np.array([after[0] - before[1] for before, after in pairwise(joined)], dtype=np.float64)
    # Of few pauses the sample's own deviation, not the population's: that of two can't exceed their mean.
    variation = float(gaps.std(ddof=1) / gaps.mean())
    return len(joined) if variation > IRREGULAR_VARIATION else 0


def looks_interactive(exam: Examination) -> bool:
    """The job is a person's: by its entry, its type, or irregular bursts at very low use."""
    if exam.facts.interactive_entry or exam.facts.job_type is JobType.INTERACTIVE:
        return True
    return exam.bounds[1] < INTERACTIVE_USE_PERCENT and irregular_bursts(exam) > 0


def two_states(values: FloatArray) -> tuple[BoolArray, float, float] | None:
    """Split values into a low and a high state: the mask of the low one and the two means.

    The split is the one of least squares over all thresholds (Otsu's). None where the states lie closer than 25
    points: median and spread of a series that stands at 0 half of the time would see nothing.
    """
    known = np.sort(values[np.isfinite(values)])
    if len(known) < 2:
        return None
    sums = np.cumsum(known)
    sizes = np.arange(1, len(known))
    low, high = sums[:-1] / sizes, (sums[-1] - sums[:-1]) / (len(known) - sizes)
    between = sizes * (len(known) - sizes) * (high - low) ** 2
    best = int(np.argmax(between))
    if high[best] - low[best] < STATE_SEPARATION_POINTS:
        return None
    threshold = (known[best] + known[best + 1]) / 2
    with np.errstate(invalid="ignore"):
        return values < threshold, float(low[best]), float(high[best])
