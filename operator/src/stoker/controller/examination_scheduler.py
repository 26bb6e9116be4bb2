"""Chooses the jobs whose series are read in full next. Used by each tick of the scan (scan.py).

Each job has a deadline that follows from its priority: a job that is about to be reclaimed is examined every few
seconds, a busy one within two hours. Namespaces are served round-robin.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import TypeVar

T = TypeVar("T")


class ExaminationPriority(StrEnum):
    """The priority of a job's next examination, the highest first."""

    ENDED = "Ended"
    """The job has ended and gets its final diagnosis."""
    DUE = "Due"
    """The job would be reclaimed now, and only a recent examination is missing. A slot is kept for it for a short time.
    """
    WARNED = "Warned"
    """The job is warned. Its diagnosis must be recent when it is reclaimed."""
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
"""Seconds that a job of each priority may wait for its examination. When not all jobs can be examined in time, all wait
longer in these proportions. A warned job is examined in each tick unless many are warned. Chosen so that jobs without a
pending reclaim do not delay a reclaim, and that a busy job is still examined within two hours.
"""
NEWCOMER = 0.1
"""Share of its priority's seconds that a job may wait for its first examination, since it has no diagnosis yet."""
SHARE = 10
"""Overdue jobs of one namespace that may precede the overdue jobs of other namespaces. Chosen as half of what one tick
examines (scan.EXAMINED), so that a tick always serves two namespaces.
"""
SETBACK = 4.0
"""Factor by which a job waits longer after each examination that fails or finds no samples."""
MAX_MISSES = 4
"""Number of such examinations in a row from which the wait grows no further (256 times the priority's seconds)."""


@dataclass(slots=True)
class _Schedule:
    """A job's wait for an examination. since: its last examination, or its first appearance if it had none. misses: the
    examinations in a row that failed or found no samples.
    """

    priority: ExaminationPriority
    since: float
    is_new: bool = True
    misses: int = 0

    def urgency(self, now: float) -> float:
        patience = PATIENCE[self.priority] * (NEWCOMER if self.is_new else 1.0) * SETBACK**self.misses
        return (now - self.since) / patience


class ExaminationScheduler:
    """Remembers the last examination of each job, by its uid. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._schedules: dict[str, _Schedule] = {}

    def order(
        self, priorities: Mapping[str, ExaminationPriority], namespaces: Mapping[str, str], now: float
    ) -> list[str]:
        """Order the jobs of `priorities` (by uid) by urgency, the most urgent first, and forget all other jobs. A job
        that has just ended counts as never examined, because its last examination was not the final one.

        `namespaces` has the namespace of each uid. Namespaces are served round-robin among the overdue jobs of one
        priority, and at most SHARE jobs of one namespace precede the overdue jobs of others. So a namespace with
        thousands of jobs does not delay the others.
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
        """Note that a job was examined at `now`. `fruitful` is False if that failed or found no samples."""
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
