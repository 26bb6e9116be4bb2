"""Looks at jobs one by one: reads their series, diagnoses them, and asks whether they may be reclaimed."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoker.cli.diagnosis.workload import Workload, as_of, began, ended
from stoker.diagnosis import diagnose, idleness
from stoker.diagnosis.timeline import Timeline, timeline
from stoker.models.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.models.policy import EffectivePolicy
from stoker.models.screen import MetricsSource, MetricsUnavailable, Screen, step_for
from stoker.models.series import JobFacts
from stoker.models.vocabulary import Action, Severity, UnknownReason
from stoker.reclaim import Candidate, Eligibility, candidate, eligibility, idle_after, presumed
from stoker.reclaim.decision import reclaimable_cause
from stoker.subjects.extent import extents, lived
from stoker.subjects.wording import clock

logger = logging.getLogger(__name__)

CONCURRENCY = 4
"""Jobs whose series are read at a time."""
FAILURES = 3
"""Jobs in a row that the metrics' source does not answer for before it is not asked any more."""
SEARCH = timedelta(days=14)
"""How far back the samples of a job are sought that nobody says the start of."""

NOT_LOOKED_AT = Eligibility(eligible=False, why="not looked at")
UNSEEN = Diagnosis(utilization=None, unknown=UnknownReason.NO_SAMPLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
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
    """What is said of one job. `diagnosis` is None with an `error`; `since` and `until` bound what was looked at."""

    workload: Workload
    facts: JobFacts
    eligibility: Eligibility
    diagnosis: Diagnosis | None = None
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


@dataclass(slots=True, kw_only=True)
class Looker:
    """Looks at jobs through a metrics' source. `columns`: the width of a picture of each; None for no picture."""

    source: MetricsSource
    period: Period
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
            return replace(failed, error="not asked for: there was no answer for the jobs before")
        try:
            facts, notes = await self._placed(workload, facts)
            looked = await self._examined(workload, facts, (*workload.notes, *notes))
        except MetricsUnavailable as unavailable:
            self._failures += 1
            return replace(failed, error=unavailable.message)
        except Exception as fault:  # a fault of ours with one job is not the others'
            logger.debug("%s/%s can't be looked at", facts.namespace, facts.name, exc_info=fault)
            return replace(failed, error=f"a fault of Stoker's: {type(fault).__name__}: {fault}")
        self._failures = 0
        return looked

    async def _placed(self, workload: Workload, facts: JobFacts) -> tuple[JobFacts, tuple[str, ...]]:
        """The facts with the bounds of the pods' lives, sought in their samples where nobody has told them: first from
        afar, then closely.
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
                return _running(facts, None), (f"no samples of its pods from {clock(begin)} to {clock(end)}",)
            begin = max(begin, min(first for first, _ in seen.values()))
            end = min(end, max(last for _, last in seen.values()))
        found = lived(facts, seen, at, starts=not workload.start_known, ends=not workload.end_known)
        notes = []
        if not workload.start_known:
            notes.append(f"its start is taken from its first sample, at {clock(began(found) or begin)}")
        if not workload.end_known and (over := ended(found)) is not None:
            notes.append(f"its end is taken from its last sample, at {clock(over)}")
        return found, tuple(notes)

    async def _examined(self, workload: Workload, facts: JobFacts, notes: tuple[str, ...]) -> Looked:
        at = self.period.at
        nothing = Looked(workload=workload, facts=facts, eligibility=NOT_LOOKED_AT, diagnosis=UNSEEN, notes=notes)
        start, end = began(facts), ended(facts) or at
        if start is None:
            waits = next((pod.waiting_for for pod in facts.pods if pod.waiting_for), None)
            said = (f"no container has started: {waits}" if waits else "no container has started",)
            return nothing if not workload.start_known else replace(nothing, notes=(*notes, *said))
        since = max(start, self.period.start or start)
        if since >= end:
            ran = f"it ran from {clock(start)} to {clock(end)}, outside the time asked for"
            return replace(nothing, notes=(*notes, ran))
        if since > start:
            notes = (*notes, f"only looked at from {clock(since)} on: it began at {clock(start)}")
        if self.period.end is not None and end == at:
            notes = (*notes, f"looked at as of {clock(at)}")
        series = await self.source.series(facts, since, end, step_for(end - since))
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
        """Whether the jobs may be reclaimed. The cluster is screened, as the controller does, only where a job stands
        or falls by it.
        """
        at = self.period.at
        candidates = {id(one): _candidate(one, one.diagnosis) for one in looked if one.diagnosis is not None}
        windows = {
            idle_after(job.idle_after, one.workload.policy)
            for one in looked
            if (job := candidates.get(id(one))) is not None and _hangs_on_screen(one, job, at)
        }
        screens = await self._screens(windows)
        return [
            one if (job := candidates.get(id(one))) is None else self._with_eligibility(one, job, screens)
            for one in looked
        ]

    async def _screens(self, windows: Iterable[timedelta]) -> dict[timedelta, Screen | MetricsUnavailable]:
        screens: dict[timedelta, Screen | MetricsUnavailable] = {}
        for window in windows:
            try:
                screens[window] = await self.source.screen(window, self.period.at)
            except MetricsUnavailable as unavailable:
                screens[window] = unavailable
        return screens

    def _with_eligibility(
        self, one: Looked, job: Candidate, screens: Mapping[timedelta, Screen | MetricsUnavailable]
    ) -> Looked:
        at, policy, diagnosis = self.period.at, one.workload.policy, one.diagnosis
        assert diagnosis is not None  # it has a candidate
        if not _hangs_on_screen(one, job, at):
            idle = presumed(one.facts, diagnosis, at)
        else:
            window = idle_after(job.idle_after, policy)
            screen = screens[window]
            idle = Idleness(state=IdlenessState.UNKNOWN, observed_at=at)
            if isinstance(screen, MetricsUnavailable):
                idle = replace(idle, reason=screen.reason, message=screen.message)
            else:
                idle = idleness(
                    one.facts,
                    screen,
                    window=window,
                    min_coverage_percent=policy.thresholds.min_coverage_percent,
                    idle_percent=policy.thresholds.idle_percent,
                    now=at,
                )
        answer = eligibility(job, idle, policy, at)
        if answer.eligible and not one.workload.ours:
            answer = replace(answer, why=f"{answer.why}; no DLJob owns it: the controller leaves it alone")
        return replace(one, eligibility=answer)


def _candidate(one: Looked, diagnosis: Diagnosis) -> Candidate:
    workload = one.workload
    known = candidate(one.facts, diagnosis, untouchable=workload.untouchable)
    return replace(known, labels=workload.labels, snooze=workload.snooze, idle_after=workload.idle_after)


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


__all__ = ["CONCURRENCY", "Looked", "Looker", "Period"]
