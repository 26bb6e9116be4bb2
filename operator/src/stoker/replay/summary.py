"""What a replay has found, summed up: the totals, by namespace, owner and class, over time, and what was assumed."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import fsum

import numpy as np

from stoker.findings.vocabulary import ReclaimMode
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.fact_gates import ALL_IDLE
from stoker.replay.assumptions import Inputs, assumptions
from stoker.replay.constraints import name_of
from stoker.replay.idle_history import IdleHistory, idle_histories
from stoker.replay.simulation import JobOutcome, SimulatedReclaim
from stoker.report import Assumption
from stoker.telemetry.past import Grid, JobOutline, Outlines
from stoker.telemetry.series import FloatArray
from stoker.telemetry.usage import Period

WORKED_AGAIN = ALL_IDLE.name
"""The gate that ends a warning where the GPUs work again."""
PARTS = 120
"""The timeline has about as many parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The sums over some jobs. `saved`: warnings after which the GPUs worked again before the deadline; `regrets`:
    reclaims after which they would have worked again. Hours are GPU-hours.
    """

    jobs: int = 0
    warnings: int = 0
    saved: int = 0
    reclaims: int = 0
    given_back: float = 0.0
    regrets: int = 0
    interrupted: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How many GPUs were, on average, used, idle, unknown for want of samples, and given back by the replay."""

    period: Period
    used: float
    idle: float
    given_back: float
    unknown: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What one gate held back of what rested: how many jobs, and how many of their GPU-hours."""

    gate: str
    jobs: int
    gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """A policy, what it does with a reclaimable job, and the jobs that were decided under it."""

    name: str
    mode: ReclaimMode
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """All that a replay says. `outcomes` are those of jobs that rested for long enough to be looked at."""

    period: Period
    namespaces: tuple[str, ...]
    policies: tuple[PolicyInForce, ...]
    jobs: int
    held: float
    used: float
    idle: float
    unknown: float
    total: Figures
    by_namespace: Mapping[str, Figures]
    by_owner: Mapping[str, Figures]
    by_class: Mapping[str, Figures]
    idle_histories: tuple[IdleHistory, ...]
    held_back: tuple[HeldBack, ...]
    brakes: tuple[tuple[str, datetime, str], ...]
    outcomes: tuple[JobOutcome, ...]
    timeline: tuple[Part, ...]
    assumed: tuple[Assumption, ...] = field(default=())

    @property
    def acts(self) -> bool:
        """Whether any policy would have acted on any job."""
        return any(one.mode is not ReclaimMode.OBSERVE for one in self.policies)

    @property
    def reclaims(self) -> Iterator[tuple[JobOutcome, SimulatedReclaim]]:
        """Every reclaim, in the order of time."""
        pairs = [(outcome, one) for outcome in self.outcomes for one in outcome.reclaims]
        return iter(sorted(pairs, key=lambda pair: pair[1].at))


def summarize(
    outlines: Outlines,
    policies: Mapping[str, EffectivePolicy],
    outcomes: Sequence[JobOutcome],
    brakes: Sequence[tuple[str, datetime, str]],
    inputs: Inputs,
    *,
    namespaces: Sequence[str] = (),
) -> ReplaySummary:
    """Sum it up. `policies` by the jobs' keys, as they were replayed."""
    grid, period = outlines.grid, outlines.period
    inside = (np.arange(grid.size) > grid.first_at(period.start)) & (np.arange(grid.size) <= grid.first_at(period.end))
    jobs = [job for job in outlines.jobs if (job.held & inside).any()]
    totals = _GpuTotals(jobs, outcomes, grid)
    held, used, idle, unknown = (fsum(row[inside]) * grid.hours for row in totals.rows)
    return ReplaySummary(
        period=period,
        namespaces=tuple(namespaces),
        policies=tuple(_policies(jobs, policies)),
        jobs=len(jobs),
        held=held,
        used=used,
        idle=idle,
        unknown=unknown,
        total=_figures(outcomes),
        by_namespace=_grouped(outcomes, lambda one: one.identity.namespace),
        by_owner=_grouped(outcomes, lambda one: one.identity.owner),
        by_class=_grouped(outcomes, lambda one: one.classed or ""),
        idle_histories=idle_histories(jobs, grid),
        held_back=_held_back(outcomes),
        brakes=tuple(brakes),
        outcomes=tuple(outcomes),
        timeline=tuple(_timeline(totals, grid, period)),
        assumed=assumptions(outlines, policies, outcomes, inputs),
    )


