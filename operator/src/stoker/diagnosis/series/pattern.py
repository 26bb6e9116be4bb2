"""Patterns in a job's series: two states that it changes between, and the stretches that one of them makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

IntArray = npt.NDArray[np.int64]

STATE_SEPARATION_POINTS = 25.0
"""Two levels of use that lie closer than this are one level with noise."""
LAGS = (0, 1, -1, 2)
"""Steps by which a signal may lag or lead: exporters are scraped at different moments of a step, and a rate over the
last minute lags by half of it and by the kubelet's own housekeeping.
"""
UNLIKE = 0.25
"""Shifts whose mask correlates less than this with the pattern's own are chance; others are the pattern a period on."""
WIDENING = 2
"""Steps before and after a stretch that may hold a part of what belongs to it: a rate is taken over a minute."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Stretches, as half-open ranges of steps, among the steps of `within`; signals are held against them by
    `coincidence`. What does not depend on the signal is computed once. step: seconds a step.
    """

    spans: Sequence[tuple[int, int]]
    within: BoolArray
    step: float

    @cached_property
    def places(self) -> IntArray:
        """The steps of `within`."""
        return np.flatnonzero(self.within)

    @cached_property
    def mask(self) -> BoolArray:
        """Of these, the ones in a stretch."""
        pattern = np.zeros(len(self.within), dtype=np.bool_)
        for first, last in self.spans:
            pattern[first:last] = True
        return pattern[self.places]

    @cached_property
    def lagging(self) -> FloatArray:
        """The mask as numbers, one row for each of LAGS, by which it is shifted."""
        return np.array([np.roll(self.mask, lag) for lag in LAGS], dtype=np.float64)

    @cached_property
    def edges(self) -> IntArray:
        """The starts of the stretches, and their ends."""
        return np.array(self.spans, dtype=np.int64).T

    @cached_property
    def widened(self) -> IntArray:
        """The same with the steps around each stretch, which it may share; of two neighbours none twice."""
        starts, ends = self.edges
        middles = (ends[:-1] + starts[1:]) // 2
        before = np.concatenate(([starts[0] // 2], middles))
        after = np.concatenate((middles, [ends[-1] + WIDENING]))
        return np.array([np.maximum(starts - WIDENING, before), np.minimum(ends + WIDENING, after)])

    @cached_property
    def by_chance(self) -> BoolArray:
        """The circular shifts of the pattern that are unlike it."""
        overlap = self.shifted_sums(self.mask.astype(np.float64))
        expected = self.mask.sum() ** 2 / len(self.mask)
        return np.asarray(overlap - expected <= UNLIKE * (self.mask.sum() - expected), dtype=np.bool_)

    def shifted_sums(self, values: FloatArray) -> FloatArray:
        """For each circular shift of the pattern, the sum of the values under it; one value for each of `places`.

        Values are halves or whole, and so are the sums.
        """
        size = 2 * len(self._spectrum) - 2
        sums = np.fft.irfft(np.fft.rfft(values, size) * self._spectrum)
        return np.round(2 * (sums[: len(values)] + sums[size - len(values) :])) / 2

    @cached_property
    def _spectrum(self) -> npt.NDArray[np.complex128]:
        """Of the pattern, with zeros up to a power of two: a transform of a prime length takes ten times as long."""
        size = 1 << (2 * len(self.mask) - 1).bit_length()
        return np.conj(np.fft.rfft(self.mask.astype(np.float64), size))


def two_states(values: FloatArray) -> tuple[BoolArray, float, float] | None:
    """Split values into a low and a high state: the mask of the low one and the two means.

    The split is the one of least squares over all thresholds (Otsu's). None where the states lie closer than 25
    points: median and spread of a series that stands at 0 half of the time would see nothing.
    """
    known = np.sort(values[np.isfinite(values)])
    if len(known) < 2:
        return None
    sums = np.cumsum(known)
    sizes = np.arange(1, len(known))
    low, high = sums[:-1] / sizes, (sums[-1] - sums[:-1]) / (len(known) - sizes)
    between = sizes * (len(known) - sizes) * (high - low) ** 2
    best = int(np.argmax(between))
    if high[best] - low[best] < STATE_SEPARATION_POINTS:
        return None
    threshold = (known[best] + known[best + 1]) / 2
    with np.errstate(invalid="ignore"):
        return values < threshold, float(low[best]), float(high[best])
