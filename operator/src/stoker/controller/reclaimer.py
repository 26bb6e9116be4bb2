"""Reads what a plan for a job is made from (reclaim.Case), and carries out the plan (reclaim.Plan)."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, PODS, KubernetesApi, Object
from stoker.api.dljob import DLJob
from stoker.api.names import RESUME_ANNOTATION
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Transient
from stoker.controller.candidates import candidate as candidate_of
from stoker.controller.candidates import is_of, is_unsuspended
from stoker.controller.children import Children
from stoker.controller.decision import about
from stoker.controller.grace_periods import WarningAges
from stoker.controller.manifest_cache import ManifestCache
from stoker.controller.presence import PresenceQuery
from stoker.controller.status_findings import recorded
from stoker.controller.status_writer import StatusWriter
from stoker.controller.suspension import NotSuspendableError, SuspendMechanism
from stoker.diagnosis.idleness import idleness, screen_request
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, ReclaimMode, UnknownReason
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import (
    ACTS,
    FACTS,
    Candidate,
    Case,
    Constraints,
    Execution,
    Plan,
    Presence,
    Record,
    Resumption,
    Step,
    idle_after,
    plan,
    resumed,
)
from stoker.telemetry.screen import MetricsSource, MetricsUnavailable
from stoker.workload import job_facts
from stoker.workload import pods as pod_status
from stoker.workload.manifest import DLJOB_LABEL
from stoker.workload.observation import BY_RECLAIM

logger = logging.getLogger(__name__)


METRICS_TIMEOUT = 20.0
"""Seconds that reading the metrics afresh before an action may take."""


class PresenceReader(Protocol):
    """Finds out whether a person works in a job."""

    async def of(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery | None = None) -> Presence:
        """Without `query` what the status says, else all that can be read; what can't be is unknown. Raises nothing."""
        ...


