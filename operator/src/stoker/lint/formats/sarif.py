"""SARIF 2.1.0, for code scanning: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stoker import __version__
from stoker.catalogue import admission_rules
from stoker.catalogue.pages import page
from stoker.findings.json_document import write_json
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Action, Severity
from stoker.lint.files.manifests import STDIN_NAME, InputError, Region
from stoker.lint.files.results import SCHEMA_RULE, SUPPRESSION_RULE, Entry, Level, Report, Results, Skipped
from stoker.lint.fixes.apply import NotApplicableError, apply
from stoker.lint.formats import Terminal

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.ADVICE: "note", Level.NOTE: "note"}
OWN_RULES = {
    SCHEMA_RULE: "The manifest breaks the API's schema.",
    SUPPRESSION_RULE: "A suppression has no effect.",
}
"""What is reported beside the catalogue's rules."""


def render(results: Results, terminal: Terminal) -> str:
    """One run: the rules that speak, a result per finding, the suppressed ones among them, and the unreadable input."""
    found = [
        (report, entry) for report in results.reports for entry in (*report.entries, *report.suppressed)
    ]  # in the order of the input
    spoken = {entry.rule for _, entry in found}
    rules = [_rule(rule) for rule in admission_rules() if rule.name in spoken]
    rules += [_own_rule(name, text) for name, text in OWN_RULES.items() if name in spoken]
    indices = {rule["id"]: index for index, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "stoker",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": rules,
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(results)],
        "results": [_result(report, entry, indices[entry.rule]) for report, entry in found],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return write_json(document)


def _rule(rule: Rule[Any]) -> dict[str, Any]:
    return {
        "id": rule.name,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.page.strip().partition("\n")[0] or rule.summary},
        "help": {"text": f"{rule.summary} {rule.fix} ({rule.docs})", "markdown": page(rule)},
        "defaultConfiguration": {"level": _default_level(rule)},
        "properties": {"id": rule.id, "category": rule.category.value, "tags": ["gpu", rule.category.value]},
    }


def _default_level(rule: Rule[Any]) -> str:
    if rule.action is Action.DENY:
        return "error"
    return "warning" if rule.action is Action.WARN and rule.severity is not Severity.ADVICE else "note"


def _own_rule(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "name": name.capitalize(), "shortDescription": {"text": text}, "help": {"text": text}}


def _invocation(results: Results) -> dict[str, Any]:
    notifications = [_unreadable(error) for error in results.errors]
    notifications += [
        _notification("warning", said, report.manifest.path, {"startLine": report.manifest.line})
        for report in results.reports
        if (said := report.not_analysed) is not None
    ]
    notifications += [_skipped(one) for one in results.skipped]
    return {"executionSuccessful": not results.errors, "toolExecutionNotifications": notifications}


def _unreadable(error: InputError) -> dict[str, Any]:
    region = None if error.line is None else {"startLine": error.line}
    return _notification("error", error.message, error.path, region)


def _skipped(skipped: Skipped) -> dict[str, Any]:
    return _notification("note", f"skipped {skipped.reason}", skipped.path, {"startLine": skipped.line})


def _notification(level: str, text: str, path: str, region: Mapping[str, int] | None) -> dict[str, Any]:
    place = {"artifactLocation": _artifact(path), **({} if region is None else {"region": region})}
    return {"level": level, "message": {"text": text}, "locations": [{"physicalLocation": place}]}


def _result(report: Report, entry: Entry, index: int) -> dict[str, Any]:
    said: Sequence[str] = [entry.detail, entry.fix]
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(report.manifest.path), "region": _region(entry.region)}
    }
    if entry.field_path:
        location["logicalLocations"] = [{"fullyQualifiedName": entry.field_path, "kind": "member"}]
    result: dict[str, Any] = {
        "ruleId": entry.rule,
        "ruleIndex": index,
        "level": LEVELS[entry.level],
        "message": {"text": " ".join(text for text in said if text)},
        "locations": [location],
        "properties": {
            "severity": entry.severity.value,
            "confidence": entry.confidence.value,
            "action": entry.action.value,
            "evidence": entry.evidence,
            "object": "/".join(part for part in (report.manifest.kind, report.namespace, report.name) if part),
        },
    }
    if (fix := _fix(report, entry)) is not None:
        result["fixes"] = [fix]
    if entry.reason is not None:
        result["suppressions"] = [{"kind": "inSource", "status": "accepted", "justification": entry.reason}]
    return result


def _fix(report: Report, entry: Entry) -> dict[str, Any] | None:
    """The computed change as one replacement in the file; None where there is none, or it can't be made in place."""
    if entry.change is None or entry.reason is not None:
        return None
    before = report.manifest.text
    try:
        after = apply(before, report.manifest, entry.change)
    except NotApplicableError:
        return None
    start = next((index for index, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0)
    rest = zip(reversed(before[start:]), reversed(after[start:]), strict=False)
    same = next((index for index, pair in enumerate(rest) if pair[0] != pair[1]), min(len(before), len(after)) - start)
    end = len(before) - same
    replacement = {
        "deletedRegion": _region(Region(*_place(before, start), *_place(before, end))),
        "insertedContent": {"text": after[start : len(after) - same]},
    }
    return {
        "description": {"text": entry.fix if entry.change.safe else f"{entry.fix} (the author's decision)"},
        "artifactChanges": [{"artifactLocation": _artifact(report.manifest.path), "replacements": [replacement]}],
    }


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of a character."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _region(region: Region) -> dict[str, int]:
    return {
        "startLine": region.line,
        "startColumn": region.column,
        "endLine": region.end_line,
        "endColumn": region.end_column,
    }


def _artifact(path: str) -> dict[str, Any]:
    """A path as a URI: relative to where the command runs wherever it can be, as code scanning wants it."""
    if path == STDIN_NAME:
        return {"description": {"text": "standard input"}}
    place = Path(path)
    if place.is_absolute() and place.is_relative_to(Path.cwd()):
        place = place.relative_to(Path.cwd())
    return {"uri": place.as_uri() if place.is_absolute() else quote(place.as_posix(), errors="surrogateescape")}


__all__ = ["render"]
