"""What happens together: a signal within a pattern against the signal outside of it, and whether chance could do it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stoker.diagnosis.series.drops import variation
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

LAGS = (0, 1, -1, 2)
"""Steps by which a signal may lag or lead: exporters are scraped at different moments of a step, and a rate over the
last minute lags by half of it and by the kubelet's own housekeeping.
"""
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
WIDENING = 2
"""Steps before and after a stretch that may hold a part of what belongs to it, for the same reason."""
UNLIKE = 0.25
"""Shifts whose mask correlates less than this with the pattern's own are chance; others are the pattern a period on."""
UNLIKELY = 0.02
"""Of the shifts by chance so few may show as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coincidence:
    """A signal against a pattern, at the lag where it fits best.

    inside: its mean; outside: its level, which a quarter of the steps do not reach; in the signal's unit. chance: the
    share of circular shifts of the pattern that show as much, by ranks, because transfers differ in speed by factors.
    rising: in how many of the pattern's stretches the signal rises over its level outside by the floor. hits: the share
    of the pattern's time that these take: short ones of other making count for no more than they are. amount: what each
    of these holds over the level outside, the signal's unit times seconds, the middle one; amount_variation: how much
    that varies.
    """

    inside: float
    outside: float
    lag: int
    chance: float
    rising: int
    hits: float
    amount: float
    amount_variation: float

    @property
    def excess(self) -> float:
        """How much higher the signal stands within the pattern."""
        return self.inside - self.outside


def coincidence(
    values: FloatArray,
    spans: Sequence[tuple[int, int]],
    within: BoolArray,
    step: float,
    *,
    floor: float,
) -> Coincidence | None:
    """Hold a signal against a pattern's stretches among the steps of `within`; None where samples lack.

    `floor` is the least rise that counts, in the signal's unit: a ratio of two small numbers is noise.
    """
    places = np.flatnonzero(within)
    signal = values[places]
    known = np.isfinite(signal)
    pattern = np.zeros(len(values), dtype=np.bool_)
    for first, last in spans:
        pattern[first:last] = True
    mask = pattern[places]
    inside, outside = known & mask, known & ~mask
    if inside.sum() < mask.sum() / 2 or outside.sum() < (~mask).sum() / 2 or not inside.any() or not outside.any():
        return None
    level = float(np.percentile(signal[outside], LEVEL_PERCENTILE))
    order = np.zeros(len(signal))
    order[known] = _ranks(signal[known]) - (known.sum() + 1) / 2
    sums = _shifted_sums(order, mask)
    lag = max(LAGS, key=lambda one: (sums[one], -abs(one)))
    overlap = _shifted_sums(mask.astype(np.float64), mask)
    expected = mask.sum() ** 2 / len(mask)
    chances = sums[overlap - expected <= UNLIKE * (mask.sum() - expected)]
    rises_in = [_rises(values, level + floor, first + lag, last + lag) for first, last in spans]
    amounts = [
        _amount(values, level, first + lag, last + lag, step)
        for (first, last), rising in zip(_widened(spans), rises_in, strict=True)
        if rising or not any(rises_in)
    ]
    lagged = known & np.roll(mask, lag)
    return Coincidence(
        inside=float(signal[lagged if lagged.any() else inside].mean()),
        outside=level,
        lag=lag,
        chance=float((chances >= sums[lag]).mean()) if len(chances) else 1.0,
        rising=sum(rises_in),
        hits=float(np.average(rises_in, weights=[last - first for first, last in spans])),
        amount=float(np.median(amounts)),
        amount_variation=variation(amounts) if np.median(amounts) > 0 else float("inf"),
    )


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


def _shifted_sums(values: FloatArray, mask: BoolArray) -> FloatArray:
    """For each circular shift of the mask, the sum of the values under it."""
    spectrum = np.fft.rfft(values) * np.conj(np.fft.rfft(mask.astype(np.float64)))
    return np.fft.irfft(spectrum, n=len(values))


def _widened(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each stretch with the steps around it, which it may share; of two neighbours none twice."""
    ends = [0, *(last for _, last in spans)]
    starts = [*(first for first, _ in spans), spans[-1][1] + 2 * WIDENING]
    return [
        (max(first - WIDENING, (ends[place] + first) // 2), min(last + WIDENING, (last + starts[place + 1]) // 2))
        for place, (first, last) in enumerate(spans)
    ]


def _amount(values: FloatArray, level: float, first: int, last: int, step: float) -> float:
    """What the signal holds over its level in a stretch."""
    return float(np.nansum(np.maximum(values[max(first, 0) : last] - level, 0.0))) * step


def _rises(values: FloatArray, ceiling: float, first: int, last: int) -> bool:
    part = values[max(first, 0) : last]
    return bool((part[np.isfinite(part)] >= ceiling).any())
