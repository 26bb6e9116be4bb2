"""Sudden drops: a level that falls steeply and recovers (the third pattern of ICSE 2024's study, by its three sigma).

Median and spread of a whole series miss the study's own job, which stands at 0 for 96 of each 168 s. So the series is
split into two states first, and level and spread are those of the high one alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.pattern import STATE_SEPARATION_POINTS, Pattern, two_states
from stoker.diagnosis.series.stages import runs
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

DEVIATIONS = 3.0
"""The study's three sigma, of the high state."""
LEAST_DEPTH_POINTS = 20.0
"""However steady the level: less is the noise of two exporters, or one slow step among many."""
LEAST_COUNT = 3
"""Two drops have one gap, and no regularity."""
LEAST_SAMPLES = 20
"""Fewer known samples than this make neither a level nor a standard deviation."""
LEAST_SAMPLED_STEPS = 2
"""Known samples that a single drop must hold: one low sample may be a scrape that hit a pause between two steps."""
PERSISTENCE = 0.25
"""Of samples taken in a moment as often as not, low ones are followed by low ones no more often than others are."""
DEVIATION_OF_MEDIAN = 1.4826
"""Makes the median absolute deviation of normal noise its standard deviation."""
REGULAR_GAPS = 0.25
"""Coefficient of variation of the gaps up to which drops count as regular."""
EQUAL_SIZES = 0.25
"""Variations up to which gaps count as regular and sizes as equal. Steps of 30 s add some 0.1 of their own."""


@dataclass(frozen=True, kw_only=True)
class Drops:
    """The drops of one series.

    low: the steps below the cut, on the grid. spans: the drops as half-open ranges of steps. within: the steps that
    were looked at. level, spread: the high state's median and deviation, percent. floor: the low state's mean. lost:
    seconds of work that each drop cost at that level. step: seconds a step. seconds: those that were looked at and
    known.
    """

    low: BoolArray = field(compare=False)
    spans: tuple[tuple[int, int], ...]
    within: BoolArray = field(compare=False)
    level: float
    spread: float
    floor: float
    lost: tuple[float, ...]
    step: float
    seconds: float
    clear: bool
    """All of them lie three deviations under the level: the level is steady, and they are no part of its own noise."""

    @cached_property
    def pattern(self) -> Pattern:
        """What signals are held against."""
        return Pattern(spans=self.spans, within=self.within, step=self.step)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.spans)

    @property
    def share(self) -> float:
        """The share of the time that they cost."""
        return sum(self.lost) / self.seconds

    @property
    def length(self) -> float:
        """Seconds of work that a typical one costs: half of what all cost, those cost that are as long or longer. Short
        stalls of other making thus don't count for what they are many.
        """
        longest = np.sort(self.lost)[::-1]
        return float(longest[np.searchsorted(np.cumsum(longest), longest.sum() / 2)])

    @cached_property
    def period(self) -> float:
        """Seconds from the start of one to that of the next, the middle of all."""
        return float(np.median(self._gaps))

    @cached_property
    def gap_variation(self) -> float:
        """The deviation of these, by their median: 0 for a clock, about 1 for chance."""
        return variation(self._gaps)

    @cached_property
    def size_variation(self) -> float:
        """The same of the seconds that they cost."""
        return variation(self.lost)

    @property
    def regular(self) -> bool:
        """They come at equal intervals."""
        return self.gap_variation <= REGULAR_GAPS

    @property
    def equal(self) -> bool:
        """They cost the same."""
        return self.size_variation <= EQUAL_SIZES

    @property
    def _gaps(self) -> list[float]:
        return [(after[0] - before[0]) * self.step for before, after in pairwise(self.spans)]


def drops(values: FloatArray, mask: BoolArray, step: float, *, averaged: bool = True) -> Drops | None:
    """The drops of a series of percent within the mask; None where there are not at least three.

    A drop ends where the level is reached again: what lies at either end of the mask is none. Where drops are not much
    longer than a step, most steps hold a part of one, and the high state has no three deviations of room: then what is
    nearer to the low state is a drop. `averaged`: each value is a mean over its step. Values that were sampled in a
    moment show a drop only where they stay low for longer than chance would have it.
    """
    places = np.flatnonzero(mask & np.isfinite(values))
    if len(places) < LEAST_SAMPLES:
        return None
    known = values[places]
    if np.ptp(known) < LEAST_DEPTH_POINTS:
        return None
    states = two_states(known)
    high = known if states is None else known[~states[0]]
    level = float(np.median(high))
    spread = DEVIATION_OF_MEDIAN * float(np.median(np.abs(high - level)))
    cut = level - max(DEVIATIONS * spread, LEAST_DEPTH_POINTS)
    clear = states is None or cut >= (states[1] + level) / 2
    if states is not None and not clear:
        cut = (states[1] + level) / 2
    below = known < cut
    least_steps = 1 if averaged else LEAST_SAMPLED_STEPS
    found = [
        (first, last) for first, last in runs(below) if first > 0 and last < len(known) and last - first >= least_steps
    ]
    if len(found) < LEAST_COUNT or not (averaged or _stays(below)):
        return None
    low = np.zeros(len(values), dtype=np.bool_)
    for first, last in found:
        low[places[first:last]] = True
    floor = float(values[low].mean())
    if level - floor < STATE_SEPARATION_POINTS:
        return None
    return Drops(
        low=low,
        spans=tuple((int(places[first]), int(places[last - 1]) + 1) for first, last in found),
        within=mask,
        level=level,
        spread=spread,
        floor=floor,
        lost=tuple(float((1 - known[first:last] / level).sum()) * step for first, last in found),
        step=step,
        seconds=len(places) * step,
        clear=clear,
    )


def _stays(below: BoolArray) -> bool:
    """A low sample is followed by another one far more often than one at any time is low."""
    after = below[1:][below[:-1]]
    return bool(len(after)) and float(after.mean()) >= float(below.mean()) + PERSISTENCE


def variation(values: Sequence[float] | FloatArray) -> float:
    """How much values vary, by their median: the median absolute deviation as a standard deviation. One that is missed
    or doubled among many does not count.
    """
    middle = float(np.median(values))
    if middle == 0:
        return 0.0 if not np.any(values) else float("inf")
    return DEVIATION_OF_MEDIAN * float(np.median(np.abs(np.asarray(values) - middle))) / middle
