"""What an installation costs: frameworks, what is built from source, and how a container file would hold them."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from stoker.lint.launch.plan import Command
from stoker.shell.model import Word

FRAMEWORKS: Mapping[str, str] = {
    "torch": "PyTorch",
    "pytorch": "PyTorch",
    "pytorch-cuda": "PyTorch",
    "pytorch-gpu": "PyTorch",
    "torchvision": "PyTorch",
    "torchaudio": "PyTorch",
    "tensorflow": "TensorFlow",
    "tensorflow-gpu": "TensorFlow",
    "tf-nightly": "TensorFlow",
    "jax": "JAX",
    "jaxlib": "JAX",
    "paddlepaddle-gpu": "PaddlePaddle",
    "mxnet": "MXNet",
}
"""Packages that are a deep-learning framework, and which. Each brings CUDA libraries of 1 to 3 GB (sizes on PyPI)."""

NEEDS_TORCH = frozenset(
    {
        "accelerate",
        "deepspeed",
        "fairseq",
        "lightning",
        "openai-whisper",
        "peft",
        "pytorch-lightning",
        "sentence-transformers",
        "sglang",
        "timm",
        "torchmetrics",
        "trl",
        "ultralytics",
        "vllm",
        "xformers",
    }
)
"""Packages whose requirements bring PyTorch along."""

HEAVY: Mapping[str, str] = {
    "apex": "is compiled for minutes",
    "causal-conv1d": "is compiled for minutes",
    "cuda-toolkit": "is a download of gigabytes",
    "cudatoolkit": "is a download of gigabytes",
    "cudf-cu12": "is a download of gigabytes",
    "cuml-cu12": "is a download of gigabytes",
    "detectron2": "is compiled for minutes",
    "fairseq": "is compiled for minutes",
    "flash-attn": "is compiled for minutes up to hours",
    "flash-attention": "is compiled for minutes up to hours",
    "horovod": "is compiled for minutes",
    "mamba-ssm": "is compiled for minutes",
    "megatron-core": "is compiled for minutes",
    "mmcv": "is compiled for minutes",
    "mmcv-full": "is compiled for minutes",
    "nvidia-cuda-toolkit": "is a download of gigabytes",
    "pytorch3d": "is compiled for minutes",
    "sglang": "is a download of gigabytes",
    "tensorrt": "is a download of gigabytes",
    "torch-cluster": "is compiled for minutes",
    "torch-scatter": "is compiled for minutes",
    "torch-sparse": "is compiled for minutes",
    "transformer-engine": "is compiled for minutes",
    "transformerengine": "is compiled for minutes",
    "vllm": "is a download of gigabytes",
    **dict.fromkeys(FRAMEWORKS, "is a download of gigabytes"),
}
"""Packages that take minutes to install, and why; whatever is not here is taken for a matter of seconds."""

COMPILED = "is compiled for minutes up to hours"
LONG_BUILDS = frozenset({"bitsandbytes", "flashinfer", "triton", "xformers"})
"""Packages that come as small wheels, and are compiled when they are taken from their repository."""

BUILDS = frozenset({"cmake", "make", "ninja", "bazel"})
"""Tools that compile a project."""


TORCH = frozenset({"pytorch", "torch", "torchaudio", "torchvision"})
"""Packages whose builds for CPUs and GPUs have the same name."""

CPU_PACKAGES: Mapping[str, tuple[str, str]] = {
    "cpuonly": ("PyTorch", "pytorch-cuda"),
    "intel-tensorflow": ("TensorFlow", "tensorflow"),
    "onnxruntime": ("ONNX Runtime", "onnxruntime-gpu"),
    "paddlepaddle": ("PaddlePaddle", "paddlepaddle-gpu"),
    "pytorch-cpu": ("PyTorch", "pytorch-gpu"),
    "tensorflow-cpu": ("TensorFlow", "tensorflow"),
    "tf-nightly-cpu": ("TensorFlow", "tf-nightly"),
}
"""Packages that are a framework's build for CPUs (their pages on PyPI and conda-forge): of which, and its GPU build."""

CPU_INDEX = re.compile(r"/whl/(?:nightly/|test/)?cpu(?:/|$)")
"""The path of download.pytorch.org's indexes of CPU wheels, and of mirrors of them."""

