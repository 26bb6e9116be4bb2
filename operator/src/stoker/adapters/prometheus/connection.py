"""Questions to Prometheus, asked off the event loop; see `prometheus_transport` for the wire."""

import asyncio
import copy
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar

from prometheus_api_client import PrometheusConnect

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.observer import QueryObserver
from stoker.adapters.prometheus.promql import Selectors
from stoker.adapters.prometheus.transport import Rows, Transport
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import MetricsUnavailable

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")

THREADS = 4
"""Queries that run at a time; Prometheus itself runs 20 by default (`--query.max-concurrency`), for all its users."""


class PrometheusConnection:
    """prometheus-api-client in a small thread pool, so that the event loop never waits for a socket.

    `close` ends it.
    """

    def __init__(
        self, access: PrometheusAccess, *, max_skew: timedelta | None, observer: QueryObserver | None = None
    ) -> None:
        """`max_skew` is how far the server's clock may be from the times that are asked for; None: as far as it is."""
        self._max_skew = max_skew
        self._observer = observer
        self._kind = "other"
        self.selector = Selectors(access.matchers)
        """Selects series, in every query."""
        self._transport = Transport(access)
        self._client = PrometheusConnect(
            url=access.url.rstrip("/"), session=self._transport, timeout=access.timeout.total_seconds(), method="POST"
        )
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="prometheus")

    async def close(self) -> None:
        """Close the connections. A query that still runs ends by its timeout; nobody waits for it."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._transport.close()

    def observed_as(self, kind: str) -> Self:
        """The same connection, whose queries the observer is told of as this kind."""
        named = copy.copy(self)
        named._kind = kind  # noqa: SLF001 -- a copy of one's own
        return named

    async def instant(self, query: str, now: datetime) -> Rows:
        """A query's rows at one time. Raises MetricsUnavailable, also for a clock that is not the server's."""
        rows = await self._ask(partial(self._client.custom_query, query, params={"time": f"{now.timestamp():.3f}"}))
        if self._max_skew is not None and rows.server_time is not None:
            skew = rows.server_time - now
            if abs(skew) > self._max_skew:
                raise _another_clock(skew)
        return rows

    async def range(self, query: str, start: float, end: float, step: float) -> Rows:
        """A query's rows each `step` seconds from `start` to `end` (seconds since the epoch), both included.

        Raises MetricsUnavailable.
        """
        rows = await self._ask(
            partial(
                self._client.custom_query_range,
                query,
                start_time=datetime.fromtimestamp(start, tz=UTC),
                end_time=datetime.fromtimestamp(end, tz=UTC),
                step=f"{step:g}",
            )
        )
        if self._max_skew is not None and rows.server_time is not None:
            # A server ahead of `end` is asked about the past; one behind it lacks the latest samples.
            behind = datetime.fromtimestamp(end, tz=UTC) - rows.server_time
            if behind > self._max_skew:
                raise _another_clock(-behind)
        return rows

    async def off_loop(self, work: Callable[..., Result], *args: Any) -> Result:
        """Work that would hold the loop, in the pool's threads."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args))

    async def _ask(self, question: partial[Any]) -> Rows:
        rows: object = await self.off_loop(self._observed, question)
        if not isinstance(rows, Rows):
            raise TypeError("prometheus-api-client did not pass the answer's rows through")
        for warning in rows.warnings:
            LOG.warning("Prometheus answered in part: %s", warning)
        return rows

    def _observed(self, question: partial[Any]) -> object:
        """Asks, in the pool's thread: the time in which a query waits for a thread is not the server's."""
        failure: str | None = None
        start = time.perf_counter()
        try:
            return question()
        except MetricsUnavailable as unavailable:
            failure = unavailable.reason.value
            raise
        finally:
            if self._observer is not None:
                self._observer.queried(self._kind, time.perf_counter() - start, failure)


def _another_clock(skew: timedelta) -> MetricsUnavailable:
    side = "ahead of" if skew > timedelta(0) else "behind"
    message = f"Prometheus' clock is {abs(skew).total_seconds():.0f} s {side} ours"
    return MetricsUnavailable(UnknownReason.STALE, message)


def number(text: str) -> float:
    """A sample as Prometheus writes it: `NaN` and `+Inf` are numbers here, and no evidence later."""
    return float(text)


def aware(time: datetime) -> None:
    """Refuse a time without its zone."""
    if time.tzinfo is None:
        raise ValueError("a time without its zone is ambiguous")
