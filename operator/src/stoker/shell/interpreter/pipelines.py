"""Lists and pipelines: `a && b || c`, `a | b`, `a <<EOF > file`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import command_output
from stoker.shell.interpreter.commands import Commands
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.redirections import Redirections
from stoker.shell.interpreter.state import SUCCESS, ExitStatus, ShellState
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import Result, Walk, keeper


class Pipelines:
    """What runs after what, and what one command writes and the next one reads."""

    def __init__(self, walk: Walk, redirections: Redirections, commands: Commands) -> None:
        self._walk = walk
        self._redirections = redirections
        self._commands = commands

    def and_or_list(self, node: Node, state: ShellState, frame: Frame) -> Result:
        links: list[tuple[str, Node]] = []
        while node.type == "list" and len(node.children) >= 3:
            links.append((node.children[1].type, node.children[-1]))
            node = node.children[0]
        return self._chain(node, list(reversed(links)), state, frame)

    def _chain(self, first: Node, links: list[tuple[str, Node]], state: ShellState, frame: Frame) -> Result:
        """`a && b || c`, from left to right."""
        status, after = self._walk.execute(first, state, frame.as_condition())
        return self._links(status, after, frame, links, first)

    def _links(
        self, status: ExitStatus, after: ShellState | None, frame: Frame, links: list[tuple[str, Node]], first: Node
    ) -> Result:
        index = 0
        while index < len(links) and after is not None:
            operator, node = links[index]
            run = self._walk.runner(node, frame)
            stay = keeper(status)
            if operator == "&&" and status.truth is None and index + 1 < len(links) and links[index + 1][0] == "||":
                # `question && a || b` is used as if-then-else.
                status, after = self._walk.two_ways(
                    status, after, frame, run, self._walk.runner(links[index + 1][1], frame), first
                )
                index += 2
                continue
            ways = (run, stay) if operator == "&&" else (stay, run)
            status, after = self._walk.two_ways(status, after, frame, *ways, first)
            index += 1
        return status, after

    def pipeline(
        self,
        nodes: Sequence[Node],
        state: ShellState,
        frame: Frame,
        *,
        first_input: Value | None = None,
        reads: bool = False,
    ) -> Result:
        """Every member runs in a copy. Known text that reaches a shell is run by it."""
        members = [node for node in nodes if node.type != "comment"]
        head = members[0] if members else None
        if head is not None and head.type == "redirected_statement":
            head = head.child_by_field_name("body")
        if head is not None and head.type == "list":
            return self._piped_list(head, members[1:], state, frame)
        # `! a | b` and `! a 2>&1 | b` negate what the pipeline gives; to the grammar it is `! a` that is piped.
        negated = head is not None and head.type == "negated_command"
        if negated and head is members[0]:
            members[:1] = [child for child in members[0].named_children if child.type != "comment"][:1]
        status = SUCCESS
        commands: list[list[Field]] = []
        start = first_input
        flowing = first_input
        for index, node in enumerate(members):
            copy = state.fork()
            copy.context = replace(copy.context, piped=True, reads_pipe=index > 0 or reads)
            if index > 0:
                machine = self._redirections.machine(state)
                flowing = command_output.pipeline(commands, machine, start) if commands else None
            copy.stdin = flowing
            status = self._walk.subshell(copy, frame, self._member(node))
            plain = self._redirections.simple_command(node, copy, frame)
            if plain is not None and len(commands) == index and (plain.stdin is None or index == 0):
                commands.append(plain.fields)
                start = plain.stdin if plain.stdin is not None else start
            else:
                commands = []
        return status.negated() if negated else status, state

    def _member(self, node: Node) -> Callable[[ShellState, Frame], Result]:
        return lambda state, frame: self._walk.execute(node, state, frame)

    def _piped_list(self, node: Node, rest: list[Node], state: ShellState, frame: Frame) -> Result:
        """`a && b 2>&1 | c`: only `b` is piped, to the grammar it is all of the list."""
        operator, last = node.children[1].type, node.children[-1]
        result = self._walk.execute(node.children[0], state, frame)
        status, after = result
        if after is None:
            return result

        def run(arm: ShellState) -> Result:
            return self.pipeline([last, *rest], arm, frame)

        stay = keeper(status)
        when_true, when_false = (run, stay) if operator == "&&" else (stay, run)
        return self._walk.two_ways(status, after, frame, when_true, when_false, node)

    def redirected(self, node: Node, state: ShellState, frame: Frame) -> Result:
        body = node.child_by_field_name("body")
        redirection = self._redirections.read([child for child in node.children if child != body], state, frame)
        links: list[tuple[str, Node]] = []
        pipe: list[Node] = []
        heredocs = [child for child in node.children if child.type == "heredoc_redirect"]
        for heredoc in heredocs:
            operator, right = heredoc.child_by_field_name("operator"), heredoc.child_by_field_name("right")
            if operator is not None and right is not None:
                links.append((operator.type, right))
            pipe.extend(each for child in heredoc.children if child.type == "pipeline" for each in child.named_children)
        if body is None:
            return SUCCESS, state
        outer = state.stdin
        if redirection.stdin is not None:
            state.stdin = redirection.stdin
        first = len(self._walk.record.invocations)
        more = [
            child
            for heredoc in heredocs
            for index, child in enumerate(heredoc.children)
            if heredoc.field_name_for_child(index) == "argument"
        ]
        output = None
        if redirection.target is not None or pipe:
            output = self._redirections.output(body, state, frame, more)
        if body.type == "command" and more:
            status, after = self._commands.command(body, state, frame, more)
        else:
            status, after = self._walk.execute(body, state, frame)
        if after is not None and redirection.stdin is not None:
            after.stdin = outer
        if redirection.diverts:
            self._walk.record.diverted.update(range(first, len(self._walk.record.invocations)))
        if after is not None and redirection.target is not None:
            self._redirections.write(redirection.target, output, after, append=redirection.append)
        if after is not None and pipe:
            status, after = self.pipeline(pipe, after, frame, first_input=output, reads=True)
        if links:
            return self._links(status, after, frame, links, body)
        return status, after
