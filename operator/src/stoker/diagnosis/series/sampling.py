"""Between which percentages the mean of a GPU lies that was sampled more slowly than it changes.

`Examination.bounds` asks for each GPU whose utilization is a look at a moment rather than the mean of an interval.
"""

import numpy as np

from stoker.diagnosis.series.percentiles import percentile
from stoker.telemetry.series import FloatArray

LEAST_SAMPLES = 100
"""Samples below which nothing is said of how they follow one another: the correlation of 100 independent ones stays
under 0.3.
"""
LOCKED_CORRELATION = 0.5
"""Correlation of the samples with themselves at some lag, from which sampling may be locked to a loop of the program:
always the same moments of it are seen, and their mean may be anything. Independent samples stay under 0.3.
"""
EXTREME_PERCENTILES = (10, 90)
"""What stands for a mean of which samples tell no more than their extremes."""
ERRORS = 3.0
"""Standard errors on either side of the mean: 99.7 % of means lie within."""
BATCHES = 20
"""Batches of samples whose means show the standard error also where neighbouring samples are alike."""


def mean_range(known: FloatArray) -> tuple[float, float]:
    """Percentages between which the mean lies, from samples in percent, in the order of time and without gaps.

    Samples that follow no rhythm see any moment of the program equally often: their mean is off by its standard error.
    Few samples, or rhythmic ones, tell only their extremes.
    """
    low, high = (percentile(known, extreme) for extreme in EXTREME_PERCENTILES)
    if len(known) < LEAST_SAMPLES or _rhythmic(known):
        return low, high
    mean = float(known.mean())
    width = len(known) // BATCHES
    batches = known[: width * BATCHES].reshape(BATCHES, width).mean(axis=1)
    independent = float(known.std(ddof=1)) / len(known) ** 0.5
    error = ERRORS * max(independent, float(batches.std(ddof=1)) / BATCHES**0.5)
    return max(low, mean - error), min(high, mean + error)


def _rhythmic(known: FloatArray) -> bool:
    """Whether the samples repeat themselves after some lag of up to a third of their number, for or against."""
    centred = known - known.mean()
    size = 1 << (2 * len(centred) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    products = np.fft.irfft(spectrum * spectrum.conj(), size)[: len(centred) // 3 + 1]
    if products[0] <= 0:
        return True
    correlation = products[1:] / products[0]
    # Products at a lag are fewer than at none.
    correlation *= len(centred) / (len(centred) - np.arange(1, len(correlation) + 1))
    return bool(np.abs(correlation).max() > LOCKED_CORRELATION)


__all__ = ["mean_range"]
