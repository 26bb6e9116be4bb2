"""Whether a job's GPUs are used by a person rather than by a program."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import Examination, once
from stoker.diagnosis.series.requests import TRAFFIC, is_asked
from stoker.diagnosis.series.stages import runs
from stoker.findings.vocabulary import JobType
from stoker.telemetry.grid import BoolArray
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
FREQUENT_BURSTS = 10
"""Bursts of frequent use. Chosen because the spread of ten sizes and of nine pauses tells a person from a program."""
PAUSE_SPREAD = 0.5
"""Deviation of the pauses' natural logarithm: a person's differ by factors, validations and checkpoints by a third."""
WORK_SPREAD = 0.8
"""Deviation of the natural logarithm of the bursts' work. Chosen because what a person runs differs by factors of ten,
and what a program or a server does each time by less than two.
"""
MODEL_STEP = 0.1
"""Relative step between two sizes of memory in use that makes them two programs, or two states of one. A server's
memory varies by less.
"""
LEAST_MODELS = 2
"""Sizes of memory. Chosen because a server keeps one model."""
FREQUENT_SHARE = 0.4
"""Share of the time between the first burst and the last. Chosen because a program that waits for data or a store at
equal shares is above.
"""
THINKING_CORES = 0.25
"""Cores of a pod, the middle of its pauses: a kernel, an editor's server and a shell take less, a program that waits
for its data more.
"""
QUIET_BYTES = 100e3
"""bytes/s of a pod in three quarters of its pauses. Chosen because terminals, probes and log lines stay below."""
SETTLING_SECONDS = 60.0
"""Seconds at both ends of a pause in which the pods' rates may show the work beside it."""
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
    joined = _joined(exam)
    if len(joined) < LEAST_BURSTS:
        return 0
    gaps = np.array([after[0] - before[1] for before, after in pairwise(joined)], dtype=np.float64)
    session = exam.any_busy[joined[0][0] : joined[-1][1]]
    if not _irregular(gaps) or session.mean() > SESSION_SHARE:
        return 0
    if _works_between(exam, joined) or not _sleeps(exam, np.array([first for first, _ in joined], dtype=np.float64)):
        return 0
    return len(joined)


@once
def frequent_bursts(exam: Examination) -> int:
    """How many bursts of work a job has, where they come like those of a person who uses the GPUs often: of sizes and
    at intervals that differ by factors, with other models in memory, and with nothing going on between them; 0 where
    they don't, or the job is not low.
    """
    bursts = _joined(exam)
    if len(bursts) < FREQUENT_BURSTS or not exam.is_low or is_asked(exam):
        return 0
    pauses = np.array([after[0] - before[1] for before, after in pairwise(bursts)], dtype=np.float64)
    if np.log(pauses).std() < PAUSE_SPREAD or exam.any_busy[bursts[0][0] : bursts[-1][1]].mean() > FREQUENT_SHARE:
        return 0
    if _work_spread(exam, bursts) < WORK_SPREAD or _models(exam, bursts) < LEAST_MODELS:
        return 0
    if not _rests_between(exam, _pauses(exam, bursts)):
        return 0
    return len(bursts) if _sleeps(exam, np.array([first for first, _ in bursts], dtype=np.float64)) else 0


def _joined(exam: Examination) -> list[tuple[int, int]]:
    """The job's bursts, those joined that no pause of a person lies between."""
    joined: list[tuple[int, int]] = []
    for first, last in exam.bursts:
        if joined and (first - joined[-1][1]) * exam.step < LEAST_PAUSE_SECONDS:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _pauses(exam: Examination, bursts: list[tuple[int, int]]) -> BoolArray:
    """The steps between bursts, without those that may show the work beside them."""
    margin = int(SETTLING_SECONDS / exam.step)
    found = exam.steps(0, 0)
    for before, after in pairwise(bursts):
        found |= exam.steps(before[1] + margin, max(after[0] - margin, before[1]))
    return found


def _models(exam: Examination, bursts: list[tuple[int, int]]) -> int:
    """How many different sizes of memory some GPU has had in use in the bursts, after the first, in which it may be
    loading; 0 where memory is not sampled.
    """
    most = 0
    for device in exam.devices:
        parts = (device.memory_mib[first:last] for first, last in bursts[1:])
        sizes = np.sort([float(np.nanmedian(part)) for part in parts if np.isfinite(part).any()])
        if len(sizes):
            steps = np.diff(np.log(np.maximum(sizes, 1.0)))
            most = max(most, 1 + int((steps > MODEL_STEP).sum()))
    return most


def _work_spread(exam: Examination, bursts: list[tuple[int, int]]) -> float:
    """The deviation of the natural logarithm of what the GPUs do in each burst that they are seen to work in."""
    work = np.array([np.nansum(exam.use[:, first:last]) for first, last in bursts])
    return float(np.log(work[work > 0]).std()) if (work > 0).sum() >= FREQUENT_BURSTS else 0.0


def _rests_between(exam: Examination, pauses: BoolArray) -> bool:
    """Every pod rests in most of the pauses: its CPUs, and its network and disks where these are sampled."""
    seen = False
    for pod in exam.series.pods:
        for signal, most, part in ((PodSignal.CPU, THINKING_CORES, 50), *((one, QUIET_BYTES, 75) for one in TRAFFIC)):
            values = pod.signals.get(signal)
            known = np.empty(0) if values is None else values[pauses & np.isfinite(values)]
            if len(known) and float(np.percentile(known, part)) >= most:
                return False
            seen |= signal is PodSignal.CPU and len(known) > 0
    return seen


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
