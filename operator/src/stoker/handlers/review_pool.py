"""Runs reviews beside the event loop, for a bounded time."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

STUCK_AFTER = 30.0
"""Seconds after which a review that still runs will never end: the process needs a restart, since a thread can't be
stopped.
"""


class ReviewPool:
    """Threads, one by default, for what computes.

    A review takes milliseconds, one of a hostile script up to its budget: in the loop it would hold up all others and
    the probes, in a thread it shares the processor with them, for less than 0.1 ms more (benchmarks/admission.py). What
    waits for a thread longer than its budget is given up unstarted: a flood of slow reviews is answered in time, if
    without analysis.
    """

    def __init__(self, workers: int) -> None:
        self._executor = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="review")
        self._running: dict[int, float] = {}
        self._started = 0

    async def run(self, review: Callable[[], T], budget: timedelta) -> T:
        """The review's result. Raises TimeoutError when there is none within the budget, and whatever the review
        raises.
        """
        return await asyncio.wait_for(
            asyncio.get_running_loop().run_in_executor(self._executor, self._timed, review), budget.total_seconds()
        )

    def stuck(self) -> str | None:
        """Says so if a review has been running for longer than any may, or None."""
        longest = time.monotonic() - min(list(self._running.values()), default=time.monotonic())
        return f"a review has been running for {longest:.0f} s" if longest > STUCK_AFTER else None

    def close(self) -> None:
        """Start nothing more; what runs is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _timed(self, review: Callable[[], T]) -> T:
        ticket = id(review)
        self._running[ticket] = time.monotonic()
        try:
            return review()
        finally:
            del self._running[ticket]
