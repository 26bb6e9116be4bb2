"""What a verdict says at `kubectl apply`: the refusal with its causes, and the warnings. Used by the webhook."""

import re
from dataclasses import dataclass
from typing import Literal

from stoker.findings.finding import Finding, printable, single_line
from stoker.findings.verdict import Verdict
from stoker.lint.fixes.propose import as_changed
from stoker.shell.model import MAX_TEXT, Shortfall

MAX_WARNINGS = 3
"""People read three warnings; the rest is in the status and in `stoker lint`."""
MAX_WARNING_LENGTH = 240
"""The API server cuts warnings to 256 bytes when they are many (k8s.io/apiserver, pkg/endpoints/filters/warning.go)."""
ELSEWHERE = " (stoker lint says why)"
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")

Reason = Literal["FieldValueInvalid", "FieldValueRequired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCause:
    """One entry of a Status' `details.causes`; the API's names."""

    reason: Reason
    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refusal: `message` for clients that show nothing else, `causes` for those that do (kubectl)."""

    message: str
    causes: tuple[StatusCause, ...]


def denial(name: str, verdict: Verdict, *, kind: str = "DLJob") -> Denial:
    """The refusal of a denied verdict; several lines with the offending line of the script, marked, and as it reads
    after the change where that is computed.

    kubectl prints `The DLJob "bert" is invalid: ` and then the one cause, or each of several as `* field: message`.
    """
    causes = tuple(_cause(finding, verdict) for finding in verdict.denied)
    said = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return Denial(message=f'{kind}.stoker.dev "{name}" is invalid: {said}', causes=causes)


def warnings(verdict: Verdict) -> list[str]:
    """At most three single lines of at most 240 bytes, the most costly first, then how many more there are."""
    lines = [_warning(finding) for finding in verdict.warned[:MAX_WARNINGS]]
    more = len(verdict.warned) - len(lines)
    return [*lines, f"and {more} more (stoker lint shows them)"] if more else lines


def _cause(finding: Finding, verdict: Verdict) -> StatusCause:
    location = finding.location
    where = f"line {location.line}: " if location is not None and location.line is not None else ""
    lines = [f"{where}{single_line(finding.detail).rstrip('.')} ({finding.rule})."]
    if location is not None and location.excerpt:
        lines += [f"    {line}" for line in location.excerpt.splitlines()]
        changed = None if finding.change is None else as_changed(finding.change)
        lines += [] if changed is None else [f"    {changed}"]
    lines.append(f"  {single_line(finding.fix)}")
    lines += [f"  {fault.location}: {fault.detail}" for fault in verdict.suppression_faults if fault.finding == finding]
    return StatusCause(
        reason="FieldValueRequired" if finding.rule == "image-missing" else "FieldValueInvalid",
        field=location.field_path if location is not None else "spec",
        message=printable("\n".join(lines)),
    )


def _warning(finding: Finding) -> str:
    """The finding whole where it fits, else what is wrong and what to do: the reasons are in `stoker lint`."""
    where = f"{finding.location}: " if finding.location is not None else ""
    start, detail, fix = f"{finding.rule}: {where}", single_line(finding.detail), single_line(finding.fix)
    what = _SENTENCE_END.split(detail, maxsplit=1)[0]
    candidates = (f"{detail} {fix}", f"{what} {fix}{ELSEWHERE}", f"{fix}{ELSEWHERE}")
    return next(
        (line for one in candidates if _fits(line := single_line(start + one))), f"{_cut(f'{start}{fix}')}{ELSEWHERE}"
    )


def not_analysed(shortfall: Shortfall) -> str:
    """Why a job was not analysed to its end, and what to do about it: a sentence or two without the last full stop."""
    return _NOT_ANALYSED[shortfall]


_NOT_ANALYSED = {
    Shortfall.OVER_BUDGET: "the script of this job takes too long to analyse: only its first part was checked."
    " Shorten the script: move loops and long lists into a program that it starts",
    Shortfall.TOO_LARGE: f"the job's scripts together are longer than {MAX_TEXT} characters: the"
    " rest was not checked. Move what they do into files of the image",
    Shortfall.UNREADABLE: "the job's script contains NUL characters, which no shell can read, and was not checked."
    " Remove them",
    Shortfall.BUSY: "Stoker was too busy to analyse this job in time. It will be analysed before it starts",
    Shortfall.FAULT: "Stoker could not analyse this job completely because of an internal error; see Stoker's log",
}


def warning_line(text: str) -> str:
    """A text as a single line of at most 240 bytes, cut after a word where it is longer."""
    line = single_line(text)
    return line if _fits(line) else _cut(line)


def _fits(line: str) -> bool:
    return len(line.encode()) <= MAX_WARNING_LENGTH


def _cut(line: str) -> str:
    """The words that fit before an ellipsis and the words about where the rest is; a long word is cut."""
    room = MAX_WARNING_LENGTH - len(f"...{ELSEWHERE}")
    if len(line.encode()) <= room:
        return line
    cut = line.encode()[: room + 1].decode(errors="ignore")
    words = cut.rpartition(" ")[0]
    return f"{words if len(words.encode()) > room // 2 else cut[:-1]}..."


__all__ = [
    "MAX_WARNINGS",
    "MAX_WARNING_LENGTH",
    "StatusCause",
    "Denial",
    "denial",
    "not_analysed",
    "warning_line",
    "warnings",
]
