"""The GPUs have been held for hours, nothing has ever used them, and the CPUs rest.

## What it flags

The rule flags a job that has run for two hours or more without any work on its GPUs, while its pods compute next to
nothing. It names the likelier of two causes. If the CPUs have worked for ten minutes or more before, a program has run
and ended, and its container stays: UnreleasedJob. If they have not, somebody is expected: InteractiveJob.

## Why it costs GPU time

All of the job's GPU time is lost. A script that does not show what it starts, such as one that waits for a file or a
connection, is held like this until somebody looks.

## When it stays silent

- A GPU has worked, or too few of its samples exist.
- A pod computes with half a core or more on average (`non-dl-on-gpus` and `gpu-never-used` tell of those), or works,
  sends, receives or writes lately.
- The pods have no CPU samples.
- The job serves, or is known to be interactive.
- The job has ended.

The finding is only possible, whatever the evidence: the job may wait for its data, or for its first request. It never
leads to a reclaim.

## Change

Let the script end when its program has ended. If somebody works in the pod, use the class for interactive jobs, which
is preemptible and stops when idle.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Interactive Job and
  Unreleased Job
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.requests import acts_as_service
from stoker.diagnosis.series.resting_processes import QUIET_CORES
from stoker.diagnosis.series.unused_gpus import BUSY_CORES
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import PodSignal

LEAST_SECONDS = 7200.0
"""Seconds. Chosen because installations, downloads and queues of other jobs are over by then."""
LATELY_SECONDS = 3600.0
"""Seconds at the end in which the pods must rest. Chosen because work by turns shows in an hour."""
QUIET_BYTES = 100e3
"""bytes/s of a pod. Chosen because probes, metrics and log lines stay below, and a transfer does not."""
PROGRAM_SECONDS = 600.0
"""Seconds of CPU work that make a program's run. Chosen because a shell's own start takes less."""
TRAFFIC = (PodSignal.NET_RX, PodSignal.NET_TX, PodSignal.DISK_READ, PodSignal.DISK_WRITE)


def check(exam: Examination) -> Iterator[Claim]:
    """Report a job for GPUs that has never used one and does nothing else either."""
    facts = exam.facts
    if acts_as_service(exam) or facts.job_type is JobType.INTERACTIVE or facts.interactive_entry:
        return
    if not exam.running or exam.life_seconds < LEAST_SECONDS or not exam.covered_idle(exam.life):
        return
    lately = exam.life & (exam.series.times > exam.series.times[-1] - LATELY_SECONDS)
    cores, resting = exam.pod_peak(PodSignal.CPU, exam.life), exam.pod_peak(PodSignal.CPU, lately)
    if cores is None or resting is None or cores >= BUSY_CORES or resting >= QUIET_CORES or _moves(exam, lately):
        return
    ran = _program_seconds(exam)
    category = Category.UNRELEASED_JOB if ran >= PROGRAM_SECONDS else Category.INTERACTIVE_JOB
    other = Category.INTERACTIVE_JOB if category is Category.UNRELEASED_JOB else Category.UNRELEASED_JOB
    before = f"the CPUs have worked for {minutes(ran)}, and rest" if ran >= PROGRAM_SECONDS else "no program has run"
    explains = exam.explains(exam.life)
    hours = exam.idle_hours(explains)
    since, until = exam.span(exam.life)
    yield Claim(
        detail=(
            f"{count(facts.gpus, 'GPU')} held for {minutes(exam.life_seconds)} and never used; {gpu_hours(hours)} lost."
        ),
        evidence=(
            f"{interval(since, until)}: 0 % on {exam.names(exam.devices)}, {before}; "
            f"at most {resting:.2f} CPU cores a pod in the last hour, no traffic"
        ),
        category=category,
        confidence=Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="nothing uses the GPUs"),
        alternatives=(other,),
        explains=explains,
        stays_possible=True,
    )


def _moves(exam: Examination, mask: BoolArray) -> bool:
    """Whether some pod sends, receives, reads or writes. Signals without samples do not count."""
    levels = (exam.pod_peak(signal, mask) for signal in TRAFFIC)
    return any(level is not None and level >= QUIET_BYTES for level in levels)


def _program_seconds(exam: Examination) -> float:
    """How long the CPUs of the pod that worked most have done so."""
    cpus = (pod.signals.get(PodSignal.CPU) for pod in exam.series.pods)
    return max(
        (float((np.nan_to_num(cpu) >= BUSY_CORES).sum()) * exam.step for cpu in cpus if cpu is not None), default=0
    )


RULE = Rule(
    id="D107",
    name="held-at-rest",
    category=Category.INTERACTIVE_JOB,
    severity=Severity.WARNING,
    summary="The GPUs have been held for hours, nothing has ever used them, and the CPUs rest.",
    fix="Let the script end when its program has ended; work by hand in the interactive class, which stops when idle.",
    check=check,
)
