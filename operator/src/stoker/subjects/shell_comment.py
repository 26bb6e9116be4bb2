"""Comments of a shell script that speak to Stoker, and the commands that they stand for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.subjects.shell_source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment from its mark on: 1-based line and columns in the script, `end_column` exclusive.

    first, last: the lines of the command that it stands for: the one that it ends, or, of a comment alone on its line,
    the one beneath it and beneath the comments that follow; with all lines of a continued command.
    """

    text: str
    line: int
    column: int
    end_column: int
    first: int
    last: int


def comments(source: str, mark: re.Pattern[str]) -> Iterator[Comment]:
    """The comments that hold a mark, in order. A `#` inside a string or a heredoc is none: the shell's grammar says so.

    `mark` matches within one line.
    """
    if mark.search(source) is None:
        return
    parsed = Source.outermost(source)
    lines = source.split("\n")
    start = 0
    for number, text in enumerate(lines, 1):
        found = mark.search(text)
        if found is not None:
            node = parsed.node_at(start + found.start())
            if node is not None and node.type == "comment":
                alone = text[: parsed.start(node) - start].isspace() or parsed.start(node) == start
                first, last = _beneath(lines, number) if alone else _command(lines, number)
                said = text[found.start() :].rstrip()
                yield Comment(
                    text=said,
                    line=number,
                    column=found.start() + 1,
                    end_column=found.start() + 1 + len(said),
                    first=first,
                    last=last,
                )
        start += len(text) + 1


def _beneath(lines: list[str], number: int) -> tuple[int, int]:
    """The lines of the command beneath a comment's line."""
    number += 1
    while number <= len(lines) and lines[number - 1].lstrip().startswith("#"):
        number += 1
    return _command(lines, number)


def _command(lines: list[str], number: int) -> tuple[int, int]:
    """The lines of the command that a line belongs to."""
    first = last = number
    while first > 1 and _continues(lines[first - 2]):
        first -= 1
    while last < len(lines) and _continues(lines[last - 1]):
        last += 1
    return first, last


def _continues(line: str) -> bool:
    """Whether a command goes on in the next line."""
    text = line.removesuffix("\r")
    if text.lstrip().startswith("#"):
        return False
    backslashes = len(text) - len(text.rstrip("\\"))
    return backslashes % 2 == 1 or text.rstrip().endswith(("|", "&&"))


__all__ = ["Comment", "comments"]
