"""Brings one DLJob's children and status to where they should be: gather, decide, act, write the status once.

Level-triggered: whatever the events were, a pass looks at everything and does what is missing. A pass may be cut off
anywhere; the next one goes on from what stands in the cluster.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.adapters.events import Event, EventWriter
from stoker.adapters.kubernetes import (
    DLJOBS,
    JOBS,
    PODS,
    POLICIES,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    NotFoundError,
    Object,
)
from stoker.admission import review
from stoker.controller.children import Children, NameConflictError
from stoker.controller.draft import Draft
from stoker.controller.findings import merged, opened, recorded
from stoker.controller.looks import Look, Looks
from stoker.controller.policies import Policies
from stoker.controller.queue import Transient
from stoker.controller.store import Key, Store
from stoker.diagnosis import idleness
from stoker.models.diagnosis import Idleness, IdlenessState
from stoker.models.dljob import DLJob
from stoker.models.finding import Finding, parse_time, rfc3339
from stoker.models.meta import RESUME_ANNOTATION, SNOOZE_ANNOTATION
from stoker.models.policy import EffectivePolicy
from stoker.models.schema import explain
from stoker.models.screen import MetricsSource, MetricsUnavailable
from stoker.models.vocabulary import Outcome, Phase, ReclaimMode, ReclaimState, Source
from stoker.reclaim import Candidate, Decision, Notice, NoticeReason, Record, Step, decide, idle_after, resumed
from stoker.workload import ProgramFacts, job_facts, observe, program_facts
from stoker.workload import pods as pod_status
from stoker.workload.conditions import written
from stoker.workload.facts import has_persistent_volume
from stoker.workload.manifest import DLJOB_LABEL, QUEUE_LABEL
from stoker.workload.observation import (
    BY_RECLAIM,
    BY_USER,
    SUSPENDED_BY,
    Observation,
    failure,
    finished,
    is_ending,
    job_deleted,
)
from stoker.workload.pods import Obstacle

logger = logging.getLogger(__name__)

FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED})
LOOK_AGAIN = 5.0
"""Seconds until a job is looked at again whose obstacle no watch tells of: a quota, a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the process was started with."""

    minimum_warning_grace: timedelta
    metrics_timeout: float = 20.0


class Reconciler:
    """The handler of the work queue: `reconcile` is called for one key at a time."""

    def __init__(
        self,
        api: KubernetesApi,
        store: Store,
        looks: Looks,
        metrics: MetricsSource,
        events: EventWriter,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._api = api
        self._store = store
        self._looks = looks
        self._metrics = metrics
        self._events = events
        self._clock = clock
        self._settings = settings
        self._children = Children(api, store)
        self._policies = Policies(store)
        self._programs: dict[str, ProgramFacts] = {}
        self._static: dict[str, tuple[Finding, ...]] = {}

    def policy(self, namespace: str) -> EffectivePolicy:
        """What holds in a namespace."""
        return self._policies.of(namespace)

    def program(self, job: DLJob) -> ProgramFacts:
        """What the manifest says of the job's program; read once."""
        known = self._programs.get(job.uid)
        if known is None:
            try:
                known = program_facts(job)
            except Exception:
                # A fault of ours costs one job's diagnosis some detail, not the others their look.
                logger.exception("%s/%s: the program can't be read", job.namespace, job.name)
                known = ProgramFacts(has_persistent_volume=has_persistent_volume(job))
            self._programs[job.uid] = known
        return known

    def static_findings(self, job: DLJob) -> tuple[Finding, ...]:
        """What admission has to say of the job; reviewed once by this process."""
        known = self._static.get(job.uid)
        if known is None:
            verdict = review(job, self.policy(job.namespace), now=self._clock.now())
            known = self._static[job.uid] = (*verdict.denied, *verdict.warned, *verdict.audited)
        return known

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget what is remembered of jobs that no longer exist."""
        kept = set(uids)
        self._looks.keep_only(kept)
        self._programs = {uid: known for uid, known in self._programs.items() if uid in kept}
        self._static = {uid: known for uid, known in self._static.items() if uid in kept}

    async def reconcile(self, key: Key) -> float | None:
        """One pass over one DLJob; returns after how many seconds to look again. Raises Transient to be tried again."""
        raw = self._store.dljobs.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            # What it owns is the garbage collector's.
            return None
        try:
            job = DLJob.model_validate(raw)
        except ValidationError as error:
            return await self._refuse_unreadable(raw, error)
        try:
            if job.status is not None and job.status.phase in FINAL:
                return await self._keep_final(raw, job)
            return await self._drive(raw, job)
        except (ConflictError, NotFoundError) as error:
            raise Transient(f"changed meanwhile ({error})") from error
        except ApiError as error:
            raise Transient(str(error)) from error

    # ------------------------------------------------------------------------------------------ a job that is not over

    async def _drive(self, raw: Object, job: DLJob) -> float | None:
        now = self._clock.now()
        status = job.status
        word = resumed(
            Record.from_status(status.reclaim if status is not None else None),
            annotation=job.metadata.annotations.get(RESUME_ANNOTATION),
            suspend=bool(job.spec.suspend),
            observed_suspend=status.observed_suspend if status is not None else None,
            now=now,
        )
        record = word.record
        if word.notices:
            # First the word is taken down, then it is acted upon: a crash in between changes nothing.
            observed_suspend = {"observedSuspend": bool(job.spec.suspend)}
            raw = await self._write(raw, {**raw["status"], "reclaim": record.to_status(), **observed_suspend})
            job = DLJob.model_validate(raw)
            await self._tell(raw, word.notices)

        child = await self._children.find(job)
        before = recorded(job)
        if child is None and job.status is not None and job.status.job_uid is not None:
            return await self._without_child(raw, job, record, before, now)
        obstacle: Obstacle | None = None
        if child is None and not job.spec.suspend:
            verdict = review(job, self.policy(job.namespace), now=now)
            for name, fault in verdict.failures:
                logger.error("%s/%s: rule %s failed", job.namespace, job.name, name, exc_info=fault)
            static = (*verdict.denied, *verdict.warned, *verdict.audited)
            self._static[job.uid] = static
            before = merged(before, static, now)
            if verdict.outcome is Outcome.DENY:
                return await self._refuse(raw, job, record, before, verdict.denied, now)
            try:
                child = await self._children.create(job)
            except NameConflictError as conflict:
                return await self._wait_for_name(raw, job, record, before, str(conflict), now)
            except (ForbiddenError, InvalidError) as error:
                obstacle = _job_refused(error)
        if child is not None and not is_ending(child) and "deletionTimestamp" not in child["metadata"]:
            record = _completed(record, child, now)
            child = await self._synchronize(job, child, reclaimed=record.state is ReclaimState.RECLAIMED)
        return await self._conclude(raw, job, child, record, before, obstacle, now)

    async def _conclude(
        self,
        raw: Object,
        job: DLJob,
        child: Object | None,
        record: Record,
        before: tuple[Finding, ...],
        obstacle: Obstacle | None,
        now: datetime,
    ) -> float | None:
        """Observe, decide about reclaim, write."""
        pods = self._pods(job, child)
        if child is not None and obstacle is None and finished(child) is None:
            obstacle = await self._children.obstacle(child, pods)
        reclaimed = record.state is ReclaimState.RECLAIMED
        seen = observe(job, child, pods, obstacle=obstacle, reclaimed=reclaimed)
        look = self._looks.get(job.uid)
        findings = self._findings(job, before, look, now)
        policy = self.policy(job.namespace)
        decision = Decision(record=record)
        if child is not None and look is not None and finished(child) is None and not reclaimed:
            candidate = self._candidate(job, child, pods, findings)
            decision = self._decide(candidate, look.idleness, policy, record, now)
        draft = Draft(
            job=job,
            observation=seen,
            findings=findings,
            record=decision.record,
            policy=policy,
            child_uid=child["metadata"]["uid"] if child is not None else None,
            look=look,
        )
        raw = await self._publish(raw, draft, before, decision.notices, now)
        if decision.step is Step.RECLAIM and child is not None:
            await self._reclaim(job)
            return None
        return self._look_again(decision.record, obstacle, seen, now)

    async def _synchronize(self, job: DLJob, child: Object, *, reclaimed: bool) -> Object:
        """Suspend or resume the Job as asked, and only where nobody else does that; keep its deadline."""
        away = bool(job.spec.suspend) or reclaimed
        ours = child["metadata"].get("annotations", {}).get(SUSPENDED_BY) is not None
        suspended = bool(child["spec"].get("suspend"))
        if QUEUE_LABEL not in child["metadata"].get("labels", {}):
            # Of a Job in a queue `suspend` is the queue's: true would kill what it started, false by-pass it.
            if away and not suspended:
                child = await self._children.suspend(child, BY_RECLAIM if reclaimed else BY_USER)
            elif not away and suspended and ours:
                child = await self._children.resume(child)
        if child["spec"].get("activeDeadlineSeconds") != job.spec.active_deadline_seconds:
            child = await self._children.set_deadline(child, job.spec.active_deadline_seconds)
        return child

    def _pods(self, job: DLJob, child: Object | None) -> list[Object]:
        return [] if child is None else self._store.pods_of(Key(job.namespace, job.name), child["metadata"]["uid"])

    def _findings(
        self, job: DLJob, before: tuple[Finding, ...], look: Look | None, now: datetime
    ) -> tuple[Finding, ...]:
        """What admission and the metrics say; without an examination what is written stands."""
        if look is None or look.diagnosis is None or look.diagnosis.unknown is not None:
            known = {finding.rule for finding in before}
            return (*before, *(finding for finding in self.static_findings(job) if finding.rule not in known))
        return merged(before, look.diagnosis.findings, now)

    def _look_again(self, record: Record, obstacle: Obstacle | None, seen: Observation, now: datetime) -> float | None:
        if record.deadline is not None and record.state is ReclaimState.WARNED and record.deadline > now:
            return (record.deadline - now).total_seconds()
        return LOOK_AGAIN if obstacle is not None and seen.phase not in FINAL else None

    # ------------------------------------------------------------------------------------------------ endings

    async def _without_child(
        self, raw: Object, job: DLJob, record: Record, before: tuple[Finding, ...], now: datetime
    ) -> float | None:
        """A Job was created and is no more: reclaim deleted it, or somebody else did. It is not brought back."""
        by_reclaim = record.action is ReclaimMode.DELETE and record.state in {
            ReclaimState.RECLAIMING,
            ReclaimState.RECLAIMED,
        }
        if by_reclaim:
            if record.state is ReclaimState.RECLAIMING:
                record = _reclaimed(record, now)
            seen = observe(job, None, (), reclaimed=True)
        else:
            seen = _ended(job, job_deleted(), now)
        draft = Draft(job=job, observation=seen, findings=before, record=record, policy=self.policy(job.namespace))
        await self._publish(raw, draft, before, (), now)
        return None

    async def _refuse(
        self,
        raw: Object,
        job: DLJob,
        record: Record,
        findings: tuple[Finding, ...],
        denied: Sequence[Finding],
        now: datetime,
    ) -> float | None:
        """What admission would have denied does not run, however it came past admission."""
        first = denied[0]
        where = f"{first.location}: " if first.location is not None else ""
        more = f" (and {len(denied) - 1} more)" if len(denied) > 1 else ""
        message = f"{where}{first.detail} ({first.rule}){more}"
        draft = Draft(
            job=job,
            observation=_ended(job, failure("Refused", message), now),
            findings=findings,
            record=record,
            policy=self.policy(job.namespace),
        )
        raw = await self._publish(raw, draft, (), (), now)
        note = f"The job is not run: {message}. {first.fix}"
        await self._events.record(raw, _event("Warning", "Refused", note, rule=first.rule, episode="creation"))
        return None

    async def _refuse_unreadable(self, raw: Object, error: ValidationError) -> float | None:
        """A DLJob that the API server accepted and this version can't read. One that runs is left as it is."""
        status = raw.get("status", {})
        message = "; ".join(str(violation) for violation in explain(error)[:5])
        logger.warning("%s/%s is not valid: %s", raw["metadata"]["namespace"], raw["metadata"]["name"], message)
        if status.get("jobUID") or status.get("phase") in FINAL:
            return None
        now = self._clock.now()
        facts = failure("Refused", message)
        generation = raw["metadata"]["generation"]
        fields = {"phase": Phase.FAILED.value, "observedGeneration": generation, "completionTime": rfc3339(now)}
        conditions = written(facts, status.get("conditions", ()), generation=generation, now=now)
        await self._write(raw, {**status, **fields, "conditions": conditions})
        return None

    async def _wait_for_name(
        self,
        raw: Object,
        job: DLJob,
        record: Record,
        findings: tuple[Finding, ...],
        conflict: str,
        now: datetime,
    ) -> float:
        taken = Obstacle(reason="NameConflict", message=conflict)
        seen = observe(job, None, (), obstacle=taken)
        draft = Draft(
            job=job,
            observation=seen,
            findings=findings,
            record=record,
            policy=self.policy(job.namespace),
            conflict=conflict,
        )
        await self._publish(raw, draft, findings, (), now)
        return LOOK_AGAIN

    async def _keep_final(self, raw: Object, job: DLJob) -> float | None:
        """A job that is over: its end stays, its conditions follow its generation, its time to live runs out."""
        assert job.status is not None
        now = self._clock.now()
        ttl, end = job.spec.ttl_seconds_after_finished, job.status.completion_time
        left: float | None = None
        if ttl is not None and end is not None:
            left = (end + timedelta(seconds=ttl) - now).total_seconds()
            if left <= 0:
                metadata = raw["metadata"]
                await self._api.delete(
                    DLJOBS,
                    metadata["namespace"],
                    metadata["name"],
                    uid=metadata["uid"],
                    resource_version=metadata["resourceVersion"],
                )
                return None
        before = recorded(job)
        look = self._looks.get(job.uid)
        findings = self._findings(job, before, look, now) if look is not None and look.diagnosis is not None else before
        seen = Observation(
            phase=job.status.phase or Phase.FAILED,
            ready=job.status.ready or "",
            restarts=job.status.restarts or 0,
            start_time=job.status.start_time,
            completion_time=end,
            facts=(),
        )
        draft = Draft(
            job=job,
            observation=seen,
            findings=findings,
            record=Record.from_status(job.status.reclaim),
            policy=self.policy(job.namespace),
            look=look,
        )
        await self._publish(raw, draft, before, (), now)
        return left

    # ------------------------------------------------------------------------------------------------ reclaim

    def _candidate(self, job: DLJob, child: Object, pods: Sequence[Object], findings: Sequence[Finding]) -> Candidate:
        live = [pod for pod in pods if not pod_status.is_finished(pod)]
        starts = [pod_status.started_at(pod) for pod in live]
        known = [start for start in starts if start is not None]
        return Candidate(
            job_type=job.job_type,
            gpus=job.gpus,
            job_uid=child["metadata"]["uid"],
            pod_uids=frozenset(pod_status.uid(pod) for pod in live),
            last_start=max(known) if known and len(known) == len(live) else None,
            labels=job.metadata.labels,
            findings=tuple(findings),
            idle_after=job.idle_after,
            snooze=job.metadata.annotations.get(SNOOZE_ANNOTATION),
            has_persistent_volume=self.program(job).has_persistent_volume,
            untouchable=_untouchable(job, child),
        )

    def _decide(
        self, candidate: Candidate, idle: Idleness, policy: EffectivePolicy, record: Record, now: datetime
    ) -> Decision:
        grace = self._settings.minimum_warning_grace
        return decide(candidate, idle, policy, record, now, minimum_warning_grace=grace)

    async def _reclaim(self, stale: DLJob) -> None:
        """Look at everything afresh and decide again; then record the intent, act under the Job's resource version, and
        record the deed. A crash in between is made good by the next pass: an intent without the deed is decided anew.
        """
        raw = await self._api.get(DLJOBS, stale.namespace, stale.name)
        job = DLJob.model_validate(raw)
        child = await self._api.get(JOBS, stale.namespace, stale.name)
        pods, _ = await self._api.list(PODS, stale.namespace, labels=f"{DLJOB_LABEL}={stale.name}")
        pods = [pod for pod in pods if _is_of(pod, child)]
        if job.uid != stale.uid or job.status is None or "deletionTimestamp" in raw["metadata"]:
            raise Transient("the DLJob changed before the reclaim")
        record = Record.from_status(job.status.reclaim)
        policy = self.policy(job.namespace)
        findings = recorded(job)
        candidate = self._candidate(job, child, pods, findings)
        idle = await self._fresh_idleness(job, pods, candidate, policy)
        now = self._clock.now()
        decision = self._decide(candidate, idle, policy, record, now)
        if decision.step is not Step.RECLAIM:
            logger.info("%s/%s: not reclaimed after a second look: %s", job.namespace, job.name, decision.record.reason)
            raw = await self._write(raw, {**raw["status"], "reclaim": decision.record.to_status()})
            await self._tell(raw, decision.notices)
            return
        if not await self._within_bounds(job, policy, now):
            return
        intent = replace(decision.record, state=ReclaimState.RECLAIMING)
        raw = await self._write(raw, {**raw["status"], "reclaim": intent.to_status()})
        if intent.action is ReclaimMode.DELETE:
            await self._children.delete(child)
        else:
            child = await self._children.suspend(child, BY_RECLAIM)
        done = _reclaimed(intent, self._clock.now())
        fields = {"phase": Phase.RECLAIMED.value, "reclaim": done.to_status()}
        raw = await self._write(raw, {**raw["status"], **fields})
        await self._tell(raw, (_reclaim_notice(job, done),))
        # The rest of the status follows from the children, whose events are on their way.

    async def _fresh_idleness(
        self, job: DLJob, pods: Sequence[Object], candidate: Candidate, policy: EffectivePolicy
    ) -> Idleness:
        now = self._clock.now()
        window = idle_after(candidate, policy)
        live = [pod for pod in pods if not pod_status.is_finished(pod)]
        try:
            async with asyncio.timeout(self._settings.metrics_timeout):
                screen = await self._metrics.screen(window, now)
        except MetricsUnavailable as unavailable:
            return unknown(unavailable, now)
        return idleness(
            job_facts(job, live, self.program(job)),
            screen,
            window=window,
            min_coverage_percent=policy.thresholds.min_coverage_percent,
            idle_percent=policy.thresholds.idle_percent,
            now=now,
        )

    async def _within_bounds(self, job: DLJob, policy: EffectivePolicy, now: datetime) -> bool:
        """Take a place among the reclaims that the policy allows in its window; they are counted in the policy's own
        status, so that neither a restart nor a deleted job resets them. A place taken for this job is not taken twice.
        """
        name = policy.sources[-1] if policy.sources else None
        if name is None:
            return False
        raw = await self._api.get(POLICIES, None, name)
        status = raw.get("status", {})
        start = now - policy.reclaim.window
        recent = [
            entry
            for entry in status.get("recentReclaims", ())
            if (time := parse_time(entry["time"])) is not None and time > start
        ]
        if any(entry["jobUID"] == job.uid for entry in recent):
            return True
        if len(recent) >= policy.reclaim.max_jobs_per_window:
            logger.info("%s/%s: not reclaimed now: policy %s has reached its bound", job.namespace, job.name, name)
            return False
        entry = {"jobUID": job.uid, "job": f"{job.namespace}/{job.name}", "time": rfc3339(now), "gpus": job.gpus}
        body = {**raw, "status": {**status, "recentReclaims": [*recent, entry]}}
        await self._api.replace(POLICIES, None, name, body, subresource="status")
        return True

    # ------------------------------------------------------------------------------------------------ writing

    async def _publish(
        self,
        raw: Object,
        draft: Draft,
        before: Sequence[Finding],
        notices: Sequence[Notice],
        now: datetime,
    ) -> Object:
        """Write the status if it has changed, and tell of what is new once it is written."""
        raw = await self._write(raw, draft.status(raw.get("status", {}), now))
        await self._tell(raw, notices)
        for finding in opened(before, draft.findings):
            if Source.METRICS in finding.sources:
                episode = rfc3339(finding.since) if finding.since is not None else "open"
                note = f"{finding.detail} {finding.fix}"
                event = _event("Warning", finding.category.value, note, rule=finding.rule, episode=episode)
                await self._events.record(raw, event)
        return raw

    async def _write(self, raw: Object, status: dict[str, Any]) -> Object:
        """Write a status; refused (ConflictError) when the DLJob has changed since it was read."""
        if status == raw.get("status", {}):
            return raw
        metadata = raw["metadata"]
        written_raw = await self._api.replace(
            DLJOBS, metadata["namespace"], metadata["name"], {**raw, "status": status}, subresource="status"
        )
        self._store.dljobs.put(written_raw)
        return written_raw

    async def _tell(self, raw: Object, notices: Iterable[Notice]) -> None:
        for notice in notices:
            kind: Literal["Normal", "Warning"] = "Warning" if notice.reason in ALARMING else "Normal"
            event = _event(kind, notice.reason.value, notice.message, rule="reclaim", episode=notice.episode)
            await self._events.record(raw, event)


