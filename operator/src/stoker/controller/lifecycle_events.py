"""Kubernetes Events about a job's phase and its troubles, from the status before and after a write: so each is recorded
once, by the pass that wrote it. Used by the status writer.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from stoker.adapters.kubernetes.events import Event
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ConditionType, Phase

RULE = "lifecycle"
TROUBLES: Mapping[ConditionType, frozenset[str]] = {
    ConditionType.PODS_READY: frozenset(
        {
            "JobInvalid",
            "JobForbidden",
            "JobNotCreated",
            "NameConflict",
            "NotAnalysed",
            "QuotaExceeded",
            "PodSecurity",
            "PodsNotCreated",
            "QueueInactive",
            "Preempted",
        }
    ),
    ConditionType.SUSPENDED: frozenset({"JobNotChanged", "NotSuspendable"}),
    ConditionType.CREATED_WITH_WARNINGS: frozenset({"APIServerWarned"}),
}
"""Reasons of conditions that get an event of the same reason, once each time that they come."""
REFUSED = "Refused"
"""The reason of a failure that has an event of its own."""


def status_events(before: Mapping[str, Any], after: Mapping[str, Any], now: datetime) -> Iterator[Event]:
    """The events about a status that was written over another one."""
    if "jobUID" in after and "jobUID" not in before:
        yield _event("Normal", "Created", "Its Job is created.", episode=str(after["jobUID"]))
    if before.get("phase") != after.get("phase"):
        yield from _of_phase(before, after, now)
    for kind, reasons in TROUBLES.items():
        old, new = _condition(before, kind), _condition(after, kind)
        reason = str(new.get("reason", ""))
        if reason in reasons and reason != old.get("reason"):
            yield _event("Warning", reason, str(new.get("message", "")), episode=rfc3339(now))


def _of_phase(before: Mapping[str, Any], after: Mapping[str, Any], now: datetime) -> Iterator[Event]:
    was, phase, at = before.get("phase"), after.get("phase"), rfc3339(now)
    if was == Phase.SUSPENDED and phase not in {Phase.SUCCEEDED, Phase.FAILED}:
        note = "spec.suspend is false: its script starts from the beginning when its pods have their GPUs."
        yield _event("Normal", "Resumed", note, episode=at)
    match phase:
        case Phase.RUNNING:
            yield _event("Normal", "Started", f"Its pods are ready ({after.get('ready')}).", episode=at)
        case Phase.SUSPENDED:
            yield _event("Normal", "Suspended", "spec.suspend is true: its pods are being terminated.", episode=at)
        case Phase.QUEUED:
            yield _event("Normal", "Queued", _message(after, ConditionType.PODS_READY), episode=at)
        case Phase.SUCCEEDED:
            yield _event("Normal", "Succeeded", _message(after, ConditionType.COMPLETE), episode=at)
        case Phase.FAILED if _condition(after, ConditionType.FAILED).get("reason") != REFUSED:
            yield _event("Warning", "Failed", _message(after, ConditionType.FAILED), episode=at)


def _event(kind: Any, reason: str, note: str, *, episode: str) -> Event:
    return Event(type=kind, reason=reason, action=reason, note=note, rule=RULE, episode=episode)


def _message(status: Mapping[str, Any], kind: ConditionType) -> str:
    return str(_condition(status, kind).get("message", ""))


def _condition(status: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any]:
    return next((one for one in status.get("conditions", ()) if one.get("type") == kind), {})
