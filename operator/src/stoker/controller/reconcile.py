"""Brings one DLJob's children and status to where they should be: gather, decide, act, write the status once.

Level-triggered: whatever the events were, a pass looks at everything and does what is missing. A pass may be cut off
anywhere; the next one goes on from what stands in the cluster.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
    DLJOBS,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    NotFoundError,
    Object,
    TooLargeError,
    UnavailableError,
)
from stoker.api.bounds import out_of_bounds
from stoker.api.dljob import DLJob, DLJobStatus
from stoker.api.schema import Violation, explain, readable
from stoker.cluster.cache import ClusterCache, Key, key_of
from stoker.cluster.faults import described
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Backoff, Requeue, Transient
from stoker.controller.api_refusals import not_changed
from stoker.controller.candidates import action_effect
from stoker.controller.children import Children, NameConflictError, NotCreatedError
from stoker.controller.hysteresis import lasting
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.next_status import NextStatus
from stoker.controller.pending_workloads import PendingWorkloads
from stoker.controller.reclaimer import Reclaimer, owner_response
from stoker.controller.scan_results import ScanResult, ScanResults
from stoker.controller.status_findings import holding, merged, recorded
from stoker.controller.status_writer import StatusWriter
from stoker.controller.suspension import NotSuspendableError, SuspendMechanism, mark_of
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import (
    Action,
    ConditionType,
    Phase,
    ReclaimMode,
    ReclaimState,
    ReviewOutcome,
    Source,
    UnknownReason,
)
from stoker.lint import messages
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import (
    ActionEffect,
    Execution,
    Notice,
    Plan,
    Record,
    Resumption,
    Step,
    completed,
    is_done,
    reclaimed_notice,
    started_by_hand,
    without_job,
)
from stoker.reclaim.action_gates import GRACE_ELAPSED
from stoker.telemetry.series import PodFacts
from stoker.workload import facts_of, observe, remembered
from stoker.workload.conditions import FALSE, TRUE, UNKNOWN, Fact, written
from stoker.workload.manifest import is_ours
from stoker.workload.observation import (
    BY_RECLAIM,
    BY_USER,
    JobObservation,
    failure,
    finished,
    is_ending,
    job_deleted,
)
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)

NOT_CREATED = "JobNotCreated"
INTERNAL_ERROR = UnknownReason.INTERNAL_ERROR.value
FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})
AT_ONCE = 0.0
"""After a step that the next pass goes on from: the watch does not tell of what this process has written itself."""
REFUSED = Backoff(first=5.0, longest=300.0)
"""For what the API server, or a review, refuses: a quota, a webhook, a name that is taken. No watch tells when it would
take it.
"""
UNANSWERED = Backoff(first=1.0, longest=60.0)
"""For what it has not answered, or what cannot be done now to a Job that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass has gathered of a job by now; each step adds to it.

    `before` are the findings as they are written, `known` the same with what review has added. `mechanism` is what
    suspends the Job, read only where Stoker has suspended it or is to, and `unsuspendable` why there is none.
    `unwritten` is why the Job could not be changed as asked, `warned` what the API server warned of at its creation.
    """

    raw: Object
    job: DLJob
    now: datetime
    record: Record
    before: tuple[Finding, ...]
    known: tuple[Finding, ...]
    static: tuple[Finding, ...] = ()
    analysed: Fact | None = None
    policy: EffectivePolicy
    scan_result: ScanResult | None = None
    child: Object | None = None
    mechanism: SuspendMechanism | None = None
    unsuspendable: str | None = None
    unwritten: str | None = None
    warned: str = ""
    pods: tuple[Object, ...] = ()
    obstacle: Obstacle | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def found(self) -> tuple[Finding, ...]:
        """What holds at this moment: nothing is taken back for anything else."""
        return self._merged(self._shown)

    @property
    def told(self) -> tuple[Finding, ...]:
        """What the status says, and what warnings rest on: what was open stays open until it was away for a while."""
        shown = self._shown
        if shown is not None and self.scan_result is not None:
            shown = lasting(filter(self._counts, self.known), shown, self.scan_result.showings)
        return self._merged(shown)

    def _merged(self, shown: Sequence[Finding] | None) -> tuple[Finding, ...]:
        diagnosis = self.scan_result.diagnosis if self.scan_result is not None else None
        used = diagnosis.utilization if diagnosis is not None else None
        idle = used.gpu_hours_idle if used is not None else None
        return merged(self.known, holding(self.known, shown, self.static), self.now, idle=idle)

    @property
    def execution(self) -> Execution:
        """What this process knows of the job's examinations: they end with it."""
        diagnosis = self.scan_result.diagnosis if self.scan_result is not None else None
        if diagnosis is None:
            return Execution()
        if diagnosis.unknown is not None:
            return Execution(is_examination_incomplete=True, examination_gap=diagnosis.gap)
        used = diagnosis.utilization
        return Execution(examination_age=self.now - used.as_of if used is not None else None)

    @property
    def effect(self) -> ActionEffect:
        """What reclaim has done to the Job and its pods."""
        held = self.mechanism is not None and self.mechanism.suspended_by == BY_RECLAIM
        return action_effect(self.child, self.pods, held_by_reclaim=held)

    @property
    def is_reclaimed(self) -> bool:
        """Whether reclaim has taken the job's pods away, which may still be ending."""
        return is_done(self.record, self.effect)

    @property
    def is_held(self) -> bool:
        """Whether Stoker keeps the Job's pods away; where that can't be read, by the mark on a Job that has none."""
        if self.child is None or self.is_reclaimed:
            return self.child is not None
        if self.unsuspendable is not None:
            return bool(self.child["spec"].get("suspend")) and mark_of(self.child) is not None
        return self.mechanism is not None and self.mechanism.suspended_by is not None

    @property
    def _shown(self) -> tuple[Finding, ...] | None:
        """What the last examination found, under the policy of now; None without one. Of a job whose pods reclaim has
        taken away none says anything: what it was taken for stands until it runs again.
        """
        diagnosis = self.scan_result.diagnosis if self.scan_result is not None else None
        if diagnosis is None or diagnosis.unknown is not None or self._is_suspended_by_reclaim:
            return None
        return tuple(filter(self._counts, diagnosis.findings))

    @property
    def _is_suspended_by_reclaim(self) -> bool:
        return self.child is not None and self.is_reclaimed

    def _counts(self, finding: Finding) -> bool:
        return self.policy.action(finding.rule, Action.WARN) is not Action.OFF

    @property
    def runs(self) -> tuple[PodFacts, ...]:
        """The runs of the job's pods, those included whose pods are gone."""
        return remembered(self.job, facts_of(self.pods, self.job.spec.gpu_resource), self.child, self.now)


