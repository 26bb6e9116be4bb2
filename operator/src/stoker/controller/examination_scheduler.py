"""Whose turn it is to be examined in full: where it matters often, everybody once in a while."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


class Standing(StrEnum):
    """How much hangs on the next examination of a job, the most first."""

    ENDED = "Ended"
    """It gets its final diagnosis, which stays."""
    DUE = "Due"
    """It would be reclaimed now, and a place is kept for it for a short while: all waits for this examination."""
    WARNED = "Warned"
    """It is about to be reclaimed: its cause must not be an old one."""
    IDLE = "Idle"
    LOW = "Low"
    OTHER = "Other"


PATIENCE: Mapping[Standing, float] = {
    Standing.ENDED: 120.0,
    Standing.DUE: 0.1,
    Standing.WARNED: 5.0,
    Standing.IDLE: 300.0,
    Standing.LOW: 600.0,
    Standing.OTHER: 7200.0,
}
"""Seconds that a job may wait. Where not everybody's turn can come in time, all wait longer in these proportions; a
warned job's comes in each tick unless many are.
"""
NEWCOMER = 0.1
"""Who was never examined waits so much less: nothing is known of it."""
SHARE = 10
"""Of one namespace's jobs whose time is over so many come before those of others."""
SETBACK = 4.0
MAX_MISSES = 4
"""After each examination that fails or finds no samples a job waits so many times longer, up to so many times."""


@dataclass(slots=True)
class _Turn:
    """Since when a job waits: since it was examined, or since it came (or ended) while it has not been."""

    standing: Standing
    since: float
    is_new: bool = True
    misses: int = 0

    def urgency(self, now: float) -> float:
        patience = PATIENCE[self.standing] * (NEWCOMER if self.is_new else 1.0) * SETBACK**self.misses
        return (now - self.since) / patience


class Turns:
    """Remembers when each job, by its uid, was examined. Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def order(self, standings: Mapping[str, Standing], namespaces: Mapping[str, str], now: float) -> list[str]:
        """The jobs, the most urgent first; all others are forgotten. Who has ended is new once more: its last
        examination was not the final one.

        Of those whose time is over, namespaces take turns within each standing, and none has more than SHARE of its
        jobs before others' that wait too: thousands of jobs of one make nobody else's wait as long.
        """
        turns: dict[str, _Turn] = {}
        for uid, standing in standings.items():
            turn = self._turns.get(uid)
            if turn is None:
                turn = _Turn(standing, now)
            elif standing is Standing.ENDED and turn.standing is not Standing.ENDED:
                turn = _Turn(standing, turn.since)
            turn.standing = standing
            turns[uid] = turn
        self._turns = turns
        ranks = {standing: rank for rank, standing in enumerate(Standing)}
        urgency = {uid: turn.urgency(now) for uid, turn in turns.items()}
        ordered = sorted(turns, key=lambda uid: (-urgency[uid], ranks[turns[uid].standing]))
        due = sum(urgency[uid] >= 1 for uid in ordered)
        return [*self._in_turn(ordered[:due], namespaces), *ordered[due:]]

    def _in_turn(self, ordered: Sequence[str], namespaces: Mapping[str, str]) -> list[str]:
        """The jobs of each standing in the places of that standing, the namespaces by turns."""
        alike: defaultdict[Standing, list[str]] = defaultdict(list)
        for uid in ordered:
            alike[self._turns[uid].standing].append(uid)
        queues = {standing: iter(by_turns(uids, namespaces.__getitem__)) for standing, uids in alike.items()}
        fair = [next(queues[self._turns[uid].standing]) for uid in ordered]
        taken: Counter[str] = Counter()
        rounds: dict[str, int] = {}
        for uid in fair:
            rounds[uid] = taken[namespaces[uid]] // SHARE
            taken[namespaces[uid]] += 1
        return sorted(fair, key=rounds.__getitem__)

    def took(self, uid: str, now: float, *, fruitful: bool) -> None:
        """A job was examined; `fruitful` False: it failed, or there were no samples."""
        turn = self._turns[uid]
        turn.since, turn.is_new = now, False
        turn.misses = 0 if fruitful else min(turn.misses + 1, MAX_MISSES)


def by_turns(items: Sequence[T], namespace: Callable[[T], str]) -> list[T]:
    """The first of each namespace, in the order given, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    placed: list[tuple[int, T]] = []
    for item in items:
        placed.append((seen[namespace(item)], item))
        seen[namespace(item)] += 1
    return [item for _, item in sorted(placed, key=itemgetter(0))]
