"""What an installation costs: frameworks, what is built from source, and how a container file would hold them."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.subjects.launch_plan import Command
from stoker.subjects.shell_model import Word

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
    "vllm": "is a download of gigabytes",
    **dict.fromkeys(FRAMEWORKS, "is a download of gigabytes"),
}
"""Packages that take minutes to install, and why; whatever is not here is taken for a matter of seconds."""

BUILDS = frozenset({"cmake", "make", "ninja", "bazel"})
"""Tools that compile a project."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package that an installation names: its normalized name, its version when pinned, and its word."""

    name: str
    version: str | None
    word: Word


def packages(command: Command) -> list[Package]:
    """The packages that an installation names, unknown words left out."""
    found = (_package(word) for word in command.packages if word.text)
    return [package for package in found if package is not None]


def _package(word: Word) -> Package | None:
    text = (word.text or "").strip()
    repository = re.match(r"^(?:(?P<named>[\w.-]+)(?:\[[^]]*\])?\s*@\s*)?(?:git\+)?\w+://\S*?/(?P<last>[^/@#?]+)", text)
    if "://" in text:
        egg = re.search(r"[#&]egg=([\w.-]+)", text)
        if egg is not None:
            return Package(_normalized(egg[1]), None, word)
        if repository is None:
            return None
        path = re.sub(r"[@#?].*$", "", text.split("://", 1)[1])
        name = repository["named"] or path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
        if name.endswith((".whl", ".tar.gz", ".zip")):
            name = name.split("-", 1)[0]
        return Package(_normalized(name), None, word)
    matched = re.match(r"^(?:[\w.-]+::)?(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?\s*(?P<rest>.*)$", text)
    if matched is None or text.startswith(("-", ".", "/")):
        return None
    version = re.match(r"^={1,3}\s*(?P<version>[0-9][\w.+!-]*)", matched["rest"])
    return Package(_normalized(matched["name"]), None if version is None else version["version"], word)


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

    Installations with unknown words are left to the reader, as a comment in the container file.
    """
    lines = [f"FROM {base}"]
    context = "-"
    for command in commands:
        line = command_line(command)
        for word in command.requirements:
            if word.text:
                lines.append(f"COPY {word.text} {word.text}")
                context = "-f - ."
        run = "# your installation" if line is None else f"RUN {line}"
        if lines[-1] != run:
            lines.append(run)
    text = "\\n".join(line.replace("%", "%%").replace("\\", "\\\\").replace("'", "'\\''") for line in lines)
    return f"printf '{text}\\n' | docker build -t REGISTRY/NAME:TAG {context}"


__all__ = [
    "BUILDS",
    "FRAMEWORKS",
    "HEAVY",
    "NEEDS_TORCH",
    "Package",
    "build_command",
    "command_line",
    "offline",
    "packages",
    "upgrades",
]
