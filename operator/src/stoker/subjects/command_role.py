"""What a command is for: launch, install, download, sleep, interactive, ... decided by its words alone."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from stoker.subjects import launcher
from stoker.subjects.launch_model import Command, Launch, Launcher, Role
from stoker.subjects.launch_options import tail
from stoker.subjects.launcher import Reader, Setting
from stoker.subjects.shell_interpreter import SHELLS
from stoker.subjects.shell_model import Invocation, Word
from stoker.subjects.shell_wrapper import duration


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRIVIAL = _words(
    "echo printf mkdir cd pushd popd cp mv rm rmdir ln export chmod chown chgrp ls cat tee date hostname pwd whoami "
    "env printenv nvidia-smi rocm-smi df free ulimit sysctl touch sed awk gawk mawk grep egrep fgrep zgrep cut tr "
    "sort uniq find head which id uname kill pkill killall test xargs-none stat du ssh-keygen ssh-keyscan ssh-agent "
    "ssh-add wc seq basename dirname readlink realpath expr bc lscpu lspci lsmod ps pgrep ping nslookup dig getent ip "
    "ifconfig netstat ss mount umount modprobe ldconfig update-alternatives locale-gen module ml type command alias "
    "logger sync true false clear reset stty nproc diff cmp md5sum sha256sum file column paste comm split fold rev "
    "tac yes jq yq envsubst mktemp mkfifo install-none service numastat ibstat ibv_devinfo nvcc gcc ls_gpu hash pidof "
    "renice trap shopt umask history dirs fg bg jobs disown times locale tput fc bind complete compgen enable help "
    "caller tree source . wandb-none useradd adduser usermod groupadd passwd chsh crontab hostnamectl timedatectl "
    "gpustat getconf mpstat vmstat iostat ethtool rdma ulimit strings xxd od base64 openssl gpg less more nl pr look "
    "tsort shuf truncate fallocate"
)
_NON_DL = _words(
    "spark-submit pyspark spark-shell spark-sql spark-class sparkR beeline hadoop hdfs yarn mapred hive pig sqoop "
    "flink flume-ng hbase Rscript R dask dask-scheduler dask-ssh dask-worker psql mysql mysqld mongod redis-server "
    "postgres presto trino stata stata-mp sas octave nginx apache2 httpd"
)
_HADOOP_YARN = _words("application jar node logs queue")
_GPU_HINT = re.compile(r"gpu|rapids|cuda|nvidia|cudf", re.IGNORECASE)
_INTERACTIVE = _words(
    "jupyter jupyter-lab jupyter-notebook jupyterhub-singleuser jupyterlab ipython code-server openvscode-server "
    "rstudio-server rserver theia ttyd gotty xrdp vncserver start-notebook.sh start-notebook.py start-singleuser.sh "
    "marimo bpython ptpython vncsession"
)
_OPAQUE = _words(
    "xargs parallel ssh pdsh clush docker podman nerdctl kubectl tmux screen at batch nohup make-job entrypoint.sh "
    "run.sh start.sh expect script su runuser eval sshpass supervisord s6-svscan runsvdir"
)
_PROGRAMS = _words(
    "fairseq-train fairseq-hydra-train fairseq-generate llamafactory-cli axolotl swift xtuner nemo litgpt oumi trl "
    "autotrain lightning fabric megatron colossalai torchx t5x ludwig yolo nnUNetv2_train nnUNet_train ns-train mim "
    "torchserve trtllm-serve lmdeploy mii-server aphrodite ollama llama-server"
)
_MONITORS = _words("watch top htop nvtop nvitop inotifywait pause")
_LAUNCHERS: dict[str, Reader] = {
    "torchrun": launcher.torchrun,
    "torchrun-hpu": launcher.torchrun,
    "deepspeed": launcher.deepspeed,
    "ds": launcher.deepspeed,
    "accelerate-launch": launcher.accelerate,
    "mpirun": launcher.mpirun,
    "mpiexec": launcher.mpirun,
    "mpirun.openmpi": launcher.mpirun,
    "mpiexec.hydra": launcher.mpirun,
    "orterun": launcher.mpirun,
    "prterun": launcher.mpirun,
    "horovodrun": launcher.horovodrun,
    "srun": launcher.srun,
    "composer": launcher.composer,
    "text-generation-launcher": launcher.server(Launcher.TGI),
    "tritonserver": launcher.unknown_counts(Launcher.TRITON),
    "fleetrun": launcher.paddle,
}
_MODULES: dict[str, Reader] = {
    "torch.distributed.run": launcher.torchrun,
    "torch.distributed.launch": launcher.torch_launch,
    "torch.distributed.elastic_launch": launcher.torchrun,
    "accelerate.commands.launch": launcher.accelerate,
    "accelerate.launch": launcher.accelerate,
    "deepspeed": launcher.deepspeed,
    "deepspeed.launcher.runner": launcher.deepspeed,
    "paddle.distributed.launch": launcher.paddle,
    "composer.cli.launcher": launcher.composer,
    "vllm.entrypoints.openai.api_server": launcher.server(Launcher.VLLM),
    "vllm.entrypoints.api_server": launcher.server(Launcher.VLLM),
    "vllm.entrypoints.cli.main": launcher.server(Launcher.VLLM),
    "sglang.launch_server": launcher.server(Launcher.SGLANG),
    "sglang_router.launch_server": launcher.server(Launcher.SGLANG),
    "colossalai.cli": launcher.unknown_counts(Launcher.OTHER),
    "lightning": launcher.unknown_counts(Launcher.LIGHTNING),
}
_INTERACTIVE_MODULES = _words(
    "jupyter jupyterlab notebook ipykernel ipykernel_launcher IPython pdb ipdb jupyter_server marimo"
)
_FETCHES = re.compile(r"snapshot_download|hf_hub_download|load_dataset\(|from_pretrained\(|urlretrieve|gdown\.")
_HUB_REPOSITORY = re.compile(
    r"(?:snapshot_download|hf_hub_download|load_dataset|from_pretrained)\(\s*(?:repo_id\s*=\s*|path\s*=\s*)?"
    r"""["\x27](?!(?:ckpts?|checkpoints?|data|exp|experiments|logs?|models?|outputs?|results?|runs?)/)"""
    r"""[A-Za-z0-9][\w.-]*/[\w.-]+["\x27]"""
)
_COMPUTES = re.compile(r"cuda|\.to\(|generate\(|pipeline\(|\bLLM\(")
_TRAINS = re.compile(r"\.backward\(|\.fit\(|\bTrainer\(|\.train\(|\btrain\(|\bmain\(|range\(|\bwhile\b")
_PIP_VALUED = _words(
    "-c --constraint -i --index-url --extra-index-url -f --find-links -t --target --prefix --root --trusted-host "
    "--timeout --retries --proxy --cache-dir --python-version --platform --abi --implementation --config-settings -C "
    "--global-option --build-option --install-option --src --log --upgrade-strategy --no-binary --only-binary "
    "--progress-bar --root-user-action --cert --client-cert --report --python --index-strategy --index "
    "--torch-backend"
)
_CONDA_VALUED = _words("-n --name -p --prefix -c --channel --solver --root-prefix -r --platform")
_URL = re.compile(r"^(?:https?|ftp|s3|gs|hdfs|oss|cos|abfss?|wasbs?|az|hf)://|^git@")
_CLOUDS = re.compile(r"^(s3|gs|oss|cos|hdfs|az|abfss?|wasbs?|https?|gcs|minio)://|^[A-Za-z0-9_-]+:")


