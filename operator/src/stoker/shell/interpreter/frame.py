"""Where in the script the walk stands: what surrounds a statement, as opposed to what the shell knows there.

A frame never changes. Whoever goes into something (a text, a loop, a function, a subshell) makes another one and hands
it on, so that nothing has to be put back when he comes out again.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.interpreter.state import ExitStatus, ShellState, Variable

Ended = tuple[ExitStatus, ShellState]
"""How something ended, and what the shell knew then."""


@dataclass(slots=True)
class Loop:
    """Where `break` and `continue` of a loop lead."""

    breaks: list[ShellState] = field(default_factory=list)
    continues: list[ShellState] = field(default_factory=list)


class Frame(NamedTuple):
    """The surroundings of a statement or word.

    text: the text whose syntax tree is walked: the script, or one within it.
    depth: of compound commands, calls and substitutions. word_depth: of expansions within one word.
    shells: how many shells surround it, the script's own among them. nested: how many texts within texts.
    in_condition: a condition of `if`, `while`, `!` or `&&`, where `set -e` does not apply.
    loops: those that `break` leaves, the innermost last. A subshell or function has none.
    calls: by function call or sourced file, the ends that its `return`s make. locals: by function call, what the names
        that it made local were before.
    exits: the ends that `exit` makes in the innermost shell.
    """

    text: ParsedText
    exits: list[Ended]
    depth: int = 0
    word_depth: int = 0
    shells: int = 1
    nested: int = 0
    in_condition: bool = False
    loops: tuple[Loop, ...] = ()
    calls: tuple[list[Ended], ...] = ()
    locals: tuple[dict[str, Variable | None], ...] = ()

    # `_replace` takes three times as long as the two below, and every statement and many words come here.

    @classmethod
    def outermost(cls, text: ParsedText) -> "Frame":
        """Around the whole script."""
        return cls(text, [])

    def deeper(self) -> "Frame":
        """Within a compound command or substitution."""
        return Frame(
            self.text, self.exits, self.depth + 1, self.word_depth, self.shells, self.nested, self.in_condition,
            self.loops, self.calls, self.locals,
        )  # fmt: skip

    def within_word(self) -> "Frame":
        """Within an expansion."""
        return Frame(
            self.text, self.exits, self.depth, self.word_depth + 1, self.shells, self.nested, self.in_condition,
            self.loops, self.calls, self.locals,
        )  # fmt: skip

    def in_text(self, text: ParsedText) -> "Frame":
        """In another text, run by the same shell."""
        return self._replace(text=text)

    def as_condition(self) -> "Frame":
        """Where a failure decides, and ends nothing."""
        return self._replace(in_condition=True)

    def in_loop(self, loop: Loop) -> "Frame":
        """In the condition or body of a loop."""
        return self._replace(loops=(*self.loops, loop))

    def in_subshell(self) -> "Frame":
        """In a shell of its own: `exit` ends only that one, and loops and functions around it are out of reach."""
        return self._replace(shells=self.shells + 1, loops=(), calls=(), locals=(), exits=[])
