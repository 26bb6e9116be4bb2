"""The walk over a script: limits, decisions and their arms, nested shells, and the record of commands."""

import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Expander, Field
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, Source
from stoker.shell.interpreter.state import FAILURE, SUCCESS, UNDECIDED, Outcome, State, Variable, join
from stoker.shell.interpreter.syntax_errors import stray, unended
from stoker.shell.interpreter.values import EMPTY, NotFollowedError, Piece, Text, Value
from stoker.shell.model import (
    Allowance,
    Branch,
    ExhaustedError,
    Invocation,
    ShellScript,
    Shortfall,
    Span,
    SyntaxIssue,
    Word,
)

MAX_STEPS = 20_000
STEP_SIZE = 256  # characters of words and of output that are as much work as a statement
MAX_DEPTH = 64
MAX_NESTED_SHELLS = 6
MAX_NESTED_TEXT = 1 << 20
MAX_INVOCATIONS = 4_096
MAX_ISSUES = 20

_RANK = re.compile(r"RANK|INDEX|HOSTNAME|POD_NAME|NODE_?ID|\bNODENAME|ORDINAL", re.IGNORECASE)
Run: TypeAlias = Callable[[State], tuple[Outcome, State | None]]


@dataclass(slots=True)
class Loop:
    """Where `break` and `continue` of a loop lead."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


@dataclass(slots=True)
class _Decision:
    """The arms of a decision, and those that always end in failure."""

    arms: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)


class _Environment(Mapping[str, Word]):
    """The exported variables at one point; words are made when they are asked for."""

    def __init__(self, variables: dict[str, Variable], word: Callable[[Variable], Word]) -> None:
        self._variables = variables
        self._word = word

    def __getitem__(self, name: str) -> Word:
        variable = self._variables[name]
        if not _is_passed_on(variable):
            raise KeyError(name)
        return self._word(variable)

    def __iter__(self) -> Iterator[str]:
        return (name for name, variable in self._variables.items() if _is_passed_on(variable))

    def __len__(self) -> int:
        return sum(map(_is_passed_on, self._variables.values()))


def _is_passed_on(variable: Variable) -> bool:
    """Whether programs get it: of arrays they get nothing."""
    return variable.exported and variable.items is None


class _Files(Mapping[str, str]):
    """The files whose texts are known at one point, by normalized path."""

    def __init__(self, texts: Mapping[str, Text | None]) -> None:
        self._texts = texts

    def __getitem__(self, path: str) -> str:
        text = self._texts[posixpath.normpath(path)]
        known = values.plain(text) if text is not None else None
        if known is None:
            raise KeyError(path)
        return known

    def __iter__(self) -> Iterator[str]:
        return (path for path, text in self._texts.items() if text is not None and values.plain(text) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Walk(ABC):
    """One walk over one script. `run` or `run_argv` once, then `result`."""

    def __init__(
        self,
        source: str,
        *,
        environment: Mapping[str, str | None],
        gpus_per_node: int | None,
        files: Mapping[str, str],
        allowance: Allowance,
        argument: int | None = None,
    ) -> None:
        self._script = ShellScript(source=source, argument=argument)
        self._gpus = gpus_per_node
        self._environment = environment
        self._given_files = files
        self._assumed_unset: set[str] = set()
        self._allowance = allowance
        self._expander = Expander(self._substitute, self._assumed_unset, allowance)
        self._invocations: list[Invocation] = []
        self._issues: list[SyntaxIssue] = []
        self._complete = True
        self._shortfall: Shortfall | None = None
        self._source = Source.outermost("")
        self._steps = 0
        self._depth = 0
        self._shell_depth = 0
        self._nested_text = 0
        self._conditions = 0
        self._ends = 0
        self._decisions: list[_Decision] = []
        self._loops: list[Loop] = []
        self._calls: list[list[tuple[Outcome, State]]] = []
        self._locals: list[dict[str, Variable | None]] = []
        self._exits: list[list[tuple[Outcome, State]]] = [[]]
        self._stdin: Value | None = None
        self._words: dict[int, tuple[Variable, Word]] = {}
        self._hole_count = 0
        self._written: dict[str, Text | None] = {}
        self._diverted: set[int] = set()

    def run(self, positional: Sequence[str] | None) -> None:
        """Follow the source as a script."""
        state = self._initial(positional)
        self._guarded(lambda: self._whole(Source.outermost(self._script.source), state))

    def run_argv(self, fields: list[Field]) -> None:
        """Follow one command, already split."""
        state = self._initial(())

        def walk() -> None:
            end = self._run_command(fields, [], state, None)[1]
            self._exit_trap(end, [])

        self._guarded(walk)

    def result(self) -> ShellScript:
        script = replace(
            self._script,
            invocations=tuple(self._settled(invocation) for invocation in self._invocations),
            syntax_issues=tuple(self._issues),
            complete=self._complete,
            shortfall=self._shortfall,
            assumed_unset=frozenset(self._assumed_unset),
            files={
                path: known
                for path, text in self._written.items()
                if text is not None and (known := values.plain(text)) is not None
            },
        )
        # Its commands ask the walk for their variables' words as long as they live. What it holds of them and of itself
        # it lets go, or all of it would stay until the next garbage collection.
        self._invocations.clear()
        self._decisions.clear()
        del self._expander
        return script

    def _guarded(self, walk: Callable[[], None]) -> None:
        try:
            walk()
        except (ExhaustedError, RecursionError):
            self._cut()
        except NotFollowedError:
            self._complete = False
        # Words of variables are made when they are asked for, which costs the asker.
        self._allowance = Allowance()

    def _cut(self, shortfall: Shortfall = Shortfall.OVER_BUDGET) -> None:
        """Note that the script is not followed to its end; the first reason stays."""
        self._complete = False
        self._shortfall = self._shortfall or shortfall

    def _initial(self, positional: Sequence[str] | None) -> State:
        state = State(
            variables={
                name: Variable(
                    value=values.hole([name], many=True) if text is None else values.literal(text),
                    exported=True,
                )
                for name, text in self._environment.items()
            },
            positional=None if positional is None else tuple(values.literal(text) for text in positional),
        )
        state.files = {posixpath.normpath(path): (Piece(text),) for path, text in self._given_files.items()}
        return state

    def _settled(self, invocation: Invocation) -> Invocation:
        """Without the branches whose other arms all end in failure: a successful run takes this one."""
        if not invocation.branches:
            return invocation
        kept = tuple(
            branch
            for branch in invocation.branches
            if not self._decisions[branch.decision].arms - {branch.arm} <= self._decisions[branch.decision].failed
        )
        return replace(invocation, branches=kept) if len(kept) != len(invocation.branches) else invocation

    def _whole(self, source: Source, state: State) -> None:
        """The outermost script."""
        end = self._text(source, state)[1]
        self._exit_trap(end, self._exits[-1])

    def _exit_trap(self, end: State | None, exits: list[tuple[Outcome, State]]) -> None:
        ends = [state for outcome, state in exits if outcome is not FAILURE]
        ends += [end] if end is not None else []
        last = join(ends or [state for _, state in exits])
        if last is None:
            return
        last.how = replace(last.how, in_trap=True)
        if last.failure_trap is not None:
            failed = last.fork()
            failed.how, failed.failure_trap = replace(failed.how, after_failure=True), None
            self._text(Source.nested(last.failure_trap, NOWHERE), failed)
        handlers, last.exit_traps = last.exit_traps, (None,)
        runs = [self._keeper(SUCCESS) if handler is None else self._trap_runner(handler) for handler in handlers]
        if len(runs) == 1:
            runs[0](last)
        else:
            self._arms(last, runs, values.NO_NAMES, None)

    def _trap_runner(self, handler: Text) -> Run:
        return lambda state: self._text(Source.nested(handler, NOWHERE), state)

    def _text(self, source: Source, state: State) -> tuple[Outcome, State | None]:
        """All statements of a text, in the given state."""
        if source.tree is None:
            self._cut()
            return UNDECIDED, state
        root = source.tree.root_node
        if source.blanked:
            self._cut(Shortfall.UNREADABLE)
        self._note_certain(root, source)
        if root.has_error:
            self._note_errors(root, source)
        previous, self._source = self._source, source
        try:
            return self._sequence(root.children, state)
        finally:
            self._source = previous

    def _note_errors(self, root: Node, source: Source) -> None:
        self._complete = False
        stack = [root]
        while stack and len(self._issues) < MAX_ISSUES:
            node = stack.pop()
            if node.type == "ERROR" or node.is_missing:
                start, end = source.outer(source.start(node), max(source.end(node), source.start(node) + 1))
                excerpt = " ".join(source.slice(node).split())[:40]
                message = f'"{excerpt}" is not understood here' if excerpt else f'"{node.type}" is missing here'
                if start >= 0:
                    self._issues.append(SyntaxIssue(self._script.span_of(start, end), message))
            elif node.has_error:
                stack.extend(reversed(node.children))

    def _note_certain(self, root: Node, source: Source) -> None:
        """What no shell accepts of the script itself; of the texts within it nobody knows whether they are run."""
        if source.text != self._script.source:
            return
        if not root.has_error:
            node = stray(root)
            message = "" if node is None else f'"{source.slice(node)}" stands where no compound command was begun'
        else:
            found = unended(root)
            node = None if found is None else found.node
            message = "" if found is None else f'"{found.word}" has no "{found.missing}" after it'
        if node is not None and (site := source.outer(source.start(node), source.end(node)))[0] >= 0:
            self._issues.append(SyntaxIssue(self._script.span_of(*site), message, certain=True))

    def _subshell(self, state: State, run: Run) -> Outcome:
        """Run in a copy: assignments don't come back; `exit` ends only the copy."""
        loops, self._loops = self._loops, []
        calls, self._calls = self._calls, []
        stored, self._locals = self._locals, []
        self._exits.append([])
        try:
            outcome, end = run(state.fork())
        finally:
            exits = self._exits.pop()
            self._loops, self._calls, self._locals = loops, calls, stored
        ends = [*exits, *([(outcome, end)] if end is not None else [])]
        wanted = [each for each, ended in ends if not ended.how.after_failure or state.how.after_failure] or [
            each for each, _ in ends
        ]
        if not wanted:
            return FAILURE
        return wanted[0] if all(each == wanted[0] for each in wanted) else UNDECIDED

    def _nested(self, text: Text, state: State, site: Offsets, *, own: bool) -> tuple[Outcome, State | None] | None:
        """Run text as a script, in this shell (`eval`, `source`) or one of its own; None if it can't be followed."""
        size = sum(len(piece.text or "") for piece in text)
        self._nested_text += size
        if self._shell_depth >= MAX_NESTED_SHELLS or self._nested_text > MAX_NESTED_TEXT:
            self._cut()
            return None
        if not any(piece.text and piece.text.strip() for piece in text):
            return (SUCCESS, state) if size or not text else None
        known: list[Piece] = []
        for piece in text:
            if piece.text is not None:
                known.append(piece)
                continue
            self._hole_count += 1
            name = f"__unknown_{self._hole_count}"
            state.variables[name] = Variable(value=((piece._replace(quoted=False, expanded=False, absent=False),),))
            known.append(Piece("${" + name + "}"))
        self._shell_depth += 1
        try:
            source = Source.nested(tuple(known), site)
            if not own:
                return self._text(source, state)
            return self._subshell(state, lambda inner: self._text(source, inner)), state
        finally:
            self._shell_depth -= 1

    def _child(self, state: State, arguments: tuple[Value, ...] | None) -> State:
        """What a new shell process inherits."""
        child = state.fork()
        child.variables = {name: variable for name, variable in state.variables.items() if variable.exported}
        child.unset = frozenset()
        child.functions = {}
        child.positional = arguments
        child.errexit = False
        child.exit_traps = (None,)
        return child

    def _sequence(self, nodes: Sequence[Node], state: State | None) -> tuple[Outcome, State | None]:
        outcome = SUCCESS
        for index, node in enumerate(nodes):
            if not node.is_named or node.type in ("comment", "heredoc_body", "heredoc_end"):
                continue
            if state is None:
                break
            following = nodes[index + 1] if index + 1 < len(nodes) else None
            if following is not None and following.type == "&":
                self._background(node, state)
                outcome = SUCCESS
                continue
            outcome, state = self._execute(node, state)
            if (
                state is not None
                and state.errexit
                and not self._conditions
                and outcome.ending is FAILURE.ending
                and node.type in ("command", "test_command", "subshell")
            ):
                self._exits[-1].append((FAILURE, state))
                state = None
        return outcome, state

    def _background(self, node: Node, state: State) -> None:
        copy = state.fork()
        outermost = 1 if self._script.argument is None else 2  # a container's `bash -c` is a shell within
        detached = copy.how.detached or len(self._exits) > outermost
        copy.how, copy.errexit = replace(copy.how, background=True, detached=detached), False
        self._subshell(copy, lambda inner: self._execute(node, inner))

    def _execute(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        self._steps += 1
        self._allowance.check()
        if self._steps > MAX_STEPS or len(self._invocations) > MAX_INVOCATIONS:
            raise ExhaustedError
        if self._depth >= MAX_DEPTH:
            self._cut()
            state.forget()
            return UNDECIDED, state
        self._depth += 1
        try:
            outcome, after = self._dispatch(node, state)
        finally:
            self._depth -= 1
        if after is not None:
            after.last = outcome
        return outcome, after

    def _two_ways(
        self, outcome: Outcome, state: State, when_true: Run, when_false: Run, node: Node
    ) -> tuple[Outcome, State | None]:
        """Go on by how a condition ended."""
        truth = outcome.truth
        if truth is None:
            return self._arms(state, [when_true, when_false], outcome.names, node)
        chosen, other = (when_true, when_false) if truth else (when_false, when_true)
        if outcome.certain:
            return chosen(state)
        failed = state.fork()
        failed.how = replace(failed.how, after_failure=True)
        stdin = self._stdin
        if truth:
            result, after = chosen(state)
            wanted, self._stdin = self._stdin, stdin
            other_result, other_after = other(failed)
            self._stdin = wanted
        else:
            # Recorded in the order of the text.
            other_result, other_after = other(failed)
            self._stdin = stdin
            result, after = chosen(state)
        return (result, after) if after is not None else (other_result, other_after)

    def _arms(
        self, state: State, runs: Sequence[Run], names: frozenset[str], node: Node | None
    ) -> tuple[Outcome, State | None]:
        """All arms of a decision that can't be taken, then their union."""
        number = len(self._decisions)
        decision = _Decision()
        self._decisions.append(decision)
        span = self._span_of(node) if node is not None else None
        rank = any(_RANK.search(name) for name in names)
        ends: list[State] = []
        outcomes: list[Outcome] = []
        stdin = self._stdin
        left: list[Value | None] = []
        for arm, run in enumerate(runs):
            decision.arms.add(arm)
            copy = state.fork()
            branch = Branch(decision=number, arm=arm, rank_dependent=rank, span=span)
            copy.how = replace(state.how, branches=(*state.how.branches, branch))
            before, self._stdin = self._ends, stdin
            outcome, after = run(copy)
            left.append(self._stdin)
            if after is None:
                if self._ends == before:
                    decision.failed.add(arm)
                continue
            ends.append(after)
            outcomes.append(outcome)
        self._stdin = left[0] if all(each is left[0] for each in left) else values.hole(["<"])
        joined = join(ends)
        if joined is not None and len(ends) == 1 and len(decision.failed) == len(runs) - 1:
            joined.how = replace(joined.how, branches=state.how.branches)
        if len(outcomes) == 1:
            return outcomes[0], joined
        kinds = {outcome.ending for outcome in outcomes}
        return (outcomes[0] if len(kinds) == 1 and outcomes else Outcome(UNDECIDED.ending, names)), joined

    def _runner(self, node: Node) -> Run:
        return lambda state: self._execute(node, state)

    @staticmethod
    def _keeper(outcome: Outcome) -> Run:
        return lambda state: (outcome, state)

    def _positional(self, fields: Sequence[Field]) -> tuple[Value, ...] | None:
        if any(each.many or each.globs for each in fields):
            return None
        return tuple(values.as_assigned(each.value) for each in fields)

    def _value(self, node: Node | None, state: State) -> Value:
        return EMPTY if node is None else self._expander.value(node, self._source, state)

    def _record(self, fields: Sequence[Field], prefix: Sequence[tuple[str, Variable]], state: State) -> None:
        environment = _Environment({**state.variables, **dict(prefix)}, self._variable_word)
        located = [each.site for each in fields if each.site != NOWHERE]
        span = None
        if located:
            span = self._script.span_of(min(site[0] for site in located), max(site[1] for site in located))
        how = state.how
        if self._stdin is not None and not how.reads_pipe:
            how = replace(how, reads_pipe=True)
        argv = tuple(self._word(each) for each in fields)
        self._steps += sum(len(word.prefix) for word in argv) // STEP_SIZE
        self._invocations.append(
            Invocation.reached(
                how,
                argv=argv,
                span=span,
                environment=environment,
                files=_Files(state.files),
                stdin_text=values.single(self._stdin) if self._stdin is not None else None,
            )
        )

    def _variable_word(self, variable: Variable) -> Word:
        cached = self._words.get(id(variable))
        if cached is not None and cached[0] is variable:
            return cached[1]
        word = self._word(Field(variable.scalar(), variable.origin))
        self._words[id(variable)] = (variable, word)
        return word

    def _word(self, field_: Field) -> Word:
        self._allowance.check()
        value, site = field_.value, field_.site
        if len(value) == len(value[0]) == 1 and value[0][0].text and site == value[0][0][1:3] and not field_.many:
            text = value[0][0].text
            span = self._script.span_of(*site) if site != NOWHERE else None
            return Word(
                text=text,
                possible=frozenset({text}),
                prefix=text,
                span=span,
                argument=field_.argument,
                pieces=_pieces(value[0]),
            )
        texts = values.possible(value)
        known = values.single(value) if not field_.many else None
        elsewhere = [
            piece
            for text in value
            for piece in text
            if piece.start >= 0 and (site == NOWHERE or piece.start < site[0] or piece.end > site[1])
        ]
        origin = None
        if elsewhere and site != NOWHERE:
            origin = self._script.span_of(min(each.start for each in elsewhere), max(each.end for each in elsewhere))
        return Word(
            text=known,
            possible=texts if texts is not None and not field_.many else frozenset(),
            prefix=values.prefix(value),
            many=field_.many,
            span=self._script.span_of(*site) if site != NOWHERE else None,
            origin=origin,
            names=values.names(value),
            argument=field_.argument,
            pieces=_pieces(value[0]) if known is not None else (),
        )

    def _span_of(self, node: Node) -> Span | None:
        site = self._source.outer(self._source.start(node), self._source.end(node))
        return self._script.span_of(*site) if site != NOWHERE else None

    @abstractmethod
    def _dispatch(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        """Follow one statement."""

    @abstractmethod
    def _command(self, node: Node, state: State, extra: Sequence[Node] = ()) -> tuple[Outcome, State | None]:
        """Follow a simple command; extra: more of its words."""

    @abstractmethod
    def _run_command(
        self, fields: list[Field], prefix: list[tuple[str, Variable]], state: State, node: Node | None
    ) -> tuple[Outcome, State | None]:
        """Run an expanded command; prefix: the assignments in front of it."""

    @abstractmethod
    def _substitute(self, node: Node, source: Source, state: State, *, whole: bool = False) -> Value:
        """What `$(...)` gives; whole: with the newlines at its end, as `< <(...)` reads it."""


def _pieces(text: Text) -> tuple[tuple[int, int, int], ...]:
    """Where the exact parts of a known text were written (see `Word.pieces`)."""
    found: list[tuple[int, int, int]] = []
    position = 0
    for piece in text:
        length = 1 if piece.separator else len(piece.text or "")
        if piece.exact and length:
            found.append((position, position + length, piece.start))
        position += length
    return tuple(found)
