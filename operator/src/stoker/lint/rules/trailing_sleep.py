"""The job sleeps after its work.

## What it flags

The rule flags a `sleep` of a minute or more in the foreground after the last command that works. Other forms count,
too: `sleep 30m & wait $!`, `timeout 30m tail -f /dev/null`, `for i in $(seq 30); do sleep 60; done`, and a sleep that
an EXIT or ERR trap runs.

It also flags a sleep of an hour or more beside a training in the background, because the job ends with the sleep and
not with the training: `torchrun train.py & sleep 86400`. A sleep that follows only a failure (`train || sleep 3600`)
counts as well: the job has failed, and keeps its GPUs.

## Why it costs GPU time

The training is over, but the job holds its GPUs until the sleep ends. The study saw a sleep of ten minutes on eight
GPUs. It was meant to give an upload time, but the upload was already done when the sleep began.

## When it stays silent

- The sleep is before the work, between two works, in a loop that retries or polls, or in a branch of some ranks.
- The work runs in the background and is stopped after the sleep (`kill`), or the sleep is shorter than an hour: it is
  a time limit.
- The background holds a server, an unknown program, or Ray, whose jobs continue on their own; or the job is serving
  or interactive.
- The duration cannot be resolved, or is shorter than a minute.
- The sleep has no end (see `endless-tail`), or the job has no GPUs.

## Change

Remove the sleep: the job ends when its last command ends. For a program in the background use `wait $!`, which ends
with it; `timeout 24h torchrun train.py` limits its time.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job
"""

import math
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.lint.fixes.propose import in_script, without_command
from stoker.lint.launch.plan import Command, Launcher, LaunchPlan, Role
from stoker.lint.launch.queries import COUNTING_LAUNCHERS, SERVERS, CommandOrder, counted, duration
from stoker.lint.submission import Submission

LIMIT_SECONDS = 3600.0
"""Seconds. A shorter sleep beside a program in the background passes: chosen because it is then meant as a time limit.
"""

ENDING = COUNTING_LAUNCHERS | {Launcher.PYTHON, Launcher.LIGHTNING}
"""Launchers of programs that end by themselves."""

EXAMINED = 16
"""Sleeps that are examined, from the end. Chosen because a script has one or two there, and a script with thousands
must not take seconds.
"""


def check(submission: Submission, *, minimum_seconds: float) -> Iterator[Problem]:
    """Report each long sleep after the last work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    order = CommandOrder(plan)
    sleeps = plan.of(Role.SLEEP)[-EXAMINED:]
    for number, sleep in enumerate(sleeps, 1):
        seconds, repeated = sleep.seconds, sleep.invocation.in_loop
        if repeated:
            seconds = _total(plan, sleep)
            again = any(one.invocation.span == sleep.invocation.span for one in sleeps[number:])
            if again or any(work.invocation.in_loop for work in order.before(sleep)):
                continue
        if seconds is None or not minimum_seconds <= seconds < math.inf or not _holds_the_shell(sleep):
            continue
        if order.followed(sleep):
            continue
        if beside := order.beside(sleep):
            if seconds >= LIMIT_SECONDS and _is_training(submission, plan, order, sleep, beside):
                yield _time_limit(submission, sleep, seconds, beside, waits=order.can_wait(sleep))
            continue
        before = order.before(sleep)
        if not before or (before[-1].launch is not None and before[-1].launch.launcher is Launcher.RAY):
            continue  # jobs of Ray continue on their own
        work, hours = before[-1], seconds * submission.gpus / 3600
        gpus = f"{submission.gpus} GPUs" if submission.gpus > 1 else "1 GPU"
        when = "after a failure" if sleep.invocation.after_failure else "after the last program"
        line = " ".join(str(word) for word in sleep.invocation.argv)
        loop = " in a loop" if repeated else ""
        line = "wait $!" if sleep.invocation.name == "wait" else line
        certain = work.launch is not None and sleep.invocation.certain and plan.script.complete
        yield Problem(
            detail=f'"{line}"{loop} {when} keeps {gpus} for {duration(seconds)}, {_hours(hours)}.',
            evidence=f"Nothing that works follows it; before it runs {work.invocation.name or 'the program'}.",
            confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
            location=submission.locate(sleep.invocation, sleep.invocation.argv),
            sources=(Source.SCRIPT,),
            change=None
            if repeated or sleep.invocation.in_trap  # a loop needs a body, and a trap a command
            else in_script(submission, [without_command(submission, sleep.invocation)], safe=certain),
        )


def _total(plan: LaunchPlan, sleep: Command) -> float | None:
    """The seconds of all rounds of a sleep in loops over known lists; None where one is unknown."""
    rounds = [one for one in plan.of(Role.SLEEP) if one.invocation.span == sleep.invocation.span]
    if any(one.seconds is None or not one.invocation.rounds for one in rounds):
        return None
    return sum((one.seconds or 0) * one.invocation.rounds for one in rounds)


def _hours(hours: float) -> str:
    return "1 GPU-hour" if hours == 1 else f"{hours:.0f} GPU-hours" if hours >= 10 else f"{hours:.2g} GPU-hours"


def _holds_the_shell(command: Command) -> bool:
    invocation = command.invocation
    return not (
        invocation.background
        or (invocation.in_loop and not invocation.rounds)
        or invocation.captured
        or invocation.piped
        or invocation.rank_dependent
    )


def _is_training(
    submission: Submission, plan: LaunchPlan, order: CommandOrder, sleep: Command, beside: list[Command]
) -> bool:
    """Whether all that runs in the background is known to end, and nobody stops it after the sleep."""
    if submission.job_type in {JobType.SERVING, JobType.INTERACTIVE}:
        return False
    if any(launch.launcher in SERVERS or launch.launcher is Launcher.RAY for launch in plan.launches):
        return False
    later = plan.commands[order.position(sleep) + 1 :]
    stopped = any((command.invocation.name or "") in {"kill", "pkill", "killall"} for command in later)
    return not stopped and all(one.launch is not None and one.launch.launcher in ENDING for one in beside)


def _time_limit(
    submission: Submission, sleep: Command, seconds: float, beside: list[Command], *, waits: bool
) -> Problem:
    line = " ".join(str(word) for word in sleep.invocation.argv)
    program = beside[-1].invocation.name or "the program"
    instead = "wait $!" if len(beside) == 1 else "wait"
    return Problem(
        detail=f'"{line}" keeps {counted(submission.gpus, "GPU")} for {duration(seconds)},'
        f" however soon {program} in the background ends.",
        evidence="The job ends when the sleep does, and nothing waits for the program.",
        fix=f"{f'Put {instead} in its place' if waits else 'Start it in the foreground'};"
        f" timeout {duration(seconds).replace(' ', '').replace('min', 'm')} {program} limits the time.",
        confidence=Confidence.LIKELY,
        location=submission.locate(sleep.invocation, sleep.invocation.argv),
        sources=(Source.SCRIPT,),
        change=in_script(submission, [without_command(submission, sleep.invocation, instead)], safe=False)
        if waits
        else None,
    )


RULE: Rule[Submission] = Rule(
    id="A501",
    name="trailing-sleep",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="The job sleeps after its last program.",
    fix="Remove the sleep: the job ends, and gives its GPUs back, when its last command ends.",
    check=check,
    drivers=True,
    parameters=(
        Parameter(
            name="minimumSeconds",
            default=60,
            description="The shortest sleep that is reported, in seconds: flushing logs takes some.",
            maximum=86_400,
        ),
    ),
)
