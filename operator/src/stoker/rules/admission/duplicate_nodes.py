"""Every node trains the same model for itself.

## What it flags

A launcher on several nodes that is told of one node only: `torchrun --standalone`, `torchrun
--nnodes=1`, `accelerate launch` without `--num_machines`. A frequent cause is a variable of another platform,
`--nnodes=${WORLD_SIZE:-1}`, that nobody sets here.

## Why it costs GPU time

Each pod trains the whole model from the start, with the same data in the same order: n nodes for the result of one.

## When it stays silent

- the command or its arguments depend on the rank, or on anything that can't be resolved: a sweep or a sharded
  inference;
- programs named after evaluation, inference, sweeps, tuning or serving, and jobs of these types;
- a hosts file, a configuration file that can't be seen, plain `python` (the program may connect by
  itself);
- commands that run only after a failure.

## Change

Leave the number of nodes out: `torchrun train.py` reads `PET_NNODES` and the rendezvous from the injected
variables.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": `--standalone`, `--nnodes`
- Hugging Face Accelerate documentation, "Launching your Accelerate scripts": several machines
"""

import re
from collections.abc import Iterator

from stoker.models.finding import Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.subjects.launch_plan import Launch, Launcher
from stoker.subjects.reading import quoted, side_by_side, texts
from stoker.subjects.submission import Submission

SINGLE_NODE = frozenset({Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE})
"""Launchers that train on one node when they are not told of more."""

INDEPENDENT = re.compile(
    r"infer|generat|predict|eval|test|sweep|tune|search|agent|serve|server|embed|extract|preprocess|shard|rank|bench",
    re.IGNORECASE,
)
"""Words in a program's name or arguments of work that pods do independently of one another."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch that trains on each node alone."""
    plan = submission.plan
    if plan is None or submission.nodes < 2 or submission.gpus_per_node < 1 or side_by_side(plan):
        return
    if (
        submission.job_type in {JobType.EVALUATION, JobType.SERVING}
        or submission.environment.get("MASTER_ADDR") is None
    ):
        return
    for launch in plan.launches:
        if not _alone(launch):
            continue
        subject = "--standalone" if launch.standalone else quoted(launch.nodes)
        why = (
            f"{subject} makes {launch.launcher} train"
            if subject
            else f"{launch.launcher} without --num_machines trains"
        )
        yield Problem(
            detail=f"{why} on one node only, in each of the {submission.nodes} pods anew.",
            evidence=f"{submission.paths.nodes} is {submission.nodes}.",
            fix=_fix(submission, launch),
            confidence=Confidence.LIKELY,
            location=submission.locate_count(launch, launch.nodes),
            sources=(Source.SCRIPT, Source.MANIFEST),
        )
        return


def _alone(launch: Launch) -> bool:
    """Whether the launch knows of one node only, and nothing says that its pods have different work."""
    words = (*launch.program, *launch.arguments)
    return (
        launch.launcher in SINGLE_NODE
        and (launch.standalone or launch.nodes.value == 1)
        and not launch.hostfile
        and launch.configuration is None
        and not launch.invocation.rank_dependent
        and not launch.invocation.after_failure
        and all(word.text is not None for word in launch.invocation.argv)
        and not any(INDEPENDENT.search(text) for text in texts(launch))
        and bool(words)
    )


def _fix(submission: Submission, launch: Launch) -> str:
    if launch.launcher is Launcher.ACCELERATE:
        return (
            f"Start it with torchrun, or add --num_machines {submission.nodes} --num_processes {submission.gpus}"
            " --machine_rank $STOKER_NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT."
        )
    option = "--standalone" if launch.standalone else quoted(launch.nodes).strip('"') or "--nnodes"
    return (
        f"Leave {option} out: torchrun reads the {submission.nodes} nodes from PET_NNODES;"
        f" or set {submission.paths.nodes}: 1."
    )


RULE: Rule[Submission] = Rule(
    id="A106",
    name="duplicate-nodes",
    category=Category.DUPLICATE_TRAINING,
    severity=Severity.WARNING,
    summary="Each node trains the same model for itself.",
    fix="Leave the number of nodes to the injected variables: torchrun train.py.",
    check=check,
)