def classify(invocation: Invocation, setting: Setting) -> Command:
    """The role of one command."""
    name = invocation.name
    if name is None:
        return Command(invocation=invocation, role=Role.OPAQUE)
    arguments = invocation.argv[1:]
    if re.fullmatch(r"(python|pypy)[\d.]*|python3-dbg", name):
        return _python(invocation, arguments, setting)
    if name in _LAUNCHERS:
        return _launch(invocation, _LAUNCHERS[name], arguments, setting)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(invocation, name, arguments, setting)
    if name in SHELLS:
        return _shell(invocation, arguments)
    if name in _NON_DL and (name != "yarn" or (arguments and arguments[0].text in _HADOOP_YARN)):
        hinted = any(_GPU_HINT.search(str(word)) or word.many for word in arguments)
        return Command(invocation=invocation, role=Role.OTHER if hinted else Role.NON_DL, tool=name)
    if name in _INTERACTIVE:
        return _interactive(invocation, name, arguments)
    if name in _PROGRAMS:
        return _launch(invocation, launcher.unknown_counts(Launcher.OTHER), arguments, setting)
    if name in _MONITORS:
        return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))
    if name in TRIVIAL:
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=name)
    if name in _OPAQUE or name.endswith((".sh", ".bash")):
        return Command(invocation=invocation, role=Role.OPAQUE, tool=name)
    if name.endswith(".py"):
        return _launched(invocation, launcher.python(invocation, (invocation.argv[0],), arguments), name)
    return Command(invocation=invocation, role=Role.OTHER, tool=name)


