"""Whether a job works when others ask it to: a model server, or a queue's worker, whatever type it declares.

Its rest says nothing of its end: `unreleased-job` and `interactive-job` are only possible there.
"""

import numpy as np

from stoker.diagnosis.series.examination import Examination, once
from stoker.diagnosis.series.stages import runs

LEAST_PAUSE_SECONDS = 600.0
"""Seconds of a pause that looks like an end: shorter ones are checkpoints and validations."""
SEVERAL_PAUSES = 2
"""Pauses after which the work went on. One may have been an accident of the night."""
LEAST_REQUESTS = 20
"""Bursts from which their sizes can be called equal."""
LONGEST_REQUEST_SECONDS = 300.0
"""A longer burst is work by itself, such as an epoch."""
EQUAL_VARIATION = 0.7
"""Coefficient of variation of the bursts' work. Requests to one model vary by their length; what a person runs varies
by more than its mean.
"""
SHORT_SHARE = 0.9
"""Share of the bursts that must be short: now and then many requests come at once."""


@once
def returns(exam: Examination) -> int:
    """How many pauses of ten minutes or more, in all attempts, have ended in work."""
    found = 0
    for attempt in exam.attempts:
        worked = np.flatnonzero(exam.any_busy & attempt)
        if len(worked):
            inside = exam.steps(int(worked[0]), int(worked[-1]) + 1) & exam.all_idle
            found += sum((stop - start) * exam.step >= LEAST_PAUSE_SECONDS for start, stop in runs(inside))
    return found


@once
def is_asked(exam: Examination) -> bool:
    """Whether its work comes in many short bursts of like size, as requests do."""
    bursts = exam.bursts
    if len(bursts) < LEAST_REQUESTS:
        return False
    lengths = np.array([stop - start for start, stop in bursts]) * exam.step
    work = np.array([np.nansum(exam.use[:, start:stop]) for start, stop in bursts])
    short = lengths <= LONGEST_REQUEST_SECONDS
    if short.mean() < SHORT_SHARE or not work[short].mean() > 0:
        return False
    return bool(work[short].std() <= EQUAL_VARIATION * work[short].mean())


def comes_back(exam: Examination) -> str:
    """Why its rest may end in work again, in words; empty where nothing says so."""
    if is_asked(exam):
        return f"it works in {len(exam.bursts)} short bursts of like size, as what is asked from outside does"
    if returns(exam) >= SEVERAL_PAUSES:
        return f"it has come back from {returns(exam)} pauses"
    return ""


__all__ = ["comes_back", "is_asked", "returns"]
