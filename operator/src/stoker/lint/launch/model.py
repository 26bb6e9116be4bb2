"""Value types of the launch plan: launchers with their counts, commands with their roles. Rules read these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stoker.shell.model import Invocation, ShellScript, Word

RANKS = frozenset(
    {"STOKER_NODE_RANK", "PET_NODE_RANK", "JOB_COMPLETION_INDEX", "NODE_RANK", "RANK", "MACHINE_RANK", "GROUP_RANK"}
)
"""Variables that hold a node's rank: one word, never an option."""


class Launcher(StrEnum):
    """What starts the processes. Everything that is no launcher but runs a program is Python or Other."""

    TORCHRUN = "torchrun"  # also `python -m torch.distributed.run`
    TORCH_DISTRIBUTED_LAUNCH = "torch.distributed.launch"
    DEEPSPEED = "deepspeed"
    ACCELERATE = "accelerate"
    MPIRUN = "mpirun"  # mpiexec, orterun, too
    HOROVODRUN = "horovodrun"
    SRUN = "srun"
    RAY = "ray"
    VLLM = "vllm"
    SGLANG = "sglang"
    LMDEPLOY = "lmdeploy"
    TGI = "text-generation-launcher"
    TRITON = "tritonserver"
    COMPOSER = "composer"
    PADDLE = "paddle.distributed.launch"
    LIGHTNING = "lightning"  # `fabric run`, `lightning run model`
    LLAMA_FACTORY = "llamafactory-cli"
    SWIFT = "swift"
    XTUNER = "xtuner"
    PYTHON = "python"
    OTHER = "other"


class CountSource(StrEnum):
    """What made a count."""

    OPTION = "option"
    ENVIRONMENT = "environment"  # PET_NPROC_PER_NODE and its kin
    DEFAULT = "default"  # nothing says it: the launcher's own default
    DEVICES = "devices"  # as many as there are GPUs (`auto`, `gpu`, no option at all)
    DERIVED = "derived"  # computed from the other counts
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number, a set of possibilities, or unknown (`possible` is None), and what made it so.

    words: the words to underline (`--nproc_per_node`, `4`), empty for defaults and injected variables.
    variable: the environment variable that gave it, if one did. key: that of a configuration file (`num_processes`),
        which the words name, if it is no default.
    """

    possible: frozenset[int] | None
    source: CountSource
    words: tuple[Word, ...] = ()
    variable: str | None = None
    key: str = ""

    @property
    def value(self) -> int | None:
        """The number, None if it is not exactly known."""
        return next(iter(self.possible)) if self.possible is not None and len(self.possible) == 1 else None

    @property
    def maximum(self) -> int | None:
        return max(self.possible) if self.possible else None

    @property
    def minimum(self) -> int | None:
        return min(self.possible) if self.possible else None

    @property
    def text(self) -> str:
        """The words as the user wrote them after expansion: "--nproc_per_node=4", "" when there are none."""
        return " ".join(str(word) for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """CUDA_VISIBLE_DEVICES of a command: the value as a word, and the indices where they are known.

    indices: None = unknown, () = none visible ("" or "-1"); identifiers: GPU-... and MIG-... names instead of indices.
    """

    word: Word
    indices: tuple[int, ...] | None
    identifiers: tuple[str, ...] = ()

    @property
    def count(self) -> int | None:
        if self.identifiers:
            return len(self.identifiers)
        return None if self.indices is None else len(self.indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start of a main program.

    processes_per_node, nodes, total: as the launcher understands its options (module `launcher`). `nodes` is what it is
        given, not the job's; `total` are the processes of this launch over all nodes that it knows of.
    explicit: the user set the process count by an option or a variable of the script (not a default, not injected).
    one_device_per_process: the launcher implies it (torchrun, torch.distributed.launch, horovodrun, accelerate with
        several processes, deepspeed), and nothing in sight (tensor/pipeline parallel) contradicts it.
    program, arguments: the words of the program (`train.py` or `-m`, `pkg.train`) and what follows.
    parallelism: parallel sizes among arguments, by kind ("tensor", "pipeline", "context", "expert", "data", "other").
    devices: CUDA_VISIBLE_DEVICES where set for this command.
    standalone: torchrun --standalone. rendezvous: an address other than the pod's own is given, by an
        option or by a variable that the script sets (the injected ones don't count).
    hostfile: hosts come from a file or list (deepspeed -H, mpirun -hostfile/-H); slots: what they take together
        (`-H localhost:4`), UNKNOWN where they don't say.
    multi_gpu: accelerate is told to start several processes, by an option or its config file, whose kind of training is
        distributed_type ("NO", "MULTI_GPU", "FSDP", ...), "" where none is in sight.
    configuration: path of a config file that decides counts (accelerate --config_file), None if there is none.
    """

    launcher: Launcher
    invocation: Invocation
    processes_per_node: Count
    nodes: Count
    total: Count
    explicit: bool
    one_device_per_process: bool
    program: tuple[Word, ...] = ()
    arguments: tuple[Word, ...] = ()
    parallelism: Mapping[str, Count] = field(default_factory=dict)
    devices: Devices | None = None
    multi_gpu: bool = False
    distributed_type: str = ""
    standalone: bool = False
    rendezvous: bool = False
    hostfile: bool = False
    slots: Count = field(default_factory=lambda: Count(possible=None, source=CountSource.UNKNOWN))
    configuration: Word | None = None

    @property
    def model_parallel(self) -> bool:
        """A program that spreads over devices otherwise than by data is in sight: a size that isn't known to be 1."""
        return any(kind != "data" and count.possible != frozenset({1}) for kind, count in self.parallelism.items())


