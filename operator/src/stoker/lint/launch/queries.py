"""What several rules ask of a launch plan: which launches count, what runs beside them, what comes after them."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType

from stoker.lint.launch.launchers.counts import counts_named
from stoker.lint.launch.model import RANKS
from stoker.lint.launch.names import words_of
from stoker.lint.launch.plan import Command, Count, CountSource, Launch, Launcher, LaunchPlan, Role
from stoker.lint.launch.tools import tools
from stoker.shell.model import ShellScript
from stoker.shell.words import VISIBLE_DEVICES

PER_DEVICE_LAUNCHERS = frozenset(
    {
        Launcher.TORCHRUN,
        Launcher.TORCH_DISTRIBUTED_LAUNCH,
        Launcher.HOROVODRUN,
        Launcher.ACCELERATE,
        Launcher.DEEPSPEED,
        Launcher.LLAMA_FACTORY,
        Launcher.XTUNER,
    }
)
"""Launchers whose processes each take the device of their local rank (their own documentation)."""

COUNTING_LAUNCHERS = PER_DEVICE_LAUNCHERS | {Launcher.MPIRUN, Launcher.COMPOSER, Launcher.PADDLE}
"""Launchers that are told how many processes to start."""

SERVERS = frozenset({Launcher.VLLM, Launcher.SGLANG, Launcher.LMDEPLOY, Launcher.TGI, Launcher.TRITON})
"""Launchers that serve until they are stopped."""

WORKING_ROLES = (Role.LAUNCH, Role.NON_DL, Role.OPAQUE, Role.OTHER)
"""Roles of commands that may do the job's work."""


def working(plan: LaunchPlan) -> list[Command]:
    """The commands that may do the job's work, known monitors and captured output left out."""
    monitors = tools().monitors
    return [
        command
        for command in plan.of(*WORKING_ROLES)
        if not command.invocation.captured and (command.role is Role.LAUNCH or command.invocation.name not in monitors)
    ]


def side_by_side(plan: LaunchPlan) -> bool:
    """Whether several commands may share the GPUs at the same time: then none is judged by its own count."""
    commands = working(plan)
    backgrounds = [command for command in commands if command.invocation.background]
    if len(commands) > 1:
        return bool(backgrounds) or sum(command.invocation.piped for command in commands if command.launch) > 1
    return any(command.invocation.in_loop for command in backgrounds)


def is_alone(plan: LaunchPlan, launch: Launch) -> bool:
    """Whether a launch is the only work of the job, on every path, with nothing in sight that can't be read, and no
    notebook beside it, whose author may use what GPUs are left.
    """
    return (
        [command.launch for command in working(plan)] == [launch]
        and all(command.invocation.name in tools().monitors for command in plan.of(Role.INTERACTIVE))
        and plan.readable
        and launch.invocation.certain
        and not launch.invocation.in_loop
    )


SEVERAL_DEVICES = (
    "device_map",
    "model_parallel",
    "pipeline",
    "tensor_parallel",
    "tp_plan",
    "gpus_per_proc",
    "gpus_per_rank",
    "gpus_per_model",
    "gpus_per_worker",
    "devices_per_proc",
    "parallelize",
    "max_memory",
    "vllm",
    "sglang",
    "rollout",
    "base_url",
    "async_openai",
    "chat_completions",
)
"""Words in a program's arguments (`-` as `_`) that say that a process drives several GPUs or leaves some to others, as
clients of a server do.
"""


SELECTIONS = frozenset({"__include", "__exclude", "_i", "_e", "__gpu_ids", "__gpus", "__devices"})
"""Launchers' options (`-` as `_`) that name devices instead of counting processes."""

OWN_DEVICES = ("num_gpus", "num_devices", "n_gpu", "n_gpus", "ngpus", "gpus", "devices")
"""Options that tell the program itself how many GPUs, or which, it has."""


