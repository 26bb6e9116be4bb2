from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.policy import ScheduleWindow, UtilizationPolicy
from stoker.api.weekday import WEEKDAYS, Weekday
from stoker.findings.vocabulary import JobType
from stoker.policy.effective import EffectiveReclaim
from stoker.policy.resolution import resolve
from stoker.policy.schedule import contains, next_opening

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def policy(name: str, **spec: Any) -> UtilizationPolicy:
    return UtilizationPolicy.model_validate({"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    "window, at, inside",
    [
        ({"start": "08:00", "end": "18:00"}, "2026-11-20T08:00:00+00:00", True),
        ({"start": "08:00", "end": "18:00"}, "2026-11-20T18:00:00+00:00", False),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-20T23:00:00+00:00", True),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-21T06:59:00+00:00", True),
        ({"start": "19:00", "end": "07:00", "days": ["Fri"]}, "2026-11-21T19:00:00+00:00", False),
        ({"start": "00:00", "end": "00:00", "days": ["Sat"]}, "2026-11-21T23:59:00+00:00", True),
        ({"start": "00:00", "end": "00:00", "days": ["Sat"]}, "2026-11-22T00:00:00+00:00", False),
        ({"start": "19:00", "end": "20:00", "timeZone": "Europe/Berlin"}, "2026-11-20T18:30:00+00:00", True),
        ({"start": "19:00", "end": "20:00", "timeZone": "Europe/Berlin"}, "2026-07-20T18:30:00+00:00", False),
    ],
)
def test_a_window_is_read_in_its_own_time_zone(window: dict[str, Any], at: str, inside: bool) -> None:
    reclaim = resolve([policy("default", reclaim={"schedule": [window]})], "ns", {}).reclaim
    assert reclaim.open_at(datetime.fromisoformat(at), JobType.TRAINING) is inside


def test_a_window_binds_only_the_job_types_it_names() -> None:
    window = {"start": "08:00", "end": "09:00", "jobTypes": ["Interactive"]}
    reclaim = resolve([policy("default", reclaim={"schedule": [window]})], "ns", {}).reclaim
    assert reclaim.open_at(NOW, JobType.TRAINING)
    assert not reclaim.open_at(NOW, JobType.INTERACTIVE)


def test_a_window_without_a_time_zone_is_in_utc() -> None:
    reclaim = resolve([policy("default", reclaim={"schedule": [{"start": "11:00", "end": "12:01"}]})], "n", {}).reclaim
    assert reclaim.open_at(NOW, JobType.TRAINING)


# ------------------------------------------------------------------------------------------- when a schedule opens next


def window(start: str, end: str, zone: str = "Europe/Berlin", **more: Any) -> ScheduleWindow:
    return ScheduleWindow(start=start, end=end, time_zone=zone, **more)


@pytest.mark.parametrize(
    "now, opened, opens",
    [
        ("2026-11-21T12:00Z", window("18:00", "08:00"), "2026-11-21T17:00Z"),
        ("2026-11-21T20:00Z", window("08:00", "18:00"), "2026-11-22T07:00Z"),
        ("2026-11-21T12:00Z", window("18:00", "08:00", days=("Mon",)), "2026-11-23T17:00Z"),
        # 2026-03-29: the clocks go from 02:00 to 03:00.
        ("2026-03-28T12:00Z", window("04:00", "05:00"), "2026-03-29T02:00Z"),
        ("2026-03-28T12:00Z", window("02:30", "04:00"), "2026-03-29T01:00Z"),
        ("2026-03-28T12:00Z", window("02:15", "02:45"), "2026-03-30T00:15Z"),
        ("2026-03-28T12:00Z", window("02:15", "02:45", days=("Sun",)), "2026-04-05T00:15Z"),
        # 2026-10-25: the clocks go back from 03:00 to 02:00.
        ("2026-10-24T12:00Z", window("02:15", "02:45"), "2026-10-25T00:15Z"),
        ("2026-10-25T00:50Z", window("02:15", "02:45"), "2026-10-25T01:15Z"),
        ("2026-10-25T00:45Z", window("01:00", "02:30"), "2026-10-25T01:00Z"),
        # Midnight is left out: 2026-09-06 begins at 01:00 in Santiago.
        ("2026-09-05T12:00Z", window("00:00", "06:00", "America/Santiago"), "2026-09-06T04:00Z"),
    ],
)
def test_a_window_opens_when_the_clocks_of_its_zone_first_show_a_time_within(
    now: str, opened: ScheduleWindow, opens: str
) -> None:
    assert next_opening(opened, datetime.fromisoformat(now)) == datetime.fromisoformat(opens)


@given(
    quarter=st.integers(0, 365 * 96),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    start=st.integers(0, 95),
    length=st.integers(1, 95),
    days=st.sets(st.sampled_from(WEEKDAYS), max_size=3),
)
@settings(max_examples=60)
def test_a_closed_window_stays_closed_until_it_opens(
    quarter: int, zone: str, start: int, length: int, days: set[Weekday]
) -> None:
    """By the quarter of an hour, of which all times of the windows, and all changes of clocks, are multiples."""
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * quarter)
    times = [f"{number % 96 // 4:02}:{number % 4 * 15:02}" for number in (start, start + length)]
    opened = window(times[0], times[1], zone, days=tuple(days))
    opens = next_opening(opened, now)
    assert opens is not None
    assert contains(opened, opens)
    was_open = contains(opened, now)
    moment = now + timedelta(minutes=15)
    while moment < opens:
        is_open = contains(opened, moment)
        assert was_open or not is_open, moment
        was_open, moment = is_open, moment + timedelta(minutes=15)


def test_the_earliest_window_for_the_type_opens_the_schedule() -> None:
    windows = (window("20:00", "21:00"), window("19:00", "21:00", job_types=(JobType.INTERACTIVE,)))
    reclaim = EffectiveReclaim(schedule=windows)
    assert reclaim.opens_after(NOW, JobType.INTERACTIVE) == NOW.replace(hour=18)
    assert reclaim.opens_after(NOW, JobType.TRAINING) == NOW.replace(hour=19)
