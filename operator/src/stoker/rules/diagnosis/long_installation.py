"""The GPUs wait while libraries are installed.

## What it flags

No GPU has been used and none of their memory allocated for ten minutes or more since the job started, while its pods
compute, receive or write: the start-up script installs.

## Why it costs GPU time

All GPUs of the job are bound from its first second, and pip, conda or a copy of a folder of libraries use none of
them. The study's example copied such a folder for 16 minutes. The same happens again with each restart.

## When it stays silent

- under ten minutes, the study's bound;
- once GPU memory is allocated: the program has started;
- where the pods do nothing: waiting has another cause;
- where the CPUs are at their limit and nothing is received: that is preprocessing of data;
- where any GPU has too few samples, or its memory none.

A download of data or of a model looks alike. With a steady stream and little CPU time, or without series of the pods'
disks, the finding is only possible and names these alternatives; the start-up script decides.

## Change

Build an image that has the libraries, and use it as spec.image.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, Long Library Installation
"""

from collections.abc import Iterator

import numpy as np

from stoker.models.rule import Rule
from stoker.models.series import FloatArray, PodSignal
from stoker.models.vocabulary import Category, Confidence, JobType, Severity, Source, Stage
from stoker.subjects.examination import Claim, Examination
from stoker.subjects.grid import BoolArray
from stoker.subjects.wording import count, gpu_hours, interval, minutes

LEAST_SECONDS = 600.0
"""Ten minutes, the study's definition (ICSE 2024, section 4.4)."""
CONTEXT_MIB = 1024.0
"""A GPU that holds more than a CUDA context takes was in use before the first sample."""
WORKING_CORES = 0.2
WORKING_BYTES = 1e6
"""Cores and bytes/s a pod: a script that installs, copies or unpacks does at least so much."""
SATURATED_SHARE = 0.85
"""Of the CPU limit: pip and conda are single-threaded most of the time, preprocessing is not."""
STREAM_BYTES = 20e6
STREAM_CORES = 1.0
"""bytes/s received at less than a core: a download, of whatever it is."""


def check(exam: Examination) -> Iterator[Claim]:
    """Look at what the pods do before the GPUs are first touched."""
    start = exam.stage(Stage.INITIALIZATION)
    if exam.facts.job_type is JobType.SERVING or start is None or len(start) * exam.step < LEAST_SECONDS:
        return
    mask = exam.steps(start.first, start.last)
    if not exam.covered_idle(mask) or not all(_untouched(device.memory_mib, mask) for device in exam.devices):
        return
    judged = _judge(exam, mask)
    if judged is None:
        return
    confidence, alternatives, activity = judged
    explains = exam.explains(mask)
    since, until = exam.time(start.first), exam.until(start.last)
    gpus, its = count(exam.facts.gpus, "GPU"), "its" if exam.facts.gpus == 1 else "their"
    yield Claim(
        detail=(
            f"{gpus} idle for the first {minutes(len(start) * exam.step)}, before any of {its} memory was allocated; "
            f"{gpu_hours(exam.idle_hours(explains))} lost."
        ),
        evidence=f"{interval(since, until)}, {gpus}; meanwhile {activity}",
        confidence=confidence,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        alternatives=alternatives,
        explains=explains,
    )


def _untouched(memory: FloatArray, mask: BoolArray) -> bool:
    """The GPU's memory has samples, and none of it was in use."""
    return bool(np.isfinite(memory[mask]).any()) and float(np.nanmax(memory[mask])) <= CONTEXT_MIB


def _judge(exam: Examination, mask: BoolArray) -> tuple[Confidence, tuple[Category, ...], str] | None:
    """Confidence, what else it may be and what the pods did; None where they did nothing, or something else."""
    cpu, received = exam.pod_peak(PodSignal.CPU, mask), exam.pod_peak(PodSignal.NET_RX, mask)
    written = exam.pod_peak(PodSignal.DISK_WRITE, mask)
    working = (
        (cpu is not None and cpu >= WORKING_CORES)
        or (received is not None and received >= WORKING_BYTES)
        or (written is not None and written >= WORKING_BYTES)
    )
    if not working:
        return None
    limits = [pod.cpu_limit for pod in exam.facts.pods]
    saturated = cpu is not None and any(limit is not None and cpu >= SATURATED_SHARE * limit for limit in limits)
    if saturated and received is not None and received < WORKING_BYTES:
        return None
    activity = ", ".join(
        words
        for words in (
            None if cpu is None else f"CPU {cpu:.1f} cores",
            None if received is None else f"{received / 1e6:.0f} MB/s received",
            None if written is None else f"{written / 1e6:.0f} MB/s written",
        )
        if words
    )
    stream = received is not None and received >= STREAM_BYTES and (cpu is None or cpu < STREAM_CORES)
    if stream:
        return Confidence.POSSIBLE, (Category.EXTERNAL_DATA_USAGE, Category.REMOTE_DATA_READ), activity
    if cpu is None or cpu < WORKING_CORES or saturated or written is None or written < WORKING_BYTES:
        return Confidence.POSSIBLE, (Category.EXTERNAL_DATA_USAGE, Category.DATA_PREPROCESSING), activity
    return Confidence.LIKELY, (), activity


RULE = Rule(
    id="D401",
    name="long-installation",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The GPUs wait ten minutes or more while libraries are installed.",
    fix="Build an image with these libraries and set it as spec.image.",
    check=check,
)
