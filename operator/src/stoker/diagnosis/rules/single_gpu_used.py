"""One GPU of several does all the work.

## What it flags

The rule flags a job in which exactly one GPU works, and all others have been idle since it started, with next to no
memory in use.

## Why it costs GPU time

A program that does not distribute its work runs on the first GPU that it sees. All other GPUs are lost for the whole
life of the job. In the study's example that was one of two.

## When it stays silent

- Less than fifteen minutes of work have been seen.
- Any GPU has too few samples: a missing sample is not idle.
- Another GPU worked earlier, for longer than a check of the devices takes, or holds more than a tenth of its memory.
- The GPUs are MIG slices, or the job serves.
- Two GPUs or more work, or three programs or more run one after another on the GPU (see gpus-unused).

## Change

Start one process for each GPU (`torchrun`, with DistributedDataParallel in the program), or request one GPU.
CUDA_VISIBLE_DEVICES only hides devices; it does not distribute work over them.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse, figure 6
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
    """Report a job in which one GPU works and all others never did."""
    split = idle_devices(exam)
    if split is None or len(split.working) != 1 or programs(exam, split.working[0]) >= LEAST_PROGRAMS:
        return
    explains = exam.explains(exam.life, split.idle)
    hours = exam.idle_hours(explains)
    since, until = exam.time(split.first), exam.until(split.last)
    yield Claim(
        detail=(
            f"Only 1 of {count(exam.facts.gpus, 'GPU')} has ever worked; "
            f"{gpu_hours(hours)} lost on the other{'s' if len(split.idle) > 1 else ''}."
        ),
        evidence=(
            f"{interval(since, until)}: {exam.names(split.working)} at {percent(split.working_percent)}, "
            f"{exam.names(split.idle)} at 0 %"
        ),
        confidence=Confidence.LIKELY,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="with one GPU the job runs as it does now"),
        alternatives=(Category.GPU_OVERSUBSCRIPTION,),
        explains=explains,
    )


RULE = Rule(
    id="D104",
    name="single-gpu-used",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="A single GPU does all the work of a job that holds several.",
    fix="Distribute the program over the GPUs (torchrun with DistributedDataParallel), or request 1 GPU.",
    check=check,
)
