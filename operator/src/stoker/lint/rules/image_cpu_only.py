"""The image holds a build of the framework that cannot use GPUs.

## What it flags

The rule flags a job with GPUs whose image is known to hold a deep-learning framework built without CUDA or ROCm.

## Why it costs GPU time

The program runs on CPUs while its GPUs are held. `torch.cuda.is_available()` is false, and most programs then use the
CPUs without any message.

## When it stays silent

- The image is not known. A UtilizationPolicy describes a cluster's own images in `spec.images`.
- The script installs packages: these may bring a GPU build.
- The job has no GPUs.

## Change

Use the GPU variant of the same image, or request no GPUs.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity
from stoker.lint.fixes.propose import in_field
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.plan import Role
from stoker.lint.launch.queries import counted
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report a known CPU build."""
    family, plan = submission.image.family, submission.plan
    if family.kind is not ImageKind.CPU_ONLY or submission.gpus < 1:
        return
    if plan is not None and plan.of(Role.INSTALL):
        return
    instead = f"Use {family.gpu_variant}" if family.gpu_variant else "Use a GPU build of it"
    if family.gpu_variant and not _pinned(family.gpu_variant):
        instead += ", by its digest"
    name = f" of {family.name.removesuffix(' (CPU build)')}" if family.name else ""
    yield Problem(
        detail=f"{submission.image.text} is a CPU build{name}: it leaves {counted(submission.gpus, 'GPU')} idle.",
        fix=f"{instead}, or set {submission.paths.gpus_per_node}: 0.",
        confidence=Confidence.CERTAIN if family.framework and (plan is None or plan.readable) else Confidence.LIKELY,
        location=submission.locate_image(),
        change=in_field(submission.paths.image, family.gpu_variant, safe=False)
        if _pinned(family.gpu_variant)
        else None,
    )


def _pinned(image: str | None) -> bool:
    """Whether the image has a tag that is not moved to other images."""
    tag = "" if image is None else image.rsplit("/", 1)[-1].partition(":")[2]
    return tag != "" and "latest" not in tag


RULE: Rule[Submission] = Rule(
    id="A204",
    name="image-cpu-only",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="The image holds a CPU build of the framework.",
    fix="Use the GPU variant of the image.",
    check=check,
)
