"""The job waits for a person to use it.

## What it flags

The rule flags a job whose last command is interactive: Jupyter, an ssh server, code-server, a bare shell, IPython, or
a debugger that waits for a client. It also flags a job that runs nothing but `sleep infinity`, `tail -f /dev/null` or
a sleep of ten minutes or more, and an image of Jupyter whose own command, a notebook server, is not replaced.

## Why it costs GPU time

The GPUs are idle between two commands of the person, and all night. The study's example held four GPUs for 251.8
minutes at under 1 %.

## When it stays silent

- The job says `jobType: Interactive`. If the policy does not trust it, `job-type-untrusted` reports that.
- The job has several nodes of which some only serve the others: ssh servers and sleeps in branches of some ranks,
  Ray.
- The script cannot be read to its end, or runs unknown programs before it waits (see `endless-tail`).
- The job has no GPUs.

## Change

Set `spec.jobType: Interactive` where interactive jobs are allowed, or submit the script itself.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Interactive Job
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.lint.launch.plan import Command, LaunchPlan, Role
from stoker.lint.launch.queries import CommandOrder, counted, last, working
from stoker.lint.submission import Submission

NOTEBOOKS = re.compile(r"(?:^|/)jupyter/[a-z0-9-]+-notebook$")
"""Images whose own command is a notebook server."""

PLACEHOLDER_SECONDS = 600.0
"""Seconds of sleep from which a job that does nothing else waits for a person. Chosen because a test of the cluster
sleeps for less.
"""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the command that waits for a person."""
    plan = submission.plan
    if submission.gpus < 1 or submission.job_type is JobType.INTERACTIVE:
        return
    if plan is None:
        yield from _notebook_image(submission)
        return
    command = _entry(plan)
    if command is None or command.invocation.rank_dependent or command.invocation.after_failure:
        return
    if submission.nodes > 1 and (command.tool == "sshd" or command.role is not Role.INTERACTIVE):
        return  # a worker that waits for its head
    name = command.tool or command.invocation.name or "the command"
    if command.role is Role.INTERACTIVE:
        detail = f"{name} waits for a user: {counted(submission.gpus, 'GPU')} will be idle most of the time."
    else:
        line = " ".join(str(word) for word in command.invocation.argv)
        detail = f'The job only waits ("{line}"): it holds {counted(submission.gpus, "GPU")} for nothing.'
    yield Problem(
        detail=detail,
        evidence="The job ends with it." if working(plan) else "Nothing else in the job works.",
        confidence=Confidence.CERTAIN if command.invocation.certain and plan.script.complete else Confidence.LIKELY,
        fix=None if submission.paths.job_type else "Submit the script to run.",
        location=submission.locate(command.invocation),
        sources=(Source.SCRIPT,),
    )


def _notebook_image(submission: Submission) -> Iterator[Problem]:
    reference = submission.image.reference
    if reference is None or submission.argv or not NOTEBOOKS.search(f"{reference.registry}/{reference.repository}"):
        return
    yield Problem(
        detail=f"{submission.image.text} starts a notebook server, which waits for a user:"
        f" {counted(submission.gpus, 'GPU')} will be idle most of the time.",
        evidence="The job gives no command of its own.",
        confidence=Confidence.LIKELY,
        fix=None if submission.paths.job_type else "Submit the script to run.",
        location=submission.locate_image(),
        sources=(Source.MANIFEST,),
    )


def _entry(plan: LaunchPlan) -> Command | None:
    """The interactive or waiting command that the job ends with; None if the job does other work, or may."""
    work = working(plan)
    interactive = last(command for command in plan.of(Role.INTERACTIVE) if not command.invocation.captured)
    if interactive is not None:
        order = CommandOrder(plan)
        later = any(order.position(command) > order.position(interactive) for command in work)
        if not later and not (interactive.invocation.background and work):
            return interactive
        return None
    if work:
        return None
    waits = [
        command
        for command in plan.of(Role.ENDLESS, Role.SLEEP)
        if command.role is Role.ENDLESS or (command.seconds or 0) >= PLACEHOLDER_SECONDS
    ]
    return waits[-1] if waits and plan.script.complete else None


RULE: Rule[Submission] = Rule(
    id="A302",
    name="interactive-entry",
    category=Category.INTERACTIVE_JOB,
    severity=Severity.WARNING,
    summary="The job waits for a person to use it.",
    fix="Submit the script to run, or declare spec.jobType: Interactive where interactive jobs are allowed.",
    check=check,
    drivers=True,
)
