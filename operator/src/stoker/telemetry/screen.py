"""What one look at the cluster's GPUs says of each job, and the port through which metrics are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries

PodKey = tuple[str, str]
"""A pod's namespace and name."""
LONGEST_GAP = timedelta(minutes=10)
"""For so long samples may be missing within a window that counts, whatever share of it they cover: a GPU that works
for less is hardly a job's work, and exporters restart within minutes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenRequest:
    """What a screen is asked of one job: whether the GPUs of its pods have rested for `window`.

    `detailed` False: nothing could make the job idle (it waits, it is too young), so a summary is enough. A GPU at or
    under `idle_percent`, which is the policy's, may still be idle.
    """

    pods: tuple[PodKey, ...]
    window: timedelta
    detailed: bool = True
    idle_percent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    """One pod's GPUs together, over the last minutes, aggregated by the metrics' server.

    `averages` holds the mean of utilization and of the graphics engine over its GPUs and these minutes, in percent; a
    signal without samples, or with one that is no value, is absent. What has a mean over its idle level has worked.
    """

    averages: Mapping[GpuSignal, float] = field(default_factory=dict)

    @property
    def average_percent(self) -> float | None:
        """How much its GPUs were used, by the signal that says most; None where it is not known."""
        return max(self.averages.values(), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """One GPU of one pod over a screen's window, aggregated by the metrics' server.

    `gpu` identifies the device (its UUID, with the instance's number under MIG); `index` is its number on the node.
    `peaks` holds the largest value of utilization and of the graphics engine, and of every other signal that stands
    over its lowest idle level, in the signal's own unit; for NVLINK, which exporters publish as a rate or as a counter,
    the difference between its largest and its smallest value. A signal without samples is absent.
    """

    gpu: str
    index: str | None = None
    model: str | None = None
    peaks: Mapping[GpuSignal, float] = field(default_factory=dict)
    coverage_percent: float = 0.0
    """Share of the window's sampling intervals that hold a sample."""
    last_sample_at: datetime | None = None
    """None when there is no sample recent enough to count as current."""
    quiet_since: datetime | None = None
    """Start of the unbroken stretch of sampled and idle time that reaches up to now, where it is longer than the
    window.
    """
    context_idle_watts: float | None = None
    """What this model draws with a CUDA context and no work; None for a model that is not known."""
    shared: bool = False
    """Several pods hold the device (time-slicing, MPS): its values can't be told apart."""
    partition: bool = False
    """A part of a device (MIG, a compute partition): its utilization is the whole device's, or nobody's. The graphics
    engine's alone is its own.
    """
    doubtful: bool = False
    """Some samples of its activity are no values (NaN, an exporter's blank), lie in the future, or may be in either of
    two units: the peaks may hide work.
    """
    has_gap: bool = False
    """No sample for longer than LONGEST_GAP within the window: nobody knows what it did then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What a look at the metrics says of one job, at `at`.

    `summaries` holds the cluster's pods, or at least the job's. `gpus` holds the job's pods where no summary shows work
    and they were checked in detail over `window`, which is the request's or a longer one. `complete` is False when the
    source said that its answer is partial; `message` then has its words.
    """

    at: datetime
    window: timedelta
    summaries: Mapping[PodKey, PodSummary] = field(default_factory=dict)
    gpus: Mapping[PodKey, tuple[GpuWindow, ...]] = field(default_factory=dict)
    deferred: bool = False
    """More jobs rest than one look can take detailed, and this one's turn comes later."""
    complete: bool = True
    message: str = ""


class MetricsUnavailable(Exception):  # noqa: N818 - it states a condition, and its reason goes into one
    """Metrics could not be read: nothing may be concluded of any job."""

    def __init__(self, reason: UnknownReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class MetricsSource(Protocol):
    """Where metrics are read. Both methods raise MetricsUnavailable; a partial answer is returned and says so."""

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> Sequence[Screen]:
        """Screen all these jobs at once; one answer for each request, in their order. The number of queries depends
        neither on how many jobs there are nor on how many windows. Where not all can be checked in detail, the first of
        them are.
        """
        ...

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Read one job's series onto a grid of `step` (see `step_for`), each clipped to its container's start and
        finish.
        """
        ...


MAX_POINTS = 4_000
"""Points a series that one examination asks for; Prometheus refuses more than 11,000."""
MIN_STEP = timedelta(seconds=30)
"""dcgm-exporter collects each 30 s by default: a finer grid holds no more information."""


def step_for(life: timedelta) -> timedelta:
    """The grid's step for a job of this age: 30 s, doubled until the life fits into 4,000 points."""
    step = MIN_STEP
    while life / step > MAX_POINTS:
        step *= 2
    return step
