"""What has become of a DLJob, from its Job, its pods and what kept pods from being made; pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from stoker.api.dljob import DLJob
from stoker.findings.quantity import small_number
from stoker.findings.vocabulary import ConditionType, Phase
from stoker.findings.wording import count
from stoker.workload import pods as pod_status
from stoker.workload.conditions import FALSE, TRUE, Fact
from stoker.workload.pods import Obstacle

SUSPENDED_BY = "stoker.dev/suspended-by"
"""On the Job, and on the Workload of one that Kueue manages: who had Stoker suspend it (`user` or `reclaim`). Only what
carries it is resumed.
"""
BY_USER, BY_RECLAIM = "user", "reclaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """The part of the status that follows from the children."""

    phase: Phase
    ready_pods: int
    nodes: int
    restarts: int
    start_time: datetime | None
    completion_time: datetime | None
    facts: tuple[Fact, ...]

    @property
    def ready(self) -> str:
        """Ready pods of all, for people: `1/2`."""
        return f"{self.ready_pods}/{self.nodes}"


def observe(
    job: DLJob,
    child: Mapping[str, Any] | None,
    pods: Sequence[Mapping[str, Any]],
    *,
    obstacle: Obstacle | None = None,
    reclaimed: bool = False,
    held: bool = False,
    unsuspendable: str | None = None,
    unwritten: str | None = None,
    queued: Obstacle | None = None,
) -> JobObservation:
    """`child` is the DLJob's own Job, None before it is created; `pods` are the Job's. `obstacle` is why pods could not
    be made. `reclaimed`: reclaim asked for the suspension. `held`: Stoker keeps the Job's pods away, though its manager
    may not have suspended it yet; `unsuspendable` is why it can't, `unwritten` why it could not be changed just now;
    `queued` is what its queue says of a Job that it holds back.
    """
    nodes = job.spec.nodes
    live = [pod for pod in pods if not pod_status.is_finished(pod)]
    ready = sum(pod_status.is_ready(pod) for pod in live)
    status = child.get("status", {}) if child is not None else {}
    starts = [start for pod in pods if (start := pod_status.started_at(pod)) is not None]
    if job.status is not None and job.status.start_time is not None:
        starts.append(job.status.start_time)
    phase, facts, completion = _state(
        job,
        child,
        live,
        ready,
        obstacle,
        reclaimed=reclaimed,
        pods=pods,
        held=held,
        unsuspendable=unsuspendable,
        unwritten=unwritten,
        queued=queued,
    )
    return JobObservation(
        phase=phase,
        ready_pods=ready,
        nodes=nodes,
        restarts=max(status.get("failed", 0) - _count_indexes(status.get("failedIndexes", "")), 0),
        start_time=min(starts, default=None),
        completion_time=completion,
        facts=facts,
    )


def _state(
    job: DLJob,
    child: Mapping[str, Any] | None,
    live: Sequence[Mapping[str, Any]],
    ready: int,
    obstacle: Obstacle | None,
    *,
    reclaimed: bool,
    pods: Sequence[Mapping[str, Any]],
    held: bool,
    unsuspendable: str | None,
    unwritten: str | None,
    queued: Obstacle | None,
) -> tuple[Phase, tuple[Fact, ...], datetime | None]:
    wanted_away = bool(job.spec.suspend) or reclaimed
    if child is None:
        if wanted_away:
            phase = Phase.RECLAIMED if reclaimed else Phase.SUSPENDED
            return phase, (*_running(), *_suspended(still_ending(None, pods), reclaimed=reclaimed)), None
        if obstacle is not None:
            return Phase.PENDING, (*_running(), _not_suspended(), _not_ready(obstacle)), None
        return Phase.PENDING, (*_running(), _not_suspended(), _waiting("Pending", "the Job is not created yet")), None
    if (end := finished(child)) is not None:
        return _ended(end, child, pods)
    if held:
        phase = Phase.RECLAIMED if reclaimed else Phase.SUSPENDED
        obeyed = bool(child["spec"].get("suspend")) or "deletionTimestamp" in child["metadata"]
        left = still_ending(child, pods)
        if unwritten is not None and not wanted_away:
            return phase, (*_running(), *_not_resumed(left, unwritten)), None
        return phase, (*_running(), *_suspended(left, reclaimed=reclaimed, obeyed=obeyed)), None
    if child["spec"].get("suspend"):
        # Not our doing: Kueue, or whoever else manages the Job, will start it.
        why = queued or Obstacle(reason="Queued", message="the Job is suspended by its queue or another manager")
        left = still_ending(child, pods)
        ending = f"; {count(left, 'pod')} of its last run still terminating and holding GPUs" if left else ""
        fact = _waiting(why.reason, f"{why.message}{ending}")
        return Phase.QUEUED, (*_running(), _not_suspended(), fact), None
    suspension = _not_suspended() if unsuspendable is None else _unsuspendable(unsuspendable)
    if unwritten is not None:
        message = f"spec.suspend is true, but {unwritten}" if job.spec.suspend else unwritten
        suspension = Fact(type=ConditionType.SUSPENDED, status=FALSE, reason="JobNotChanged", message=message)
    succeeded = child.get("status", {}).get("succeeded", 0)
    nodes = job.spec.nodes
    if ready + succeeded >= nodes:
        message = f"{ready} of {nodes} pods are ready" + (f", {succeeded} have succeeded" if succeeded else "")
        facts = (Fact(type=ConditionType.PODS_READY, status=TRUE, reason="PodsReady", message=message),)
        return Phase.RUNNING, (*_running(), suspension, *facts), None
    reason = obstacle or next((found for pod in live if (found := pod_status.obstacle(pod)) is not None), None)
    phase = Phase.STARTING if any(pod_status.is_scheduled(pod) for pod in live) else Phase.PENDING
    running = [pod for pod in live if pod_status.was_ready(pod)]
    if reason is None and len(running) + succeeded >= nodes:
        # It does not start again because a probe or a node fails for a while.
        fact = _waiting("PodsNotReady", f"{ready} of {nodes} pods are ready: {_not_ready_words(running)}")
        return Phase.RUNNING, (*_running(), suspension, fact), None
    if ready:
        # Some run and wait for the others: nobody works.
        missing = f": {reason.reason}: {reason.message}" if reason is not None else ""
        fact = _waiting("WaitingForPods", f"{ready} of {nodes} pods are ready and wait for the others{missing}")
    elif reason is not None:
        fact = _not_ready(reason)
    elif phase is Phase.STARTING:
        fact = _waiting("Starting", f"0 of {nodes} pods are ready")
    else:
        fact = _waiting("Pending", f"0 of {nodes} pods have a node")
    return phase, (*_running(), suspension, fact), None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a Job ended."""

    succeeded: bool
    reason: str
    at: datetime | None


