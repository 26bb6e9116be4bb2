"""One line for each command of a script that matters: the form in which the corpus states what is expected."""

from stoker.lint.launch.plan import Command, Count, Role, plan
from stoker.shell.script import read_script

ENVIRONMENT: dict[str, str | None] = {
    "STOKER_NODES": "2",
    "STOKER_GPUS_PER_NODE": "8",
    "STOKER_NODE_RANK": None,
    "MASTER_ADDR": "job-0.job",
    "MASTER_PORT": "29500",
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "8",
    "PET_NODE_RANK": None,
    "PET_MASTER_ADDR": "job-0.job",
    "PET_MASTER_PORT": "29500",
}
"""What the operator gives a job of two nodes with eight GPUs each."""


def summary(source: str) -> list[str]:
    """The commands in order, without the trivial ones; the last line says whether all could be read."""
    script = read_script(source, environment=ENVIRONMENT, gpus_per_node=8)
    result = plan(script, nodes=2, gpus_per_node=8)
    lines = [_line(command) for command in result.commands if command.role is not Role.TRIVIAL]
    return [*lines, *([] if result.readable else ["(not all of it can be read)"])]


def _line(command: Command) -> str:
    invocation, launch = command.invocation, command.launch
    parts: list[str] = []
    if launch is not None:
        program = " ".join(str(word) for word in launch.program)
        counts = f"{_count(launch.processes_per_node)} x {_count(launch.nodes)} = {_count(launch.total)}"
        parts.append(f"launch {launch.launcher} {counts}: {program}")
        if launch.devices is not None:
            parts.append(f"devices {launch.devices.word}")
        parts.extend(f"{kind} {_count(size)}" for kind, size in launch.parallelism.items())
    else:
        details = [str(word) for word in (*command.packages, *command.requirements, *command.urls)]
        seconds = [] if command.seconds is None else [f"{command.seconds:g} s"]
        parts.append(" ".join([command.role, command.tool, *seconds, *dict.fromkeys(details)]).strip())
    flags = {
        "background": invocation.background,
        "after a failure": invocation.after_failure,
        "by rank": invocation.rank_dependent,
        "maybe": bool(invocation.branches) and not invocation.rank_dependent,
        "endless loop": invocation.loop_endless,
        "loop": invocation.in_loop and not invocation.loop_endless,
        "captured": invocation.captured,
    }
    return ", ".join([*parts, *(name for name, holds in flags.items() if holds)])


def _count(count: Count) -> str:
    return "?" if count.possible is None else "|".join(str(number) for number in sorted(count.possible))
