"""The number of processes given to accelerate is that of one node instead of the total.

## What it flags

The rule flags `accelerate launch` on several nodes whose `--num_processes` is the number of GPUs of one node. The
number is the total of all machines: on two nodes of 8 GPUs, `--num_machines 2 --num_processes 8` starts 4 processes
on each. The rule also flags a launch without the number, because accelerate's default is the number of GPUs of one
node.

It denies if the launch is the only work of the job and each of its processes uses one GPU. Otherwise it warns. It
also warns if the number is left out: a default configuration file in the image may hold another number.

## Why it costs GPU time

Only as many GPUs work as one node has. The others are idle for the whole life of the job.

## When it stays silent

- The numbers come from a configuration file that is not in sight, or cannot be resolved.
- The configuration says `distributed_type: NO` (see `accelerate-config-no`).
- The number of machines is not that of the job (see `launcher-nodes-mismatch`), or is one (see `duplicate-nodes`).
- The program's arguments ask for model parallelism, a device map or rollouts: a process then uses several GPUs, or
  leaves some to others.
- Several commands run side by side, or the command runs only after a failure.
- The launch uses `--cpu`, or the GPUs are MIG slices or shared.

## Change

Give the total, which is nodes times GPUs of each: `--num_processes $((STOKER_NODES * STOKER_GPUS_PER_NODE))`.

## References

- Hugging Face Accelerate documentation, "accelerate launch": `--num_processes` is "the total number of processes to be
  launched in parallel"
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, GPU Oversubscription
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import Cut, after_word, in_script, renumbered
from stoker.lint.launch.plan import CountSource, Launch
from stoker.lint.launch.queries import (
    drives_several_devices,
    is_alone,
    is_given_devices,
    origin_line,
    quoted,
    side_by_side,
    totals_one_node,
    trains_several_models,
    with_number,
)
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first launch whose total is that of one node."""
    plan = submission.plan
    if plan is None or submission.gpus_per_node < 1 or not submission.counts_devices or side_by_side(plan):
        return
    for launch in plan.launches if submission.nodes_known else ():
        invocation = launch.invocation
        if (
            not totals_one_node(plan, launch)
            or drives_several_devices(launch)
            or launch.distributed_type == "NO"
            or invocation.after_failure
            or invocation.captured
            or any(word.text == "--cpu" for word in invocation.argv)
        ):
            continue
        total, line = launch.total, origin_line(launch.total)
        given = total.source is not CountSource.DEVICES
        gpus = f"{submission.gpus} GPUs ({submission.nodes} nodes of {submission.gpus_per_node})"
        started = "1 process" if total.value == 1 else f"{total.value} processes"
        subject = quoted(total) if given else "accelerate without --num_processes"
        changed = with_number(total, submission.gpus) if given else None
        own = is_given_devices(launch) or trains_several_models(launch)
        certain = given and launch.one_device_per_process and not own and is_alone(plan, launch)
        yield Problem(
            detail=f"{subject} starts {started} in all, on {gpus}.",
            evidence="The number is the total of all machines, not that of each"
            f"{'; its default is the GPUs of one' if not given else ''}"
            f"{f'; it is from line {line}' if line else ''}.",
            fix=f"Change it to {changed}." if changed else f"Give --num_processes {submission.gpus}.",
            confidence=submission.surely if certain else Confidence.LIKELY,
            location=submission.locate_count(launch, total if given else launch.nodes),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=None
            if submission.leaders
            else renumbered(submission, launch, total, submission.gpus)
            if given
            else in_script(submission, [_with_total(submission, launch)], safe=False),
        )
        return


def _with_total(submission: Submission, launch: Launch) -> Cut | None:
    named = next((word for word in launch.invocation.argv if word.text == "launch"), None)
    return None if named is None else after_word(submission, named, f"--num_processes {submission.gpus}")


RULE: Rule[Submission] = Rule(
    id="A109",
    name="accelerate-per-node-count",
    category=Category.GPU_OVERSUBSCRIPTION,
    severity=Severity.ERROR,
    summary="accelerate's total number of processes is that of one node.",
    fix="Give --num_processes the total of all nodes.",
    check=check,
    action=Action.DENY,
)
