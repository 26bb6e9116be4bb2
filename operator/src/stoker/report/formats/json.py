"""The statement as JSON, in the names of a DLJob's status (docs/schemas/report-v1.json)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from stoker.findings.finding import rfc3339
from stoker.findings.json_document import rounded, write_json
from stoker.report import Account, Assumption, Balance, Dimension, Row, Statement
from stoker.telemetry.usage import Period

GROUPS = {
    Dimension.TEAM: "teams",
    Dimension.OWNER: "owners",
    Dimension.NAMESPACE: "namespaces",
    Dimension.JOB_TYPE: "jobTypes",
    Dimension.PRODUCT: "gpuProducts",
}


def render(statement: Statement, generated_at: datetime) -> str:
    """The document, with a line break at its end."""
    return write_json(document(statement, generated_at))


def document(statement: Statement, generated_at: datetime) -> dict[str, Any]:
    """The document as it is published. What is not known is null."""
    return {
        "version": 1,
        "generatedAt": rfc3339(generated_at),
        "scope": {"namespaces": list(statement.namespaces)},
        "period": _period(statement.period),
        "periodBefore": _period(statement.period.before),
        "total": {**_balance(statement.total), "gpuHoursUnexplained": figure(statement.unexplained)},
        "totalBefore": _balance(statement.before) if statement.before is not None else None,
        "timeline": [{**_period(part), **_balance(balance)} for part, balance in statement.timeline],
        "causes": [
            {
                "category": line.category.value,
                "rules": list(line.rules),
                "jobs": line.jobs,
                "gpuHoursIdle": figure(line.lost),
                "gpuHoursIdleBefore": figure(line.before),
            }
            for line in statement.causes
        ],
        "stages": [
            *({"stage": stage.value, "gpuHoursIdle": figure(hours)} for stage, hours in statement.stages.items()),
            {"stage": None, "gpuHoursIdle": figure(statement.unstaged)},
        ],
        **{key: list(_rows(statement.groups[dimension])) for dimension, key in GROUPS.items()},
        "jobs": [_job(statement, one) for one in statement.jobs],
        "assumptions": assumptions(statement.assumed),
    }


def figure(value: float | None) -> float | None:
    """GPU-hours and percentages to three decimals; null where they are not known."""
    return rounded(value, 3)


def assumptions(assumed: Iterable[Assumption]) -> list[dict[str, Any]]:
    """What had to be assumed, as it is published."""
    return [{"key": one.key, "text": one.text, "gpuHours": figure(one.gpu_hours)} for one in assumed]


def _period(period: Period) -> dict[str, str]:
    return {"start": rfc3339(period.start), "end": rfc3339(period.end)}


def _balance(balance: Balance) -> dict[str, float | None]:
    used, known = balance.used_share, balance.known_share
    return {
        "gpuHoursRequested": figure(balance.requested),
        "gpuHoursUsed": figure(balance.used),
        "gpuHoursIdle": figure(balance.lost),
        "gpuHoursUnknown": figure(balance.unknown),
        "averagePercent": figure(100 * used) if used is not None else None,
        "coveragePercent": figure(100 * known) if known is not None else None,
    }


def _rows(rows: Iterable[Row]) -> Iterable[dict[str, Any]]:
    for row in rows:
        yield {
            "name": row.value or None,
            "jobs": row.jobs,
            **_balance(row.balance),
            "mainCause": row.main_cause.value if row.main_cause is not None else None,
            "before": _balance(row.before) if row.before is not None else None,
        }


def _job(statement: Statement, job: Account) -> dict[str, Any]:
    identity = job.identity
    return {
        "namespace": identity.namespace,
        "name": identity.name or None,
        "uid": identity.uid,
        "jobType": identity.job_type or None,
        "owner": identity.owner or None,
        "team": identity.team or None,
        "gpuProduct": identity.product or None,
        "priority": identity.priority or None,
        "gpus": identity.gpus or None,
        **_balance(job.balance),
        "causes": [
            {
                "category": cause.category.value,
                "rule": cause.rule,
                "gpuHoursIdle": figure(hours),
                "fix": statement.fix(job, cause.rule) or None,
            }
            for cause, hours in sorted(job.causes.items(), key=lambda item: (-item[1], item[0]))
        ],
        "gpuHoursUnexplained": figure(job.unexplained),
    }


__all__ = ["GROUPS", "assumptions", "document", "figure", "render"]