class ConstraintsReader(Protocol):
    """Reads what the rest of the cluster holds against a reclaim, and takes slots of the policy's budget."""

    async def of(self, job: DLJob, pods: Sequence[Object], policy: EffectivePolicy, record: Record) -> Constraints:
        """Whether something speaks against taking this job's GPUs, as far as it matters: not all of it is read for a
        job that no warning stands for. What can't be read speaks against it. Raises nothing.
        """
        ...

    async def take_slot(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Count the reclaim against the policy's bounds, durably and once; False where there is no place. Raises
        ApiError, ConflictError when somebody else was faster.
        """
        ...


class Reclaimer:
    """Reads what a plan is made from, and carries the plan out. Every condition stands in `reclaim`."""

    def __init__(
        self,
        api: KubernetesApi,
        children: Children,
        status_writer: StatusWriter,
        policies: Policies,
        manifests: ManifestCache,
        metrics: MetricsSource,
        clock: Clock,
        presences: PresenceReader,
        constraints: ConstraintsReader,
    ) -> None:
        self._api = api
        self._children = children
        self._status_writer = status_writer
        self._policies = policies
        self._manifests = manifests
        self._metrics = metrics
        self._clock = clock
        self._presences = presences
        self._constraints = constraints
        self._ages = WarningAges(clock)

    async def plan(
        self,
        job: DLJob,
        child: Object,
        pods: Sequence[Object],
        findings: Sequence[Finding],
        idle: Idleness | None,
        record: Record,
        execution: Execution,
        *,
        unsuspendable: str | None = None,
    ) -> Plan:
        """The plan for a job whose Job is not over, by what watches and scans have found. `idle` None: no scan has
        sampled it yet. `unsuspendable`: why its Job can't be suspended, if that was found out before.
        """
        candidate = candidate_of(job, child, pods, findings, self._manifests.program(job))
        candidate = replace(candidate, unsuspendable=unsuspendable)
        policy = self._policies.of(job.namespace)
        if idle is None:
            now = self._clock.now()
            idle = Idleness(state=IdlenessState.UNKNOWN, observed_at=now, reason=UnknownReason.NO_SAMPLES)
            execution = replace(execution, is_sampled=False)
        acts = policy.reclaim_of(candidate.traits).mode is not ReclaimMode.OBSERVE
        if acts and idle.state is IdlenessState.IDLE and candidate.untouchable is None and unsuspendable is None:
            candidate, _ = await self._with_mechanism(candidate, child, afresh=False)
        _, next_plan = await self._plan(job, child, pods, candidate, idle, policy, record, execution)
        return next_plan

    def wrote(self, uid: str, before: Record, after: Record) -> None:
        """A job's record was written: the grace of a warning in it begins now."""
        self._ages.wrote(uid, before, after)

    async def reclaim(self, stale: DLJob, found: Sequence[Finding], execution: Execution) -> Idleness | None:
        """Read everything afresh and plan again, by those of the findings just `found` that are on record, too; then
        take the plan's steps: the slot, the intent, the action under the Job's resource version. A crash in between is
        made good by the next pass: an intent without the action is planned anew, an action without its record is
        recorded.

        Returns None when the action was done, else what the fresh check saw of the GPUs. Raises Transient,
        ConflictError or another ApiError: nothing was done, or it is to be recorded.
        """
        raw = await self._api.get(DLJOBS, stale.namespace, stale.name)
        job = DLJob.model_validate(raw)
        child = await self._api.get(JOBS, stale.namespace, stale.name)
        listed, _ = await self._api.list(PODS, stale.namespace, labels=f"{DLJOB_LABEL}={stale.name}")
        pods = [pod for pod in listed if is_of(pod, child)]
        if job.uid != stale.uid or job.status is None or "deletionTimestamp" in raw["metadata"]:
            raise Transient("the DLJob changed before the reclaim")
        policy = self._policies.of(job.namespace)
        on_record = {finding.rule for finding in recorded(job) if finding.is_open}
        candidate = candidate_of(
            job, child, pods, [one for one in found if one.rule in on_record], self._manifests.program(job)
        )
        mechanism: SuspendMechanism | None = None
        if candidate.untouchable is None:
            candidate, mechanism = await self._with_mechanism(candidate, child, afresh=True)
            if mechanism is not None and mechanism.is_suspended:
                # A Workload that somebody has just deactivated is not ours to give back.
                candidate = replace(candidate, untouchable="it is suspended")
        checked_at = self._clock.monotonic()
        idle = await self._fresh_idleness(job, child, pods, candidate, policy)
        record = Record.from_status(job.status.reclaim)
        execution = replace(execution, check_age=timedelta(0))
        case, next_plan = await self._plan(job, child, pods, candidate, idle, policy, record, execution)
        while next_plan.step not in ACTS:
            execution = case.execution
            match next_plan.step:
                case Step.TAKE_SLOT:
                    taken = await self._constraints.take_slot(job, policy, self._clock.now())
                    execution = replace(execution, slot_taken=taken)
                case Step.RECORD_INTENT:
                    raw = await self._status_writer.write(
                        raw, {**raw["status"], "reclaim": next_plan.record.to_status()}
                    )
                    execution = replace(execution, intent_recorded=True)
                case Step.RETRY:
                    raise Transient(next_plan.reason)
                case Step.STOP:
                    return idle
                case _:
                    logger.info(
                        "%s/%s: not reclaimed when checked again: %s",
                        job.namespace,
                        job.name,
                        next_plan.reason,
                        extra=about(job.namespace, job.name, job.uid, record.warned_at),
                    )
                    raw = await self._status_writer.write(
                        raw, {**raw["status"], "reclaim": next_plan.record.to_status()}
                    )
                    await self._status_writer.announce(raw, next_plan.notices)
                    return idle
            check_age = timedelta(seconds=self._clock.monotonic() - checked_at)
            case = replace(case, execution=replace(execution, check_age=check_age))
            next_plan = plan(case)
        await self._act(next_plan, child, mechanism)
        logger.info(
            "%s/%s: reclaimed: %s",
            job.namespace,
            job.name,
            next_plan.record.reason,
            extra=about(job.namespace, job.name, job.uid, record.warned_at),
        )
        return None

    async def _act(self, next_plan: Plan, child: Object, mechanism: SuspendMechanism | None) -> None:
        """Suspend or delete the Job. That its GPUs are free is recorded when its pods are gone, whose events are on
        their way.
        """
        if next_plan.step is Step.DELETE:
            await self._children.delete(child)
        elif mechanism is not None:  # or a gate would have held the job back
            await self._children.suspension.suspend(child, mechanism, BY_RECLAIM)

    async def _with_mechanism(
        self, candidate: Candidate, child: Object, *, afresh: bool
    ) -> tuple[Candidate, SuspendMechanism | None]:
        """The candidate with what is known of how its Job is suspended."""
        try:
            return candidate, await self._children.suspension.mechanism_of(child, afresh=afresh)
        except NotSuspendableError as none:
            return replace(candidate, unsuspendable=str(none)), None

    async def _plan(
        self,
        job: DLJob,
        child: Object,
        pods: Sequence[Object],
        candidate: Candidate,
        idle: Idleness,
        policy: EffectivePolicy,
        record: Record,
        execution: Execution,
    ) -> tuple[Case, Plan]:
        """Plan; the cluster's constraints are read only for idle jobs, and presence is checked only where every
        condition about the job itself holds, since both cost requests.
        """
        execution = replace(execution, warning_age=self._ages.age(job.uid, record))
        case = Case(
            job=candidate, idleness=idle, policy=policy, record=record, now=self._clock.now(), execution=execution
        )
        if idle.state is not IdlenessState.IDLE or candidate.untouchable is not None:
            return case, plan(case)
        candidate = replace(candidate, presence=await self._presences.of(job, pods))
        constraints = await self._constraints.of(job, pods, policy, record)
        case = replace(case, job=candidate, constraints=constraints, now=self._clock.now())
        ahead = plan(case)
        if ahead.group in FACTS or case.cause is None:
            return case, ahead
        query = PresenceQuery(
            child=child,
            window=case.idle_after,
            interactive=case.cause.category is Category.INTERACTIVE_JOB,
            afresh=ahead.is_confirmed or ahead.step is Step.WARN,
        )
        candidate = replace(candidate, presence=await self._presences.of(job, pods, query))
        case = replace(case, job=candidate, now=self._clock.now())
        return case, plan(case)

    async def _fresh_idleness(
        self, job: DLJob, child: Object, pods: Sequence[Object], candidate: Candidate, policy: EffectivePolicy
    ) -> Idleness:
        now = self._clock.now()
        window = idle_after(candidate.idle_after, candidate.traits, policy)
        idle_percent = policy.thresholds.idle_percent
        live = [pod for pod in pods if not pod_status.is_finished(pod)]
        facts = job_facts(job, live, self._manifests.program(job), child=child, now=now)
        asked = screen_request(facts, window=window, idle_percent=idle_percent, now=now)
        try:
            async with asyncio.timeout(METRICS_TIMEOUT):
                (screen,) = await self._metrics.screen([asked], now)
        except MetricsUnavailable as unavailable:
            return unknown(unavailable, now)
        except TimeoutError:
            late = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "no answer in time")
            return unknown(late, now)
        return idleness(
            facts,
            screen,
            window=window,
            min_coverage_percent=policy.thresholds.min_coverage_percent,
            idle_percent=idle_percent,
            now=now,
        )


def owner_response(job: DLJob, record: Record, now: datetime, *, deleted: bool = False) -> Resumption:
    """What the owner's annotation or spec.suspend say beyond what the record has taken. `deleted`: its Job is gone."""
    return resumed(
        record,
        annotation=job.metadata.annotations.get(RESUME_ANNOTATION),
        unsuspended=is_unsuspended(job),
        deleted=deleted,
        now=now,
    )


def unknown(unavailable: MetricsUnavailable, now: datetime) -> Idleness:
    """What is known of any job while the metrics can't be read."""
    return Idleness(
        state=IdlenessState.UNKNOWN, observed_at=now, reason=unavailable.reason, message=unavailable.message
    )
