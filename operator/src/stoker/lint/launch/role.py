"""What a command is for: launch, install, download, sleep, interactive, ... decided by its words alone.

`classify` asks the word lists of launchers and tools, and reads what depends on arguments itself. Used by
lint.launch.plan for every command of a script.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from stoker.lint.launch.launchers import programs, wrapping
from stoker.lint.launch.launchers.counts import LaunchContext, LaunchReader
from stoker.lint.launch.launchers.table import ANY_NUMBER, launchers
from stoker.lint.launch.launchers.torch_elastic import torchrun
from stoker.lint.launch.model import Command, Launch, Launcher, Role
from stoker.lint.launch.tools import pip, texts_of, tools, with_role
from stoker.shell.model import Invocation, Word
from stoker.shell.words import SHELLS, has_short_option

_HADOOP_YARN = frozenset({"application", "jar", "logs", "node", "queue"})
"""Words by which Hadoop's yarn is told from the package manager."""
_GPU_HINT = re.compile(r"gpu|rapids|cuda|nvidia|cudf", re.IGNORECASE)
_BY_VERB = frozenset({"accelerate", "colossalai", "ray", "sglang", "tune", "vllm"})
"""Tools whose first word decides; `_by_verb` reads those that the word list of launchers has not."""


_FETCHES = re.compile(r"snapshot_download|hf_hub_download|load_dataset\(|from_pretrained\(|urlretrieve|gdown\.")
_HUB_REPOSITORY = re.compile(
    r"(?:snapshot_download|hf_hub_download|load_dataset|from_pretrained)\(\s*(?:repo_id\s*=\s*|path\s*=\s*)?"
    r"""["\x27](?!(?:ckpts?|checkpoints?|data|exp|experiments|logs?|models?|outputs?|results?|runs?)/)"""
    r"""[A-Za-z0-9][\w.-]*/[\w.-]+["\x27]"""
)
_TORCH_HUB = re.compile(
    r"""hub\.load\(\s*(?:repo_or_dir\s*=\s*)?["'][\w.-]+/[\w.-]+(?::[\w./-]+)?["'](?!.*["']local["'])"""
)
_COMPUTES = re.compile(r"cuda|\.to\(|generate\(|pipeline\(|\bLLM\(")
_TRAINS = re.compile(r"\.backward\(|\.fit\(|\bTrainer\(|\.train\(|\btrain\(|\bmain\(|range\(|\bwhile\b")


_SLEEPS_ON = re.compile(
    r"\s*(?:import time|from time import sleep)[^\S\n]*[;\n]\s*while\s+(?:True|1)\s*:\s*(?:time\.)?sleep\([\d*. ]+\)\s*"
)
"""A program that does nothing but sleep, without end."""


def classify(invocation: Invocation, context: LaunchContext) -> Command:
    """The role of one command."""
    name = invocation.name
    if name is None:
        return Command(invocation=invocation, role=Role.OPAQUE)
    arguments = invocation.argv[1:]
    if re.fullmatch(r"(python|pypy)[\d.]*|python3-dbg", name):
        return _python(invocation, arguments, context)
    verb = arguments[0].text or "" if arguments else ""
    if reader := launchers().subcommands.get((name, verb)):
        return _launch(invocation, reader, arguments[1:], context)
    if reader := launchers().commands.get(name):
        return _launch(invocation, reader, arguments, context)
    if name in _BY_VERB:
        return _by_verb(invocation, name, arguments, context)
    if name == "env" and any(word.prefix.startswith("-S") for word in arguments):
        return with_role(invocation, Role.OPAQUE, name)
    role = tools().subcommands.get((name, verb))
    if role is not None and (role is not Role.TRIVIAL or not any(word.many for word in arguments)):
        return with_role(invocation, role, name, arguments)
    if tool_reader := tools().readers.get(name):
        return tool_reader(invocation, name, arguments)
    if name in SHELLS:
        return _shell(invocation, arguments)
    if (role := tools().roles.get(name)) is not None:
        return _with_known_role(invocation, role, name, arguments)
    if name.endswith((".sh", ".bash")):
        return _unseen(invocation, name)
    if name.endswith(".py"):
        return _launched(invocation, programs.python(invocation, (invocation.argv[0],), arguments), name)
    return Command(invocation=invocation, role=Role.OTHER, tool=name)


def _with_known_role(invocation: Invocation, role: Role, name: str, arguments: Sequence[Word]) -> Command:
    """A program whose role the word list gives, in the light of its arguments."""
    match role:
        case Role.NON_DL if name == "yarn" and not (arguments and arguments[0].text in _HADOOP_YARN):
            return Command(invocation=invocation, role=Role.OTHER, tool=name)
        case Role.NON_DL:
            hinted = any(_GPU_HINT.search(str(word)) or word.many for word in arguments)
            return with_role(invocation, Role.OTHER if hinted else Role.NON_DL, name)
        case Role.INTERACTIVE:
            return _interactive(invocation, name, arguments)
        case Role.OPAQUE:
            return _unseen(invocation, name)
        case _:
            return with_role(invocation, role, name, arguments)


