"""What an installation costs: frameworks, what is built from source, and how a container file would hold them.

The names are those of the word list `packages`. Used by the rules about installations and CPU builds.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from stoker.lint.launch.plan import Command
from stoker.lint.word_lists.loader import WordList, word_lists
from stoker.shell.model import Word

COMPILED_FOR_HOURS = "is compiled for minutes up to hours"
_REASONS = {
    "download-of-gigabytes": "is a download of gigabytes",
    "compiled-for-minutes": "is compiled for minutes",
    "compiled-for-hours": COMPILED_FOR_HOURS,
}
"""Why an installation takes minutes, by the names that the word list has for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPackages:
    """What is known of packages by their normalized names; the word list `packages` says it of each table.

    frameworks: the framework that a package is. slow: why it takes minutes to install, frameworks included. cpu_builds:
    the framework, and the package that is its build for GPUs.
    """

    frameworks: Mapping[str, str]
    needs_pytorch: frozenset[str]
    pytorch_builds: frozenset[str]
    slow: Mapping[str, str]
    slow_from_repository: frozenset[str]
    cpu_builds: Mapping[str, tuple[str, str]]
    build_tools: frozenset[str]
    system_package_managers: frozenset[str]


@cache
def known_packages() -> KnownPackages:
    """All packages that are known. Raises WordListError where a site's list is broken."""
    return known_packages_of(word_lists("packages"))


def known_packages_of(lists: Iterable[WordList]) -> KnownPackages:
    """The packages of some word lists; of a name that is there twice the later entry counts."""
    lists = tuple(lists)

    def names(key: str) -> frozenset[str]:
        return frozenset(name for one in lists for name in one.get(key, ()))

    frameworks = {name: framework for one in lists for name, framework in one.get("frameworks", {}).items()}
    slow = {
        name: _REASONS[reason] for one in lists for reason, listed in one.get("slow", {}).items() for name in listed
    }
    return KnownPackages(
        frameworks=frameworks,
        needs_pytorch=names("needsPytorch"),
        pytorch_builds=names("pytorchBuilds"),
        slow={**slow, **dict.fromkeys(frameworks, _REASONS["download-of-gigabytes"])},
        slow_from_repository=names("slowFromRepository"),
        cpu_builds={
            name: (build["framework"], build["gpuBuild"])
            for one in lists
            for name, build in one.get("cpuBuilds", {}).items()
        },
        build_tools=names("buildTools"),
        system_package_managers=names("systemPackageManagers"),
    )


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


def packages(command: Command) -> list[Package]:
    """The packages that an installation names, those of a requirements file in sight included, unknown words left out.

    Systems' packages go without the version in their name: `cuda-toolkit-12-4`.
    """
    found = [package for word in command.packages if word.text and (package := _package(word)) is not None]
    if command.tool in known_packages().system_package_managers:
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
    if command.tool in {"git", *known_packages().build_tools, *known_packages().system_package_managers}:
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
    index, known = _cpu_index(command), known_packages()
    for package in packages(command):
        text = package.word.text or ""
        if package.name in known.cpu_builds:
            framework, name = known.cpu_builds[package.name]
            return CpuBuild(framework=framework, package=package, instead=_renamed(text, name))
        if package.name == "jax" and text.startswith("jax[cpu]"):
            return CpuBuild(framework="JAX", package=package, instead=text.replace("[cpu]", "[cuda12]", 1))
        if package.name in known.pytorch_builds:
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
    known, build_tools = [word.text for word in command.invocation.argv], known_packages().build_tools
    return (
        None if None in known or command.tool in build_tools else shlex.join(text for text in known if text is not None)
    )


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
    "COMPILED_FOR_HOURS",
    "CpuBuild",
    "KnownPackages",
    "Package",
    "build_command",
    "clone_of",
    "command_line",
    "cpu_build",
    "installs_from",
    "known_packages",
    "known_packages_of",
    "offline",
    "packages",
    "upgrades",
]
