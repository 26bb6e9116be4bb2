"""A job's objects, as `reclaim.plan` takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.adapters.kubernetes.client import Object
from stoker.api.dljob import DLJob
from stoker.api.names import RESUME_ANNOTATION, SNOOZE_ANNOTATION, SNOOZE_REASON_ANNOTATION
from stoker.findings.finding import Finding
from stoker.reclaim import ActionEffect, Candidate
from stoker.reclaim.snoozing import snooze_words
from stoker.workload import ProgramFacts, job_traits
from stoker.workload import pods as pod_status
from stoker.workload.manifest import controller_uid
from stoker.workload.observation import is_ending, still_ending


def candidate(
    job: DLJob, child: Object, pods: Sequence[Object], findings: Sequence[Finding], program: ProgramFacts
) -> Candidate:
    """What its DLJob, Job, pods and program say of it; whether somebody is there, and what manages the Job, is asked
    elsewhere.
    """
    live = [pod for pod in pods if not pod_status.is_finished(pod)]
    traits = job_traits(job, live)
    starts = [start for pod in live if (start := pod_status.started_at(pod)) is not None]
    return Candidate(
        job_type=traits.job_type,
        gpus=job.gpus,
        job_uid=child["metadata"]["uid"],
        pod_uids=frozenset(pod_status.uid(pod) for pod in live),
        last_start=max(starts) if starts and len(starts) == len(live) else None,
        labels=traits.labels,
        priority_class=traits.priority_class,
        gpu_product=traits.gpu_product,
        findings=tuple(findings),
        idle_after=job.idle_after,
        resume=job.metadata.annotations.get(RESUME_ANNOTATION),
        unsuspended=is_unsuspended(job),
        snooze=job.metadata.annotations.get(SNOOZE_ANNOTATION),
        snooze_reason=snooze_words(job.metadata.annotations.get(SNOOZE_REASON_ANNOTATION)),
        has_persistent_volume=program.has_persistent_volume,
        serves=program.serves,
        offers=program.offers,
        termination_grace=min(map(pod_status.termination_grace, live), default=None),
        untouchable=_untouchable(job, child, program),
    )


def is_unsuspended(job: DLJob) -> bool:
    """Whether spec.suspend was set from true to false since its status was written."""
    return job.status is not None and job.status.observed_suspend is True and not job.spec.suspend


def action_effect(child: Object | None, pods: Sequence[Object], *, held_by_reclaim: bool) -> ActionEffect:
    """What an action has done to the Job and its pods so far, as far as they show."""
    return ActionEffect(
        is_gone=child is None,
        is_deleted=child is None or "deletionTimestamp" in child["metadata"],
        is_suspended=child is not None and bool(child["spec"].get("suspend")),
        is_held_by_reclaim=held_by_reclaim,
        pods_left=still_ending(child, pods),
    )


def is_of(owned: Object, child: Object) -> bool:
    """Whether the Job is the controller of a pod, or of a Workload. Others may name it as an owner."""
    return controller_uid(owned) == str(child["metadata"]["uid"])


def _untouchable(job: DLJob, child: Mapping[str, Any], program: ProgramFacts) -> str | None:
    """Why reclaim must keep its hands off, whatever the numbers say."""
    if job.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if "deletionTimestamp" in child["metadata"]:
        return "its Job is being deleted"
    if is_ending(child):
        return "its Job has ended"
    if job.spec.suspend or child["spec"].get("suspend"):
        return "it is suspended"
    if program.is_unread:
        return "its program was not analysed completely, so it may be a service (see the condition Analysed)"
    return None