def finished(child: Mapping[str, Any]) -> JobEnd | None:
    """Whether the Job has a final condition, and which; None while it may still do something."""
    for condition in child.get("status", {}).get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
            return JobEnd(
                succeeded=condition["type"] == "Complete",
                reason=condition.get("reason") or condition["type"],
                at=pod_status.read_time(condition.get("lastTransitionTime")),
            )
    return None


def is_ending(child: Mapping[str, Any]) -> bool:
    """Whether the Job has been decided upon, though its pods may still be ending: nothing is done to it any more."""
    return any(
        condition["status"] == "True"
        and condition["type"] in {"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"}
        for condition in child.get("status", {}).get("conditions", ())
    )


def _ended(
    end: JobEnd, child: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
) -> tuple[Phase, tuple[Fact, ...], datetime | None]:
    if end.succeeded:
        facts = (
            Fact(type=ConditionType.PODS_READY, status=FALSE, reason="Succeeded", message="the job has succeeded"),
            _not_suspended(),
            Fact(type=ConditionType.COMPLETE, status=TRUE, reason=end.reason, message="the job has succeeded"),
            Fact(type=ConditionType.FAILED, status=FALSE, reason="Succeeded"),
        )
        return Phase.SUCCEEDED, facts, end.at
    return Phase.FAILED, failure(end.reason, _why_failed(end, child, pods)), end.at


def failure(reason: str, message: str) -> tuple[Fact, ...]:
    """The conditions of a job that has failed for good."""
    return (
        Fact(type=ConditionType.PODS_READY, status=FALSE, reason="Failed", message=message),
        _not_suspended(),
        Fact(type=ConditionType.COMPLETE, status=FALSE, reason="Failed"),
        Fact(type=ConditionType.FAILED, status=TRUE, reason=reason, message=message),
    )


