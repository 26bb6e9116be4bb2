"""Percentiles of one series."""

import numpy as np
import pytest

from stoker.diagnosis.series.percentiles import percentile


@pytest.mark.parametrize("count", [1, 2, 3, 10, 997])
@pytest.mark.parametrize("percent", [0, 10, 25, 50, 90, 95, 99.5, 100])
def test_a_percentile_is_that_of_numpy(count: int, percent: float) -> None:
    values = np.random.default_rng(count).normal(40, 20, count).round()
    assert percentile(values, percent) == pytest.approx(np.percentile(values, percent), rel=1e-12, abs=1e-12)
