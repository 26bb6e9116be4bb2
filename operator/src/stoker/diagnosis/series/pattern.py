"""Patterns in a job's series that more than one rule must recognize."""

import numpy as np

from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray

STATE_SEPARATION_POINTS = 25.0
"""Two levels of use that lie closer than this are one level with noise."""


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
