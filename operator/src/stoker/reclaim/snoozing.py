"""The owner's snooze: reclaim is put off, within the policy's maxSnooze."""

from dataclasses import replace
from datetime import UTC, datetime

from stoker.api.duration import format_duration
from stoker.api.names import MAX_SNOOZE_REASON
from stoker.findings.finding import parse_time, rfc3339, single_line
from stoker.findings.vocabulary import ReclaimEvent
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.candidate import Candidate
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.record import Record


def snooze_words(text: str | None) -> str | None:
    """An owner's reason to put a reclaim off as it is shown and remembered: one printable line of bounded length; None
    where nothing is left.
    """
    return single_line(text or "")[:MAX_SNOOZE_REASON].rstrip() or None


def snoozed(
    job: Candidate, policy: EffectivePolicy, record: Record, now: datetime
) -> tuple[Record, tuple[Notice, ...]]:
    """Take a new value of the snooze annotation into the record, within the policy's bound; each value is taken once,
    or an annotation far in the future would be granted anew at every pass.
    """
    if job.snooze == record.handled_snooze:
        return record, ()
    if job.snooze is None:
        taken, ended = replace(record, handled_snooze=None, snoozed_until=None), record.snoozed_until
        if ended is None or ended <= now:
            return taken, ()
        message = f"The snooze until {rfc3339(ended)} has ended: its annotation was removed."
        notice = Notice(reason=NoticeReason.SNOOZE_WITHDRAWN, message=message, episode=record.handled_snooze or "")
        return taken.remembering(now, ReclaimEvent.SNOOZE_WITHDRAWN), (notice,)
    try:
        until = parse_time(job.snooze)
        if until is None or until.tzinfo is None:
            raise ValueError("no time zone")  # noqa: TRY301 - one reason among those that parse_time has
        until = until.astimezone(UTC)  # a year outside 1..9999 in UTC overflows
    except (ValueError, OverflowError):
        message = f"stoker.dev/snooze-until {job.snooze[:64]!r} is ignored: write a time such as 2026-11-21T18:00:00Z."
        notice = Notice(reason=NoticeReason.SNOOZE_IGNORED, message=message, episode=job.snooze)
        # An earlier snooze that could be read stays: this one was not meant to cancel it.
        return replace(record, handled_snooze=job.snooze), (notice,)
    longest = now.astimezone(UTC).replace(microsecond=0) + policy.reclaim.max_snooze
    taken = replace(record, handled_snooze=job.snooze, snoozed_until=min(until, longest))
    if until <= now:
        message = f"stoker.dev/snooze-until {rfc3339(until)} is in the past: the job is not snoozed."
        return taken, (Notice(reason=NoticeReason.SNOOZE_IGNORED, message=message, episode=job.snooze),)
    why = f": {job.snooze_reason}" if job.snooze_reason else ""
    taken = replace(taken, snoozes=record.snoozes + 1)
    granted = f"until {rfc3339(min(until, longest))}, asked for {rfc3339(until)}{why}"
    taken = taken.remembering(now, ReclaimEvent.SNOOZED, granted, policies=policy.revisions)
    numbers: dict[str, str | int | float] = {
        "until": rfc3339(min(until, longest)),
        "asked": rfc3339(until),
        "snoozes": taken.snoozes,
        **({"why": job.snooze_reason} if job.snooze_reason else {}),
    }
    granting = Notice(
        reason=NoticeReason.SNOOZE_CLAMPED,
        message="",
        episode=job.snooze,
        numbers=numbers,
        policies=policy.revisions,
    )
    if until <= longest:
        message = f"The job is snoozed until {rfc3339(until)}{why}."
        return taken, (replace(granting, reason=NoticeReason.SNOOZED, message=message),)
    message = (
        f"stoker.dev/snooze-until is shortened to {rfc3339(longest)}:"
        f" the policy allows {format_duration(policy.reclaim.max_snooze)} at a time."
    )
    return taken, (replace(granting, message=message),)
