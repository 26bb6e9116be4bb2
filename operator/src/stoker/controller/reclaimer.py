"""Carries out what `reclaim.decide` decides."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import DLJOBS, JOBS, PODS, KubernetesApi, Object
from stoker.api.dljob import DLJob
from stoker.api.names import RESUME_ANNOTATION
from stoker.api.policy import EffectivePolicy
from stoker.cluster.policies import Policies
from stoker.cluster.workqueue import Transient
from stoker.controller.candidates import candidate as candidate_of
from stoker.controller.candidates import is_of
from stoker.controller.children import Children
from stoker.controller.grace_periods import Graces
from stoker.controller.manifest_cache import Manifests
from stoker.controller.presence import Closely
from stoker.controller.status_findings import recorded
from stoker.controller.status_writer import Publisher
from stoker.controller.suspension import NoSwitchError, Switch
from stoker.diagnosis.idleness import idleness, question
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import Category, ReclaimEvent, ReclaimMode, ReclaimState, UnknownReason
from stoker.findings.wording import count
from stoker.reclaim import (
    FACTS,
    GATES,
    Candidate,
    Circumstances,
    Decision,
    Notice,
    NoticeReason,
    Outcome,
    Presence,
    Record,
    Resumption,
    Step,
    after,
    decide,
    idle_after,
    reclaimable_cause,
    resumed,
)
from stoker.telemetry.screen import MetricsSource, MetricsUnavailable
from stoker.workload import job_facts
from stoker.workload import pods as pod_status
from stoker.workload.manifest import DLJOB_LABEL
from stoker.workload.observation import BY_RECLAIM, still_ending

logger = logging.getLogger(__name__)


METRICS_TIMEOUT = 20.0
"""Seconds that the last look at the metrics before a reclaim may take."""
LAST_LOOK_HOLDS = 20.0
"""Seconds after which the deed no longer rests on that look: with a slow API server the owner may be back by then."""


ABOUT_THE_JOB = frozenset(gate.name for gate in GATES if gate.stage in FACTS)
"""The gates that ask what is so; what a policy wants done is asked after them."""
WARNED = "warned"
"""The gate behind which a warning is written."""


class PresenceReader(Protocol):
    """Finds out whether somebody works in a job."""

    async def of(self, job: DLJob, pods: Sequence[Object], closely: Closely | None = None) -> Presence:
        """Look now, and where that costs something only `closely`; what can't be read is unknown. Raises nothing."""
        ...


