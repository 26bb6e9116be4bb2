"""The script installs packages that take minutes.

## What it flags

The rule flags installations in the startup script that download gigabytes or compile: frameworks, flash-attn, apex,
whole conda environments, projects built with cmake or make, a repository that is cloned and then installed from its
folder, and the packages of a requirements file that the script writes.

## Why it costs GPU time

Every pod repeats the installation at every start, while all GPUs are held and idle. The study counts an installation
of ten minutes or more as an issue of its own.

## When it stays silent

- The packages are small: `pip install einops wandb` takes seconds.
- The policy lists the package in `lightPackages`.
- The requirements file or the packages are not in sight.
- The files come from the image (`--no-index`), or the installation is editable and without dependencies
  (`--no-deps -e .`).
- The installation is in a branch, for instance after a test whether the package is there.
- The package is a CPU build of a framework, which is small (see `cpu-wheel`).
- The package is a framework and the image is not known, so it may hold this very version. Or the image holds the
  framework and no version is pinned: pip finds it installed.
- The framework is missing in a known base image: `image-installs-framework` reports the whole of it.
- The job has no GPUs.

## Change

Build an image once, with the same commands.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, Long Library
  Installation
- FlashAttention's installation instructions: 3 to 5 minutes on 64 cores, hours without ninja
"""

from collections.abc import Iterator
from itertools import pairwise

from stoker.findings.finding import Problem
from stoker.findings.rule import Parameter, Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.packages import (
    COMPILED_FOR_HOURS,
    Package,
    build_command,
    clone_of,
    cpu_build,
    installs_from,
    known_packages,
    offline,
    packages,
    upgrades,
)
from stoker.lint.launch.plan import Command, LaunchPlan, Role
from stoker.lint.launch.queries import CommandOrder
from stoker.lint.submission import Submission
from stoker.shell.model import Word

CONDA = frozenset({"conda", "mamba", "micromamba"})


def check(submission: Submission, *, light_packages: tuple[str, ...]) -> Iterator[Problem]:
    """Report all heavy installations of the script as one problem, at the first of them."""
    plan = submission.plan
    if plan is None or submission.gpus < 1:
        return
    installs = [command for command in plan.of(Role.INSTALL) if command.invocation.certain and not offline(command)]
    if _framework_onto_base(submission, installs):
        return
    light = frozenset(light_packages)
    found: list[tuple[Command, tuple[Word, ...], str]] = []
    steps: list[Command] = []
    for position, command in enumerate(installs):
        words, why = _weight(command, submission, light)
        if not why:
            continue
        if (folder := clone_of(command)) is not None:
            later = ((one, installs_from(one, folder)) for one in installs[position + 1 :])
            build, place = next(((one, word) for one, word in later if word is not None), (None, None))
            if build is None or place is None:
                continue  # a clone alone takes seconds
            steps.append(command)
            command, words = build, (place,)
        found.append((command, words, why))
        steps.append(command)
    if not found:
        return
    command, words, why = found[0]
    # A build is several commands, of one project.
    others = sum(one.tool not in known_packages().build_tools for one, _, _ in found[1:])
    more = f" ({others} more like it)" if others else ""
    waiting = f"{submission.gpus} GPUs wait" if submission.gpus > 1 else "the GPU waits"
    yield Problem(
        detail=f"{why}{more}, in every pod at every start, while {waiting}.",
        evidence=f"It runs before {_next(plan, command)}.",
        fix=f"Build an image once and set {submission.paths.image} to it:"
        f" {build_command(submission.image.text, steps)}",
        confidence=Confidence.LIKELY,
        location=submission.locate(command.invocation, words),
        sources=(Source.SCRIPT,),
    )


def _framework_onto_base(submission: Submission, installs: list[Command]) -> bool:
    """Whether the script installs a framework on a base image without one, which image-installs-framework reports."""
    frameworks = known_packages().frameworks.keys() | known_packages().needs_pytorch
    return submission.image.family.kind in {ImageKind.GENERIC, ImageKind.CUDA} and any(
        package.name in frameworks for command in installs for package in packages(command)
    )


