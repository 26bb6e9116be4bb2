"""The metrics tick: one screen of the whole cluster, then a closer look at a few jobs in rotation.

Its cost does not grow with one query a job: screening takes a fixed handful of queries for each idle window in use, and
only EXAMINED jobs a tick are read in full, those that waited longest first.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from stoker.adapters.clock import Clock
from stoker.catalogue import diagnosis_rules
from stoker.controller.looks import Look, Looks
from stoker.controller.manifests import Manifests
from stoker.controller.meter import UNMETERED, Meter
from stoker.controller.policies import Policies
from stoker.controller.queue import WorkQueue
from stoker.controller.reclaiming import unknown
from stoker.controller.reconcile import FINAL
from stoker.controller.store import Key, Store
from stoker.diagnosis import diagnose, idleness
from stoker.models.diagnosis import Diagnosis, Idleness
from stoker.models.dljob import DLJob
from stoker.models.policy import EffectivePolicy
from stoker.models.screen import MetricsSource, MetricsUnavailable, Screen, step_for
from stoker.models.series import JobFacts
from stoker.models.vocabulary import Action, Phase, UnknownReason
from stoker.reclaim import idle_after
from stoker.workload import job_facts

logger = logging.getLogger(__name__)

WINDOWS = 4
"""Idle windows screened in one tick. Jobs with another one are judged by the next longer: they count as idle later,
never earlier.
"""
EXAMINED = 20
"""Jobs examined in one tick."""
SCREEN_TIMEOUT = 20.0
FAILURES = 3
"""Examinations that may fail before the tick gives up."""
EXAMINE_TIMEOUT = 20.0
TICK_LATE = 600.0
"""Seconds beyond the interval after which the scan counts as hung: every query in a tick has its own, shorter limit."""
FINAL_LOOK = timedelta(days=7)
"""How long after its end a job may still get its final examination: the operator may have been down for a while."""
SETTLED = timedelta(minutes=2)
"""How long after a job's end its last samples may still arrive: it is examined at its end, and once more then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One job to be looked at in this tick."""

    key: Key
    job: DLJob
    facts: JobFacts
    policy: EffectivePolicy
    window: timedelta
    is_final: bool


