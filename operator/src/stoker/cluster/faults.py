"""Records internal errors that one object causes. Used by every loop over objects: the loop catches the exception,
reports it here and goes on, so that the error affects that object only.
"""

import logging
import traceback
from pathlib import PurePath

from stoker.cluster.recorder import NO_RECORDER, MetricsRecorder
from stoker.findings.finding import single_line

logger = logging.getLogger(__name__)

REMEMBERED = 10_000
"""Faults that are remembered as already logged. Beyond this number all are forgotten and logged again."""
MAX_WORDS = 200
"""Characters of a fault's message in a condition."""


class Faults:
    """Counts every fault, and logs a fault once for each object, place and line of code."""

    def __init__(self, recorder: MetricsRecorder = NO_RECORDER) -> None:
        self._recorder = recorder
        self._known: dict[tuple[str, str], str] = {}

    def caught(self, place: str, name: str, error: Exception) -> str:
        """Record that the object `name` caused `error` at `place`, a short word such as `scan`.

        Returns a description on one line without control characters, as `described` gives it.
        """
        self._recorder.faulted(place)
        words = described(error)
        where = _where(error)
        if self._known.get((place, name)) != where:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[place, name] = where
            # The traceback is logged without the error's text, which may contain what users wrote.
            frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
            logger.error("%s: left out (%s) because of an internal error: %s\n%s", name, place, words, frames)
        return words

    def passed(self, place: str, name: str) -> None:
        """Record that the object caused no error at `place`, so that its next fault there is logged again."""
        self._known.pop((place, name), None)


def described(error: Exception) -> str:
    """`ValueError: no number of GPUs`, on one line and of bounded length."""
    words = f"{type(error).__name__}: {single_line(str(error)[: 2 * MAX_WORDS])}".rstrip(": ")
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 3]}..."


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {place}"
