"""The job runs no deep learning.

## What it flags

Scripts whose every command is plainly something else: `spark-submit`, `hadoop`, `hive`, `dask`, `Rscript` and their
kin, without any option for GPUs.

## Why it costs GPU time

The GPUs are bound and nothing uses them.

## When it stays silent

- any option, variable, package or image of RAPIDS or another GPU library in sight, and any word with `gpu` or
  `cuda`;
- dask on an image with CUDA or a framework: what its clients send may use the GPUs;
- another command that may use a GPU, or one that can't be read;
- `Rscript` in an image with a deep-learning framework, or with torch, keras or tensorflow in its arguments;
- jobs without GPUs, and interactive jobs (see `interactive-entry`).

## Change

Submit the same manifest with `spec.gpusPerNode: 0`, to a queue of CPU nodes.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Non-DL Job
- RAPIDS Accelerator for Apache Spark documentation: `spark.rapids.*` and `spark.*.resource.gpu.*`
"""

import re
from collections.abc import Iterator

from stoker.models.finding import Problem
from stoker.models.rule import Rule
from stoker.models.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.subjects.image_reference import ImageKind
from stoker.subjects.launch_plan import Command, Role
from stoker.subjects.reading import counted, working
from stoker.subjects.submission import Submission

RUN_ANYTHING = frozenset({"dask", "dask-ssh", "dask-worker"})
"""Tools that run what their clients send."""

GPU_IMAGES = re.compile(r"rapids|cudf|cuml|nvtabular", re.IGNORECASE)
"""Images of libraries that make such tools use GPUs, without any option."""

GPU_WORDS = re.compile(
    r"gpu|cuda|rapids|cudf|cuml|nvtabular|nvidia|nvenc|nvdec|torch|keras|tensorflow|horovod|mxnet|onnx", re.IGNORECASE
)
"""Words that say that a GPU may be used after all."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the job when all that it does is of another trade."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or not plan.readable:
        return
    commands = working(plan)
    foreign = [command for command in commands if command.role is Role.NON_DL]
    if not foreign or plan.of(Role.INTERACTIVE) or any(command.role is not Role.NON_DL for command in commands):
        return
    if any(_may_use_gpus(command) for command in foreign) or GPU_WORDS.search(" ".join(_own_environment(submission))):
        return
    for_gpus = submission.image.family.kind is ImageKind.FRAMEWORK or GPU_WORDS.search(submission.image.text)
    if GPU_IMAGES.search(submission.image.text) or (for_gpus and any(one.tool in RUN_ANYTHING for one in foreign)):
        return
    if for_gpus:
        certain = False  # somebody chose an image for GPUs
    else:
        certain = all(command.invocation.certain and command.tool not in RUN_ANYTHING for command in foreign)
    first = foreign[0]
    names = sorted({command.tool or command.invocation.name or "" for command in foreign})
    yield Problem(
        detail=f"{', '.join(names)} use{'s' if len(names) == 1 else ''} no GPU, and nothing else runs:"
        f" {counted(submission.gpus, 'GPU')} will be idle.",
        evidence=f"Every working command of the job is {' or '.join(names)}, without any option for GPUs.",
        fix=f"Set {submission.paths.gpus_per_node}: 0 and submit it to a queue of CPU nodes.",
        confidence=submission.surely if certain else Confidence.LIKELY,
        location=submission.locate(first.invocation, first.invocation.argv[:1]),
        sources=(Source.SCRIPT,),
    )


def _may_use_gpus(command: Command) -> bool:
    """Whether the command has a word about GPUs, or words that can't be read."""
    words = command.invocation.argv
    return any(word.text is None or GPU_WORDS.search(word.text) for word in words) or bool(
        command.invocation.stdin_text and GPU_WORDS.search(command.invocation.stdin_text)
    )


def _own_environment(submission: Submission) -> list[str]:
    """The manifest's own variables; the operator's and the node's say nothing about the program."""
    return [f"{name}={submission.environment.get(name) or ''}" for name in submission.environment_fields]


RULE: Rule[Submission] = Rule(
    id="A301",
    name="non-dl-command",
    category=Category.NON_DL_JOB,
    severity=Severity.ERROR,
    summary="Every command of the job is plainly no deep learning.",
    fix="Submit the job without GPUs.",
    check=check,
    action=Action.DENY,
)
