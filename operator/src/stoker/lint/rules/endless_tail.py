"""The job never ends by itself.

## What it flags

The rule flags a command without end in the foreground after the work: `sleep infinity`, `tail -f`,
`while true; do sleep 60; done`, a Python program that only sleeps, or a loop that waits for a file
(`until [ -f /o/stop ]; do sleep 30; done`). It also flags a `wait` without arguments if one of the programs that it
waits for never ends: `tensorboard --logdir /o & python train.py & wait`.

## Why it costs GPU time

The training is over, but the job holds its GPUs until somebody notices it.

## When it stays silent

- The command runs in the background, under `timeout`, or in a branch of some ranks.
- The job serves: `jobType: Serving`, or an inference server among its commands.
- The job has several nodes, and its workers wait for their head.
- Everything that `wait` waits for ends, or is killed before.
- The job only waits (see `interactive-entry`), or has no GPUs.

## Change

Remove the command, or wait for the program instead: `train.sh & wait $!`. To follow a log beside the training, use
`tail --pid=$! -f train.log`. The shell cannot wait for a program in a terminal of its own (`tmux`, `screen`), started
by `setsid -f`, in the background of a subshell, or disowned: start it in the foreground.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Unreleased Job
- GNU coreutils manual, "tail": `--pid`
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.lint.fixes.propose import Cut, after_word, in_script, without_command, without_statement
from stoker.lint.launch.plan import Command, Launcher, LaunchPlan, Role
from stoker.lint.launch.queries import SERVERS, CommandOrder, counted
from stoker.lint.submission import Submission

LOOP = re.compile(
    r"\bwhile[ \t]+(?:true|:|\[ 1 \]|\[\[ 1 \]\])[ \t]*[;\n]\s*do\s+"
    r"(?P<body>sleep[^;&|\n]*)[;\n]\s*done\b(?!\s*[<>|&])"
)
"""A loop that does nothing but sleep."""

FILE_LOOP = re.compile(
    r"\b(?:until[ \t]+\[\[?|while[ \t]+(?:![ \t]+\[\[?|\[\[?[ \t]+!))[ \t]+-[efs][ \t]+[^\s;]+[ \t]+\]\]?"
    r"[ \t]*[;\n]\s*do\s+(?P<body>sleep[^;&|\n]*)[;\n]\s*done\b"
)
"""A loop that sleeps until a file is there."""

SERVICES = frozenset({"gradio", "http.server", "jupyter", "jupyter-lab", "jupyter-notebook", "mlflow", "streamlit"})
"""Servers that may fail to start, and then end."""

EXAMINED = 16
"""Commands that are examined. Chosen because a script has one or two endless ones, and a script with thousands must not
take seconds.
"""

FOREGROUND = "Start the program in the foreground instead: the job ends with it."
"""What to do where the shell can't wait: for another terminal or shell's program, or a disowned one."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first endless command that follows work."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or submission.job_type in {JobType.SERVING, JobType.INTERACTIVE}:
        return
    if any(launch.launcher in SERVERS or launch.launcher is Launcher.RAY for launch in plan.launches):
        return
    order = CommandOrder(plan)
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
        before = order.before(tail)
        if not before or (order.followed(tail) and not invocation.branches and not invocation.after_failure):
            continue
        launched = any(one.launch is not None for one in before)
        if not launched and (submission.nodes > 1 or any(one.invocation.background for one in before)):
            continue  # an unknown service may be the job's work
        line, _, more = " ".join(str(word) for word in invocation.argv).partition("\n")
        line = f"{line} ..." if more else line
        beside = [] if invocation.after_failure else order.beside(tail)
        can_wait = invocation.after_failure or order.can_wait(tail)
        program = before[-1].invocation.name or "the program"
        when = "after a failure" if invocation.after_failure else "after the last program"
        where = f"beside {beside[-1].invocation.name or 'the program'} in the background" if beside else when
        what = f'The endless loop around "{line}"' if invocation.loop_endless else f'"{line}"'
        if invocation.name == "wait":
            where = f"also waits for {tail.tool}, which"
        certain = launched and invocation.certain and plan.script.complete and tail.tool not in SERVICES
        yield Problem(
            detail=f"{what} {where} never ends: the job keeps {counted(submission.gpus, 'GPU')} until it is deleted.",
            evidence=f"It goes on when {program} has ended." if beside else f"It follows {program}.",
            fix=_fix(tail, beside, order) if can_wait else FOREGROUND,
            confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
            location=submission.locate(invocation, invocation.argv),
            sources=(Source.SCRIPT,),
            change=in_script(submission, [_cut(submission, tail, before)], safe=certain) if can_wait else None,
        )
        return
    yield from _awaited_file(submission, plan, order)