CPU_VERSION = re.compile(r"(?:\+|%2B)cpu\b")
INDEX_OPTIONS = frozenset(
    {"--index-url", "-i", "--extra-index-url", "--index", "--default-index", "--find-links", "-f"}
)
INDEX_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")


@dataclass(frozen=True, slots=True)
class Package:
    """One package that an installation names: its normalized name, its version when pinned, and its word."""

    name: str
    version: str | None
    word: Word


SYSTEM_TOOLS = frozenset({"apk", "apt", "apt-get", "aptitude", "dnf", "microdnf", "yum", "zypper"})


def packages(command: Command) -> list[Package]:
    """The packages that an installation names, those of a requirements file in sight included, unknown words left out.

    Systems' packages go without the version in their name: `cuda-toolkit-12-4`.
    """
    found = [package for word in command.packages if word.text and (package := _package(word)) is not None]
    if command.tool in SYSTEM_TOOLS:
        return [replace(package, name=_without_version(package.name)) for package in found]
    for requirements in command.requirements:
        for line in command.invocation.files.get(requirements.text or "", "").splitlines():
            written = line.partition(" #")[0].partition(";")[0].strip()
            package = None if written.startswith(("#", "-")) else _package(Word.known(written, requirements.span))
            found += [] if package is None else [package]
    return found


def _without_version(name: str) -> str:
    """A system package's name without the numbers at its end: `cuda-toolkit` of `cuda-toolkit-12-4`."""
    parts = name.split("-")
    while len(parts) > 1 and parts[-1].isdecimal():
        parts.pop()
    return "-".join(parts)


def clone_of(command: Command) -> str | None:
    """The folder that `git clone` makes; None of other commands and unknown words."""
    texts = [word.text for word in command.invocation.argv]
    if command.tool != "git" or "clone" not in texts or None in texts or not command.urls:
        return None
    url, target = command.urls[0].text or "", texts[-1] or ""
    return url.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git") if target == url else target


def installs_from(command: Command, folder: str) -> Word | None:
    """The word of an installation that takes its package from a folder, or from where it runs."""
    if command.tool in ("git", *BUILDS, *SYSTEM_TOOLS):
        return None
    name = folder.rstrip("/").rsplit("/", 1)[-1]
    return next(
        (
            word
            for word in command.packages
            if word.text in (".", "./", "setup.py")
            or (f"/{word.text or ''}".rstrip("/").endswith(f"/{name}") and "/" in str(word))
        ),
        None,
    )


def _package(word: Word) -> Package | None:
    text = (word.text or "").strip()
    repository = re.match(r"^(?:(?P<named>[\w.-]+)(?:\[[^]]*\])?\s*@\s*)?(?:git\+)?\w+://\S*?/(?P<last>[^/@#?]+)", text)
    if "://" in text:
        egg = re.search(r"[#&]egg=([\w.-]+)", text)
        if egg is not None:
            return Package(_normalized(egg[1]), None, word)
        if repository is None:
            return None
        path = re.split(r"[@#?]", text.split("://", 1)[1], maxsplit=1)[0]
        name = repository["named"] or path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        if name.endswith((".whl", ".tar.gz", ".zip")):
            name = name.split("-", 1)[0]
        return Package(_normalized(name), None, word)
    matched = re.match(r"^(?:[\w.-]+::)?(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?\s*(?P<rest>.*)$", text)
    if matched is None or text.startswith(("-", ".", "/")):
        return None
    version = re.match(r"^={1,3}\s*(?P<version>[0-9][\w.+!-]*)", matched["rest"])
    return Package(_normalized(matched["name"]), None if version is None else version["version"], word)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBuild:
    """A framework's build for CPUs that a command installs.

    index: the words that choose an index of such builds, empty where the package itself says what it is.
    instead: the package that is the build for GPUs, as the command would name it.
    """

    framework: str
    package: Package
    index: tuple[Word, ...] = ()
    instead: str


