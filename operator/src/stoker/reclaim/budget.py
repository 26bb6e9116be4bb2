"""How much may be reclaimed within a window of time, counted from what the policy's status remembers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.api.duration import format_duration
from stoker.api.policy import MAX_RECENT_RECLAIMS, RecentReclaim
from stoker.findings.finding import rfc3339
from stoker.reclaim.candidate import Obstruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One reclaim among those that a policy allows: of which job, decided when. `resource` is what its GPUs are called;
    None, of which it is not known, counts among the GPUs of every name.
    """

    job_uid: str
    job: str
    time: datetime
    gpus: int
    resource: str | None

    @classmethod
    def from_status(cls, entry: RecentReclaim) -> "Slot":
        """Read an entry of the policy's status.recentReclaims."""
        return cls(
            job_uid=entry.job_uid, job=entry.job or "", time=entry.time, gpus=entry.gpus, resource=entry.resource
        )

    def to_status(self) -> dict[str, object]:
        """The entry."""
        entry = {
            "jobUID": self.job_uid,
            "job": self.job,
            "time": rfc3339(self.time),
            "gpus": self.gpus,
            "resource": self.resource,
        }
        return {key: value for key, value in entry.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimBudget:
    """The most that may be reclaimed within `window`: so many `jobs`, and `gpu_percent` of the cluster's GPUs of each
    resource, of which there are `cluster_gpus`; None where that can't be read, `unread` says why.
    """

    window: timedelta
    jobs: int
    gpu_percent: int
    cluster_gpus: Mapping[str, int] | None
    unread: str = ""


def within(slots: Iterable[Slot], window: timedelta, now: datetime) -> tuple[Slot, ...]:
    """The slots that still count, the oldest first. One from the future, of a clock that is ahead, counts as well."""
    return tuple(sorted((one for one in slots if now - one.time < window), key=lambda one: one.time))


def is_held_by(slot: Slot, job_uid: str, warned_at: datetime) -> bool:
    """Whether the slot was taken for this job under the warning that stands."""
    return slot.job_uid == job_uid and slot.time >= warned_at


def holds_slot(slots: Iterable[Slot], job_uid: str, warned_at: datetime) -> bool:
    """Whether a slot was taken for this job under the warning that stands. One that an earlier warning led to is
    another reclaim: who was resumed since needs another slot.
    """
    return any(is_held_by(one, job_uid, warned_at) for one in slots)


def full(slots: Sequence[Slot], wanted: Slot, budget: ReclaimBudget) -> Obstruction | None:
    """Why there is no slot for one more beside those that count, the oldest first; None where there is one. One job
    always may be reclaimed.
    """
    bound = min(budget.jobs, MAX_RECENT_RECLAIMS)
    if len(slots) >= bound:
        leaving = slots[len(slots) - bound]
        return _until(leaving, budget, f"the policy's limit is reached: {_jobs(len(slots))} reclaimed within {{}}")
    alike = [one for one in slots if one.resource in {wanted.resource, None}]
    if not alike:
        return None
    if budget.cluster_gpus is None:
        reason = f"the cluster's GPUs can't be counted ({budget.unread}), so at most one job is reclaimed within {{}}"
        return _until(alike[-1], budget, reason)
    total = budget.cluster_gpus.get(wanted.resource or "", 0)
    taken = sum(one.gpus for one in alike)
    if (taken + wanted.gpus) * 100 <= budget.gpu_percent * total:
        return None
    reason = (
        f"{taken} GPUs were reclaimed within {{}}, and {wanted.gpus} more would exceed the policy's limit of"
        f" {budget.gpu_percent} % of the cluster's {total}"
    )
    return _until(alike[0], budget, reason)


def _until(leaving: Slot, budget: ReclaimBudget, reason: str) -> Obstruction:
    return Obstruction(reason=reason.format(format_duration(budget.window)), until=leaving.time + budget.window)


def _jobs(number: int) -> str:
    return "1 job was" if number == 1 else f"{number} jobs were"