def _analysed(verdict: Verdict) -> Fact:
    """Whether the manifest was judged to its end; jobs of which that can't be said are listed by it."""
    shortfall = verdict.not_analysed
    if shortfall is None:
        return Fact(type=ConditionType.ANALYSED, status=TRUE, reason="Analysed")
    said = messages.not_analysed(shortfall)
    message = f"{said[0].upper()}{said[1:]}."
    return Fact(type=ConditionType.ANALYSED, status=FALSE, reason=shortfall.value, message=message)


class Reconciler:
    """The handler of the work queue: `reconcile` is called for one key at a time."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ClusterCache,
        scan_results: ScanResults,
        children: Children,
        policies: Policies,
        manifests: ManifestCache,
        status_writer: StatusWriter,
        reclaimer: Reclaimer,
        pending_workloads: PendingWorkloads,
        clock: Clock,
    ) -> None:
        self._pending_workloads = pending_workloads
        self._api = api
        self._cache = cache
        self._scan_results = scan_results
        self._children = children
        self._policies = policies
        self._manifests = manifests
        self._status_writer = status_writer
        self._reclaimer = reclaimer
        self._clock = clock

    async def reconcile(self, key: Key) -> Requeue:
        """One pass over one DLJob; returns after how many seconds to look again. Raises Transient to be tried again, or
        whatever a fault of ours raises, which the DLJob's status tells of.
        """
        raw = self._cache.dljobs.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            # What it owns is the garbage collector's.
            return None
        try:
            try:
                job = DLJob.model_validate(raw)
            except ValidationError as error:
                await self._refuse_unfit(raw, explain(error))
                return None
            if job.status is not None and job.status.left_out:
                raw = await self._write_readable(raw, job.status.left_out)
            if job.status is not None and job.status.phase in FINAL:
                return await self._keep_final(raw, job)
            if not self._has_job(raw) and (wrong := out_of_bounds(raw)):
                # Before anything is made of it, or its status does not fit beside it and its job escapes every look.
                await self._refuse_unfit(raw, wrong)
                return AT_ONCE
            return await self._drive(raw, job)
        except (ConflictError, NotFoundError) as error:
            raise Transient(f"changed meanwhile ({error})") from error
        except (TooLargeError, InvalidError) as error:
            await self._tell_unwritable(raw, error)
            return REFUSED
        except ApiError as error:
            raise Transient(str(error)) from error
        except Transient:
            raise
        except Exception as error:
            await self._tell_fault(key, error)
            raise

    async def _write_readable(self, raw: Object, left_out: Sequence[str]) -> Object:
        """Write a status without what this version can't read, which another version wrote; the pass writes it anew."""
        fields = f"{', '.join(left_out[:5])}{', ...' if len(left_out) > 5 else ''}"
        logger.warning("%s: fields of its status can't be read and are rewritten: %s", key_of(raw), fields)
        _, rest, _ = readable(DLJobStatus, raw["status"])
        return await self._status_writer.write(raw, rest)

    async def _tell_unwritable(self, raw: Object, error: ApiError) -> None:
        """Tell of a DLJob whose status does not fit into the API server's store beside it, or is not valid with it."""
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

    async def _tell_fault(self, key: Key, error: Exception) -> None:
        """Say in the status that the pass has failed, by a fault of ours; whoever called logs it."""
        try:
            raw = self._cache.dljobs.get(key)
            if raw is None:
                return
            status, generation = raw.get("status", {}), raw["metadata"].get("generation", 0)
            message = f"Stoker fails to reconcile this job ({described(error)}); see the controller's log"
            kinds = (ConditionType.PODS_READY, ConditionType.IDLE)
            facts = [Fact(type=one, status=UNKNOWN, reason=INTERNAL_ERROR, message=message) for one in kinds]
            conditions = written(facts, status.get("conditions", ()), generation=generation, now=self._clock.now())
            fields = {"phase": status.get("phase", Phase.PENDING.value), "conditions": conditions}
            await self._status_writer.write(raw, {**status, **fields})
        except Exception as also:
            logger.warning("%s: its status can't be written either: %s", key, described(also))

    # ------------------------------------------------------------------------------------------ a job that is not over

    async def _drive(self, raw: Object, job: DLJob) -> Requeue:
        record = Record.from_status(job.status.reclaim if job.status is not None else None)
        # After an intent the action may be done though its answer was lost, and the watch may not have told of it yet.
        child = await self._children.find(job, afresh=record.state is ReclaimState.RECLAIMING)
        raw, job, record = await self._take_response(raw, job, record, child)
        verdict = await self._manifests.review(job)
        before = recorded(job)
        this = Pass(
            raw=raw,
            job=job,
            now=self._clock.now(),
            record=record,
            before=before,
            known=before,
            static=verdict.findings,
            analysed=_analysed(verdict),
            policy=self._policies.of(job.namespace),
            scan_result=self._scan_results.get(job.uid),
            child=child,
        )
        if child is None and job.status is not None and job.status.job_uid is not None:
            return await self._without_child(this)
        if child is None and not job.spec.suspend:
            this = replace(this, known=merged(before, verdict.findings, this.now))
            if verdict.outcome is ReviewOutcome.DENY:
                await self._refuse(this, verdict.denied)
                return AT_ONCE
            this = replace(this, obstacle=self._not_analysed(job, verdict))
            try:
                if this.obstacle is None:
                    child, warned = await self._children.create(job)
                    this = replace(this, child=child, warned=warned)
            except NameConflictError as conflict:
                await self._wait_for_name(this, str(conflict))
                return REFUSED
            except NotCreatedError as error:
                logger.warning("%s/%s: %s", job.namespace, job.name, error.obstacle.message)
                this = replace(this, obstacle=error.obstacle)
            if this.obstacle is not None and this.obstacle.is_final:
                await self._fail(this, this.obstacle)
                return AT_ONCE
        if this.child is not None and not is_ending(this.child) and "deletionTimestamp" not in this.child["metadata"]:
            this = await self._with_mechanism(this, this.child)
            try:
                this = await self._synchronize(this)
            except (ForbiddenError, InvalidError, UnavailableError) as error:
                off = this.mechanism is not None and this.mechanism.suspended_by is not None
                unwritten = not_changed(error, "suspended" if job.spec.suspend else "resumed" if off else "changed")
                logger.warning("%s/%s: %s", job.namespace, job.name, unwritten)
                this = replace(this, unwritten=unwritten)
        return await self._conclude(this)

    def _not_analysed(self, job: DLJob, verdict: Verdict) -> Obstacle | None:
        """Holds a job back that nobody could judge, where the policy says that such jobs don't run."""
        analysis, shortfall = self._policies.of(job.namespace).analysis, verdict.shortfall
        if shortfall is None or analysis.action(shortfall) is not Action.DENY:
            return None
        message = f"{messages.not_analysed(shortfall)}. The policy's {analysis.field(shortfall)} is Deny."
        return Obstacle(reason="NotAnalysed", message=message)

    async def _take_response(
        self, raw: Object, job: DLJob, record: Record, child: Object | None
    ) -> tuple[Object, DLJob, Record]:
        """Take the owner's response, to resume. It is written down before it is acted upon: a crash in between changes
        nothing.
        """
        deleted = is_done(record, action_effect(child, (), held_by_reclaim=False))
        response = owner_response(job, record, self._clock.now(), deleted=deleted)
        if response.notices:
            raw, job = await self._resumed(raw, job, response)
        return raw, job, response.record

    async def _resumed(self, raw: Object, job: DLJob, response: Resumption) -> tuple[Object, DLJob]:
        fields = {"reclaim": response.record.to_status(), "observedSuspend": bool(job.spec.suspend)}
        raw = await self._status_writer.write(raw, {**raw["status"], **fields})
        await self._status_writer.announce(raw, response.notices)
        return raw, DLJob.model_validate(raw)

    async def _with_mechanism(self, this: Pass, child: Object) -> Pass:
        """Find out who holds the Job's pods away, where Stoker does or is to. A reclaimed Job that somebody has started
        past it is resumed.
        """
        on_the_way = this.record.state in {ReclaimState.RECLAIMING, ReclaimState.RECLAIMED}
        if not this.job.spec.suspend and not on_the_way and mark_of(child) is None:
            return this
        try:
            mechanism = await self._children.suspension.mechanism_of(child)
            if this.record.state is not ReclaimState.RECLAIMED or mechanism.is_suspended:
                return replace(this, child=child, mechanism=mechanism)
            # A watch may tell of the status before it tells of the Job.
            fresh = await self._children.find(this.job, afresh=True)
            if fresh is None:
                raise Transient("its Job is gone")
            mechanism = await self._children.suspension.mechanism_of(fresh)
        except NotSuspendableError as none:
            return replace(this, child=child, unsuspendable=str(none))
        this = replace(this, child=fresh, mechanism=mechanism)
        if mechanism.is_suspended or this.job.spec.suspend:
            return this
        response = started_by_hand(this.record, this.now)
        raw, job = await self._resumed(this.raw, this.job, response)
        return replace(this, raw=raw, job=job, record=response.record)

    async def _synchronize(self, this: Pass) -> Pass:
        """Suspend or resume the Job as asked, and only where nobody else does that; keep its deadline."""
        job, child, mechanism = this.job, this.child, this.mechanism
        assert child is not None  # of no other there is anything to synchronize
        reclaimed = this.is_reclaimed
        if mechanism is not None:
            if job.spec.suspend or reclaimed:
                if not mechanism.is_suspended:
                    by = BY_RECLAIM if reclaimed else BY_USER
                    child, mechanism = await self._children.suspension.suspend(child, mechanism, by)
            elif mechanism.suspended_by is not None:
                child, mechanism = await self._children.suspension.resume(child, mechanism)
            elif mark_of(child) is not None and this.record.state is not ReclaimState.RECLAIMING:
                child = await self._children.suspension.unmark(child)
        if child["spec"].get("activeDeadlineSeconds") != job.spec.active_deadline_seconds:
            child = await self._children.set_deadline(child, job.spec.active_deadline_seconds)
        return replace(this, child=child, mechanism=mechanism)

    async def _conclude(self, this: Pass) -> Requeue:
        """Observe, decide about reclaim, write."""
        job, child, obstacle = this.job, this.child, this.obstacle
        again: float | None = None
        if child is not None:
            pods = self._cache.pods_of(Key(job.namespace, job.name), child["metadata"]["uid"])
            if obstacle is None and finished(child) is None:
                obstacle, again = await self._children.obstacle(child, pods)
            this = _after_action(replace(this, pods=tuple(pods), obstacle=obstacle))
        reclaimed = this.is_reclaimed
        seen = observe(
            job,
            child,
            this.pods,
            obstacle=obstacle,
            reclaimed=reclaimed,
            held=this.is_held,
            unsuspendable=this.unsuspendable,
            unwritten=this.unwritten,
            queued=self._pending_workloads.why(child) if child is not None else None,
        )
        next_plan = Plan(record=this.record)
        if child is not None and not reclaimed:
            idle = this.scan_result.idleness if this.scan_result is not None else None
            next_plan = await self._reclaimer.plan(
                job, child, this.pods, this.told, idle, this.record, this.execution, unsuspendable=this.unsuspendable
            )
        before = this.record
        this = replace(this, record=next_plan.record, notices=(*this.notices, *next_plan.notices))
        if next_plan.step is Step.EXAMINE:
            self._scan_results.want(job.uid)
        await self._publish(this, seen, is_over=seen.phase in FINAL)
        self._reclaimer.wrote(job.uid, before, next_plan.record)
        if next_plan.step is Step.RETRY:
            raise Transient(next_plan.reason)
        if next_plan.step is Step.CHECK_AGAIN:
            seen_last = await self._reclaimer.reclaim(job, this.found, this.execution)
            if seen_last is None:
                return AT_ONCE
            known = self._scan_results.get(job.uid)
            if known is not None and known.idleness.observed_at < seen_last.observed_at:
                # Or the next pass would warn anew by the scan's look, which is older.
                self._scan_results.put(job.uid, replace(known, idleness=seen_last))
            return None
        again = _soonest(_look_again(next_plan, seen, this.now), again)
        again = _soonest(again, _seconds_to(this.policy.next_expiry(this.now), this.now))
        if child is None and obstacle is not None:
            return _not_after(UNANSWERED if obstacle.reason == NOT_CREATED else REFUSED, again)
        if this.unsuspendable is not None or this.unwritten is not None:
            return _not_after(UNANSWERED, again)
        return again

    async def _publish(
        self, this: Pass, seen: JobObservation, *, conflict: str | None = None, is_over: bool = False
    ) -> Object:
        """Write where the job stands, and tell of what is new."""
        draft = NextStatus(
            job=this.job,
            observation=seen,
            findings=this.found if is_over else this.told,
            record=this.record,
            policy=this.policy,
            child_uid=this.child["metadata"]["uid"] if this.child is not None else None,
            scan_result=this.scan_result,
            conflict=conflict,
            analysed=this.analysed,
            warned=this.warned,
            runs=this.runs,
            is_over=is_over,
        )
        return await self._status_writer.publish(
            this.raw, draft, before=this.before, notices=this.notices, now=this.now
        )

    # ------------------------------------------------------------------------------------------------ endings

    async def _without_child(self, this: Pass) -> float | None:
        """A Job was created and is no more: reclaim deleted it, or somebody else did. It is not brought back."""
        job, record = this.job, this.record
        if record.action is ReclaimMode.DELETE and record.state in {ReclaimState.RECLAIMING, ReclaimState.RECLAIMED}:
            pods = self._cache.pods_of(Key(job.namespace, job.name), (job.status.job_uid if job.status else None) or "")
            this = _after_action(replace(this, pods=tuple(pods)))
            seen = observe(job, None, this.pods, reclaimed=True)
            if this.record.state is ReclaimState.RECLAIMED and this.record.reclaimed_at is not None:
                # Of what is over the final examination counts, and its manifest's findings stay.
                final = replace(this, now=this.record.reclaimed_at, static=_unmeasured(this.before))
                await self._publish(final, seen, is_over=True)
                return None
        else:
            this = replace(this, record=without_job(record))
            seen = _failed(job, job_deleted(), this.now)
        await self._publish(_without_news(this), seen)
        return _look_again(Plan(record=this.record), seen, this.now)

    async def _refuse(self, this: Pass, denied: Sequence[Finding]) -> None:
        """What admission would have denied does not run, however it came past admission."""
        first = denied[0]
        where = f"{first.location}: " if first.location is not None else ""
        more = f" (and {len(denied) - 1} more)" if len(denied) > 1 else ""
        message = f"{where}{first.detail} ({first.rule}){more}"
        raw = await self._publish(_without_news(this), _failed(this.job, failure("Refused", message), this.now))
        note = f"The job is not run: {message}. {first.fix}"
        await self._status_writer.record(raw, "Warning", "Refused", note, rule=first.rule, episode="creation")

    async def _fail(self, this: Pass, obstacle: Obstacle) -> None:
        """What can't become a Job, whatever else changes, is over."""
        failed = _failed(this.job, failure(obstacle.reason, obstacle.message), this.now)
        await self._publish(_without_news(this), failed)

    def _has_job(self, raw: Object) -> bool:
        """Whether a Job was made for a DLJob, as far as its status and the watch tell."""
        child = self._cache.jobs.get(key_of(raw))
        return bool(raw.get("status", {}).get("jobUID")) or (
            child is not None and is_ours(child, raw["metadata"]["uid"])
        )

    async def _refuse_unfit(self, raw: Object, faults: Sequence[Violation]) -> None:
        """A DLJob that the API server accepted and that this version can't read, or that is too deep or too large. One
        that runs is left as it is.
        """
        status = raw.get("status", {})
        message = "; ".join(str(violation) for violation in faults[:5])
        logger.warning("%s is not valid: %s", key_of(raw), message)
        if self._has_job(raw) or status.get("phase") in FINAL:
            return
        now = self._clock.now()
        generation = raw["metadata"]["generation"]
        fields = {"phase": Phase.FAILED.value, "observedGeneration": generation, "completionTime": rfc3339(now)}
        facts = failure("Refused", message)
        conditions = written(facts, status.get("conditions", ()), generation=generation, now=now)
        await self._status_writer.write(raw, {**status, **fields, "conditions": conditions})

    async def _wait_for_name(self, this: Pass, conflict: str) -> None:
        seen = observe(this.job, None, (), obstacle=Obstacle(reason="NameConflict", message=conflict))
        await self._publish(_without_news(this), seen, conflict=conflict)

    async def _keep_final(self, raw: Object, job: DLJob) -> float | None:
        """A job that is over: its end stays, its conditions follow its generation, its time to live runs out."""
        assert job.status is not None
        now = self._clock.now()
        ttl, end = job.spec.ttl_seconds_after_finished, job.status.completion_time
        left = None if ttl is None or end is None else (end + timedelta(seconds=ttl) - now).total_seconds()
        if left is not None and left <= 0:
            metadata = raw["metadata"]
            version = metadata["resourceVersion"]
            await self._api.delete(DLJOBS, job.namespace, job.name, uid=metadata["uid"], resource_version=version)
            return None
        key, before = Key(job.namespace, job.name), recorded(job)
        this = Pass(
            raw=raw,
            job=job,
            # Nothing of it has run longer.
            now=now if end is None else end,
            record=Record.from_status(job.status.reclaim),
            before=before,
            known=before,
            # What its manifest was found guilty of at the end stays, whatever policies come later.
            static=_unmeasured(before),
            policy=self._policies.of(job.namespace),
            scan_result=self._scan_results.get(job.uid),
            child=self._cache.jobs.get(key),
            pods=tuple(self._cache.pods_of(key, job.status.job_uid or "")),
        )
        seen = JobObservation(
            phase=job.status.phase or Phase.FAILED,
            ready_pods=job.status.ready_pods or 0,
            nodes=job.spec.nodes,
            restarts=job.status.restarts or 0,
            start_time=job.status.start_time,
            completion_time=end,
            facts=(),
        )
        await self._publish(this, seen, is_over=True)
        return left


