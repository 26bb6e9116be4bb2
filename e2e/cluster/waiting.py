"""Waiting for what happens in other processes: by condition, with a deadline, never for a fixed time."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

_Found = TypeVar("_Found")


class NotYetError(AssertionError):
    """What was waited for did not come in time; the message has the last that was seen."""


def slowness() -> float:
    """How many times as long as on an idle machine things may take: processes that want to run, by CPU."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_for(
    what: str, probe: Callable[[], _Found], *, timeout: float = 30.0, interval: float = 0.05, quiet: bool = False
) -> _Found:
    """Call `probe` until it gives something true, and return that.

    A probe that raises AssertionError, OSError or LookupError counts as "not yet"; so a test can state what it waits
    for as assertions. Other exceptions (an ApiError among them) pass, unless `quiet`. Raises NotYetError after
    `timeout` seconds, and more on a busy machine, naming `what` and what the last probe saw.
    """
    expected = (Exception,) if quiet else (AssertionError, OSError, LookupError)
    started = time.monotonic()
    while True:
        try:
            found = probe()
        except expected as error:
            seen = f"{type(error).__name__}: {error}"
        else:
            if found:
                return found
            seen = repr(found)
        waited = time.monotonic() - started
        if waited > timeout * slowness():
            raise NotYetError(f"after {waited:.1f} s still waiting for {what}; last seen: {seen}")
        time.sleep(interval)
