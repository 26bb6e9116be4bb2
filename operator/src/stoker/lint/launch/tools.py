"""Tools that are no launchers: what they install, fetch, copy and wait for, by the word list `tools` and their words.

Used by lint.launch.role, which asks for every command of a script.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from stoker.lint.launch.launchers.counts import words_of
from stoker.lint.launch.model import Command, Role
from stoker.lint.launch.options import tail
from stoker.lint.word_lists.loader import WordList, word_lists
from stoker.shell.model import Invocation, Word
from stoker.shell.words import duration, has_short_option

ToolReader = Callable[[Invocation, str, Sequence[Word]], Command]
"""Gives the role of a command: the invocation, the tool's name, and the words after it."""

_PIP_VALUED = words_of(
    "-c --constraint -i --index-url --extra-index-url -f --find-links -t --target --prefix --root --trusted-host "
    "--timeout --retries --proxy --cache-dir --python-version --platform --abi --implementation --config-settings -C "
    "--global-option --build-option --install-option --src --log --upgrade-strategy --no-binary --only-binary "
    "--progress-bar --root-user-action --cert --client-cert --report --python --index-strategy --index "
    "--torch-backend --allow-insecure-host --default-index --exclude-newer --extra --group --keyring-provider "
    "--link-mode --no-binary-package --no-build-isolation-package --no-build-package --no-group --only-group --package "
    "--prerelease --refresh-package --reinstall-package --resolution --upgrade-package"
)


_CONDA_VALUED = words_of("-n --name -p --prefix -c --channel --solver --root-prefix -r --platform")


_URL = re.compile(r"^(?:https?|ftp|s3|gs|hdfs|oss|cos|abfss?|wasbs?|az|hf)://|^git@")


_CLOUDS = re.compile(r"^(s3|gs|oss|cos|hdfs|az|abfss?|wasbs?|https?|gcs|minio)://|^[A-Za-z0-9_-]+:")


def texts_of(words: Sequence[Word]) -> list[str]:
    """What is known of each word."""
    return [word.text or word.prefix for word in words]


def urls(words: Sequence[Word]) -> tuple[Word, ...]:
    """The words that are addresses."""
    return tuple(word for word in words if _URL.search(word.text or word.prefix))


def with_role(invocation: Invocation, role: Role, tool: str, words: Sequence[Word] = ()) -> Command:
    """A command of which only the role is known. words: its arguments, of which a download's addresses are taken."""
    return Command(
        invocation=invocation,
        role=role,
        tool=tool,
        urls=urls(words) if role is Role.DOWNLOAD else (),
        seconds=float("inf") if role is Role.ENDLESS else None,
    )


