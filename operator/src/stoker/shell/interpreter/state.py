"""What the interpreter knows at one point of a script: variables, functions, and how that point is reached."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, Source
from stoker.shell.interpreter.values import Text, Value
from stoker.shell.model import Circumstances


class Ending(Enum):
    """How a command ends."""

    SUCCESS = "success"  # certainly 0
    FAILURE = "failure"  # certainly not 0
    EXPECTED = "expected"  # a program: 0 in a successful run
    UNEXPECTED = "unexpected"  # the opposite: `! program`
    UNDECIDED = "undecided"  # a question (`test`, `grep`) with an unknown answer


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ends, and what an undecided end hangs on."""

    ending: Ending
    names: frozenset[str] = values.NO_NAMES

    def negated(self) -> "Outcome":
        """Of `! command`."""
        return _NEGATED.get(self.ending, self)

    @property
    def truth(self) -> bool | None:
        """Success, as a successful run sees it."""
        return {Ending.SUCCESS: True, Ending.EXPECTED: True, Ending.FAILURE: False, Ending.UNEXPECTED: False}.get(
            self.ending
        )

    @property
    def certain(self) -> bool:
        return self.ending in (Ending.SUCCESS, Ending.FAILURE)


SUCCESS = Outcome(Ending.SUCCESS)
FAILURE = Outcome(Ending.FAILURE)
EXPECTED = Outcome(Ending.EXPECTED)
UNEXPECTED = Outcome(Ending.UNEXPECTED)
UNDECIDED = Outcome(Ending.UNDECIDED)
_NEGATED = {
    Ending.SUCCESS: FAILURE,
    Ending.FAILURE: SUCCESS,
    Ending.EXPECTED: UNEXPECTED,
    Ending.UNEXPECTED: EXPECTED,
}


def decided(truth: bool | None, names: frozenset[str] = values.NO_NAMES) -> Outcome:
    """Of a question with a known (or unknown) answer."""
    return Outcome(Ending.UNDECIDED, names) if truth is None else SUCCESS if truth else FAILURE


@dataclass(frozen=True, slots=True)
class Variable:
    """A scalar (`value`) or an array (`items`, of which one may stand for several; a wholly unknown array has a hole).

    keys: of an associative array, in the order of its items. integer: `declare -i`, what is assigned is calculated.
    fixed: `readonly`, `declare -r`: no assignment changes it.
    origin: where it was assigned, NOWHERE for injected ones.
    """

    value: Value = values.EMPTY
    items: tuple[Value, ...] | None = None
    keys: tuple[str, ...] | None = None
    exported: bool = False
    integer: bool = False
    fixed: bool = False
    origin: Offsets = NOWHERE

    def scalar(self) -> Value:
        if self.items is None:
            return self.value
        if self.keys is not None:
            return self.items[self.keys.index("0")] if "0" in self.keys else values.EMPTY
        return self.items[0] if self.items else values.EMPTY

    def with_item(self, position: int, item: Value) -> "Variable":
        """The array with another value in one place, or one more at its end."""
        items = self.items or ()
        return replace(self, value=values.EMPTY, items=(*items[:position], item, *items[position + 1 :]))


_START = Circumstances()


