"""Simulates a policy over recorded metrics: the plans that a controller would have made, in the order of time. None is
carried out. `stoker replay` runs it; tests/replay/test_stepping.py holds it against planning at every step.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from stoker.api.names import OWNER_LABEL, TEAM_LABEL
from stoker.diagnosis.idleness import idleness
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.vocabulary import ReclaimMode
from stoker.policy.effective import EffectivePolicy, JobTraits
from stoker.reclaim import (
    ACTS,
    UNCONSTRAINED,
    Candidate,
    Case,
    Execution,
    Plan,
    Record,
    Step,
    idle_after,
    last_start,
    plan,
    pod_uids,
    reclaimed,
    resumed,
)
from stoker.reclaim.action_gates import BOUNDS, BRAKE_OFF, GRACE_OVER, WARNED
from stoker.reclaim.fact_gates import CAUSE, NOT_STALLED, TOUCHABLE
from stoker.reclaim.order import SlotRequest, in_order
from stoker.replay.constraints import RESOURCE, SimulatedConstraints
from stoker.replay.examining import Examined, Examiner
from stoker.replay.screens import Screens, job_type
from stoker.telemetry.past import JobPast, key_of
from stoker.telemetry.series import JobFacts
from stoker.telemetry.usage import JobIdentity, Period

EXAMINED_EVERY = timedelta(minutes=5)
"""How often a controller examines an idle job (controller.examination_scheduler)."""
PATIENCE = 0.1
"""A job whose examinations have found no cause is examined again after this share of its idle time, if that is
longer. Chosen because what they find changes ever more slowly.
"""
REQUESTING = frozenset({None, GRACE_OVER.name, BOUNDS.name})
"""Gates of a job that nothing but time and the bounds hold back."""
UNEXPLAINED = frozenset({NOT_STALLED.name, CAUSE.name})
"""Gates of an idle job of which no cause is known yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What was not recorded, and is assumed."""

    has_persistent_volume: bool = False
    """Each job writes to a volume that outlives its pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWarning:
    """A warning that would have been given, and how it ended: `outcome` is the gate that ended it, `reclaimed`, or
    empty where the past ends before.
    """

    at: datetime
    deadline: datetime
    idle_since: datetime
    rule: str
    outcome: str = ""
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedReclaim:
    """A reclaim that would have happened.

    `given_back`: GPU-hours that the job went on to hold, until some GPU worked again (`returned_at`) or until it ended.
    `interrupted`: GPU-hours in which it worked after that, until it ended or was reclaimed again.
    """

    at: datetime
    warned_at: datetime
    idle_since: datetime
    rule: str
    mode: ReclaimMode
    given_back: float
    returned_at: datetime | None = None
    interrupted: float = 0.0

    @property
    def is_regret(self) -> bool:
        """Whether the job became active again."""
        return self.returned_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """What would have become of one job. `held_back`: GPU-hours in which it was idle and a gate held it back, by gate;
    `classed`: the policy's class that it belongs to.
    """

    identity: JobIdentity
    policy: str
    classed: str | None
    warnings: tuple[SimulatedWarning, ...] = ()
    reclaims: tuple[SimulatedReclaim, ...] = ()
    held_back: Mapping[str, float] = field(default_factory=dict)