class Role(StrEnum):
    """What a command is for."""

    LAUNCH = "launch"  # starts a main program: has a Launch
    INSTALL = "install"
    DOWNLOAD = "download"
    COPY = "copy"  # cp -r, rsync, tar of trees; cloud copies are downloads or uploads
    UPLOAD = "upload"
    SLEEP = "sleep"
    WAIT = "wait"  # the shell's `wait` for background commands: correct
    ENDLESS = "endless"  # tail -f, sleep infinity, while true with nothing in it
    INTERACTIVE = "interactive"  # jupyter, sshd, code-server, bare shell, debugger that waits
    NON_DL = "non-dl"  # spark-submit, hadoop, Rscript, dask, ...
    OPAQUE = "opaque"  # a script or evaluated text that can't be read; anything may happen in it
    TRIVIAL = "trivial"  # echo, mkdir, cd, export, ...
    OTHER = "other"  # a program nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One invocation with its role and what is known of it.

    tool: the recognised tool ("pip", "wget", "jupyter", "spark-submit"), "" if none.
    packages: of an install, as written ("torch==2.3", "."); requirements: its files (`-r x.txt`, `-f environment.yml`).
    urls: of a download, as far as known. seconds: of a sleep; inf = forever, None = unknown.
    """

    invocation: Invocation
    role: Role
    tool: str = ""
    launch: Launch | None = None
    packages: tuple[Word, ...] = ()
    requirements: tuple[Word, ...] = ()
    urls: tuple[Word, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """All commands of a script in the order of execution."""

    script: ShellScript
    nodes: int
    gpus_per_node: int
    commands: tuple[Command, ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        return tuple(command.launch for command in self.commands if command.launch is not None)

    def of(self, *roles: Role) -> tuple[Command, ...]:
        """The commands with one of these roles, in order."""
        return tuple(command for command in self.commands if command.role in roles)

    def trailing(self) -> tuple[Command, ...]:
        """What runs after the last launch in the order of the script, but not instead of it."""
        positions = [index for index, command in enumerate(self.commands) if command.role is Role.LAUNCH]
        if not positions:
            return ()
        last = self.commands[positions[-1]]
        return tuple(
            command
            for command in self.commands[positions[-1] + 1 :]
            if not command.invocation.excludes(last.invocation)
        )

    @property
    def readable(self) -> bool:
        """Nothing was cut off and no command runs text that can't be read."""
        return self.script.complete and not self.of(Role.OPAQUE)


__all__ = ["RANKS", "Command", "Count", "CountSource", "Devices", "Launch", "LaunchPlan", "Launcher", "Role"]
