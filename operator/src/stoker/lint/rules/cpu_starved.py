"""The data loader has more workers than the container has CPUs.

## What it flags

The rule flags a job in which the workers of all processes of a pod exceed the container's CPU limit by more than
half. For instance, `torchrun --nproc_per_node=8 train.py --num_workers 8` starts 64 workers on a limit of 16 CPUs.
The number counts for each process, as in PyTorch's loaders.

## Why it costs GPU time

Once a container has used up its CPU limit, the kernel stops all its processes for the rest of the period, including
those that feed the GPUs. Batches come late, and the GPUs wait in each step.

## When it stays silent

- The container has no CPU limit. A request alone does not stop a container while the node has free CPUs.
- No number of workers is given, or the number of workers or processes cannot be resolved.
- The workers load no data: those of Ray train, and those of web servers and of programs that prepare data do other
  work.
- The job has no GPUs.

## Change

Raise the limit, or remove it and keep the request. Or use fewer workers for each process.

## References

- Linux kernel documentation, "CFS Bandwidth Control"
- PyTorch documentation, "torch.utils.data": `num_workers` are processes of each loader
"""

import math
from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.fixes.propose import in_script, within_word
from stoker.lint.launch.plan import Count, Launch, LaunchPlan
from stoker.lint.launch.queries import counted, loader_workers, side_by_side, with_number
from stoker.lint.submission import Submission


def check(submission: Submission, *, workers_per_cpu: float) -> Iterator[Problem]:
    """Report the launch with the most workers if there are too many; launches side by side count together."""
    plan, limit = submission.plan, submission.pod.cpu_limit
    if plan is None or submission.gpus_per_node < 1 or not limit:
        return
    found = [one for launch in plan.launches if (one := _workers(plan, launch)) is not None]
    if not found:
        return
    launch, count, each, total = max(found, key=lambda one: one[3])
    together = sum(one[3] for one in found) if side_by_side(plan) else total
    if together <= workers_per_cpu * limit:
        return
    field = submission.pod.cpu_limit_field
    processes = total // each
    fewer = math.floor(limit / (together / each))
    changed = with_number(count, fewer) if fewer else None
    of = f" in each of {processes} processes" if processes > 1 else ""
    among = f", and all programs together {together}," if together > total else ""
    yield Problem(
        detail=f'"{count.text}"{of} makes {counted(total, "worker")}{among} on a limit of {limit:g} CPUs.',
        evidence=f"{field} is {limit:g}.",
        fix=f"Raise {field} to {together} or leave it out"
        f"{f', or change {count.text} to {changed}' if changed is not None else ''}.",
        confidence=Confidence.LIKELY,
        location=submission.locate(launch.invocation, count.words),
        sources=(Source.SCRIPT, Source.MANIFEST),
        change=in_script(submission, [within_word(submission, count.words[-1], str(each), str(fewer))], safe=False)
        if changed is not None
        else None,
    )


def _workers(plan: LaunchPlan, launch: Launch) -> tuple[Launch, Count, int, int] | None:
    """A launch, its workers for each process as given and as a number, and those of a pod."""
    invocation = launch.invocation
    count, processes = loader_workers(plan, launch), launch.processes_per_node.minimum
    if count is None or not count.minimum or invocation.captured or invocation.after_failure:
        return None
    return launch, count, count.minimum, count.minimum * max(processes or 1, 1)


RULE: Rule[Submission] = Rule(
    id="A702",
    name="cpu-starved",
    category=Category.DATA_PREPROCESSING,
    severity=Severity.WARNING,
    summary="The data loader has more workers than the CPU limit allows.",
    fix="Raise the CPU limit or leave it out, or use fewer workers.",
    check=check,
    parameters=(
        Parameter(
            name="workersPerCpu",
            default=1.5,
            description="The most workers for each CPU of the limit that are let pass.",
            minimum=0.1,
            maximum=1000,
        ),
    ),
    maturity=Maturity.PREVIEW,
)
