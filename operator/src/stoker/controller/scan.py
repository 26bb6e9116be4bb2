"""The scan: at each tick it screens all jobs' metrics and examines the full series of a few jobs.

Used by the controller's assembly. A screen takes a handful of queries, whatever the number of jobs and of idle windows;
at most EXAMINED jobs a tick are examined, by two queries each (controller/examination_scheduler.py chooses them).
"""

import asyncio
import gc
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import Object
from stoker.adapters.kubernetes.pod_logs import PodLogs
from stoker.api.status import WorkloadStatus
from stoker.catalogue import diagnosis_rules
from stoker.cluster.cache import Key
from stoker.cluster.faults import Faults
from stoker.cluster.recorder import MetricsRecorder
from stoker.cluster.workqueue import Transient
from stoker.controller.brake import Brakes
from stoker.controller.event_loop import LoopYielder
from stoker.controller.examination_scheduler import ExaminationPriority, ExaminationScheduler, round_robin
from stoker.controller.hysteresis import is_look_due
from stoker.controller.reclaimer import unknown
from stoker.controller.scan_results import ScanResult, ScanResults
from stoker.controller.scanned_job import ScannedJob, ScanSource
from stoker.diagnosis.idleness import STALE_AFTER, has_worked, idleness, works
from stoker.diagnosis.job import diagnose
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from stoker.findings.vocabulary import Action, Source, UnknownReason
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.brake import JobActivity
from stoker.telemetry.screen import MetricsSource, MetricsUnavailable, Screen, step_for

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

