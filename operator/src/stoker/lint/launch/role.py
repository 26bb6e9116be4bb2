"""What a command is for: launch, install, download, sleep, interactive, ... decided by its words alone."""

import re
from collections.abc import Sequence
from dataclasses import replace

from stoker.lint.launch.launchers import programs, wrapping
from stoker.lint.launch.launchers.counts import Reader, Setting, words_of
from stoker.lint.launch.launchers.table import COMMANDS, MODULES, VERBS
from stoker.lint.launch.launchers.torch_elastic import torchrun
from stoker.lint.launch.model import Command, Launch, Launcher, Role
from stoker.lint.launch.tools import HANDLERS, pip, plain, texts_of, urls
from stoker.shell.interpreter import SHELLS
from stoker.shell.model import Invocation, Word
from stoker.shell.short_options import has_short_option

TRIVIAL = words_of(
    "echo printf mkdir cd pushd popd cp mv rm rmdir ln export chmod chown chgrp ls cat tee date hostname pwd whoami "
    "env printenv nvidia-smi rocm-smi df free ulimit sysctl touch sed awk gawk mawk grep egrep fgrep zgrep cut tr "
    "sort uniq find head which id uname kill pkill killall test stat du ssh-keygen ssh-keyscan ssh-agent "
    "ssh-add wc seq basename dirname readlink realpath expr bc lscpu lspci lsmod ps pgrep ping nslookup dig getent ip "
    "ifconfig netstat ss mount umount modprobe ldconfig update-alternatives locale-gen module ml type command alias "
    "logger sync true false clear reset stty nproc diff cmp md5sum sha256sum file column paste comm split fold rev "
    "tac yes jq yq envsubst mktemp mkfifo service numastat ibstat ibv_devinfo nvcc gcc hash pidof "
    "renice trap shopt umask history dirs fg bg jobs disown times locale tput fc bind complete compgen enable help "
    "caller tree source . useradd adduser usermod groupadd passwd chsh crontab hostnamectl timedatectl "
    "gpustat getconf mpstat vmstat iostat ethtool rdma ulimit strings xxd od base64 openssl gpg less more nl pr look "
    "tsort shuf truncate fallocate nc ncat netcat lsof scontrol squeue sinfo sacct man rpm dpkg"
)


_NON_DL = words_of(
    "spark-submit pyspark spark-shell spark-sql spark-class sparkR beeline hadoop hdfs yarn mapred hive pig sqoop "
    "flink flume-ng hbase Rscript R dask dask-scheduler dask-ssh dask-worker psql mysql mysqld mongod redis-server "
    "postgres presto trino stata stata-mp sas octave nginx apache2 httpd"
)


_HADOOP_YARN = words_of("application jar node logs queue")


_GPU_HINT = re.compile(r"gpu|rapids|cuda|nvidia|cudf", re.IGNORECASE)


_INTERACTIVE = words_of(
    "jupyter jupyter-lab jupyter-notebook jupyterhub-singleuser jupyterlab ipython code-server openvscode-server "
    "rstudio-server rserver theia ttyd gotty xrdp vncserver start-notebook.sh start-notebook.py start-singleuser.sh "
    "marimo bpython ptpython vncsession"
)


_OPAQUE = words_of(
    "xargs parallel ssh pdsh clush docker podman nerdctl kubectl tmux screen at batch nohup entrypoint.sh "
    "run.sh start.sh expect script su runuser eval sshpass supervisord s6-svscan runsvdir"
)


_PROGRAMS = words_of(
    "fairseq-train fairseq-hydra-train fairseq-generate axolotl nemo litgpt oumi trl "
    "autotrain lightning fabric megatron t5x ludwig yolo nnUNetv2_train nnUNet_train ns-train "
    "torchserve trtllm-serve lmdeploy mii-server aphrodite ollama llama-server"
)


_BY_VERB = words_of("accelerate vllm sglang ray tune colossalai")
_RUNNERS = frozenset(
    {("dvc", "repro"), ("dvc", "exp"), ("npm", "run"), ("npm", "start"), ("yarn", "run"), ("invoke", "train")}
)
"""Tools that run what a file says: a stage of a pipeline, a script of a package."""
_SESSIONS = frozenset(("tmux", verb) for verb in ("new", "new-session", "start-server", "set", "set-option", "ls"))
"""Terminals without a command: what had one was followed."""
_MONITORS = words_of("watch top htop nvtop nvitop inotifywait pause")


