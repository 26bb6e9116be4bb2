"""What looking at a job's metrics concludes."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Stage, UnknownReason


class IdlenessState(StrEnum):
    """Whether a job as a whole is idle. Missing is never idle."""

    IDLE = "Idle"
    ACTIVE = "Active"
    WAITING = "Waiting"
    """Not all pods are ready: the job waits, it does not idle."""
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """The screen's answer for one job.

    Idle only when every sample of every available signal of every GPU of every pod in the window stands at its idle
    level, with the policy's coverage. `since` is the end of the last activity (or the latest container start);
    `pod_uids` are the pods looked at.
    """

    state: IdlenessState
    observed_at: datetime
    reason: UnknownReason | None = None
    message: str = ""
    since: datetime | None = None
    coverage_percent: int | None = None
    pod_uids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    """One stage of a job's life with its mean utilization in percent (None when not covered); `end` None: still in
    it.
    """

    stage: Stage
    start: datetime
    end: datetime | None
    average_percent: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One GPU of the job over its pod's life. Percents are 0..100; None means unknown, never 0.

    `gpu` is its number on the node where that is known, else its identity; `rank` and `node` are its pod's.
    """

    pod: str
    rank: int
    node: str | None
    gpu: str
    average_percent: float | None
    peak_memory_percent: float | None
    coverage_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """The GPUs of one pod on its node: each one's mean over its pod's life, in percent; None means unknown, never 0."""

    pod: str
    node: str | None
    gpu_percents: tuple[float | None, ...]

    @property
    def average_percent(self) -> float | None:
        """The mean of all its GPUs; None where that of one is not known, or there is none."""
        known = [one for one in self.gpu_percents if one is not None]
        return sum(known) / len(known) if known and len(known) == len(self.gpu_percents) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """A job's utilization by the study's definition (ICSE 2024, section 2): the time-weighted mean over the job's
    whole life and all GPUs requested. Percents are 0..100; None means unknown, never 0.
    """

    average_percent: float | None
    average_percent_range: tuple[float, float] | None = None
    """The interval it lies in, where coverage is below the bound."""
    recent_percent: float | None = None
    """Over the last ten minutes."""
    peak_memory_percent: float | None = None
    coverage_percent: float
    gpu_hours: float
    gpu_hours_idle: float | None = None
    as_of: datetime
    stages: tuple[StageSpan, ...] = ()
    nodes: tuple[NodeUse, ...] = ()
    """Each pod on its node, the worst first."""
    gpus: tuple[GpuUse, ...] = ()
    """Every GPU that has samples, by rank and number."""

    def is_low(self, low_percent: float) -> bool | None:
        """Whether it lies at or under the bound of what is low; None where it may lie on either side."""
        low, high = self.average_percent_range or (self.average_percent, self.average_percent)
        if high is not None and high <= low_percent:
            return True
        return False if low is not None and low > low_percent else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something that may help though nothing is wrong: never a finding, never counted, never acted upon."""

    rule: str
    detail: str
    fix: str
    docs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What `diagnose` concludes of a job: its utilization and the causes that the series show, the most idle GPU-hours
    first.
    """

    utilization: Utilization | None
    unknown: UnknownReason | None = None
    findings: tuple[Finding, ...] = ()
    advice: tuple[Advice, ...] = ()
    """At most MAX_ADVICE, the most promising first."""
    gap: tuple[datetime, datetime] | None = None
    """From when to when samples are missing in the last ten minutes of a job that runs; None where none are."""
    idle_since: datetime | None = None
    """Since when every GPU of the job that still runs has been sampled and idle; None where one works or is unknown."""


class DiagnosisThresholds(Protocol):
    """The thresholds of a UtilizationPolicy, in percent."""

    @property
    def low_percent(self) -> float:
        """A job is low at or under this life utilization."""
        ...

    @property
    def idle_percent(self) -> float:
        """A GPU is idle at or under this utilization."""
        ...

    @property
    def min_coverage_percent(self) -> float:
        """Under this share of expected samples nothing is concluded."""
        ...