def cpu_build(command: Command) -> CpuBuild | None:
    """The first build for CPUs among a command's packages."""
    index = _cpu_index(command)
    for package in packages(command):
        text = package.word.text or ""
        if package.name in CPU_PACKAGES:
            framework, name = CPU_PACKAGES[package.name]
            return CpuBuild(framework=framework, package=package, instead=_renamed(text, name))
        if package.name == "jax" and text.startswith("jax[cpu]"):
            return CpuBuild(framework="JAX", package=package, instead=text.replace("[cpu]", "[cuda12]", 1))
        if package.name in TORCH:
            if "://" in text and (CPU_VERSION.search(text) or CPU_INDEX.search(text)):
                return CpuBuild(framework="PyTorch", package=package, instead="the wheel for CUDA")
            if CPU_VERSION.search(text):
                return CpuBuild(framework="PyTorch", package=package, instead=CPU_VERSION.sub("", text))
            if index:
                return CpuBuild(framework="PyTorch", package=package, index=index, instead=text)
    return None


def _renamed(text: str, name: str) -> str:
    """A requirement with another package's name and the same version."""
    return re.sub(r"^[\w.-]+", name, text, count=1) if name != "pytorch-cuda" else name


def _cpu_index(command: Command) -> tuple[Word, ...]:
    words = command.invocation.argv
    for option, value in pairwise(words):
        chosen = option.text in INDEX_OPTIONS and CPU_INDEX.search(value.text or "")
        if chosen or (option.text == "--torch-backend" and value.text == "cpu"):
            return option, value
    for word in words:
        name, equals, address = (word.text or "").partition("=")
        if equals and name in INDEX_OPTIONS and CPU_INDEX.search(address):
            return (word,)
    settings = (command.invocation.environment.get(name) for name in INDEX_VARIABLES)
    return tuple(word for word in settings if word is not None and CPU_INDEX.search(word.text or ""))[:1]


def _normalized(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def offline(command: Command) -> bool:
    """Whether the installation takes everything from files beside it, or installs nothing."""
    options = {word.text for word in command.invocation.argv if word.text}
    return bool(options & {"--no-index", "--dry-run", "--offline", "--no-deps", "--help", "--version"})


def upgrades(command: Command) -> bool:
    """Whether the installation replaces what the image already holds."""
    options = {word.text for word in command.invocation.argv if word.text}
    return bool(options & {"-U", "--upgrade", "--force-reinstall", "--ignore-installed", "-I"})


def command_line(command: Command) -> str | None:
    """The command as a container file's RUN would have it; None where a word, or the folder of a build, is unknown."""
    known = [word.text for word in command.invocation.argv]
    return None if None in known or command.tool in BUILDS else shlex.join(text for text in known if text is not None)


def build_command(base: str, commands: Iterable[Command]) -> str:
    """One line that builds an image with these installations on a base image.

    Installations with unknown words are left to the reader, as a comment in the container file, and builds, too, whose
    folder may be anything. What is installed from a clone is one step with it.
    """
    lines = [f"FROM {base}"]
    context = "-"
    before: Command | None = None
    for command in commands:
        line, cloned = command_line(command), clone_of(before) if before is not None else None
        before = command
        if line is not None and cloned is not None and (word := installs_from(command, cloned)) is not None:
            place = f"cd {shlex.quote(cloned)} && " if word.text in (".", "./", "setup.py") else ""
            lines[-1] += f" && {place}{line}"
            continue
        for word in command.requirements:
            if word.text:
                lines.append(f"COPY {word.text} {word.text}")
                context = "-f - ."
        run = f"# RUN {' '.join(map(str, command.invocation.argv))}" if line is None else f"RUN {line}"
        run = run.replace("\n", " ")
        if lines[-1] != run:
            lines.append(run)
    text = "\\n".join(line.replace("%", "%%").replace("\\", "\\\\").replace("'", "'\\''") for line in lines)
    return f"printf '{text}\\n' | docker build -t REGISTRY/NAME:TAG {context}"


__all__ = [
    "BUILDS",
    "CpuBuild",
    "FRAMEWORKS",
    "HEAVY",
    "NEEDS_TORCH",
    "TORCH",
    "Package",
    "build_command",
    "clone_of",
    "command_line",
    "cpu_build",
    "installs_from",
    "offline",
    "packages",
    "upgrades",
]
