"""The image is made for other work than deep learning.

## What it flags

The rule flags an image that is known to hold no deep-learning framework and to be made for other work: Apache Spark,
R, databases, web servers.

## Why it costs GPU time

Nothing in the image can use a GPU. The job holds GPUs for work that CPU nodes do as fast.

## When it stays silent

- The image is not known, or is a general base such as `python` or `ubuntu`, on which anything may be built. A
  UtilizationPolicy describes a cluster's own images in `spec.images`.
- The script installs packages, or starts a launcher of deep-learning programs: the image was extended.
- The job is interactive, or has no GPUs.

## Change

Use an image with the framework, or set `spec.gpusPerNode: 0`.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Non-DL Job
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.plan import Launcher, Role
from stoker.lint.launch.queries import counted
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report a known image that is made for other work."""
    family, plan = submission.image.family, submission.plan
    if family.kind is not ImageKind.NON_DL or submission.gpus < 1 or submission.job_type is JobType.INTERACTIVE:
        return
    if plan is not None and (
        plan.of(Role.INSTALL) or any(launch.launcher is not Launcher.PYTHON for launch in plan.launches)
    ):
        return
    made_for = f" ({family.name})" if family.name else ""
    yield Problem(
        detail=f"{submission.image.text}{made_for} holds no deep-learning framework:"
        f" {counted(submission.gpus, 'GPU')} will be idle.",
        fix=f"Use an image with the framework, or set {submission.paths.gpus_per_node}: 0 to run it without GPUs.",
        confidence=Confidence.LIKELY,
        location=submission.locate_image(),
    )


RULE: Rule[Submission] = Rule(
    id="A205",
    name="image-without-framework",
    category=Category.NON_DL_JOB,
    severity=Severity.WARNING,
    summary="The image is known to hold no deep-learning framework.",
    fix="Use an image with the framework, or request no GPUs.",
    check=check,
)