_ALIASES = {
    **{name: name for name in ("accelerate", "vllm", "pip", "uv", "wandb", "mim")},
    "accelerate.commands.accelerate_cli": "accelerate",
    "vllm.entrypoints.cli.main": "vllm",
    "huggingface_hub.commands.huggingface_cli": "huggingface-cli",
}
"""Modules that are commands: `python -m NAME`."""
_INTERACTIVE_MODULES = words_of(
    "jupyter jupyterlab notebook ipykernel ipykernel_launcher IPython pdb ipdb jupyter_server marimo"
)


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


def classify(invocation: Invocation, setting: Setting) -> Command:
    """The role of one command."""
    name = invocation.name
    if name is None:
        return Command(invocation=invocation, role=Role.OPAQUE)
    arguments = invocation.argv[1:]
    if re.fullmatch(r"(python|pypy)[\d.]*|python3-dbg", name):
        return _python(invocation, arguments, setting)
    if name in COMMANDS:
        return _launch(invocation, COMMANDS[name], arguments, setting)
    verb = arguments[0].text or "" if arguments else ""
    if (name, verb) in VERBS:
        return _launch(invocation, VERBS[name, verb], arguments[1:], setting)
    if name in _BY_VERB:
        return _by_verb(invocation, name, arguments, setting)
    if (name, verb) in _RUNNERS or (name == "env" and any(word.prefix.startswith("-S") for word in arguments)):
        return plain(invocation, Role.OPAQUE, name)
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(invocation, name, arguments)
    if name in SHELLS:
        return _shell(invocation, arguments)
    if name in _NON_DL and (name != "yarn" or (arguments and arguments[0].text in _HADOOP_YARN)):
        hinted = any(_GPU_HINT.search(str(word)) or word.many for word in arguments)
        return Command(invocation=invocation, role=Role.OTHER if hinted else Role.NON_DL, tool=name)
    if name == "code" and verb in ("tunnel", "serve-web"):
        return plain(invocation, Role.INTERACTIVE, name)
    if name in _INTERACTIVE:
        return _interactive(invocation, name, arguments)
    if name in _PROGRAMS:
        return _launch(invocation, programs.unknown_counts(Launcher.OTHER), arguments, setting)
    if name in _MONITORS:
        return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))
    if name in TRIVIAL:
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=name)
    if (name, verb) in _SESSIONS and not any(word.many for word in arguments):
        return plain(invocation, Role.TRIVIAL, name)
    if name in _OPAQUE or name.endswith((".sh", ".bash")):
        launch = wrapping.script(invocation, invocation.argv)
        if launch is not None:
            return _launched(invocation, launch, name)
        return Command(invocation=invocation, role=Role.OPAQUE, tool=name)
    if name.endswith(".py"):
        return _launched(invocation, programs.python(invocation, (invocation.argv[0],), arguments), name)
    return Command(invocation=invocation, role=Role.OTHER, tool=name)


def _launched(invocation: Invocation, launch: Launch, tool: str) -> Command:
    return Command(invocation=invocation, role=Role.LAUNCH, tool=tool, launch=launch)


def _launch(invocation: Invocation, reader: Reader, arguments: Sequence[Word], setting: Setting) -> Command:
    if arguments and all(word.text in ("--help", "-h", "--version", "-V", "--check-build") for word in arguments):
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=invocation.name or "")
    return _launched(invocation, reader(invocation, arguments, setting), invocation.name or "")


