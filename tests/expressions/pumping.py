"""How long an expression takes on texts that go round its repetitions again and again."""

import re
import signal
import time
from collections import deque
from collections.abc import Iterable
from types import FrameType

from tests.expressions.automaton import Suspect, automaton

LENGTH = 10_000
LIMIT = 0.05
"""Seconds of processor time, of the best of three tries."""
SCRIPT = 65_536
"""The longest script, and the time that it may take: a square that is cheap on the length above is not on this one."""
SCRIPT_LIMIT = 0.4
SHORT = 200
FEW, MORE = 625, 2_500
"""Two short lengths that show what is in proportion without a long text: most texts need no more."""
IN_PROPORTION = 5.3
"""The time on MORE, as a multiple of that on FEW: 4 where it is in proportion. Chosen because a square that makes it
this multiple takes 8 times as long on LENGTH as on a quarter of it, which is what the long texts let pass.
"""


class TooLongError(Exception):
    """A match was given up."""


def laid(compiled: re.Pattern[str], way: str, text: str) -> float:
    """Seconds of processor time of one expression on one text."""
    begin = time.thread_time()
    if way == "finditer":
        deque(compiled.finditer(text), 0)
    else:
        getattr(compiled, way)(text)
    return time.thread_time() - begin


def seconds(compiled: re.Pattern[str], way: str, text: str, limit: float) -> float:
    """The best time of three tries. Each is stopped when it takes four times the limit (`re` looks for signals), and
    after two of those there is no third: noise does not make processor time four times as long twice.
    """

    def stop(_: int, __: FrameType | None) -> None:
        raise TooLongError

    best = float("inf")
    given_up = 0
    former = signal.signal(signal.SIGVTALRM, stop)
    try:
        for _ in range(3):
            if best <= limit or given_up == 2:
                break
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 4 * limit)
                best = min(best, laid(compiled, way, text))
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            except TooLongError:
                given_up += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    return best


def slow(pattern: str, flags: int, ways: Iterable[str]) -> str | None:
    """The first text that an expression takes too long for, in words; None where there is none."""
    compiled = re.compile(pattern, flags)
    for way in ways:
        built = automaton(pattern, flags, searching=way in ("search", "finditer"))
        for suspect in sorted(built.suspects() | built.repetitions()):
            for ending in built.endings():
                length = too_long(compiled, way, suspect, ending)
                if length is not None:
                    return f"{way}: {suspect.before!r} + {suspect.again!r} * n + {ending!r}, {length} characters"
    return None


def too_long(compiled: re.Pattern[str], way: str, suspect: Suspect, ending: str) -> int | None:
    """The length of a suspect that an expression takes too long for. A short one finds what doubles with each round."""

    def taken(length: int, limit: float) -> float:
        text = f"{suspect.before}{suspect.again * (length // len(suspect.again) + 1)}{ending}"
        return seconds(compiled, way, text, limit)

    if taken(SHORT, LIMIT) > LIMIT:
        return SHORT
    more = taken(MORE, LIMIT)
    # Noise makes a time longer and never shorter: of the short text the best of three tries counts.
    if more * LENGTH / MORE < LIMIT / 2 and more < IN_PROPORTION * min(taken(FEW, LIMIT) for _ in range(3)):
        return None
    long = taken(LENGTH, LIMIT)
    if long > LIMIT:
        return LENGTH
    in_proportion = long < LIMIT / 10 or long < 8 * taken(LENGTH // 4, LIMIT)
    return SCRIPT if not in_proportion and taken(SCRIPT, SCRIPT_LIMIT) > SCRIPT_LIMIT else None