def _launched(invocation: Invocation, launch: Launch, tool: str) -> Command:
    return Command(invocation=invocation, role=Role.LAUNCH, tool=tool, launch=launch)


def _launch(invocation: Invocation, reader: Reader, arguments: Sequence[Word], setting: Setting) -> Command:
    if arguments and all(word.text in ("--help", "-h", "--version", "-V", "--check-build") for word in arguments):
        return Command(invocation=invocation, role=Role.TRIVIAL, tool=invocation.name or "")
    return _launched(invocation, reader(invocation, arguments, setting), invocation.name or "")


# -------------------------------------------------------------------------------------------------------------- Python


def _python(invocation: Invocation, arguments: Sequence[Word], setting: Setting) -> Command:
    form, words = launcher.python_program(arguments)
    if form == "version":
        return Command(invocation=invocation, role=Role.TRIVIAL, tool="python")
    if form == "?":
        return Command(invocation=invocation, role=Role.OPAQUE, tool="python")
    if form in ("", "-"):
        if invocation.stdin_text is None and not invocation.reads_pipe and form == "":
            return Command(invocation=invocation, role=Role.INTERACTIVE, tool="python")
        if invocation.stdin_text is not None and not _TRAINS.search(invocation.stdin_text):
            fetches = not _COMPUTES.search(invocation.stdin_text)
            download = _download(invocation, invocation.stdin_text) if fetches else None
            return download or Command(invocation=invocation, role=Role.OTHER, tool="python")
        return _launched(invocation, launcher.python(invocation, (Word.known("-"),), words), "python")
    if form == "-c":
        return _python_text(invocation, words)
    if not words:
        return Command(invocation=invocation, role=Role.TRIVIAL, tool="python")
    head = words[0]
    if form == "file":
        name = (head.text or "").rsplit("/", 1)[-1]
        if name in _LAUNCHERS or name == "accelerate":
            return classify_as(invocation, words, setting)
        if name == "setup.py":
            return Command(invocation=invocation, role=Role.INSTALL, tool="setup.py", packages=(head,))
        if name in ("pip", "pip3"):
            return _pip(invocation, "pip", words[1:], setting)
        if head.text is None and head.many and len(words) == 1:
            return Command(invocation=invocation, role=Role.OPAQUE, tool="python")
        return _maybe(invocation, launcher.python(invocation, (head,), words[1:]))
    module = head.text or ""
    if module in _MODULES:
        return _launched(invocation, _MODULES[module](invocation, words[1:], setting), module)
    if module in ("accelerate", "accelerate.commands.accelerate_cli", "vllm", "pip", "uv"):
        return classify_as(invocation, words, setting)
    if module in ("horovod.runner", "horovod.runner.launch", "horovod.run"):
        return _launch(invocation, launcher.horovodrun, words[1:], setting)
    if module in _INTERACTIVE_MODULES:
        return _interactive(invocation, module, words[1:])
    if module == "debugpy":
        return _debugpy(invocation, words[1:])
    if module in ("http.server", "SimpleHTTPServer"):
        return Command(invocation=invocation, role=Role.ENDLESS, tool=module, seconds=float("inf"))
    if module in ("nltk.downloader", "gdown", "kaggle", "huggingface_hub.commands.huggingface_cli") or (
        module == "spacy" and len(words) > 1 and words[1].text == "download"
    ):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=module, urls=_urls(words[1:]))
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
    return _maybe(invocation, launcher.python(invocation, (option, head), words[1:]))


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
        r"\s*(?:import time|from time import sleep)\s*[;\n]\s*(?:time\.)?sleep\((\d+(?:\.\d+)?)\)\s*", text
    )
    if slept is not None:
        return Command(invocation=invocation, role=Role.SLEEP, tool="python", seconds=float(slept[1]))
    if _TRAINS.search(text) and not invocation.captured:
        return _launched(
            invocation, launcher.python(invocation, (Word.known("-c"), words[0]), tuple(words[1:])), "python"
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
    return _launched(invocation, launcher.python(invocation, (rest[0],), tuple(rest[1:])), "python")


# ------------------------------------------------------------------------------------------------------------- handlers

Handler = Callable[[Invocation, str, Sequence[Word], Setting], Command]


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text or word.prefix for word in words]


