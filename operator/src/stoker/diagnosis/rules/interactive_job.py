"""The GPUs are held for a person who hardly uses them.

## What it flags

The rule flags a job that

- uses less than 5 % of its GPUs over its life, in at least three bursts at irregular times. The lengths of the pauses
  must differ by more than their mean (from six pauses on, by more than 0.4 of it), and the use must be low even
  between the first and the last burst; or
- uses up to half of its GPUs (the policy's bound for a low job), in ten bursts or more whose work and whose pauses
  differ by factors. The pods rest in most of the pauses, and the GPUs' memory is not the same in all bursts; or
- has an interactive program as its last command, or was submitted as an interactive job, and has a mean utilization
  up to the policy's bound for a low job.

## Why it costs GPU time

The GPUs wait for a person between two cells of a notebook or two runs in a debugger. The study's example held four
GPUs for 251.8 minutes and used less than 1 % of them.

## When it stays silent

- The work is regular, however rare: a job that evaluates once an hour is a program.
- Two cores stay busy between the bursts: a program works there.
- The work goes on for days without a nightly pause.
- The job has run for less than half an hour.
- Any GPU has too few samples, or the job serves.
- The work comes in twenty or more short bursts of like size, as requests to a server do, and no interactive program is
  known: such a job rests at night as well.
- There are fewer than three bursts and no interactive program: too few to call them irregular.

The finding is only possible

- without CPU samples of the pods and without an interactive program;
- for frequent use without an interactive program: a worker that takes tasks of all kinds from a queue looks the same.
  If the pods mount storage whose traffic is the node's, they may wait for it, and RemoteDataRead is the alternative;
- for twenty bursts or more without an interactive program, where the interval means of profiling are not sampled: the
  bursts' sizes may be alike, as those of requests are;
- while a pod waits for its disks or mounts, and where the traffic cannot be seen (`hostNetwork`, no network samples,
  mounted storage), unless the CPUs have stayed at 0.02 cores or less for the last hour without work.

## Change

Run notebooks in the class for interactive jobs, which is preemptible and stops when idle, or submit the notebook's
code as a script.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Interactive Job
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.person import INTERACTIVE_USE_PERCENT, frequent_bursts, irregular_bursts
from stoker.diagnosis.series.requests import LEAST_REQUESTS, acts_as_service, is_asked
from stoker.diagnosis.series.unseen_traffic import cpus_rest, is_hidden, waits_for_io
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes, percent
from stoker.telemetry.series import GpuSignal, PodSignal

SETTLING_SECONDS = 120.0
"""Seconds after the work in which the pods' rates still show it: Prometheus computes them over one or two minutes."""
TRANSFER_SECONDS = 3600.0
"""Seconds after which a transfer of a person's session counts as finished. Chosen because copies of a session are
shorter.
"""
LEAST_LIFE_SECONDS = 1800.0
"""Seconds of the job's life. Chosen as the policy's default startupGrace: before, installing and loading look the same.
"""


def check(exam: Examination) -> Iterator[Claim]:
    """Report very low and irregular use, or low use by an interactive program."""
    if acts_as_service(exam) or exam.life_seconds < LEAST_LIFE_SECONDS or not exam.covered:
        return
    declared = exam.facts.interactive_entry or exam.facts.job_type is JobType.INTERACTIVE
    hardly = exam.bounds[1] < INTERACTIVE_USE_PERCENT
    bursts = irregular_bursts(exam) if hardly else frequent_bursts(exam)
    if not bursts and not (declared and exam.is_low):
        return
    if not declared and is_asked(exam):
        return
    cpu_seen = exam.pod_peak(PodSignal.CPU, exam.life) is not None
    seen = declared or (cpu_seen and hardly and (bursts < LEAST_REQUESTS or _measured(exam)))
    explains = exam.explains(exam.life)
    span = [boundary for stage in exam.stages for boundary in (stage.first, stage.last)]
    since, until = exam.time(span[0]), exam.until(span[-1])
    use = exam.bounds[0] if exam.average is None else exam.average
    unseen = "; a slow upload can't be ruled out" if _may_transfer(exam) else ""
    pattern = (
        f"{count(bursts, 'burst')} of work{'' if hardly else ' of unlike sizes'} at irregular times"
        if bursts
        else "an interactive program as the job's last command"
        if exam.facts.interactive_entry
        else "submitted as an interactive job"
    )
    yield Claim(
        detail=(
            f"{percent(use)} of {count(exam.facts.gpus, 'GPU')} used over {minutes(exam.life_seconds)}; "
            f"{gpu_hours(exam.idle_hours(explains))} idle."
        ),
        evidence=f"{interval(since, until)}; {pattern}{unseen}",
        severity=Severity.ADVICE if exam.facts.job_type is JobType.INTERACTIVE else None,
        confidence=Confidence.LIKELY if seen and not unseen else Confidence.POSSIBLE,
        sources=(Source.METRICS, Source.MANIFEST) if declared else (Source.METRICS,),
        since=since,
        until=until,
        alternatives=() if hardly or declared or not is_hidden(exam, exam.life) else (Category.REMOTE_DATA_READ,),
        explains=explains,
    )


def _measured(exam: Examination) -> bool:
    """Whether the bursts' sizes are known: a look at the utilization now and then misses short work."""
    return all(device.signal(GpuSignal.GRAPHICS) is not None for device in exam.devices)


def _may_transfer(exam: Examination) -> bool:
    """Whether the job may have sent or written something lately, without a GPU at work, that no series shows."""
    last = np.flatnonzero(exam.life)[-1] + 1
    worked = np.flatnonzero(exam.any_busy)
    settled = int(worked[-1]) + 1 + int(SETTLING_SECONDS / exam.step) if len(worked) else 0
    pause = exam.steps(max(settled, last - int(TRANSFER_SECONDS / exam.step)), last)
    return bool(pause.any()) and (waits_for_io(exam, pause) or (is_hidden(exam, pause) and not cpus_rest(exam, pause)))


RULE = Rule(
    id="D102",
    name="interactive-job",
    category=Category.INTERACTIVE_JOB,
    severity=Severity.WARNING,
    summary="The GPUs are held for a person who hardly uses them.",
    fix="Use the interactive class (preemptible, stops when idle), or submit the finished script as a job.",
    check=check,
)
