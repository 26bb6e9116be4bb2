"""A launcher that needs ssh, on several nodes.

## What it flags

mpirun, horovodrun or deepspeed (without `--no_ssh`) in a job with several nodes. These start their processes on the
other nodes by ssh from one of them, but a DLJob's script runs in every pod, and there is neither an ssh server nor
a key.

## Why it costs GPU time

Each pod starts the launcher for itself. Told of other hosts, it fails or waits for a connection; told of none, it
trains the same model once a pod.

## When it stays silent

- one node;
- the script starts an ssh server, or only some ranks run the launcher: it then brings its own connections;
- `deepspeed --no_ssh`, whose launcher is started once a node as torchrun's is;
- commands that run only after a failure.

## Change

Start DeepSpeed's programs with torchrun, which the operator tells everything it needs: `torchrun train.py`; they run
under it unchanged. Programs of MPI and Horovod ask MPI for their rank: submit them as an MPIJob (Kubeflow's MPI
operator), or on one node.

## References

- Open MPI documentation, "Launching with SSH"; Horovod documentation, "Run Horovod"
- DeepSpeed documentation, "Launching without passwordless SSH" (`--no_ssh`)
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.launch.plan import Launch, Launcher
from stoker.lint.launch.reading import unread_options
from stoker.lint.submission import Submission

BY_SSH = frozenset({Launcher.MPIRUN, Launcher.HOROVODRUN, Launcher.DEEPSPEED})


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch that would need ssh."""
    plan = submission.plan
    if plan is None or submission.nodes < 2 or submission.gpus_per_node < 1:
        return
    if any(command.invocation.name in {"sshd", "ssh"} or command.tool == "sshd" for command in plan.commands):
        return
    for launch in plan.launches:
        options = {word.text for word in launch.invocation.argv}
        if (
            launch.launcher not in BY_SSH
            or launch.invocation.rank_dependent
            or launch.invocation.after_failure
            or options & {"--no_ssh", "--no-ssh"}
            or unread_options(launch)
        ):
            continue
        yield Problem(
            detail=f"{launch.launcher} reaches other nodes by ssh; here each of the {submission.nodes} pods would"
            " start it, and none runs an ssh server.",
            evidence=f"{submission.said_nodes}.",
            fix=_fix(submission, launch),
            confidence=Confidence.LIKELY,
            location=submission.locate(launch.invocation, launch.invocation.argv[:1]),
            sources=(Source.SCRIPT, Source.MANIFEST),
        )
        return


def _fix(submission: Submission, launch: Launch) -> str:
    """Another way to the other nodes: torchrun starts DeepSpeed's programs as they are, but not those of MPI."""
    if launch.launcher is Launcher.DEEPSPEED:
        reads = " (it reads PET_NNODES and PET_NPROC_PER_NODE, which Stoker sets)" if submission.injects_group else ""
        return f"Start the program with torchrun{reads}: it needs no ssh and runs DeepSpeed's programs unchanged."
    operator = "Submit it as an MPIJob, whose operator brings ssh and the list of hosts"
    return f"{operator}, or {submission.set_nodes(1)}."


RULE: Rule[Submission] = Rule(
    id="A105",
    name="ssh-launcher-across-nodes",
    category=Category.DUPLICATE_TRAINING,
    severity=Severity.WARNING,
    summary="A launcher that needs ssh is started in every pod of a job with several nodes.",
    fix="Start DeepSpeed's programs with torchrun; submit those of MPI as an MPIJob, or on one node.",
    check=check,
)
