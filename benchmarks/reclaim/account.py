"""How many GPU-hours idle jobs held, how many were given back, and which of them something rightly held."""

import math
from dataclasses import dataclass, field

Span = tuple[float, float]


@dataclass(slots=True)
class Rest:
    """One idle stretch of a job that whoever knows all would reclaim from `limit` on, until `planned`, when its owner
    means to come back. `freed` is when its GPUs were free.
    """

    job: str
    gpus: int
    limit: float
    planned: float
    freed: float = math.inf
    is_forgone: bool = False
    """Caution leaves it alone."""


@dataclass(slots=True)
class Account:
    """Adds up, in GPU-seconds."""

    held: float = 0.0
    excused: float = 0.0
    returned: float = 0.0
    forgone: float = 0.0
    """What caution left to jobs of which it can't be known what their owners need."""
    late: list[tuple[float, Rest]] = field(default_factory=list)
    """The stretches that were held the longest without an excuse, for whoever looks for the reason."""
    _open: dict[str, Rest] = field(default_factory=dict)
    _excuses: list[Span] = field(default_factory=list)
    _own_excuses: dict[str, list[Span]] = field(default_factory=dict)

    def excuse(self, start: float, end: float, job: str | None = None) -> None:
        """In this time reclaim was rightly held, of one job or of all."""
        spans = self._excuses if job is None else self._own_excuses.setdefault(job, [])
        spans.append((start, end))

    def begins(self, job: str, gpus: int, limit: float, planned: float, *, is_forgone: bool = False) -> None:
        """A job turns idle."""
        self._open[job] = Rest(job=job, gpus=gpus, limit=limit, planned=planned, is_forgone=is_forgone)

    def freed(self, job: str, at: float) -> None:
        """A resting job's pods are gone, by reclaim."""
        stretch = self._open.get(job)
        if stretch is not None:
            stretch.freed = min(stretch.freed, at)

    def ends(self, job: str, at: float) -> None:
        """It works again, or is gone."""
        stretch = self._open.pop(job, None)
        if stretch is None:
            return
        end = min(stretch.planned, at)
        if end <= stretch.limit:
            return
        if stretch.is_forgone:
            self.forgone += stretch.gpus * (end - stretch.limit)
            return
        until = max(min(stretch.freed, end), stretch.limit)
        self.returned += stretch.gpus * (end - until)
        held = until - stretch.limit
        own = self._own_excuses.get(job, [])
        excused = _covered([*self._excuses, *own], stretch.limit, until)
        self.held += stretch.gpus * held
        self.excused += stretch.gpus * excused
        if held - excused > 60:
            self.late = sorted([*self.late, (held - excused, stretch)], key=lambda one: -one[0])[:10]

    def close(self, at: float) -> None:
        """The end of all."""
        for job in list(self._open):
            self.ends(job, at)


def _covered(spans: list[Span], start: float, end: float) -> float:
    """How much of a time the spans cover, each moment once."""
    total, reached = 0.0, start
    for begin, stop in sorted(spans):
        if stop <= reached or begin >= end:
            continue
        total += min(stop, end) - max(begin, reached)
        reached = max(reached, min(stop, end))
    return total
