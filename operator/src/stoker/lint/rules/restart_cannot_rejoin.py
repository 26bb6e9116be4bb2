"""A restarted pod cannot rejoin the others.

## What it flags

The rule flags `spec.maxRestarts` above 0 in a job with several nodes whose launcher has a fixed rendezvous
(torchrun's default, accelerate).

## Why it costs GPU time

If one pod fails and is started again, the others still wait in a collective operation of the old group, until NCCL's
watchdog ends them after ten minutes or more. The new pod waits for peers that never come. All GPUs are held
meanwhile, and the job fails after all.

## When it stays silent

- There are no restarts, which is the default with several nodes, or the job has one node.
- The rendezvous is elastic: `--rdzv_backend=c10d` or `etcd`, or a range of nodes (`--nnodes=1:4`).
- The launcher or its options cannot be read, or plain `python` starts the program, which may handle restarts.

## Change

Remove `maxRestarts` (pods that are lost to disruptions are replaced anyway), or make the rendezvous elastic.

## References

- PyTorch documentation, "torchrun (Elastic Launch)": elastic jobs and `--rdzv-backend`
- PyTorch documentation, "ProcessGroupNCCL Environment Variables": timeouts
"""

from collections.abc import Iterator

from stoker.findings.finding import Location, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import in_field
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.queries import counted, unread_options
from stoker.lint.submission import Submission

FIXED = frozenset({Launcher.TORCHRUN, Launcher.TORCH_DISTRIBUTED_LAUNCH, Launcher.ACCELERATE})
"""Launchers whose group is fixed at the start unless they are told otherwise."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report restarts in a job whose group of nodes is fixed."""
    plan, restarts = submission.plan, submission.max_restarts
    if plan is None or submission.nodes < 2 or restarts < 1 or submission.gpus_per_node < 1 or not plan.readable:
        return
    launches = [launch for launch in plan.launches if not launch.invocation.captured]
    if launches and all(_fixed(launch) for launch in launches):
        yield Problem(
            detail=f"{submission.paths.max_restarts} is {restarts}, but {launches[0].launcher} starts a fixed group of"
            f" {counted(submission.nodes, 'node')}, which a restarted node can't rejoin.",
            evidence=f"{submission.nodes_origin}; no elastic rendezvous is asked for.",
            confidence=Confidence.LIKELY,
            location=Location(field_path=submission.paths.max_restarts),
            sources=(Source.MANIFEST, Source.SCRIPT),
            change=in_field(submission.paths.max_restarts, None, safe=False),
        )


def _fixed(launch: Launch) -> bool:
    texts = [word.text for word in launch.invocation.argv]
    elastic = unread_options(launch) or any("rdzv_backend" in text or "rdzv-backend" in text for text in texts if text)
    variable = launch.invocation.environment.get("PET_RDZV_BACKEND")
    return launch.launcher in FIXED and launch.nodes.value is not None and not elastic and variable is None


RULE: Rule[Submission] = Rule(
    id="A108",
    name="restart-cannot-rejoin",
    category=Category.STALLED,
    severity=Severity.WARNING,
    summary="A restarted pod cannot rejoin the others: their group is fixed.",
    fix="Leave spec.maxRestarts out, or make the rendezvous elastic: torchrun --rdzv_backend=c10d"
    " --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT.",
    check=check,
)
