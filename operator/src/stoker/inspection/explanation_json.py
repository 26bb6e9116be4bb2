"""JSON, version 1: docs/schemas/explain-v1.json is its schema."""

from typing import Any

from stoker.api.duration import format_duration
from stoker.findings.finding import optional_time, rfc3339
from stoker.findings.json_document import write_json
from stoker.inspection.reclaim_report import ReclaimReport
from stoker.reclaim import GateResult, revisions_to_status

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it, a new field doesn't."""


def render(one: ReclaimReport) -> str:
    """Everything, with null for what is not known or does not apply."""
    case, record, decisive = one.case, one.record, one.decisive
    cause, settings, status = case.cause, case.settings, one.job.status
    found = case.policy.class_of(case.job.traits)
    document = {
        "version": VERSION,
        "namespace": one.job.namespace,
        "name": one.job.name,
        "asOf": rfc3339(case.now),
        "lookedAt": optional_time(one.looked_at),
        "outOfDate": one.is_out_of_date,
        "phase": None if status is None or status.phase is None else status.phase.value,
        "gpus": one.job.gpus,
        "state": None if record.state is None else record.state.value,
        "reason": record.reason or None,
        "idle": {
            "state": case.idleness.state.value,
            "since": optional_time(case.idle_since),
            "message": case.idleness.message or None,
            "saidSince": None if one.idle is None else optional_time(one.idle.last_transition_time),
        },
        "cause": None
        if cause is None
        else {
            "category": cause.category.value,
            "rule": cause.rule,
            "confidence": cause.confidence.value,
            "detail": cause.detail,
        },
        "policy": {
            "revisions": revisions_to_status(case.policy.revisions),
            "class": None if found is None else found.name,
            "mode": settings.mode.value,
            "idleAfter": format_duration(case.idle_after),
            "startupGrace": format_duration(settings.startup_grace),
            "warningGrace": format_duration(settings.warning_grace),
            "cooldownAfterResume": format_duration(settings.cooldown_after_resume),
            "maxSnooze": format_duration(settings.max_snooze),
            "onPressureOnly": settings.on_pressure_only,
        },
        "warnedAt": optional_time(record.warned_at),
        "deadline": optional_time(record.deadline),
        "action": None if record.action is None else record.action.value,
        "reclaimedAt": optional_time(record.reclaimed_at),
        "resumedAt": optional_time(record.resumed_at),
        "snoozedUntil": optional_time(record.snoozed_until),
        "snoozes": record.snoozes,
        "conditions": [_condition(result) for result in one.results],
        "decisive": None if decisive is None else decisive.gate,
        "nextDeadline": optional_time(one.next_deadline),
        "change": None if decisive is None else decisive.change or None,
        "history": [entry.to_status() for entry in record.history],
        "notes": list(one.notes),
    }
    return write_json(document)


def _condition(result: GateResult) -> dict[str, Any]:
    return {
        "name": result.gate,
        "question": result.group.value,
        "demand": result.demand,
        "holds": result.holds,
        "reason": result.reason or None,
        "until": optional_time(result.until),
        "change": result.change or None,
    }