_PLACE = re.compile(r"(?:device|gpu)s?(?:_ids?)?\Z")
_COUNT = re.compile(r"n(?:um|umber|b)?_|n(?:um)?_?gpu|num_?dev|total_|max_|min_|.*per_")
_INDICES = re.compile(r"\[?(?:cuda:)?\d{1,2}(?:,(?:cuda:)?\d{1,2})*\]?")
"""Options of a program that place a part of it on GPUs, those that count, and how GPUs are named."""

SEVERAL_MODELS = re.compile(r"(?<![a-z])(?:ppo|grpo|rloo|dapo|gkd|online_dpo|rlhf)(?![a-z])|distill|teacher")
"""Words in the name of a program, or of its configuration, that trains one model beside another, which may have GPUs
of its own.
"""


def drives_several_devices(launch: Launch) -> bool:
    """Whether a process of the launch may drive several GPUs, or leave some to other processes or models."""
    if launch.model_parallel or any(word in normalized(text) for text in texts(launch) for word in SEVERAL_DEVICES):
        return True
    processes = launch.processes_per_node.maximum
    return processes is not None and any(
        index >= processes
        for key, value in _options(launch)
        if _places(key, value) and (key not in OWN_DEVICES or not value.isdecimal())
        for index in map(int, re.findall(r"\d+", value))
    )


def is_given_devices(launch: Launch) -> bool:
    """Whether the program itself is given GPUs, other than one or none: `--num_gpus 8`, `--teacher_device cuda:1`."""
    return any(
        (key in OWN_DEVICES and value not in ("0", "1")) or _places(key, value) for key, value in _options(launch)
    )


def _places(key: str, value: str) -> bool:
    return bool(_PLACE.search(key) and not _COUNT.match(key) and _INDICES.fullmatch(value))


def _options(launch: Launch) -> list[tuple[str, str]]:
    """The program's options with what may be their values: `--a 1`, `--a=1`, `b.a=1` as ("a", "1")."""
    found = []
    for text, following in pairwise([*texts(launch), "1"]):
        name, equals, value = text.partition("=")
        if equals or name.startswith("-"):
            found.append((normalized(name).lstrip("_").rsplit(".", 1)[-1], value if equals else following))
    return found


def trains_several_models(launch: Launch) -> bool:
    """Whether the program's name, or its configuration's, says that it trains a model beside another one."""
    configurations = (text for key, text in _options(launch) if key.startswith("config"))
    files = (text for text in texts(launch) if text.endswith((".yaml", ".yml", ".json", ".toml")))
    names = [*map(str, launch.program), *configurations, *files]
    return any(SEVERAL_MODELS.search(normalized(name)) for name in names)


WORKERS = dict.fromkeys(
    (
        "data_workers",
        "dataloader_num_workers",
        "dataloader_workers",
        "loader_workers",
        "num_data_workers",
        "num_loader_workers",
        "num_workers",
        "workers",
        "workers_per_gpu",
    ),
    "workers",
)
"""Options (`-` as `_`) that say how many processes each process of a program reads its data with."""


_SERVES = frozenset({"uvicorn", "gunicorn", "hypercorn", "celery", "flask", "fastapi", "api", "app", "serve", "server"})
_PREPARES = ("preprocess", "prepar", "tokeniz", "download", "convert")
"""Words in the names of programs whose workers load no data for training."""
RAY = re.compile(r"(?<![A-Za-z])ray(?![A-Za-z])")
"""Ray's name in a text, also as a part of an option's: `--ray_address`."""


def loader_workers(plan: LaunchPlan, launch: Launch) -> Count | None:
    """The data loader's workers of each process, as the program's arguments say; None where they say nothing.

    None as well where others are called so: those of Ray train, those of web servers and preparations load nothing.
    """
    ray = any(one.launcher is Launcher.RAY for one in plan.launches)
    if ray or launch.launcher in SERVERS or any(RAY.search(text) for text in texts(launch)):
        return None
    names = [words_of(str(word)) for word in launch.program]
    if any(word in _SERVES or word.startswith(_PREPARES) for words in names for word in words):
        return None
    return counts_named(launch.arguments, WORKERS).get("workers")


def normalized(text: str) -> str:
    """A word as the rules compare it: lower case, `_` for `-`."""
    return text.lower().replace("-", "_")


