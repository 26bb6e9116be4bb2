"""Long loops on the event loop, which also serves watches, the lease and probes: used by the scan (scan.py)."""

import asyncio

YIELD_AFTER = 0.02
"""Seconds that a loop may run before other tasks get the event loop. Chosen because a probe or a renewal of the lease
that waits so long is not late, and yielding more often would cost more than it gives.
"""


class LoopYielder:
    """Yields to other tasks from inside a long loop: call `yield_if_due` in each round. It goes by time, as no number
    of rounds says how long they take.
    """

    def __init__(self) -> None:
        self._since = asyncio.get_running_loop().time()

    async def yield_if_due(self) -> None:
        """Let other tasks run, if the last time was more than YIELD_AFTER ago."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since > YIELD_AFTER:
            await asyncio.sleep(0)
            self._since = loop.time()
