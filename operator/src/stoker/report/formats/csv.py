"""The statement as a table for spreadsheets: one row a job and what became of its GPU-hours."""

import csv
import io
from collections.abc import Iterator

from stoker.report import Account, Statement
from stoker.report.formats.json import figure

COLUMNS = (
    "namespace",
    "job",
    "uid",
    "jobType",
    "owner",
    "team",
    "gpuProduct",
    "gpus",
    "state",
    "category",
    "rule",
    "gpuHours",
    "fix",
)
UNEXPLAINED = "(no finding)"
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for the start of a formula (OWASP, "CSV Injection"; the last four are full-width)."""


def render(statement: Statement) -> str:
    """RFC 4180, with a header. A job's rows add up to what it requested: a pivot table can sum `gpuHours` as it is.

    state: used, lost or unknown; category and rule say of the lost ones why. A cell that a spreadsheet would take for a
    formula begins with an apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for job in statement.jobs:
        for row in _rows(statement, job):
            writer.writerow([harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def _rows(statement: Statement, job: Account) -> Iterator[tuple[str | float | None, ...]]:
    one = job.identity
    gpus = one.gpus or ""
    who = (one.namespace, one.name, one.uid or "", one.job_type, one.owner, one.team, one.product, gpus)
    yield (*who, "used", "", "", figure(job.balance.used), "")
    for cause, hours in sorted(job.causes.items(), key=lambda item: (-item[1], item[0])):
        yield (*who, "lost", cause.category.value, cause.rule, figure(hours), statement.fix(job, cause.rule))
    if job.unexplained > 0:
        yield (*who, "lost", UNEXPLAINED, "", figure(job.unexplained), "")
    if job.balance.unknown > 0:
        yield (*who, "unknown", "", "", figure(job.balance.unknown), "")


def harmless(cell: str) -> str:
    """The text so that no spreadsheet computes it."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


__all__ = ["COLUMNS", "render"]
