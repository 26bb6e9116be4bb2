"""Whose turn it is: often where it matters, everybody once in a while, and failures block nobody."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker.controller.examination_scheduler import PATIENCE, Standing, Turns

TICK = 30.0


def order(turns: Turns, standings: dict[str, Standing], now: float) -> list[str]:
    """The order of jobs whose namespace is what comes before a slash in their uid, "" for one without."""
    return turns.order(standings, {uid: uid.rpartition("/")[0] for uid in standings}, now)


def played(
    standings: dict[str, Standing], ticks: int, *, budget: int, fruitless: frozenset[str] = frozenset()
) -> Counter[str]:
    """How often each job was examined in so many ticks."""
    turns, taken, now = Turns(), Counter[str](), 0.0
    for _ in range(ticks):
        for uid in order(turns, standings, now)[:budget]:
            turns.took(uid, now, fruitful=uid not in fruitless)
            taken[uid] += 1
        now += TICK
    return taken


def test_newcomers_come_in_the_order_of_what_hangs_on_them() -> None:
    standings = {str(standing): standing for standing in reversed(Standing)}
    assert order(Turns(), standings, 0.0) == [str(standing) for standing in Standing]


def test_who_matters_more_is_examined_more_often() -> None:
    standings = {f"{standing}-{number}": standing for standing in Standing for number in range(10)}
    taken = played(standings, 400, budget=5)
    totals = [sum(count for uid, count in taken.items() if uid.startswith(standing)) for standing in PATIENCE]
    by_patience = [total for _, total in sorted(zip(PATIENCE.values(), totals, strict=True))]
    assert by_patience == sorted(by_patience, reverse=True)


def test_everybody_gets_a_turn_even_where_more_is_urgent_than_fits() -> None:
    standings = {f"warned-{number}": Standing.WARNED for number in range(50)} | {"other": Standing.OTHER}
    assert played(standings, 2_000, budget=5)["other"] >= 1


def test_a_warned_job_among_a_thousand_others_is_examined_in_nearly_every_tick() -> None:
    standings = {f"other-{number}": Standing.OTHER for number in range(1000)} | {"warned": Standing.WARNED}
    assert played(standings, 40, budget=20)["warned"] >= 38


def test_who_is_due_is_next_among_a_thousand_that_are_warned() -> None:
    """A place is kept for it for some minutes, and who comes behind it waits: a turn among all takes an hour."""
    standings = {f"warned-{number}": Standing.WARNED for number in range(1000)}
    turns, now = Turns(), 0.0
    for _ in range(100):
        last = order(turns, standings, now)[:20]
        for uid in last:
            turns.took(uid, now, fruitful=True)
        now += TICK
    assert order(turns, {**standings, last[0]: Standing.DUE}, now + 300)[0] == last[0]


def test_who_yields_nothing_waits_longer_and_longer() -> None:
    standings = {"fails": Standing.LOW, "yields": Standing.LOW}
    taken = played(standings, 400, budget=1, fruitless=frozenset({"fails"}))
    assert 1 < taken["fails"] * 10 < taken["yields"]


def test_who_has_ended_is_new_once_more() -> None:
    turns = Turns()
    order(turns, {"job": Standing.LOW, "low": Standing.LOW}, 0.0)
    turns.took("job", 0.0, fruitful=False)
    turns.took("low", 0.0, fruitful=True)
    assert order(turns, {"low": Standing.LOW, "job": Standing.ENDED}, 10.0)[0] == "job"


def test_thousands_of_jobs_of_one_namespace_do_not_make_another_wait() -> None:
    """One namespace has more warned jobs than a tick's examinations can ever look at; another has one of each kind."""
    alone = {f"quiet/{standing}": standing for standing in Standing}
    crowd = {f"crowd/{number}": Standing.WARNED for number in range(2000)}
    shared, own = played(alone | crowd, 300, budget=20), played(alone, 300, budget=20)
    for uid, standing in alone.items():
        if PATIENCE[standing] <= 300 * TICK / 10:
            enough = min(own[uid], 300 * TICK / PATIENCE[standing])
            assert shared[uid] >= enough * 0.8, f"{uid}: {shared[uid]} of {enough}"
    assert sum(shared[uid] for uid in crowd) > 300 * 20 * 0.5, "who has many jobs has the rest"


@given(st.dictionaries(st.text(max_size=3), st.sampled_from(Standing), max_size=20), st.floats(0, 1e6))
def test_an_order_names_each_job_once(standings: dict[str, Standing], now: float) -> None:
    assert sorted(order(Turns(), standings, now)) == sorted(standings)
