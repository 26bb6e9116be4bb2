"""JSON, version 1: docs/schemas/lint-v1.json is its schema."""

from typing import Any

from stoker.findings.json_document import write_json
from stoker.lint.files.results import Entry, Report, Results, Skipped
from stoker.lint.formats import Terminal

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it, a new field doesn't."""


def render(results: Results, terminal: Terminal) -> str:
    """All of the run; documents that are nothing to judge are listed under `skipped`."""
    document: dict[str, Any] = {
        "version": VERSION,
        "files": [_file(report) for report in results.reports],
        "skipped": [_skipped(one) for one in results.skipped],
        "errors": [{"path": error.path, "line": error.line, "message": error.message} for error in results.errors],
    }
    return write_json(document)


def _file(report: Report) -> dict[str, Any]:
    path = report.manifest.path
    return {
        "path": path,
        "document": report.manifest.document,
        "kind": report.manifest.kind,
        "namespace": report.namespace,
        "name": report.name,
        "verdict": report.outcome.value,
        "clusterVerdict": (report.in_cluster or report.outcome).value,
        "findings": [_finding(path, entry) for entry in report.entries],
        "suppressed": [{**_finding(path, entry), "reason": entry.reason} for entry in report.suppressed],
        "unfinished": list(report.unfinished),
        "unfinishedReason": None if report.shortfall is None else report.shortfall.value,
    }


def _finding(path: str, entry: Entry) -> dict[str, Any]:
    return {
        "rule": entry.rule,
        "category": None if entry.category is None else entry.category.value,
        "severity": entry.severity.value,
        "confidence": entry.confidence.value,
        "action": entry.action.value,
        "detail": entry.detail,
        "evidence": entry.evidence,
        "fix": entry.fix,
        "fixable": None if entry.change is None else "safe" if entry.change.safe else "unsafe",
        "docs": entry.docs,
        "sources": [source.value for source in entry.sources],
        "location": {
            "file": path,
            "fieldPath": entry.field_path,
            "line": entry.region.line,
            "column": entry.region.column,
            "endLine": entry.region.end_line,
            "endColumn": entry.region.end_column,
            "scriptLine": entry.script_line,
        },
    }


def _skipped(skipped: Skipped) -> dict[str, Any]:
    return {
        "path": skipped.path,
        "document": skipped.document,
        "kind": skipped.kind,
        "name": skipped.name,
        "line": skipped.line,
        "reason": skipped.reason,
    }


__all__ = ["VERSION", "render"]
