"""Looks at jobs one by one: reads their series, diagnoses them, and asks whether they may be reclaimed."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from stoker.diagnosis.idleness import idleness, screen_request
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.timeline import Timeline, timeline
from stoker.diagnosis.words import UNKNOWN
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import Action, Severity, UnknownReason
from stoker.inspection.candidates import in_the_past
from stoker.inspection.workload import Workload, as_of, began, ended
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import Candidate, Eligibility, eligibility, idle_after, observed, of_facts, presumed
from stoker.reclaim.case import reclaimable_cause
from stoker.telemetry.extent import extents, lived
from stoker.telemetry.screen import MetricsSource, MetricsUnavailable, Screen, ScreenRequest, step_for
from stoker.telemetry.series import JobFacts, LogMark

logger = logging.getLogger(__name__)

CONCURRENCY = 4
"""Jobs whose series are read at a time."""
FAILURES = 5
"""Jobs in a row that the metrics' source does not answer for before it is not asked any more."""
SEARCH = timedelta(days=14)
"""How far back the samples of a job are sought that nobody says the start of."""

ROUNDS = 20
"""Screens that are asked for at most: each checks some jobs in detail."""
NOT_LOOKED_AT = Eligibility(eligible=False, why="not read")
UNSEEN = Diagnosis(utilization=None, unknown=UnknownReason.NO_SAMPLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPeriod:
    """What is looked at of each job's life: from `start` (None: its own), up to `end` (None: now)."""

    start: datetime | None = None
    end: datetime | None = None
    now: datetime

    @property
    def at(self) -> datetime:
        """The time that is taken for the present."""
        return self.end or self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What is said of one job. `diagnosis` is None with an `error`; `since` and `until` bound what was looked at;
    `candidate` is the job that `eligibility` was asked about.
    """

    workload: Workload
    facts: JobFacts
    eligibility: Eligibility
    diagnosis: Diagnosis | None = None
    candidate: Candidate | None = None
    since: datetime | None = None
    until: datetime | None = None
    picture: Timeline | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_low(self) -> bool | None:
        """Low by the policy's bound; None where that is not known."""
        used = self.diagnosis.utilization if self.diagnosis is not None else None
        return None if used is None else used.is_low(self.workload.policy.thresholds.low_percent)

    @property
    def has_findings(self) -> bool:
        """Something is wrong: more than advice."""
        found = self.diagnosis.findings if self.diagnosis is not None else ()
        return any(finding.severity is not Severity.ADVICE for finding in found)


class LogSource(Protocol):
    """Where jobs' logs are read."""

    async def marks(self, facts: JobFacts, container: str) -> tuple[LogMark, ...]:
        """What the logs of that container of the job's pods say; nothing where they can't be read."""
        ...


@dataclass(slots=True, kw_only=True)
class Looker:
    """Looks at jobs through a metrics' source, and at their logs where there is a source of those. `columns`: the width
    of a picture of each; None for no picture.
    """

    source: MetricsSource
    period: ReadPeriod
    logs: LogSource | None = None
    columns: int | None = None
    _failures: int = field(default=0, init=False)

    async def look_at(self, workloads: Sequence[Workload]) -> list[Looked]:
        """All jobs, in their order. Never raises for one of them: its `error` says what is wrong."""
        gate = asyncio.Semaphore(CONCURRENCY)

        async def one(workload: Workload) -> Looked:
            async with gate:
                return await self._look(workload)

        looked = await asyncio.gather(*map(one, workloads))
        return await self._judged(looked)

    async def _look(self, workload: Workload) -> Looked:
        facts = as_of(workload.facts, self.period.at)
        failed = Looked(workload=workload, facts=facts, eligibility=NOT_LOOKED_AT, notes=workload.notes)
        if workload.error is not None:
            return replace(failed, error=workload.error)
        if self._failures >= FAILURES:
            return replace(failed, error="not read: there was no answer for earlier jobs")
        try:
            facts, notes = await self._placed(workload, facts)
            looked = await self._examined(workload, facts, (*workload.notes, *notes))
        except MetricsUnavailable as unavailable:
            self._failures += 1
            return replace(failed, error=unavailable.message)
        except Exception as fault:  # a fault of ours with one job is not the others'
            logger.debug("%s/%s can't be diagnosed", facts.namespace, facts.name, exc_info=fault)
            return replace(failed, error=f"an internal error in Stoker: {type(fault).__name__}: {fault}")
        self._failures = 0
        return looked

    async def _placed(self, workload: Workload, facts: JobFacts) -> tuple[JobFacts, tuple[str, ...]]:
        """The facts with the bounds of the pods' lives, sought in their samples where nobody has told them: first from
        by summaries, then in detail.
        """
        if workload.start_known and workload.end_known:
            return facts, ()
        at = self.period.at
        begin, end = began(facts) or self.period.start or at - SEARCH, ended(facts) or at
        if begin >= end:
            return facts, ()
        wide = _running(facts, begin)
        for _ in range(2):
            series = await self.source.series(wide, begin, end, step_for(end - begin))
            seen = extents(series)
            if not seen:
                return _running(facts, None), (f"no samples of its pods from {rfc3339(begin)} to {rfc3339(end)}",)
            begin = max(begin, min(first for first, _ in seen.values()))
            end = min(end, max(last for _, last in seen.values()))
        found = lived(facts, seen, at, starts=not workload.start_known, ends=not workload.end_known)
        notes = []
        if not workload.start_known:
            notes.append(
                f"its start is not recorded; it is assumed at its first sample, {rfc3339(began(found) or begin)}"
            )
        if not workload.end_known and (over := ended(found)) is not None:
            notes.append(f"its end is not recorded; it is assumed at its last sample, {rfc3339(over)}")
        return found, tuple(notes)

    async def _examined(self, workload: Workload, facts: JobFacts, notes: tuple[str, ...]) -> Looked:
        at = self.period.at
        nothing = Looked(workload=workload, facts=facts, eligibility=NOT_LOOKED_AT, diagnosis=UNSEEN, notes=notes)
        if facts.gpus == 0:
            return replace(nothing, diagnosis=Diagnosis(utilization=None), notes=(*notes, "it requests no GPUs"))
        start, end = began(facts), ended(facts) or at
        if start is None:
            waits = next((pod.waiting_for for pod in facts.pods if pod.waiting_for), None)
            said = (f"no container has started: {waits}" if waits else "no container has started",)
            return nothing if not workload.start_known else replace(nothing, notes=(*notes, *said))
        since = max(start, self.period.start or start)
        if since >= end:
            ran = f"it ran from {rfc3339(start)} to {rfc3339(end)}, outside the requested time"
            return replace(nothing, notes=(*notes, ran))
        if since > start:
            notes = (*notes, f"diagnosed from {rfc3339(since)} on; it began at {rfc3339(start)}")
        if self.period.end is not None and end == at:
            notes = (*notes, f"diagnosed as of {rfc3339(at)}")
        series = await self.source.series(facts, since, end, step_for(end - since))
        if self.logs is not None:
            marks = await self.logs.marks(facts, workload.container)
            series = replace(series, marks=tuple(mark for mark in marks if mark.time <= end))
        policy = workload.policy
        diagnosis = await asyncio.to_thread(
            diagnose, facts, series, workload.static_findings, policy.thresholds, at, off=_off(policy)
        )
        picture = None
        if self.columns is not None and len(series.times):
            picture = await asyncio.to_thread(timeline, facts, series, policy.thresholds, at, self.columns)
        return Looked(
            workload=workload,
            facts=facts,
            eligibility=NOT_LOOKED_AT,
            diagnosis=diagnosis,
            since=since,
            until=end,
            picture=picture,
            notes=notes,
        )

    # --------------------------------------------------------------------------------------------------- reclaim

    async def _judged(self, looked: Sequence[Looked]) -> list[Looked]:
        """Whether the jobs may be reclaimed. Metrics are screened for it, as the controller does, only where a job
        stands or falls by it.
        """
        at = self.period.at
        jobs = [None if one.diagnosis is None else self._candidate(one, one.diagnosis) for one in looked]
        hanging = [
            (place, job)
            for place, (one, job) in enumerate(zip(looked, jobs, strict=True))
            if job is not None and _hangs_on_screen(one, job, at)
        ]
        idle_states = await self._idleness([(looked[place], job) for place, job in hanging])
        screened = dict(zip((place for place, _ in hanging), idle_states, strict=True))
        judged: list[Looked] = []
        for place, (one, job) in enumerate(zip(looked, jobs, strict=True)):
            if job is None or one.diagnosis is None:
                judged.append(one)
                continue
            idle = screened.get(place) or presumed(one.facts, one.diagnosis, at)
            record = one.workload.record if self.period.end is None else None
            answer = eligibility(job, idle, one.workload.policy, at, record)
            judged.append(replace(one, candidate=job, eligibility=_held_back(answer, one, one.diagnosis)))
        return judged

    def _candidate(self, one: Looked, diagnosis: Diagnosis) -> Candidate:
        """The job as reclaim takes it, at the time that is taken for the present."""
        known = one.workload.candidate or of_facts(one.facts)
        return observed(known if self.period.end is None else in_the_past(known), one.facts, diagnosis)

    async def _idleness(self, jobs: Sequence[tuple[Looked, Candidate]]) -> list[Idleness]:
        """Whether these jobs are idle, by a screen."""
        at = self.period.at
        looked = [one for one, _ in jobs]
        windows = [idle_after(job.idle_after, job.traits, one.workload.policy) for one, job in jobs]
        thresholds = [one.workload.policy.thresholds for one in looked]
        requests = [
            screen_request(one.facts, window=window, idle_percent=threshold.idle_percent, now=at)
            for one, window, threshold in zip(looked, windows, thresholds, strict=True)
        ]
        try:
            screens = await self._screens(requests)
        except MetricsUnavailable as away:
            unknown = Idleness(state=IdlenessState.UNKNOWN, observed_at=at, reason=away.reason, message=away.message)
            return [unknown] * len(looked)
        return [
            idleness(
                one.facts,
                screen,
                window=window,
                min_coverage_percent=threshold.min_coverage_percent,
                idle_percent=threshold.idle_percent,
                now=at,
            )
            for one, screen, window, threshold in zip(looked, screens, windows, thresholds, strict=True)
        ]

    async def _screens(self, requests: Sequence[ScreenRequest]) -> list[Screen]:
        """An answer to each request; of many, some are put off to another look."""
        screens: dict[int, Screen] = {}
        left = list(range(len(requests)))
        for _ in range(ROUNDS):
            if not left:
                break
            answers = await self.source.screen([requests[place] for place in left], self.period.at)
            screens |= dict(zip(left, answers, strict=True))
            left = [place for place in left if screens[place].deferred]
        return [screens[place] for place in range(len(requests))]


def _held_back(answer: Eligibility, one: Looked, diagnosis: Diagnosis) -> Eligibility:
    """The answer without what the controller would not do: it acts on a look that is complete, and on DLJobs alone."""
    if answer.eligible and diagnosis.unknown is not None:
        return Eligibility(eligible=False, why=f"its present state is unknown: {UNKNOWN[diagnosis.unknown]}")
    if answer.eligible and not one.workload.ours:
        why = f"the controller never reclaims it, because no DLJob owns it; a DLJob would be reclaimable: {answer.why}"
        return Eligibility(eligible=False, why=why)
    return answer


def _hangs_on_screen(one: Looked, job: Candidate, now: datetime) -> bool:
    """Whether the job runs and has a cause to be reclaimed."""
    return job.untouchable is None and reclaimable_cause(job, one.workload.policy, now) is not None


def _running(facts: JobFacts, start: datetime | None) -> JobFacts:
    """The facts as if all pods had started then, each with a rank of its own, and none had ended."""
    pods = enumerate((*facts.former_pods, *facts.pods))
    alive = tuple(replace(pod, rank=rank, started_at=start, finished_at=None) for rank, pod in pods)
    return replace(facts, pods=alive, former_pods=())


def _off(policy: EffectivePolicy) -> frozenset[str]:
    return frozenset(name for name, setting in policy.rules.items() if setting.action is Action.OFF)


__all__ = ["CONCURRENCY", "NOT_LOOKED_AT", "Looked", "Looker", "ReadPeriod"]
