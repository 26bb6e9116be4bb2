"""What follows an action: whether it was done, when the GPUs are free, and what the record and the owner are told.

An action's answer may be lost, and pods take time to end. So nothing is concluded from having asked for it: every pass
of the controller goes by what it sees of the Job and its pods (`ActionEffect`).
"""

from dataclasses import dataclass, replace
from datetime import datetime

from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimEvent, ReclaimMode, ReclaimState
from stoker.findings.wording import count
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.record import Record
from stoker.reclaim.transitions import Trigger, after


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEffect:
    """What is seen of a Job and its pods after an intent was recorded.

    `is_gone`: there is no Job; `is_deleted`: there is none, or it is being deleted. `is_suspended`: its spec says so;
    `is_held_by_reclaim`: what suspends it (the Job itself, or Kueue's Workload) is marked as suspended by reclaim.
    `pods_left`: how many pods may hold GPUs still.
    """

    is_gone: bool = False
    is_deleted: bool = False
    is_suspended: bool = False
    is_held_by_reclaim: bool = False
    pods_left: int = 0


def is_done(record: Record, effect: ActionEffect) -> bool:
    """Whether the action is done: the Job was deleted, or reclaim holds its pods away, which may still be ending."""
    if record.state is ReclaimState.RECLAIMED:
        return True
    if record.state is not ReclaimState.RECLAIMING:
        return False
    return record.action is ReclaimMode.DELETE if effect.is_deleted else effect.is_held_by_reclaim


def completed(record: Record, effect: ActionEffect, now: datetime) -> Record:
    """The record after an action: reclaimed once no pod holds a GPU any more, and until then waiting for that. Without
    an action the record stays as it is.
    """
    if record.state is ReclaimState.RECLAIMED or not is_done(record, effect):
        return record
    if not effect.is_gone and record.action is ReclaimMode.DELETE:
        return replace(record, reason="its GPUs are free when its Job is gone and its pods have ended")
    if not effect.is_gone and not effect.is_suspended:
        return replace(record, reason="its GPUs are free when Kueue has suspended its Job and its pods have ended")
    if effect.pods_left:
        return replace(record, reason=f"waiting for {count(effect.pods_left, 'pod')} to end, which frees its GPUs")
    return reclaimed(record, now)


def reclaimed(record: Record, now: datetime) -> Record:
    """The record of a job whose GPUs are free."""
    since = rfc3339(record.idle_since) if record.idle_since is not None else "unknown"
    warned = rfc3339(record.warned_at) if record.warned_at is not None else "unknown"
    how = "its Job was deleted" if record.action is ReclaimMode.DELETE else "suspended; stoker resume brings it back"
    return replace(
        record, state=after(record.state, Trigger.FREED), reclaimed_at=now, reason=f"idle since {since}; {how}"
    ).remembering(now, ReclaimEvent.RECLAIMED, f"idle since {since}, warned at {warned}", policies=record.policies)


def reclaimed_notice(record: Record, *, namespace: str, name: str, gpus: int) -> Notice:
    """What its owner is told of it. Its episode is the warning's, so that a crash does not tell it twice."""
    back = "" if record.action is ReclaimMode.DELETE else f" To start it again: stoker resume {name} -n {namespace}."
    since = rfc3339(record.idle_since) if record.idle_since is not None else "unknown"
    what = "Its GPU was" if gpus == 1 else f"Its {gpus} GPUs were"
    message = f"{what} given back: idle since {since}.{back}"
    episode = rfc3339(record.warned_at) if record.warned_at is not None else "reclaimed"
    numbers = {"gpus": gpus, "action": record.action.value if record.action is not None else "unknown"}
    return Notice(
        reason=NoticeReason.RECLAIMED, message=message, episode=episode, numbers=numbers, policies=record.policies
    )


def without_job(record: Record) -> Record:
    """The record of a job whose Job somebody else has deleted: nothing is pending any more."""
    if record.state is ReclaimState.RECLAIMED or not record.has_warning:
        return record
    return replace(record.without_warning(), state=ReclaimState.ACTIVE, reason="its Job was deleted", action=None)
