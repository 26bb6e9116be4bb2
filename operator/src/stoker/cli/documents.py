"""What the commands that write pages share: which format is meant, whether it can be written, and where it goes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from stoker.adapters.terminal import Terminal, detect_terminal, write

SUFFIXES: Mapping[str, str] = {
    "": "text",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".json": "json",
}
"""The format that a file's name asks for, by its suffix."""
OUTPUT_HELP = "File to write; the summary is then printed as well. [default: standard output]"
FORMAT_HELP = "Output format. [default: by the suffix of --output, else text]"
NO_PICTURES = "the HTML page needs matplotlib and jinja2: pip install jinja2 matplotlib (other formats do not)"

Renderer = Callable[[Terminal], str]
"""Makes one format's text; the summary is for a screen of some width."""


def format_of(form: str | None, output: str | None, forms: Sequence[str]) -> str:
    """The format that the options ask for. Raises UsageError for a page that can't be drawn, or has nowhere to go."""
    if form is None:
        form = SUFFIXES.get(Path(output).suffix.lower() if output else "", "")
        if form not in forms:
            raise click.UsageError(f"{output}: unknown suffix; choose the format with --format: {', '.join(forms)}.")
    if form == "html":
        _require_pictures()
        if output is None and sys.stdout.isatty():
            raise click.UsageError("the HTML page is for a browser: write it to a file with --output FILE.")
    return form


def write_document(form: str, output: str | None, forms: Mapping[str, Renderer], context: click.Context) -> None:
    """Write the format to standard output, or to a file: then the summary goes to standard output."""
    path = None if output == "-" else output
    write(forms[form](detect_terminal(path)), path, context)
    if path is not None:
        write(f"{forms['text'](detect_terminal())}\nWritten to {path}\n", None, context)


def _require_pictures() -> None:
    """Say early what is missing: the operator's image has no plotting library."""
    try:
        import jinja2  # noqa: F401 - whether it is there
        import matplotlib as mpl  # noqa: F401 - whether it is there
    except ImportError as error:
        raise click.UsageError(f"{NO_PICTURES}; missing: {error.name}.") from error


__all__ = ["FORMAT_HELP", "OUTPUT_HELP", "format_of", "write_document"]
