"""Whether a job works when others ask it to: a model server, or a queue's worker, whatever type it declares.

Its rest says nothing of its end: `unreleased-job` and `interactive-job` are only possible there. Where its container
declares a port or a readiness probe as well, it is a service, of which no rule expects constant work.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import Examination, once
from stoker.diagnosis.series.resting_processes import processes_rest
from stoker.diagnosis.series.stages import runs
from stoker.diagnosis.series.traffic import flows
from stoker.telemetry.series import FloatArray, PodSignal

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
MESSAGE_RATIO = 2.0
"""Times what a pod usually receives while its GPUs rest, from which a step holds a message: probes and metrics always
take the same.
"""
LEAST_MESSAGE_BYTES = 3e3
"""Bytes of a message in a step, beyond what is usual. Chosen because a request has some thousand bytes with its headers
and its handshake, and a single packet of a heartbeat has less.
"""
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
def acts_as_service(exam: Examination) -> bool:
    """Whether it serves a model: by its declared type, by its program, or because it declares a port or a readiness
    probe and works, or receives, as it is asked.
    """
    facts = exam.facts
    return facts.is_service or (facts.offers is not None and (is_asked(exam) or messages(exam) > 0))


@once
def is_asked(exam: Examination) -> bool:
    """Whether its work comes in many short bursts of like size at irregular times, as requests do."""
    work = np.array([np.nansum(exam.use[:, start:stop]) for start, stop in exam.bursts])
    return _as_requests(exam, exam.bursts, work)


@once
def messages(exam: Examination) -> int:
    """How many short bursts of like size a pod receives at irregular times, if these are as requests: the most of any
    pod, 0 where they are not. Requests that take a GPU less than a second are seen here alone.
    """
    found = 0
    for pod, values in flows(exam, PodSignal.NET_RX):
        known = exam.lives[pod] & np.isfinite(values)
        resting = known & exam.all_idle
        if not resting.any():
            continue
        usual = float(np.median(values[resting]))
        more = np.where(known, values - usual, 0.0) * exam.step
        bursts = runs((more >= LEAST_MESSAGE_BYTES) & (more >= (MESSAGE_RATIO - 1) * usual * exam.step))
        if _as_requests(exam, bursts, np.array([more[start:stop].sum() for start, stop in bursts])):
            found = max(found, len(bursts))
    return found


def _as_requests(exam: Examination, bursts: Sequence[tuple[int, int]], sizes: FloatArray) -> bool:
    """Whether bursts, as half-open ranges of steps, are many, short, of like size and at irregular times. Where their
    sizes are all 0, which is to say unknown, their lengths are taken.
    """
    if len(bursts) < LEAST_REQUESTS:
        return False
    lengths = np.array([stop - start for start, stop in bursts]) * exam.step
    gaps = np.array([after[0] - before[1] for before, after in pairwise(bursts)])
    if gaps.std() < IRREGULAR_VARIATION * gaps.mean():
        return False
    short = lengths <= LONGEST_REQUEST_SECONDS
    if short.mean() < SHORT_SHARE:
        return False
    if not sizes[short].mean() > 0:
        sizes = lengths  # utilization missed them, another signal saw them
    return bool(sizes[short].std() <= EQUAL_VARIATION * sizes[short].mean())


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
    if messages(exam):
        return f"it receives {messages(exam)} short messages of like size at irregular times, as requests come"
    if returns(exam) >= SEVERAL_PAUSES:
        return f"it has come back from {returns(exam)} pauses"
    return ""


__all__ = [
    "LEAST_REQUESTS",
    "TRAFFIC",
    "comes_back",
    "acts_as_service",
    "is_asked",
    "messages",
    "returns",
    "waits_for_work",
]
