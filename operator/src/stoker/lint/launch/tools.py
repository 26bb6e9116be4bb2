"""Tools that are no launchers: what they install, fetch, copy and wait for, told by their words alone."""

import re
from collections.abc import Callable, Sequence

from stoker.lint.launch.launchers.counts import words_of
from stoker.lint.launch.model import Command, Role
from stoker.lint.launch.options import tail
from stoker.shell.model import Invocation, Word
from stoker.shell.short_options import has_short_option
from stoker.shell.wrapper import duration

Handler = Callable[[Invocation, str, Sequence[Word]], Command]

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


def plain(invocation: Invocation, role: Role, tool: str) -> Command:
    """A command of which only the role is known."""
    return Command(invocation=invocation, role=role, tool=tool)


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
        return plain(invocation, Role.TRIVIAL, name)
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
    return plain(invocation, Role.WAIT, name)


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
        return plain(invocation, Role.TRIVIAL, name)
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
            return plain(invocation, Role.TRIVIAL, name)
    elif verb not in ("install", "create", "update", "upgrade"):
        return plain(invocation, Role.TRIVIAL, name)
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
        return plain(invocation, Role.TRIVIAL, name)
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
        return plain(invocation, Role.OPAQUE, name)
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
    return plain(invocation, Role.TRIVIAL, name)


def _fetch(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """wget, curl and kin: a request to this pod, or one that sends something, is no download."""
    texts = texts_of(words)
    if name == "curl" and any(
        text in ("-X", "--request", "-d", "--data", "-F", "--form", "-T", "--upload-file", "-I", "--head")
        or text.startswith(("--data", "-X", "--request=", "-d@"))
        for text in texts
    ):
        return plain(invocation, Role.TRIVIAL, name)
    if name == "wget" and "--spider" in texts:
        return plain(invocation, Role.TRIVIAL, name)
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
        return plain(invocation, Role.TRIVIAL, name)
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
        return plain(invocation, Role.UPLOAD, name)
    return plain(invocation, Role.TRIVIAL, name)


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
        return plain(invocation, Role.TRIVIAL, name)
    if verb in ("get", "-get", "-copyToLocal", "download", "download-batch"):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(places) or urls(words))
    if verb in ("put", "-put", "-copyFromLocal", "upload", "upload-batch"):
        return plain(invocation, Role.UPLOAD, name)
    operands = [word for word in words[texts.index(verb) + 1 :] if not (word.text or word.prefix).startswith("-")]
    if not operands or (operands[0].text is None and not operands[0].prefix):
        return plain(invocation, Role.OTHER, name)
    if _CLOUDS.search(operands[0].text or operands[0].prefix):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=(operands[0],))
    return plain(invocation, Role.UPLOAD, name)


def _copy(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = texts_of(words)
    if name == "cp" and not any(
        text in ("--recursive", "--archive") or has_short_option(text, "rRa") for text in texts
    ):
        return plain(invocation, Role.TRIVIAL, name)
    return plain(invocation, Role.COPY, name)


def _uv(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    verb = words[0].text if words else None
    if verb in ("pip", "add", "sync"):
        return pip(invocation, name, words)
    if verb in ("install", "update") and name != "uv":
        return _build(invocation, name, words[1:])
    return plain(invocation, Role.TRIVIAL if verb not in ("run", "tool", None) else Role.OPAQUE, name)


def _daemon(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Sshd goes to the background unless -D keeps it in front."""
    front = any(has_short_option(text, "D") for text in texts_of(words))
    return plain(invocation, Role.INTERACTIVE if front else Role.TRIVIAL, name)


def _board(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """Dashboards, which serve until they are stopped; mlflow has commands that end."""
    if name == "mlflow" and not {"ui", "server"}.intersection(texts_of(words)):
        return plain(invocation, Role.OTHER, name)
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
    return plain(invocation, Role.TRIVIAL, name)


def _find(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    runs = any(text in ("-exec", "-execdir", "-ok") for text in texts_of(words))
    return plain(invocation, Role.OPAQUE if runs else Role.TRIVIAL, name)


def _source(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    """A sourced file that could be read was followed; environments' activation is harmless, the rest unknown."""
    text = (words[0].text or "") if words else ""
    harmless = _HARMLESS_SOURCE.search(text) is not None or "env" in text.rpartition("/")[2]
    return plain(invocation, Role.TRIVIAL if harmless else Role.OPAQUE, name)


HANDLERS: dict[str, Handler] = {
    "sleep": _sleep,
    "tail": _tail,
    "wait": _wait,
    **dict.fromkeys(("pip", "pip2", "pip3"), pip),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _conda),
    **dict.fromkeys(("apt", "apt-get", "aptitude", "apk", "yum", "dnf", "microdnf", "zypper", "npm", "yarn-pkg"),
    _system),
    **dict.fromkeys(("cmake", "ninja", "bazel", "meson", "easy_install", "mim"), _build),
    **dict.fromkeys(("poetry", "pipenv", "pdm", "rye", "pixi", "hatch", "uv"), _uv),
    "make": _make,
    "git": _git,
    "git-lfs": _git,
    **dict.fromkeys(("wget", "curl", "aria2c", "axel"), _fetch),
    **dict.fromkeys(("huggingface-cli", "hf", "modelscope", "kaggle", "gdown", "dvc", "wandb"), _hub),
    **dict.fromkeys(
        ("aws", "gsutil", "gcloud", "azcopy", "az", "rclone", "mc", "s5cmd", "s3cmd", "ossutil", "ossutil64",
         "coscli", "obsutil"),
        _cloud,
    ),
    **dict.fromkeys(("cp", "rsync", "scp", "tar", "unzip", "unrar", "7z", "pigz", "gunzip", "zstd"), _copy),
    "sshd": _daemon,
    **dict.fromkeys(("tensorboard", "mlflow", "streamlit", "gradio"), _board),
    **dict.fromkeys(("nvidia-smi", "gpustat", "rocm-smi"), _loop_monitor),
    "find": _find,
    "source": _source,
    ".": _source,
}  # fmt: skip
