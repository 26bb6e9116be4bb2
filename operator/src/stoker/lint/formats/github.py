"""Workflow commands of GitHub Actions: annotations on the lines of a pull request.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from collections.abc import Iterator, Mapping

from stoker.lint.files.manifests import STDIN_NAME
from stoker.lint.files.results import Entry, Level, Report, Results
from stoker.lint.formats import Terminal

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.ADVICE: "notice", Level.NOTE: "notice"}


def render(results: Results, terminal: Terminal) -> str:
    """One command per finding, and per file that could not be read; nothing for what is clean or suppressed."""
    lines = [_error(error.path, error.line, error.message) for error in results.errors]
    for report in results.reports:
        lines += _report(report)
    return "".join(f"{line}\n" for line in lines)


def _error(path: str, line: int | None, message: str) -> str:
    return _command("error", {**_file(path), "line": line, "title": "unreadable"}, message)


def _report(report: Report) -> Iterator[str]:
    path = report.manifest.path
    for entry in report.entries:
        yield _command(COMMANDS[entry.level], {**_file(path), **_place(entry), "title": entry.rule}, _message(entry))
    if report.not_analysed is not None:
        line = report.manifest.line
        yield _command("warning", {**_file(path), "line": line, "title": "not analysed"}, report.not_analysed)


def _place(entry: Entry) -> dict[str, object]:
    """The lines, and the columns where they are of one line: GitHub refuses others."""
    region = entry.region
    place: dict[str, object] = {"line": region.line, "endLine": region.end_line}
    if region.line == region.end_line:
        place |= {"col": region.column, "endColumn": region.end_column}
    return place


def _message(entry: Entry) -> str:
    return "\n".join(text for text in (entry.detail, entry.fix, entry.docs) if text)


def _file(path: str) -> dict[str, object]:
    return {} if path == STDIN_NAME else {"file": path}


def _command(name: str, properties: Mapping[str, object], message: str) -> str:
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value is not None)
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


__all__ = ["render"]
