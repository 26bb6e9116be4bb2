"""The walk itself: statements one after the other, arms of decisions, subshells, texts within texts.

What a statement does is not known here: `Walk` is given a function for that (see `interpreter`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.budget import MAX_DEPTH, MAX_INVOCATIONS, MAX_NESTED_SHELLS, Budget
from stoker.shell.interpreter.expansion import Expander, Field
from stoker.shell.interpreter.frame import Ended, Frame
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, ParsedText
from stoker.shell.interpreter.record import BranchPoint, ScriptRecord
from stoker.shell.interpreter.state import FAILURE, SUCCESS, UNDECIDED, ExitStatus, ShellState, Variable, join
from stoker.shell.interpreter.values import Fragment, Text, Value
from stoker.shell.model import Branch, ExhaustedError

_RANK = re.compile(r"RANK|INDEX|HOSTNAME|POD_NAME|NODE_?ID|\bNODENAME|ORDINAL", re.IGNORECASE)
"""Variables that differ from pod to pod."""

Result: TypeAlias = tuple[ExitStatus, ShellState | None]
"""How a statement ends and what the shell knows then; None where it never goes on, as after `exit`."""
Run: TypeAlias = Callable[[ShellState], Result]
"""One arm of a decision, from the state at its beginning."""
Statement: TypeAlias = Callable[[Node, ShellState, Frame], Result]


def _ended(_: Node, __: ShellState, ___: Frame) -> Result:
    """The statement of a walk that has come to its end."""
    raise ExhaustedError


class Walk:
    """What all statements need. statement: follows one statement."""

    def __init__(self, record: ScriptRecord, budget: Budget, expander: Expander, statement: Statement) -> None:
        self.record = record
        self.budget = budget
        self.expander = expander
        self._statement = statement
        self._holes = 0

    def close(self) -> None:
        """Let go of who uses this walk, at the end: all of them know one another in a circle, which would stay until
        the next garbage collection.
        """
        self._statement = _ended
        self.expander.close()

    # ------------------------------------------------------------------------------------------------------ statements

    def execute(self, node: Node, state: ShellState, frame: Frame) -> Result:
        """Follow one statement."""
        self.budget.step()
        if len(self.record.invocations) > MAX_INVOCATIONS:
            raise ExhaustedError
        if frame.depth >= MAX_DEPTH:
            self.record.cut()
            state.forget()
            return UNDECIDED, state
        status, after = self._statement(node, state, frame.deeper())
        if after is not None:
            after.last = status
        return status, after

    def sequence(self, nodes: Sequence[Node], state: ShellState | None, frame: Frame) -> Result:
        """Follow statements one after the other."""
        status = SUCCESS
        for index, node in enumerate(nodes):
            if not node.is_named or node.type in ("comment", "heredoc_body", "heredoc_end"):
                continue
            if state is None:
                break
            following = nodes[index + 1] if index + 1 < len(nodes) else None
            if following is not None and following.type == "&":
                self._background(node, state, frame)
                status = SUCCESS
                continue
            status, state = self.execute(node, state, frame)
            if (
                state is not None
                and state.errexit
                and not frame.in_condition
                and status.ending is FAILURE.ending
                and node.type in ("command", "test_command", "subshell")
            ):
                frame.exits.append((FAILURE, state))
                state = None
        return status, state

    def _background(self, node: Node, state: ShellState, frame: Frame) -> None:
        copy = state.fork()
        outermost = 1 if self.record.script.argument is None else 2  # a container's `bash -c` is a shell within
        detached = copy.context.detached or frame.shells > outermost
        copy.context, copy.errexit = replace(copy.context, background=True, detached=detached), False
        self.subshell(copy, frame, lambda inner, within: self.execute(node, inner, within))

    def runner(self, node: Node, frame: Frame) -> Run:
        """The arm that follows a statement."""
        return lambda state: self.execute(node, state, frame)

    # ------------------------------------------------------------------------------------------------------- decisions

    def two_ways(
        self, status: ExitStatus, state: ShellState, frame: Frame, when_true: Run, when_false: Run, node: Node
    ) -> Result:
        """Go on by how a condition ended. node: what is shown as the place of the decision."""
        truth = status.truth
        if truth is None:
            return self.arms(state, frame, [when_true, when_false], status.names, node)
        chosen, other = (when_true, when_false) if truth else (when_false, when_true)
        if status.certain:
            return chosen(state)
        failed = state.fork()
        failed.context = replace(failed.context, after_failure=True)
        if truth:
            result = chosen(state)
            other_result = other(failed)
        else:
            # Recorded in the order of the text.
            other_result = other(failed)
            result = chosen(state)
        return result if result[1] is not None else other_result

    def arms(
        self, state: ShellState, frame: Frame, runs: Sequence[Run], names: frozenset[str], node: Node | None
    ) -> Result:
        """All arms of a decision that can't be taken, then their union.

        names: what the decision hangs on. node: what is shown as its place.
        """
        number = len(self.record.branch_points)
        point = BranchPoint()
        self.record.branch_points.append(point)
        text = frame.text
        span = None if node is None else self.record.span(text.outer(text.start(node), text.end(node)))
        rank = any(_RANK.search(name) for name in names)
        ends: list[ShellState] = []
        statuses: list[ExitStatus] = []
        for arm, run in enumerate(runs):
            point.arms.add(arm)
            copy = state.fork()
            branch = Branch(decision=number, arm=arm, rank_dependent=rank, span=span)
            copy.context = replace(state.context, branches=(*state.context.branches, branch))
            before = self.record.ends
            status, after = run(copy)
            if after is None:
                if self.record.ends == before:
                    point.failed.add(arm)
                continue
            ends.append(after)
            statuses.append(status)
        joined = join(ends)
        if joined is not None and len(ends) == 1 and len(point.failed) == len(runs) - 1:
            joined.context = replace(joined.context, branches=state.context.branches)
        if len(statuses) == 1:
            return statuses[0], joined
        kinds = {status.ending for status in statuses}
        return (statuses[0] if len(kinds) == 1 and statuses else ExitStatus(UNDECIDED.ending, names)), joined

    # ---------------------------------------------------------------------------------------------- shells and texts

    def subshell(self, state: ShellState, frame: Frame, run: Callable[[ShellState, Frame], Result]) -> ExitStatus:
        """Run in a copy: assignments don't come back; `exit` ends only the copy. What is read is gone for both.

        Its traps are its own: it inherits none, and runs those that it has set when it ends.
        """
        within, inner = frame.in_subshell(), state.fork()
        inner.exit_traps, inner.failure_trap = (None,), None
        status, end = run(inner, within)
        self.exit_traps(end, within.exits, within)
        ends = [*within.exits, *([(status, end)] if end is not None else [])]
        if not ends:
            return FAILURE
        state.stdin = ends[-1][1].stdin
        wanted = [each for each, ended in ends if not ended.context.after_failure or state.context.after_failure] or [
            each for each, _ in ends
        ]
        return wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED

    def whole_text(self, text: ParsedText, state: ShellState, frame: Frame) -> Result:
        """All statements of a text, in the given state."""
        self.record.note_syntax(text)
        return self.sequence(text.root.children, state, frame.in_text(text))

    def nested(self, text: Text, state: ShellState, frame: Frame, site: Offsets, *, own: bool) -> Result | None:
        """Run text as a script, in this shell (`eval`, `source`) or one of its own; None if it can't be followed.

        site: where it stands, for words of it that stand nowhere themselves.
        """
        size = sum(len(fragment.text or "") for fragment in text)
        if not self.budget.takes_nested(size) or frame.nested >= MAX_NESTED_SHELLS:
            self.record.cut()
            return None
        if not any(fragment.text and fragment.text.strip() for fragment in text):
            return (SUCCESS, state) if size or not text else None
        source = ParsedText.nested(self._with_names(text, state), site)
        within = frame._replace(nested=frame.nested + 1)
        if not own:
            return self.whole_text(source, state, within)
        return self.subshell(state, within, lambda inner, shell: self.whole_text(source, inner, shell)), state

    def _with_names(self, text: Text, state: ShellState) -> Text:
        """The text with a variable of unknown value in the place of each hole."""
        known: list[Fragment] = []
        for fragment in text:
            if fragment.text is not None:
                known.append(fragment)
                continue
            self._holes += 1
            name = f"__unknown_{self._holes}"
            state.variables[name] = Variable(value=((fragment._replace(quoted=False, expanded=False, absent=False),),))
            known.append(Fragment("${" + name + "}"))
        return tuple(known)

    def exit_traps(self, end: ShellState | None, exits: Sequence[Ended], frame: Frame) -> None:
        """What `trap ... EXIT` and `trap ... ERR` run at the end of a shell."""
        ends = [state for status, state in exits if status is not FAILURE]
        ends += [end] if end is not None else []
        last = join(ends or [state for _, state in exits])
        if last is None:
            return
        last.context = replace(last.context, in_trap=True)
        if last.failure_trap is not None:
            failed = last.fork()
            failed.context, failed.failure_trap = replace(failed.context, after_failure=True), None
            self.whole_text(ParsedText.nested(last.failure_trap, NOWHERE), failed, frame)
        handlers, last.exit_traps = last.exit_traps, (None,)
        runs = [keeper(SUCCESS) if handler is None else self._trap_runner(handler, frame) for handler in handlers]
        if len(runs) == 1:
            runs[0](last)
        else:
            self.arms(last, frame, runs, values.NO_NAMES, None)

    def _trap_runner(self, handler: Text, frame: Frame) -> Run:
        return lambda state: self.whole_text(ParsedText.nested(handler, NOWHERE), state, frame)


def keeper(status: ExitStatus) -> Run:
    """The arm that does nothing."""
    return lambda state: (status, state)


def new_process(state: ShellState, arguments: tuple[Value, ...] | None) -> ShellState:
    """What a new shell process inherits. arguments: its positional parameters."""
    copy = state.fork()
    copy.variables = {name: variable for name, variable in state.variables.items() if variable.exported}
    copy.unset = frozenset()
    copy.functions = {}
    copy.positional = arguments
    copy.errexit = False
    copy.exit_traps = (None,)
    return copy


def as_positional(fields: Sequence[Field]) -> tuple[Value, ...] | None:
    """Words as positional parameters; None where it is not known how many they are."""
    if any(each.many or each.globs for each in fields):
        return None
    return tuple(values.as_assigned(each.value) for each in fields)
