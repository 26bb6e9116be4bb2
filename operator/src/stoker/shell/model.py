"""What is known of a script: its commands and their words, where each stands, and why a part of it is unknown.

One of the three modules of this package that others import (see `stoker.shell`). It needs no grammar, so that who only
names these types does not load one.
"""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple


class Shortfall(StrEnum):
    """Why a job could not be analysed, or not to its end."""

    OVER_BUDGET = "OverBudget"
    """It takes more processor time, memory, steps or nesting than a review may."""
    TOO_LARGE = "TooLarge"
    """Its scripts together are longer than what is read."""
    UNREADABLE = "Unreadable"
    """Its script has characters that no script can hold."""
    BUSY = "Busy"
    """Others' reviews took all the time that there was for it."""
    FAULT = "Fault"
    """A fault of Stoker's."""


class ExhaustedError(Exception):
    """The processor time of an allowance is over, or a limit of the walk over one script is reached."""


MAX_TEXT = 262_144
"""Characters of scripts and commands that are read of one object: four times the longest script of a DLJob."""

CALLS = 32
"""Calls of `check` between two looks at the clock, each of which takes as long as a few of the calls."""


class Allowance:
    """What is left of it; shared by everything that is read of one object.

    `deadline` is a time of `clock`, which is the thread's processor time unless a test says otherwise: a busy machine
    does not shorten it.
    """

    def __init__(
        self, deadline: float = math.inf, *, clock: Callable[[], float] = time.thread_time, text: int = MAX_TEXT
    ) -> None:
        self._deadline = deadline
        self._clock = clock
        self._text = text
        self._calls = CALLS

    def check(self) -> None:
        """Raise ExhaustedError once the time is over. To be called wherever reading goes round."""
        self._calls -= 1
        if self._calls <= 0:
            self._calls = CALLS
            if self.is_over:
                self._calls = 1  # whoever goes on after that is stopped at once
                raise ExhaustedError

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return self._clock() >= self._deadline

    def takes(self, characters: int) -> bool:
        """Whether a text of this length may be read beside those read before; it is counted if so."""
        if characters > self._text:
            return False
        self._text -= characters
        return True


