"""An event loop whose clock jumps: nobody sleeps, and a thousand hours take as long as what happens in them."""

import asyncio
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

BEGINNING = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
"""A Monday, in seconds since 1970, as all times here."""


class DeadlockError(RuntimeError):
    """Everybody waits, and for nothing that will come."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its time is the true one of a simulated world, in seconds since 1970. Where a callback is due at once it runs;
    where none is, the time is the next one's. Threads are not started: what is given to one runs in place.
    """

    def __init__(self) -> None:
        self.at = BEGINNING
        super().__init__(_Jump(self))
        self._clock_resolution = 1e-5

    def time(self) -> float:
        """The true time."""
        return self.at

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # in place
        """Run it now."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class _Jump(selectors.SelectSelector):
    """Waits for no file: the time passes instead."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError
        self._loop.at += max(timeout, 0.0)
        return []


class SkewedClock:
    """A machine's clock: the true time and an offset in seconds, which may step. Its steady clock never does."""

    def __init__(self, loop: VirtualTimeLoop, offset: float = 0.0) -> None:
        self._loop = loop
        self.offset = offset

    def now(self) -> datetime:
        return moment(self._loop.at + self.offset)

    def monotonic(self) -> float:
        return self._loop.at


def moment(seconds: float) -> datetime:
    """A time as a datetime."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def seconds(span: timedelta) -> float:
    """A time span in seconds."""
    return span.total_seconds()
