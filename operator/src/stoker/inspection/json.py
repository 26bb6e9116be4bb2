"""JSON, version 1, in the names of a DLJob's status: docs/schemas/diagnose-v1.json is its schema."""

from collections.abc import Sequence
from typing import Any

from stoker.diagnosis.words import stage
from stoker.findings.diagnosis import Advice, Diagnosis, GpuUse, Utilization
from stoker.findings.finding import Finding, Location, Recoverable, optional_time, rfc3339
from stoker.findings.json_document import rounded, write_json
from stoker.inspection.look import Looked

VERSION = 1
"""Version of the JSON; a change that breaks a reader raises it, a new field doesn't."""
DECIMALS = 2
"""Decimals of percentages and hours."""


def render(looked: Sequence[Looked]) -> str:
    """All jobs, in their order."""
    return write_json({"version": VERSION, "jobs": [_job(one) for one in looked]})


def _job(one: Looked) -> dict[str, Any]:
    """One job. One that could not be diagnosed has the same fields, unknown, and an `error`."""
    diagnosis = one.diagnosis or Diagnosis(utilization=None)
    used = diagnosis.utilization
    return {
        "namespace": one.facts.namespace,
        "name": one.facts.name,
        "kind": one.workload.owner or None,
        "jobType": one.facts.job_type.value,
        "gpus": one.facts.gpus,
        "since": optional_time(one.since),
        "until": optional_time(one.until),
        "utilization": None if used is None else _utilization(used),
        "unknown": None if diagnosis.unknown is None else diagnosis.unknown.value,
        "low": one.is_low,
        "stages": [] if used is None else [stage(one, _number) for one in used.stages],
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "advice": [_advice(advice) for advice in diagnosis.advice],
        "idle": {"since": optional_time(diagnosis.idle_since), "allGPUs": _all_idle(one)},
        "reclaim": {"eligible": one.eligibility.eligible, "why": one.eligibility.why},
        "notes": list(one.notes),
        "error": one.error,
    }


def _utilization(used: Utilization) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if used.average_percent is not None:
        entry["averagePercent"] = _number(used.average_percent)
    elif used.average_percent_range is not None:
        entry["averagePercentRange"] = [_number(bound) for bound in used.average_percent_range]
    return entry | {
        "recentPercent": _number(used.recent_percent),
        "peakMemoryPercent": _number(used.peak_memory_percent),
        "coveragePercent": _number(used.coverage_percent),
        "gpuHours": _number(used.gpu_hours),
        "gpuHoursIdle": _number(used.gpu_hours_idle),
        "asOf": rfc3339(used.as_of),
        "gpus": [_gpu(gpu) for gpu in used.gpus],
    }


def _gpu(gpu: GpuUse) -> dict[str, Any]:
    return {
        "pod": gpu.pod,
        "rank": gpu.rank,
        "node": gpu.node,
        "gpu": gpu.gpu,
        "averagePercent": _number(gpu.average_percent),
        "peakMemoryPercent": _number(gpu.peak_memory_percent),
        "coveragePercent": _number(gpu.coverage_percent),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """As in `status.findings`, with every field, and numbers as numbers."""
    return {
        "category": finding.category.value,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "location": None if finding.location is None else _location(finding.location),
        "detail": finding.detail,
        "evidence": finding.evidence,
        "fix": finding.fix,
        "docs": finding.docs,
        "sources": [source.value for source in finding.sources],
        "gpuHoursIdle": _number(finding.gpu_hours_idle),
        "recoverable": None if finding.recoverable is None else _recoverable(finding.recoverable),
        "since": optional_time(finding.since),
        "until": optional_time(finding.until),
        "alternatives": [category.value for category in finding.alternatives],
        "weighedCauses": [
            {"category": one.category.value, "share": _number(one.share), "evidence": one.evidence}
            for one in finding.weighed
        ],
    }


def _location(location: Location) -> dict[str, Any]:
    return {"fieldPath": location.field_path, "line": location.line}


def _recoverable(estimate: Recoverable) -> dict[str, Any]:
    return {"min": _number(estimate.min), "max": _number(estimate.max), "basis": estimate.basis}


def _advice(advice: Advice) -> dict[str, Any]:
    return {"rule": advice.rule, "detail": advice.detail, "fix": advice.fix, "docs": advice.docs}


def _all_idle(one: Looked) -> bool | None:
    """Whether every GPU is idle now; None where some are not known. A job that has ended is not idle: it holds none."""
    if one.diagnosis is None or one.diagnosis.utilization is None:
        return None
    if one.diagnosis.idle_since is not None:
        return True
    return False if one.diagnosis.unknown is None else None


def _number(value: float | None) -> float | None:
    return rounded(value, DECIMALS)


__all__ = ["VERSION", "render"]
