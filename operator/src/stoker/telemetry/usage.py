"""What was recorded of the cluster's GPUs over a period: the raw figures that accounts are made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from stoker.findings.vocabulary import Category, Stage

SETTLES = timedelta(seconds=90)
"""After this time what was sampled is known: scrape intervals of up to a minute fit, and some delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From `start` to `end`, both in UTC."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def before(self) -> "Period":
        """As long a period, ending where this one starts."""
        return Period(start=self.start - self.length, end=self.start)

    def split(self, parts: int) -> tuple["Period", ...]:
        """Equal parts, the earliest first."""
        edges = [self.start + self.length * part / parts for part in range(parts + 1)]
        return tuple(Period(start=one, end=two) for one, two in pairwise(edges))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Cause:
    """What a finding names: its category, and the rule that saw it."""

    category: Category
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """Who a job is and whose. Empty texts are not known. `uid` None: the operator has no record of such a job."""

    uid: str | None
    namespace: str
    name: str
    job_type: str = ""
    owner: str = ""
    team: str = ""
    product: str = ""
    priority: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job's figures, in GPU-hours, one for each part of the record's time.

    held: while its pods were bound to nodes. sampled: while a GPU of its pods was sampled. used: the integral
    of the sampled utilization. causes, stages: the idle GPU-hours of each finding and of each stage since the job
    began, as they stood where the first part begins and at the end of each part, one value more than there are parts;
    None where nothing was recorded lately. first_seen: the part in which the operator first recorded the job; None if
    it never did.
    """

    identity: JobIdentity
    held: tuple[float, ...]
    sampled: tuple[float, ...]
    used: tuple[float, ...]
    causes: Mapping[Cause, tuple[float | None, ...]] = field(default_factory=dict)
    stages: Mapping[Stage, tuple[float | None, ...]] = field(default_factory=dict)
    first_seen: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """Everything recorded over a period and the one before it, both cut into the same number of parts.

    parts: those of the period before, then those of the period. watched: of each part the share, 0..1, in which GPUs
    were sampled at all; recorded: the share in which the operator recorded jobs.
    """

    period: Period
    parts: tuple[Period, ...]
    jobs: tuple[JobRecord, ...]
    watched: tuple[float, ...]
    recorded: tuple[float, ...]
    resolution: timedelta
    warnings: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """Index of the period's first part."""
        return len(self.parts) // 2
