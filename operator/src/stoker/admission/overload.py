"""The log of an overloaded server: it must not grow with the requests, or it would be the next load."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

PERIOD = 60
"""Seconds between two lines. A minute: overload lasts for minutes, and a count each minute shows how it goes."""
Later = Callable[[float, Callable[[], None]], object]


def _in_this_loop(seconds: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, call)


class OverloadLog:
    """Logs the first refused request at once, and the number of those of the PERIOD after it at the period's end.

    `later` calls a function after so many seconds; in the process it is the event loop.
    """

    def __init__(self, later: Later = _in_this_loop) -> None:
        self._later = later
        self._further: int | None = None
        """The requests refused since the last line; None when none was refused for a period."""

    def refused(self, message: str) -> None:
        """A request was refused, with this message to its client."""
        if self._further is not None:
            self._further += 1
            return
        logger.warning("Refused a request with HTTP 503: %s", message)
        self._begin_period()

    def _begin_period(self) -> None:
        self._further = 0
        self._later(PERIOD, self._end_period)

    def _end_period(self) -> None:
        if not self._further:
            self._further = None
            return
        logger.warning("Refused %d further requests with HTTP 503 within %d s.", self._further, PERIOD)
        self._begin_period()