EXAMINED = 20
"""Jobs examined in one tick. Each examination takes two queries."""
EXAMINE_SECONDS = 20.0
"""Seconds after which a tick begins no further examination, so that the next screen is on time."""
EXAMINE_TIMEOUT = 20.0
"""Seconds that one examination may take."""
FAILURES = 3
"""Failed examinations of one namespace's jobs after which a tick skips that namespace. When the examinations of this
many namespaces have failed, the tick examines no further job: the cause is the metrics, not the jobs.
"""
SCREEN_TIMEOUT = 30.0
"""Seconds that all queries of a screen may take together. Each query has a shorter timeout of its own."""
MANY = 1_000
"""Jobs read anew in one tick, as after a start, from which the garbage collector is made to skip their objects
(gc.freeze).
"""
TICK_LATE = 600.0
"""Seconds beyond the interval without the end of a tick, after which the scan counts as hung. Every query in a tick has
a shorter timeout.
"""
FAILING = 3
"""Failed ticks in a row after which every job's idleness becomes Unknown (ScanFailed)."""
NOT_READY_AFTER = 300.0
"""Seconds beyond the interval without a successful tick, after which the controller is not ready."""
RESTART_AFTER = 1800.0
"""Seconds beyond the interval without a successful tick, after which the controller is not live and the kubelet
restarts it. The cause may be something that it holds in memory.
"""
FINAL_EXAMINATION = timedelta(days=7)
"""How long after its end a job still gets its final examination. Covers a time in which the operator was down."""
SETTLED = timedelta(minutes=2)
"""How long after a job's end its last samples may arrive. A job is examined at its end and once more after this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenResult:
    """The outcome of a screen for one job.

    is_low: the mean utilization of its pods in the last minutes is low. works: some GPU works now; None where unknown.
    has_worked: some GPU worked within the window.
    """

    idleness: Idleness
    is_low: bool = False
    works: bool | None = None
    has_worked: bool = False


class Scanner:
    """Scans all jobs' metrics every `interval`, writes the results to ScanResults and queues the jobs whose result has
    changed.
    """

    def __init__(
        self,
        sources: Sequence[ScanSource],
        scan_results: ScanResults,
        metrics: MetricsSource,
        clock: Clock,
        *,
        interval: timedelta,
        brakes: Brakes,
        recorder: MetricsRecorder,
        faults: Faults,
        logs: PodLogs | None,
    ) -> None:
        """`brakes` get the jobs' activity of each screen before its results are published. `logs` reads trainers' logs
        in the namespaces whose policy sets readLogs; None: no log is read.
        """
        self._faults = faults
        self._brakes = brakes
        self._recorder = recorder
        self._logs = logs
        self._sources = sources
        self._scan_results = scan_results
        self._metrics = metrics
        self._clock = clock
        self._interval = interval
        self._last_tick = self._last_success = clock.monotonic()
        self._failed_in_a_row = 0
        self._scheduler = ExaminationScheduler()
        self._source_of: dict[str, tuple[ScanSource, Key]] = {}
        """Where each object comes from, by uid."""
        self._known: dict[str, ScannedJob] = {}
        """The jobs of the previous tick, by uid."""
        self._left_out: set[str] = set()
        """The uids of the jobs whose reading has raised an exception in the present tick."""
        self._checked_at: dict[str, float] = {}
        """The time of each job's last detailed check, by the monotonic clock and by the job's uid."""

    async def run(self) -> None:
        """Tick until cancelled. A failed tick is logged and does not end the loop."""
        while True:
            started = self._clock.monotonic()
            succeeded = await self.try_to_tick()
            self._recorder.ticked(self._last_tick - started, failed=not succeeded)
            await asyncio.sleep(max(self._interval.total_seconds() - (self._clock.monotonic() - started), 0.1))

    async def try_to_tick(self) -> bool:
        """Run one tick; False when it failed. After FAILING failures in a row every job's idleness becomes Unknown."""
        try:
            await self.tick()
        except Exception:
            logger.exception("the scan of the metrics failed")
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= FAILING:
                self._report_scan_failure()
            return False
        else:
            self._failed_in_a_row = 0
            self._last_success = self._clock.monotonic()
            return True
        finally:
            self._last_tick = self._clock.monotonic()

    def _report_scan_failure(self) -> None:
        """Make every job's idleness Unknown, since the last results are too old to act on."""
        message = "Stoker's scan of the metrics fails for all jobs; see the controller's log"
        failed = Idleness(
            state=IdlenessState.UNKNOWN,
            observed_at=self._clock.now(),
            reason=UnknownReason.SCAN_FAILED,
            message=message,
        )
        for uid, (source, key) in self._source_of.items():
            before = self._scan_results.get(uid)
            if before is not None:
                self._scan_results.put(uid, ScanResult(idleness=failed, diagnosis=before.diagnosis))
                if before.idleness.reason is not UnknownReason.SCAN_FAILED:
                    source.queue(key)

    def stalled(self) -> str | None:
        """For the liveness probe: why the process must be restarted, or None. See TICK_LATE and RESTART_AFTER."""
        now, interval = self._clock.monotonic(), self._interval.total_seconds()
        if (late := now - self._last_tick - interval) > TICK_LATE:
            return f"no scan of the metrics for {late:.0f} s"
        late = now - self._last_success - interval
        return f"every scan of the metrics has failed for {late:.0f} s" if late > RESTART_AFTER else None

    def failing(self) -> str | None:
        """For the readiness probe: why the scan does not work, or None. See NOT_READY_AFTER."""
        late = self._clock.monotonic() - self._last_success - self._interval.total_seconds()
        return f"no scan of the metrics has succeeded for {late:.0f} s" if late > NOT_READY_AFTER else None

    async def tick(self) -> None:
        """Screen all jobs, examine a few, and queue the jobs that have news. An exception that one job causes affects
        the result of that job only.
        """
        uids = self._list()
        self._scan_results.keep_only(uids)
        self._known = {uid: job for uid, job in self._known.items() if uid in uids}
        self._checked_at = {uid: when for uid, when in self._checked_at.items() if uid in uids}
        before = {uid: self._scan_results.get(uid) for uid in uids}
        self._left_out = set()
        subjects = await self._subjects()
        if any([await source.settle() for source in self._sources]):
            subjects = await self._subjects()  # again, with the manifests that were read in between
        seen = await self._screen(subjects)
        await self._update_brakes(seen)
        for subject, answer in seen:
            known = before[subject.uid]
            diagnosis = known.diagnosis if known is not None else None
            self._scan_results.put(subject.uid, ScanResult(idleness=answer.idleness, diagnosis=diagnosis))
        if any(answer.idleness.reason is not UnknownReason.PROMETHEUS_UNAVAILABLE for _, answer in seen):
            await self._examine(seen)
        due = {subject.uid for subject in subjects if _is_observation_due(subject, self._scan_results.get(subject.uid))}
        for uid in {subject.uid for subject in subjects} | self._left_out:
            if uid in due or _is_news(before.get(uid), self._scan_results.get(uid)):
                source, key = self._source_of[uid]
                source.queue(key)

    def _list(self) -> set[str]:
        """The uids of all objects; sources forget all others."""
        self._source_of = {
            raw["metadata"]["uid"]: (source, key) for source in self._sources for key, raw in source.objects()
        }
        for source in self._sources:
            source.keep_only({uid for uid, (of, _) in self._source_of.items() if of is source})
        return set(self._source_of)

    async def _each(self, place: str, items: Iterable[tuple[Key, str, T]], work: Callable[[T], R]) -> list[tuple[T, R]]:
        """Apply `work` to each item and return the pairs of item and result. An item for which `work` raises is left
        out, and its job's idleness becomes Unknown.

        `items` come with their object's key and uid. `place` names this loop for Faults; no other loop may use the same
        name, because a success clears the fault recorded under it. The loop yields to the event loop in between.
        """
        made: list[tuple[T, R]] = []
        yielder = LoopYielder()
        for key, uid, item in items:
            await yielder.yield_if_due()
            try:
                made.append((item, work(item)))
            except Exception as error:
                self._leave_out(place, key, uid, error)
            else:
                self._faults.passed(place, str(key))
        return made

    def _leave_out(self, place: str, key: Key, uid: str, error: Exception) -> None:
        words = self._faults.caught(place, str(key), error)
        idleness = Idleness(
            state=IdlenessState.UNKNOWN,
            observed_at=self._clock.now(),
            reason=UnknownReason.INTERNAL_ERROR,
            message=f"Stoker fails to read this job's objects or metrics ({words})",
        )
        known = self._scan_results.get(uid)
        self._scan_results.put(
            uid, ScanResult(idleness=idleness, diagnosis=known.diagnosis if known is not None else None)
        )
        self._left_out.add(uid)

    async def _subjects(self) -> list[ScannedJob]:
        """The jobs that hold GPUs and the ended jobs that still need a final examination. A job whose objects have not
        changed is taken from the previous tick.
        """
        now = self._clock.now()
        subjects: list[ScannedJob] = []
        for source in self._sources:
            read = await self._each(
                "scan",
                (
                    (key, uid, (key, raw))
                    for key, raw in source.objects()
                    # What has appeared within this tick is read in the next one.
                    if (uid := raw["metadata"]["uid"]) in self._source_of
                ),
                partial(_read, source, now),
            )
            subjects += [subject for _, subject in read if subject is not None]
        if sum(self._known.get(subject.uid) is not subject for subject in subjects) >= MANY:
            # These objects live for hours and hold no reference cycles, so the garbage collector can skip them.
            gc.freeze()
        self._known = {subject.uid: subject for subject in subjects}
        return [subject for subject in subjects if not subject.is_final or _wants_final_examination(subject, now)]

    # ---------------------------------------------------------------------------------------------------- screening

    async def _screen(self, subjects: Sequence[ScannedJob]) -> list[tuple[ScannedJob, ScreenResult]]:
        """Screen these jobs with one set of queries. Without metrics every job's idleness is Unknown."""
        now, steady = self._clock.now(), self._clock.monotonic()
        # The metrics source checks only a limited number of resting jobs in detail. Warned jobs come first, then those
        # whose last detailed check is the oldest. Round-robin keeps a namespace with thousands of jobs from delaying
        # the others.
        waiting = sorted(
            (subject for subject in subjects if not subject.is_final),
            key=lambda subject: (not subject.is_warned, self._checked_at.get(subject.uid, -math.inf)),
        )
        asked = round_robin(waiting, lambda subject: subject.key.namespace)
        requests = await self._each("request", _by_job(asked), lambda subject: subject.screen_request(now))
        screens: Mapping[str, Screen] = {}
        failure: MetricsUnavailable | None = None
        try:
            if requests:
                async with asyncio.timeout(SCREEN_TIMEOUT):
                    answers = await self._metrics.screen([request for _, request in requests], now)
                screens = {subject.uid: screen for (subject, _), screen in zip(requests, answers, strict=True)}
        except TimeoutError:
            late = f"no answer within {SCREEN_TIMEOUT:g} s"
            failure = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, late)
        except MetricsUnavailable as unavailable:
            failure = unavailable
        there = [subject for subject in subjects if subject.uid not in self._left_out]
        if failure is not None:
            logger.warning("no metrics: %s", failure.message)
            nothing = ScreenResult(idleness=unknown(failure, now))
            return [(subject, nothing) for subject in there]
        return await self._each("screen", _by_job(there), lambda subject: self._screen_result(subject, screens, steady))

    def _screen_result(self, subject: ScannedJob, screens: Mapping[str, Screen], steady: float) -> ScreenResult:
        # A job that is over is not part of the query; an empty screen is enough for it.
        screen = screens.get(subject.uid) or Screen(at=self._clock.now(), window=subject.window)
        if screen.gpus:
            self._checked_at[subject.uid] = steady
        idle_percent = subject.policy.thresholds.idle_percent
        return ScreenResult(
            idleness=self._idleness(subject, screen),
            is_low=_looks_low(subject, screen),
            works=works(subject.facts, screen, idle_percent=idle_percent),
            has_worked=has_worked(subject.facts, screen, idle_percent=idle_percent),
        )

    async def _update_brakes(self, seen: Sequence[tuple[ScannedJob, ScreenResult]]) -> None:
        """Report to the brakes which jobs work and which are idle, without those that Stoker reclaims itself."""
        now = self._clock.now()
        counted = [
            (subject.key, subject.uid, (subject, answer))
            for subject, answer in seen
            if not subject.is_final and not subject.is_being_reclaimed
        ]
        shown = await self._each("brake", counted, lambda one: self._policy_and_activity(*one, now))
        await self._brakes.scanned([activity for _, activity in shown if activity is not None])

    def _policy_and_activity(
        self, subject: ScannedJob, seen: ScreenResult, now: datetime
    ) -> tuple[EffectivePolicy, JobActivity] | None:
        """The job's policy and its activity for the brake; None for a service, which is idle at night."""
        return None if subject.serves else (subject.policy, _activity(subject, seen, now))

    def _idleness(self, subject: ScannedJob, screen: Screen) -> Idleness:
        now = self._clock.now()
        known = self._scan_results.get(subject.uid)
        if screen.deferred and known is not None and _holds(known.idleness, subject, now):
            return known.idleness
        return idleness(
            subject.facts,
            screen,
            window=subject.window,
            min_coverage_percent=subject.policy.thresholds.min_coverage_percent,
            idle_percent=subject.policy.thresholds.idle_percent,
            now=now,
        )

    # --------------------------------------------------------------------------------------------------- examination

    async def _examine(self, seen: Sequence[tuple[ScannedJob, ScreenResult]]) -> None:
        """Examine the most urgent jobs, at most EXAMINED of them and within EXAMINE_SECONDS."""
        by_uid = {
            subject.uid: (subject, answer)
            for subject, answer in seen
            if subject.facts.pods and any(True for _ in subject.starts)
        }
        items = ((subject.key, uid, (subject, answer)) for uid, (subject, answer) in by_uid.items())
        ranked = await self._each("turn", items, lambda one: self._priority(*one))
        priorities = {subject.uid: priority for (subject, _), priority in ranked}
        namespaces = {uid: subject.key.namespace for uid, (subject, _) in by_uid.items()}
        started = self._clock.monotonic()
        failures: Counter[str] = Counter()
        examined = 0
        for uid in self._scheduler.order(priorities, namespaces, started):
            subject, answer = by_uid[uid]
            is_late = self._clock.monotonic() - started > EXAMINE_SECONDS
            if is_late or examined == EXAMINED or len(failures) == FAILURES:
                return
            if failures[subject.key.namespace] >= FAILURES:
                continue
            examined += 1
            diagnosis: Diagnosis | None = None
            try:
                diagnosis = await self._diagnose(subject)
            except Transient as error:
                logger.info("%s: not examined: %s", subject.key, error)
                self._recorder.examined("unavailable")
            except (MetricsUnavailable, TimeoutError) as error:
                logger.warning("%s: not examined: %s", subject.key, error)
                self._recorder.examined("unavailable")
                failures[subject.key.namespace] += 1
            except Exception as error:
                self._faults.caught("examination", str(subject.key), error)
                self._recorder.examined("failed")
            else:
                failures.clear()
                self._recorder.examined("done")
                self._faults.passed("examination", str(subject.key))
                self._scan_results.put(uid, ScanResult(idleness=answer.idleness, diagnosis=diagnosis))
            fruitful = diagnosis is not None and diagnosis.unknown is None
            self._scheduler.examined(uid, self._clock.monotonic(), fruitful=fruitful)

    def _priority(self, subject: ScannedJob, seen: ScreenResult) -> ExaminationPriority:
        if subject.is_final:
            return ExaminationPriority.ENDED
        if subject.is_warned:
            return ExaminationPriority.DUE if self._scan_results.is_wanted(subject.uid) else ExaminationPriority.WARNED
        if seen.idleness.state is IdlenessState.IDLE:
            return ExaminationPriority.IDLE
        known = self._scan_results.get(subject.uid)
        if _is_in_doubt(subject.status, known.diagnosis if known is not None else None):
            return ExaminationPriority.IDLE
        used = known.diagnosis.utilization if known is not None and known.diagnosis is not None else None
        was_low = used is not None and used.is_low(subject.policy.thresholds.low_percent) is True
        return ExaminationPriority.LOW if seen.is_low or was_low else ExaminationPriority.OTHER

    async def _diagnose(self, subject: ScannedJob) -> Diagnosis:
        facts, now = subject.facts, self._clock.now()
        start = min(subject.starts)
        ends = [pod.finished_at for pod in facts.pods]
        end = max((end for end in ends if end is not None), default=now) if all(ends) else now
        async with asyncio.timeout(EXAMINE_TIMEOUT):
            series = await self._metrics.series(facts, start, max(end, start), step_for(end - start))
        if self._logs is not None and subject.policy.analysis.read_logs:
            series = replace(series, marks=await self._logs.marks(facts))
        source, _ = self._source_of[subject.uid]
        static = await source.manifest_findings(subject)
        # In a thread: arithmetic over thousands of points would block the event loop, which serves the watches.
        off = frozenset(
            rule.name for rule in diagnosis_rules() if subject.policy.action(rule.name, Action.WARN) is Action.OFF
        )
        thresholds = subject.policy.thresholds
        return await asyncio.to_thread(diagnose, facts, series, static, thresholds, now, off=off)