ALARMING = frozenset({NoticeReason.WARNED, NoticeReason.RECLAIMED, NoticeReason.SNOOZE_IGNORED})


def unknown(unavailable: MetricsUnavailable, now: datetime) -> Idleness:
    """What is known of any job while the metrics can't be read."""
    return Idleness(
        state=IdlenessState.UNKNOWN, observed_at=now, reason=unavailable.reason, message=unavailable.message
    )


def _untouchable(job: DLJob, child: Object) -> str | None:
    """Why reclaim must keep its hands off, whatever the numbers say."""
    if "deletionTimestamp" in child["metadata"]:
        return "its Job is being deleted"
    if is_ending(child):
        return "its Job is ending"
    if job.spec.suspend or child["spec"].get("suspend"):
        return "it is suspended"
    if QUEUE_LABEL in child["metadata"].get("labels", {}):
        return "its Job belongs to a queue, which alone suspends it: only reported"
    return None


def _completed(record: Record, child: Object, now: datetime) -> Record:
    """The record after an intent whose deed is done but was not recorded."""
    by = child["metadata"].get("annotations", {}).get(SUSPENDED_BY)
    done = record.state is ReclaimState.RECLAIMING and child["spec"].get("suspend") and by == BY_RECLAIM
    return _reclaimed(record, now) if done else record


