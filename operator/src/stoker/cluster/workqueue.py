"""The workqueue: each waiting key is queued once, one worker handles a key at a time, and failed keys are retried with
backoff, as in client-go. Groups of keys, such as namespaces, are served round-robin.

Used for DLJobs by the controller and for notifications by the notifier.
"""

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stoker.cluster.faults import Faults

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A handler's result for work that is not done. The key is retried after `first` seconds; each further time in a
    row doubles the wait, up to `longest` seconds. A change of the object ends the wait.
    """

    first: float
    longest: float


TRANSIENT = Backoff(first=0.2, longest=60.0)
FAULTY = Backoff(first=1.0, longest=300.0)
"""Backoff after an internal error. Chosen slower than TRANSIENT, because an internal error seldom goes away by itself.
"""


class Transient(Exception):  # noqa: N818 - a reason to try again, not an error
    """Raised by a handler whose work is not done for a known reason. The key is retried with the backoff TRANSIENT, and
    the reason is logged without a traceback.
    """


Requeue = float | Backoff | None
"""A handler's result: the seconds until the key is handled again, a Backoff, or None. In each case an added key is
handled earlier, except that a Backoff ends early only when the object has changed.
"""


def one_group(_: Hashable) -> Hashable:
    """Puts all keys into one group."""
    return None


class WorkQueue(Generic[K]):
    """A queue of keys. Groups are served round-robin, and the keys of a group in order of arrival.

    A key that is added while it waits is not queued twice. A key that is added while a worker handles it is handled
    once more afterwards. So a handler sees the latest state, however many events there were.

    A group gets another worker only while more workers are free than it already has. So one group has at most half of
    the workers. Without `group` all keys may use all workers.
    """

    def __init__(
        self,
        *,
        group: Callable[[K], Hashable] = one_group,
        jitter: Callable[[], float] = random.random,
        place: str = "reconcile",
        faults: Faults,
    ) -> None:
        """`group` gives the group of a key; `jitter` returns a random number in 0..1; `place` is the name under which
        `faults` counts exceptions of the handler.
        """
        self._place = place
        self._group = group
        self._jitter = jitter
        self._faults = faults
        self._ready: dict[Hashable, deque[K]] = {}
        """The waiting keys by group. The group to serve next comes first."""
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._busy: Counter[Hashable] = Counter()
        """The number of busy workers by group."""
        self._free = 0
        self._again: dict[K, bool] = {}
        """Keys that were added while a worker handles them, and whether their object has changed."""
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._held: set[K] = set()
        """Keys that wait for the end of a backoff."""
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K, *, changed: bool = False) -> None:
        """Queue a key. A key in backoff is queued only if its object, or something it depends on, has `changed`,
        because then the next attempt may succeed.
        """
        if key in self._working:
            self._again[key] = changed or self._again.get(key, False)
        elif key not in self._held or changed:
            if changed:
                self._held.discard(key)
                self._failures.pop(key, None)
            self._enqueue(key)

    def add_after(self, key: K, delay: float) -> None:
        """Queue a key in `delay` seconds, or earlier if an earlier timer of it is set."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._ring, key)

    def pick(self) -> K | None:
        """Remove and return the next key whose group may have another worker, or None."""
        for group, keys in self._ready.items():
            if group is None or self._busy[group] < self._free:
                key = keys.popleft()
                del self._ready[group]
                if keys:
                    self._ready[group] = keys  # moved to the end: the other groups come first
                self._waiting.discard(key)
                return key
        return None

    async def run(self, handle: Callable[[K], Awaitable[Requeue]], *, workers: int) -> None:
        """Handle keys by so many workers until cancelled."""
        self._free = workers
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(handle))

    def _enqueue(self, key: K) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.setdefault(self._group(key), deque()).append(key)
            self._wake.set()

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self._held.discard(key)
        self.add(key)

    async def _next(self) -> K:
        while (key := self.pick()) is None:
            self._wake.clear()
            await self._wake.wait()
        return key

    async def _work(self, handle: Callable[[K], Awaitable[Requeue]]) -> None:
        while True:
            key = await self._next()
            group = self._group(key)
            self._working.add(key)
            self._busy[group] += 1
            self._free -= 1
            timer = self._timers.pop(key, None)
            if timer is not None:
                # The handler sees the present state and returns itself when to run again.
                timer.cancel()
            try:
                answer = await self._handled(key, handle)
            finally:
                self._working.discard(key)
                self._busy[group] -= 1
                if not self._busy[group]:
                    del self._busy[group]
                self._free += 1
                self._wake.set()  # another group may wait for a free worker
            self._settle(key, answer)

    async def _handled(self, key: K, handle: Callable[[K], Awaitable[Requeue]]) -> Requeue:
        try:
            answer = await handle(key)
        except Transient as reason:
            logger.info("%s: %s; tried again", key, reason)
            return TRANSIENT
        except Exception as error:
            self._faults.caught(self._place, str(key), error)
            return FAULTY
        self._faults.passed(self._place, str(key))
        return answer

    def _settle(self, key: K, answer: Requeue) -> None:
        """Queue a key again as its handler's result demands, or because it was added in between."""
        added = self._again.pop(key, None)
        if not isinstance(answer, Backoff):
            self._failures.pop(key, None)
            if added is not None:
                self._enqueue(key)
            if answer is not None:
                self.add_after(key, answer)
        elif added:
            self._failures.pop(key, None)
            self._enqueue(key)
        else:
            self._held.add(key)
            self.add_after(key, self._pause(key, answer))

    def _pause(self, key: K, backoff: Backoff) -> float:
        """Seconds of the next backoff. It doubles with every failure in a row, and a random factor between 0.5 and 1
        spreads the retries of many keys.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(backoff.first * 2.0 ** min(count - 1, 30), backoff.longest)
        return longest * (0.5 + self._jitter() / 2)
