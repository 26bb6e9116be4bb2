"""Whose turn it is where places are scarce: who holds the most idle GPU-hours goes first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.reclaim.bounds import Limits, Place, full
from stoker.reclaim.candidate import Obstruction

TOGETHER = timedelta(minutes=1)
"""Jobs whose deadlines lie so close together are due together: which of them is looked at first is chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A warned job under a policy: what it holds, since when that is idle, when it was warned, and when it is due."""

    job_uid: str
    job: str
    gpus: int
    resource: str
    idle_since: datetime
    warned_at: datetime
    due_at: datetime

    def idle_gpu_hours(self, now: datetime) -> float:
        """How much of its GPUs' time was lost since it turned idle."""
        return self.gpus * max((now - self.idle_since) / timedelta(hours=1), 0.0)

    def place(self, now: datetime) -> Place:
        """The place that it would take."""
        return Place(job_uid=self.job_uid, job=self.job, time=now, gpus=self.gpus, resource=self.resource)


def in_order(claims: Iterable[Claim], now: datetime) -> list[Claim]:
    """Those that are due, or soon after, the most idle GPU-hours first; of equals always the same."""
    due = (one for one in claims if one.due_at <= now + TOGETHER)
    return sorted(due, key=lambda one: (-one.idle_gpu_hours(now), one.job_uid))


def turn(
    claim: Claim, others: Iterable[Claim], places: Sequence[Place], limits: Limits, now: datetime
) -> Obstruction | None:
    """Why the claim must wait: there is no place, or none is left beside those that go before it. `others` are claims
    that nothing but the bounds holds back; `places` count within the window, the oldest first.

    A large job that waits for room is not passed by small ones, which would fill what it waits for: the room comes
    within a window, since what was reclaimed leaves it.
    """
    if obstruction := full(places, claim.place(now), limits):
        return obstruction
    queue = in_order((claim, *(one for one in others if one.job_uid != claim.job_uid)), now)
    before = queue[: queue.index(claim)] if claim in queue else queue
    for one in before:
        waits = full(places, one.place(now), limits)
        if waits is None:
            places = (*places, one.place(now))
            continue
        return Obstruction(reason=f"{_first(before)}, and it also waits: {waits.reason}", until=waits.until)
    return None if full(places, claim.place(now), limits) is None else Obstruction(reason=_first(before))


def _first(before: Sequence[Claim]) -> str:
    number = "1 job" if len(before) == 1 else f"{len(before)} jobs"
    return f"{number} with more idle GPU-hours {'goes' if len(before) == 1 else 'go'} first ({before[0].job})"