def _sleep(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    total: float | None = 0.0
    for word in words:
        seconds = duration(word.text) if word.text is not None else None
        total = None if seconds is None or total is None else total + seconds
    if not words:
        total = None
    if total is not None and invocation.time_limit is not None:
        total = min(total, invocation.time_limit)
    endless = total == float("inf")
    return Command(invocation=invocation, role=Role.ENDLESS if endless else Role.SLEEP, tool=name, seconds=total)


def _tail(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = texts_of(words)
    follows = any(re.fullmatch(r"-[0-9nqvs]*[fF].*", text) or text.startswith("--follow") for text in texts)
    bounded = any(text.startswith("--pid") for text in texts)
    if not follows or bounded:
        return with_role(invocation, Role.TRIVIAL, name)
    if invocation.time_limit is not None and texts[-1] == "/dev/null":
        return Command(invocation=invocation, role=Role.SLEEP, tool=name, seconds=invocation.time_limit)
    return Command(
        invocation=invocation,
        role=Role.ENDLESS,
        tool=name,
        seconds=float("inf") if invocation.time_limit is None else invocation.time_limit,
    )


def _wait(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    del words
    return with_role(invocation, Role.WAIT, name)


def pip(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """pip, and `uv pip`, `uv add`, `uv sync`."""
    texts = texts_of(words)
    position = 0
    while position < len(texts) and texts[position].startswith("-"):
        position += 2 if texts[position] in _PIP_VALUED else 1
    verb = texts[position] if position < len(texts) else ""
    if verb == "pip":
        return pip(invocation, name, words[position + 1 :])
    if verb == "download":
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name)
    if verb not in ("install", "wheel", "sync", "add"):
        return with_role(invocation, Role.TRIVIAL, name)
    packages: list[Word] = []
    requirements: list[Word] = []
    position += 1
    while position < len(words):
        word, text = words[position], texts[position]
        following = words[position + 1] if position + 1 < len(words) else None
        if text in ("-r", "--requirement", "--requirements"):
            requirements += [following] if following is not None else []
            position += 2
        elif text.startswith(("-r", "--requirement=")) and len(text) > 2 and not text.startswith("--re-"):
            requirements.append(tail(word, len("--requirement=") if "=" in text else 2))
            position += 1
        elif text in ("-e", "--editable"):
            packages += [following] if following is not None else []
            position += 2
        elif text.startswith("-"):
            position += 2 if text in _PIP_VALUED else 1
        else:
            packages.append(word)
            position += 1
    return Command(
        invocation=invocation, role=Role.INSTALL, tool=name, packages=tuple(packages), requirements=tuple(requirements)
    )


def _conda(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = texts_of(words)
    verb = next((text for text in texts if not text.startswith("-")), "")
    if verb == "env":
        verb = next((text for text in texts[texts.index("env") + 1 :] if not text.startswith("-")), "")
        if verb not in ("create", "update"):
            return with_role(invocation, Role.TRIVIAL, name)
    elif verb not in ("install", "create", "update", "upgrade"):
        return with_role(invocation, Role.TRIVIAL, name)
    packages: list[Word] = []
    requirements: list[Word] = []
    position = texts.index(verb) + 1
    while position < len(words):
        if texts[position] in ("-f", "--file"):
            requirements += list(words[position + 1 : position + 2])
            position += 2
        elif texts[position].startswith("--file="):
            requirements.append(tail(words[position], len("--file=")))
            position += 1
        elif texts[position].startswith("-"):
            position += 2 if texts[position] in _CONDA_VALUED else 1
        else:
            packages.append(words[position])
            position += 1
    return Command(
        invocation=invocation, role=Role.INSTALL, tool=name, packages=tuple(packages), requirements=tuple(requirements)
    )


def _system(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """apt, apk, yum and kin."""
    texts = texts_of(words)
    verb = next((text for text in texts if not text.startswith("-")), "")
    if verb not in (
        "install",
        "add",
        "update",
        "upgrade",
        "dist-upgrade",
        "build-dep",
        "-S",
        "groupinstall",
        "ci",
        "i",
    ):
        return with_role(invocation, Role.TRIVIAL, name)
    position = texts.index(verb) + 1
    packages = tuple(word for word in words[position:] if not (word.text or word.prefix).startswith("-"))
    return Command(invocation=invocation, role=Role.INSTALL, tool=name, packages=packages)


_HARMLESS_SOURCE = re.compile(r"activate|conda|profile|bashrc|setvars|module|environment|venv|set_?env")
_RUNS = re.compile(r"train|run|eval|test|infer|predict|launch|serve|bench|tune|job|start", re.IGNORECASE)


def _make(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Builds, unless a target sounds like the job itself: what it runs stands in a file that nobody has seen."""
    targets = [
        word
        for before, word in zip([None, *texts_of(words)], words, strict=False)
        if not word.prefix.startswith("-") and "=" not in word.prefix and before not in ("-C", "-f", "-j", "-l", "-o")
    ]
    if any(word.text is None or _RUNS.search(word.text) for word in targets):
        return with_role(invocation, Role.OPAQUE, name)
    return _build(invocation, name, words)


def _build(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    packages = tuple(word for word in words if not (word.text or word.prefix).startswith("-"))
    return Command(invocation=invocation, role=Role.INSTALL, tool=name, packages=packages)


def _git(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = texts_of(words)
    position = 0
    while position < len(texts) and texts[position].startswith("-"):
        position += 2 if texts[position] in ("-C", "-c") else 1
    verb = texts[position] if position < len(texts) else ""
    if verb == "lfs" and position + 1 < len(texts) and texts[position + 1] in ("clone", "pull", "fetch"):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool="git lfs", urls=urls(words))
    if verb in ("clone", "submodule") and (verb == "clone" or "update" in texts):
        hub = any("huggingface.co" in text or "hf.co" in text for text in texts)
        return Command(
            invocation=invocation, role=Role.DOWNLOAD if hub else Role.INSTALL, tool=name, urls=urls(words),
            packages=() if hub else urls(words),
        )  # fmt: skip
    return with_role(invocation, Role.TRIVIAL, name)


def _fetch(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """wget, curl and kin: a request to this pod, or one that sends something, is no download."""
    texts = texts_of(words)
    if name == "curl" and any(
        text in ("-X", "--request", "-d", "--data", "-F", "--form", "-T", "--upload-file", "-I", "--head")
        or text.startswith(("--data", "-X", "--request=", "-d@"))
        for text in texts
    ):
        return with_role(invocation, Role.TRIVIAL, name)
    if name == "wget" and "--spider" in texts:
        return with_role(invocation, Role.TRIVIAL, name)
    skipped = words_of(
        "-O -o --output --output-document -P --directory-prefix -H --header -u --user -A --user-agent -d --dir -x -s "
        "-j -b --cookie -e --referer --retry --connect-timeout -m --max-time -i --input-file -U --tries -t -T "
        "--timeout --out --password -c-none"
    )
    addresses = urls(words) or tuple(
        word
        for index, word in enumerate(words)
        if not texts[index].startswith("-") and (index == 0 or texts[index - 1] not in skipped)
    )
    local = addresses and all(
        re.search(r"^(https?://)?(localhost|127\.0\.0\.1|\[::1\])", str(word)) for word in addresses
    )
    if local or not addresses:
        return with_role(invocation, Role.TRIVIAL, name)
    return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=addresses)


def _hub(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """huggingface-cli, hf, modelscope, kaggle, gdown, dvc, wandb."""
    texts = [text for text in texts_of(words) if not text.startswith("-")]
    downloads = {
        "huggingface-cli": ("download", "repo-download"), "hf": ("download",), "modelscope": ("download",),
        "kaggle": ("datasets", "competitions"), "dvc": ("pull", "fetch", "get", "import"), "wandb": ("artifact",),
    }  # fmt: skip
    if name == "gdown" or (texts and texts[0] in downloads.get(name, ())):
        named = [word for word in words if not (word.text or word.prefix).startswith("-")]
        skipped = 0 if name == "gdown" else 2 if name in ("kaggle", "wandb") else 1
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(named[skipped : skipped + 1]))
    if texts and texts[0] in ("upload", "push"):
        return with_role(invocation, Role.UPLOAD, name)
    return with_role(invocation, Role.TRIVIAL, name)


def _cloud(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Aws s3, gsutil, gcloud storage, azcopy, rclone, mc, s5cmd: by the direction of the copy."""
    texts = texts_of(words)
    places = [
        word
        for word in words
        if _CLOUDS.search(word.text or word.prefix) and not (word.text or word.prefix).startswith("-")
    ]
    verbs = {"cp", "sync", "copy", "rsync", "mirror", "mv", "get", "-get", "-copyToLocal", "download", "download-batch",
             "upload", "upload-batch", "put", "-put", "-copyFromLocal"}  # fmt: skip
    verb = next((text for text in texts if text in verbs), None)
    if verb is None:
        return with_role(invocation, Role.TRIVIAL, name)
    if verb in ("get", "-get", "-copyToLocal", "download", "download-batch"):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(places) or urls(words))
    if verb in ("put", "-put", "-copyFromLocal", "upload", "upload-batch"):
        return with_role(invocation, Role.UPLOAD, name)
    operands = [word for word in words[texts.index(verb) + 1 :] if not (word.text or word.prefix).startswith("-")]
    if not operands or (operands[0].text is None and not operands[0].prefix):
        return with_role(invocation, Role.OTHER, name)
    if _CLOUDS.search(operands[0].text or operands[0].prefix):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=(operands[0],))
    return with_role(invocation, Role.UPLOAD, name)


def _copy(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = texts_of(words)
    if name == "cp" and not any(
        text in ("--recursive", "--archive") or has_short_option(text, "rRa") for text in texts
    ):
        return with_role(invocation, Role.TRIVIAL, name)
    return with_role(invocation, Role.COPY, name)


def _uv(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    verb = words[0].text if words else None
    if verb in ("pip", "add", "sync"):
        return pip(invocation, name, words)
    if verb in ("install", "update") and name != "uv":
        return _build(invocation, name, words[1:])
    return with_role(invocation, Role.TRIVIAL if verb not in ("run", "tool", None) else Role.OPAQUE, name)


def _daemon(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Sshd goes to the background unless -D keeps it in front."""
    front = any(has_short_option(text, "D") for text in texts_of(words))
    return with_role(invocation, Role.INTERACTIVE if front else Role.TRIVIAL, name)


def _board(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Dashboards, which serve until they are stopped; mlflow has commands that end."""
    if name == "mlflow" and not {"ui", "server"}.intersection(texts_of(words)):
        return with_role(invocation, Role.OTHER, name)
    return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))


def _loop_monitor(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """nvidia-smi and gpustat: endless with a loop option."""
    texts = texts_of(words)
    endless = any(
        text in ("dmon", "pmon", "-i" if name == "gpustat" else "-l", "--interval", "--watch")
        or re.match(r"-lms|--loop|-l=|-l\d", text)
        for text in texts
    )
    if endless:
        return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))
    return with_role(invocation, Role.TRIVIAL, name)


def _find(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    runs = any(text in ("-exec", "-execdir", "-ok") for text in texts_of(words))
    return with_role(invocation, Role.OPAQUE if runs else Role.TRIVIAL, name)


def _source(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """A sourced file that could be read was followed; environments' activation is harmless, the rest unknown."""
    text = (words[0].text or "") if words else ""
    harmless = _HARMLESS_SOURCE.search(text) is not None or "env" in text.rpartition("/")[2]
    return with_role(invocation, Role.TRIVIAL if harmless else Role.OPAQUE, name)


READERS: Mapping[str, ToolReader] = {
    "build": _build,
    "cloud-storage": _cloud,
    "conda": _conda,
    "copy": _copy,
    "dashboard": _board,
    "fetch": _fetch,
    "find": _find,
    "git": _git,
    "gpu-monitor": _loop_monitor,
    "hub": _hub,
    "make": _make,
    "pip": pip,
    "sleep": _sleep,
    "source": _source,
    "sshd": _daemon,
    "system-packages": _system,
    "tail": _tail,
    "uv": _uv,
    "wait": _wait,
}
"""The readers by the names that the word list `tools` has for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What is known of tools by their names.

    readers: programs of which the arguments decide. roles: programs of which nothing else is to be said. subcommands:
    the role by the program's name and its first word. modules: the role of `python -m`, by the module; module_commands:
    the command that a module is. monitors: programs that run beside a training and take no GPU from it. gpu_words: of
    programs without deep learning, parts of options with which they use GPUs after all; plugins: those of which builds
    and plugins may use one without an option that says so.
    """

    readers: Mapping[str, ToolReader]
    roles: Mapping[str, Role]
    subcommands: Mapping[tuple[str, str], Role]
    modules: Mapping[str, Role]
    module_commands: Mapping[str, str]
    monitors: frozenset[str]
    gpu_words: Mapping[str, tuple[str, ...]]
    plugins: frozenset[str]


@cache
def tools() -> Tools:
    """All tools that are known. Raises WordListError where a site's list is broken."""
    return tools_of(word_lists("tools"))


def tools_of(lists: Iterable[WordList]) -> Tools:
    """The tools of some word lists; of a name that is there twice the later entry counts."""
    readers: dict[str, ToolReader] = {}
    roles: dict[str, Role] = {}
    subcommands: dict[tuple[str, str], Role] = {}
    modules: dict[str, Role] = {}
    module_commands: dict[str, str] = {}
    monitors: set[str] = set()
    gpu_words: dict[str, tuple[str, ...]] = {}
    plugins: set[str] = set()
    for one in lists:
        named = {name: Role(role) for role, names in one.get("commands", {}).items() for name in names}
        for entry in one.get("non-dl", {}).values():
            named |= dict.fromkeys(entry["commands"], Role.NON_DL)
            gpu_words |= dict.fromkeys(entry["commands"], tuple(entry.get("gpu-words", ())))
            plugins.update(entry["commands"] if entry.get("plugins") else ())
        roles |= named
        readers = {name: reader for name, reader in readers.items() if name not in named}
        for reader, names in one.get("readers", {}).items():
            readers |= dict.fromkeys(names, READERS[reader])
        for role, pairs in one.get("subcommands", {}).items():
            subcommands |= {(program, word): Role(role) for program, word in map(str.split, pairs)}
        listed = one.get("modules", {})
        modules |= {name: Role(role) for role, names in listed.items() if role != "commands" for name in names}
        module_commands |= listed.get("commands", {})
        monitors.update(one.get("monitors", ()))
    return Tools(
        readers=readers,
        roles=roles,
        subcommands=subcommands,
        modules=modules,
        module_commands=module_commands,
        monitors=frozenset(monitors),
        gpu_words=gpu_words,
        plugins=frozenset(plugins),
    )