def _policies(jobs: Iterable[JobOutline], policies: Mapping[str, EffectivePolicy]) -> Iterator[PolicyInForce]:
    counted: dict[tuple[str, ReclaimMode], int] = defaultdict(int)
    for job in jobs:
        policy = policies[job.key]
        modes = {policy.reclaim.mode, *(one.mode for one in policy.reclaim.classes if one.mode is not None)}
        # Of a policy whose classes differ the mode that does most.
        strongest = max(modes, key=list(ReclaimMode).index)
        counted[name_of(policy), strongest] += 1
    for (name, mode), number in sorted(counted.items()):
        yield PolicyInForce(name=name, mode=mode, jobs=number)


def _figures(outcomes: Iterable[JobOutcome]) -> Figures:
    outcomes = tuple(outcomes)
    reclaims = [one for outcome in outcomes for one in outcome.reclaims]
    warnings = [one for outcome in outcomes for one in outcome.warnings]
    return Figures(
        jobs=len(outcomes),
        warnings=len(warnings),
        saved=sum(one.outcome == WORKED_AGAIN for one in warnings),
        reclaims=len(reclaims),
        given_back=fsum(one.given_back for one in reclaims),
        regrets=sum(one.is_regret for one in reclaims),
        interrupted=fsum(one.interrupted for one in reclaims),
    )


def _grouped(outcomes: Iterable[JobOutcome], key: Callable[[JobOutcome], str]) -> dict[str, Figures]:
    """The most given back first."""
    groups: dict[str, list[JobOutcome]] = defaultdict(list)
    for one in outcomes:
        groups[key(one)].append(one)
    figures = {name: _figures(found) for name, found in groups.items()}
    return dict(sorted(figures.items(), key=lambda item: (-item[1].given_back, -item[1].warnings, item[0])))


def _held_back(outcomes: Iterable[JobOutcome]) -> tuple[HeldBack, ...]:
    hours: dict[str, list[float]] = defaultdict(list)
    for one in outcomes:
        for gate, amount in one.held_back.items():
            if amount > 0:
                hours[gate].append(amount)
    lines = [HeldBack(gate=gate, jobs=len(found), gpu_hours=fsum(found)) for gate, found in hours.items()]
    return tuple(sorted(lines, key=lambda line: (-line.gpu_hours, line.gate)))


class _GpuTotals:
    """GPUs in each coarse step, over all jobs: held, used, idle, unknown; and how many of the idle were given back."""

    def __init__(self, jobs: Sequence[JobOutline], outcomes: Sequence[JobOutcome], grid: Grid) -> None:
        self.rows: tuple[FloatArray, ...] = tuple(np.zeros(grid.size) for _ in range(4))
        self.given_back = np.zeros(grid.size)
        reclaims = {one.identity.uid: one.reclaims for one in outcomes}
        held, used, idle, unknown = self.rows
        for job in jobs:
            own = np.where(job.held, float(job.identity.gpus), 0.0)
            sampled = np.minimum(np.nan_to_num(job.sampled), own)
            works = np.minimum(np.nan_to_num(job.used), sampled)
            held += own
            used += works
            idle += sampled - works
            unknown += own - sampled
            for one in reclaims.get(job.identity.uid, ()):
                last = grid.first_at(one.returned_at) if one.returned_at is not None else grid.size
                away = slice(min(grid.first_at(one.at) + 1, grid.size), last)
                self.given_back[away] += own[away]


def _timeline(totals: _GpuTotals, grid: Grid, period: Period) -> Iterator[Part]:
    first, last = grid.first_at(period.start), grid.first_at(period.end)
    width = max(round((last - first) / PARTS), 1)
    for begin in range(first, last, width):
        steps = slice(begin + 1, min(begin + width, last, grid.size - 1) + 1)
        if steps.start >= steps.stop:
            return
        _, used, idle, unknown = (float(row[steps].mean()) for row in totals.rows)
        given = min(float(totals.given_back[steps].mean()), idle + unknown)
        yield Part(
            period=Period(start=grid.time(begin), end=grid.time(steps.stop - 1)),
            used=used,
            idle=max(idle - given, 0.0),
            given_back=given,
            unknown=unknown - max(given - idle, 0.0),
        )


__all__ = ["Figures", "HeldBack", "Part", "PolicyInForce", "ReplaySummary", "summarize"]
