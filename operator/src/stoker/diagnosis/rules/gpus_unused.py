"""Some of the GPUs never work.

## What it flags

Two GPUs of the job or more work, and the others have been idle since it started, with next to no memory in use.

## Why it costs GPU time

A GPU that no process uses is lost for the whole life of the job. Usually the launcher starts fewer processes than
there are GPUs: in the study's example four of eight GPUs worked at 83.24 %, the other four at 0, so the job at 41.62
%.

## When it stays silent

- while fewer than fifteen minutes of work have been seen: ranks start one after the other;
- where any GPU has too few samples: what is missing is not idle;
- for a GPU that worked earlier for more than a check of the devices takes: its rank has finished, or lost its work;
- for a GPU that holds more than a tenth of its memory: part of a model may live there;
- with MIG slices and for serving jobs;
- when exactly one GPU works (see single-gpu-used).

## Change

Start one process for each GPU (a bare `torchrun train.py` does), or request as many GPUs as the job uses.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.idle_devices import idle_devices
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, percent


def check(exam: Examination) -> Iterator[Claim]:
    """Split the GPUs into those that work and those that never did."""
    split = idle_devices(exam)
    if split is None or len(split.working) < 2:
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
        ),
        fix=(
            f"Start {count(wanted, 'process', 'processes')} on each node (torchrun --nproc_per_node={wanted}, "
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
