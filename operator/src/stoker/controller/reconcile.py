"""Brings one DLJob's Job and status to where they should be: `Reconciler.reconcile` is one pass over one DLJob.

A pass is a sequence of steps, listed in `Reconciler._steps`. It is level-triggered: whatever the event was, it reads
the present state and does what is missing. A pass may stop anywhere; the next one continues from the state of the
cluster. The work queue calls it for one key at a time (controller/assembly.py).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import (
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
from stoker.api.schema import explain, readable
from stoker.cluster.cache import ClusterCache, Key, key_of
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Requeue, Transient
from stoker.controller.api_refusals import not_changed
from stoker.controller.candidates import action_effect
from stoker.controller.children import Children, NameConflictError, NotCreatedError
from stoker.controller.endings import Endings
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.pending_workloads import PendingWorkloads
from stoker.controller.reclaimer import Reclaimer, owner_response
from stoker.controller.reconcile_pass import Ended, Pass, with_completed_action
from stoker.controller.requeue import AT_ONCE, REFUSED, requeue_after
from stoker.controller.scan_results import ScanResults
from stoker.controller.status_findings import merged, recorded
from stoker.controller.status_writer import StatusWriter
from stoker.controller.suspension import NotSuspendableError, mark_of
from stoker.findings.verdict import Verdict
from stoker.findings.vocabulary import FINAL_PHASES, Action, ConditionType, ReclaimState, ReviewOutcome
from stoker.lint import messages
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import Plan, Record, Resumption, Step, is_done, started_by_hand
from stoker.workload import observe
from stoker.workload.conditions import FALSE, TRUE, Fact
from stoker.workload.observation import BY_RECLAIM, BY_USER, finished
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)

PassStep = Callable[[Pass], Awaitable[Pass | Ended]]


class Reconciler:
    """The handler of the work queue."""

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
        self._cache = cache
        self._scan_results = scan_results
        self._children = children
        self._policies = policies
        self._manifests = manifests
        self._status_writer = status_writer
        self._reclaimer = reclaimer
        self._clock = clock
        self._endings = Endings(api, cache, status_writer, clock)

    async def reconcile(self, key: Key) -> Requeue:
        """One pass over one DLJob; returns when to reconcile it again.

        Raises Transient where the pass is to be repeated with a backoff. Any other exception is an internal error,
        which the DLJob's conditions report.
        """
        raw = self._cache.dljobs.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return None  # the garbage collector deletes what it owns
        try:
            return await self._run(raw)
        except (ConflictError, NotFoundError) as error:
            raise Transient(f"changed meanwhile ({error})") from error
        except (TooLargeError, InvalidError) as error:
            await self._endings.unwritable_status(raw, error)
            return REFUSED
        except ApiError as error:
            raise Transient(str(error)) from error
        except Transient:
            raise
        except Exception as error:
            await self._endings.internal_error(key, error)
            raise

    async def _run(self, raw: Object) -> Requeue:
        """Take the steps in their order, until one ends the pass."""
        current = await self._read(raw)
        for step in self._steps():
            if isinstance(current, Ended):
                return current.requeue
            current = await step(current)
        return current.requeue if isinstance(current, Ended) else requeue_after(current)

    def _steps(self) -> Sequence[PassStep]:
        """All steps after `_read`."""
        return (
            self._keep_final,
            self._refuse_out_of_bounds,
            self._find_child,
            self._take_owner_response,
            self._review_manifest,
            self._end_without_deleted_child,
            self._refuse_denied,
            self._create_child,
            self._gate_suspension,
            self._observe,
            self._plan_reclaim,
            self._publish,
            self._reclaim,
        )

    # -------------------------------------------------------------------------------------------- read and refuse

    async def _read(self, raw: Object) -> Pass | Ended:
        """The pass with what the DLJob itself says. A DLJob that this version can't read is refused."""
        try:
            job = DLJob.model_validate(raw)
        except ValidationError as error:
            await self._endings.refuse_unfit(raw, explain(error))
            return Ended(requeue=None)
        if job.status is not None and job.status.left_out:
            raw = await self._without_unreadable_fields(raw, job.status.left_out)
        written = recorded(job)
        return Pass(
            raw=raw,
            job=job,
            now=self._clock.now(),
            record=Record.from_status(job.status.reclaim if job.status is not None else None),
            written_findings=written,
            known_findings=written,
            policy=self._policies.of(job.namespace),
            scan_result=self._scan_results.get(job.uid),
        )

    async def _without_unreadable_fields(self, raw: Object, left_out: Sequence[str]) -> Object:
        """Remove the fields that another version wrote from the status; this pass writes its own in their place."""
        fields = f"{', '.join(left_out[:5])}{', ...' if len(left_out) > 5 else ''}"
        logger.warning("%s: fields of its status can't be read and are rewritten: %s", key_of(raw), fields)
        _, rest, _ = readable(DLJobStatus, raw["status"])
        return await self._status_writer.write(raw, rest)

    async def _keep_final(self, current: Pass) -> Pass | Ended:
        """A job that is over stays as it is. While its Job runs it is not over, whoever wrote so into its status."""
        if current.job.status is None or current.job.status.phase not in FINAL_PHASES:
            return current
        child = self._children.cached(current.job)
        if child is not None and finished(child) is None:
            return current
        return Ended(requeue=await self._endings.keep_final(current))

    async def _refuse_out_of_bounds(self, current: Pass) -> Pass | Ended:
        """Refuse a DLJob that is too large or too deep before anything is created for it: its status would not fit into
        the API server's store beside it, and no scan would find the job.
        """
        if self._endings.has_job(current.raw) or not (violations := out_of_bounds(current.raw)):
            return current
        await self._endings.refuse_unfit(current.raw, violations)
        return Ended(requeue=AT_ONCE)

    # -------------------------------------------------------------------------------- the owner and the manifest

    async def _find_child(self, current: Pass) -> Pass:
        """Find the Job. After an intent it is read from the API server: the action may be done though its answer was
        lost, and the cache may not have it yet.
        """
        is_intended = current.record.state is ReclaimState.RECLAIMING
        return replace(current, child=await self._children.find(current.job, afresh=is_intended))

    async def _take_owner_response(self, current: Pass) -> Pass:
        """Take the owner's request to resume into the record. It is written before it is acted upon, so a crash in
        between loses nothing.
        """
        job, record = current.job, current.record
        deleted = is_done(record, action_effect(current.child, (), held_by_reclaim=False))
        response = owner_response(job, record, self._clock.now(), deleted=deleted)
        if not response.notices:
            return replace(current, record=response.record)
        return await self._write_resumption(current, response)

    async def _write_resumption(self, current: Pass, response: Resumption) -> Pass:
        fields = {"reclaim": response.record.to_status(), "observedSuspend": bool(current.job.spec.suspend)}
        raw = await self._status_writer.write(current.raw, {**current.raw["status"], **fields})
        await self._status_writer.announce(raw, response.notices)
        return replace(current, raw=raw, job=DLJob.model_validate(raw), record=response.record)

    async def _review_manifest(self, current: Pass) -> Pass:
        """Review the manifest under the present policy. It may take seconds, so the time, the policy and the scan's
        result are read after it.
        """
        verdict, job = await self._manifests.review(current.job), current.job
        current = replace(
            current,
            now=self._clock.now(),
            verdict=verdict,
            manifest_findings=verdict.findings,
            analysed=analysed_condition(verdict),
            policy=self._policies.of(job.namespace),
            scan_result=self._scan_results.get(job.uid),
        )
        if not current.needs_child:
            return current
        return replace(current, known_findings=merged(current.written_findings, verdict.findings, current.now))

    # ----------------------------------------------------------------------------------------------- ensure the Job

    async def _end_without_deleted_child(self, current: Pass) -> Pass | Ended:
        """A Job that was created and is gone is not created again."""
        if current.child is not None or not current.was_created:
            return current
        return Ended(requeue=await self._endings.deleted_child(current))

    async def _refuse_denied(self, current: Pass) -> Pass | Ended:
        """A job that admission would have denied does not run, however it got past admission."""
        verdict = current.verdict
        if not current.needs_child or verdict is None or verdict.outcome is not ReviewOutcome.DENY:
            return current
        await self._endings.denied(current, verdict.denied)
        return Ended(requeue=AT_ONCE)

    async def _create_child(self, current: Pass) -> Pass | Ended:
        """Create the Job, unless the policy holds back what could not be analysed."""
        if not current.needs_child or current.verdict is None:
            return current
        job, obstacle = current.job, not_analysed(self._policies.of(current.job.namespace), current.verdict)
        if obstacle is None:
            try:
                child, warnings = await self._children.create(job)
                return replace(current, child=child, creation_warnings=warnings)
            except NameConflictError as conflict:
                await self._endings.name_conflict(current, str(conflict))
                return Ended(requeue=REFUSED)
            except NotCreatedError as error:
                logger.warning("%s/%s: %s", job.namespace, job.name, error.obstacle.message)
                obstacle = error.obstacle
        if obstacle.is_final:
            await self._endings.failed(current, obstacle)
            return Ended(requeue=AT_ONCE)
        return replace(current, obstacle=obstacle)

    # --------------------------------------------------------------------------------------- gate its suspension

    async def _gate_suspension(self, current: Pass) -> Pass:
        """Suspend or resume the Job as its owner or reclaim asks, and keep its deadline."""
        if not current.is_child_active or current.child is None:
            return current
        current = await self._find_mechanism(current, current.child)
        assert current.child is not None
        try:
            changed = await self._suspend_or_resume(current, current.child)
            return await self._keep_deadline(changed)
        except (ForbiddenError, InvalidError, UnavailableError) as error:
            return self._with_refusal(current, error)

    async def _find_mechanism(self, current: Pass, child: Object) -> Pass:
        """Find out what suspends the Job, where Stoker has suspended it or is to. A reclaimed Job that somebody has
        started by hand is resumed.
        """
        in_reclaim = current.record.state in {ReclaimState.RECLAIMING, ReclaimState.RECLAIMED}
        if not current.job.spec.suspend and not in_reclaim and mark_of(child) is None:
            return current
        try:
            mechanism = await self._children.suspension.mechanism_of(child)
            if current.record.state is not ReclaimState.RECLAIMED or mechanism.is_suspended:
                return replace(current, child=child, mechanism=mechanism)
            # The watch may have reported the status before the Job, so the Job is read from the API server.
            fresh = await self._children.find(current.job, afresh=True)
            if fresh is None:
                raise Transient("its Job is gone")
            mechanism = await self._children.suspension.mechanism_of(fresh)
        except NotSuspendableError as error:
            return replace(current, child=child, unsuspendable=str(error))
        current = replace(current, child=fresh, mechanism=mechanism)
        if mechanism.is_suspended or current.job.spec.suspend:
            return current
        return await self._write_resumption(current, started_by_hand(current.record, current.now))

    async def _suspend_or_resume(self, current: Pass, child: Object) -> Pass:
        """Suspend the Job if asked; resume it only if Stoker has suspended it."""
        job, mechanism, suspension = current.job, current.mechanism, self._children.suspension
        if mechanism is None:
            return current
        reclaimed = current.is_reclaimed
        if job.spec.suspend or reclaimed:
            if not mechanism.is_suspended:
                by = BY_RECLAIM if reclaimed else BY_USER
                child, mechanism = await suspension.suspend(child, mechanism, by)
        elif mechanism.suspended_by is not None:
            child, mechanism = await suspension.resume(child, mechanism)
        elif mark_of(child) is not None and current.record.state is not ReclaimState.RECLAIMING:
            child = await suspension.unmark(child)
        return replace(current, child=child, mechanism=mechanism)

    async def _keep_deadline(self, current: Pass) -> Pass:
        child, deadline = current.child, current.job.spec.active_deadline_seconds
        assert child is not None
        if child["spec"].get("activeDeadlineSeconds") == deadline:
            return current
        return replace(current, child=await self._children.set_deadline(child, deadline))

    def _with_refusal(self, current: Pass, error: ForbiddenError | InvalidError | UnavailableError) -> Pass:
        """The pass with the reason why the Job could not be changed."""
        held = current.mechanism is not None and current.mechanism.suspended_by is not None
        change = "suspended" if current.job.spec.suspend else "resumed" if held else "changed"
        reason = not_changed(error, change)
        logger.warning("%s/%s: %s", current.job.namespace, current.job.name, reason)
        return replace(current, not_changed=reason)

    # ------------------------------------------------------------------------------- observe, plan, publish, act

    async def _observe(self, current: Pass) -> Pass:
        """Read the Job's pods and what holds them back; record a reclaim as done when the last pod has ended."""
        job, child = current.job, current.child
        if child is not None:
            pods = self._cache.pods_of(Key(job.namespace, job.name), child["metadata"]["uid"])
            obstacle, recheck_after = current.obstacle, current.recheck_after
            if obstacle is None and finished(child) is None:
                obstacle, recheck_after = await self._children.obstacle(child, pods)
            current = replace(current, pods=tuple(pods), obstacle=obstacle, recheck_after=recheck_after)
            current = with_completed_action(current)
        seen = observe(
            job,
            child,
            current.pods,
            obstacle=current.obstacle,
            reclaimed=current.is_reclaimed,
            held=current.is_held,
            unsuspendable=current.unsuspendable,
            unwritten=current.not_changed,
            queued=self._pending_workloads.why(child) if child is not None else None,
        )
        return replace(current, seen=seen)

    async def _plan_reclaim(self, current: Pass) -> Pass:
        """Decide about reclaim. Without a Job, and once it is reclaimed, there is nothing to decide."""
        job, child = current.job, current.child
        plan = Plan(record=current.record)
        if child is not None and not current.is_reclaimed:
            findings, record, execution = current.published_findings, current.record, current.execution
            idle = current.scan_result.idleness if current.scan_result is not None else None
            plan = await self._reclaimer.plan(
                job, child, current.pods, findings, idle, record, execution, unsuspendable=current.unsuspendable
            )
        if plan.step is Step.EXAMINE:
            self._scan_results.want(job.uid)
        notices = (*current.notices, *plan.notices)
        return replace(current, planned=plan, record_before_plan=current.record, record=plan.record, notices=notices)

    async def _publish(self, current: Pass) -> Pass:
        """Write the status once, and announce what is new."""
        next_status = current.next_status(current.observation, is_over=current.observation.phase in FINAL_PHASES)
        before, notices = current.written_findings, current.notices
        await self._status_writer.publish(current.raw, next_status, before=before, notices=notices, now=current.now)
        assert current.record_before_plan is not None
        self._reclaimer.wrote(current.job.uid, current.record_before_plan, current.record)
        return current

    async def _reclaim(self, current: Pass) -> Pass | Ended:
        """Carry out the plan's next step, if it is due."""
        plan, uid = current.plan, current.job.uid
        if plan.step is Step.RETRY:
            raise Transient(plan.reason)
        if plan.step is not Step.CHECK_AGAIN:
            return current
        fresh = await self._reclaimer.reclaim(current.job, current.current_findings, current.execution)
        if fresh is None:
            return Ended(requeue=AT_ONCE)
        known = self._scan_results.get(uid)
        if known is not None and known.idleness.observed_at < fresh.observed_at:
            # Else the next pass would warn again because of the scan's result, which is older.
            self._scan_results.put(uid, replace(known, idleness=fresh))
        return Ended(requeue=None)


def analysed_condition(verdict: Verdict) -> Fact:
    """The condition Analysed: whether the manifest was reviewed to its end."""
    shortfall = verdict.not_analysed
    if shortfall is None:
        return Fact(type=ConditionType.ANALYSED, status=TRUE, reason="Analysed")
    words = messages.not_analysed(shortfall)
    message = f"{words[0].upper()}{words[1:]}."
    return Fact(type=ConditionType.ANALYSED, status=FALSE, reason=shortfall.value, message=message)


def not_analysed(policy: EffectivePolicy, verdict: Verdict) -> Obstacle | None:
    """Why a job that could not be reviewed does not run; None where its policy lets such jobs run."""
    analysis, shortfall = policy.analysis, verdict.shortfall
    if shortfall is None or analysis.action(shortfall) is not Action.DENY:
        return None
    message = f"{messages.not_analysed(shortfall)}. The policy's {analysis.field(shortfall)} is Deny."
    return Obstacle(reason="NotAnalysed", message=message)
