"""The owner's responses that resume a job or end its warning: the annotation stoker.dev/resume, and spec.suspend set
from true to false. Both are compared with what the status remembers, so that a restart neither loses nor repeats one.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimEvent, ReclaimMode, ReclaimState
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.record import Record

ON_THE_WAY = frozenset({ReclaimState.WARNED, ReclaimState.RECLAIMING, ReclaimState.RECLAIMED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """The record after the owner's response, and the notices to send."""

    record: Record
    notices: tuple[Notice, ...] = ()


def resumed(
    record: Record,
    *,
    annotation: str | None,
    unsuspended: bool,
    now: datetime,
    deleted: bool = False,
) -> Resumption:
    """Take a new resume annotation, or spec.suspend's change from true to false (`unsuspended`), into the record.

    Such a response ends a warning as well, and starts the policy's cooldown. So does an annotation where nothing is to
    be undone: the warning that its writer has seen may have ended just before. A job whose Job reclaim has `deleted`
    stays as it is, also while its pods end.
    """
    asked = annotation is not None and annotation != record.handled_resume
    if asked:
        record = replace(record, handled_resume=annotation)
    done = record.state is ReclaimState.RECLAIMED or (deleted and record.state is ReclaimState.RECLAIMING)
    for_good = done and record.action is ReclaimMode.DELETE
    if not (asked or unsuspended) or for_good:
        return Resumption(record=record)
    if record.state not in ON_THE_WAY and not record.has_warning:
        return Resumption(record=replace(record, resumed_at=now) if asked else record)
    how = "annotation stoker.dev/resume" if asked else "spec.suspend set from true to false"
    return _brought_back(record, how, annotation or rfc3339(now), now)


def started_by_hand(record: Record, now: datetime) -> Resumption:
    """Take it that somebody has started a reclaimed job past Stoker. To suspend it again would be a reclaim that nobody
    was warned of.
    """
    return _brought_back(record, "its Job was started by hand", rfc3339(now), now)


def _brought_back(record: Record, how: str, episode: str, now: datetime) -> Resumption:
    was, numbers, policies = record.state, _numbers(record, how), record.policies
    record = replace(
        record.without_warning(),
        state=ReclaimState.ACTIVE,
        reason=f"resumed at {rfc3339(now)} ({how})",
        idle_since=None,
        action=None,
        resumed_at=now,
    ).remembering(now, ReclaimEvent.RESUMED, how)
    message = "The job is not reclaimed."
    if was is ReclaimState.RECLAIMED:
        message = (
            "The job is resumed; its script starts from the beginning when its pods have their GPUs, "
            "which a queue may delay."
        )
    notice = Notice(reason=NoticeReason.RESUMED, message=message, episode=episode, numbers=numbers, policies=policies)
    return Resumption(record=record, notices=(notice,))


def _numbers(before: Record, how: str) -> dict[str, str | int | float]:
    """What was undone, which the record forgets."""
    times = {"idleSince": before.idle_since, "warnedAt": before.warned_at, "deadline": before.deadline}
    return {
        "how": how,
        "was": before.state.value if before.state is not None else "unknown",
        **{name: rfc3339(time) for name, time in times.items() if time is not None},
    }