def totals_one_node(plan: LaunchPlan, launch: Launch) -> bool:
    """Whether accelerate's total of all the job's nodes is the number of one node's GPUs."""
    return (
        launch.launcher is Launcher.ACCELERATE
        and plan.nodes > 1
        and launch.nodes.value == plan.nodes
        and launch.total.value == plan.gpus_per_node
    )


def given_count(launch: Launch) -> Count:
    """The count that the user gave: the total of all nodes where the launcher is told that, else that of each node."""
    derived = launch.processes_per_node.source is CountSource.DERIVED
    total = launch.total
    return total if derived and (total.words or total.variable or total.key) else launch.processes_per_node


def spread(launch: Launch, given: Count, nodes: int) -> int:
    """How many nodes share a given count: a total is that of the nodes that the launch is told of, else of the job."""
    return (launch.nodes.value or nodes) if given is launch.total else 1


def origin_line(count: Count) -> int | None:
    """The line that the number was written at, where that is another than the option's."""
    for word in reversed(count.words):
        if word.origin is not None and word.span is not None and word.origin.line != word.span.line:
            return word.origin.line
    return None


def rests_on_unset(script: ShellScript, count: Count) -> bool:
    """Whether a count is the default of a variable that nobody in sight sets: 4 of `${NPROC:-4}`."""
    spans = {span for word in count.words for span in (word.span, word.origin) if span is not None}
    texts = [script.source[slice(*script.offsets(span))] for span in spans]
    return any(name in script.assumed_unset for text in texts for name in re.findall(r"\$\{?(\w+)", text))


def started_by(launch: Launch) -> str:
    """The command that starts the processes: `torchrun`, `tune run`."""
    argv = launch.invocation.argv
    if launch.invocation.name in ("tune", "colossalai", "mim") and len(argv) > 1:
        return f"{launch.invocation.name} {argv[1]}"
    return launch.launcher.value


def unread_options(launch: Launch) -> bool:
    """Whether a word of the launch may be options that nobody can see; a rank is a rank, whatever its value."""
    return any(word.many and not (word.names and word.names <= RANKS) for word in launch.invocation.argv)


def is_learning(launch: Launch) -> bool:
    """Whether a launcher of any programs (mpirun) starts one that learns by all likelihood: a Python program."""
    if launch.launcher is not Launcher.MPIRUN:
        return True
    name = (launch.program[0].text if launch.program else None) or ""
    return name.rsplit("/", 1)[-1].startswith("python") or name.endswith(".py")


def quoted(count: Count) -> str:
    """The count as the user wrote it: `"--nproc_per_node=4"`, `PET_NPROC_PER_NODE=4`, `num_processes: 4 in acc.yaml`;
    "" for a default.
    """
    if count.key and count.value is not None:
        path = str(count.words[-1]).rpartition("=")[2] if count.words else "the default configuration"
        return f"{count.key}: {count.value} in {path}"
    if count.text:
        return f'"{count.text}"'
    if count.variable is not None and count.value is not None:
        return f"{count.variable}={count.value}"
    return ""


def devices_from(launch: Launch) -> str:
    """What chose the devices of a launch: `CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES`, or accelerate's option."""
    word = launch.devices.word if launch.devices is not None else None
    environment = launch.invocation.environment
    return next((name for name in VISIBLE_DEVICES if environment.get(name) is word), "--gpu_ids")


def reads_devices(launch: Launch, gpu_resource: str) -> bool:
    """Whether the program's GPUs follow what chose its devices: ROCm's variable says nothing to CUDA."""
    return devices_from(launch) != "HIP_VISIBLE_DEVICES" or gpu_resource.startswith("amd.com/")


def selecting(count: Count) -> str:
    """The option that gave the count by naming devices: `--include`; "" where a number was given."""
    option = str(count.words[0]).partition("=")[0] if count.words else ""
    return option if normalized(option) in SELECTIONS else ""


def ends_in_number(text: str, number: str) -> bool:
    """Whether a text ends in a number, and not in a longer one."""
    return text.endswith(number) and not text.removesuffix(number)[-1:].isdecimal()