class Simulation:
    """One policy's, or several policies', decisions over the past of some jobs."""

    def __init__(
        self,
        period: Period,
        constraints: SimulatedConstraints,
        examiner: Examiner,
        *,
        assumed: Assumed | None = None,
    ) -> None:
        self._period = period
        self._constraints = constraints
        self._examiner = examiner
        self._assumed = assumed or Assumed()
        self._replays: list[_Replay] = []

    def add(self, past: JobPast, policy: EffectivePolicy) -> None:
        """A job to be decided about."""
        self._replays.append(_Replay(past, policy, self._assumed))

    async def run(self) -> tuple[JobOutcome, ...]:
        """Go through the whole period. Raises MetricsUnavailable where a job's series can't be read."""
        waiting = [
            (one.screens.grid.time(index), number)
            for number, one in enumerate(self._replays)
            if (index := one.screens.grid.first_at(self._period.start)) < one.screens.grid.size
        ]
        heapq.heapify(waiting)
        while waiting:
            now = waiting[0][0]
            due: list[int] = []
            while waiting and waiting[0][0] == now:
                due.append(heapq.heappop(waiting)[1])
            for number in await self._tick(due, now):
                following = self._replays[number].following
                if following is not None:
                    heapq.heappush(waiting, (following, number))
        self._constraints.advance(self._period.end)
        return tuple(one.outcome() for one in self._replays)

    async def _tick(self, numbers: Iterable[int], now: datetime) -> list[int]:
        """Plan for these jobs; of those that are due the most idle first."""
        planned = sorted(numbers)
        requests: dict[str, int] = {}
        for number in planned:
            one = self._replays[number]
            if await self._visit(one, now):
                requests[one.key] = number
        own = {
            key: request for key, number in requests.items() if (request := self._replays[number].request) is not None
        }
        for request in in_order(own.values(), now):
            one = self._replays[requests[request.job_uid]]
            # Whoever went before may have taken the last slot.
            await self._visit(one, now, act=True)
        return planned

    async def _visit(self, one: "_Replay", now: datetime, *, act: bool = False) -> bool:
        """Plan for one job; whether it is due. It is reclaimed if it still is when it may `act`."""
        index = one.screens.grid.first_at(now)
        if one.resumes_at is not None:
            self._constraints.came_back(one.key)
            one.resume(now)
        if not one.screens.is_recorded(index):
            one.wait(index)
            return False
        observed = one.observe(index)
        planned = self._plan(one, observed, now)
        if one.wants_examination(planned, now):
            one.examined(await self._examiner.examine(observed.facts, one.policy, one.window, now), now)
            planned = self._plan(one, observed, now)
        is_due = planned.step in ACTS
        if is_due and act:
            request = one.request
            assert request is not None  # a warning stands
            self._constraints.take_slot(one.key, request, now)
            one.reclaim(planned, index)
            return True
        one.take(planned, observed, index, self._constraints.next_sample(now))
        self._constraints.requests(one.key, one.request)
        return is_due

    def _plan(self, one: "_Replay", observed: "_Observation", now: datetime) -> Plan:
        constraints = UNCONSTRAINED
        if observed.idle.state is IdlenessState.IDLE:
            constraints = self._constraints.of(one.key, one.request, now)
        candidate = replace(observed.candidate, findings=one.known.findings, presence=one.known.presence)
        case = Case(
            job=candidate,
            idleness=observed.idle,
            policy=one.policy,
            record=one.record,
            now=now,
            constraints=constraints,
            execution=execution(one.record, now),
        )
        return plan(case)


