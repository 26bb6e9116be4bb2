"""What reading one object may cost: processor time, and the length of the scripts of all its containers together."""

import math
import time
from collections.abc import Callable

from stoker.shell.text import ExhaustedError

MAX_TEXT = 262_144
"""Characters of scripts and commands that are read of one object: four times the longest script of a DLJob."""

CALLS = 32
"""Calls of `check` between two looks at the clock, each of which takes as long as a few of the calls."""


class Allowance:
    """What is left of it; shared by everything that is read of one object.

    `deadline` is a time of `clock`, which is the thread's processor time unless a test says otherwise: a busy machine
    does not shorten it.
    """

    def __init__(
        self, deadline: float = math.inf, *, clock: Callable[[], float] = time.thread_time, text: int = MAX_TEXT
    ) -> None:
        self._deadline = deadline
        self._clock = clock
        self._text = text
        self._calls = CALLS

    def check(self) -> None:
        """Raise ExhaustedError once the time is over. To be called wherever reading goes round."""
        self._calls -= 1
        if self._calls <= 0:
            self._calls = CALLS
            if self.is_over:
                self._calls = 1  # whoever goes on after that is stopped at once
                raise ExhaustedError

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return self._clock() >= self._deadline

    def takes(self, characters: int) -> bool:
        """Whether a text of this length may be read beside those read before; it is counted if so."""
        if characters > self._text:
            return False
        self._text -= characters
        return True


__all__ = ["MAX_TEXT", "Allowance"]
