"""What was recorded of jobs and their GPUs, step by step: the past that a replay goes through once more."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from stoker.telemetry.series import FloatArray, GpuSignal
from stoker.telemetry.usage import JobIdentity, Period

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`size` points in time, `step` apart, the first at `start`. A value at a point is that of the step before it."""

    start: datetime
    step: timedelta
    size: int

    def time(self, place: int) -> datetime:
        """The point in time."""
        return self.start + place * self.step

    def first_at(self, time: datetime) -> int:
        """The first point that is not before a time, within 0..size."""
        return min(max(math.ceil((time - self.start) / self.step), 0), self.size)

    @property
    def hours(self) -> float:
        """Hours of one step."""
        return self.step / timedelta(hours=1)


def key_of(identity: JobIdentity) -> str:
    """What tells a job from all others."""
    return identity.uid or f"{identity.namespace}/{identity.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPod:
    """One pod of a job, by its GPUs' samples: between which it was seen, and what was recorded of its container."""

    name: str
    rank: int
    first_seen: datetime
    last_seen: datetime
    starts: tuple[datetime, ...] = ()
    """When its trainer container started, oldest first, where that was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutline:
    """One job in coarse steps. `held`: it held its GPUs by its phase. `peak`: the largest utilization of any of its
    GPUs in percent, NaN without a sample. `used`, `sampled`: how many GPUs' worth was used, and how many had samples.
    """

    identity: JobIdentity
    held: BoolArray
    peak: FloatArray
    used: FloatArray
    sampled: FloatArray
    pods: tuple[PastPod, ...] = ()

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return key_of(self.identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlines:
    """All jobs that were recorded over a period, and some time before it, on one grid.

    `cluster_gpus`: how many GPUs were sampled at a time, whoever held them, NaN where none was. `unrecorded`: names of
    jobs whose pods were sampled though the operator told of no such job.
    """

    period: Period
    grid: Grid
    jobs: tuple[JobOutline, ...]
    cluster_gpus: FloatArray
    unrecorded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePast:
    """One GPU of one pod. Arrays have one value a step.

    peaks: the largest plausible value of each activity signal, in its unit, NaN without one or where utilization alone
    proves work; of NVLINK what was published, a rate or a counter. doubtful: a value was none. shared: another pod held
    the device as well.
    """

    pod: str
    gpu: str
    index: str | None = None
    model: str | None = None
    context_idle_watts: float | None = None
    peaks: Mapping[GpuSignal, FloatArray] = field(default_factory=dict)
    sampled: BoolArray
    doubtful: BoolArray
    shared: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPast:
    """One job in the steps in which a controller would have looked at it. `held` as in the outline; `ready`: its ready
    pods, NaN while the operator told nothing of the job.
    """

    identity: JobIdentity
    grid: Grid
    held: BoolArray
    ready: FloatArray
    pods: tuple[PastPod, ...]
    devices: tuple[DevicePast, ...]
    complete: bool = True
    """False when the source said that its answer was partial."""
