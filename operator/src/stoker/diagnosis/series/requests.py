"""Whether a job works when others ask it to: a model server, or a queue's worker, whatever type it declares.

Its rest says nothing of its end: `unreleased-job` and `interactive-job` are only possible there.
"""

from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import Examination, once
from stoker.diagnosis.series.resting_processes import processes_rest
from stoker.diagnosis.series.stages import runs
from stoker.telemetry.series import PodSignal

LEAST_PAUSE_SECONDS = 600.0
"""Seconds of a pause that looks like an end: shorter ones are checkpoints and validations."""
SEVERAL_PAUSES = 2
"""Pauses after which the work went on. One may have been an accident of the night."""
LEAST_REQUESTS = 20
"""Bursts from which their sizes can be called equal."""
LONGEST_REQUEST_SECONDS = 300.0
"""A longer burst is work by itself, such as an epoch."""
EQUAL_VARIATION = 0.5
"""Coefficient of variation of the bursts' work. Requests to one model vary little; what a person runs varies by about
its mean.
"""
IRREGULAR_VARIATION = 0.4
"""Coefficient of variation of the pauses: independent requests have 1, epochs and checkpoints 0.3 at most."""
SETTLING_SECONDS = 120.0
"""Seconds at both ends of a pause in which the pods' rates may show the work beside it: Prometheus computes them over
one or two minutes, and a pod's samples are not taken when a GPU's are.
"""
QUIET_BYTES = 100e3
"""bytes/s of a pod. Chosen because probes, metrics and log lines stay below, and reading data does not."""
TRAFFIC = (PodSignal.NET_RX, PodSignal.NET_TX, PodSignal.DISK_READ, PodSignal.DISK_WRITE)
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
    """Whether its work comes in many short bursts of like size at irregular times, as requests do."""
    bursts = exam.bursts
    if len(bursts) < LEAST_REQUESTS:
        return False
    lengths = np.array([stop - start for start, stop in bursts]) * exam.step
    work = np.array([np.nansum(exam.use[:, start:stop]) for start, stop in bursts])
    gaps = np.array([after[0] - before[1] for before, after in pairwise(bursts)])
    if gaps.std() < IRREGULAR_VARIATION * gaps.mean():
        return False
    short = lengths <= LONGEST_REQUEST_SECONDS
    if short.mean() < SHORT_SHARE:
        return False
    if not work[short].mean() > 0:
        work = lengths  # utilization missed them, another signal saw them
    return bool(work[short].std() <= EQUAL_VARIATION * work[short].mean())


@once
def waits_for_work(exam: Examination) -> bool:
    """Whether several of its pauses were rests: pods that compute, read or send nothing for ten minutes, and then work
    again, wait for somebody, and not for their data.
    """
    pauses = exam.steps(0, 0)
    for attempt in exam.attempts:
        worked = np.flatnonzero(exam.any_busy & attempt)
        if len(worked):
            inside = exam.steps(int(worked[0]), int(worked[-1]) + 1) & exam.all_idle
            for start, stop in runs(inside):
                if (stop - start) * exam.step >= LEAST_PAUSE_SECONDS:
                    margin = int(SETTLING_SECONDS / exam.step)
                    pauses |= exam.steps(start + margin, stop - margin)
    if returns(exam) < SEVERAL_PAUSES or processes_rest(exam, pauses) is None:
        return False
    levels = (exam.pod_peak(signal, pauses) for signal in TRAFFIC)
    return not any(level is not None and level >= QUIET_BYTES for level in levels)


def comes_back(exam: Examination) -> str:
    """Why its rest may end in work again, in words; empty where nothing says so."""
    if is_asked(exam):
        return f"it works in {len(exam.bursts)} short bursts of like size, as what is asked from outside does"
    if returns(exam) >= SEVERAL_PAUSES:
        return f"it has come back from {returns(exam)} pauses"
    return ""


__all__ = ["comes_back", "is_asked", "returns", "waits_for_work"]