class Span(NamedTuple):
    """A stretch of a script.

    Lines and columns are 1-based and count characters; the end is exclusive (`end_column` is the column after the
    last character). The span is always one of the outermost script: words inside `bash -c '...'`, `eval` and functions
    are mapped back to where they stand there.
    """

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: "Span") -> "Span":
        """The smallest span that covers both."""
        first = min((self.line, self.column), (other.line, other.column))
        last = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return Span(*first, *last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word of a command after expansion, as far as it is known.

    text: the word, or None where it is unknown.
    possible: all texts it can have, where they are finitely many; `{text}` of a known word, empty of an unknown one.
    prefix: the characters it begins with in any case ("--nproc_per_node=" of `--nproc_per_node=$N` with unknown N).
    many: an unquoted unknown expansion: it may stand for any number of words, none included.
    span: where the word stands in the command; None when it comes from the manifest's environment or arguments.
    origin: where its text was written, when that is elsewhere (the assignment of the variable).
    names: the variables and commands that made it unknown ("NODE_RANK", "$(nvidia-smi)").
    argument: the index in the container's command and args of a word that stands there by itself (no span then).
    pieces: the parts of a known text that were written as they are: (begin, end, offset in the script) of each.
    """

    text: str | None
    possible: frozenset[str] = frozenset()
    prefix: str = ""
    many: bool = False
    span: Span | None = None
    origin: Span | None = None
    names: frozenset[str] = frozenset()
    argument: int | None = None
    pieces: tuple[tuple[int, int, int], ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def known(cls, text: str, span: Span | None = None, origin: Span | None = None) -> "Word":
        return cls(text=text, possible=frozenset({text}), prefix=text, span=span, origin=origin)

    @classmethod
    def unknown(cls, span: Span | None = None, names: frozenset[str] = frozenset(), *, many: bool = False) -> "Word":
        return cls(text=None, many=many, span=span, names=names)

    def __str__(self) -> str:
        return self.text if self.text is not None else f"{self.prefix}?"

    def written(self, begin: int, end: int) -> tuple[int, int] | None:
        """The offsets in the outermost script of the characters begin..end; None where they stand nowhere as such."""
        for first, last, offset in self.pieces:
            if first <= begin and end <= last:
                return offset + begin - first, offset + end - first
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One arm of a decision that the interpreter couldn't take: `if`, `case`, `&&`, a loop that may not run at all.

    Two invocations exclude each other when they hold the same `decision` with different arms.
    rank_dependent: the condition reads the node's rank or host name, so that different pods take different arms.
    """

    decision: int
    arm: int
    rank_dependent: bool = False
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """How a point of a script is reached.

    background: started with `&` (or inside a compound or function that is). detached: in a terminal of its own, or with
        `&` by a subshell: the script's own shell can't wait for it.
    branches: the undecided arms it stands in; empty when every successful run reaches it.
    after_failure: reached only when an earlier command failed (`train || sleep 1h`, `if ! train; then ...`).
    in_loop: inside a loop body; unrolled rounds are separate invocations. loop_endless: the loop never ends by itself.
    rounds: how often loops over known lists that nothing leaves early run it (unrolled: each time once); 0 = unknown.
    piped: member of a pipeline; reads_pipe: its standard input comes from one.
    captured: inside a command substitution, its output becomes text.
    wrappers: names of the wrappers taken off, outermost first. time_limit: seconds granted by `timeout`, None if none.
    in_trap: run by an EXIT or ERR trap.
    """

    background: bool = False
    detached: bool = False
    branches: tuple[Branch, ...] = ()
    after_failure: bool = False
    in_loop: bool = False
    loop_endless: bool = False
    rounds: int = 0
    piped: bool = False
    reads_pipe: bool = False
    captured: bool = False
    in_trap: bool = False
    wrappers: tuple[str, ...] = ()
    time_limit: float | None = None

    @property
    def certain(self) -> bool:
        """Every successful run of the script reaches it."""
        return not self.branches and not self.after_failure

    @property
    def rank_dependent(self) -> bool:
        return any(branch.rank_dependent for branch in self.branches)

    def excludes(self, other: "ExecutionContext") -> bool:
        """No run reaches both."""
        arms = {branch.decision: branch.arm for branch in self.branches}
        return any(arms.get(branch.decision, branch.arm) != branch.arm for branch in other.branches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation(ExecutionContext):
    """One command that the script runs, wrappers (`nohup`, `timeout 1h`, `env X=y`, ...) taken off.

    argv: the words; argv[0] is the command as written, with its directory.
    environment: exported variables in force, including prefix assignments; Word.span is None for injected ones.
    files: texts of known files at this point, by normalized path.
    stdin_text: what it reads, if that is known.
    """

    argv: tuple[Word, ...]
    span: Span | None
    environment: Mapping[str, Word] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    stdin_text: str | None = None

    @classmethod
    def reached(cls, context: ExecutionContext, **parts: Any) -> "Invocation":
        """An invocation under these circumstances."""
        return cls(**{name: getattr(context, name) for name in _CONTEXT_FIELDS}, **parts)

    @property
    def name(self) -> str | None:
        """The command without its directory ("torchrun" of /opt/conda/bin/torchrun), None if unknown."""
        text = self.argv[0].text if self.argv else None
        return None if text is None else text.rstrip("/").rsplit("/", 1)[-1]


_CONTEXT_FIELDS = tuple(each.name for each in fields(ExecutionContext))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment from its mark on: 1-based line and columns in the script, `end_column` exclusive.

    first, last: the lines of the command that it stands for: the one that it ends, or, of a comment alone on its line,
    the one beneath it and beneath the comments that follow; with all lines of a continued command.
    start, end: the characters of the script that go with it, 0-based: the blanks before it, or its whole line.
    """

    text: str
    line: int
    column: int
    end_column: int
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SyntaxIssue:
    """A place that the shell grammar does not accept; `certain` where no shell does."""

    span: Span
    message: str
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of the script and the marker under the offending words, both of one line (see `ShellScript.excerpt`)."""

    line: int
    text: str
    marker: str


@dataclass(frozen=True, kw_only=True)
class ShellScript:
    """What a script does, as far as it can be known without running it.

    invocations: in the order of execution; dead branches and what follows `exit` or `exec` are left out.
    syntax_issues: where the grammar does not accept the text; what stands there is treated as unknown.
    complete: False when a limit (nesting, work, size) or a syntax issue cut the analysis: judge nothing by absence.
    shortfall: the limit, where it was one.
    assumed_unset: variables that nobody in sight sets and whose defaults were taken (`${N:-8}`).
    files: files that the script writes with known text (heredocs, echo), by path as written.
    argument: the index in the container's command and args of the text that `source` is (`bash -c TEXT`), else None.
    """

    source: str
    invocations: tuple[Invocation, ...] = ()
    syntax_issues: tuple[SyntaxIssue, ...] = ()
    complete: bool = True
    shortfall: Shortfall | None = None
    assumed_unset: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict)
    argument: int | None = None

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.source.split("\n")[:-1])]

    @cached_property
    def _lines(self) -> list[str]:
        return self.source.split("\n")

    def span_of(self, start: int, end: int) -> Span:
        """The span of the characters start..end (0-based offsets, end exclusive)."""
        line = bisect_right(self._line_starts, start) - 1
        end_line = bisect_right(self._line_starts, max(start, end - 1)) - 1
        return Span(line + 1, start - self._line_starts[line] + 1, end_line + 1, end - self._line_starts[end_line] + 1)

    def offsets(self, span: Span) -> tuple[int, int]:
        """The characters (0-based, end exclusive) that a span covers."""
        return (
            self._line_starts[span.line - 1] + span.column - 1,
            self._line_starts[span.end_line - 1] + span.end_column - 1,
        )

    def excerpt(self, span: Span, *, width: int = 110) -> Excerpt:
        """The command line around the span, continuation lines joined, with a marker under the span."""
        first, last = span.line, min(max(span.end_line, span.line), len(self._lines))
        while first > 1 and _continued(self._lines[first - 2]):
            first -= 1
        while last < len(self._lines) and _continued(self._lines[last - 1]):
            last += 1
        text = ""
        begin = end = 0
        for number in range(first, last + 1):
            line = self._lines[number - 1].rstrip("\r")
            continued = number < last and _continued(line)
            body = line[:-1].rstrip() if continued else line.rstrip()
            indent = len(body) - len(body.lstrip())
            offset = (len(text) + 1 if text else 0) - indent
            if number == span.line:
                begin = max(offset + span.column - 1, offset + indent)
            if number == span.end_line:
                end = min(offset + span.end_column - 1, offset + len(body))
            text = f"{text} {body.strip()}" if text else body.strip()
        end = min(max(end, begin + 1), max(len(text), begin + 1))
        text = "".join(character if character.isprintable() else " " for character in text)
        if len(text) > width:
            start = max(0, min(begin - width // 4, len(text) - width))
            cut = text[start : start + width]
            text = ("..." + cut[3:] if start else cut)[: width - 3] + ("..." if start + width < len(text) else cut[-3:])
            begin, end = begin - start, min(end - start, width)
        return Excerpt(span.line, text, " " * begin + "^" * max(end - begin, 1))


def _continued(line: str) -> bool:
    body = line.rstrip("\r")
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1


__all__ = [
    "MAX_TEXT",
    "Allowance",
    "Branch",
    "ExecutionContext",
    "Comment",
    "Excerpt",
    "ExhaustedError",
    "Invocation",
    "ShellScript",
    "Shortfall",
    "Span",
    "SyntaxIssue",
    "Word",
]
