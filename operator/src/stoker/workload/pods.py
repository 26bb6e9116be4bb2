"""What a pod's status says: whether it is ready, and if not, the true reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.api.dljob import TRAINER
from stoker.findings.finding import parse_time
from stoker.findings.quantity import small_number
from stoker.lint.kinds.job import INDEX_ANNOTATION

EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Times beyond these are no times of a pod: arithmetic with them leaves the calendar."""
LONGEST_GRACE = 366 * 24 * 3600
"""Seconds; the API takes any number of 64 bits."""
DEFAULT_GRACE_SECONDS = 30
"""The API server's default of terminationGracePeriodSeconds."""
PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a pod is not running: a condition's reason, and a sentence."""

    reason: str
    message: str
    is_final: bool = False
    """Nothing that may still change would take it away."""


def name(pod: Mapping[str, Any]) -> str:
    """The pod's name."""
    return str(pod["metadata"]["name"])


def uid(pod: Mapping[str, Any]) -> str:
    """The pod's uid."""
    return str(pod["metadata"]["uid"])


def read_time(text: object) -> datetime | None:
    """A time that a node, or whoever may write to the object, has written; None for what is none."""
    try:
        time = parse_time(text) if isinstance(text, str) else None
        return time if time is not None and time.tzinfo is not None and EARLIEST <= time < LATEST else None
    except (ValueError, OverflowError):
        return None


def rank(pod: Mapping[str, Any]) -> int | None:
    """The pod's completion index: as its annotation says, which the pod's owner can change, or else its name, which the
    Job controller makes of the Job's name, the index and five letters. None where neither has one.
    """
    index = small_number((pod["metadata"].get("annotations") or {}).get(INDEX_ANNOTATION))
    if index is not None:
        return index
    *_, index_in_name, _ = ("", "", *name(pod).rsplit("-", 2))
    return small_number(index_in_name)


def ranks(pods: Sequence[Mapping[str, Any]]) -> list[int]:
    """The completion index of each. Those without one come after all others, each with a number of its own, so that
    none passes for what another has replaced.
    """
    found = [rank(pod) for pod in pods]
    following = max((one for one in found if one is not None), default=-1) + 1
    return [following + place if one is None else one for place, one in enumerate(found)]


def phase(pod: Mapping[str, Any]) -> str:
    """Pending, Running, Succeeded, Failed or Unknown."""
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Whether its deletion was asked for; it still holds its GPUs."""
    return "deletionTimestamp" in pod["metadata"]


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether it has ended and holds nothing any more."""
    return phase(pod) in {"Succeeded", "Failed"}


def termination_grace(pod: Mapping[str, Any]) -> timedelta:
    """The time between SIGTERM and SIGKILL."""
    given = pod.get("spec", {}).get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    seconds = given if isinstance(given, int) else DEFAULT_GRACE_SECONDS
    return timedelta(seconds=min(max(seconds, 0), LONGEST_GRACE))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether all its containers run."""
    return not is_terminating(pod) and any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions", ())
    )


def was_ready(pod: Mapping[str, Any]) -> bool:
    """Whether it is ready, or was since its trainer started, which still runs as far as its node has reported."""
    if is_terminating(pod) or "running" not in trainer_status(pod).get("state", {}):
        return False
    started, lost = started_at(pod), _transition(pod, "Ready", "False")
    return is_ready(pod) or (started is not None and lost is not None and lost > started)


def is_scheduled(pod: Mapping[str, Any]) -> bool:
    """Whether it has a node, and thereby GPUs."""
    return bool(pod["spec"].get("nodeName"))


def holds_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether its GPUs are taken from others: it has a node, and has not ended."""
    return is_scheduled(pod) and not is_finished(pod)


def trainer_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the trainer container; empty before the kubelet has written one."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == TRAINER), {})


def started_at(pod: Mapping[str, Any]) -> datetime | None:
    """When the trainer started last. The pod's creation is never a start."""
    state = trainer_status(pod).get("state", {})
    return read_time((state.get("running") or state.get("terminated") or {}).get("startedAt"))


def finished_at(pod: Mapping[str, Any]) -> datetime | None:
    """When the trainer ended; None while it runs. Of a pod whose node was lost: when it was last known to be ready."""
    ended = read_time(trainer_status(pod).get("state", {}).get("terminated", {}).get("finishedAt"))
    if ended is None and is_finished(pod):
        return _transition(pod, "Ready", "False") or _transition(pod, "DisruptionTarget", "True")
    return ended


def scheduled_at(pod: Mapping[str, Any]) -> datetime | None:
    """When it was bound to its node; None before."""
    return _transition(pod, "PodScheduled", "True")


def waiting_for(pod: Mapping[str, Any]) -> str | None:
    """What keeps the trainer from starting, in the kubelet's word; None where nothing does, or nothing is said."""
    reason = trainer_status(pod).get("state", {}).get("waiting", {}).get("reason")
    return None if reason is None else str(reason)


def last_run(pod: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Start and end of the trainer's run before its present one; None without one."""
    ended = trainer_status(pod).get("lastState", {}).get("terminated", {})
    start, end = read_time(ended.get("startedAt")), read_time(ended.get("finishedAt"))
    return None if start is None or end is None else (start, end)


def _transition(pod: Mapping[str, Any], kind: str, status: str) -> datetime | None:
    """Since when a condition has this status."""
    return next(
        (
            read_time(condition.get("lastTransitionTime"))
            for condition in pod.get("status", {}).get("conditions", ())
            if condition["type"] == kind and condition["status"] == status
        ),
        None,
    )


def exit_words(pod: Mapping[str, Any]) -> str | None:
    """How the trainer ended, such as `exit code 137 (OOMKilled)`; None while it runs."""
    ended = trainer_status(pod).get("state", {}).get("terminated")
    if ended is None:
        return None
    reason = ended.get("reason")
    return f"exit code {ended.get('exitCode')}" + (f" ({reason})" if reason and reason != "Error" else "")


def obstacle(pod: Mapping[str, Any]) -> Obstacle | None:
    """Why the pod is not running, where its status says so."""
    status = pod.get("status", {})
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            if condition.get("reason") == "SchedulingGated":
                return Obstacle(reason="SchedulingGated", message=f"pod {name(pod)} waits for a scheduling gate")
            return Obstacle(
                reason="Unschedulable", message=f"pod {name(pod)} is not scheduled: {condition.get('message', '')}"
            )
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = container.get("state", {}).get("waiting", {}).get("reason")
        where = f"container {container['name']} of pod {name(pod)}"
        if waiting in PULL_REASONS:
            return Obstacle(
                reason="ImagePull", message=f"{where} can't pull image {container.get('image', '')} ({waiting})"
            )
        if waiting in CONFIG_REASONS:
            return Obstacle(
                reason="ContainerConfig", message=f"{where} can't start ({waiting}): see kubectl describe pod"
            )
    return None
