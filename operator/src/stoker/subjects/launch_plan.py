"""What a container's commands start: launchers with their process counts, installs, downloads, sleeps, waits."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from stoker.subjects.command_role import classify
from stoker.subjects.launch_model import (
    Command,
    Count,
    CountSource,
    Devices,
    Launch,
    Launcher,
    LaunchPlan,
    Role,
)
from stoker.subjects.launchers.counts import Setting
from stoker.subjects.shell_model import ShellScript


def plan(
    script: ShellScript, *, nodes: int, gpus_per_node: int, files: Mapping[str, str] = MappingProxyType({})
) -> LaunchPlan:
    """Classify the script's commands and read their launchers' options. Never raises.

    files: what the container finds beside those that the script itself writes, by path.
    What variables a command sees stands in its invocation: give `interpret` the container's environment.
    """
    setting = Setting(nodes=nodes, gpus_per_node=gpus_per_node, files=files)
    commands = _waiting([classify(invocation, setting) for invocation in script.invocations])
    return LaunchPlan(script=script, nodes=nodes, gpus_per_node=gpus_per_node, commands=tuple(commands))


def _waiting(commands: list[Command]) -> list[Command]:
    """Sleeps and waits in the light of the others.

    A `wait` for an endless background command never ends; a sleep in an endless loop that does nothing else is endless;
    beside work it is a pause.
    """
    result: list[Command] = []
    work = any(
        command.invocation.loop_endless and command.role not in (Role.SLEEP, Role.ENDLESS, Role.TRIVIAL, Role.WAIT)
        for command in commands
    )
    endless_background = False
    for command in commands:
        if (command.role is Role.SLEEP and command.invocation.loop_endless and not work) or (
            command.role is Role.WAIT and endless_background
        ):
            command = replace(command, role=Role.ENDLESS, seconds=float("inf"))
        if command.role is Role.ENDLESS and command.invocation.background and command.tool in ("sleep", "tail"):
            endless_background = True
        result.append(command)
    return result


__all__ = ["Command", "Count", "CountSource", "Devices", "Launch", "LaunchPlan", "Launcher", "Role", "plan"]
