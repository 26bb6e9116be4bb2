"""The launcher waits for other nodes than the job has.

## What it flags

A number of nodes given to the launcher that contradicts the job's: `torchrun --nnodes=4` or
`accelerate launch --num_machines 4` where `spec.nodes` is 2.

## Why it costs GPU time

A rendezvous of more nodes than there are waits until it times out, all GPUs bound and idle. With fewer, the nodes
beyond the number are refused and fail, or wait as well.

## When it stays silent

- a number that can't be resolved, or a range (`--nnodes=1:4`) that includes the job's nodes;
- a launcher told of one node on several: each pod may train for itself on purpose (see `duplicate-nodes`);
- commands that only some ranks run, or that stand in a branch that can't be decided: nodes may have different roles;
- commands that run only after a failure;
- pods whose number says nothing about the group: a Pod by itself, a Job whose pods can't find one another.

## Change

Make both the same number. The operator sets `PET_NNODES`: torchrun needs no `--nnodes` at all.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--nnodes`
- Hugging Face Accelerate documentation, "accelerate launch": `--num_machines`
"""

from collections.abc import Iterator

from stoker.models.finding import Change, Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.subjects.editing import renumbered, together
from stoker.subjects.launch_plan import CountSource, Launch, Launcher
from stoker.subjects.reading import counted, is_alone, origin_line, quoted, with_number
from stoker.subjects.submission import Submission

TELLING = frozenset(
    {Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE, Launcher.DEEPSPEED, Launcher.PADDLE}
)
"""Launchers that are told the number of nodes."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report each launch whose possible numbers of nodes leave out the job's."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.nodes_known:
        return
    for launch in plan.launches:
        told = launch.nodes
        if (
            launch.launcher not in TELLING
            or told.possible is None
            or submission.nodes in told.possible
            or told.maximum == 1
            or not quoted(told)
            or launch.standalone
            or not launch.invocation.certain
        ):
            continue
        changed = with_number(told, submission.nodes)
        asked = told.value if told.value is not None else max(told.possible)
        change = f"Change it to {changed}" if changed is not None else f"Make it {submission.nodes}"
        fewer = asked < submission.nodes
        line = origin_line(told)
        yield Problem(
            detail=f"{quoted(told)} {'makes a group of' if fewer else 'waits for'} {counted(asked, 'node')}, but"
            f" {submission.said_nodes}.",
            evidence=f"{'The others find the group complete' if fewer else 'The others never come'}"
            f"{f'; the number is from line {line}' if line else ''}.",
            fix=f"{change}, or {submission.set_nodes(asked)}.",
            confidence=submission.surely if told.value is not None and is_alone(plan, launch) else Confidence.LIKELY,
            location=submission.locate_count(launch, told),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=_change(submission, launch),
        )


def _change(submission: Submission, launch: Launch) -> Change | None:
    """The job's nodes, and with them the total of processes where one is given that was right for the others."""
    change, total = renumbered(submission, launch, launch.nodes, submission.nodes), launch.total
    given = total.source is not CountSource.DERIVED and total.words
    if not given or total.value != (launch.nodes.value or 0) * submission.gpus_per_node:
        return change
    return together(change, renumbered(submission, launch, total, submission.gpus))


RULE: Rule[Submission] = Rule(
    id="A104",
    name="launcher-nodes-mismatch",
    category=Category.API_MISUSE,
    severity=Severity.ERROR,
    summary="The launcher is told another number of nodes than the job has.",
    fix="Make the launcher's number of nodes that of the job, or leave it to the injected PET_NNODES.",
    check=check,
    action=Action.DENY,
)
