"""Decides which jobs are examined next (their series read in full), for each tick of the scan (scan.py): jobs on whose
examination much depends often, every other job once in a while.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


class ExaminationPriority(StrEnum):
    """How much depends on the next examination of a job, the most first."""

    ENDED = "Ended"
    """It gets its final diagnosis, which stays."""
    DUE = "Due"
    """It would be reclaimed now, and a slot is kept for it for a short while: only this examination is missing."""
    WARNED = "Warned"
    """It is about to be reclaimed: its cause must not be an old one."""
    IDLE = "Idle"
    LOW = "Low"
    OTHER = "Other"


PATIENCE: Mapping[ExaminationPriority, float] = {
    ExaminationPriority.ENDED: 120.0,
    ExaminationPriority.DUE: 0.1,
    ExaminationPriority.WARNED: 5.0,
    ExaminationPriority.IDLE: 300.0,
    ExaminationPriority.LOW: 600.0,
    ExaminationPriority.OTHER: 7200.0,
}
"""Seconds that a job may wait. Where not all can be examined in time, all wait longer in these proportions; a warned
job is examined in each tick unless many are warned. Chosen so that a reclaim is not held up by jobs that no reclaim
waits for, and that a busy job is still examined within two hours.
"""
NEWCOMER = 0.1
"""A job that was never examined may wait this share of its priority's seconds: nothing is known of it."""
SHARE = 10
"""So many overdue jobs of one namespace come before the next ones of other namespaces. Chosen as half of what one
tick examines (scan.EXAMINED), so that a tick always serves two namespaces.
"""
SETBACK = 4.0
"""Factor by which a job waits longer after each examination that fails or finds no samples."""
MAX_MISSES = 4
"""So many such examinations in a row lengthen the wait (256 times at most); further ones do not."""


@dataclass(slots=True)
class _Schedule:
    """Since when a job waits: since its last examination, or since it appeared (or ended) if it had none."""

    priority: ExaminationPriority
    since: float
    is_new: bool = True
    misses: int = 0

    def urgency(self, now: float) -> float:
        patience = PATIENCE[self.priority] * (NEWCOMER if self.is_new else 1.0) * SETBACK**self.misses
        return (now - self.since) / patience


class ExaminationScheduler:
    """Remembers when each job, by its uid, was examined. Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self._schedules: dict[str, _Schedule] = {}

    def order(
        self, priorities: Mapping[str, ExaminationPriority], namespaces: Mapping[str, str], now: float
    ) -> list[str]:
        """The jobs, the most urgent first; all others are forgotten. Who has ended is new once more: its last
        examination was not the final one.

        Among the overdue jobs of one priority the namespaces are served round-robin, and no namespace has more than
        SHARE of its jobs before those of others that are overdue too: thousands of jobs of one namespace do not make
        the jobs of others wait as long.
        """
        schedules: dict[str, _Schedule] = {}
        for uid, priority in priorities.items():
            schedule = self._schedules.get(uid)
            if schedule is None:
                schedule = _Schedule(priority, now)
            elif priority is ExaminationPriority.ENDED and schedule.priority is not ExaminationPriority.ENDED:
                schedule = _Schedule(priority, schedule.since)
            schedule.priority = priority
            schedules[uid] = schedule
        self._schedules = schedules
        ranks = {priority: rank for rank, priority in enumerate(ExaminationPriority)}
        urgency = {uid: schedule.urgency(now) for uid, schedule in schedules.items()}
        ordered = sorted(schedules, key=lambda uid: (-urgency[uid], ranks[schedules[uid].priority]))
        due = sum(urgency[uid] >= 1 for uid in ordered)
        return [*self._by_round_robin(ordered[:due], namespaces), *ordered[due:]]

    def _by_round_robin(self, ordered: Sequence[str], namespaces: Mapping[str, str]) -> list[str]:
        """The jobs reordered within each priority, so that namespaces are served round-robin."""
        alike: defaultdict[ExaminationPriority, list[str]] = defaultdict(list)
        for uid in ordered:
            alike[self._schedules[uid].priority].append(uid)
        queues = {priority: iter(round_robin(uids, namespaces.__getitem__)) for priority, uids in alike.items()}
        fair = [next(queues[self._schedules[uid].priority]) for uid in ordered]
        taken: Counter[str] = Counter()
        rounds: dict[str, int] = {}
        for uid in fair:
            rounds[uid] = taken[namespaces[uid]] // SHARE
            taken[namespaces[uid]] += 1
        return sorted(fair, key=rounds.__getitem__)

    def examined(self, uid: str, now: float, *, fruitful: bool) -> None:
        """A job was examined; `fruitful` False: it failed, or there were no samples."""
        schedule = self._schedules[uid]
        schedule.since, schedule.is_new = now, False
        schedule.misses = 0 if fruitful else min(schedule.misses + 1, MAX_MISSES)


def round_robin(items: Sequence[T], namespace: Callable[[T], str]) -> list[T]:
    """The first item of each namespace, in the order given, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    placed: list[tuple[int, T]] = []
    for item in items:
        placed.append((seen[namespace(item)], item))
        seen[namespace(item)] += 1
    return [item for _, item in sorted(placed, key=itemgetter(0))]