def _weight(command: Command, submission: Submission, light: frozenset[str]) -> tuple[tuple[Word, ...], str]:
    """The words that name something heavy, and why it is; an empty reason for a light installation."""
    heavy = [
        package
        for package in packages(command)
        if package.name not in light and _takes_minutes(package, command, submission)
    ]
    if heavy:
        names = ", ".join(str(package.word) for package in heavy[:3])
        why = known_packages().slow.get(heavy[0].name, COMPILED_FOR_HOURS)
        why = COMPILED_FOR_HOURS if _from_source(heavy[0]) and "compiled" not in why else why
        return tuple(package.word for package in heavy[:1]), f"{names} {why}"
    texts = [word.text for word in command.invocation.argv if word.text]
    if command.tool in CONDA and _whole_environment(command, texts):
        return command.invocation.argv[:1], f"{command.tool} builds a whole environment"
    if command.tool in known_packages().build_tools and _compiles(command):
        return command.invocation.argv[:1], f"{command.tool} compiles a project"
    return (), ""


def _whole_environment(command: Command, texts: list[str]) -> bool:
    """Whether conda builds an environment from a file: `conda env create`, `micromamba create -f env.yaml`."""
    return ("env" in texts and bool({"create", "update"} & set(texts))) or (
        "create" in texts and bool(command.requirements)
    )


def _compiles(command: Command) -> bool:
    """Whether a build tool builds: make with a target of another name may do anything, training included."""
    if command.tool != "make":
        return True
    words = [word.text or "" for word in command.invocation.argv]
    targets = {
        text
        for option, text in pairwise(words)
        if option not in {"-C", "-f", "-I"} and not text.startswith("-") and "=" not in text and not text.isdigit()
    }
    return targets <= {"all", "build", "install"}


def _takes_minutes(package: Package, command: Command, submission: Submission) -> bool:
    known = known_packages()
    if package.name not in known.slow:
        return package.name in known.slow_from_repository and _from_source(package)
    build = cpu_build(command)
    if build is not None and known.frameworks.get(package.name) == build.framework:
        return False  # it brings none of CUDA's libraries
    plain = package.version is None and not _from_source(package) and not upgrades(command)
    if plain and package.name == submission.image.family.name.lower():
        return False  # an inference server's own image holds it
    if package.name not in known.frameworks or upgrades(command):
        return True
    if command.tool in CONDA and any(word.text == "create" for word in command.invocation.argv):
        return True  # a new environment holds nothing
    if submission.image.family.kind in {ImageKind.GENERIC, ImageKind.CUDA, ImageKind.NON_DL, ImageKind.CPU_ONLY}:
        return True
    reference = submission.image.reference
    tag = (reference.tag if reference is not None else None) or ""
    holds_framework = submission.image.family.kind is ImageKind.FRAMEWORK
    return holds_framework and package.version is not None and tag[:1].isdigit() and not tag.startswith(package.version)


def _from_source(package: Package) -> bool:
    """Whether a package comes from its repository."""
    return "://" in str(package.word) and not str(package.word).endswith(".whl")


def _next(plan: LaunchPlan, command: Command) -> str:
    order = CommandOrder(plan)
    later = (one for one in order.work if order.position(one) > order.position(command))
    launch = next((one.launch for one in later if one.launch is not None), None)
    return "the job's program" if launch is None else str(launch.launcher)


RULE: Rule[Submission] = Rule(
    id="A401",
    name="heavy-install",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The startup script installs packages that take minutes.",
    fix="Build an image that holds it.",
    check=check,
    init_containers=True,
    parameters=(
        Parameter(
            name="lightPackages",
            default=(),
            description="Packages that are let pass, by their normalized names: such as a near wheel cache serves.",
        ),
    ),
    maturity=Maturity.PREVIEW,
)