def _awaited_file(submission: Submission, plan: LaunchPlan, order: CommandOrder) -> Iterator[Problem]:
    """A loop at the end of the script that waits for a file which no program in the background may write."""
    for loop in FILE_LOOP.finditer(plan.script.source):
        for sleep in plan.of(Role.SLEEP)[-EXAMINED:]:
            invocation = sleep.invocation
            if invocation.span is None or invocation.background or invocation.captured or invocation.rank_dependent:
                continue
            inside = loop.start("body") <= plan.script.offsets(invocation.span)[0] < loop.end("body")
            before, later = order.before(sleep), plan.commands[order.position(sleep) + 1 :]
            if (
                not inside
                or submission.nodes > 1
                or not any(one.launch is not None for one in before)
                or any(one.invocation.background for one in plan.commands)
                or any(one.role is not Role.TRIVIAL for one in later)
            ):
                continue
            yield Problem(
                detail=f"The loop waits for a file after the last program: the job keeps"
                f" {counted(submission.gpus, 'GPU')} until the file exists.",
                evidence=f"It follows {before[-1].invocation.name or 'the program'}, and nothing runs beside it.",
                fix="Remove it: the job ends, and gives its GPUs back, when its last command ends.",
                confidence=Confidence.LIKELY,
                location=submission.locate(invocation, invocation.argv),
                sources=(Source.SCRIPT,),
            )
            return


def _fix(tail: Command, beside: list[Command], order: CommandOrder) -> str:
    name, words = tail.invocation.name, [word.text for word in tail.invocation.argv]
    if not beside:
        return "Remove it: the job ends, and gives its GPUs back, when its last command ends."
    if name == "wait":
        program = beside[-1].invocation.name or "the program"
        if len(beside) == 1 and order.last_started(tail) is beside[0]:
            return f"Wait for {program} alone: wait $!."
        return f"Wait for {program} alone: put PROGRAM=$! after its &, and wait $PROGRAM here."
    if name == "tail" and len(beside) == 1 and "/dev/null" not in words:
        return "Follow the log with tail --pid=$! -f, which ends with the program."
    return f"Put {'wait $!' if len(beside) == 1 else 'wait'} in its place: the job ends with the program."


def _cut(submission: Submission, tail: Command, before: list[Command]) -> Cut | None:
    """The script whose tail ends with the work in the background; without the tail if there is no such work."""
    script = submission.script
    assert script is not None
    background = [one for one in script.invocations if one.background]
    if any(one.name != "tee" and one not in [work.invocation for work in before] for one in background):
        return None  # waiting for a service has no end either
    one = len(background) == 1
    instead = ("wait $!" if one else "wait") if background else ""
    if not tail.invocation.loop_endless:
        cut, words = without_command(submission, tail.invocation, instead), tail.invocation.argv
        if cut is not None and one and words[0].text == "tail" and "/dev/null" not in [word.text for word in words]:
            return after_word(submission, words[0], "--pid=$!")
        return cut
    span = tail.invocation.span
    start, end = script.offsets(span) if span is not None else (0, 0)
    for loop in LOOP.finditer(script.source):
        if loop.start("body") <= start and end <= loop.end("body") and tail.invocation.argv[0].written(0, 1):
            if not instead:
                return without_statement(script.source, loop.start(), loop.end())
            return loop.start(), loop.end(), instead
    return None


RULE: Rule[Submission] = Rule(
    id="A502",
    name="endless-tail",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    summary="A command that never ends follows the work.",
    fix="Remove it, or wait for the program: train.sh & wait $!; a log is followed with tail --pid=$! -f.",
    check=check,
    drivers=True,
)