def _python(invocation: Invocation, arguments: Sequence[Word], setting: Setting) -> Command:
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
        if name in COMMANDS or name == "accelerate":
            return classify_as(invocation, words, setting)
        if name == "setup.py":
            return Command(invocation=invocation, role=Role.INSTALL, tool="setup.py", packages=(head,))
        if name in ("pip", "pip3"):
            return pip(invocation, "pip", words[1:])
        if head.text is None and head.many and len(words) == 1:
            return Command(invocation=invocation, role=Role.OPAQUE, tool="python")
        return _maybe(invocation, programs.python(invocation, (head,), words[1:]))
    module = head.text or ""
    if module in _ALIASES:
        return classify_as(invocation, (Word.known(_ALIASES[module], head.span), *words[1:]), setting)
    if module in MODULES:
        return _launched(invocation, MODULES[module](invocation, words[1:], setting), module)
    if module in _INTERACTIVE_MODULES:
        return _interactive(invocation, module, words[1:])
    if module == "debugpy":
        return _debugpy(invocation, words[1:])
    if module in ("http.server", "SimpleHTTPServer"):
        return Command(invocation=invocation, role=Role.ENDLESS, tool=module, seconds=float("inf"))
    if module in ("nltk.downloader", "gdown", "kaggle") or (
        module == "spacy" and len(words) > 1 and words[1].text == "download"
    ):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=module, urls=urls(words[1:]))
    if module in (
        "venv",
        "virtualenv",
        "compileall",
        "json.tool",
        "zipfile",
        "site",
        "sysconfig",
        "torch.utils.collect_env",
    ):
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=module)
    if module == "build" or module.startswith("cmake"):
        return Command(invocation=invocation, role=Role.INSTALL, tool=module)
    option = Word.known("-m", head.span)
    return _maybe(invocation, programs.python(invocation, (option, head), words[1:]))


def _maybe(invocation: Invocation, launch: Launch) -> Command:
    """A program whose output is captured prepares something; it is not what the job is for."""
    if invocation.captured:
        return Command(invocation=invocation, role=Role.OTHER, tool="python")
    return _launched(invocation, launch, "python")


def classify_as(invocation: Invocation, words: Sequence[Word], setting: Setting) -> Command:
    """`python -m accelerate launch`, `python $(which torchrun)`: as the command that the words are."""
    inner = Invocation(
        argv=tuple(words),
        span=invocation.span,
        environment=invocation.environment,
    )
    command = classify(inner, setting)
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


def _by_verb(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """Tools whose first word decides, and that start nothing by the other ones."""
    verb = words[0].text if words else None
    rest = words[1:]
    match name, verb:
        case "tune", "run":
            told = any(word.prefix.startswith(("--nproc", "--nnodes")) for word in rest)
            return _launch(invocation, torchrun if told else programs.unknown_counts(Launcher.OTHER), rest, setting)
        case "tune", "download":
            return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(rest[:1]))
        case "ray", "status" | "stop" | "list" | "--version":
            return plain(invocation, Role.TRIVIAL, name)
        case "ray", str():
            return _launch(invocation, programs.unknown_counts(Launcher.RAY), words, setting)
        case "accelerate" | "vllm", str():
            return plain(invocation, Role.TRIVIAL, name)
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
    told = any(has_short_option(text, "c") for text in texts) or any(word.text is None for word in words)
    if not operands and not told and not invocation.reads_pipe and invocation.stdin_text is None and "-s" not in texts:
        return plain(invocation, Role.INTERACTIVE, name)
    return plain(invocation, Role.OPAQUE, name)


def _interactive(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = [text for text in texts_of(words) if not text.startswith("-")]
    if name.startswith("jupyter") and texts and texts[0] in (
        "nbconvert", "execute", "kernelspec", "labextension", "nbextension", "serverextension", "--version",
        "server-config",
        "trust", "run",
    ):  # fmt: skip
        return plain(invocation, Role.OTHER if texts[0] in ("nbconvert", "execute", "run") else Role.TRIVIAL, name)
    if name == "jupyter" and "--generate-config" in texts_of(words):
        return plain(invocation, Role.TRIVIAL, name)
    stays = any(text in ("-i", "--interactive") for text in texts_of(words))
    if not stays and name.lower() in ("ipython", "bpython", "ptpython") and (texts or any(word.many for word in words)):
        return _launched(invocation, programs.python(invocation, tuple(words[:1]), tuple(words[1:])), name)
    if name in ("pdb", "ipdb", "marimo") and name == "marimo" and texts[:1] != ["edit"]:
        return plain(invocation, Role.OTHER, name)
    return plain(invocation, Role.INTERACTIVE, name)
