"""A work queue of keys: each key once, one worker a key, failed ones again after a while, and no group of keys, such as
a namespace, in the way of the others.
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
    """A handler's answer for work that is not done: tried again after `first` seconds, after twice as many each further
    time in a row, after `longest` at most. Until then only a change of the object has it tried.
    """

    first: float
    longest: float


TRANSIENT = Backoff(first=0.2, longest=60.0)
FAULTY = Backoff(first=1.0, longest=300.0)
"""After a fault of ours, which seldom goes away by itself."""


class Transient(Exception):  # noqa: N818 - a reason to try again, not an error
    """Raised by a handler whose work is not done for a known reason: tried again with backoff, logged without a
    traceback.
    """


Requeue = float | Backoff | None
"""After how many seconds to look again, or earlier when the key is added; None: when it is added."""


def one_group(_: Hashable) -> Hashable:
    """The group of keys that are not told apart."""
    return None


class WorkQueue(Generic[K]):
    """Keys of a group wait in order of arrival, and groups take turns. A key added while it waits is not added again;
    one added while it is worked on is worked on once more afterwards. So a handler sees the latest state however many
    events there were.

    A group may have as many workers at work as are left for the others, and one is always left.
    """

    def __init__(
        self,
        *,
        group: Callable[[K], Hashable] = one_group,
        jitter: Callable[[], float] = random.random,
        place: str = "reconcile",
        faults: Faults,
    ) -> None:
        """`jitter` draws from 0..1; `place` is what faults are counted under."""
        self._place = place
        self._group = group
        self._jitter = jitter
        self._faults = faults
        self._ready: dict[Hashable, deque[K]] = {}
        """The keys that wait, by group; the group whose turn it is comes first."""
        self._waiting: set[K] = set()
        self._working: set[K] = set()
        self._busy: Counter[Hashable] = Counter()
        """Workers at work, by group."""
        self._free = 0
        self._again: dict[K, bool] = {}
        """Keys added while they are worked on, and whether their object has changed."""
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._held: set[K] = set()
        """Keys whose timer is a backoff."""
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K, *, changed: bool = False) -> None:
        """Have a key worked on soon; one that is backed off only when its object, or what it hangs on, has `changed`:
        then what was refused may be taken.
        """
        if key in self._working:
            self._again[key] = changed or self._again.get(key, False)
        elif key not in self._held or changed:
            if changed:
                self._held.discard(key)
                self._failures.pop(key, None)
            self._enqueue(key)

    def add_after(self, key: K, delay: float) -> None:
        """Have a key worked on `delay` seconds from now, or when an earlier timer of it says so."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + delay:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._ring, key)

    def pick(self) -> K | None:
        """Take the key whose turn it is, if a worker is free for its group."""
        for group, keys in self._ready.items():
            if group is None or self._busy[group] < self._free:
                key = keys.popleft()
                del self._ready[group]
                if keys:
                    self._ready[group] = keys  # behind the others
                self._waiting.discard(key)
                return key
        return None

    async def run(self, handle: Callable[[K], Awaitable[Requeue]], *, workers: int) -> None:
        """Work on keys for ever."""
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
                # The handler looks at everything now and says itself when to look again.
                timer.cancel()
            try:
                answer = await self._handled(key, handle)
            finally:
                self._working.discard(key)
                self._busy[group] -= 1
                if not self._busy[group]:
                    del self._busy[group]
                self._free += 1
                self._wake.set()  # a group may have waited for a worker
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
        """Have a key come again as its handler has answered, and as was asked meanwhile."""
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
        """Doubled with every failure in a row, between half and all of it at random, so that many don't come back at
        once.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(backoff.first * 2.0 ** min(count - 1, 30), backoff.longest)
        return longest * (0.5 + self._jitter() / 2)