def _read(source: ScanSource, now: datetime, item: tuple[Key, Object]) -> ScannedJob | None:
    return source.read(*item, now)


def _by_job(subjects: Iterable[ScannedJob]) -> Iterator[tuple[Key, str, ScannedJob]]:
    return ((subject.key, subject.uid, subject) for subject in subjects)


def _is_observation_due(subject: ScannedJob, scan_result: ScanResult | None) -> bool:
    status = subject.status
    if scan_result is None or status is None or status.looked_at is None or subject.is_final:
        return False
    return is_look_due(subject.uid, status.looked_at, scan_result.idleness.observed_at)


def _is_in_doubt(status: WorkloadStatus | None, diagnosis: Diagnosis | None) -> bool:
    """Whether the status has an open finding from metrics that this process's last examination, if any, did not show.
    Further examinations close the finding or confirm it.
    """
    shown = {finding.rule for finding in diagnosis.findings} if diagnosis is not None else set()
    findings = status.findings if status is not None else ()
    return any(one.until is None and Source.METRICS in one.sources and one.rule not in shown for one in findings)


def _wants_final_examination(job: ScannedJob, now: datetime) -> bool:
    """Whether a job that is over needs another examination: none has come since its end, or since its last samples
    arrived (SETTLED).
    """
    status, end = job.status, job.ended_at
    if status is None or end is None or now - end > FINAL_EXAMINATION:
        return False
    as_of = status.utilization.as_of if status.utilization is not None else None
    return as_of is None or as_of < end or as_of < end + SETTLED <= now


