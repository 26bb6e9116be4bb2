"""Where a command's output goes, and what may be written there."""

import os
import shutil
import sys
import textwrap
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import click

EXIT_USAGE = 2
"""Wrong options, input that can't be read, a server that can't be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where the output goes: whether it takes colours, how many columns it has, whether it can show block elements."""

    colour: bool = False
    width: int = 120
    unicode: bool = True


def detect_terminal(output: str | None = None) -> Terminal:
    """What is known of the place where the text goes (https://no-color.org, https://force-color.org)."""
    terminal = output is None and sys.stdout.isatty()
    colour = terminal and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR"):
        colour = output is None
    if os.environ.get("NO_COLOR"):
        colour = False
    columns = shutil.get_terminal_size((Terminal().width, 24)).columns
    return Terminal(colour=colour, width=columns, unicode=output is not None or _has_blocks(sys.stdout.encoding))


def _has_blocks(encoding: str | None) -> bool:
    try:
        "▁█━░".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def write(text: str, output: str | None, context: click.Context, *, error: bool = False) -> None:
    """Write the text as UTF-8, whatever the locale; a lone surrogate, which no encoding has, as its escape.

    error: to standard error instead of standard output, which has something else.
    """
    data = text.encode("utf-8", "backslashreplace")
    try:
        if output is None:
            stream = sys.stderr.buffer if error else sys.stdout.buffer
            stream.write(data)
            stream.flush()
        else:
            Path(output).write_bytes(data)
    except BrokenPipeError:
        raise  # its reader has seen enough: no error
    except OSError as failure:
        click.echo(f"stoker: {output or 'standard output'}: {failure.strerror or failure}", err=True)
        context.exit(EXIT_USAGE)


def complain(error: object) -> None:
    """Say on standard error what is wrong; each line of it can be told from what others write there."""
    for line in str(error).splitlines():
        click.echo(f"stoker: {line}", err=True)


def clean(text: str) -> str:
    """The text without anything that a terminal would obey, or that no encoding can write."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or unicodedata.category(character) == "Zs" else ascii(character)[1:-1]
        for character in text
    )


def columns(text: str) -> int:
    """The columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(character) in {"Mn", "Me"} else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def cut(text: str, width: int) -> str:
    """The text, at most so many columns of it."""
    if columns(text) <= width:
        return text
    while text and columns(text) > width - 3:
        text = text[:-1]
    return f"{text}..."


def styled(text: str, terminal: Terminal, *, colour: str | None = None, bold: bool = False) -> str:
    """The text in a colour or in bold, where the terminal takes colours; an empty text stays empty."""
    return click.style(text, fg=colour, bold=bold or None) if terminal.colour and text else text


def padded(text: str, width: int) -> str:
    """The text, cut to so many columns, and blanks up to there."""
    shown = cut(text, width)
    return shown + " " * (width - columns(shown))


def bullets(text: str, width: int) -> list[str]:
    """The text as the item of a list, over as many lines as it needs."""
    return textwrap.wrap(clean(text), width, initial_indent="  - ", subsequent_indent="    ")


def bold(text: str, place: Terminal) -> str:
    """The text, cleaned, in bold where there are colours."""
    return styled(clean(text), place, bold=True)


__all__ = [
    "EXIT_USAGE",
    "Terminal",
    "bold",
    "bullets",
    "clean",
    "columns",
    "complain",
    "cut",
    "detect_terminal",
    "padded",
    "styled",
    "write",
]
