"""All GPUs idle since the work ended, and the job goes on.

## What it flags

A job whose GPUs worked for ten minutes at least and then stopped, all of them, while its processes stay alive and do
nothing else either: no CPU time to speak of, no traffic, no writing.

## Why it costs GPU time

The GPUs stay bound until the last process of the job ends. The usual reasons are a `sleep` after the training command
("until the upload is through"), a `tail -f` that keeps the container up, and a server or a lost worker that the
script waits for.

## When it stays silent

- while any GPU works, or any GPU of any pod has no samples: what is missing is not idle;
- while a pod computes, sends, receives or writes: a final evaluation on the CPUs or an upload is work;
- for interactive and serving jobs, whose rest is not their end;
- a pause of less than ten minutes.

Without series of the pods' CPUs it can't be told from work on the CPUs, and the finding is only possible.

## Change

Remove the sleep and let the job end with its last command. An upload that the job must wait for is best waited for
itself: run it in the foreground, or `wait` for its process.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job: ten extra
  minutes of sleep on eight GPUs
"""

from collections.abc import Iterator

import numpy as np

from stoker.models.rule import Rule
from stoker.models.series import PodSignal
from stoker.models.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.subjects.examination import Claim, Examination
from stoker.subjects.grid import BoolArray
from stoker.subjects.pattern import looks_interactive
from stoker.subjects.wording import clock, count, gpu_hours, interval, minutes

LEAST_TAIL_SECONDS = 600.0
"""Ten minutes, the study's own example (section 4.1); a pause for a checkpoint or a validation is shorter."""
LEAST_WORK_SECONDS = 600.0
"""Ten minutes of work before: less may have been a test, and the job yet to begin."""
QUIET_CORES = 0.1
"""A sleeping shell with its exporters and log shippers; a process that computes takes a core."""
QUIET_BYTES = 100e3
"""bytes/s a pod: probes, metrics and log lines stay below, an upload does not."""


def check(exam: Examination) -> Iterator[Claim]:
    """Look for a tail of idle steps behind enough work."""
    if exam.facts.job_type not in (JobType.TRAINING, JobType.EVALUATION) or looks_interactive(exam):
        return
    worked = np.flatnonzero(exam.any_busy)
    if not len(worked) or len(worked) * exam.step < LEAST_WORK_SECONDS:
        return
    first, last = int(worked[-1]) + 1, int(np.flatnonzero(exam.life)[-1]) + 1
    tail = exam.steps(first, last)
    if (last - first) * exam.step < LEAST_TAIL_SECONDS or not exam.covered_idle(tail):
        return
    cpu = exam.pod_peak(PodSignal.CPU, tail)
    if (cpu is not None and cpu >= QUIET_CORES) or _traffic(exam, tail):
        return
    explains = exam.explains(tail)
    since = exam.time(first)
    until = exam.until(last)
    number = exam.facts.gpus
    whole = {1: "The GPU", 2: "Both GPUs"}.get(number, f"All {number} GPUs")
    meanwhile = "no CPU samples" if cpu is None else f"at most {cpu:.2f} CPU cores a pod"
    quiet = ", no traffic" if exam.pod_peak(PodSignal.NET_TX, tail) is not None else ""
    yield Claim(
        detail=(
            f"{whole} idle {'since' if until is None else 'from'} {clock(since)}, {minutes(tail.sum() * exam.step)} "
            f"{'so far' if until is None else 'until the end'}; {gpu_hours(exam.idle_hours(explains))} lost."
        ),
        evidence=(
            f"{minutes(len(worked) * exam.step)} of work before; idle {interval(since, until)}, "
            f"{count(number, 'GPU')}, {meanwhile}{quiet}"
        ),
        confidence=Confidence.POSSIBLE if cpu is None else Confidence.LIKELY,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        explains=explains,
    )


def _traffic(exam: Examination, tail: BoolArray) -> bool:
    """Whether some pod sends, receives or writes; signals without samples say nothing."""
    levels = (
        exam.pod_peak(signal, tail)
        for signal in (PodSignal.NET_RX, PodSignal.NET_TX, PodSignal.DISK_READ, PodSignal.DISK_WRITE)
    )
    return any(level is not None and level >= QUIET_BYTES for level in levels)


RULE = Rule(
    id="D101",
    name="unreleased-job",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="All GPUs are idle since the work ended, and the job does not end.",
    fix="Let the job end with its last command: remove the sleep or the wait after it; wait for an upload itself.",
    check=check,
)
