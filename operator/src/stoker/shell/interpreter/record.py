"""What the walk finds: the commands, the undecided branches, syntax issues, and whether it came to the end."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stoker.shell.interpreter import values
from stoker.shell.interpreter.budget import Budget
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, ParsedText
from stoker.shell.interpreter.state import ShellState, Variable
from stoker.shell.interpreter.syntax_errors import stray, unended
from stoker.shell.interpreter.values import Text
from stoker.shell.model import Invocation, ShellScript, Shortfall, Span, SyntaxIssue, Word

MAX_ISSUES = 20
"""Syntax issues of one script; chosen because whoever mends the first ones sees the next."""


@dataclass(slots=True)
class BranchPoint:
    """A decision that the walk could not take: its arms, and those that always end in failure."""

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
        known = values.known_text(text) if text is not None else None
        if known is None:
            raise KeyError(path)
        return known

    def __iter__(self) -> Iterator[str]:
        return (path for path, text in self._texts.items() if text is not None and values.known_text(text) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ScriptRecord:
    """All that is found in one script. `result` once, at the end.

    invocations: in the order in which they run. branch_points: by the number that `Branch.decision` names.
    diverted: indices of the invocations whose output goes to a file. ends: how often an `exit`, `return` or `break` was
    met that is no failure. assumed_unset: see `ShellScript`.
    """

    def __init__(self, script: ShellScript, budget: Budget) -> None:
        self.script = script
        self.invocations: list[Invocation] = []
        self.branch_points: list[BranchPoint] = []
        self.assumed_unset: set[str] = set()
        self.diverted: set[int] = set()
        self.written: dict[str, Text | None] = {}
        self.ends = 0
        self._budget = budget
        self._issues: list[SyntaxIssue] = []
        self._complete = True
        self._shortfall: Shortfall | None = None
        self._words: dict[int, tuple[Variable, Word]] = {}

    # ------------------------------------------------------------------------------------------------------- commands

    def add(self, fields: Sequence[Field], prefix: Sequence[tuple[str, Variable]], state: ShellState) -> None:
        """A command that runs, with the assignments in front of it."""
        environment = _Environment({**state.variables, **dict(prefix)}, self._variable_word)
        located = [each.site for each in fields if each.site != NOWHERE]
        span = None
        if located:
            span = self.script.span_of(min(site[0] for site in located), max(site[1] for site in located))
        context = state.context
        if state.stdin is not None and not context.reads_pipe:
            context = replace(context, reads_pipe=True)
        argv = tuple(self._word(each) for each in fields)
        self._budget.count_text(sum(len(word.prefix) for word in argv))
        self.invocations.append(
            Invocation.reached(
                context,
                argv=argv,
                span=span,
                environment=environment,
                files=_Files(state.files),
                stdin_text=values.single(state.stdin) if state.stdin is not None else None,
            )
        )

    def _variable_word(self, variable: Variable) -> Word:
        cached = self._words.get(id(variable))
        if cached is not None and cached[0] is variable:
            return cached[1]
        word = self._word(Field(variable.scalar(), variable.origin))
        self._words[id(variable)] = (variable, word)
        return word

    def _word(self, expanded: Field) -> Word:
        self._budget.check()
        value, site = expanded.value, expanded.site
        if len(value) == len(value[0]) == 1 and value[0][0].text and site == value[0][0][1:3] and not expanded.many:
            # Most words are written as they are.
            text = value[0][0].text
            return Word(
                text=text,
                possible=frozenset({text}),
                prefix=text,
                span=self.script.span_of(*site) if site != NOWHERE else None,
                argument=expanded.argument,
                pieces=_places(value[0]),
            )
        texts = values.possible(value)
        known = values.single(value) if not expanded.many else None
        elsewhere = [
            fragment
            for text in value
            for fragment in text
            if fragment.start >= 0 and (site == NOWHERE or fragment.start < site[0] or fragment.end > site[1])
        ]
        origin = None
        if elsewhere and site != NOWHERE:
            origin = self.script.span_of(min(each.start for each in elsewhere), max(each.end for each in elsewhere))
        return Word(
            text=known,
            possible=texts if texts is not None and not expanded.many else frozenset(),
            prefix=values.prefix(value),
            many=expanded.many,
            span=self.span(site),
            origin=origin,
            names=values.names(value),
            argument=expanded.argument,
            pieces=_places(value[0]) if known is not None else (),
        )

    def span(self, site: Offsets) -> Span | None:
        """The span of offsets in the outermost script."""
        return self.script.span_of(*site) if site != NOWHERE else None

    # -------------------------------------------------------------------------------------------- what was not followed

    def cut(self, shortfall: Shortfall = Shortfall.OVER_BUDGET) -> None:
        """Note that the script is not followed to its end; the first reason stays."""
        self._complete = False
        self._shortfall = self._shortfall or shortfall

    def not_followed(self) -> None:
        """Note that a part of the script can't be followed, for no limit's sake."""
        self._complete = False

    def note_syntax(self, text: ParsedText) -> None:
        """Note what the grammar, or every shell, refuses of a text."""
        if text.blanked:
            self.cut(Shortfall.UNREADABLE)
        self._note_certain(text)
        if text.root.has_error:
            self._note_errors(text)

    def _note_errors(self, text: ParsedText) -> None:
        self._complete = False
        stack = [text.root]
        while stack and len(self._issues) < MAX_ISSUES:
            node = stack.pop()
            if node.type == "ERROR" or node.is_missing:
                start, end = text.outer(text.start(node), max(text.end(node), text.start(node) + 1))
                excerpt = " ".join(text.slice(node).split())[:40]
                message = f'"{excerpt}" is not understood here' if excerpt else f'"{node.type}" is missing here'
                if start >= 0:
                    self._issues.append(SyntaxIssue(self.script.span_of(start, end), message))
            elif node.has_error:
                stack.extend(reversed(node.children))

    def _note_certain(self, text: ParsedText) -> None:
        """What no shell accepts of the script itself; of the texts within it nobody knows whether they are run."""
        if text.text != self.script.source:
            return
        if not text.root.has_error:
            node = stray(text.root)
            message = "" if node is None else f'"{text.slice(node)}" stands where no compound command was begun'
        else:
            found = unended(text.root)
            node = None if found is None else found.node
            message = "" if found is None else f'"{found.word}" has no "{found.missing}" after it'
        if node is not None and (site := text.outer(text.start(node), text.end(node)))[0] >= 0:
            self._issues.append(SyntaxIssue(self.script.span_of(*site), message, certain=True))

    # ----------------------------------------------------------------------------------------------------------- result

    def result(self) -> ShellScript:
        """The script with all that was found. What it holds is let go then: its commands ask it for their variables'
        words as long as they live, and all would stay until the next garbage collection.
        """
        script = replace(
            self.script,
            invocations=tuple(self._settled(invocation) for invocation in self.invocations),
            syntax_issues=tuple(self._issues),
            complete=self._complete,
            shortfall=self._shortfall,
            assumed_unset=frozenset(self.assumed_unset),
            files={
                path: known
                for path, text in self.written.items()
                if text is not None and (known := values.known_text(text)) is not None
            },
        )
        self.invocations.clear()
        self.branch_points.clear()
        return script

    def _settled(self, invocation: Invocation) -> Invocation:
        """Without the branches whose other arms all end in failure: a successful run takes this one."""
        if not invocation.branches:
            return invocation
        kept = tuple(
            branch
            for branch in invocation.branches
            if not self.branch_points[branch.decision].arms - {branch.arm} <= self.branch_points[branch.decision].failed
        )
        return replace(invocation, branches=kept) if len(kept) != len(invocation.branches) else invocation


def _places(text: Text) -> tuple[tuple[int, int, int], ...]:
    """Where the exact parts of a known text were written (see `Word.pieces`)."""
    found: list[tuple[int, int, int]] = []
    position = 0
    for fragment in text:
        length = 1 if fragment.separator else len(fragment.text or "")
        if fragment.exact and length:
            found.append((position, position + length, fragment.start))
        position += length
    return tuple(found)
