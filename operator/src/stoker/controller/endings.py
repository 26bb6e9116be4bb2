"""The passes of reconcile that end early: for a job that is over, that may not run, or whose Job is gone.

Each method writes the job's status; `Reconciler` says when the job is reconciled again. Used by reconcile.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import DLJOBS, ApiError, KubernetesApi, Object, TooLargeError
from stoker.api.dljob import DLJob
from stoker.api.schema import Violation
from stoker.cluster.cache import ClusterCache, Key, key_of
from stoker.cluster.faults import described
from stoker.controller.reconcile_pass import Pass, unmeasured, with_completed_action, without_examination
from stoker.controller.requeue import after_plan
from stoker.controller.status_writer import StatusWriter
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import FINAL_PHASES, ConditionType, Phase, ReclaimMode, ReclaimState, UnknownReason
from stoker.reclaim import Plan, without_job
from stoker.workload.conditions import UNKNOWN, Fact, written
from stoker.workload.manifest import is_ours
from stoker.workload.observation import JobObservation, failure, job_deleted, observe
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)


class Endings:
    """Writes the status of a job for which the remaining steps of a pass don't apply."""

    def __init__(self, api: KubernetesApi, cache: ClusterCache, status_writer: StatusWriter, clock: Clock) -> None:
        self._api = api
        self._cache = cache
        self._status_writer = status_writer
        self._clock = clock

    # --------------------------------------------------------------------------------------- before the job is read

    def has_job(self, raw: Object) -> bool:
        """Whether a Job was created for a DLJob, as far as its status and the cache show."""
        child = self._cache.jobs.get(key_of(raw))
        return bool(raw.get("status", {}).get("jobUID")) or (
            child is not None and is_ours(child, raw["metadata"]["uid"])
        )

    async def refuse_unfit(self, raw: Object, violations: Sequence[Violation]) -> None:
        """Fail a DLJob that the API server accepted and that this version can't read, or that is too deep or too
        large. One that has a Job is left as it is.
        """
        status = raw.get("status", {})
        message = "; ".join(str(violation) for violation in violations[:5])
        logger.warning("%s is not valid: %s", key_of(raw), message)
        if self.has_job(raw) or status.get("phase") in FINAL_PHASES:
            return
        now = self._clock.now()
        generation = raw["metadata"]["generation"]
        fields = {"phase": Phase.FAILED.value, "observedGeneration": generation, "completionTime": rfc3339(now)}
        facts = failure("Refused", message)
        conditions = written(facts, status.get("conditions", ()), generation=generation, now=now)
        await self._status_writer.write(raw, {**status, **fields, "conditions": conditions})

    async def keep_final(self, current: Pass) -> float | None:
        """Keep the end of a job that is over, update its conditions, and delete it when its time to live has passed.
        Returns the seconds until then.
        """
        job = current.job
        assert job.status is not None
        ttl, end = job.spec.ttl_seconds_after_finished, job.status.completion_time
        left = None if ttl is None or end is None else (end + timedelta(seconds=ttl) - current.now).total_seconds()
        if left is not None and left <= 0:
            metadata = current.raw["metadata"]
            version = metadata["resourceVersion"]
            await self._api.delete(DLJOBS, job.namespace, job.name, uid=metadata["uid"], resource_version=version)
            return None
        key = Key(job.namespace, job.name)
        final = replace(
            current,
            # No run of the job is longer than to its end.
            now=current.now if end is None else end,
            # The findings of its manifest stay as they were at the end, whatever policies say later.
            manifest_findings=unmeasured(current.written_findings),
            child=self._cache.jobs.get(key),
            pods=tuple(self._cache.pods_of(key, job.status.job_uid or "")),
        )
        await self._publish(final, final_observation(job), is_over=True)
        return left

    # -------------------------------------------------------------------------------------------- without a Job

    async def deleted_child(self, current: Pass) -> float | None:
        """Write the status of a job whose Job existed and is gone. A job that reclaim deleted is Reclaimed; any other
        one is Failed. The Job is not created again. Returns the seconds until the next pass.
        """
        job, record = current.job, current.record
        if record.action is ReclaimMode.DELETE and record.state in {ReclaimState.RECLAIMING, ReclaimState.RECLAIMED}:
            uid = (job.status.job_uid if job.status else None) or ""
            pods = self._cache.pods_of(Key(job.namespace, job.name), uid)
            current = with_completed_action(replace(current, pods=tuple(pods)))
            seen = observe(job, None, current.pods, reclaimed=True)
            if current.record.state is ReclaimState.RECLAIMED and current.record.reclaimed_at is not None:
                # Such a job is over: its final examination counts, and the findings of its manifest stay.
                kept = unmeasured(current.written_findings)
                final = replace(current, now=current.record.reclaimed_at, manifest_findings=kept)
                await self._publish(final, seen, is_over=True)
                return None
        else:
            current = replace(current, record=without_job(record))
            seen = failed_observation(job, job_deleted(), current.now)
        await self._publish(without_examination(current), seen)
        return after_plan(Plan(record=current.record), seen, current.now)

    async def denied(self, current: Pass, findings: Sequence[Finding]) -> None:
        """Fail a job that admission would have denied and that was created without asking admission."""
        first = findings[0]
        where = f"{first.location}: " if first.location is not None else ""
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        message = f"{where}{first.detail} ({first.rule}){more}"
        facts = failure("Refused", message)
        failed = failed_observation(current.job, facts, current.now)
        raw = await self._publish(without_examination(current), failed)
        note = f"The job is not run: {message}. {first.fix}"
        await self._status_writer.record(raw, "Warning", "Refused", note, rule=first.rule, episode="creation")

    async def failed(self, current: Pass, obstacle: Obstacle) -> None:
        """Fail a job whose manifest can never become a Job."""
        facts = failure(obstacle.reason, obstacle.message)
        await self._publish(without_examination(current), failed_observation(current.job, facts, current.now))

    async def name_conflict(self, current: Pass, conflict: str) -> None:
        """Report that the name of the job's Job is in use; the Job is created when it is free."""
        seen = observe(current.job, None, (), obstacle=Obstacle(reason="NameConflict", message=conflict))
        await self._publish(without_examination(current), seen, conflict=conflict)

    # ----------------------------------------------------------------------------------------------- after errors

    async def unwritable_status(self, raw: Object, error: ApiError) -> None:
        """Report by an event that the API server refuses the status: the object is too large with it, or invalid."""
        logger.warning("%s: its status can't be written: %s", key_of(raw), error)
        if isinstance(error, TooLargeError):
            reason, why = "StatusTooLarge", "the object is too large for the API server's store"
            remedy = "Make its annotations or spec.podTemplate smaller."
        else:
            reason, why = "StatusRefused", "the API server rejects the object as invalid"
            remedy = "Check spec.podTemplate, or recreate the DLJob."
        note = (
            f"The status of this DLJob can't be written: {why}. Its job is not started; one that runs is not "
            f"managed. {remedy}"
        )
        await self._status_writer.record(raw, "Warning", reason, note, rule="status", episode=reason)

    async def internal_error(self, key: Key, error: Exception) -> None:
        """Write into the conditions that the pass has failed because of an internal error. The work queue logs it."""
        try:
            raw = self._cache.dljobs.get(key)
            if raw is None:
                return
            status, generation = raw.get("status", {}), raw["metadata"].get("generation", 0)
            message = f"Stoker fails to reconcile this job ({described(error)}); see the controller's log"
            kinds, reason = (ConditionType.PODS_READY, ConditionType.IDLE), UnknownReason.INTERNAL_ERROR.value
            facts = [Fact(type=kind, status=UNKNOWN, reason=reason, message=message) for kind in kinds]
            conditions = written(facts, status.get("conditions", ()), generation=generation, now=self._clock.now())
            fields = {"phase": status.get("phase", Phase.PENDING.value), "conditions": conditions}
            await self._status_writer.write(raw, {**status, **fields})
        except Exception as second:
            logger.warning("%s: its status can't be written either: %s", key, described(second))

    async def _publish(
        self, current: Pass, seen: JobObservation, *, conflict: str | None = None, is_over: bool = False
    ) -> Object:
        next_status = current.next_status(seen, conflict=conflict, is_over=is_over)
        before, notices = current.written_findings, current.notices
        return await self._status_writer.publish(
            current.raw, next_status, before=before, notices=notices, now=current.now
        )


def final_observation(job: DLJob) -> JobObservation:
    """What the status of a job that is over says, as an observation."""
    status = job.status
    assert status is not None
    return JobObservation(
        phase=status.phase or Phase.FAILED,
        ready_pods=status.ready_pods or 0,
        nodes=job.spec.nodes,
        restarts=status.restarts or 0,
        start_time=status.start_time,
        completion_time=status.completion_time,
        facts=(),
    )


def failed_observation(job: DLJob, facts: Sequence[Fact], now: datetime) -> JobObservation:
    """The observation of a job that has failed at `now` and has no Job; `facts` are its conditions."""
    status = job.status
    return JobObservation(
        phase=Phase.FAILED,
        ready_pods=0,
        nodes=job.spec.nodes,
        restarts=(status.restarts if status is not None else None) or 0,
        start_time=status.start_time if status is not None else None,
        completion_time=now,
        facts=tuple(facts),
    )
