"""What the owner of a DLJob asks of reclaim, written as annotations of the DLJob: to resume it, to put a reclaim off.
Used by `stoker resume` and `stoker snooze`; kubectl alone can do the same.
"""

import asyncio
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from stoker.adapters.kubernetes.client import DLJOBS, KubernetesApi
from stoker.api.names import QUEUE_LABEL, RESUME_ANNOTATION, SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION
from stoker.findings.finding import rfc3339

PATIENCE = 5.0
"""Seconds that a command waits for the controller's answer, which says what is truly done."""
LOOK_AGAIN = 0.25
"""Seconds between two reads of the DLJob while a command waits."""
OVER = {"Succeeded": "it has succeeded", "Failed": "it has failed"}


class RefusedError(Exception):
    """What was asked of a job can't be done; the text says why, and what can."""


async def resume(api: KubernetesApi, namespace: str, name: str) -> str:
    """Start a reclaimed job again, or cancel the warning of one that is warned.

    Returns what becomes of the job. Raises RefusedError, ApiError.
    """
    raw = await _get(api, namespace, name)
    will = resumption_of(raw)
    record = _record(raw)
    asked = raw["metadata"].get("annotations", {}).get(RESUME_ANNOTATION)
    if record.get("state") not in {"Warned", "Reclaiming", "Reclaimed"} and "deadline" not in record:
        return will
    if asked is not None and asked != record.get("handledResume"):
        return f"{will} (already requested)"
    value = secrets.token_hex(6)
    await _annotate(api, namespace, name, {RESUME_ANNOTATION: value})
    recorded = await _recorded(api, namespace, name, "handledResume", value)
    return will if recorded is not None else f"{will} {_silent(namespace, name)}"


def resumption_of(raw: Mapping[str, Any]) -> str:
    """What a request to resume does to a job, by its status. Raises RefusedError where it can't be brought back."""
    record = _record(raw)
    phase = raw.get("status", {}).get("phase")
    state, deleted = record.get("state"), record.get("action") == "Delete"
    if phase in OVER:
        raise RefusedError(f"{OVER[phase]}: recreate the DLJob to run it again")
    if state in {"Reclaiming", "Reclaimed"}:
        if deleted and state == "Reclaimed":
            raise RefusedError("its Job was deleted for good: recreate the DLJob to run it again")
        if deleted:
            return "will not be reclaimed, unless its Job has already been deleted"
        if raw["spec"].get("suspend"):
            return "stays suspended: set spec.suspend to false to start it"
        ending = " once its old pods have ended" if state == "Reclaiming" else ""
        if (queue := raw["metadata"].get("labels", {}).get(QUEUE_LABEL)) is not None:
            return (
                f"goes back to its queue {queue}{ending}; its script starts from the beginning when the queue admits it"
            )
        return f"resumes{ending}; its script starts from the beginning when its pods have their GPUs"
    if state == "Warned" or "deadline" in record:
        return "will not be reclaimed before the policy's cooldown is over: its warning is cancelled"
    if raw["spec"].get("suspend"):
        return "is suspended by spec.suspend, not by Stoker: set spec.suspend to false to start it"
    if phase == "Queued":
        return f"is not reclaimed; it is queued: {_why_not_ready(raw)}"
    return "is not reclaimed: there is nothing to resume"


def _why_not_ready(raw: Mapping[str, Any]) -> str:
    conditions = raw["status"].get("conditions", ())
    return next((one["message"] for one in conditions if one["type"] == "PodsReady"), "the reason is not known")


async def snooze(api: KubernetesApi, namespace: str, name: str, until: datetime, why: str | None) -> str:
    """Protect the job from reclaim until a time, for a reason that everyone who can view the job may read.

    Returns what becomes of the job. Raises RefusedError, ApiError.
    """
    raw = await _get(api, namespace, name)
    phase, record = raw.get("status", {}).get("phase"), _record(raw)
    if phase in OVER:
        raise RefusedError(f"{OVER[phase]}: there is nothing to snooze")
    if record.get("state") == "Reclaimed":
        raise RefusedError(f"it has already been reclaimed: start it again with stoker resume {name} -n {namespace}")
    asked = rfc3339(until)
    await _annotate(api, namespace, name, {SNOOZE_ANNOTATION: asked, SNOOZE_REASON_ANNOTATION: why})
    recorded = await _recorded(api, namespace, name, "handledSnooze", asked)
    if recorded is None and record.get("state") == "Reclaiming":
        return (
            f"is being reclaimed: if the snooze came too late, start it again with stoker resume {name} -n {namespace}"
        )
    if recorded is None:
        return (
            f"will not be reclaimed before {asked}, or for the policy's maxSnooze if that is shorter "
            f"{_silent(namespace, name)}"
        )
    granted = _record(recorded).get("snoozedUntil", asked)
    if granted != asked and datetime.fromisoformat(granted) <= datetime.now(UTC):
        raise RefusedError("its policy does not allow owners to snooze (reclaim.maxSnooze)")
    if granted != asked:
        return (
            f"will not be reclaimed before {granted}; you asked for {asked}, but its policy allows no more "
            "at a time (reclaim.maxSnooze)"
        )
    return f"will not be reclaimed before {granted}"


async def cancel_snooze(api: KubernetesApi, namespace: str, name: str) -> str:
    """End the snooze of the job. Returns what becomes of it. Raises ApiError."""
    raw = await _get(api, namespace, name)
    if not {SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION} & raw["metadata"].get("annotations", {}).keys():
        return "was not snoozed"
    await _annotate(api, namespace, name, {SNOOZE_ANNOTATION: None, SNOOZE_REASON_ANNOTATION: None})
    return "is no longer snoozed: it may be warned once it has been idle for long enough"


async def _get(api: KubernetesApi, namespace: str, name: str) -> dict[str, Any]:
    return await api.get(DLJOBS, namespace, name)


async def _annotate(api: KubernetesApi, namespace: str, name: str, annotations: Mapping[str, str | None]) -> None:
    await api.patch(DLJOBS, namespace, name, {"metadata": {"annotations": dict(annotations)}})


async def _recorded(api: KubernetesApi, namespace: str, name: str, field: str, value: str) -> dict[str, Any] | None:
    """The job once the controller has recorded the value; None where it has not within PATIENCE."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        raw = await _get(api, namespace, name)
        if _record(raw).get(field) == value:
            return raw
        if asyncio.get_running_loop().time() >= end:
            return None
        await asyncio.sleep(LOOK_AGAIN)


def _record(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    record: Mapping[str, Any] = raw.get("status", {}).get("reclaim", {})
    return record


def _silent(namespace: str, name: str) -> str:
    return f"(the controller has not answered yet: kubectl describe dljob {name} -n {namespace})"


__all__ = ["RefusedError", "cancel_snooze", "resumption_of", "resume", "snooze"]
