"""Comments of a shell script that speak to Stoker, and the commands that they stand for."""

import re
from collections.abc import Iterator

from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.model import Comment


def comments(source: str, mark: re.Pattern[str]) -> Iterator[Comment]:
    """The comments that hold a mark, in order. A `#` inside a string or a heredoc is none: the shell's grammar says so.

    `mark` matches within one line. Takes time in proportion to the script.
    """
    if mark.search(source) is None:
        return
    begins = sorted(ParsedText.outermost(source).comments())
    lines = source.split("\n")
    commands = _commands(lines)
    start = known = 0
    for number, text in enumerate(lines, 1):
        end = start + len(text)
        while known < len(begins) and begins[known] < start:
            known += 1
        if known < len(begins) and begins[known] < end:
            found = mark.search(text, begins[known] - start)
            if found is not None:
                alone = not text[: begins[known] - start].strip()
                first, last = commands[min(number + 1, len(lines)) if alone else number]
                kept = text[: found.start()].rstrip()
                yield Comment(
                    text=text[found.start() :].rstrip(),
                    line=number,
                    column=found.start() + 1,
                    end_column=len(text.rstrip()) + 1,
                    first=first,
                    last=last,
                    start=start + len(kept) if kept else start,
                    end=start + len(text.rstrip()) if kept else min(end + 1, len(source)),
                )
        start = end + 1


def _commands(lines: list[str]) -> list[tuple[int, int]]:
    """By line, from 1: the lines of the command that it belongs to; of a line of comment, those of the one beneath."""
    spans = [(0, 0)] * (len(lines) + 1)
    last = len(lines)
    for number in range(len(lines), 0, -1):
        if number < len(lines) and not _continues(lines[number - 1]):
            last = number
        spans[number] = (number, last)
    for number in range(2, len(lines) + 1):
        if _continues(lines[number - 2]):
            spans[number] = (spans[number - 1][0], spans[number][1])
    for number in range(len(lines) - 1, 0, -1):
        if _is_comment(lines[number - 1]):
            spans[number] = spans[number + 1]
    return spans


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _continues(line: str) -> bool:
    """Whether a command goes on in the next line."""
    text = line.removesuffix("\r")
    if _is_comment(text):
        return False
    backslashes = len(text) - len(text.rstrip("\\"))
    return backslashes % 2 == 1 or text.rstrip().endswith(("|", "&&"))


__all__ = ["comments"]
