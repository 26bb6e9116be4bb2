"""What the GPUs of a job really do, and which of it samples can show."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from stoker.telemetry.series import GpuSignal

SCRAPE = 30.0
"""Seconds between two samples of a GPU; each tells of the seconds since the one before, as DCGM's do."""
DELAY = 1.0
"""Seconds until a sample can be asked for."""
KEPT = 30 * 3600.0
"""Of the past nobody asks for more."""


@dataclass(slots=True)
class Stretch:
    """A time in which some GPUs work; `gpus` None: all, else the numbers among all of the job's. `end` is infinite
    while it goes on. `signal` is what shows it: utilization, or only something else.
    """

    start: float
    end: float = math.inf
    gpus: frozenset[int] | None = None
    signal: GpuSignal = GpuSignal.UTIL

    def has(self, gpu: int) -> bool:
        """Whether that GPU works in it."""
        return self.gpus is None or gpu in self.gpus


@dataclass(slots=True)
class Gaps:
    """Times for which there are no samples, in order; the last may be open."""

    spans: list[list[float]] = field(default_factory=list)

    def open(self, at: float) -> None:
        """From now on there are none."""
        if not self.spans or self.spans[-1][1] <= at:
            self.spans.append([at, math.inf])

    def close(self, at: float) -> None:
        """From now on there are samples."""
        if self.spans and self.spans[-1][1] > at:
            self.spans[-1][1] = at
        while self.spans and self.spans[0][1] < at - KEPT:
            del self.spans[0]

    def has(self, at: float) -> bool:
        """Whether a sample of this time is missing."""
        return self.start_of(at) is not None

    def start_of(self, at: float) -> float | None:
        """When the one that a time lies in began."""
        for start, end in reversed(self.spans):
            if start <= at:
                return start if at < end else None
        return None

    def within(self, start: float, end: float) -> float:
        """How many seconds of a time they take."""
        return sum(max(min(stop, end) - max(begin, start), 0.0) for begin, stop in self.spans) if self.spans else 0.0

    def longest(self, start: float, end: float) -> float:
        """How many seconds the longest of them takes of a time."""
        return max((min(stop, end) - max(begin, start) for begin, stop in self.spans), default=0.0)

    def last(self, at: float) -> float:
        """When the latest one that began by a time has ended, or that time while it lasts."""
        ends = [min(end, at) for start, end in self.spans if start <= at]
        return max(ends, default=-math.inf)


@dataclass(slots=True)
class Activity:
    """All that a job's GPUs have done lately. `phase` is where in the scrape interval their samples are taken."""

    phase: float
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def is_working(self) -> bool:
        """Whether some GPU works now."""
        return bool(self.stretches) and math.isinf(self.stretches[-1].end)

    def is_at_full_work(self, since: float) -> bool:
        """Whether all GPUs work since then, and utilization says so."""
        last = self.stretches[-1] if self.stretches else None
        return (
            last is not None
            and math.isinf(last.end)
            and last.start <= since
            and last.gpus is None
            and last.signal is GpuSignal.UTIL
        )

    def begin(self, at: float, gpus: frozenset[int] | None = None, signal: GpuSignal = GpuSignal.UTIL) -> None:
        """Some GPUs begin to work; what went on before ends."""
        self.end(at)
        self.stretches.append(Stretch(at, gpus=gpus, signal=signal))
        while len(self.stretches) > 3 and self.stretches[0].end < at - KEPT:
            del self.stretches[0]

    def end(self, at: float) -> None:
        """All rest."""
        if self.is_working:
            self.stretches[-1].end = at

    def sample_by(self, at: float) -> float:
        """The time of the last sample taken by then."""
        return math.floor((at - self.phase) / SCRAPE) * SCRAPE + self.phase

    def shown(self, gpu: int, by: float, hidden: Callable[[float], bool]) -> Iterator[tuple[float, Stretch]]:
        """The last sample by `by` of each stretch in which that GPU worked, the latest first, of those not `hidden`."""
        for stretch in reversed(self.stretches):
            if not stretch.has(gpu) or stretch.start >= by:
                continue
            # A sample tells of the interval before it: work shows in the first one after it.
            last = min(self.sample_by(by), self.sample_by(min(stretch.end, by)) + SCRAPE)
            while last > stretch.start and hidden(last):
                last -= SCRAPE
            if last > stretch.start:
                yield last, stretch

    def worked_in(self, start: float, end: float, gpus: int, hidden: Callable[[float], bool]) -> float | None:
        """The time of the last sample after `start`, up to `end`, that shows any GPU at work, of those not `hidden`;
        None without one. Counted sample by sample, as the judge does it: slow, and with nothing clever to get wrong.
        """
        at = self.sample_by(end)
        while at > start:
            if not hidden(at):
                for stretch in self.stretches:
                    overlaps = stretch.start < at and stretch.end > at - SCRAPE
                    if overlaps and any(stretch.has(gpu) for gpu in range(gpus)):
                        return at
            at -= SCRAPE
        return None

    def works_at(self, at: float) -> bool:
        """Whether any GPU works at that very moment."""
        place = bisect_left([stretch.start for stretch in self.stretches], at)
        return any(stretch.start <= at < stretch.end for stretch in self.stretches[max(place - 1, 0) : place + 1])