class Surroundings(Protocol):
    """What the rest of the cluster says to a reclaim."""

    async def around(
        self, job: DLJob, pods: Sequence[Object], policy: EffectivePolicy, record: Record
    ) -> Circumstances:
        """Whether something speaks against taking this job's GPUs, as far as it matters: not all of it is read for a
        job that no warning stands for. What can't be read speaks against it. Raises nothing.
        """
        ...

    async def take_place(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Count the reclaim against the policy's bounds, durably and once; False where there is no place. Raises
        ApiError, ConflictError when somebody else was faster.
        """
        ...


class Reclaimer:
    """Decides about one job, and does what was decided after a second look."""

    def __init__(
        self,
        api: KubernetesApi,
        children: Children,
        publisher: Publisher,
        policies: Policies,
        manifests: Manifests,
        metrics: MetricsSource,
        clock: Clock,
        presences: PresenceReader,
        surroundings: Surroundings,
    ) -> None:
        self._api = api
        self._children = children
        self._publisher = publisher
        self._policies = policies
        self._manifests = manifests
        self._metrics = metrics
        self._clock = clock
        self._presences = presences
        self._surroundings = surroundings
        self._graces = Graces(clock)

    async def decide(
        self,
        job: DLJob,
        child: Object,
        pods: Sequence[Object],
        findings: Sequence[Finding],
        idle: Idleness | None,
        record: Record,
    ) -> Decision:
        """What becomes of a job whose Job is not over. `idle` None: no scan has looked at it yet, so the record stays,
        unless the job can't be touched anyway.
        """
        now = self._clock.now()
        candidate = candidate_of(job, child, pods, findings, self._manifests.program(job))
        if idle is None:
            if candidate.untouchable is None:
                return Decision(record=record)
            idle = Idleness(state=IdlenessState.UNKNOWN, observed_at=now, reason=UnknownReason.NO_SAMPLES)
        policy = self._policies.of(job.namespace)
        acts = policy.reclaim_of(candidate.traits).mode is not ReclaimMode.OBSERVE
        if acts and idle.state is IdlenessState.IDLE and candidate.untouchable is None:
            try:
                await self._children.suspension.switch_of(child)
            except NoSwitchError as none:
                candidate = replace(candidate, unsuspendable=str(none))
        return await self._decide(job, child, pods, candidate, idle, policy, record)

    def grace_left(self, uid: str, record: Record) -> float:
        """Seconds until a warning's grace is over whatever clocks have done meanwhile; at most 0 when it is."""
        return self._graces.left(uid, record)

    def wrote(self, uid: str, before: Record, after: Record) -> None:
        """A job's record was written: the grace of a warning in it begins now."""
        self._graces.wrote(uid, before, after)

    async def reclaim(self, stale: DLJob, found: Sequence[Finding]) -> Idleness | None:
        """Look at everything afresh and decide again, by those of the findings just `found` that are on record, too;
        then record the intent, act under the Job's resource version, and record the deed. A crash in between is made
        good by the next pass: an intent without the deed is decided anew, a deed without its record is recorded.

        Returns None when it was done, else what the last look saw; the next look at the metrics asks again. Raises
        Transient, ConflictError or another ApiError: nothing was done, or it is to be recorded.
        """
        raw = await self._api.get(DLJOBS, stale.namespace, stale.name)
        job = DLJob.model_validate(raw)
        child = await self._api.get(JOBS, stale.namespace, stale.name)
        listed, _ = await self._api.list(PODS, stale.namespace, labels=f"{DLJOB_LABEL}={stale.name}")
        pods = [pod for pod in listed if is_of(pod, child)]
        if job.uid != stale.uid or job.status is None or "deletionTimestamp" in raw["metadata"]:
            raise Transient("the DLJob changed before the reclaim")
        policy = self._policies.of(job.namespace)
        record = Record.from_status(job.status.reclaim)
        now = self._clock.now()
        if owners_word(job, record, now).record != record:
            raise Transient("its owner has asked for it since")
        on_record = {finding.rule for finding in recorded(job) if finding.is_open}
        candidate = candidate_of(
            job, child, pods, [one for one in found if one.rule in on_record], self._manifests.program(job)
        )
        switch: Switch | None = None
        if candidate.untouchable is None:
            try:
                switch = await self._children.suspension.switch_of(child, afresh=True)
            except NoSwitchError as none:
                candidate = replace(candidate, unsuspendable=str(none))
            else:
                # A Workload that somebody has just deactivated is not ours to give back.
                candidate = replace(candidate, untouchable="it is suspended" if switch.is_off else None)
        looked_at = self._clock.monotonic()
        idle = await self._fresh_idleness(job, child, pods, candidate, policy)
        decision = await self._decide(job, child, pods, candidate, idle, policy, record)
        if decision.step is not Step.RECLAIM or switch is None:
            logger.info("%s/%s: not reclaimed after a second look: %s", job.namespace, job.name, decision.record.reason)
            raw = await self._publisher.write(raw, {**raw["status"], "reclaim": decision.record.to_status()})
            await self._publisher.tell(raw, decision.notices)
            return idle
        if (left := self.grace_left(job.uid, decision.record)) > 0:
            raise Transient(f"its grace is over in {left:.1f} s by the steady clock")
        if not await self._surroundings.take_place(job, policy, self._clock.now()):
            return idle
        intent = replace(decision.record, state=after(decision.record.state, Outcome.DUE))
        raw = await self._publisher.write(raw, {**raw["status"], "reclaim": intent.to_status()})
        if (age := self._clock.monotonic() - looked_at) > LAST_LOOK_HOLDS:
            raise Transient(f"the last look at its metrics is {age:.0f} s old")
        if intent.action is ReclaimMode.DELETE:
            await self._children.delete(child)
        else:
            await self._children.suspension.suspend(child, switch, BY_RECLAIM)
        # That its GPUs are free is recorded when its pods are gone, whose events are on their way.
        logger.info("%s/%s: reclaimed: %s", job.namespace, job.name, intent.reason)
        return None

    async def _decide(
        self,
        job: DLJob,
        child: Object,
        pods: Sequence[Object],
        candidate: Candidate,
        idle: Idleness,
        policy: EffectivePolicy,
        record: Record,
    ) -> Decision:
        """Decide by what the cluster says beyond the job, which is asked only of jobs that rest; and who works in it,
        where that costs anything, only of those that nothing else speaks for.
        """
        if idle.state is not IdlenessState.IDLE or candidate.untouchable is not None:
            return decide(candidate, idle, policy, record, self._clock.now())
        candidate = replace(candidate, presence=await self._presences.of(job, pods))
        around = await self._surroundings.around(job, pods, policy, record)
        now = self._clock.now()
        ahead = decide(candidate, idle, policy, record, now, around=around)
        cause = reclaimable_cause(candidate, policy, now)
        if ahead.gate in ABOUT_THE_JOB or cause is None:
            return ahead
        closely = Closely(
            child=child,
            window=idle_after(candidate.idle_after, candidate.traits, policy),
            interactive=cause.category is Category.INTERACTIVE_JOB,
            afresh=ahead.step is Step.RECLAIM or ahead.gate == WARNED,
        )
        candidate = replace(candidate, presence=await self._presences.of(job, pods, closely))
        return decide(candidate, idle, policy, record, self._clock.now(), around=around)

    async def _fresh_idleness(
        self, job: DLJob, child: Object, pods: Sequence[Object], candidate: Candidate, policy: EffectivePolicy
    ) -> Idleness:
        now = self._clock.now()
        window = idle_after(candidate.idle_after, candidate.traits, policy)
        idle_percent = policy.thresholds.idle_percent
        live = [pod for pod in pods if not pod_status.is_finished(pod)]
        facts = job_facts(job, live, self._manifests.program(job), child=child, now=now)
        asked = question(facts, window=window, idle_percent=idle_percent, now=now)
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


def owners_word(job: DLJob, record: Record, now: datetime, *, deleted: bool = False) -> Resumption:
    """What the owner's annotation or spec.suspend say beyond what the record has taken. `deleted`: its Job is gone."""
    return resumed(
        record,
        annotation=job.metadata.annotations.get(RESUME_ANNOTATION),
        suspend=bool(job.spec.suspend),
        observed_suspend=job.status.observed_suspend if job.status is not None else None,
        deleted=deleted,
        now=now,
    )


def unknown(unavailable: MetricsUnavailable, now: datetime) -> Idleness:
    """What is known of any job while the metrics can't be read."""
    return Idleness(
        state=IdlenessState.UNKNOWN, observed_at=now, reason=unavailable.reason, message=unavailable.message
    )


def is_taken(record: Record, child: Mapping[str, Any] | None, switch: Switch | None) -> bool:
    """Whether the deed is done: its Job was deleted, or reclaim holds its pods away, which may still be ending."""
    if record.state is ReclaimState.RECLAIMED:
        return True
    if record.state is not ReclaimState.RECLAIMING:
        return False
    if child is None or "deletionTimestamp" in child["metadata"]:
        return record.action is ReclaimMode.DELETE
    return switch is not None and switch.off_by == BY_RECLAIM


def freed(
    record: Record, child: Mapping[str, Any] | None, switch: Switch | None, pods: Sequence[Object], now: datetime
) -> Record:
    """The record after a deed: reclaimed once no pod holds a GPU any more, and until then waiting for that."""
    if record.state is ReclaimState.RECLAIMED or not is_taken(record, child, switch):
        return record
    if child is not None and record.action is ReclaimMode.DELETE:
        return replace(record, reason="its GPUs are free when its Job is gone and its pods have ended")
    if child is not None and not child["spec"].get("suspend"):
        return replace(record, reason="its GPUs are free when Kueue has suspended its Job and its pods have ended")
    if left := still_ending(child, pods):
        return replace(record, reason=f"waiting for {count(left, 'pod')} to end, which frees its GPUs")
    return deed(record, now)


def deed(record: Record, now: datetime) -> Record:
    """The record of a job that has been reclaimed."""
    since = rfc3339(record.idle_since) if record.idle_since is not None else "unknown"
    warned = rfc3339(record.warned_at) if record.warned_at is not None else "unknown"
    how = "its Job was deleted" if record.action is ReclaimMode.DELETE else "suspended; stoker resume brings it back"
    return replace(
        record, state=after(record.state, Outcome.FREED), reclaimed_at=now, reason=f"idle since {since}; {how}"
    ).remembering(now, ReclaimEvent.RECLAIMED, f"idle since {since}, warned at {warned}", policies=record.policies)


def deed_notice(job: DLJob, record: Record) -> Notice:
    """What is told of it; its episode is the warning's, so that a crash does not tell it twice."""
    back = (
        "" if record.action is ReclaimMode.DELETE else f" Bring it back: stoker resume {job.name} -n {job.namespace}."
    )
    since = rfc3339(record.idle_since) if record.idle_since is not None else "unknown"
    what = "Its GPU was" if job.gpus == 1 else f"Its {job.gpus} GPUs were"
    message = f"{what} given back: idle since {since}.{back}"
    episode = rfc3339(record.warned_at) if record.warned_at is not None else "reclaimed"
    numbers = {"gpus": job.gpus, "action": record.action.value if record.action is not None else "unknown"}
    return Notice(
        reason=NoticeReason.RECLAIMED, message=message, episode=episode, numbers=numbers, policies=record.policies
    )
