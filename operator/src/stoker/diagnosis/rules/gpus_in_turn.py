"""The GPUs of a job work one after the other, never together.

## What it flags

The rule flags a job whose GPUs work in three turns or more, each of five minutes or more, while fewer of them work at
the same time than the job holds.

## Why it costs GPU time

A sweep or a script that starts one program after another, each on a GPU of its own, uses one GPU at a time. The others
wait for their turn, or have had it. The job takes as long as with one GPU, and holds all of them.

## When it stays silent

- GPUs work together for more than a twentieth of the time, all of them.
- A waiting GPU usually holds more than a tenth of its memory: parts of one program may work by turns, as in
  reinforcement learning.
- It is always the same GPU that works (see single-gpu-used and gpus-unused).
- The turns are shorter: stages of a pipeline follow one another like that.
- Any GPU has too few samples, the GPUs are MIG slices or shared, or the job serves.

Without samples of GPU memory the finding is only possible.

## Change

Run as many programs at the same time as the job has GPUs, each with its own CUDA_VISIBLE_DEVICES, or request as many
GPUs as work at the same time. A sweep's trials can be jobs of their own, with one GPU each.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.turns import turns
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval


def check(exam: Examination) -> Iterator[Claim]:
    """Report the time in which GPUs wait for their turn."""
    found = turns(exam)
    if found is None:
        return
    hours = exam.idle_hours(found.waiting)
    since, until = exam.span(exam.any_busy & exam.idle.any(axis=0))
    gpus = count(exam.facts.gpus, "GPU")
    unseen = "" if found.memory_known else "; no samples of GPU memory"
    yield Claim(
        detail=f"At most {found.at_once} of {gpus} work at the same time; {gpu_hours(hours)} lost on the others.",
        evidence=f"{interval(since, until)}: {exam.names(found.devices)} work in {found.number} turns{unseen}",
        fix=f"Run {exam.facts.gpus} programs at the same time, each on its own GPU, or request {found.at_once}.",
        confidence=Confidence.LIKELY if found.memory_known else Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="with fewer GPUs the job runs as it does now"),
        alternatives=(Category.API_MISUSE,),
        explains=found.waiting,
    )


RULE = Rule(
    id="D108",
    name="gpus-in-turn",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.WARNING,
    summary="The GPUs work one after the other, never together.",
    fix="Run as many programs at the same time as the job has GPUs, or request as many GPUs as work together.",
    check=check,
)
