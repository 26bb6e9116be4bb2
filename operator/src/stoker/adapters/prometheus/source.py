"""GPU metrics out of Prometheus: the whole cluster at once, or one job in full."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection
from stoker.adapters.prometheus.metric_profile import Factors, profile_of
from stoker.adapters.prometheus.observer import QueryObserver
from stoker.adapters.prometheus.screen import Screening
from stoker.adapters.prometheus.series import SeriesReader
from stoker.telemetry.screen import Screen, ScreenRequest
from stoker.telemetry.series import JobFacts, JobSeries

RESOLUTION = timedelta(seconds=60)
"""The window is cut into steps of this; a step counts as covered when a sample is at most one and a half of them old.

Counting steps instead of samples makes coverage independent of how often Prometheus scrapes and of how often each
value is scraped twice. Scrape intervals of up to a minute fit.
"""
MAX_SKEW = timedelta(minutes=1)
"""Between Prometheus' clock and ours: with more, "the last hour" isn't the last hour."""


class PrometheusSource:
    """A MetricsSource on the HTTP API of Prometheus, or of what speaks it (Thanos, Mimir, VictoriaMetrics).

    An async context manager, or `close` ends it.
    """

    def __init__(
        self,
        access: PrometheusAccess,
        *,
        resolution: timedelta = RESOLUTION,
        max_skew: timedelta | None = MAX_SKEW,
        observer: QueryObserver | None = None,
    ) -> None:
        """`resolution` must be at least the scrape interval. `max_skew` None allows requests about the past. The
        `observer` is told of each query as one of a screen or of an examination.

        Raises KeyError for an unknown profile.
        """
        self._connection = PrometheusConnection(access, max_skew=max_skew, observer=observer)
        profile, factors = profile_of(access.profile, access.metric_prefix), Factors()
        screening = self._connection.observed_as("screen")
        self._screening = Screening(screening, profile, factors, resolution=resolution, max_skew=max_skew)
        self._series = SeriesReader(
            self._connection.observed_as("examination"), profile, factors, resolution=resolution
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, without waiting for queries that still run."""
        await self._connection.close()

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        """Six queries at most, however many jobs and windows there are; see MetricsSource."""
        return await self._screening.read(requests, now)

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Two queries; see MetricsSource."""
        return await self._series.read(facts, start, end, step)
