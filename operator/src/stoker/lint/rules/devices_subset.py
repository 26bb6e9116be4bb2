"""Some of the GPUs are hidden from every program of the job.

## What it flags

The rule flags a `CUDA_VISIBLE_DEVICES` with fewer GPUs than the pod has, for everything that the job starts:
`CUDA_VISIBLE_DEVICES=0,1 python train.py` on 8 GPUs. If programs get different GPUs, it counts all of them together.

## Why it costs GPU time

A GPU that no program sees is idle for the whole life of the job, and no other job may use it.

## When it stays silent

- A program sees all GPUs, or all programs together do, for instance one process for each GPU in a loop.
- The value cannot be resolved, or holds GPU or MIG identifiers instead of indices.
- A command cannot be read, or a program is not known: it may use the rest.
- A launcher is given its number of processes (see `launcher-too-few` and `launcher-too-many`), or deepspeed chooses
  GPUs itself (`--include`, `--num_gpus`) and sets the variable anew.
- The variable is ROCm's `HIP_VISIBLE_DEVICES` and the GPUs are NVIDIA's.
- No GPU at all is visible (see `devices-hidden`), the pod has one GPU, or the GPUs are MIG slices or shared.

## Change

Remove the variable: the container sees exactly the GPUs that it was given. Or request only as many GPUs as the job
uses.

## References

- NVIDIA CUDA C++ Programming Guide, "CUDA Environment Variables": entries after an invalid index are ignored
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

from collections.abc import Iterator
from itertools import takewhile

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.fixes.propose import renumbered, together, without_variable
from stoker.lint.launch.plan import Command, CountSource, Launch, Launcher, Role
from stoker.lint.launch.queries import (
    COUNTING_LAUNCHERS,
    counted,
    devices_from,
    given_count,
    reads_devices,
    side_by_side,
    with_number,
    working,
)
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the variable if all launches together see only some of the GPUs."""
    gpus, plan = submission.gpus_per_node, submission.plan
    if plan is None or gpus < 2 or not submission.counts_devices or not plan.readable:
        return
    launches = [launch for launch in plan.launches if not launch.invocation.captured]
    if any(_may_use_any(command) for command in working(plan)):
        return
    if any(_is_told(launch) for launch in launches) and not side_by_side(plan):
        return
    seen: set[int] = set()
    for launch in launches:
        visible = _visible(launch, gpus) if reads_devices(launch, submission.gpu_resource) else None
        if visible is None:
            return
        seen |= visible
    if not 0 < len(seen) < gpus:
        return
    chosen = [launch for launch in launches if _visible(launch, gpus)]
    words = [launch.devices.word for launch in chosen if launch.devices is not None]
    values, name = {word.text for word in words}, devices_from(chosen[0])
    subject = f"{name}={words[0]} hides" if len(values) == 1 else f"All values of {name} together hide"
    each = " of each node" if submission.nodes > 1 else ""
    idle = gpus - len(seen)
    change, removed = without_variable(submission, name, words, safe=False), f"Remove {name}"
    if _is_numbered(chosen, len(seen)):
        number = chosen[0].processes_per_node
        removed += f" and set {with_number(number, gpus) or f'NPROC_PER_NODE={gpus}'}"
        change = together(change, renumbered(submission, chosen[0], number, gpus))
    certain = all(launch.invocation.certain for launch in chosen)
    yield Problem(
        detail=f"{subject} {idle} of the {gpus} GPUs{each} from everything that runs.",
        evidence=f"{counted(len(seen), 'GPU')} will be used; {submission.paths.gpus_per_node} is {gpus}.",
        fix=f"{removed if len(values) == 1 else 'Give the others to more programs'},"
        f" or set {submission.paths.gpus_per_node}: {len(seen)}.",
        confidence=submission.surely if certain else Confidence.LIKELY,
        location=submission.locate_setting(chosen[0].invocation, name, words[0]),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=change if len(values) == 1 and not side_by_side(plan) else None,
    )


def _visible(launch: Launch, gpus: int) -> set[int] | None:
    """The GPUs that a launch sees; None where that is unknown, or all."""
    devices = launch.devices
    if devices is None or devices.indices is None or devices.identifiers:
        return None
    if launch.launcher is Launcher.DEEPSPEED and launch.explicit:
        return None
    return set(takewhile(lambda index: index < gpus, devices.indices))


def _is_numbered(launches: list[Launch], seen: int) -> bool:
    """Whether swift is given one process for each visible GPU: with more GPUs each process would use several."""
    return (
        len(launches) == 1 and launches[0].launcher is Launcher.SWIFT and launches[0].processes_per_node.value == seen
    )


def _may_use_any(command: Command) -> bool:
    """Whether a command that is no launch may use GPUs: an unknown program may, a line of Python rarely trains."""
    return command.role is Role.OTHER and command.tool != "python"


def _is_told(launch: Launch) -> bool:
    """Whether a launcher is given its number of processes, which other rules check."""
    return launch.launcher in COUNTING_LAUNCHERS and given_count(launch).source in {
        CountSource.OPTION,
        CountSource.ENVIRONMENT,
    }


RULE: Rule[Submission] = Rule(
    id="A110",
    name="devices-subset",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="CUDA_VISIBLE_DEVICES shows only some of the GPUs.",
    fix="Remove CUDA_VISIBLE_DEVICES: the container sees exactly its own GPUs.",
    check=check,
)
