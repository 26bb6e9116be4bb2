"""When a window of a policy's schedule is open: in the window's own time zone, whatever its clocks do.

Used by stoker.policy.effective, for whether and when idle jobs may be reclaimed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from stoker.api.weekday import WEEKDAYS
from stoker.findings.vocabulary import JobType

if TYPE_CHECKING:
    from stoker.api.policy import ScheduleWindow

OPENING_SOUGHT = timedelta(days=16)
"""A week holds every day; the one day that a window has may lack its time, so that the next week's counts."""


def applies_to(window: "ScheduleWindow", job_type: JobType) -> bool:
    """Whether the window is for jobs of this type."""
    return not window.job_types or job_type in window.job_types


def contains(window: "ScheduleWindow", now: datetime) -> bool:
    """Whether `now`, an aware time, lies in the window; the end is exclusive."""
    local = now.astimezone(ZoneInfo(window.time_zone or "UTC"))
    start, end, at = time.fromisoformat(window.start), time.fromisoformat(window.end), local.time()
    today, yesterday = _begins_on(window, local), _begins_on(window, local - timedelta(days=1))
    if start < end:
        return today and start <= at < end
    return (today and at >= start) or (yesterday and at < end)


def next_opening(window: "ScheduleWindow", now: datetime) -> datetime | None:
    """The first moment after `now` from which on the window contains the time; None if there is none for weeks.

    A window opens at its start, which a day may have twice or not at all, or where the clocks are changed.
    """
    zone = ZoneInfo(window.time_zone or "UTC")
    start, today = time.fromisoformat(window.start), now.astimezone(zone).date()
    days = [today + timedelta(days=ahead) for ahead in range(-1, OPENING_SOUGHT.days)]
    starts = [datetime.combine(day, start, zone).replace(fold=fold) for day in days for fold in (0, 1)]
    moments = sorted(one.astimezone(UTC) for one in (*starts, *_clock_changes(zone, now, now + OPENING_SOUGHT)))
    return next((one for one in moments if one > now and _opens(window, one)), None)


def _opens(window: "ScheduleWindow", moment: datetime) -> bool:
    return contains(window, moment) and not contains(window, moment - timedelta(minutes=1))


def _begins_on(window: "ScheduleWindow", local: datetime) -> bool:
    return not window.days or WEEKDAYS[local.weekday()] in window.days


def _clock_changes(zone: ZoneInfo, since: datetime, until: datetime) -> Iterator[datetime]:
    """The minutes between two times in which the zone's clocks are changed, at most one change a day."""
    day = timedelta(days=1)
    while since < until:
        before, after = since.astimezone(UTC).replace(second=0, microsecond=0), since.astimezone(UTC) + day
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            first, last = 0, 24 * 60 + 1
            while last - first > 1:
                middle = (first + last) // 2
                moment = before + timedelta(minutes=middle)
                same = moment.astimezone(zone).utcoffset() == before.astimezone(zone).utcoffset()
                first, last = (middle, last) if same else (first, middle)
            yield before + timedelta(minutes=last)
        since += day


__all__ = ["OPENING_SOUGHT", "applies_to", "contains", "next_opening"]
