"""What `stoker lint` found, as text for people and as JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from stoker.cli.manifests import Manifest, Position
from stoker.models.finding import Finding
from stoker.models.vocabulary import Outcome, Severity

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it."""

SCHEMA_RULE = "schema"
"""The rule that violations of the API's schema are reported under; no check has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding with its place in the file.

    `position` is the field's or, where the text can be followed, the word's; `script_line` counts within the field's
    text. `taken` is what becomes of it: the verdict that it alone would lead to (audited: allow).
    """

    finding: Finding
    taken: Outcome
    position: Position
    script_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A place where the manifest breaks the API's schema."""

    field_path: str
    message: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is said about one manifest. skipped: it is no DLJob. unfinished: rules that could not judge."""

    manifest: Manifest
    namespace: str = ""
    name: str = ""
    entries: Sequence[Entry] = ()
    violations: Sequence[Violation] = ()
    skipped: bool = False
    unfinished: Sequence[str] = field(default=())

    @property
    def outcome(self) -> Outcome:
        """The verdict of admission, of which the schema's is part."""
        taken = {entry.taken for entry in self.entries}
        if self.violations or Outcome.DENY in taken:
            return Outcome.DENY
        # What could not be judged is no clean bill, here as at the webhook.
        return Outcome.WARN if Outcome.WARN in taken or self.unfinished else Outcome.ALLOW

    def fails_on(self, level: str) -> bool:
        """Whether there is something of the level `deny`, `warn` or `advice`, or worse."""
        if self.outcome is Outcome.DENY:
            return True
        warned = [entry for entry in self.entries if entry.taken is Outcome.WARN]
        return {
            "deny": False,
            "warn": bool(self.unfinished) or any(entry.finding.severity is not Severity.ADVICE for entry in warned),
            "advice": bool(self.unfinished or self.entries),
        }[level]


def to_json(reports: Sequence[Report]) -> str:
    """The reports as JSON, version 1; documents that are no DLJob are left out."""
    files = [_file(report) for report in reports if not report.skipped]
    return json.dumps({"version": VERSION, "files": files}, indent=2, ensure_ascii=False)


def _file(report: Report) -> dict[str, Any]:
    path = report.manifest.path
    return {
        "path": path,
        "document": report.manifest.document,
        "kind": report.manifest.kind,
        "namespace": report.namespace,
        "name": report.name,
        "verdict": report.outcome.value,
        "findings": [_violation(path, violation) for violation in report.violations]
        + [_entry(path, entry) for entry in report.entries],
    }


def _violation(path: str, violation: Violation) -> dict[str, Any]:
    return {
        "rule": SCHEMA_RULE,
        "category": None,
        "severity": Severity.ERROR.value,
        "confidence": "Certain",
        "detail": violation.message,
        "evidence": "",
        "fix": "",
        "docs": "",
        "sources": ["Manifest"],
        "location": _location(path, violation.field_path, violation.position, None),
    }


def _entry(path: str, entry: Entry) -> dict[str, Any]:
    finding = entry.finding
    field_path = finding.location.field_path if finding.location is not None else ""
    return {
        "rule": finding.rule,
        "category": finding.category.value,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "detail": finding.detail,
        "evidence": finding.evidence,
        "fix": finding.fix,
        "docs": finding.docs,
        "sources": [source.value for source in finding.sources],
        "location": _location(path, field_path, entry.position, entry.script_line),
    }


def _location(path: str, field_path: str, position: Position, script_line: int | None) -> dict[str, Any]:
    return {
        "file": path,
        "fieldPath": field_path,
        "line": position.line,
        "column": position.column,
        "scriptLine": script_line,
    }


LABELS = {Outcome.DENY: ("error", "red"), Outcome.WARN: ("warning", "yellow"), Outcome.ALLOW: ("note", "cyan")}


def to_text(reports: Sequence[Report]) -> str:
    """The reports for people, colours included; who writes them to no terminal takes these away (click.echo does)."""
    blocks = [_skipped(report) for report in reports if report.skipped]
    for report in reports:
        blocks += [_violation_text(report, violation) for violation in report.violations]
        blocks += [_entry_text(report, entry) for entry in report.entries]
        if report.unfinished:
            unable = ", ".join(report.unfinished)
            blocks.append(f"{report.manifest.path}: not analysed: {unable} (too costly, or a fault of Stoker's)\n")
    return "\n".join([*blocks, _summary(reports)])


def _skipped(report: Report) -> str:
    manifest = report.manifest
    kind = f"the {manifest.kind} {report.name}".rstrip() if manifest.kind else "a document that is no Kubernetes object"
    return f"{manifest.path}:{manifest.node.start_mark.line + 1}: skipped {kind}"


def _violation_text(report: Report, violation: Violation) -> str:
    head = _head(report, violation.position, Outcome.DENY, SCHEMA_RULE)
    field_path = f"{violation.field_path}: " if violation.field_path else ""
    line = violation.position.line
    source = report.manifest.lines[line - 1] if line <= len(report.manifest.lines) else ""
    return f"{head} {field_path}{violation.message}\n{_gutter(line, [source])}\n"


def _entry_text(report: Report, entry: Entry) -> str:
    finding = entry.finding
    head = _head(report, entry.position, entry.taken, finding.rule)
    if finding.location is not None and finding.location.excerpt:
        shown = finding.location.excerpt.splitlines()
    else:
        line = entry.position.line
        source = report.manifest.lines[line - 1] if line <= len(report.manifest.lines) else ""
        start = entry.position.column - 1
        shown = [source, " " * start + "^" * len(source[start:].rstrip())] if source.strip() else []
    body = [f"{head} {finding.detail}"]
    if shown:
        body.append(_gutter(entry.position.line, shown))
    margin = " " * len(str(entry.position.line))
    body += [
        f"{margin} {click.style('=', fg='blue')} {finding.fix}",
        f"{margin} {click.style('=', fg='blue')} {finding.docs}",
    ]
    return "\n".join(body) + "\n"


def _head(report: Report, position: Position, taken: Outcome, rule: str) -> str:
    label, colour = LABELS[taken]
    place = f"{report.manifest.path}:{position.line}:{position.column}:"
    return f"{click.style(place, bold=True)} {click.style(f'{label}[{rule}]', fg=colour, bold=True)}"


def _gutter(line: int, shown: Sequence[str]) -> str:
    bar = click.style("|", fg="blue")
    margin = " " * len(str(line))
    first, *rest = shown
    return "\n".join([f"{line} {bar} {first}", *(f"{margin} {bar} {click.style(text, fg='blue')}" for text in rest)])


def _summary(reports: Sequence[Report]) -> str:
    jobs = [report for report in reports if not report.skipped]
    counts = [
        f"{sum(report.outcome is outcome for report in jobs)} {word}"
        for outcome, word in ((Outcome.DENY, "denied"), (Outcome.WARN, "with warnings"), (Outcome.ALLOW, "clean"))
        if any(report.outcome is outcome for report in jobs)
    ]
    skipped = len(reports) - len(jobs)
    parts = [f"{len(jobs)} DLJob{'' if len(jobs) == 1 else 's'}" + (f": {', '.join(counts)}" if counts else "")]
    if skipped:
        parts.append(f"{skipped} other document{'' if skipped == 1 else 's'} skipped")
    return "; ".join(parts) + "."


__all__ = ["SCHEMA_RULE", "VERSION", "Entry", "Report", "Violation", "to_json", "to_text"]