def _unseen(invocation: Invocation, name: str) -> Command:
    """A program that runs something else: a launch where its words show one."""
    launch = wrapping.script(invocation, invocation.argv)
    return with_role(invocation, Role.OPAQUE, name) if launch is None else _launched(invocation, launch, name)


def _launched(invocation: Invocation, launch: Launch, tool: str) -> Command:
    return Command(invocation=invocation, role=Role.LAUNCH, tool=tool, launch=launch)


def _launch(invocation: Invocation, reader: LaunchReader, arguments: Sequence[Word], context: LaunchContext) -> Command:
    if arguments and all(word.text in ("--help", "-h", "--version", "-V", "--check-build") for word in arguments):
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=invocation.name or "")
    return _launched(invocation, reader(invocation, arguments, context), invocation.name or "")


def _python(invocation: Invocation, arguments: Sequence[Word], context: LaunchContext) -> Command:
    form, words = programs.python_program(arguments)
    if form == "version":
        return Command(invocation=invocation, role=Role.TRIVIAL, tool="python")
    if form == "?":
        return Command(invocation=invocation, role=Role.OPAQUE, tool="python")
    if form in ("", "-"):
        if invocation.stdin_text is None and not invocation.reads_pipe and form == "":
            return Command(invocation=invocation, role=Role.INTERACTIVE, tool="python")
        if invocation.stdin_text is not None and _SLEEPS_ON.fullmatch(invocation.stdin_text):
            return Command(invocation=invocation, role=Role.ENDLESS, tool="python", seconds=float("inf"))
        if invocation.stdin_text is not None and not _TRAINS.search(invocation.stdin_text):
            fetches = not _COMPUTES.search(invocation.stdin_text)
            download = _download(invocation, invocation.stdin_text) if fetches else None
            return download or Command(invocation=invocation, role=Role.OTHER, tool="python")
        return _launched(invocation, programs.python(invocation, (Word.known("-"),), words), "python")
    if form == "-c":
        return _python_text(invocation, words)
    if not words:
        return Command(invocation=invocation, role=Role.TRIVIAL, tool="python")
    head = words[0]
    if form == "file":
        name = (head.text or "").rsplit("/", 1)[-1]
        # `python yolo` may run a folder of that name: no launcher is meant by it.
        if launchers().commands.get(name, ANY_NUMBER) is not ANY_NUMBER or name == "accelerate":
            return classify_as(invocation, words, context)
        if name == "setup.py":
            return Command(invocation=invocation, role=Role.INSTALL, tool="setup.py", packages=(head,))
        if name in ("pip", "pip3"):
            return pip(invocation, "pip", words[1:])
        if head.text is None and head.many and len(words) == 1:
            return Command(invocation=invocation, role=Role.OPAQUE, tool="python")
        return _maybe(invocation, programs.python(invocation, (head,), words[1:]))
    module = head.text or ""
    if (command := tools().module_commands.get(module)) is not None:
        return classify_as(invocation, (Word.known(command, head.span), *words[1:]), context)
    if (reader := launchers().modules.get(module)) is not None:
        return _launched(invocation, reader(invocation, words[1:], context), module)
    role = tools().modules.get(module)
    if role is Role.INTERACTIVE:
        return _interactive(invocation, module, words[1:])
    if role is not None:
        return with_role(invocation, role, module, words[1:])
    if module == "debugpy":
        return _debugpy(invocation, words[1:])
    if module == "spacy" and len(words) > 1 and words[1].text == "download":
        return with_role(invocation, Role.DOWNLOAD, module, words[1:])
    if module == "build" or module.startswith("cmake"):
        return Command(invocation=invocation, role=Role.INSTALL, tool=module)
    option = Word.known("-m", head.span)
    return _maybe(invocation, programs.python(invocation, (option, head), words[1:]))


def _maybe(invocation: Invocation, launch: Launch) -> Command:
    """A program whose output is captured prepares something; it is not what the job is for."""
    if invocation.captured:
        return Command(invocation=invocation, role=Role.OTHER, tool="python")
    return _launched(invocation, launch, "python")


def classify_as(invocation: Invocation, words: Sequence[Word], context: LaunchContext) -> Command:
    """`python -m accelerate launch`, `python $(which torchrun)`: as the command that the words are."""
    inner = Invocation(
        argv=tuple(words),
        span=invocation.span,
        environment=invocation.environment,
    )
    command = classify(inner, context)
    launch = command.launch
    if launch is not None:
        launch = replace(launch, invocation=invocation)
    return replace(command, invocation=invocation, launch=launch)


