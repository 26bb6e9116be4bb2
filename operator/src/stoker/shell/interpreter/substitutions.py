"""Command substitutions: `$(...)`, `<(...)`."""

import posixpath
import re
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import command_output, values
from stoker.shell.interpreter.budget import MAX_DEPTH
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.redirections import Redirections
from stoker.shell.interpreter.state import ShellState
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import Walk

_PRINT_NO_OPTIONS = frozenset(
    {
        "basename", "date", "dirname", "hostname", "id", "mktemp", "nproc", "pwd", "readlink", "realpath", "shuf",
        "uname", "uuidgen", "wc", "whoami",
    }
)  # fmt: skip
"""Programs that print a number, a name or a path: no options of a command that it is handed to."""
_ESCAPED = re.compile(r"\\[$`\\]")
"""A character that a shell reads without its backslash between backquotes."""


class Substitutions:
    """What commands print whose output becomes text."""

    def __init__(self, walk: Walk, redirections: Redirections) -> None:
        self._walk = walk
        self._redirections = redirections

    def value(self, node: Node, state: ShellState, frame: Frame, *, whole: bool) -> Value:
        """What `$(...)` gives: known for a few tools on known input, else a hole that names what it hangs on.

        whole: with the newlines at its end, as `< <(...)` reads it.
        """
        self._walk.budget.step()
        if frame.depth >= MAX_DEPTH:
            self._walk.record.cut()
            return values.hole()
        outer, state.stdin = state.stdin, None
        output = self._output(node, state, frame.deeper())
        state.stdin = outer
        self._walk.budget.count_text(sum(len(fragment.text or "") for text in output for fragment in text))
        return output if whole else values.trim_end(output)

    def _output(self, node: Node, state: ShellState, frame: Frame) -> Value:
        statements = [child for child in node.named_children if child.type != "comment"]
        names: set[str] = set()
        many = True
        first = len(self._walk.record.invocations)
        # Between backquotes a backslash before $, ` or another one is taken off first: what then runs was not parsed.
        readable = not (node.children[0].type == "`" and _ESCAPED.search(frame.text.slice(node)))
        if len(statements) == 1 and readable:
            statement = statements[0]
            if statement.type == "file_redirect":
                destination = statement.child_by_field_name("destination")
                path = (
                    values.single(self._walk.expander.optional(destination, state, frame))
                    if destination is not None
                    else None
                )
                content = state.files.get(posixpath.normpath(path)) if path else None
                return (content,) if content is not None else values.hole(["<"], many=True)
            members = statement.named_children if statement.type == "pipeline" else [statement]
            commands = [self._redirections.simple_command(member, state, frame, again=False) for member in members]
            plain = [command for command in commands if command is not None]
            if len(plain) == len(commands) and all(command.stdin is None for command in plain[1:]):
                known = [command.fields for command in plain]
                many = (known[-1][0].text or "").rsplit("/", 1)[-1] not in _PRINT_NO_OPTIONS
                for command in known:
                    names |= {name for each in command for name in values.names(each.value)}
                    names |= {"HOSTNAME"} if (command[0].text or "").endswith("hostname") else set()
                    names |= {"conda"} if (command[0].text or "").endswith(("conda", "mamba")) else set()
                    names |= {"$(nvidia-smi)"} if (command[0].text or "").endswith("nvidia-smi") else set()
                if not any(command[0].text in state.functions for command in known):
                    output = command_output.pipeline(known, self._redirections.machine(state), plain[0].stdin)
                    if output is not None:
                        return output
        del self._walk.record.invocations[first:]
        copy = state.fork()
        copy.context = replace(copy.context, captured=True)
        self._walk.subshell(copy, frame, lambda inner, within: self._walk.sequence(node.children[1:-1], inner, within))
        added = self._walk.record.invocations[first:]
        if readable and len(added) == 1 and added[0].name == "echo" and added[0].branches == state.context.branches:
            words = [word.text for word in added[0].argv[1:]]
            plainly = not any(word is None or word.startswith("-") or "\\" in word for word in words)
            if plainly and not added[0].in_loop and first not in self._walk.record.diverted:
                return values.literal(" ".join(word or "" for word in words))
        return values.hole(names, many=many)
