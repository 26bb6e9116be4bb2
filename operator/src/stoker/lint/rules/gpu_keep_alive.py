"""A program only keeps the GPUs busy.

## What it flags

The rule flags a load test of GPUs that runs for an hour or more, or in a loop without end (`gpu_burn 86400`,
`while true; do gpu_burn 3600; done`), and a program whose name says that it holds GPUs: `keep_gpu_busy.py`,
`hold_gpus.py`, `gpu_occupier.py`.

## Why it costs GPU time

Such a program does no work. It keeps GPUs for later, or keeps their utilization up so that they are not taken back,
and nobody else can use them.

## When it stays silent

- A load test runs for less than an hour, as a check of the node before the training.
- The job has no GPUs.

## Change

End the job when its work is done, so that others get the GPUs. If GPUs must be at hand at a certain time, ask the
cluster's administrators for a reservation or a quota.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job
- gpu-burn, README: a test of GPUs under load, which takes its length in seconds
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.launch.names import words_of
from stoker.lint.launch.plan import Command
from stoker.lint.launch.queries import counted, duration, working
from stoker.lint.submission import Submission

LOAD_TESTS = frozenset({"gpu-burn", "gpu-fryer", "gpu_burn", "gpuburn"})
"""Programs that only load GPUs; their last number is the length in seconds."""
LONG_SECONDS = 3600
"""Seconds. A shorter load test is a check of the node; chosen because such checks take minutes."""
HELD = frozenset({"gpu", "gpus", "cuda"})
HOLDS = frozenset(
    {
        *("burner", "busy", "eater", "fake", "grab", "grabber", "hold", "holder", "holding", "keep", "keepalive"),
        *("keeper", "keeping", "occupier", "occupy", "occupying", "squat", "squatter", "waste", "waster"),
    }
)
"""Words of programs that hold GPUs, beside one of HELD."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first program that only keeps the GPUs busy."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    for command in working(plan):
        why = _load_test(command) or _holder(command)
        if why:
            yield Problem(
                detail=f"{_name(command)} only keeps {counted(submission.gpus, 'GPU')} busy.",
                evidence=why,
                confidence=Confidence.LIKELY,
                location=submission.locate(command.invocation, command.invocation.argv),
                sources=(Source.SCRIPT,),
            )
            return


def _load_test(command: Command) -> str:
    """How long a load test runs, if that is long; else ""."""
    invocation = command.invocation
    if (invocation.name or "").rpartition("/")[2] not in LOAD_TESTS:
        return ""
    if invocation.loop_endless:
        return "It is a load test, and here it runs in a loop without end."
    numbers = [int(word.text) for word in invocation.argv if word.text is not None and word.text.isdecimal()]
    if not numbers or numbers[-1] < LONG_SECONDS:
        return ""
    return f"It is a load test, and here it runs for {duration(numbers[-1])}."


def _holder(command: Command) -> str:
    """What a program's name says of it, if it says that it holds GPUs; else ""."""
    words = set(words_of(_name(command)))
    return "Its name says so." if words & HELD and words & HOLDS else ""


def _name(command: Command) -> str:
    """The program's name: that of a launch's program, or the command's own."""
    launch = command.launch
    if launch is not None and launch.program:
        return str(launch.program[-1]).rpartition("/")[2]
    return (command.invocation.name or "").rpartition("/")[2]


RULE: Rule[Submission] = Rule(
    id="A503",
    name="gpu-keep-alive",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="A program only keeps the GPUs busy.",
    fix="End the job when its work is done, so that others get the GPUs.",
    check=check,
)
