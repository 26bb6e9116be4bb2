"""The script installs the framework that the image lacks.

## What it flags

The rule flags a general base image (`python`, `ubuntu`, a bare CUDA image) whose script then installs PyTorch,
TensorFlow, JAX or a package that brings one of them.

## Why it costs GPU time

Every pod downloads and unpacks two to five gigabytes at every start and every restart, while the GPUs are held. The
study saw installations of ten minutes and more.

## When it stays silent

- The image holds a framework, or is not known. A UtilizationPolicy describes a cluster's own images in `spec.images`.
- The files come from the image (`--no-index`), or the installation is in a branch that may not be taken.
- The package is a CPU build, which is small (see `cpu-wheel`).
- The job has no GPUs.

## Change

Build an image once, with the same commands, or start from an image that holds the framework.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, Long Library
  Installation
- Docker documentation, "Best practices for Dockerfiles"
"""

from collections.abc import Iterator

from stoker.findings.finding import Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.packages import Package, build_command, cpu_build, known_packages, offline, packages
from stoker.lint.launch.plan import Command, Role
from stoker.lint.submission import Submission


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first installation of a framework onto a base without one."""
    image, plan = submission.image, submission.plan
    if plan is None or submission.gpus < 1 or image.family.kind not in {ImageKind.GENERIC, ImageKind.CUDA}:
        return
    installs = [command for command in plan.of(Role.INSTALL) if _runs(command)]
    for command in installs:
        build = cpu_build(command)
        small = {None, build.framework if build is not None else None}
        framework = next((found for found in packages(command) if _brings(found) not in small), None)
        if framework is None:
            continue
        pods = f"the {submission.nodes} pods" if submission.nodes > 1 else "the pod"
        waiting = f"{submission.gpus} GPUs wait" if submission.gpus > 1 else "the GPU waits"
        yield Problem(
            detail=f"{command.tool or 'The script'} installs {framework.word} onto {image.text} in {pods},"
            f" at every start, while {waiting}.",
            evidence=f"{framework.name} brings {_brings(framework)} with its CUDA libraries, gigabytes of them.",
            fix=f"Build the image once and set {submission.paths.image} to it: {build_command(image.text, installs)}",
            confidence=Confidence.LIKELY,
            location=submission.locate(command.invocation, (framework.word,)),
            sources=(Source.SCRIPT, Source.MANIFEST),
        )
        return


def _runs(command: Command) -> bool:
    invocation = command.invocation
    return invocation.certain and not invocation.rank_dependent and not offline(command) and cpu_build(command) is None


def _brings(package: Package) -> str | None:
    """The framework that a package is or requires."""
    known = known_packages()
    return known.frameworks.get(package.name, "PyTorch" if package.name in known.needs_pytorch else None)


RULE: Rule[Submission] = Rule(
    id="A206",
    name="image-installs-framework",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The script installs a framework onto a base image at every start.",
    fix="Build an image that holds the framework.",
    check=check,
    init_containers=True,
)