def _urls(words: Sequence[Word]) -> tuple[Word, ...]:
    return tuple(word for word in words if _URL.search(word.text or word.prefix))


def _plain(invocation: Invocation, role: Role, tool: str) -> Command:
    return Command(invocation=invocation, role=role, tool=tool)


def _sleep(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
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


def _tail(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    texts = _texts(words)
    follows = any(re.fullmatch(r"-[0-9nqvs]*[fF].*", text) or text.startswith("--follow") for text in texts)
    bounded = any(text.startswith("--pid") for text in texts)
    if not follows or bounded:
        return _plain(invocation, Role.TRIVIAL, name)
    return Command(
        invocation=invocation,
        role=Role.ENDLESS,
        tool=name,
        seconds=float("inf") if invocation.time_limit is None else invocation.time_limit,
    )


def _wait(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting, words
    return _plain(invocation, Role.WAIT, name)


def _pip(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """pip, and `uv pip`, `uv add`, `uv sync`."""
    del setting
    texts = _texts(words)
    position = 0
    while position < len(texts) and texts[position].startswith("-"):
        position += 2 if texts[position] in _PIP_VALUED else 1
    verb = texts[position] if position < len(texts) else ""
    if verb == "pip":
        return _pip(invocation, name, words[position + 1 :], Setting(1, 0, {}))
    if verb == "download":
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name)
    if verb not in ("install", "wheel", "sync", "add"):
        return _plain(invocation, Role.TRIVIAL, name)
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
            requirements.append(_cut(word, len("--requirement=") if "=" in text else 2))
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


def _cut(word: Word, length: int) -> Word:
    return tail(word, length)


def _conda(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    texts = _texts(words)
    verb = next((text for text in texts if not text.startswith("-")), "")
    if verb == "env":
        verb = next((text for text in texts[texts.index("env") + 1 :] if not text.startswith("-")), "")
        if verb not in ("create", "update"):
            return _plain(invocation, Role.TRIVIAL, name)
    elif verb not in ("install", "create", "update", "upgrade"):
        return _plain(invocation, Role.TRIVIAL, name)
    packages: list[Word] = []
    requirements: list[Word] = []
    position = texts.index(verb) + 1
    while position < len(words):
        if texts[position] in ("-f", "--file"):
            requirements += list(words[position + 1 : position + 2])
            position += 2
        elif texts[position].startswith("--file="):
            requirements.append(_cut(words[position], len("--file=")))
            position += 1
        elif texts[position].startswith("-"):
            position += 2 if texts[position] in _CONDA_VALUED else 1
        else:
            packages.append(words[position])
            position += 1
    return Command(
        invocation=invocation, role=Role.INSTALL, tool=name, packages=tuple(packages), requirements=tuple(requirements)
    )


def _system(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """apt, apk, yum and kin."""
    del setting
    texts = _texts(words)
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
        return _plain(invocation, Role.TRIVIAL, name)
    position = texts.index(verb) + 1
    packages = tuple(word for word in words[position:] if not (word.text or word.prefix).startswith("-"))
    return Command(invocation=invocation, role=Role.INSTALL, tool=name, packages=packages)


def _build(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    packages = tuple(word for word in words if not (word.text or word.prefix).startswith("-"))
    return Command(invocation=invocation, role=Role.INSTALL, tool=name, packages=packages)


def _git(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    texts = _texts(words)
    position = 0
    while position < len(texts) and texts[position].startswith("-"):
        position += 2 if texts[position] in ("-C", "-c") else 1
    verb = texts[position] if position < len(texts) else ""
    if verb == "lfs" and position + 1 < len(texts) and texts[position + 1] in ("clone", "pull", "fetch"):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool="git lfs", urls=_urls(words))
    if verb in ("clone", "submodule") and (verb == "clone" or "update" in texts):
        hub = any("huggingface.co" in text or "hf.co" in text for text in texts)
        return Command(
            invocation=invocation, role=Role.DOWNLOAD if hub else Role.INSTALL, tool=name, urls=_urls(words),
            packages=() if hub else _urls(words),
        )  # fmt: skip
    return _plain(invocation, Role.TRIVIAL, name)


def _fetch(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """wget, curl and kin: a request to this pod, or one that sends something, is no download."""
    del setting
    texts = _texts(words)
    if name == "curl" and any(
        text in ("-X", "--request", "-d", "--data", "-F", "--form", "-T", "--upload-file", "-I", "--head")
        or text.startswith(("--data", "-X", "--request=", "-d@"))
        for text in texts
    ):
        return _plain(invocation, Role.TRIVIAL, name)
    if name == "wget" and "--spider" in texts:
        return _plain(invocation, Role.TRIVIAL, name)
    skipped = _words(
        "-O -o --output --output-document -P --directory-prefix -H --header -u --user -A --user-agent -d --dir -x -s "
        "-j -b --cookie -e --referer --retry --connect-timeout -m --max-time -i --input-file -U --tries -t -T "
        "--timeout --out --password -c-none"
    )
    urls = _urls(words) or tuple(
        word
        for index, word in enumerate(words)
        if not texts[index].startswith("-") and (index == 0 or texts[index - 1] not in skipped)
    )
    local = urls and all(re.search(r"^(https?://)?(localhost|127\.0\.0\.1|\[::1\])", str(word)) for word in urls)
    if local or not urls:
        return _plain(invocation, Role.TRIVIAL, name)
    return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=urls)


def _hub(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """huggingface-cli, hf, modelscope, kaggle, gdown, dvc, wandb."""
    del setting
    texts = [text for text in _texts(words) if not text.startswith("-")]
    downloads = {
        "huggingface-cli": ("download", "repo-download"), "hf": ("download",), "modelscope": ("download",),
        "kaggle": ("datasets", "competitions"), "dvc": ("pull", "fetch", "get", "import"), "wandb": ("artifact",),
    }  # fmt: skip
    if name == "gdown" or (texts and texts[0] in downloads.get(name, ())):
        named = [word for word in words if not (word.text or word.prefix).startswith("-")]
        skipped = 0 if name == "gdown" else 2 if name in ("kaggle", "wandb") else 1
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(named[skipped : skipped + 1]))
    if texts and texts[0] in ("upload", "push"):
        return _plain(invocation, Role.UPLOAD, name)
    return _plain(invocation, Role.TRIVIAL, name)


def _cloud(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """Aws s3, gsutil, gcloud storage, azcopy, rclone, mc, s5cmd: by the direction of the copy."""
    del setting
    texts = _texts(words)
    places = [
        word
        for word in words
        if _CLOUDS.search(word.text or word.prefix) and not (word.text or word.prefix).startswith("-")
    ]
    verbs = {"cp", "sync", "copy", "rsync", "mirror", "mv", "get", "-get", "-copyToLocal", "download", "download-batch",
             "upload", "upload-batch", "put", "-put", "-copyFromLocal"}  # fmt: skip
    verb = next((text for text in texts if text in verbs), None)
    if verb is None:
        return _plain(invocation, Role.TRIVIAL, name)
    if verb in ("get", "-get", "-copyToLocal", "download", "download-batch"):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(places) or _urls(words))
    if verb in ("put", "-put", "-copyFromLocal", "upload", "upload-batch"):
        return _plain(invocation, Role.UPLOAD, name)
    operands = [word for word in words[texts.index(verb) + 1 :] if not (word.text or word.prefix).startswith("-")]
    if not operands or (operands[0].text is None and not operands[0].prefix):
        return _plain(invocation, Role.OTHER, name)
    if _CLOUDS.search(operands[0].text or operands[0].prefix):
        return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=(operands[0],))
    return _plain(invocation, Role.UPLOAD, name)


def _copy(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    texts = _texts(words)
    if name == "cp" and not any(
        re.fullmatch(r"-[a-zA-Z]*[rRa][a-zA-Z]*|--recursive|--archive", text) for text in texts
    ):
        return _plain(invocation, Role.TRIVIAL, name)
    return _plain(invocation, Role.COPY, name)


def _spawned(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """Tools whose first word decides: accelerate, vllm, ray, tune, lightning, uv, hf trainers."""
    verb = words[0].text if words else None
    rest = words[1:]
    match name, verb:
        case "accelerate", "launch":
            return _launch(invocation, launcher.accelerate, rest, setting)
        case "accelerate", str():
            return _plain(invocation, Role.TRIVIAL, name)
        case "vllm", "serve" | "bench" | "run-batch":
            return _launch(invocation, launcher.server(Launcher.VLLM), rest, setting)
        case "vllm", str():
            return _plain(invocation, Role.TRIVIAL, name)
        case "sglang", "serve":
            return _launch(invocation, launcher.server(Launcher.SGLANG), rest, setting)
        case "tune", "run":
            if any(word.prefix.startswith(("--nproc", "--nnodes")) for word in rest):
                return _launch(invocation, launcher.torchrun, rest, setting)
            return _launch(invocation, launcher.unknown_counts(Launcher.OTHER), rest, setting)
        case "tune", "download":
            return Command(invocation=invocation, role=Role.DOWNLOAD, tool=name, urls=tuple(rest[:1]))
        case "ray", "status" | "stop" | "list" | "--version":
            return _plain(invocation, Role.TRIVIAL, name)
        case "ray", str():
            return _launch(invocation, launcher.unknown_counts(Launcher.RAY), words, setting)
        case "colossalai", "run":
            return _launch(invocation, launcher.torchrun, rest, setting)
        case _:
            return Command(invocation=invocation, role=Role.OPAQUE, tool=name)


def _uv(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    verb = words[0].text if words else None
    if verb in ("pip", "add", "sync"):
        return _pip(invocation, name, words, setting)
    if verb in ("install", "update") and name != "uv":
        return _build(invocation, name, words[1:], setting)
    return _plain(invocation, Role.TRIVIAL if verb not in ("run", "tool", None) else Role.OPAQUE, name)


def _daemon(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """Sshd goes to the background unless -D keeps it in front."""
    del setting
    front = any(re.fullmatch(r"-[a-zA-Z]*D[a-zA-Z]*", text) for text in _texts(words))
    return _plain(invocation, Role.INTERACTIVE if front else Role.TRIVIAL, name)


def _board(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting, words
    return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))


def _loop_monitor(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """nvidia-smi and gpustat: endless with a loop option."""
    del setting
    texts = _texts(words)
    endless = any(
        text in ("dmon", "pmon", "-i" if name == "gpustat" else "-l", "--interval", "--watch")
        or re.match(r"-lms|--loop|-l=|-l\d", text)
        for text in texts
    )
    if endless:
        return Command(invocation=invocation, role=Role.ENDLESS, tool=name, seconds=float("inf"))
    return _plain(invocation, Role.TRIVIAL, name)


def _find(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    del setting
    runs = any(text in ("-exec", "-execdir", "-ok") for text in _texts(words))
    return _plain(invocation, Role.OPAQUE if runs else Role.TRIVIAL, name)


def _source(invocation: Invocation, name: str, words: Sequence[Word], setting: Setting) -> Command:
    """A sourced file that could be read was followed; environments' activation is harmless, the rest unknown."""
    del setting
    text = (words[0].text or "") if words else ""
    harmless = re.search(r"activate|conda|profile|bashrc|setvars|modules?|environment|env[^/]*$|venv|set_?env", text)
    return _plain(invocation, Role.TRIVIAL if harmless else Role.OPAQUE, name)


def _shell(invocation: Invocation, words: Sequence[Word]) -> Command:
    """A shell that the interpreter could not follow."""
    name = invocation.name or ""
    texts = _texts(words)
    operands = [text for text in texts if not text.startswith("-")]
    told = any(re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text) for text in texts) or any(
        word.text is None for word in words
    )
    if not operands and not told and not invocation.reads_pipe and invocation.stdin_text is None and "-s" not in texts:
        return _plain(invocation, Role.INTERACTIVE, name)
    return _plain(invocation, Role.OPAQUE, name)


def _interactive(invocation: Invocation, name: str, words: Sequence[Word]) -> Command:
    texts = [text for text in _texts(words) if not text.startswith("-")]
    if name.startswith("jupyter") and texts and texts[0] in (
        "nbconvert", "execute", "kernelspec", "labextension", "nbextension", "serverextension", "--version",
        "server-config",
        "trust", "run",
    ):  # fmt: skip
        return _plain(invocation, Role.OTHER if texts[0] in ("nbconvert", "execute", "run") else Role.TRIVIAL, name)
    if name == "jupyter" and "--generate-config" in _texts(words):
        return _plain(invocation, Role.TRIVIAL, name)
    if name.lower() in ("ipython", "bpython", "ptpython") and (texts or any(word.many for word in words)):
        return _launched(invocation, launcher.python(invocation, tuple(words[:1]), tuple(words[1:])), name)
    if name in ("pdb", "ipdb", "marimo") and name == "marimo" and texts[:1] != ["edit"]:
        return _plain(invocation, Role.OTHER, name)
    return _plain(invocation, Role.INTERACTIVE, name)


_HANDLERS: dict[str, Handler] = {
    "sleep": _sleep,
    "tail": _tail,
    "wait": _wait,
    **dict.fromkeys(("pip", "pip2", "pip3"), _pip),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _conda),
    **dict.fromkeys(("apt", "apt-get", "aptitude", "apk", "yum", "dnf", "microdnf", "zypper", "npm", "yarn-pkg"),
    _system),
    **dict.fromkeys(("make", "cmake", "ninja", "bazel", "meson", "easy_install", "mim"), _build),
    **dict.fromkeys(("poetry", "pipenv", "pdm", "rye", "pixi", "hatch", "uv"), _uv),
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
    **dict.fromkeys(("accelerate", "vllm", "sglang", "ray", "tune", "colossalai"), _spawned),
    "sshd": _daemon,
    **dict.fromkeys(("tensorboard", "mlflow", "streamlit", "gradio"), _board),
    **dict.fromkeys(("nvidia-smi", "gpustat", "rocm-smi"), _loop_monitor),
    "find": _find,
    "source": _source,
    ".": _source,
}  # fmt: skip
