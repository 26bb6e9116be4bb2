"""How long a warning has stood, whatever the clocks that its times are of have done."""

from datetime import UTC, datetime, timedelta

import pytest

from stoker.controller.grace_periods import WarningAges
from stoker.findings.vocabulary import ReclaimState
from stoker.reclaim import Record

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GRACE = timedelta(minutes=15)
WARNED = Record(state=ReclaimState.WARNED, warned_at=NOW, deadline=NOW + GRACE)


class SetClock:
    """A clock that is set, beside one that is not."""

    def __init__(self) -> None:
        self.time, self.steady = NOW, 100.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.steady

    def pass_by(self, span: timedelta) -> None:
        self.time += span
        self.steady += span.total_seconds()


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


def test_a_clock_that_is_set_forward_ages_no_warning(clock: SetClock) -> None:
    ages = WarningAges(clock)
    ages.wrote("uid", Record(), WARNED)
    clock.time += timedelta(hours=1)
    assert ages.age("uid", WARNED) == timedelta(0)


def test_the_age_counts_from_when_the_record_was_on_the_server(clock: SetClock) -> None:
    ages = WarningAges(clock)
    clock.pass_by(timedelta(seconds=25))
    ages.wrote("uid", Record(), WARNED)
    clock.pass_by(GRACE - timedelta(seconds=1))
    assert ages.age("uid", WARNED) == GRACE - timedelta(seconds=1)


def test_writing_a_warned_record_again_makes_the_warning_no_younger(clock: SetClock) -> None:
    ages = WarningAges(clock)
    ages.wrote("uid", Record(), WARNED)
    clock.pass_by(GRACE)
    ages.wrote("uid", WARNED, WARNED)
    assert ages.age("uid", WARNED) == GRACE


def test_the_age_of_a_warning_of_another_process_is_not_known(clock: SetClock) -> None:
    assert WarningAges(clock).age("uid", WARNED) is None


def test_a_warning_that_ended_is_forgotten(clock: SetClock) -> None:
    ages = WarningAges(clock)
    ages.wrote("uid", Record(), WARNED)
    ages.wrote("uid", WARNED, Record())
    assert ages.age("uid", WARNED) is None


def test_an_age_is_rounded_down(clock: SetClock) -> None:
    """A grace that lacks less than a microsecond is not over."""
    ages = WarningAges(clock)
    ages.wrote("uid", Record(), WARNED)
    clock.steady += GRACE.total_seconds() - 4e-7
    age = ages.age("uid", WARNED)
    assert age is not None
    assert age < GRACE