def execution(record: Record, now: datetime) -> Execution:
    """A controller that has examined the job just now, whose clock was never set and whose every request succeeds at
    once: what the gates of such things assume in a replay (reclaim.gate.Gate.replay).
    """
    none = timedelta(0)
    age = now - record.warned_at if record.warned_at is not None else none
    return Execution(warning_age=age, examination_age=none, check_age=none, slot_taken=True, intent_recorded=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    facts: JobFacts
    idle: Idleness
    candidate: Candidate


class _Replay:
    """Where one job stands."""

    def __init__(self, past: JobPast, policy: EffectivePolicy, assumed: Assumed) -> None:
        self.identity = past.identity
        self.key = key_of(past.identity)
        self.policy = policy
        self.screens = Screens(past, idle_percent=policy.thresholds.idle_percent)
        self.record = Record()
        self.known = Examined()
        self.following: datetime | None = None
        self.resumes_at: int | None = None
        self._assumed = assumed
        self._settings = policy.reclaim_of(self._traits)
        self.window = idle_after(None, self._traits, policy)
        self._examined_at: datetime | None = None
        self._gate: str | None = ""
        self._held_since: tuple[str, int] | None = None
        """The gate that holds back the job at rest, and since which step."""
        self._warnings: list[SimulatedWarning] = []
        self._reclaims: list[tuple[SimulatedReclaim, int, int | None]] = []
        self._held_back: dict[str, float] = defaultdict(float)

    @property
    def _traits(self) -> JobTraits:
        return JobTraits(
            job_type=job_type(self.identity.job_type),
            priority_class=self.identity.priority or None,
            gpu_product=self.identity.product or None,
            labels=self._labels,
        )

    @property
    def _labels(self) -> Mapping[str, str]:
        known = {OWNER_LABEL: self.identity.owner, TEAM_LABEL: self.identity.team}
        return {label: value for label, value in known.items() if value}

    @property
    def request(self) -> SlotRequest | None:
        """What it requests while it is warned and nothing else holds it back."""
        record = self.record
        if not record.has_warning or self._gate not in REQUESTING:
            return None
        assert record.idle_since is not None  # every warning has them
        assert record.warned_at is not None
        assert record.deadline is not None
        return SlotRequest(
            job_uid=self.key,
            job=f"{self.identity.namespace}/{self.identity.name}",
            gpus=self.identity.gpus,
            resource=RESOURCE,
            idle_since=record.idle_since,
            warned_at=record.warned_at,
            due_at=record.deadline,
        )

    # -------------------------------------------------------------------------------------------------------- looking

    def observe(self, index: int) -> _Observation:
        """What a controller would have known at a step."""
        now, facts = self.screens.grid.time(index), self.screens.facts(index)
        thresholds = self.policy.thresholds
        idle = idleness(
            facts,
            self.screens.screen(facts, index, self.window),
            window=self.window,
            min_coverage_percent=thresholds.min_coverage_percent,
            idle_percent=thresholds.idle_percent,
            now=now,
        )
        held = bool(self.screens.past.held[index])
        candidate = Candidate(
            job_type=facts.job_type,
            gpus=self.identity.gpus,
            job_uid=self.key,
            pod_uids=pod_uids(facts),
            last_start=last_start(facts),
            labels=self._labels,
            priority_class=self.identity.priority or None,
            gpu_product=self.identity.product or None,
            has_persistent_volume=self._assumed.has_persistent_volume,
            termination_grace=self._settings.min_termination_grace,
            untouchable=None if held else "it has no GPUs",
        )
        return _Observation(facts=facts, idle=idle, candidate=candidate)

    def wants_examination(self, planned: Plan, now: datetime) -> bool:
        """Whether the plan needs a new examination: at a warning, at the action, and while no cause is known."""
        if planned.step in ACTS or planned.step is Step.WARN:
            return self._examined_at != now
        if planned.gate not in UNEXPLAINED:
            return False
        return self._examined_at is None or now >= self._next_examination(planned)

    def _next_examination(self, planned: Plan) -> datetime:
        assert self._examined_at is not None
        since = planned.record.idle_since or self._examined_at
        return self._examined_at + max(EXAMINED_EVERY, PATIENCE * (self._examined_at - since))

    def examined(self, known: Examined, now: datetime) -> None:
        """What an examination has found."""
        self.known, self._examined_at = known, now

    # ------------------------------------------------------------------------------------------------- what follows

    def wait(self, index: int) -> None:
        """No controller watched the job then."""
        self._account(index, None)
        self._wake(self.screens.next_change(index, timedelta(0)))

    def take(self, planned: Plan, observed: _Observation, index: int, next_sample: datetime) -> None:
        """Keep the plan, and set when to plan again."""
        now = self.screens.grid.time(index)
        had = self.record.warned_at if self.record.has_warning else None
        self.record, self._gate = planned.record, planned.gate
        if had is not None and self.record.warned_at != had:
            self._end_warning(planned.gate or "", now)
        if self.record.has_warning and self.record.warned_at != had:
            self._begin_warning(now)
        self._account(index, self._gate_while_idle(planned, observed, index))
        if observed.idle.state is not IdlenessState.IDLE and not self.record.has_warning:
            self.known, self._examined_at = Examined(), None
            if not self.screens.is_idle(index, self.window):
                self._wake(self.screens.next_idle(index, self.window))
                return
        moments = [planned.until, self.record.deadline if self.record.has_warning else None]
        match planned.gate:
            case gate if gate in UNEXPLAINED and self._examined_at is not None:
                moments.append(self._next_examination(planned))
            case BRAKE_OFF.name:
                moments.append(next_sample)
            case BOUNDS.name if planned.until is None:
                moments.append(now + self.screens.grid.step)
        indices = [self.screens.grid.first_at(one) for one in moments if one is not None and one > now]
        self._wake(min([self.screens.next_change(index, self.window), *indices]))

    def reclaim(self, planned: Plan, index: int) -> None:
        """The job's GPUs are taken. Its owner brings it back when it would have worked again, if that can be."""
        now, record = self.screens.grid.time(index), planned.record
        assert record.warned_at is not None  # nothing is reclaimed without a warning
        assert record.idle_since is not None
        self._account(index, None)
        self._end_warning("reclaimed", now)
        returned = self.screens.next_work(index)
        grid = self.screens.grid
        end = returned - 1 if returned is not None else grid.size
        mode = record.action or self._settings.mode
        reclaim = SimulatedReclaim(
            at=now,
            warned_at=record.warned_at,
            idle_since=record.idle_since,
            rule=record.rule or "",
            mode=mode,
            given_back=self.screens.held_hours(index + 1, end + 1),
            returned_at=grid.time(returned) if returned is not None else None,
        )
        self._reclaims.append((reclaim, index, returned))
        self.record = reclaimed(record, now)
        self._gate, self.known, self._examined_at = "", Examined(), None
        self.resumes_at = returned if mode is not ReclaimMode.DELETE else None
        self._wake(self.resumes_at)

    def resume(self, now: datetime) -> None:
        """The owner's response."""
        self.resumes_at = None
        word = f"replay-{len(self._reclaims)}"
        self.record = resumed(self.record, annotation=word, unsuspended=False, now=now).record

    def outcome(self) -> JobOutcome:
        """What would have become of it."""
        size = self.screens.grid.size
        self._account(size, None)
        held = np.flatnonzero(self.screens.past.held)
        if self.record.has_warning and len(held) and held[-1] < size - 1:
            # It was deleted: nothing was recorded of it any more.
            self._end_warning(TOUCHABLE.name, self.screens.grid.time(int(held[-1])))
        ends = [index for _, index, _ in self._reclaims[1:]] + [size]
        found = self.policy.reclaim.class_of(self._traits)
        return JobOutcome(
            identity=self.identity,
            policy=self.policy.sources[-1] if self.policy.sources else "built-in",
            classed=found.name if found is not None else None,
            warnings=tuple(self._warnings),
            reclaims=tuple(
                replace(one, interrupted=self.screens.work_hours(returned, end) if returned is not None else 0.0)
                for (one, _, returned), end in zip(self._reclaims, ends, strict=False)
            ),
            held_back=dict(self._held_back),
        )

    # --------------------------------------------------------------------------------------------------- bookkeeping

    def _begin_warning(self, now: datetime) -> None:
        record = self.record
        assert record.deadline is not None
        assert record.idle_since is not None
        self._warnings.append(
            SimulatedWarning(at=now, deadline=record.deadline, idle_since=record.idle_since, rule=record.rule or "")
        )

    def _end_warning(self, outcome: str, now: datetime) -> None:
        self._warnings[-1] = replace(self._warnings[-1], outcome=outcome, ended_at=now)

    def _gate_while_idle(self, planned: Plan, observed: _Observation, index: int) -> str | None:
        """The gate that holds back a job that is idle, or that may be as far as is known; None for any other."""
        is_idle = observed.idle.state is IdlenessState.IDLE or (
            observed.idle.state is IdlenessState.UNKNOWN and self.screens.is_idle(index, self.window)
        )
        if not is_idle or observed.candidate.untouchable is not None:
            return None
        # Whoever is warned now waits for the end of the grace from now on.
        return GRACE_OVER.name if planned.gate == WARNED.name else planned.gate

    def _account(self, index: int, gate: str | None) -> None:
        """From this step on the job is idle and the gate holds it back; None: it is not idle."""
        if self._held_since is not None:
            known, since = self._held_since
            self._held_back[known] += self.screens.held_hours(since + 1, index + 1)
        self._held_since = None if gate is None else (gate, index)

    def _wake(self, index: int | None) -> None:
        size = self.screens.grid.size
        self.following = self.screens.grid.time(index) if index is not None and index < size else None


__all__ = ["Assumed", "JobOutcome", "SimulatedReclaim", "Simulation", "SimulatedWarning"]
