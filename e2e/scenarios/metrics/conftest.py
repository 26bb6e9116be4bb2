"""What the tests on a recorded Prometheus share; each module has a fixture `prometheus` with a history of its own."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from e2e.scenarios.metrics.recorded import RecordedPrometheus
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource


@pytest.fixture(scope="module")
def now() -> datetime:
    """When the module's history ends."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
async def source(prometheus: RecordedPrometheus) -> AsyncIterator[PrometheusSource]:
    """Reads the module's Prometheus. Its history ended when the module started, and stays the present to its end."""
    async with PrometheusSource(PrometheusAccess(url=prometheus.url), max_skew=None) as source:
        yield source
