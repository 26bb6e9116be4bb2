"""Long loops on the event loop, which has watches, a lease and probes to serve."""

import asyncio

MOMENT = 0.02
"""Seconds that a loop may go on before others have their turn."""


class Breath:
    """Take one in each round of a loop: by time, as no count of rounds says how long they take."""

    def __init__(self) -> None:
        self._since = asyncio.get_running_loop().time()

    async def take(self) -> None:
        """Let others have their turn, if the last time is long enough ago."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since > MOMENT:
            await asyncio.sleep(0)
            self._since = loop.time()
