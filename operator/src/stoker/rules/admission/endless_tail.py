"""The job never ends by itself.

## What it flags

A command without end in the foreground after the work: `sleep infinity`, `tail -f`, `while true; do sleep 60;
done`.

## Why it costs GPU time

The training is over, but the job runs until somebody notices it.

## When it stays silent

- the command runs in the background, in a branch of some ranks, or under `timeout`;
- the job serves: `jobType: Serving`, or an inference server among its commands;
- several nodes whose workers wait for their head;
- `wait` after `&`, which ends with what it waits for;
- jobs that only wait (see `interactive-entry`), and jobs without GPUs.

## Change

Remove it, or wait for the program instead: `train.sh & wait $!`. To follow a log beside the training, use
`tail --pid=$! -f train.log`.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job
- GNU coreutils manual, "tail": `--pid`
"""

from collections.abc import Iterator

from stoker.models.finding import Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.subjects.launch_plan import Launcher, Role
from stoker.subjects.reading import SERVERS, Timeline, counted
from stoker.subjects.submission import Submission

EXAMINED = 16
"""A script has one or two endless commands; a script of thousands shall not cost seconds."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first endless command that follows work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or submission.job_type in {JobType.SERVING, JobType.INTERACTIVE}:
        return
    if any(launch.launcher in SERVERS or launch.launcher is Launcher.RAY for launch in plan.launches):
        return
    timeline = Timeline(plan)
    for tail in plan.of(Role.ENDLESS)[:EXAMINED]:
        invocation = tail.invocation
        if (
            invocation.background
            or invocation.captured
            or invocation.rank_dependent
            or invocation.time_limit is not None
            or (invocation.piped and not invocation.after_failure)
        ):
            continue
        before = timeline.before(tail)
        if not before or (timeline.followed(tail) and not invocation.branches and not invocation.after_failure):
            continue
        launched = any(one.launch is not None for one in before)
        if not launched and (submission.nodes > 1 or any(one.invocation.background for one in before)):
            continue  # an unknown service may be the job's work
        line = " ".join(str(word) for word in invocation.argv)
        when = "after a failure" if invocation.after_failure else "after the last program"
        what = f'The endless loop around "{line}"' if invocation.loop_endless else f'"{line}"'
        yield Problem(
            detail=f"{what} {when} never ends: the job keeps {counted(submission.gpus, 'GPU')} until it is deleted.",
            evidence=f"It follows {before[-1].invocation.name or 'the program'}.",
            confidence=Confidence.CERTAIN
            if launched and invocation.certain and plan.script.complete
            else Confidence.LIKELY,
            location=submission.locate(invocation, invocation.argv),
            sources=(Source.SCRIPT,),
        )
        return


RULE: Rule[Submission] = Rule(
    id="A502",
    name="endless-tail",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="A command without end follows the work.",
    fix="Remove it, or wait for the program: train.sh & wait $!; a log is followed with tail --pid=$! -f.",
    check=check,
)
