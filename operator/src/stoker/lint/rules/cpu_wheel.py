"""The script installs a build of the framework that cannot use GPUs.

## What it flags

The rule flags the installation of a CPU build: `torch==2.9.1+cpu`,
`--index-url https://download.pytorch.org/whl/cpu`, conda's `cpuonly`, `tensorflow-cpu`, `paddlepaddle`.

For `jax[cpu]` and for `onnxruntime` without `-gpu` it only gives advice: another package may bring the GPU build, and
the model may be a small one.

## Why it costs GPU time

The program runs on CPUs, usually without any message, and about a hundred times slower, while its GPUs are held. The
study saw a job that ran on CPUs for 481 minutes.

## When it stays silent

- The script uses a second environment (`python -m venv`, `conda create`, `activate`, `--target`, pip by its path):
  the CPU build may be for a tool beside the training.
- The job uses another framework, which is declared, in the image, or installed as well. For instance, many JAX
  programs read their data with `tensorflow-cpu`.
- The GPU build is installed as well, or the image already has it and pip finds the requirement satisfied.
- The installation is in a branch, or the job has no GPUs.

## Change

Install the CUDA build: remove `+cpu` and the index of CPU wheels, replace `tensorflow-cpu` by `tensorflow`. An image
that holds the CUDA build is better still.

## References

- PyTorch documentation, "Get Started": wheels by platform; PEP 440: a local version (`+cpu`) sorts after its public one
- TensorFlow documentation, "Install TensorFlow with pip"; JAX documentation, "Installation"
- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

import re
from collections.abc import Iterator

from stoker.findings.finding import Change, Problem
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Maturity, Severity, Source
from stoker.lint.fixes.propose import in_script, within_word, without_setting, without_word, without_words
from stoker.lint.kinds.image_reference import ImageKind
from stoker.lint.launch.packages import CpuBuild, Package, cpu_build, known_packages, packages, upgrades
from stoker.lint.launch.plan import Command, Role
from stoker.lint.launch.queries import PER_DEVICE_LAUNCHERS, counted
from stoker.lint.submission import Submission

ELSEWHERE = frozenset({"--target", "-t", "--prefix", "--root", "-p", "-n", "--name", "--dry-run", "--python"})
"""Options of installations into another place than the environment in force."""

EXAMINED = 16
"""Installations that are examined. Chosen because a script has one or two, and a script with thousands must not take
seconds.
"""

Installed = list[tuple[Package, CpuBuild | None]]
"""All packages that the script installs, each with the CPU build that its command installs."""

ENVIRONMENTS = re.compile(
    r"(?:^|[ /])activate(?: |$)|-m (?:venv|virtualenv)\b|^\S*(?:virtualenv|uv venv|pipx)\b"
    r"|^\S*(?:conda|mamba|micromamba) (?:create|run|env)\b"
)
"""Commands that make or enter an environment."""


ADVICE = frozenset({"JAX", "ONNX Runtime"})
"""Frameworks whose build for CPUs may lie beside one for GPUs, or runs only a small model."""


def check(submission: Submission) -> Iterator[Problem]:
    """Report the first CPU build of the framework that the job uses."""
    plan = submission.plan
    if plan is None or submission.gpus < 1 or any(_makes_environment(command) for command in plan.commands):
        return
    installs = [(one, cpu_build(one)) for one in plan.of(Role.INSTALL) if not one.invocation.captured]
    installed = [(package, build) for command, build in installs for package in packages(command)]
    for command, build in [one for one in installs if one[1] is not None][:EXAMINED]:
        if (
            build is None
            or not command.invocation.certain
            or not _in_force(command)
            or _satisfied(build, command, submission)
            or _has_gpu_build(build, installed)
            or not _is_own(build, installed, submission)
        ):
            continue
        bare = submission.image.family.kind in {ImageKind.GENERIC, ImageKind.CUDA}
        unsure = build.framework == "TensorFlow" and submission.framework is None and not bare
        advice = unsure or build.framework in ADVICE
        place = f" from {str(build.index[-1]).rpartition('=')[2]}" if build.index else ""
        idle = (
            "what runs with it uses no GPU"
            if advice
            else f"the program runs on CPUs and leaves {counted(submission.gpus, 'GPU')} idle"
        )
        without = f" without {' '.join(str(word) for word in build.index)}" if build.index else ""
        yield Problem(
            detail=f"{build.package.word}{place} is a CPU build of {build.framework}: {idle}.",
            evidence=f"{submission.paths.gpus_per_node} is {submission.gpus_per_node}.",
            fix="Use an image that holds JAX's GPU build: to install it takes minutes at every start."
            if build.framework == "JAX"
            else f"Install {build.instead}{without}, or use an image that holds a GPU build.",
            severity=Severity.ADVICE if advice else None,
            confidence=Confidence.CERTAIN
            if submission.framework is not None and not advice and plan.readable
            else Confidence.LIKELY,
            location=submission.locate(command.invocation, build.index or (build.package.word,)),
            sources=(Source.SCRIPT, Source.MANIFEST),
            change=_change(submission, command, build, safe=not advice),
        )
        return


def _change(submission: Submission, command: Command, build: CpuBuild, *, safe: bool) -> Change | None:
    """The command with the GPU build; None for JAX, whose GPU build is too large to install at every start."""
    if build.framework == "JAX":
        return None
    word = build.package.word
    if len(build.index) == 2:
        return in_script(submission, [without_words(submission, build.index)], safe=safe)
    if build.index:
        (index,) = build.index
        cut = without_word if index in command.invocation.argv else without_setting
        return in_script(submission, [cut(submission, index)], safe=safe)
    if build.package.name in known_packages().pytorch_builds:
        versions = [package.word for package in packages(command) if "+cpu" in (package.word.text or "")]
        return in_script(submission, [within_word(submission, one, "+cpu", "") for one in versions], safe=safe)
    old, new = re.split(r"[=<>!~; ]", f"{word.text}=")[0], re.split(r"[=<>!~; ]", build.instead)[0]
    named = build.package.name != "cpuonly"  # CUDA's package needs a version and a channel
    return in_script(submission, [within_word(submission, word, old, new)], safe=safe) if named else None


def _makes_environment(command: Command) -> bool:
    return ENVIRONMENTS.search(" ".join(str(word) for word in command.invocation.argv[:4])) is not None


def _in_force(command: Command) -> bool:
    """Whether the installation is for the environment that the programs run in, as far as can be seen."""
    words = [word.text or word.prefix for word in command.invocation.argv]
    place, slash, _ = words[0].rpartition("/")
    usual = not slash or place in {"/usr/bin", "/usr/local/bin", "/opt/conda/bin"}
    return usual and not any(word.partition("=")[0] in ELSEWHERE for word in words[1:])


def _satisfied(build: CpuBuild, command: Command, submission: Submission) -> bool:
    """Whether the image holds the framework and pip has no reason to replace it."""
    family = submission.image.family
    held = family.kind is ImageKind.FRAMEWORK and family.framework == build.framework
    same_name = build.package.name in known_packages().pytorch_builds
    return held and same_name and build.package.version is None and not upgrades(command)


def _has_gpu_build(build: CpuBuild, installed: Installed) -> bool:
    """Whether the script installs the framework for GPUs as well."""
    name = re.split(r"[=<>!~\[; ]", build.instead, maxsplit=1)[0]
    return any(package.name == name and (name != build.package.name or its is None) for package, its in installed)


def _is_own(build: CpuBuild, installed: Installed, submission: Submission) -> bool:
    """Whether the job computes with this framework, as far as can be seen."""
    if build.framework == "ONNX Runtime":
        return True
    if submission.framework is not None:
        return submission.framework.value == build.framework or (
            build.framework == "PaddlePaddle" and submission.framework.value == "Other"
        )
    launches = submission.plan.launches if submission.plan is not None else ()
    if build.framework != "PyTorch" and any(launch.launcher in PER_DEVICE_LAUNCHERS for launch in launches):
        return False
    frameworks = known_packages().frameworks
    return {frameworks.get(package.name, build.framework) for package, _ in installed} <= {build.framework}


RULE: Rule[Submission] = Rule(
    id="A112",
    name="cpu-wheel",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="The script installs a CPU build of the framework.",
    fix="Install the CUDA build of the framework, or use an image that holds it.",
    check=check,
    maturity=Maturity.PREVIEW,
)
