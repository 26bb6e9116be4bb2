"""A replay as JSON, in the names of a DLJob's status (docs/schemas/replay-v1.json)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoker.api.duration import format_duration
from stoker.findings.finding import optional_time, rfc3339
from stoker.findings.json_document import write_json
from stoker.reclaim import GATES
from stoker.replay import Figures, JobOutcome, ReplaySummary
from stoker.replay.idle_history import IdleHistory
from stoker.report.formats.json import assumptions, figure
from stoker.telemetry.usage import JobIdentity

DEMANDS = {gate.name: gate.demand for gate in GATES}


def render(summary: ReplaySummary, generated_at: datetime) -> str:
    """The document, with a line break at its end."""
    return write_json(document(summary, generated_at))


def document(summary: ReplaySummary, generated_at: datetime) -> dict[str, Any]:
    """The document as it is published. What is not known is null."""
    return {
        "version": 1,
        "generatedAt": rfc3339(generated_at),
        "scope": {"namespaces": list(summary.namespaces)},
        "period": {"start": rfc3339(summary.period.start), "end": rfc3339(summary.period.end)},
        "policies": [{"name": one.name, "mode": one.mode.value, "jobs": one.jobs} for one in summary.policies],
        "total": {
            "jobsSeen": summary.jobs,
            "gpuHoursRequested": figure(summary.held),
            "gpuHoursUsed": figure(summary.used),
            "gpuHoursIdle": figure(summary.idle),
            "gpuHoursUnknown": figure(summary.unknown),
            **_figures(summary.total),
        },
        "namespaces": _rows(summary.by_namespace),
        "owners": _rows(summary.by_owner),
        "classes": _rows(summary.by_class),
        "idleHistories": [_idle_history(one) for one in summary.idle_histories],
        "heldBack": [
            {
                "gate": line.gate,
                "demand": DEMANDS.get(line.gate, ""),
                "jobs": line.jobs,
                "gpuHours": figure(line.gpu_hours),
            }
            for line in summary.held_back
        ],
        "brakes": [
            {"policy": policy, "time": rfc3339(time), "message": message} for policy, time, message in summary.brakes
        ],
        "reclaims": [
            {
                "job": _job(outcome.identity),
                "policy": outcome.policy,
                "class": outcome.classed,
                "rule": one.rule,
                "mode": one.mode.value,
                "idleSince": rfc3339(one.idle_since),
                "warnedAt": rfc3339(one.warned_at),
                "reclaimedAt": rfc3339(one.at),
                "gpuHoursGivenBack": figure(one.given_back),
                "returnedAt": optional_time(one.returned_at),
                "returnedAfterSeconds": (
                    round((one.returned_at - one.at).total_seconds()) if one.returned_at is not None else None
                ),
                "gpuHoursInterrupted": figure(one.interrupted),
            }
            for outcome, one in summary.reclaims
        ],
        "warnings": [entry for outcome in summary.outcomes for entry in _warnings(outcome)],
        "timeline": [
            {
                "start": rfc3339(part.period.start),
                "end": rfc3339(part.period.end),
                "gpusUsed": figure(part.used),
                "gpusIdle": figure(part.idle),
                "gpusGivenBack": figure(part.given_back),
                "gpusUnknown": figure(part.unknown),
            }
            for part in summary.timeline
        ],
        "assumptions": assumptions(summary.assumed),
        "conditions": [{"name": gate.name, "demand": gate.demand, "assumed": gate.replay or None} for gate in GATES],
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "jobs": figures.jobs,
        "warnings": figures.warnings,
        "saved": figures.saved,
        "reclaims": figures.reclaims,
        "gpuHoursGivenBack": figure(figures.given_back),
        "regrets": figures.regrets,
        "gpuHoursInterrupted": figure(figures.interrupted),
    }


def _idle_history(history: IdleHistory) -> dict[str, Any]:
    proposed = history.proposed_idle_after
    return {
        "jobType": history.job_type,
        "owner": history.owner or None,
        "jobs": history.jobs,
        "rests": [
            {"atLeast": format_duration(one.least), "number": one.number, "endedInWork": one.resumed}
            for one in history.rests
        ],
        "proposedIdleAfter": format_duration(proposed) if proposed is not None else None,
    }


def _rows(groups: Mapping[str, Figures]) -> list[dict[str, Any]]:
    return [{"name": name or None, **_figures(figures)} for name, figures in groups.items()]


def _job(identity: JobIdentity) -> dict[str, Any]:
    return {
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": identity.uid,
        "jobType": identity.job_type or None,
        "owner": identity.owner or None,
        "team": identity.team or None,
        "gpus": identity.gpus,
    }


def _warnings(outcome: JobOutcome) -> list[dict[str, Any]]:
    return [
        {
            "job": _job(outcome.identity),
            "idleSince": rfc3339(one.idle_since),
            "warnedAt": rfc3339(one.at),
            "deadline": rfc3339(one.deadline),
            "rule": one.rule,
            "endedBy": one.outcome or None,
            "endedAt": optional_time(one.ended_at),
        }
        for one in outcome.warnings
    ]


__all__ = ["document", "render"]
