"""The order of reclaims where the bounds allow few: the job with the most idle GPU-hours goes first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.reclaim.budget import ReclaimBudget, Slot, full
from stoker.reclaim.candidate import Obstruction

TOGETHER = timedelta(minutes=1)
"""Jobs whose deadlines lie so close together are due together. Chosen because two scans may fall between them: which of
them is planned first is chance.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
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

    def slot(self, now: datetime) -> Slot:
        """The slot that it would take."""
        return Slot(job_uid=self.job_uid, job=self.job, time=now, gpus=self.gpus, resource=self.resource)


def in_order(requests: Iterable[SlotRequest], now: datetime) -> list[SlotRequest]:
    """Those that are due, or soon after, the most idle GPU-hours first; of equals always the same."""
    due = (one for one in requests if one.due_at <= now + TOGETHER)
    return sorted(due, key=lambda one: (-one.idle_gpu_hours(now), one.job_uid))


def turn(
    request: SlotRequest, others: Iterable[SlotRequest], slots: Sequence[Slot], budget: ReclaimBudget, now: datetime
) -> Obstruction | None:
    """Why the request must wait: there is no slot, or none is left beside those that go before it. `others` are
    requests that nothing but the bounds holds back; `slots` count within the window, the oldest first.

    A large job that waits for room is not passed by small ones, which would fill what it waits for: the room comes
    within a window, since what was reclaimed leaves it.
    """
    if obstruction := full(slots, request.slot(now), budget):
        return obstruction
    queue = in_order((request, *(one for one in others if one.job_uid != request.job_uid)), now)
    before = queue[: queue.index(request)] if request in queue else queue
    for one in before:
        waits = full(slots, one.slot(now), budget)
        if waits is None:
            slots = (*slots, one.slot(now))
            continue
        return Obstruction(reason=f"{_first(before)}, and it also waits: {waits.reason}", until=waits.until)
    return None if full(slots, request.slot(now), budget) is None else Obstruction(reason=_first(before))


def _first(before: Sequence[SlotRequest]) -> str:
    number = "1 job" if len(before) == 1 else f"{len(before)} jobs"
    return f"{number} with more idle GPU-hours {'goes' if len(before) == 1 else 'go'} first ({before[0].job})"