def _after_action(this: Pass) -> Pass:
    """Where a reclaimed job's pods are gone, that is recorded and told."""
    job, record = this.job, completed(this.record, this.effect, this.now)
    told: tuple[Notice, ...] = ()
    if record.state is not this.record.state:
        told = (reclaimed_notice(record, namespace=job.namespace, name=job.name, gpus=job.gpus),)
    return replace(this, record=record, notices=(*this.notices, *told))


def _without_news(this: Pass) -> Pass:
    """A pass over a job without a Job: the findings stand as they are known, whatever was looked at before."""
    return replace(this, before=this.known, static=_unmeasured(this.known), scan_result=None)


def _unmeasured(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings that no metrics have shown."""
    return tuple(finding for finding in findings if Source.METRICS not in finding.sources)


def _look_again(planned: Plan, seen: JobObservation, now: datetime) -> float | None:
    if seen.phase in FINAL:
        return AT_ONCE
    if planned.gate == GRACE_ELAPSED.name:
        return _seconds_to(planned.until, now)
    if planned.record.state is ReclaimState.WARNED:
        return _seconds_to(planned.record.deadline, now)
    return None


def _seconds_to(time: datetime | None, now: datetime) -> float | None:
    """Seconds to a time that is to come."""
    return (time - now).total_seconds() if time is not None and time > now else None


def _soonest(*delays: float | None) -> float | None:
    return min((delay for delay in delays if delay is not None), default=None)


def _not_after(backoff: Backoff, delay: float | None) -> Backoff:
    """The backoff, where something is to be done after `delay` at the latest."""
    return backoff if delay is None else replace(backoff, longest=min(backoff.longest, delay))


def _failed(job: DLJob, facts: Sequence[Fact], now: datetime) -> JobObservation:
    """A job that is over without a Job to tell how."""
    known = job.status
    return JobObservation(
        phase=Phase.FAILED,
        ready_pods=0,
        nodes=job.spec.nodes,
        restarts=(known.restarts if known is not None else None) or 0,
        start_time=known.start_time if known is not None else None,
        completion_time=now,
        facts=tuple(facts),
    )
