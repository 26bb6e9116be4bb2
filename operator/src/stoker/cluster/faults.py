"""Faults of Stoker's that one object brings about: caught where objects are gone through one by one, so that they
concern that object alone.
"""

import logging
import traceback
from pathlib import PurePath

from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.findings.finding import single_line

logger = logging.getLogger(__name__)

REMEMBERED = 10_000
"""So many faults are known again; beyond that all are forgotten, and logged once more."""
MAX_WORDS = 200
"""Characters of a fault's message in a condition; the log has all of it."""


class Faults:
    """Counts every fault, and logs it once for each object and place."""

    def __init__(self, recorder: MetricsRecorder = NO_RECORDER) -> None:
        self._recorder = recorder
        self._known: dict[tuple[str, str], str] = {}

    def caught(self, place: str, name: str, error: Exception) -> str:
        """Take note that `error` was raised at `place` (a short word) by the object of that name; what it was, in a few
        words that end no line and move no cursor.
        """
        self._recorder.faulted(place)
        words = described(error)
        where = _where(error)
        if self._known.get((place, name)) != where:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[place, name] = where
            # Without the error's own text in the traceback: users may have written it.
            frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
            logger.error("%s: left out (%s) because of an internal error: %s\n%s", name, place, words, frames)
        return words

    def passed(self, place: str, name: str) -> None:
        """The object raises nothing there any more: the next fault is news."""
        self._known.pop((place, name), None)


def described(error: Exception) -> str:
    """`ValueError: no number of GPUs`, on one line and of bounded length."""
    words = f"{type(error).__name__}: {single_line(str(error)[: 2 * MAX_WORDS])}".rstrip(": ")
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {place}"