def with_number(count: Count, number: int, fields: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """What the user wrote, with another number: `--nproc_per_node=8`; None where it doesn't end in its number.

    fields: those that set variables; of one that is no variable itself (a PyTorchJob's) the field is named.
    """
    if count.key:
        return f"{count.key}: {number}"
    field = "" if count.text else fields.get(count.variable or "", "")
    if field and not field.endswith((".value", "]")):
        return f'{field}: "{number}"'
    text = quoted(count).strip('"')
    if count.value is None or selecting(count) or not ends_in_number(text, str(count.value)):
        return None
    return f"{text[: -len(str(count.value))]}{number}"


def last(commands: Iterable[Command]) -> Command | None:
    """The last of some commands; None of none."""
    return next(reversed(list(commands)), None)


class CommandOrder:
    """The order of a plan's commands, and of its working ones around any of them."""

    def __init__(self, plan: LaunchPlan) -> None:
        self._commands = plan.commands
        self._positions = {id(command): position for position, command in enumerate(plan.commands)}
        self.work = working(plan)
        self._work = [self.position(command) for command in self.work]
        self._commands = plan.commands
        self._waits = [self.position(command) for command in plan.of(Role.WAIT)]

    def position(self, command: Command) -> int:
        """The command's number in the order of the script."""
        return self._positions[id(command)]

    def before(self, command: Command) -> list[Command]:
        """The work that some run which reaches the command has started before it."""
        earlier = self.work[: bisect_left(self._work, self.position(command))]
        return [one for one in earlier if not one.invocation.excludes(command.invocation)]

    def beside(self, command: Command) -> list[Command]:
        """The work in the background that no `wait` before the command has waited for."""
        at = self.position(command)
        waited = max((place for place in self._waits if place < at), default=-1)
        return [
            one
            for one in self.before(command)
            if one.invocation.background and (one.invocation.detached or self.position(one) > waited)
        ]

    def can_wait(self, command: Command) -> bool:
        """Whether the script's shell can wait for all that runs in the background before the command."""
        disowned = any(one.invocation.name == "disown" for one in self._commands[: self.position(command)])
        return not disowned and not any(one.invocation.detached for one in self.beside(command))

    def last_started(self, command: Command) -> Command | None:
        """The last command in the background before this one, whose process `$!` is."""
        return last(one for one in self._commands[: self.position(command)] if one.invocation.background)

    def followed(self, command: Command) -> bool:
        """Whether some run that reaches the command reaches work after it."""
        later = self.work[bisect_right(self._work, self.position(command)) :]
        return any(not one.invocation.excludes(command.invocation) for one in later)


def texts(launch: Launch) -> list[str]:
    """The program and its arguments, as far as they are known."""
    return [word.text if word.text is not None else word.prefix for word in (*launch.program, *launch.arguments)]


def on_each(nodes: int) -> str:
    """` on each node`, where there are several."""
    return " on each node" if nodes > 1 else ""


def counted(number: int, noun: str) -> str:
    """`1 process`, `8 processes`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}es" if noun.endswith("s") else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """A duration in words that suit its size: `90 s`, `15 min`, `24 h`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or (seconds == size and unit != "d"):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


__all__ = [
    "COUNTING_LAUNCHERS",
    "OWN_DEVICES",
    "PER_DEVICE_LAUNCHERS",
    "RANKS",
    "RAY",
    "SERVERS",
    "SEVERAL_DEVICES",
    "CommandOrder",
    "WORKING_ROLES",
    "counted",
    "devices_from",
    "drives_several_devices",
    "duration",
    "given_count",
    "is_alone",
    "is_learning",
    "last",
    "loader_workers",
    "on_each",
    "origin_line",
    "normalized",
    "quoted",
    "reads_devices",
    "selecting",
    "rests_on_unset",
    "side_by_side",
    "spread",
    "started_by",
    "texts",
    "is_given_devices",
    "totals_one_node",
    "trains_several_models",
    "unread_options",
    "with_number",
    "working",
]