@dataclass(slots=True)
class State:
    """Mutable; `fork` for the other arm of a decision.

    exit_traps: what may be set to be run at the end, by the arms that meet here (None: nothing).
    tainted: an unread file was sourced, or unknown text evaluated: a variable that isn't set here may be set.
    references: names declared by `declare -n` and the names that they stand for (None: unknown). Never changed.
    last: how the last command ended, for `$?`.
    how: how this point is reached.
    files: texts of files that the script has written (None: written, content unknown). Never changed.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    functions: dict[str, tuple[Source, Node]] = field(default_factory=dict)
    references: Mapping[str, str | None] = field(default_factory=dict)
    positional: tuple[Value, ...] | None = ()
    tainted: bool = False
    errexit: bool = False
    last: Outcome = SUCCESS
    how: Circumstances = _START
    exit_traps: tuple[Text | None, ...] = (None,)
    failure_trap: Text | None = None
    files: Mapping[str, Text | None] = field(default_factory=dict)

    def fork(self) -> "State":
        other = State.__new__(State)
        for name in State.__slots__:
            setattr(other, name, getattr(self, name))
        other.variables, other.functions = dict(self.variables), dict(self.functions)
        return other

    def adopt(self, other: "State") -> None:
        """Take over another state's knowledge, not how it was reached."""
        self.variables, self.unset, self.functions = other.variables, other.unset, other.functions
        self.references = other.references
        self.positional, self.tainted, self.errexit = other.positional, other.tainted, other.errexit
        self.exit_traps, self.failure_trap, self.files = other.exit_traps, other.failure_trap, other.files

    def target(self, name: str) -> str | None:
        """The variable that a name stands for; None if that is unknown."""
        for _ in range(8):
            if name not in self.references:
                return name
            following = self.references[name]
            if following is None:
                return None
            name = following
        return None

    def assign(self, name: str, variable: Variable) -> None:
        """Give a name, or what it refers to, a value; what is exported stays so."""
        target = self.target(name)
        if target is None:
            self.forget()
            return
        previous = self.variables.get(target)
        kept = previous is not None and previous.exported and not variable.exported
        self.variables[target] = replace(variable, exported=True) if kept else variable

    def forget(self) -> None:
        """Anything may have been assigned."""
        self.variables = {
            name: Variable(value=values.hole([name], many=True), exported=variable.exported, origin=variable.origin)
            for name, variable in self.variables.items()
        }
        self.unset = frozenset()
        self.tainted = True

    def forget_names(self, names: Iterable[str]) -> None:
        for name in names:
            target = self.target(name)
            if target is None:
                self.forget()
                continue
            previous = self.variables.get(target, Variable())
            self.variables[target] = Variable(
                value=values.hole([target], many=True), exported=previous.exported, origin=previous.origin
            )

    def clear(self, name: str) -> None:
        """`unset NAME`."""
        target = self.target(name)
        if target is None:
            self.forget()
            return
        self.variables.pop(target, None)
        self.unset |= {target}


def join(states: Sequence[State]) -> State | None:
    """The state after arms that meet again. Successful arms decide; None if no arm goes on.

    Of a variable, every arm's values are possible. An array that differs becomes unknown.
    """
    if not states:
        return None
    wanted = [state for state in states if not state.how.after_failure] or list(states)
    first = wanted[0]
    if len(wanted) == 1:
        return first
    branches = first.how.branches
    for state in wanted[1:]:
        pairs = zip(branches, state.how.branches, strict=False)
        common = next((index for index, (one, other) in enumerate(pairs) if one.decision != other.decision
                       or one.arm != other.arm), min(len(branches), len(state.how.branches)))  # fmt: skip
        branches = branches[:common]
    joined = first.fork()
    joined.how = replace(first.how, branches=branches)
    joined.variables = _join_variables(wanted)
    joined.unset = frozenset.intersection(*(state.unset for state in wanted))
    joined.tainted = any(state.tainted for state in wanted)
    joined.errexit = all(state.errexit for state in wanted)
    joined.exit_traps = tuple(dict.fromkeys(trap for state in wanted for trap in state.exit_traps))
    if any(state.positional != first.positional for state in wanted):
        joined.positional = None
    if any(state.references != first.references for state in wanted):
        joined.references = dict.fromkeys(name for state in wanted for name in state.references)
    for state in wanted[1:]:
        for name, function in state.functions.items():
            joined.functions.setdefault(name, function)
        if state.files is not joined.files:
            joined.files = {
                path: joined.files.get(path) if joined.files.get(path) == state.files.get(path) else None
                for path in (*joined.files, *state.files)
            }
    return joined


def _join_variables(states: Sequence[State]) -> dict[str, Variable]:
    joined: dict[str, Variable] = {}
    for name in dict.fromkeys(name for state in states for name in state.variables):
        variables = [state.variables.get(name) for state in states]
        first = next(variable for variable in variables if variable is not None)
        if all(variable is first or variable == first for variable in variables):
            joined[name] = first
            continue
        exported = any(variable is not None and variable.exported for variable in variables)
        if any(variable is not None and variable.items is not None for variable in variables):
            value = values.hole([name], many=True)
        else:
            value = values.union(
                [values.hole([name], absent=True) if variable is None else variable.value for variable in variables]
            )
        joined[name] = Variable(value=value, exported=exported, origin=first.origin)
    return joined