def _reclaimed(record: Record, now: datetime) -> Record:
    since = rfc3339(record.idle_since) if record.idle_since is not None else "unknown"
    how = "its Job was deleted" if record.action is ReclaimMode.DELETE else "suspended; stoker resume brings it back"
    return replace(
        record, state=ReclaimState.RECLAIMED, reclaimed_at=now, reason=f"idle since {since}; {how}"
    ).remembering(now, f"reclaimed: idle since {since}")


def _reclaim_notice(job: DLJob, record: Record) -> Notice:
    back = (
        "" if record.action is ReclaimMode.DELETE else f" Bring it back: stoker resume {job.name} -n {job.namespace}."
    )
    message = f"The {job.gpus} GPUs of the job were given back: {record.reason}.{back}"
    episode = rfc3339(record.warned_at) if record.warned_at is not None else "reclaimed"
    return Notice(reason=NoticeReason.RECLAIMED, message=message, episode=episode)


def _job_refused(error: ApiError) -> Obstacle:
    """Why the Job could not be created. The API server's words may echo the pod's environment: never repeated."""
    if isinstance(error, ForbiddenError):
        message = "the API server forbids the Job: a quota, an admission policy or a missing permission"
        return Obstacle(reason="JobForbidden", message=f"{message} (try kubectl create job in this namespace)")
    return Obstacle(reason="JobInvalid", message="the API server finds the Job invalid: look at spec.podTemplate")


def _ended(job: DLJob, facts: Sequence[Any], now: datetime) -> Observation:
    known = job.status
    return Observation(
        phase=Phase.FAILED,
        ready=f"0/{job.spec.nodes}",
        restarts=(known.restarts if known is not None else None) or 0,
        start_time=known.start_time if known is not None else None,
        completion_time=now,
        facts=tuple(facts),
    )


def _is_of(pod: Object, child: Object) -> bool:
    return any(owner.get("uid") == child["metadata"]["uid"] for owner in pod["metadata"].get("ownerReferences", ()))


def _event(kind: Literal["Normal", "Warning"], reason: str, note: str, *, rule: str, episode: str) -> Event:
    return Event(type=kind, reason=reason, action=reason, note=note, rule=rule, episode=episode)
