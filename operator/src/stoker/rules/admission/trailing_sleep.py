"""The job sleeps after its work.

## What it flags

A `sleep` of a minute or more in the foreground after the last command that works.

## Why it costs GPU time

The training is over, but the GPUs stay bound until the sleep ends. The study saw ten minutes on eight GPUs, meant
to give an upload time that was already done when the sleep began.

## When it stays silent

- the sleep is before the work, between two works, in a loop that retries or polls, or in a branch of some ranks;
- the work runs in the background and is not waited for: the sleep is its time limit;
- a duration that can't be resolved, or one under a minute;
- jobs without GPUs. Sleeps without end are `endless-tail`.

A sleep that follows only a failure (`train || sleep 3600`) is reported as well: the job has failed, and keeps its
GPUs.

## Change

Remove the sleep: the job ends when its last command does, and with its status.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job
"""

import math
from collections.abc import Iterator

from stoker.models.finding import Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Category, Confidence, Severity, Source
from stoker.subjects.editing import in_script, without_command
from stoker.subjects.launch_plan import Command, LaunchPlan, Role
from stoker.subjects.reading import Timeline, duration
from stoker.subjects.submission import Submission

TAIL_SECONDS = 60.0
"""Shorter sleeps are let pass: flushing logs takes some seconds."""

EXAMINED = 16
"""A script has one or two sleeps at its end; a script of thousands shall not cost seconds."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report each long sleep after the last work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    timeline = Timeline(plan)
    for sleep in plan.of(Role.SLEEP)[-EXAMINED:]:
        seconds = sleep.seconds
        if seconds is None or not TAIL_SECONDS <= seconds < math.inf or not _holds_the_shell(sleep):
            continue
        work = _last_work(plan, timeline, sleep)
        if work is None:
            continue
        hours = seconds * submission.gpus / 3600
        gpus = f"{submission.gpus} GPUs" if submission.gpus > 1 else "1 GPU"
        when = "after a failure" if sleep.invocation.after_failure else "after the last program"
        line = " ".join(str(word) for word in sleep.invocation.argv)
        certain = work.launch is not None and sleep.invocation.certain and plan.script.complete
        yield Problem(
            detail=f'"{line}" {when} keeps {gpus} for {duration(seconds)}, {_hours(hours)} GPU-hours.',
            evidence=f"Nothing that works follows it; before it runs {work.invocation.name or 'the program'}.",
            confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
            location=submission.locate(sleep.invocation, sleep.invocation.argv),
            sources=(Source.SCRIPT,),
            change=in_script(submission, [without_command(submission, sleep.invocation)], safe=certain),
        )


def _hours(hours: float) -> str:
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def _holds_the_shell(command: Command) -> bool:
    invocation = command.invocation
    return not (
        invocation.background
        or invocation.in_loop
        or invocation.captured
        or invocation.piped
        or invocation.rank_dependent
        or invocation.in_trap
    )


def _last_work(plan: LaunchPlan, timeline: Timeline, sleep: Command) -> Command | None:
    """The work that the sleep follows; None where none does, where more follows, or where it may still be running."""
    if timeline.followed(sleep):
        return None
    before, at = timeline.before(sleep), timeline.position(sleep)
    last_wait = max((place for place in map(timeline.position, plan.of(Role.WAIT)) if place < at), default=-1)
    if any(one.invocation.background and timeline.position(one) > last_wait for one in before):
        return None
    return before[-1] if before else None


RULE: Rule[Submission] = Rule(
    id="A501",
    name="trailing-sleep",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="The job sleeps after its last program.",
    fix="Remove the sleep: the job ends, and gives its GPUs back, when its last command ends.",
    check=check,
)
