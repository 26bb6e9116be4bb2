"""Percentiles of one series, of which a diagnosis takes hundreds."""

import numpy as np

from stoker.telemetry.series import FloatArray


def percentile(values: FloatArray, percent: float) -> float:
    """What `percent` of the values do not exceed, linear between neighbours like `np.percentile`: some thousand values
    cost it seven times as much. There must be one value at least, and no NaN.
    """
    place = percent / 100 * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    ordered = np.partition(values, (low, high))
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
