"""What one look at the whole cluster's GPUs says, and the port through which metrics are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from stoker.models.series import GpuSignal, JobFacts, JobSeries
from stoker.models.vocabulary import UnknownReason

PodKey = tuple[str, str]
"""A pod's namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWindow:
    """One GPU of one pod over the screen's window, aggregated by the metrics' server.

    `gpu` identifies the device (its UUID, with the instance's number under MIG); `index` is its number on the node.
    `peaks` holds the largest value of each signal that has samples, in the signal's own unit; for NVLINK, which
    exporters publish as a rate or as a counter, the difference between its largest and its smallest value. A signal
    without samples is absent.
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
    examined: bool = True
    """Its signals beside utilization were looked at. False: its pod's utilization was too high for the question to
    arise.
    """
    doubtful: bool = False
    """Some samples of its activity are no values (NaN, an exporter's blank): the peaks may hide work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """All GPUs that pods hold, over the window that ends at `at`.

    `complete` is False when the source said that its answer is partial; `message` then has its words.
    """

    at: datetime
    window: timedelta
    gpus: Mapping[PodKey, tuple[GpuWindow, ...]] = field(default_factory=dict)
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

    async def screen(self, window: timedelta, now: datetime) -> Screen:
        """Aggregate every GPU in the cluster over the window that ends at `now`. Its cost doesn't grow with the number
        of jobs.
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
