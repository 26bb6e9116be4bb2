"""Pasts of jobs as a Prometheus would have told them, made by hand, and an examiner that knows their causes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, ReclaimMode, Severity, Source
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim
from stoker.reclaim import NOBODY, Presence
from stoker.replay import Assumed, Examined, JobOutcome, SimulatedConstraints, Simulation
from stoker.telemetry.past import DevicePast, Grid, JobOutline, JobPast, Outlines, PastPod
from stoker.telemetry.series import FloatArray, GpuSignal, JobFacts
from stoker.telemetry.usage import JobIdentity, Period

START = datetime(2026, 11, 16, 0, 0, tzinfo=UTC)
"""A Monday."""
STEP = timedelta(seconds=30)
COARSE = timedelta(minutes=5)
HOUR = timedelta(hours=1)
Signal = Callable[[float], float]
"""A value as a function of the hours since START; NaN: no sample."""
SUSPEND = EffectivePolicy(
    reclaim=EffectiveReclaim(mode=ReclaimMode.SUSPEND, max_gpu_percent_per_window=100), sources=("draft",)
)
UNRELEASED = Finding(
    rule="unreleased-job",
    category=Category.UNRELEASED_JOB,
    severity=Severity.WARNING,
    confidence=Confidence.LIKELY,
    detail="All GPUs idle.",
    evidence="so it was written",
    fix="Let it end.",
    docs="",
    sources=(Source.METRICS,),
)


def rests(*spans: tuple[float, float]) -> Signal:
    """At work but within these hours."""
    return lambda hour: 0.0 if any(first < hour <= last for first, last in spans) else 80.0


@dataclass(frozen=True, kw_only=True)
class Story:
    """What a job of one pod did between two hours. `ready`: its ready pods; NaN while the operator recorded none.
    `pods`: since when each of its pods was there.
    """

    name: str
    utilization: Signal
    gpus: int = 1
    start: float = 0.0
    end: float = 24.0
    ready: Signal = field(default=lambda _: 1.0)
    signals: Mapping[GpuSignal, Signal] = field(default_factory=dict)
    shared: bool = False
    starts: tuple[float, ...] = (0.0,)
    job_type: str = "Training"
    owner: str = ""
    pods: tuple[float, ...] = ()

    @property
    def identity(self) -> JobIdentity:
        """Who it is."""
        return JobIdentity(
            uid=f"uid-{self.name}",
            namespace="research",
            name=self.name,
            job_type=self.job_type,
            owner=self.owner,
            gpus=self.gpus,
        )

    def past(self, hours: float) -> JobPast:
        """As it was read in fine steps."""
        grid = Grid(start=START, step=STEP, size=int(hours * HOUR / STEP) + 1)
        since = self.pods or (self.start,)
        until = (*since[1:], self.end)
        names = [f"{self.name}-0-{number:05d}" for number in range(len(since))]
        devices = [
            self._device(grid, name, index, first, last)
            for name, first, last in zip(names, since, until, strict=True)
            for index in range(self.gpus)
        ]
        return JobPast(
            identity=self.identity,
            grid=grid,
            held=_within(grid, self.start, self.end),
            ready=_values(grid, self.ready),
            pods=self._pods(names, since, until),
            devices=tuple(devices),
        )

    def _pods(self, names: Sequence[str], since: Sequence[float], until: Sequence[float]) -> tuple[PastPod, ...]:
        return tuple(
            PastPod(
                name=name,
                rank=0,
                first_seen=at(first),
                last_seen=at(last),
                starts=tuple(at(start) for start in self.starts if first <= start < last) or (at(first),),
            )
            for name, first, last in zip(names, since, until, strict=True)
        )

    def _device(self, grid: Grid, pod: str, index: int, first: float, last: float) -> DevicePast:
        there = _within(grid, first, last)
        signals = {GpuSignal.UTIL: self.utilization, **self.signals}
        peaks = {signal: np.where(there, _values(grid, value), np.nan) for signal, value in signals.items()}
        return DevicePast(
            pod=pod,
            gpu=f"GPU-{self.name}-{index}",
            index=str(index),
            peaks=peaks,
            sampled=np.isfinite(peaks[GpuSignal.UTIL]),
            doubtful=np.zeros(grid.size, dtype=np.bool_),
            shared=np.full(grid.size, self.shared),
        )

    def outline(self, hours: float) -> JobOutline:
        """As it was read in coarse steps."""
        grid = coarse(hours)
        there = _within(grid, self.start, self.end)
        fine = np.array([[self.utilization(hour - 5 * step / 60 / 10) for step in range(10)] for hour in _hours(grid)])
        known = np.isfinite(fine).any(axis=1) & there
        peak = np.where(known, np.nanmax(np.where(np.isfinite(fine), fine, -1.0), axis=1), np.nan)
        return JobOutline(
            identity=self.identity,
            held=there,
            peak=peak,
            used=self.gpus * peak / 100,
            sampled=np.where(known, float(self.gpus), np.nan),
        )


def coarse(hours: float) -> Grid:
    """The grid of outlines."""
    return Grid(start=START, step=COARSE, size=int(hours * HOUR / COARSE) + 1)


def at(hour: float) -> datetime:
    """A time by the hours since START."""
    return START + hour * HOUR


def hour_of(time: datetime) -> float:
    """The reverse."""
    return (time - START) / HOUR


def _hours(grid: Grid) -> list[float]:
    return [hour_of(grid.time(index)) for index in range(grid.size)]


def _values(grid: Grid, value: Signal) -> FloatArray:
    return np.array([value(hour) for hour in _hours(grid)], dtype=np.float64)


def _within(grid: Grid, first: float, last: float) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    hours = np.array(_hours(grid))
    return (hours > first) & (hours <= last)


class Known:
    """An examiner that finds UnreleasedJob in every job but those that are `needed`. `attended`: the hours at which
    somebody was at work.
    """

    def __init__(self, needed: Sequence[str] = (), attended: Sequence[float] = ()) -> None:
        self.needed = needed
        self.attended = attended

    async def examine(self, facts: JobFacts, policy: EffectivePolicy, window: timedelta, now: datetime) -> Examined:
        """What it finds."""
        seen = max((at(hour) for hour in self.attended if at(hour) <= now), default=None)
        presence = Presence(last_seen=seen, how="its CPUs were busy") if seen is not None else NOBODY
        return Examined(findings=() if facts.name in self.needed else (UNRELEASED,), presence=presence)


def outlines(stories: Sequence[Story], hours: float, *, cluster_gpus: int = 1000) -> Outlines:
    """All of them in coarse steps."""
    grid = coarse(hours)
    return Outlines(
        period=Period(start=START, end=at(hours)),
        grid=grid,
        jobs=tuple(story.outline(hours) for story in stories),
        cluster_gpus=np.full(grid.size, float(cluster_gpus)),
    )


VOLUMES = Assumed(has_persistent_volume=True)


async def replayed(
    stories: Sequence[Story],
    policy: EffectivePolicy = SUSPEND,
    *,
    hours: float = 24.0,
    cluster_gpus: int = 1000,
    needed: Sequence[str] = (),
    attended: Sequence[float] = (),
    assumed: Assumed = VOLUMES,
) -> dict[str, JobOutcome]:
    """What would have become of them, by name."""
    seen = outlines(stories, hours, cluster_gpus=cluster_gpus)
    constraints = SimulatedConstraints(
        seen, {job.key: policy for job in seen.jobs}, minimum_warning_grace=timedelta(minutes=5)
    )
    simulation = Simulation(seen.period, constraints, Known(needed, attended), assumed=assumed)
    for story in stories:
        simulation.add(story.past(hours), policy)
    return {outcome.identity.name: outcome for outcome in await simulation.run()}
