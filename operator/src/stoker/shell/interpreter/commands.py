"""Simple commands: their words, assignments and redirections, then what runs: a function, a builtin or a program."""

from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import repeated_commands, values, wrappers
from stoker.shell.interpreter.assignments import Assignments
from stoker.shell.interpreter.budget import MAX_DEPTH
from stoker.shell.interpreter.builtins import NAMES, Builtins
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Ended, Frame
from stoker.shell.interpreter.programs import Programs, change_files
from stoker.shell.interpreter.redirections import Redirections, argument_nodes
from stoker.shell.interpreter.state import EXPECTED, SUCCESS, UNDECIDED, ShellState, Variable, join
from stoker.shell.interpreter.values import Fragment, Text, Value
from stoker.shell.interpreter.walk import Result, Run, Walk, as_positional, keeper, new_process
from stoker.shell.model import ExhaustedError

MAX_CALLS = 8
"""Functions and sourced files within one another, at most 6 in benchmarks/corpus; a function may call itself."""
_RESERVED = frozenset({"then", "else", "elif", "fi", "do", "done", "esac"})


class Commands:
    """What a simple command does."""

    def __init__(
        self, walk: Walk, assignments: Assignments, redirections: Redirections, builtins: Builtins, programs: Programs
    ) -> None:
        self._walk = walk
        self._assignments = assignments
        self._redirections = redirections
        self._builtins = builtins
        self._programs = programs

    def command(self, node: Node, state: ShellState, frame: Frame, more: Sequence[Node] = ()) -> Result:
        """Follow a simple command. more: words of it that the grammar gives elsewhere, as in `cat <<EOF FILE`."""
        prefix: list[tuple[str, Variable]] = []
        nodes = [*argument_nodes(node), *more]
        group = next((child for child in node.children if child.type == "subshell"), None)
        if group is not None and [frame.text.slice(each) for each in nodes] == ["time"]:
            return self._walk.execute(group, state, frame)
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        if not nodes:
            status = SUCCESS
            for child in node.named_children:
                if child.type == "variable_assignment":
                    status = self._assignments.assign(child, state, frame)
            return status, state
        prefixed = self._prefix(node, state, frame)
        variants = self._walk.expander.fields(nodes, state, frame)
        scratch = state
        for child in prefixed:
            if child.type == "variable_assignment":
                scratch = state.fork() if scratch is state else scratch
                self._assignments.assign(child, scratch, frame, exported=True)
                target = child.child_by_field_name("name")
                if target is not None and (name := frame.text.slice(target)) in scratch.variables:
                    prefix.append((name, scratch.variables[name]))
        outer, first = state.stdin, len(self._walk.record.invocations)
        redirection = None
        if redirects:
            redirection = self._redirections.read(redirects, state, frame)
            state.stdin = redirection.stdin if redirection.stdin is not None else outer
            if redirection.target is not None:
                output = self._redirections.output(node, state, frame)
                self._redirections.write(redirection.target, output, state, append=redirection.append)
        runs = [self._variant(fields, prefix, frame, node) for fields in variants]
        status, after = runs[0](state) if len(runs) == 1 else self._walk.arms(state, frame, runs, values.NO_NAMES, node)
        if redirection is not None and redirection.stdin is not None and after is not None:
            after.stdin = outer
        if redirection is not None and redirection.diverts:
            self._walk.record.diverted.update(range(first, len(self._walk.record.invocations)))
        return status, after

    def _prefix(self, node: Node, state: ShellState, frame: Frame) -> list[Node]:
        """The assignments in front of a command.

        The grammar lets `A=1 B=2`, alone on their line, run into the command of the next line: those are statements.
        """
        assignments = [child for child in node.named_children if child.type == "variable_assignment"]
        name = node.child_by_field_name("name")
        if name is None or not assignments:
            return assignments
        following = [*assignments[1:], name]
        own = 0
        for index, (left, right) in enumerate(zip(assignments, following, strict=True)):
            between = frame.text.text[frame.text.end(left) : frame.text.start(right)]
            if "\n" in between.replace("\\\n", ""):
                own = index + 1
        for child in assignments[:own]:
            self._assignments.assign(child, state, frame)
        return assignments[own:]

    def _variant(self, fields: list[Field], prefix: list[tuple[str, Variable]], frame: Frame, node: Node) -> Run:
        return lambda state: self.run(fields, prefix, state, frame, node)

    def run(
        self,
        fields: list[Field],
        prefix: list[tuple[str, Variable]],
        state: ShellState,
        frame: Frame,
        node: Node | None,
    ) -> Result:
        if not fields:
            state.variables.update(dict(prefix))
            return SUCCESS, state
        name = fields[0].text
        if name is not None:
            if name == "{":
                # `time { a; }` and `! { a; }` reach us as the commands `{ a` and `}`.
                return self.run(fields[1:], prefix, state, frame, node)
            if name == "}":
                return SUCCESS, state
            if name in _RESERVED:
                # The grammar takes a stray `fi` for a command; no shell does.
                self._walk.record.not_followed()
                return UNDECIDED, state
            if name in state.functions:
                return self._call(name, fields, prefix, state, frame)
            builtin = self._builtins.run(name, fields, prefix, state, frame) if name in NAMES else None
            if builtin is not None:
                return builtin
        unwrapped = wrappers.unwrap(fields)
        if not unwrapped.fields:
            return SUCCESS, state
        if unwrapped.wrappers:
            return self._unwrapped(unwrapped, prefix, state, frame)
        repeated = repeated_commands.repeated(fields)
        if repeated is not None:
            return self._for_each(repeated, prefix, state, frame, node)
        return self._programs.run(fields, prefix, state, frame), state

    def _for_each(
        self,
        repeated: repeated_commands.Repeated,
        prefix: list[tuple[str, Variable]],
        state: ShellState,
        frame: Frame,
        node: Node | None,
    ) -> Result:
        """A command that runs for items nobody has counted, maybe not at all."""

        def rounds(current: ShellState) -> Result:
            if frame.depth >= MAX_DEPTH:
                raise ExhaustedError
            copy = current.fork()
            copy.context = replace(copy.context, in_loop=True, background=copy.context.background or repeated.parallel)
            copy.errexit = False
            copy.stdin = None
            inside = frame.deeper()
            if not repeated.text:
                self._walk.subshell(
                    copy, inside, lambda inner, within: self.run(repeated.fields, prefix, inner, within, None)
                )
            elif self._programs.shell_text(repeated.fields[0], new_process(copy, ()), inside, repeated.fields) is None:
                self._walk.record.add(repeated.fields, prefix, copy)
            return EXPECTED, current

        return self._walk.arms(state, frame, [rounds, keeper(EXPECTED)], values.NO_NAMES, node)

    def _unwrapped(
        self, unwrapped: wrappers.Unwrapped, prefix: list[tuple[str, Variable]], state: ShellState, frame: Frame
    ) -> Result:
        """A command without its wrappers. All but `command`, `time` and `builtin` start a process: a copy."""
        copy = state.fork()
        copy.context = replace(copy.context, wrappers=(*state.context.wrappers, *unwrapped.wrappers))
        if unwrapped.seconds is not None:
            copy.context = replace(copy.context, time_limit=unwrapped.seconds)
        if unwrapped.background:
            copy.context, copy.errexit = replace(copy.context, background=True, detached=True), False
            words = unwrapped.fields
            if len(words) == 1:
                # A single word is a shell's text, several are a command.
                unwrapped.shell_text = words[0]
        for key, variable in prefix:
            copy.variables[key] = variable
        if unwrapped.cleared:
            copy.variables = {}
        for key in unwrapped.removed:
            copy.clear(key)
        for key, field_, offset in unwrapped.assignments:
            copy.variables[key] = Variable(value=_tail(field_.value, offset), exported=True, origin=field_.site)
        if unwrapped.shell_text is not None:
            text = unwrapped.shell_text
            followed = self._programs.shell_text(text, new_process(copy, ()), frame, unwrapped.fields)
            return self._programs.run(unwrapped.fields, [], copy, frame) if followed is None else followed, state
        same_shell = set(unwrapped.wrappers) <= {"command", "time", "builtin"}
        if same_shell and unwrapped.fields[0].text in state.functions and set(unwrapped.wrappers) != {"time"}:
            # `command` and `builtin` pass functions by: a function may wrap the command of its own name.
            return self._programs.run(unwrapped.fields, prefix, state, frame), state
        if same_shell:
            status, after = self.run(unwrapped.fields, prefix, state, frame, None)
            return status, after
        name = unwrapped.fields[0].text
        if name is not None and name in state.functions and not unwrapped.replaces:
            status = self._programs.run(unwrapped.fields, [], copy, frame)
        else:
            builtin = name in ("test", "[", "true", "false", ":")

            def run(inner: ShellState, within: Frame) -> Result:
                if builtin:
                    return self.run(unwrapped.fields, [], inner, within, None)
                return self._programs.run(unwrapped.fields, [], inner, within), inner

            status = self._walk.subshell(copy, frame, run)
        state.stdin = copy.stdin
        change_files(unwrapped.fields, state)
        if unwrapped.replaces:
            self._walk.record.ends += 1
            # The shell is gone, and its traps with it.
            state.exit_traps, state.failure_trap = (None,), None
            frame.exits.append((status, state))
            return status, None
        return status, state

    def _call(
        self, name: str, fields: list[Field], prefix: list[tuple[str, Variable]], state: ShellState, frame: Frame
    ) -> Result:
        text, body = state.functions[name]
        if len(frame.calls) >= MAX_CALLS:
            self._walk.record.cut()
            state.forget()
            return EXPECTED, state
        positional, state.positional = state.positional, as_positional(fields[1:])
        context, stdin = state.context, state.stdin
        stored: dict[str, Variable | None] = {key: state.variables.get(key) for key, _ in prefix}
        state.variables.update(dict(prefix))
        returns: list[Ended] = []
        within = frame._replace(text=text, loops=(), calls=(*frame.calls, returns), locals=(*frame.locals, stored))
        status, after = self._walk.execute(body, state, within)
        ends = [*returns, *([(status, after)] if after is not None else [])]
        result = join([each for _, each in ends])
        if result is None:
            return status, None
        wanted = [each for each, ended in ends if ended.context.after_failure == result.context.after_failure]
        final = wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED
        # A `return` within a loop of the function leaves the loop, too.
        result.context = replace(
            result.context, in_loop=context.in_loop, rounds=context.rounds, loop_endless=context.loop_endless
        )
        if len(ends) > 1:
            # Arms that return early meet again here.
            result.context = replace(result.context, branches=result.context.branches[: len(context.branches)])
        result.positional, result.stdin = positional, stdin
        for key, variable in stored.items():
            if variable is None:
                result.variables.pop(key, None)
                result.unset -= {key}
            else:
                result.variables[key] = variable
        return final, result


def _tail(value: Value, offset: int) -> Value:
    """Without the first `offset` characters, which are known."""
    result: list[Text] = []
    for text in value:
        left = offset
        fragments: list[Fragment] = []
        for fragment in text:
            if left and fragment.text is not None:
                cut = min(left, len(fragment.text))
                left -= cut
                if cut < len(fragment.text):
                    fragments.append(fragment.part(cut, len(fragment.text)))
            else:
                fragments.append(fragment)
        result.append(tuple(fragment._replace(quoted=False, expanded=False) for fragment in fragments))
    return tuple(result)