def _download(invocation: Invocation, text: str) -> Command | None:
    """A program text that fetches models or data; from the Hugging Face Hub where it names a repository there."""
    if _TORCH_HUB.search(text) and not _COMPUTES.search(text) and not _TRAINS.search(text):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool="torch.hub")
    if _FETCHES.search(text) is None:
        return None
    public = _HUB_REPOSITORY.search(text) is not None and "local_files_only=True" not in text
    return Command(invocation=invocation, role=Role.DOWNLOAD, tool="huggingface_hub" if public else "python")


def _python_text(invocation: Invocation, words: Sequence[Word]) -> Command:
    text = (words[0].text or "") if words else ""
    download = _download(invocation, text)
    if download is not None:
        return download
    slept = re.fullmatch(
        r"\s*(?:import time|from time import sleep)[^\S\n]*[;\n]\s*(?:time\.)?sleep\((\d+(?:\.\d+)?)\)\s*", text
    )
    if slept is not None:
        return Command(invocation=invocation, role=Role.SLEEP, tool="python", seconds=float(slept[1]))
    if _SLEEPS_ON.fullmatch(text):
        return Command(invocation=invocation, role=Role.ENDLESS, tool="python", seconds=float("inf"))
    if _TRAINS.search(text) and not invocation.captured:
        return _launched(
            invocation, programs.python(invocation, (Word.known("-c"), words[0]), tuple(words[1:])), "python"
        )
    return Command(invocation=invocation, role=Role.OTHER, tool="python")


def _debugpy(invocation: Invocation, words: Sequence[Word]) -> Command:
    if any(word.text == "--wait-for-client" for word in words):
        return Command(invocation=invocation, role=Role.INTERACTIVE, tool="debugpy")
    position = 0
    while position < len(words) and (words[position].prefix.startswith("-")):
        position += 2 if words[position].text in ("--listen", "--connect", "--log-to", "--pid") else 1
    rest = words[position:]
    if not rest:
        return Command(invocation=invocation, role=Role.OTHER, tool="debugpy")
    return _launched(invocation, programs.python(invocation, (rest[0],), tuple(rest[1:])), "python")


def _by_verb(invocation: Invocation, name: str, words: Sequence[Word], context: LaunchContext) -> Command:
    """Tools whose first word decides, and that start nothing by the other ones."""
    verb = words[0].text if words else None
    rest = words[1:]
    match name, verb:
        case "tune", "run":
            given = any(word.prefix.startswith(("--nproc", "--nnodes")) for word in rest)
            return _launch(invocation, torchrun if given else ANY_NUMBER, rest, context)
        case "tune", "download":
            return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(rest[:1]))
        case "ray", "status" | "stop" | "list" | "--version":
            return with_role(invocation, Role.TRIVIAL, name)
        case "ray", str():
            return _launch(invocation, programs.unknown_counts(Launcher.RAY), words, context)
        case "accelerate" | "vllm", str():
            return with_role(invocation, Role.TRIVIAL, name)
        case _:
            return Command(invocation=invocation, role=Role.OPAQUE, tool=name)


def _shell(invocation: Invocation, words: Sequence[Word]) -> Command:
    """A shell that the interpreter could not follow."""
    name = invocation.name or ""
    launch = wrapping.script(invocation, words)
    if launch is not None:
        return _launched(invocation, launch, name)
    texts = texts_of(words)
    operands = [text for text in texts if not text.startswith("-")]
    given = any(has_short_option(text, "c") for text in texts) or any(word.text is None for word in words)
    if not operands and not given and not invocation.reads_pipe and invocation.stdin_text is None and "-s" not in texts:
        return with_role(invocation, Role.INTERACTIVE, name)
    return with_role(invocation, Role.OPAQUE, name)


def _interactive(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = [text for text in texts_of(words) if not text.startswith("-")]
    if name.startswith("jupyter") and texts and texts[0] in (
        "nbconvert", "execute", "kernelspec", "labextension", "nbextension", "serverextension", "--version",
        "server-config",
        "trust", "run",
    ):  # fmt: skip
        return with_role(invocation, Role.OTHER if texts[0] in ("nbconvert", "execute", "run") else Role.TRIVIAL, name)
    if name == "jupyter" and "--generate-config" in texts_of(words):
        return with_role(invocation, Role.TRIVIAL, name)
    stays = any(text in ("-i", "--interactive") for text in texts_of(words))
    if not stays and name.lower() in ("ipython", "bpython", "ptpython") and (texts or any(word.many for word in words)):
        return _launched(invocation, programs.python(invocation, tuple(words[:1]), tuple(words[1:])), name)
    if name in ("pdb", "ipdb", "marimo") and name == "marimo" and texts[:1] != ["edit"]:
        return with_role(invocation, Role.OTHER, name)
    return with_role(invocation, Role.INTERACTIVE, name)
