"""How often a rest of some length ended in work, and the idleAfter that such a past would have borne."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from stoker.replay.idle_history import IdleHistory, Rests, idle_histories
from tests.replay.pasts import Story, outlines, rests


def histories(*stories: Story) -> tuple[IdleHistory, ...]:
    seen = outlines(stories, 24)
    return idle_histories(seen.jobs, seen.grid)


def counted(history: IdleHistory) -> list[tuple[float, int, int]]:
    return [(one.least / timedelta(hours=1), one.number, one.resumed) for one in history.rests if one.number]


def test_rests_are_counted_by_length_and_by_their_end() -> None:
    (found,) = histories(Story(name="asked", utilization=rests((4, 6), (10, 15), (20, 24)), owner="jonas"))
    assert (found.owner, found.job_type, found.jobs) == ("jonas", "Training", 1)
    assert counted(found) == [(0.5, 3, 2), (1, 3, 2), (2, 3, 2), (4, 2, 1)]


def test_a_rest_to_the_end_of_its_job_did_not_end_in_work() -> None:
    (found,) = histories(Story(name="left", utilization=rests((10, 24)), end=20))
    assert counted(found)[0] == (0.5, 1, 0)


def test_a_start_is_no_rest() -> None:
    assert histories(Story(name="loads", utilization=rests((0, 3)))) == ()


def test_types_and_owners_stand_apart() -> None:
    found = histories(
        Story(name="a", utilization=rests((4, 6)), owner="jonas"),
        Story(name="b", utilization=rests((4, 6)), owner="jonas", job_type="Serving"),
        Story(name="c", utilization=rests((4, 6), (8, 10)), owner="mina"),
    )
    assert [(one.job_type, one.owner) for one in found] == [
        ("Training", "mina"),
        ("Serving", "jonas"),
        ("Training", "jonas"),
    ]


@pytest.mark.parametrize(
    "resumed, proposed",
    [
        (lambda hours: 0, 0.5),
        (lambda hours: 10 if hours < 2 else 1, 2.0),
        (lambda hours: 10, None),
        (lambda hours: 10 if hours == 4 else 0, 8.0),
    ],
    ids=["never", "only short ones", "always", "as long as a night"],
)
def test_the_proposal_is_the_shortest_length_that_hardly_ever_ended_in_work(
    resumed: Callable[[float], int], proposed: float | None
) -> None:
    assert _history([(hours, 40, resumed(hours)) for hours in (0.5, 1, 2, 4, 8)]) == proposed


def test_few_rests_propose_nothing() -> None:
    assert _history([(0.5, 19, 0), (1, 10, 0)]) is None


def _history(rows: Sequence[tuple[float, int, int]]) -> float | None:
    found = tuple(
        Rests(least=timedelta(hours=hours), number=number, resumed=resumed) for hours, number, resumed in rows
    )
    proposed = IdleHistory(job_type="Training", owner="", jobs=1, rests=found).proposed_idle_after
    return proposed / timedelta(hours=1) if proposed is not None else None
