"""A launcher that needs ssh is used on several nodes.

## What it flags

The rule flags mpirun, horovodrun or deepspeed (without `--no_ssh`) in a job with several nodes. These launchers run
on one node and start processes on the others by ssh. But every pod of a DLJob runs the script, and the pods have
neither an ssh server nor a key.

## Why it costs GPU time

Each pod starts the launcher on its own. If other hosts are given, it fails or waits for a connection. If none are
given, every pod trains the same model.

## When it stays silent

- The job has one node.
- The script starts an ssh server, or only some ranks run the launcher: the job then has connections of its own.
- deepspeed has `--no_ssh` and is started once on each node, as torchrun is.
- The command runs only after a failure.

## Change

Start DeepSpeed programs with torchrun, which finds all it needs in the injected variables: `torchrun train.py`. The
programs need no change. Programs of MPI and Horovod ask MPI for their rank: submit them as an MPIJob (Kubeflow's MPI
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
from stoker.lint.launch.queries import unread_options
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
            evidence=f"{submission.nodes_origin}.",
            fix=_fix(submission, launch),
            confidence=Confidence.LIKELY,
            location=submission.locate(launch.invocation, launch.invocation.argv[:1]),
            sources=(Source.SCRIPT, Source.MANIFEST),
        )
        return


def _fix(submission: Submission, launch: Launch) -> str:
    """Another way to reach the other nodes: torchrun starts programs of DeepSpeed unchanged, but not those of MPI."""
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
