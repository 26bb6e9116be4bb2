"""How long a warning has stood, whatever the clocks that its times are of have done."""

from datetime import UTC, datetime, timedelta

import pytest

from stoker.controller.grace_periods import CLOCKS_APART, Graces
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


def test_a_clock_that_is_set_forward_shortens_no_grace(clock: SetClock) -> None:
    graces = Graces(clock)
    graces.wrote("uid", Record(), WARNED)
    clock.time += timedelta(hours=1)
    assert graces.left("uid", WARNED) == GRACE.total_seconds()


def test_the_grace_counts_from_when_the_record_was_on_the_server(clock: SetClock) -> None:
    graces = Graces(clock)
    clock.pass_by(timedelta(seconds=25))
    graces.wrote("uid", Record(), WARNED)
    clock.pass_by(GRACE - timedelta(seconds=1))
    assert graces.left("uid", WARNED) == 1
    clock.pass_by(timedelta(seconds=1))
    assert graces.left("uid", WARNED) == 0


def test_writing_a_warned_record_again_starts_no_new_grace(clock: SetClock) -> None:
    graces = Graces(clock)
    graces.wrote("uid", Record(), WARNED)
    clock.pass_by(GRACE)
    graces.wrote("uid", WARNED, WARNED)
    assert graces.left("uid", WARNED) == 0


def test_a_warning_of_another_process_stands_until_no_clock_can_doubt_it(clock: SetClock) -> None:
    graces = Graces(clock)
    clock.pass_by(GRACE)
    assert graces.left("uid", WARNED) == CLOCKS_APART.total_seconds()
    clock.pass_by(CLOCKS_APART)
    assert graces.left("uid", WARNED) == 0


def test_without_a_warning_nothing_is_over(clock: SetClock) -> None:
    assert Graces(clock).left("uid", Record()) == float("inf")
