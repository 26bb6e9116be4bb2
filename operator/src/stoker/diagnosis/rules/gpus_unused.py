"""Some of the GPUs never work.

## What it flags

The rule flags GPUs that have been idle since the job started, with next to no memory in use, while either

- at least two other GPUs of the job work; or
- one GPU works for three programs or more, one after another: its memory is given back and taken again, as by the
  trials of a sweep.

## Why it costs GPU time

A GPU that no process uses is lost for the whole life of the job. Usually the launcher starts fewer processes than
there are GPUs. In the study's example four of eight GPUs worked at 83.24 % and the other four at 0 %, so the job had
a mean of 41.62 %.

## When it stays silent

- Less than fifteen minutes of work have been seen: ranks may start one after another.
- Any GPU has too few samples: a missing sample is not idle.
- The GPU worked earlier, for longer than a check of the devices takes: its rank has finished, or has lost its work.
- The GPU holds more than a tenth of its memory: part of a model may be there.
- The GPUs are MIG slices, or the job serves.
- Exactly one GPU works, for one program (see single-gpu-used).

## Change

Start one process for each GPU (`torchrun train.py` without a number does), or request only as many GPUs as the job
uses.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.idle_devices import idle_devices
from stoker.diagnosis.series.turns import LEAST_PROGRAMS, programs
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, percent


def check(exam: Examination) -> Iterator[Claim]:
    """Report the GPUs that never worked, beside those that do."""
    split = idle_devices(exam)
    if split is None:
        return
    one_by_one = programs(exam, split.working[0]) if len(split.working) == 1 else 0
    if len(split.working) < 2 and one_by_one < LEAST_PROGRAMS:
        return
    known, wanted = exam.facts.processes_per_node, exam.facts.gpus_per_node
    matches = known is not None and known * exam.facts.nodes == len(split.working)
    launch = f"; the launch starts {count(known or 0, 'process', 'processes')} on each node" if matches else ""
    explains = exam.explains(exam.life, split.idle)
    hours = exam.idle_hours(explains)
    since, until = exam.time(split.first), exam.until(split.last)
    yield Claim(
        detail=(f"{len(split.idle)} of {count(exam.facts.gpus, 'GPU')} have never worked; {gpu_hours(hours)} lost."),
        evidence=(
            f"{interval(since, until)}: {exam.names(split.idle)} at 0 %, "
            f"{exam.names(split.working)} at {percent(split.working_percent)}{launch}"
            + (f", for {count(one_by_one, 'program')} one after another" if one_by_one else "")
        ),
        fix=(
            "Run as many programs at the same time as the job has GPUs, each on its own, or request 1 GPU."
            if one_by_one
            else f"Start {count(wanted, 'process', 'processes')} on each node (torchrun --nproc_per_node={wanted}, "
            f"or a bare torchrun), or request {count(len(split.working), 'GPU')}."
        ),
        confidence=Confidence.CERTAIN if matches else Confidence.LIKELY,
        sources=(Source.METRICS, Source.SCRIPT) if matches else (Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="with fewer GPUs the job runs as it does now"),
        alternatives=() if matches else (Category.API_MISUSE,),
        explains=explains,
    )


RULE = Rule(
    id="D103",
    name="gpus-unused",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.WARNING,
    summary="Some GPUs have never worked while others do.",
    fix="Start one process for each GPU, or request fewer GPUs.",
    check=check,
)
