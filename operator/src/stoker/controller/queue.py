"""A work queue of keys: each key once, one worker a key, failed ones again after a while."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 300.0


class Transient(Exception):  # noqa: N818 - a reason to try again, not an error
    """Raised by a handler whose work is not done for a known reason: tried again with backoff, logged without a
    traceback.
    """


class WorkQueue(Generic[K]):
    """Keys wait in order of arrival. A key added while it waits is not added again; one added while it is worked on is
    worked on once more afterwards. So a handler sees the latest state however many events there were.
    """

    def __init__(self, *, jitter: Callable[[], float] = random.random) -> None:
        """`jitter` draws from 0..1."""
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._jitter = jitter

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K) -> None:
        """Have a key worked on soon."""
        if key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, delay: float) -> None:
        """Have a key worked on `delay` seconds from now, or when an earlier timer of it says so."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._ring, key)

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self, handle: Callable[[K], Awaitable[float | None]], *, workers: int) -> None:
        """Work on keys for ever. `handle` returns after how many seconds to look again, or None."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(handle))

    async def _work(self, handle: Callable[[K], Awaitable[float | None]]) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._working.add(key)
            timer = self._timers.pop(key, None)
            if timer is not None:
                # The handler looks at everything now and says itself when to look again.
                timer.cancel()
            try:
                delay = await handle(key)
                self._failures.pop(key, None)
            except Transient as reason:
                delay = self._backoff(key)
                logger.info("%s: %s; again in %.1f s", key, reason, delay)
            except Exception:
                delay = self._backoff(key)
                logger.exception("%s: failed; again in %.1f s", key, delay)
            finally:
                self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                if key in self._failures:
                    self.add_after(key, delay or 0)
                else:
                    self.add(key)
            if delay is not None:
                self.add_after(key, delay)

    def _backoff(self, key: K) -> float:
        """Doubled with every failure in a row, between half and all of it at random, so that many don't come back at
        once.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(FIRST_BACKOFF * 2.0 ** min(count - 1, 30), LONGEST_BACKOFF)
        return longest * (0.5 + self._jitter() / 2)
