"""Whether a job's GPUs are used by a person rather than by a program."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import Examination
from stoker.diagnosis.series.stages import runs
from stoker.findings.vocabulary import JobType
from stoker.telemetry.series import FloatArray, JobSeries, PodSignal

INTERACTIVE_USE_PERCENT = 5.0
"""Life utilization under which a job may be interactive; the study's example has less than 1 % (ICSE 2024, section
4.1).
"""
LEAST_BURSTS = 3
"""Two pauses at least: one has no regularity."""
IRREGULAR_VARIATION = 1.0
"""Coefficient of variation from which a few pauses count as irregular."""
MANY_PAUSES = 6
"""Pauses from which the variation itself is known well enough for the lower bound."""
IRREGULAR_VARIATION_OF_MANY = 0.4
"""Coefficient of variation of the pauses. Independent events have 1, periodic work with its jitter 0.3 at most; of few
pauses only a large one means something.
"""
LEAST_PAUSE_SECONDS = 120.0
"""A shorter pause is one of a program, not of a person."""
SESSION_SHARE = 0.3
"""Between the first burst and the last a person uses the GPUs for less than a third of the time: thinking takes longer.
A training with pauses, abandoned later, does not.
"""
WORKING_CORES = 2.0
"""Cores of a pod that count as a program at work."""
WORKING_SHARE = 0.85
"""Two cores busy nearly throughout the pauses are a program's: it works on between its bursts."""
DAYS_SECONDS = 36 * 3600.0
"""Seconds of a job's life from which the hours of the clock are looked at: it holds a night in any time zone."""
DAYS_BURSTS = 8
"""Bursts from which an empty night is not chance."""
NIGHT_HOURS = 8
"""Hours of the clock that count as a night."""
NIGHT_SHARE = 0.1
"""Over days a person sleeps: some eight hours of the clock hold next to none of the bursts, in whatever time zone."""


WORKS_AT_CORES = 0.2
"""Mean of a step of 30 s over which a pod's CPUs do what somebody asked for: six seconds of one core. An idle
jupyter_server with three kernels takes 0.001.
"""


SILENCE_SECONDS = 600.0
"""A node's cAdvisor may miss some scrapes; for longer than this nobody knows what a pod's CPUs have done."""


def cpus_worked_at(series: JobSeries) -> float | None:
    """When the CPUs of some pod last did more than wait, in seconds since the epoch; None where no sample shows it."""
    busy = [
        float(series.times[cpu > WORKS_AT_CORES].max())
        for pod in series.pods
        if (cpu := pod.signals.get(PodSignal.CPU)) is not None and (cpu > WORKS_AT_CORES).any()
    ]
    return max(busy, default=None)


def cpus_unseen(series: JobSeries, pods: Iterable[str]) -> bool:
    """Whether the CPUs of one of the pods may have worked unseen, where CPUs are seen at all: it has no samples for
    longer than SILENCE_SECONDS.
    """
    cpus = {pod.pod: pod.signals[PodSignal.CPU] for pod in series.pods if PodSignal.CPU in pod.signals}
    if not any(np.isfinite(cpu).any() for cpu in cpus.values()):
        return False
    nothing = np.full(len(series.times), np.nan)
    silences = (runs(~np.isfinite(cpus.get(pod, nothing))) for pod in pods)
    return any((stop - start) * series.step > SILENCE_SECONDS for one in silences for start, stop in one)


def looks_interactive(exam: Examination) -> bool:
    """The job is a person's: by its entry, its type, or irregular bursts at very low use."""
    if exam.facts.interactive_entry or exam.facts.job_type is JobType.INTERACTIVE:
        return True
    return exam.bounds[1] < INTERACTIVE_USE_PERCENT and irregular_bursts(exam) > 0


def irregular_bursts(exam: Examination) -> int:
    """How many bursts of work a job has, where they come like a person's: at irregular times, with nothing going on
    between them, and with nights; 0 where they don't.
    """
    joined: list[tuple[int, int]] = []
    for first, last in exam.bursts:
        if joined and (first - joined[-1][1]) * exam.step < LEAST_PAUSE_SECONDS:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    if len(joined) < LEAST_BURSTS:
        return 0
    gaps = np.array([after[0] - before[1] for before, after in pairwise(joined)], dtype=np.float64)
    session = exam.any_busy[joined[0][0] : joined[-1][1]]
    if not _irregular(gaps) or session.mean() > SESSION_SHARE:
        return 0
    if _works_between(exam, joined) or not _sleeps(exam, np.array([first for first, _ in joined], dtype=np.float64)):
        return 0
    return len(joined)


def _irregular(gaps: FloatArray) -> bool:
    # Of few pauses the sample's own deviation, not the population's: that of two can't exceed their mean.
    least = IRREGULAR_VARIATION_OF_MANY if len(gaps) >= MANY_PAUSES else IRREGULAR_VARIATION
    return float(gaps.std(ddof=1) / gaps.mean()) > least


def _works_between(exam: Examination, bursts: list[tuple[int, int]]) -> bool:
    """Some pod computes nearly throughout the pauses; unknown is no."""
    pauses = exam.steps(bursts[0][1], bursts[-1][0]) & ~exam.any_busy
    for pod in exam.series.pods:
        cpu = pod.signals.get(PodSignal.CPU)
        known = np.empty(0) if cpu is None else cpu[pauses & np.isfinite(cpu)]
        if len(known) and float((known >= WORKING_CORES).mean()) >= WORKING_SHARE:
            return True
    return False


def _sleeps(exam: Examination, starts: FloatArray) -> bool:
    """Some eight hours of the clock hold next to none of the bursts; too few days or bursts don't contradict."""
    if exam.life_seconds < DAYS_SECONDS or len(starts) < DAYS_BURSTS:
        return True
    hours = (exam.series.times[starts.astype(np.int64)] / 3600).astype(np.int64) % 24
    counts = np.bincount(hours, minlength=24)
    nights = [np.roll(counts, -hour)[:NIGHT_HOURS].sum() for hour in range(24)]
    return bool(min(nights) <= NIGHT_SHARE * len(starts))
