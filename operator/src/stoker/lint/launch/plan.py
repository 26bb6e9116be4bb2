"""What a container's commands start: launchers with their process counts, installs, downloads, sleeps, waits.

`plan` makes a LaunchPlan of an interpreted script; lint.kinds.container asks for it, rules read it from the submission.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from stoker.lint.launch.launchers.counts import LaunchContext
from stoker.lint.launch.model import (
    Command,
    Count,
    CountSource,
    Devices,
    Launch,
    Launcher,
    LaunchPlan,
    Role,
)
from stoker.lint.launch.role import classify
from stoker.shell.model import ShellScript


def plan(
    script: ShellScript, *, nodes: int, gpus_per_node: int, files: Mapping[str, str] = MappingProxyType({})
) -> LaunchPlan:
    """Classify the script's commands and read their launchers' options. Never raises.

    files: what the container finds beside those that the script itself writes, by path.
    What variables a command sees stands in its invocation: give `read_script` the container's environment.
    """
    context = LaunchContext(nodes=nodes, gpus_per_node=gpus_per_node, files=files)
    commands = _waiting(script, [classify(invocation, context) for invocation in script.invocations])
    return LaunchPlan(script=script, nodes=nodes, gpus_per_node=gpus_per_node, commands=tuple(commands))


def _waiting(script: ShellScript, commands: list[Command]) -> list[Command]:
    """Sleeps and waits in the light of the others.

    A `wait` for an endless background command never ends, and takes that one's name for its tool; `sleep 1h & wait $!`
    is a sleep; a sleep in an endless loop that does nothing else is endless; beside work it is a pause.
    """
    result: list[Command] = []
    repeated = {command.role for command in commands if command.invocation.loop_endless}
    idle = repeated <= {Role.SLEEP, Role.ENDLESS, Role.TRIVIAL, Role.WAIT}
    works = not repeated.isdisjoint({Role.LAUNCH, Role.NON_DL, Role.OPAQUE, Role.OTHER})
    endless: list[Command] = []
    started: Command | None = None
    for command in commands:
        invocation = command.invocation
        if command.role is Role.SLEEP and invocation.loop_endless and idle:
            command = replace(command, role=Role.ENDLESS, seconds=float("inf"))
        elif command.role is Role.WAIT:
            command = _waited(script, command, endless, started)
        if invocation.name in _STOPPERS:
            endless.clear()
        elif invocation.background and not invocation.detached:
            started = command
            if _never_ends(command) or (invocation.loop_endless and not works):
                endless.append(command)
        elif command.role is Role.ENDLESS and command.tool == "sleep" and invocation.background:
            started = command  # `sleep infinity & wait` of a script that another one runs
        result.append(command)
    return result


_STOPPERS = ("kill", "pkill", "killall", "disown")


def _never_ends(command: Command) -> bool:
    """Whether a background command runs until it is killed."""
    if command.invocation.time_limit is not None or command.invocation.piped:
        return False
    return command.role is Role.ENDLESS or (command.role is Role.INTERACTIVE and command.tool.startswith("jupyter"))


def _waited(script: ShellScript, command: Command, endless: list[Command], started: Command | None) -> Command:
    """A `wait`, as what it waits for makes it."""
    words = command.invocation.argv[1:]
    if not words:
        arms = set(command.invocation.branches)
        known = [one for one in endless if arms.issuperset(one.invocation.branches)]
        if not known and started is not None and started.invocation.detached and started.role is Role.ENDLESS:
            known = [started]
        if known:
            tool = "a loop" if known[-1].invocation.loop_endless else known[-1].tool
            return replace(command, role=Role.ENDLESS, seconds=float("inf"), tool=tool)
    elif (
        started is not None
        and started.role in (Role.SLEEP, Role.ENDLESS)
        and not started.invocation.in_loop
        and [word.names for word in words] == [frozenset({"!"})]
        and not _KEPT.search(script.source)
    ):
        return replace(command, role=started.role, seconds=started.seconds, tool=started.tool)
    return command


_KEPT = re.compile(r'=\(?"?\$\{?!')
"""A variable that holds a process: which one a `wait` is given is then not known."""


__all__ = ["Command", "Count", "CountSource", "Devices", "Launch", "LaunchPlan", "Launcher", "Role", "plan"]