def _why_failed(end: JobEnd, child: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> str:
    if end.reason == "DeadlineExceeded":
        return f"the job ran longer than activeDeadlineSeconds ({child['spec'].get('activeDeadlineSeconds')} s)"
    ended = [pod for _, pod in sorted(zip(pod_status.ranks(pods), pods, strict=True), key=itemgetter(0))]
    ended = [pod for pod in ended if pod_status.phase(pod) == "Failed"]
    words = [f"{pod_status.name(pod)}: {how}" for pod in ended if (how := pod_status.exit_words(pod)) is not None]
    what = {
        "FailedIndexes": "a pod failed more often than maxRestarts allows",
        "MaxFailedIndexesExceeded": "a pod failed more often than maxRestarts allows",
        "BackoffLimitExceeded": "its pods failed more often than allowed",
        "PodFailurePolicy": "a pod failed in a way that a restart does not fix",
    }.get(end.reason, "the Job has failed")
    return f"{what} ({'; '.join(words[:3])}{'; ...' if len(words) > 3 else ''})" if words else what


def job_deleted() -> tuple[Fact, ...]:
    """The conditions of a job whose Job somebody else deleted: it is not brought back."""
    return failure("JobDeleted", "the Job was deleted by hand: recreate the DLJob to run it again")


def creation_obstacle(message: str, job_name: str) -> Obstacle:
    """Why the Job controller could not make pods, from the message of its FailedCreate event.

    The message is the API server's and may hold anything that a pod's spec holds, so only the parts with a known form
    are quoted, and who refused it.
    """
    if (quota := re.search(r"(exceeded quota: [^\n]{1,600})", message)) is not None:
        return Obstacle(reason="QuotaExceeded", message=quota[1])
    if (security := re.search(r"(violates PodSecurity [^\n]{1,600})", message)) is not None:
        return Obstacle(reason="PodSecurity", message=security[1])
    what = "the pods can't be created"
    if (webhook := re.search(r'failed calling webhook "([^"]{1,253})"', message)) is not None:
        what = f"{what}: the admission webhook {webhook[1]} does not answer"
    elif (webhook := re.search(r'admission webhook "([^"]{1,253})" denied the request', message)) is not None:
        what = f"{what}: the admission webhook {webhook[1]} refuses them"
    elif (account := re.search(r'(serviceaccount "[^"]{1,253}" not found)', message)) is not None:
        what = f"{what}: {account[1]}"
    return Obstacle(reason="PodsNotCreated", message=f"{what} (see kubectl describe job {job_name})")


def _running() -> tuple[Fact, ...]:
    return (
        Fact(type=ConditionType.COMPLETE, status=FALSE, reason="NotFinished"),
        Fact(type=ConditionType.FAILED, status=FALSE, reason="NotFinished"),
    )


def still_ending(child: Mapping[str, Any] | None, pods: Sequence[Mapping[str, Any]]) -> int:
    """How many pods of a suspended or deleted Job hold their GPUs still. The watch may tell of the pods' end before the
    Job controller does, or after it.
    """
    terminating = (child or {}).get("status", {}).get("terminating") or 0
    return max(sum(not pod_status.is_finished(pod) for pod in pods), terminating)


def _suspended(left: int, *, reclaimed: bool, obeyed: bool = True) -> tuple[Fact, ...]:
    """Suspended is true once the GPUs are free: a terminating pod still holds its own, and while the Job's manager has
    not `obeyed`, more may come.
    """
    reason = "Reclaimed" if reclaimed else "Requested"
    by = "its idle GPUs were reclaimed" if reclaimed else "spec.suspend is true"
    waiting = _waiting("Suspended", f"the job is suspended: {by}")
    if left:
        message = f"{by}; {left} pods are still terminating and hold their GPUs"
        return waiting, Fact(type=ConditionType.SUSPENDED, status=FALSE, reason="Terminating", message=message)
    if not obeyed:
        message = f"{by}; what manages the Job has not suspended it yet"
        return waiting, Fact(type=ConditionType.SUSPENDED, status=FALSE, reason="Terminating", message=message)
    return waiting, Fact(type=ConditionType.SUSPENDED, status=TRUE, reason=reason, message=f"{by}; its GPUs are free")


def _not_resumed(left: int, unwritten: str) -> tuple[Fact, ...]:
    """Of a job that is to run again, and whose Job could not be changed."""
    status = FALSE if left else TRUE
    message = f"the job should run again, but {unwritten}"
    suspended = Fact(type=ConditionType.SUSPENDED, status=status, reason="JobNotChanged", message=message)
    return _waiting("JobNotChanged", message), suspended


def _not_suspended() -> Fact:
    return Fact(type=ConditionType.SUSPENDED, status=FALSE, reason="NotSuspended")


def _unsuspendable(why: str) -> Fact:
    message = f"its Job can't be suspended or resumed: {why}"
    return Fact(type=ConditionType.SUSPENDED, status=FALSE, reason="NotSuspendable", message=message)


def _not_ready_words(running: Sequence[Mapping[str, Any]]) -> str:
    """Which pod is not ready though its trainer runs, and where."""
    late = next(pod for pod in running if not pod_status.is_ready(pod))
    node = late["spec"].get("nodeName", "?")
    return f"pod {pod_status.name(late)} no longer is: its readiness probe fails, or node {node} is not ready"


def _not_ready(obstacle: Obstacle) -> Fact:
    return _waiting(obstacle.reason, obstacle.message)


def _waiting(reason: str, message: str) -> Fact:
    return Fact(type=ConditionType.PODS_READY, status=FALSE, reason=reason, message=message)


def _count_indexes(text: str) -> int:
    """How many indexes `1,3-5` names (the Job's own notation); parts in another notation count as none."""
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = small_number(first), small_number(last or first)
        if start is not None and end is not None:
            total += max(end - start + 1, 0)
    return total
