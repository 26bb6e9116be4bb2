"""What happens together: a signal within a pattern against the signal outside of it, and whether chance could do it."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stoker.diagnosis.series.drops import variation
from stoker.diagnosis.series.pattern import LAGS, IntArray, Pattern
from stoker.diagnosis.series.percentiles import percentile
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

TIED = 0.4
"""Correlation from which two series count as tied, however many samples there are; chosen on the tuning seeds.
"""
DEVIATIONS = 3.0
"""And the correlation must exceed this many standard deviations of what so many samples show by chance."""
LEAST_SAMPLES = 40
"""Two series are tied from this correlation on, where it is three deviations of what so many samples show by chance."""
LEVEL_PERCENTILE = 25.0
"""Of the signal outside of a pattern: where stretches follow one another closely, most steps between them share in one,
because a rate is taken over a minute.
"""
UNLIKELY = 0.02
"""Of the shifts by chance so few may show as much."""


@dataclass(frozen=True, kw_only=True)
class Coincidence:
    """A signal against a pattern, at the lag where it fits best.

    inside: its mean; outside: its level, which a quarter of the steps do not reach; in the signal's unit. rising: in
    how many of the pattern's stretches the signal rises over its level outside by the floor. hits: the share of the
    pattern's time that these take: short ones of other making count for no more than they are. amount: what each of
    these holds over the level outside, the signal's unit times seconds, the middle one; amount_variation: how much that
    varies. pattern, order: what was held against one another, the signal by ranks around 0.
    """

    inside: float
    outside: float
    lag: int
    rising: int
    hits: float
    amount: float
    amount_variation: float
    pattern: Pattern = field(compare=False, repr=False)
    order: FloatArray = field(compare=False, repr=False)

    @cached_property
    def chance(self) -> float:
        """The share of circular shifts of the pattern that show as much, by ranks, because transfers differ in speed by
        factors. Computed on demand: it costs more than all else.
        """
        sums = self.pattern.shifted_sums(self.order)
        chances = sums[self.pattern.by_chance]
        return float((chances >= sums[self.lag]).mean()) if len(chances) else 1.0

    @property
    def excess(self) -> float:
        """How much higher the signal stands within the pattern."""
        return self.inside - self.outside


def coincidence(values: FloatArray, pattern: Pattern, *, floor: float) -> Coincidence | None:
    """Hold a signal against a pattern; None where samples lack.

    `floor` is the least rise that counts, in the signal's unit: a ratio of two small numbers is noise.
    """
    signal, mask = values[pattern.places], pattern.mask
    known = np.isfinite(signal)
    inside, outside = known & mask, known & ~mask
    if inside.sum() < mask.sum() / 2 or outside.sum() < (~mask).sum() / 2 or not inside.any() or not outside.any():
        return None
    level = percentile(signal[outside], LEVEL_PERCENTILE)
    order = np.zeros(len(signal))
    order[known] = _ranks(signal[known]) - (known.sum() + 1) / 2
    sums = pattern.lagging @ order
    lag = LAGS[max(range(len(LAGS)), key=lambda place: (sums[place], -abs(LAGS[place])))]
    starts, ends = pattern.edges + lag
    with np.errstate(invalid="ignore"):
        rises_in = _totals(values >= level + floor, starts, ends) > 0
    first, last = pattern.widened + lag
    amounts = amounts_over(values, level, first, last, pattern.step)
    counted = amounts[rises_in] if rises_in.any() else amounts
    amount = float(np.median(counted))
    lagged = known & np.roll(mask, lag)
    return Coincidence(
        inside=float(signal[lagged if lagged.any() else inside].mean()),
        outside=level,
        lag=lag,
        rising=int(rises_in.sum()),
        hits=float(np.average(rises_in, weights=ends - starts)),
        amount=amount,
        amount_variation=variation(counted) if amount > 0 else float("inf"),
        pattern=pattern,
        order=order,
    )


def amounts_over(values: FloatArray, level: float, starts: IntArray, ends: IntArray, step: float) -> FloatArray:
    """What a signal holds over a level from each start to each end: its unit times seconds."""
    return _totals(np.fmax(values - level, 0.0), starts, ends) * step


def tied(one: FloatArray, other: FloatArray, within: BoolArray) -> bool:
    """A series rises and falls with a pod's signal, at one of the lags that the latter may have. False where samples
    lack. The first is averaged over two steps, as the rates of a pod's counters are. Ranks are compared: transfers
    differ in speed by factors.
    """
    averaged = (one + np.roll(one, 1)) / 2
    for lag in LAGS:
        shifted = np.roll(other, -lag)
        both = within & np.isfinite(averaged) & np.isfinite(shifted)
        first, second = averaged[both], shifted[both]
        if len(first) < LEAST_SAMPLES or first.std() == 0 or second.std() == 0:
            continue
        if float(np.corrcoef(_ranks(first), _ranks(second))[0, 1]) >= max(TIED, DEVIATIONS / len(first) ** 0.5):
            return True
    return False


def _ranks(values: FloatArray) -> FloatArray:
    """The place of each value in their order; equal ones share the middle of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def _totals(values: FloatArray | BoolArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """The sums of the values from each start to each end, as far as these lie on the grid."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    first, last = (np.clip(edges, 0, len(values)) for edges in (starts, ends))
    return np.asarray(sums[last] - sums[first], dtype=np.float64)