class Scanner:
    """Looks at the metrics every `interval` and has the jobs looked at reconciled."""

    def __init__(
        self,
        store: Store,
        queue: WorkQueue[Key],
        looks: Looks,
        metrics: MetricsSource,
        policies: Policies,
        manifests: Manifests,
        clock: Clock,
        *,
        interval: timedelta,
        meter: Meter = UNMETERED,
    ) -> None:
        self._meter = meter
        self._store = store
        self._queue = queue
        self._looks = looks
        self._metrics = metrics
        self._policies = policies
        self._manifests = manifests
        self._clock = clock
        self._interval = interval
        self._last_tick = clock.monotonic()
        self._examined: dict[str, float] = {}
        """Of each job: when it was examined last, by the steady clock."""

    async def run(self) -> None:
        """Tick for ever. A tick that fails is logged, and the next one comes."""
        while True:
            started = self._clock.monotonic()
            failed = False
            try:
                await self.tick()
            except Exception:
                logger.exception("the metrics tick failed")
                failed = True
            self._last_tick = self._clock.monotonic()
            self._meter.ticked(self._last_tick - started, failed=failed)
            await asyncio.sleep(max(self._interval.total_seconds() - (self._clock.monotonic() - started), 0.1))

    def stalled(self) -> str | None:
        """Says so when no tick has ended for much longer than one may take."""
        late = self._clock.monotonic() - self._last_tick - self._interval.total_seconds()
        return f"no look at the metrics for {late:.0f} s" if late > TICK_LATE else None

    async def tick(self) -> None:
        """Look once at everything."""
        uids = [raw["metadata"]["uid"] for raw in self._store.dljobs]
        self._looks.keep_only(uids)
        self._manifests.keep_only(uids)
        self._examined = {uid: when for uid, when in self._examined.items() if uid in set(uids)}
        subjects = list(self._subjects())
        if not subjects:
            return
        answers = await self._screen(subjects)
        for subject in subjects:
            known = self._looks.get(subject.job.uid)
            diagnosis = known.diagnosis if known is not None else None
            self._looks.put(subject.job.uid, Look(idleness=answers[subject.key], diagnosis=diagnosis))
        if any(answer.reason is not UnknownReason.PROMETHEUS_UNAVAILABLE for answer in answers.values()):
            await self._examine(subjects, answers)
        for subject in subjects:
            self._queue.add(subject.key)

    def _subjects(self) -> Iterator[Subject]:
        """The jobs that hold GPUs, and those that ended lately without a final look."""
        now = self._clock.now()
        for key, raw in list(self._store.dljobs.objects.items()):
            status = raw.get("status", {})
            phase = status.get("phase")
            if phase not in {Phase.STARTING, Phase.RUNNING, *FINAL} or "deletionTimestamp" in raw["metadata"]:
                continue
            try:
                job = DLJob.model_validate(raw)
            except ValidationError:
                continue
            is_final = phase in FINAL
            if job.gpus == 0 or (is_final and not _wants_final_look(job, now)):
                continue
            pods = self._store.pods_of(key, status.get("jobUID", ""))
            child = self._store.jobs.get(key)
            facts = job_facts(job, pods, self._manifests.program(job), child=child, now=_end(job) or now)
            if is_final and not _has_started(facts):
                continue
            policy = self._policies.of(key.namespace)
            yield Subject(
                key=key,
                job=job,
                facts=facts,
                policy=policy,
                window=idle_after(job.idle_after, policy),
                is_final=is_final,
            )

    async def _screen(self, subjects: Sequence[Subject]) -> dict[Key, Idleness]:
        """Whether each job is idle, by a screen over its window or a longer one."""
        now = self._clock.now()
        windows = _chosen({subject.window for subject in subjects})
        screens: dict[timedelta, Screen | MetricsUnavailable] = {}
        for window in windows:
            try:
                async with asyncio.timeout(SCREEN_TIMEOUT):
                    screens[window] = await self._metrics.screen(window, now)
            except TimeoutError:
                late = f"no answer within {SCREEN_TIMEOUT:g} s"
                screens[window] = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, late)
                logger.warning("no metrics: %s", late)
            except MetricsUnavailable as unavailable:
                logger.warning("no metrics: %s", unavailable.message)
                screens[window] = unavailable
        answers: dict[Key, Idleness] = {}
        for subject in subjects:
            screen = screens[next(window for window in windows if window >= subject.window)]
            if isinstance(screen, MetricsUnavailable):
                answers[subject.key] = unknown(screen, now)
                continue
            answers[subject.key] = idleness(
                subject.facts,
                screen,
                window=subject.window,
                min_coverage_percent=subject.policy.thresholds.min_coverage_percent,
                idle_percent=subject.policy.thresholds.idle_percent,
                now=self._clock.now(),
            )
        return answers

    async def _examine(self, subjects: Sequence[Subject], answers: Mapping[Key, Idleness]) -> None:
        """Read some jobs' series in full: final looks first, once; then jobs on the way to being reclaimed, whose
        cause must not be an old one; then whoever waited longest.
        """
        never = -1.0

        def urgency(subject: Subject) -> tuple[bool, bool, float]:
            last = self._examined.get(subject.job.uid, never)
            reclaim = subject.job.status.reclaim if subject.job.status is not None else None
            is_warned = reclaim is not None and reclaim.deadline is not None
            return not (subject.is_final and last == never), not is_warned, last

        order = sorted(
            (subject for subject in subjects if subject.facts.pods and _has_started(subject.facts)), key=urgency
        )
        failures = 0
        for subject in order[:EXAMINED]:
            try:
                diagnosis = await self._diagnose(subject)
            except (MetricsUnavailable, TimeoutError) as error:
                logger.warning("%s: not examined: %s", subject.key, error)
                self._meter.examined("unavailable")
                failures += 1
                if failures == FAILURES:  # not this job's fault, then
                    return
                continue
            except Exception:
                logger.exception("%s: the examination failed", subject.key)
                self._meter.examined("failed")
                continue
            finally:
                self._examined[subject.job.uid] = self._clock.monotonic()
            self._meter.examined("done")
            self._looks.put(subject.job.uid, Look(idleness=answers[subject.key], diagnosis=diagnosis))

    async def _diagnose(self, subject: Subject) -> Diagnosis:
        facts, now = subject.facts, self._clock.now()
        start = min(_starts(facts))
        ends = [pod.finished_at for pod in facts.pods]
        end = max((end for end in ends if end is not None), default=now) if all(ends) else now
        async with asyncio.timeout(EXAMINE_TIMEOUT):
            series = await self._metrics.series(facts, start, max(end, start), step_for(end - start))
        verdict = await self._manifests.review(subject.job)
        # Arithmetic over thousands of points would hold up the watches.
        off = frozenset(
            rule.name for rule in diagnosis_rules() if subject.policy.action(rule.name, Action.WARN) is Action.OFF
        )
        thresholds = subject.policy.thresholds
        return await asyncio.to_thread(diagnose, facts, series, verdict.findings, thresholds, now, off=off)


def _end(job: DLJob) -> datetime | None:
    return job.status.completion_time if job.status is not None else None


def _wants_final_look(job: DLJob, now: datetime) -> bool:
    """Whether a job that is over has not been looked at since its end, or since its last samples have arrived."""
    status, end = job.status, _end(job)
    if status is None or end is None or now - end > FINAL_LOOK:
        return False
    as_of = status.utilization.as_of if status.utilization is not None else None
    return as_of is None or as_of < end or as_of < end + SETTLED <= now


def _has_started(facts: JobFacts) -> bool:
    return any(True for _ in _starts(facts))


def _starts(facts: JobFacts) -> Iterator[datetime]:
    """When containers of the job were started, as far as that is known."""
    for pod in (*facts.pods, *facts.former_pods):
        starts = (*(attempt.started_at for attempt in pod.attempts), pod.started_at)
        yield from (start for start in starts if start is not None)


def _chosen(wanted: set[timedelta]) -> list[timedelta]:
    """At most WINDOWS of the wanted windows, the longest among them, spread evenly."""
    ordered = sorted(wanted)
    if len(ordered) <= WINDOWS:
        return ordered
    return sorted({ordered[-1 - (place * len(ordered)) // WINDOWS] for place in range(WINDOWS)})
