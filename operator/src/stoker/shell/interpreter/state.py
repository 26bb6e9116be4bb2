"""What the interpreter knows at one point of a script: variables, functions, and how that point is reached."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import NamedTuple

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, ParsedText
from stoker.shell.interpreter.values import Text, Value
from stoker.shell.model import ExecutionContext


class Ending(Enum):
    """How a command ends."""

    SUCCESS = "success"  # certainly 0
    FAILURE = "failure"  # certainly not 0
    EXPECTED = "expected"  # a program: 0 in a successful run
    UNEXPECTED = "unexpected"  # the opposite: `! program`
    UNDECIDED = "undecided"  # a question (`test`, `grep`) with an unknown answer


class ExitStatus(NamedTuple):
    """How a command ends, and what an undecided end hangs on."""

    ending: Ending
    names: frozenset[str] = values.NO_NAMES

    def negated(self) -> "ExitStatus":
        """Of `! command`."""
        return _NEGATED.get(self.ending, self)

    @property
    def truth(self) -> bool | None:
        """Success, as a successful run sees it."""
        return _TRUTHS.get(self.ending)

    @property
    def certain(self) -> bool:
        return self.ending in (Ending.SUCCESS, Ending.FAILURE)


_TRUTHS = {Ending.SUCCESS: True, Ending.EXPECTED: True, Ending.FAILURE: False, Ending.UNEXPECTED: False}
SUCCESS = ExitStatus(Ending.SUCCESS)
FAILURE = ExitStatus(Ending.FAILURE)
EXPECTED = ExitStatus(Ending.EXPECTED)
UNEXPECTED = ExitStatus(Ending.UNEXPECTED)
UNDECIDED = ExitStatus(Ending.UNDECIDED)
_NEGATED = {
    Ending.SUCCESS: FAILURE,
    Ending.FAILURE: SUCCESS,
    Ending.EXPECTED: UNEXPECTED,
    Ending.UNEXPECTED: EXPECTED,
}


def decided(truth: bool | None, names: frozenset[str] = values.NO_NAMES) -> ExitStatus:
    """Of a question with a known (or unknown) answer."""
    return ExitStatus(Ending.UNDECIDED, names) if truth is None else SUCCESS if truth else FAILURE


class Variable(NamedTuple):
    """A scalar (`value`) or an array (`items`, of which one may stand for several; a wholly unknown array has a hole).

    fixed: `readonly`, `declare -r`: no assignment changes it.
    opaque: `declare -A` and `declare -i`, whose assignments are not followed: whatever it is given, it stays unknown.
    origin: where it was assigned, NOWHERE for injected ones.
    """

    value: Value = values.EMPTY
    items: tuple[Value, ...] | None = None
    exported: bool = False
    fixed: bool = False
    opaque: bool = False
    origin: Offsets = NOWHERE

    def scalar(self) -> Value:
        if self.items is None:
            return self.value
        return self.items[0] if self.items else values.EMPTY


_START = ExecutionContext()


@dataclass(slots=True)
class ShellState:
    """Mutable; `fork` for the other arm of a decision.

    exit_traps: what may be set to be run at the end, by the arms that meet here (None: nothing).
    tainted: an unread file was sourced, or unknown text evaluated: a variable that isn't set here may be set.
    last: how the last command ended, for `$?`.
    context: how this point is reached.
    stdin: what is left to read from standard input (None: nothing in sight).
    files: texts of files that the script has written (None: written, content unknown). Never changed.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    functions: dict[str, tuple[ParsedText, Node]] = field(default_factory=dict)
    positional: tuple[Value, ...] | None = ()
    tainted: bool = False
    errexit: bool = False
    last: ExitStatus = SUCCESS
    context: ExecutionContext = _START
    stdin: Value | None = None
    exit_traps: tuple[Text | None, ...] = (None,)
    failure_trap: Text | None = None
    files: Mapping[str, Text | None] = field(default_factory=dict)

    def fork(self) -> "ShellState":
        return ShellState(
            self.variables.copy(), self.unset, self.functions.copy(), self.positional, self.tainted, self.errexit,
            self.last, self.context, self.stdin, self.exit_traps, self.failure_trap, self.files,
        )  # fmt: skip

    def assign(self, name: str, variable: Variable) -> None:
        """Give a name a value; what is exported stays so, and what is opaque stays unknown."""
        previous = self.variables.get(name, Variable())
        if previous.opaque:
            variable = variable._replace(value=values.hole([name], many=True), items=None, opaque=True)
        self.variables[name] = variable._replace(exported=True) if previous.exported else variable

    def forget(self) -> None:
        """Anything may have been assigned."""
        self.variables = {
            name: variable._replace(value=values.hole([name], many=True), items=None, fixed=False)
            for name, variable in self.variables.items()
        }
        self.unset = frozenset()
        self.tainted = True

    def forget_names(self, names: Iterable[str]) -> None:
        for name in names:
            previous = self.variables.get(name, Variable())
            self.variables[name] = previous._replace(value=values.hole([name], many=True), items=None, fixed=False)

    def clear(self, name: str) -> None:
        """`unset NAME`."""
        self.variables.pop(name, None)
        self.unset |= {name}


def join(states: Sequence[ShellState]) -> ShellState | None:
    """The state after arms that meet again. Successful arms decide; None if no arm goes on.

    Of a variable, every arm's values are possible. An array that differs becomes unknown.
    """
    if not states:
        return None
    wanted = [state for state in states if not state.context.after_failure] or list(states)
    first = wanted[0]
    if len(wanted) == 1:
        return first
    branches = first.context.branches
    for state in wanted[1:]:
        pairs = zip(branches, state.context.branches, strict=False)
        common = next((index for index, (one, other) in enumerate(pairs) if one.decision != other.decision
                       or one.arm != other.arm), min(len(branches), len(state.context.branches)))  # fmt: skip
        branches = branches[:common]
    joined = first.fork()
    joined.context = replace(first.context, branches=branches)
    joined.variables = _join_variables(wanted)
    joined.unset = frozenset.intersection(*(state.unset for state in wanted))
    joined.tainted = any(state.tainted for state in wanted)
    if any(state.stdin is not first.stdin for state in wanted):
        joined.stdin = values.hole(["<"])
    joined.errexit = all(state.errexit for state in wanted)
    joined.exit_traps = tuple(dict.fromkeys(trap for state in wanted for trap in state.exit_traps))
    if any(state.positional != first.positional for state in wanted):
        joined.positional = None
    for state in wanted[1:]:
        for name, function in state.functions.items():
            joined.functions.setdefault(name, function)
        if state.files is not joined.files:
            joined.files = {
                path: joined.files.get(path) if joined.files.get(path) == state.files.get(path) else None
                for path in (*joined.files, *state.files)
            }
    return joined


def _join_variables(states: Sequence[ShellState]) -> dict[str, Variable]:
    joined: dict[str, Variable] = {}
    arms = [state.variables for state in states]
    for name in dict.fromkeys(chain.from_iterable(arms)):
        variables = [arm.get(name) for arm in arms]
        first = next(variable for variable in variables if variable is not None)
        if variables.count(first) == len(variables):  # compares by identity first
            joined[name] = first
            continue
        exported = any(variable is not None and variable.exported for variable in variables)
        if any(variable is not None and variable.items is not None for variable in variables):
            value = values.hole([name], many=True)
        else:
            value = values.union(
                [values.hole([name], absent=True) if variable is None else variable.value for variable in variables]
            )
        opaque = any(variable is not None and variable.opaque for variable in variables)
        joined[name] = Variable(value=value, exported=exported, opaque=opaque, origin=first.origin)
    return joined
