"""What an idle rule would have cost: how often the jobs of one type and owner went on after a rest of some length.

`summarize` adds it to a replay, from the jobs' coarse outlines. It needs no policy: it says which `idleAfter` the past
would have borne.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from stoker.diagnosis.series.stages import runs
from stoker.findings.vocabulary import JobType
from stoker.telemetry.activity import IDLE_PROFILING_PERCENT
from stoker.telemetry.past import Grid, JobOutline

LENGTHS = tuple(timedelta(hours=hours) for hours in (0.5, 1, 2, 4, 8, 12, 24))
"""Lengths of a rest that are looked at. From what reclaims quickly to a whole day, which holds any night."""
ACCEPTED_SHARE = 0.05
"""Share of the rests of a length that may have ended in work where this length is proposed as idleAfter."""
LEAST_RESTS = 20
"""Rests of a length from which such a share can be told: of 20, one in twenty is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rests:
    """The rests of at least a length. `resumed`: how many of them ended in work; the others ended with their job, or
    last beyond the period.
    """

    least: timedelta
    number: int
    resumed: int

    @property
    def resumed_share(self) -> float | None:
        """From 0 to 1; None without a rest."""
        return self.resumed / self.number if self.number else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleHistory:
    """The rests of the jobs of one type and owner, by length, the shortest first."""

    job_type: str
    owner: str
    jobs: int
    rests: tuple[Rests, ...]

    @property
    def proposed_idle_after(self) -> timedelta | None:
        """The shortest length from which at most one rest in twenty ended in work; None where too few rests tell, or
        no length is long enough.
        """
        for index, rest in enumerate(self.rests):
            longer = self.rests[index:]
            enough = rest.number >= LEAST_RESTS
            if enough and all(
                one.resumed <= ACCEPTED_SHARE * one.number for one in longer if one.number >= LEAST_RESTS
            ):
                return rest.least
        return None


def idle_histories(jobs: Iterable[JobOutline], grid: Grid) -> tuple[IdleHistory, ...]:
    """By type and owner, those with the most rests of half an hour first; groups without any are left out."""
    groups: dict[tuple[str, str], list[list[tuple[timedelta, bool]]]] = defaultdict(list)
    for job in jobs:
        found = list(_rests(job, grid))
        if found:
            groups[job.identity.job_type or JobType.TRAINING.value, job.identity.owner].append(found)
    histories = [
        IdleHistory(job_type=job_type, owner=owner, jobs=len(found), rests=tuple(_by_length(found)))
        for (job_type, owner), found in groups.items()
    ]
    return tuple(sorted(histories, key=lambda one: (-one.rests[0].number, one.job_type, one.owner)))


def _by_length(jobs: Iterable[list[tuple[timedelta, bool]]]) -> Iterator[Rests]:
    every = [rest for found in jobs for rest in found]
    for least in LENGTHS:
        chosen = [resumed for length, resumed in every if length >= least]
        yield Rests(least=least, number=len(chosen), resumed=sum(chosen))


def _rests(job: JobOutline, grid: Grid) -> Iterator[tuple[timedelta, bool]]:
    """The lengths of the job's rests of half an hour or more after its first work, and whether they ended in work. A
    rest in which samples are missing for a step is none: what happened there is not known.
    """
    with np.errstate(invalid="ignore"):
        works = job.held & (job.peak > IDLE_PROFILING_PERCENT)
    rests = job.held & np.isfinite(job.peak) & ~works
    for first, last in runs(rests):
        length = (last - first) * grid.step
        if length >= LENGTHS[0] and works[:first].any():
            yield length, last < len(works) and bool(works[last])


__all__ = ["IdleHistory", "Rests", "idle_histories"]
