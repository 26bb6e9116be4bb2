"""Whether a job has never used any of its GPUs."""

from dataclasses import dataclass

import numpy as np

from stoker.diagnosis.series.examination import ALLOCATED_MIB, Claim, Examination, once
from stoker.diagnosis.series.idle_devices import TOUCHED_SECONDS
from stoker.diagnosis.series.requests import acts_as_service
from stoker.diagnosis.series.startup import CONTEXT_MIB
from stoker.findings.finding import Recoverable
from stoker.findings.vocabulary import Category, Confidence, Framework, JobType, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.series import PodSignal

LEAST_RUNNING_SECONDS = 3600.0
"""An hour: a job that still runs may yet be at its start."""
LEAST_LIFE_SECONDS = 600.0
"""Ten minutes: a job that has ended will not use them any more, and a shorter one was a try."""
RESERVING = (Framework.TENSORFLOW, Framework.JAX)
"""Frameworks that take most of the memory when they find a GPU, whether they use it or not."""
BUSY_CORES = 0.5
"""Cores a pod over the job's whole life: it computes, and does not wait for somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A job that has never used a GPU, though its pods compute.

    cores: what the busiest pod computes with, None where unknown. context: memory of some GPU has risen as for a CUDA
    context; None where nothing is known of the GPUs' memory. touched: seconds in which some GPU was at work, as by a
    check of the devices.
    """

    cores: float | None
    context: bool | None
    touched: float


@once
def never_used(exam: Examination) -> Unused | None:
    """Judge a job's whole life; None for one that has used a GPU or holds a model in its memory, may yet do so, does
    nothing at all, waits for a person, or can't be judged. A minute of work at most in an hour or more is a check of
    the devices, or a runtime's own start.
    """
    facts = exam.facts
    if acts_as_service(exam) or facts.job_type is JobType.INTERACTIVE or facts.interactive_entry:
        return None
    least = LEAST_RUNNING_SECONDS if exam.running else LEAST_LIFE_SECONDS
    if exam.life_seconds < least or not exam.covered:
        return None
    touched = float(exam.any_busy.sum()) * exam.step
    most = TOUCHED_SECONDS if exam.life_seconds >= LEAST_RUNNING_SECONDS else 0.0
    if touched > most or (exam.any_busy & exam.lately).any():  # it may go on
        return None
    cores = exam.pod_peak(PodSignal.CPU, exam.life)
    if cores is not None and cores < BUSY_CORES:
        return None
    memory = [device.memory_mib[np.isfinite(device.memory_mib)] for device in exam.devices]
    if not all(len(known) for known in memory):
        return Unused(cores=cores, context=None, touched=touched)
    if facts.framework not in RESERVING and any(float(known.max()) > CONTEXT_MIB for known in memory):
        return None
    risen = any(float(known.max() - known.min()) >= ALLOCATED_MIB for known in memory)
    return Unused(cores=cores, context=risen, touched=touched)


def unused_claim(
    exam: Examination,
    unused: Unused,
    *,
    though: str = "",
    memory: str = "",
    confidence: Confidence,
    sources: tuple[Source, ...],
    other: Category,
) -> Claim:
    """The claim on such a job's whole life.

    `though` and `memory` are clauses of the detail and of the evidence; `other` is the cause that it may be instead.
    """
    explains = exam.explains(exam.life)
    hours = exam.idle_hours(explains)
    since, until = exam.time(exam.stages[0].first), exam.until(exam.stages[-1].last)
    cpu = "no samples of the CPUs" if unused.cores is None else f"{unused.cores:.1f} CPU cores busy"
    otherwise = " otherwise" if unused.touched else ""
    used = f"used for {minutes(unused.touched)} of" if unused.touched else "never used in"
    return Claim(
        detail=(
            f"{count(exam.facts.gpus, 'GPU')} {used} {minutes(exam.life_seconds)}{though}; {gpu_hours(hours)} lost."
        ),
        evidence=f"{interval(since, until)}: 0 % on {exam.names(exam.devices)}{otherwise}{memory}, {cpu}",
        confidence=confidence,
        sources=sources,
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="without GPUs the job runs as it does now"),
        alternatives=(other, Category.DATA_PREPROCESSING) if exam.running else (other,),
        explains=explains,
    )
