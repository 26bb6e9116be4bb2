"""Lists, pipelines and redirections: what runs after what, and what text reaches a command or a file."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from stoker.shell.interpreter import command_output, values
from stoker.shell.interpreter.assignments import Assignments
from stoker.shell.interpreter.command_output import Machine
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.state import SUCCESS, Outcome, State
from stoker.shell.interpreter.values import EMPTY, Value
from stoker.shell.words import VISIBLE_DEVICES

MAX_FILES = 256


@dataclass(frozen=True, slots=True)
class Plain:
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


class Pipelines(Assignments):
    """`a && b || c`, `a | b`, `a <<EOF > file`."""

    def _list(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        links: list[tuple[str, Node]] = []
        while node.type == "list" and len(node.children) >= 3:
            links.append((node.children[1].type, node.children[-1]))
            node = node.children[0]
        return self._chain(node, list(reversed(links)), state)

    def _chain(self, first: Node, links: list[tuple[str, Node]], state: State) -> tuple[Outcome, State | None]:
        """`a && b || c`, from left to right."""
        self._conditions += 1
        try:
            outcome, after = self._execute(first, state)
        finally:
            self._conditions -= 1
        return self._links(outcome, after, links, first)

    def _links(
        self, outcome: Outcome, after: State | None, links: list[tuple[str, Node]], first: Node
    ) -> tuple[Outcome, State | None]:
        index = 0
        while index < len(links) and after is not None:
            operator, node = links[index]
            run = self._runner(node)
            stay = self._keeper(outcome)
            if operator == "&&" and outcome.truth is None and index + 1 < len(links) and links[index + 1][0] == "||":
                # `question && a || b` is used as if-then-else.
                outcome, after = self._two_ways(outcome, after, run, self._runner(links[index + 1][1]), first)
                index += 2
                continue
            ways = (run, stay) if operator == "&&" else (stay, run)
            outcome, after = self._two_ways(outcome, after, *ways, first)
            index += 1
        return outcome, after

    def _pipeline(
        self, nodes: Sequence[Node], state: State, *, first_input: Value | None = None, reads: bool = False
    ) -> tuple[Outcome, State | None]:
        """Every member runs in a copy. Known text that reaches a shell is run by it."""
        members = [node for node in nodes if node.type != "comment"]
        head = members[0] if members else None
        if head is not None and head.type == "redirected_statement":
            head = head.child_by_field_name("body")
        if head is not None and head.type == "list":
            return self._piped_list(head, members[1:], state)
        # `! a | b` negates what the pipeline gives; to the grammar it is `! a` that is piped.
        negated = bool(members) and members[0].type == "negated_command"
        if negated:
            members[:1] = [child for child in members[0].named_children if child.type != "comment"][:1]
        outcome = SUCCESS
        commands: list[list[Field]] = []
        start = first_input
        flowing = first_input
        outer, self._stdin = self._stdin, None
        try:
            for index, node in enumerate(members):
                copy = state.fork()
                copy.how = replace(copy.how, piped=True, reads_pipe=index > 0 or reads)
                if index > 0:
                    machine = self._machine(state)
                    flowing = command_output.pipeline(commands, machine, start) if commands else None
                self._stdin = flowing
                outcome = self._subshell(copy, self._runner(node))
                self._stdin = None
                plain = self._plain(node, copy)
                if plain is not None and len(commands) == index and (plain.stdin is None or index == 0):
                    commands.append(plain.fields)
                    start = plain.stdin if plain.stdin is not None else start
                else:
                    commands = []
        finally:
            self._stdin = outer
        return outcome.negated() if negated else outcome, state

    def _piped_list(self, node: Node, rest: list[Node], state: State) -> tuple[Outcome, State | None]:
        """`a && b 2>&1 | c`: only `b` is piped, to the grammar it is all of the list."""
        operator, last = node.children[1].type, node.children[-1]
        outcome, after = self._execute(node.children[0], state)
        if after is None:
            return outcome, after

        def run(arm: State) -> tuple[Outcome, State | None]:
            return self._pipeline([last, *rest], arm)

        stay = self._keeper(outcome)
        when_true, when_false = (run, stay) if operator == "&&" else (stay, run)
        return self._two_ways(outcome, after, when_true, when_false, node)

    def _machine(self, state: State) -> Machine:
        """What tools see of the pod at this point."""
        hidden = (state.variables.get(name) for name in VISIBLE_DEVICES)
        visible = next((each.scalar() for each in hidden if each is not None and each.exported), None)
        return Machine(self._gpus, visible, state.files)

    def _plain(self, node: Node, state: State, *, again: bool = True) -> Plain | None:
        """A simple command, None for anything else. Redirections of errors don't matter.

        again: it is followed elsewhere, too, so that what its substitutions run must not be recorded here.
        """
        stdin: Value | None = None
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        if node.type == "redirected_statement":
            node = node.child_by_field_name("body") or node
        inner = state.fork()
        for redirect in redirects:
            if redirect.type in ("herestring_redirect", "file_redirect") and self._reads(redirect):
                stdin = self._redirects([redirect], inner).stdin
            elif not self._source.slice(redirect).startswith("2>"):
                return None
        if node.type != "command" or any(child.type == "variable_assignment" for child in node.children):
            return None
        expand = self._fields_again if again else self._fields
        variants = expand(self._argument_nodes(node), inner)
        return Plain(variants[0], stdin) if len(variants) == 1 and variants[0] else None

    def _fields(self, nodes: Sequence[Node], state: State) -> list[list[Field]]:
        return self._expander.fields(nodes, self._source, state)

    def _fields_again(self, nodes: Sequence[Node], state: State) -> list[list[Field]]:
        """The words of a command that is followed elsewhere: what its substitutions run is not recorded twice."""
        recorded = len(self._invocations)
        try:
            return self._fields(nodes, state)
        finally:
            del self._invocations[recorded:]

    def _reads(self, redirect: Node) -> bool:
        return self._source.slice(redirect).startswith("<")

    @staticmethod
    def _argument_nodes(node: Node) -> list[Node]:
        nodes: list[Node] = []
        for index, child in enumerate(node.children):
            role = node.field_name_for_child(index)
            if role == "argument":
                nodes.append(child)
            elif role == "name":
                nodes.extend(child.children or [child])
        return nodes

    def _redirected(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        redirection = self._redirects([child for child in node.children if child != body], state)
        links: list[tuple[str, Node]] = []
        pipe: list[Node] = []
        for heredoc in (child for child in node.children if child.type == "heredoc_redirect"):
            operator, right = heredoc.child_by_field_name("operator"), heredoc.child_by_field_name("right")
            if operator is not None and right is not None:
                links.append((operator.type, right))
            pipe.extend(each for child in heredoc.children if child.type == "pipeline" for each in child.named_children)
        if body is None:
            return SUCCESS, state
        outer = self._stdin
        if redirection.stdin is not None:
            self._stdin = redirection.stdin
        first = len(self._invocations)
        extra = [
            child
            for heredoc in node.children
            if heredoc.type == "heredoc_redirect"
            for index, child in enumerate(heredoc.children)
            if heredoc.field_name_for_child(index) == "argument"
        ]
        try:
            output = self._output(body, state, extra) if redirection.target is not None or pipe else None
            if body.type == "command" and extra:
                outcome, after = self._command(body, state, extra)
            else:
                outcome, after = self._execute(body, state)
        finally:
            if redirection.stdin is not None:
                self._stdin = outer
        if redirection.diverts:
            self._diverted.update(range(first, len(self._invocations)))
        if after is not None and redirection.target is not None:
            self._write(redirection.target, output, after, append=redirection.append)
        if after is not None and pipe:
            outcome, after = self._pipeline(pipe, after, first_input=output, reads=True)
        if links:
            return self._links(outcome, after, links, body)
        return outcome, after

    def _redirects(self, nodes: Iterable[Node], state: State) -> Redirection:
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
                    delimiter = self._source.slice(start)
                    if any(character in delimiter for character in "'\"\\"):
                        begin, end = self._source.start(body), self._source.end(body)
                        text = values.literal(self._source.text[begin:end], *self._source.exact(begin, end))
                    else:
                        text = self._expander.heredoc(body, self._source, state)
                    if any(child.type == "<<-" for child in node.children):
                        text = values.hole(["<"])  # which tabs it loses is not followed
            elif node.type == "herestring_redirect":
                word = self._value(node.named_children[-1] if node.named_children else None, state)
                text = values.as_assigned(values.concatenate([word, values.literal("\n")]))
            elif node.type == "file_redirect":
                descriptor = node.child_by_field_name("descriptor")
                destination = node.child_by_field_name("destination")
                operator = next((child.type for child in node.children if not child.is_named), "")
                if destination is None or (descriptor is not None and self._source.slice(descriptor) != "1"):
                    continue
                if operator == "<" and destination.type == "process_substitution":
                    text = values.as_assigned(self._substitute(destination, self._source, state, whole=True))
                    continue
                value = self._expander.value(destination, self._source, state)
                if operator in (">", ">>", ">|", "&>", "&>>"):
                    target, append, diverts = values.single(value) or "", ">>" in operator, True
                elif operator == ">&":
                    diverts = diverts or values.single(value) != "1"
                elif operator == "<":
                    path = values.single(value)
                    known = state.files.get(posixpath.normpath(path)) if path else None
                    text = (known,) if known is not None else values.hole(["<"])
        return Redirection(text, target, append, diverts)

    def _output(self, node: Node, state: State, extra: Sequence[Node]) -> Value | None:
        """What a simple command prints, if that is certain."""
        if node.type != "command":
            return None
        fields = self._fields_again([*self._argument_nodes(node), *extra], state.fork())
        if len(fields) != 1 or not fields[0]:
            return None
        name = fields[0][0].text
        if name in ("cat", "tee") and self._stdin is not None and (len(fields[0]) == 1 or name == "tee"):
            return self._stdin
        return command_output.pipeline(fields, self._machine(state))

    def _write(self, path: str, content: Value | None, state: State, *, append: bool) -> None:
        if not path or path.startswith("/dev/"):
            return
        key = posixpath.normpath(path)
        if len(state.files) >= MAX_FILES and key not in state.files:
            return
        text = content[0] if content is not None and len(content) == 1 else None
        if append:
            previous = state.files.get(key, ())
            if text is None or previous is None or len(previous) + len(text) > values.MAX_PIECES:
                text = None
            else:
                text = (*previous, *text)
        state.files = {**state.files, key: text}
        self._written[path] = text
