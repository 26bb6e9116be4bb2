"""Redirections and known files: what text reaches a command, and what text a file holds."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from stoker.shell.interpreter import command_output, values
from stoker.shell.interpreter.command_output import Machine
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.state import ShellState
from stoker.shell.interpreter.values import EMPTY, Value
from stoker.shell.interpreter.walk import Walk
from stoker.shell.words import VISIBLE_DEVICES

MAX_FILES = 256
"""Files that a script writes and that are followed; chosen because the most in benchmarks/corpus are 16."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A simple command's words, and what it reads where a redirection says so."""

    fields: list[Field]
    stdin: Value | None


@dataclass(frozen=True, slots=True)
class Redirection:
    """Standard input's text, the file that standard output goes to, and whether it goes anywhere else at all."""

    stdin: Value | None
    target: str | None
    append: bool
    diverts: bool


class Redirections:
    """What commands read and write. gpus: GPUs that the pod is granted, None = unknown."""

    def __init__(self, walk: Walk, gpus: int | None) -> None:
        self._walk = walk
        self._gpus = gpus

    def machine(self, state: ShellState) -> Machine:
        """What tools see of the pod at this point."""
        hidden = (state.variables.get(name) for name in VISIBLE_DEVICES)
        visible = next((each.scalar() for each in hidden if each is not None and each.exported), None)
        return Machine(self._gpus, visible, state.files)

    def simple_command(
        self, node: Node, state: ShellState, frame: Frame, *, again: bool = True
    ) -> SimpleCommand | None:
        """A simple command, None for anything else. Redirections of errors don't matter.

        again: it is followed elsewhere, too, so that what its substitutions run must not be recorded here.
        """
        stdin: Value | None = None
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        if node.type == "redirected_statement":
            node = node.child_by_field_name("body") or node
        inner = state.fork()
        for redirect in redirects:
            if redirect.type in ("herestring_redirect", "file_redirect") and frame.text.slice(redirect).startswith("<"):
                stdin = self.read([redirect], inner, frame).stdin
            elif not frame.text.slice(redirect).startswith("2>"):
                return None
        if node.type != "command" or any(child.type == "variable_assignment" for child in node.children):
            return None
        nodes = argument_nodes(node)
        variants = self._fields_again(nodes, inner, frame) if again else self._walk.expander.fields(nodes, inner, frame)
        return SimpleCommand(variants[0], stdin) if len(variants) == 1 and variants[0] else None

    def _fields_again(self, nodes: Sequence[Node], state: ShellState, frame: Frame) -> list[list[Field]]:
        """The words of a command that is followed elsewhere: what its substitutions run is not recorded twice."""
        recorded = len(self._walk.record.invocations)
        try:
            return self._walk.expander.fields(nodes, state, frame)
        finally:
            del self._walk.record.invocations[recorded:]

    def read(self, nodes: Iterable[Node], state: ShellState, frame: Frame) -> Redirection:
        """Where standard input comes from and standard output goes to."""
        text: Value | None = None
        target: str | None = None
        append = diverts = False
        pending = list(nodes)
        while pending:
            node = pending.pop(0)
            if node.type == "heredoc_redirect":
                pending.extend(child for child in node.children if child.type == "file_redirect")
                start = next((child for child in node.children if child.type == "heredoc_start"), None)
                body = next((child for child in node.children if child.type == "heredoc_body"), None)
                text = EMPTY
                if start is not None and body is not None:
                    delimiter = frame.text.slice(start)
                    if any(character in delimiter for character in "'\"\\"):
                        begin, end = frame.text.start(body), frame.text.end(body)
                        text = values.literal(frame.text.text[begin:end], *frame.text.exact(begin, end))
                    else:
                        text = self._walk.expander.heredoc(body, state, frame)
                    if any(child.type == "<<-" for child in node.children):
                        text = values.hole(["<"])  # which tabs it loses is not followed
            elif node.type == "herestring_redirect":
                word = self._walk.expander.optional(
                    node.named_children[-1] if node.named_children else None, state, frame
                )
                text = values.as_assigned(values.concatenate([word, values.literal("\n")]))
            elif node.type == "file_redirect":
                descriptor = node.child_by_field_name("descriptor")
                destination = node.child_by_field_name("destination")
                operator = next((child.type for child in node.children if not child.is_named), "")
                if destination is None or (descriptor is not None and frame.text.slice(descriptor) != "1"):
                    continue
                if operator == "<" and destination.type == "process_substitution":
                    text = values.as_assigned(self._walk.expander.process_output(destination, state, frame))
                    continue
                value = self._walk.expander.value(destination, state, frame)
                if operator in (">", ">>", ">|", "&>", "&>>"):
                    target, append, diverts = values.single(value) or "", ">>" in operator, True
                elif operator == ">&":
                    diverts = diverts or values.single(value) != "1"
                elif operator == "<":
                    path = values.single(value)
                    known = state.files.get(posixpath.normpath(path)) if path else None
                    text = (known,) if known is not None else values.hole(["<"])
        return Redirection(text, target, append, diverts)

    def output(self, node: Node, state: ShellState, frame: Frame, more: Sequence[Node] = ()) -> Value | None:
        """What a simple command prints, if that is certain. more: words of it that the grammar gives elsewhere."""
        if node.type != "command":
            return None
        fields = self._fields_again([*argument_nodes(node), *more], state.fork(), frame)
        if len(fields) != 1 or not fields[0]:
            return None
        name = fields[0][0].text
        if name in ("cat", "tee") and state.stdin is not None and (len(fields[0]) == 1 or name == "tee"):
            return state.stdin
        return command_output.pipeline(fields, self.machine(state))

    def write(self, path: str, content: Value | None, state: ShellState, *, append: bool) -> None:
        if not path or path.startswith("/dev/"):
            return
        key = posixpath.normpath(path)
        if len(state.files) >= MAX_FILES and key not in state.files:
            return
        text = content[0] if content is not None and len(content) == 1 else None
        if append:
            previous = state.files.get(key, ())
            if text is None or previous is None or len(previous) + len(text) > values.MAX_FRAGMENTS:
                text = None
            else:
                text = (*previous, *text)
        state.files = {**state.files, key: text}
        self._walk.record.written[path] = text


def argument_nodes(node: Node) -> list[Node]:
    """The words of a simple command, its name the first."""
    nodes: list[Node] = []
    for index, child in enumerate(node.children):
        role = node.field_name_for_child(index)
        if role == "argument":
            nodes.append(child)
        elif role == "name":
            nodes.extend(child.children or [child])
    return nodes