def _activity(subject: ScannedJob, seen: ScreenResult, now: datetime) -> JobActivity:
    """The job's activity as the brake counts it. `worked` matters only for a job that the brake has not seen before."""
    status, window = subject.status, subject.policy.reclaim.window
    start = max(subject.starts, default=now)
    if seen.idleness.state is IdlenessState.IDLE:
        since = seen.idleness.since
        worked = since is not None and since > start
    else:
        # The status' mean covers the whole life, also the time before a resume. It counts only for a job that has run
        # for a whole window since its last start.
        used = status.utilization.average_percent if status is not None and status.utilization else None
        since, worked = None, seen.has_worked or (bool(used) and now - start >= window)
    return JobActivity(
        job_uid=subject.uid,
        job=str(subject.key),
        gpus=subject.gpus,
        works=seen.works,
        idle_since=since,
        worked=worked,
    )


def _looks_low(subject: ScannedJob, screen: Screen) -> bool:
    """Whether the mean utilization of its pods in the last minutes is at or below the policy's lowPercent."""
    summaries = (screen.summaries.get((subject.facts.namespace, pod.name)) for pod in subject.facts.pods)
    averages = [one.average_percent for one in summaries if one is not None and one.average_percent is not None]
    return bool(averages) and sum(averages) / len(averages) <= subject.policy.thresholds.low_percent


def _holds(known: Idleness, subject: ScannedJob, now: datetime) -> bool:
    """Whether the last detailed check found the same pods idle and is not older than STALE_AFTER."""
    same = known.pod_uids == frozenset(pod.uid for pod in subject.facts.pods)
    return known.state is IdlenessState.IDLE and same and now - known.observed_at <= STALE_AFTER


def _is_news(before: ScanResult | None, after: ScanResult | None) -> bool:
    """Whether the job must be reconciled. An idle job always is, because a reclaim step may be due."""
    if before is None or after is None or after.idleness.state is IdlenessState.IDLE:
        return True
    if before.diagnosis is not after.diagnosis:
        return True
    return (before.idleness.state, before.idleness.reason) != (after.idleness.state, after.idleness.reason)
