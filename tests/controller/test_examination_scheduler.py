"""Whose turn it is: often where it matters, everybody once in a while, and failures block nobody."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from stoker.controller.examination_scheduler import PATIENCE, ExaminationPriority, ExaminationScheduler

TICK = 30.0


def order(scheduler: ExaminationScheduler, priorities: dict[str, ExaminationPriority], now: float) -> list[str]:
    """The order of jobs whose namespace is what comes before a slash in their uid, "" for one without."""
    return scheduler.order(priorities, {uid: uid.rpartition("/")[0] for uid in priorities}, now)


def played(
    priorities: dict[str, ExaminationPriority], ticks: int, *, budget: int, fruitless: frozenset[str] = frozenset()
) -> Counter[str]:
    """How often each job was examined in so many ticks."""
    scheduler, taken, now = ExaminationScheduler(), Counter[str](), 0.0
    for _ in range(ticks):
        for uid in order(scheduler, priorities, now)[:budget]:
            scheduler.examined(uid, now, fruitful=uid not in fruitless)
            taken[uid] += 1
        now += TICK
    return taken


def test_newcomers_come_in_the_order_of_what_hangs_on_them() -> None:
    priorities = {str(priority): priority for priority in reversed(ExaminationPriority)}
    assert order(ExaminationScheduler(), priorities, 0.0) == [str(priority) for priority in ExaminationPriority]


def test_who_matters_more_is_examined_more_often() -> None:
    priorities = {f"{priority}-{number}": priority for priority in ExaminationPriority for number in range(10)}
    taken = played(priorities, 400, budget=5)
    totals = [sum(count for uid, count in taken.items() if uid.startswith(priority)) for priority in PATIENCE]
    by_patience = [total for _, total in sorted(zip(PATIENCE.values(), totals, strict=True))]
    assert by_patience == sorted(by_patience, reverse=True)


def test_everybody_gets_a_turn_even_where_more_is_urgent_than_fits() -> None:
    priorities = {f"warned-{number}": ExaminationPriority.WARNED for number in range(50)} | {
        "other": ExaminationPriority.OTHER
    }
    assert played(priorities, 2_000, budget=5)["other"] >= 1


def test_a_warned_job_among_a_thousand_others_is_examined_in_nearly_every_tick() -> None:
    priorities = {f"other-{number}": ExaminationPriority.OTHER for number in range(1000)} | {
        "warned": ExaminationPriority.WARNED
    }
    assert played(priorities, 40, budget=20)["warned"] >= 38


def test_who_is_due_is_next_among_a_thousand_that_are_warned() -> None:
    """A place is kept for it for some minutes, and who comes behind it waits: a turn among all takes an hour."""
    priorities = {f"warned-{number}": ExaminationPriority.WARNED for number in range(1000)}
    scheduler, now = ExaminationScheduler(), 0.0
    for _ in range(100):
        last = order(scheduler, priorities, now)[:20]
        for uid in last:
            scheduler.examined(uid, now, fruitful=True)
        now += TICK
    assert order(scheduler, {**priorities, last[0]: ExaminationPriority.DUE}, now + 300)[0] == last[0]


def test_who_yields_nothing_waits_longer_and_longer() -> None:
    priorities = {"fails": ExaminationPriority.LOW, "yields": ExaminationPriority.LOW}
    taken = played(priorities, 400, budget=1, fruitless=frozenset({"fails"}))
    assert 1 < taken["fails"] * 10 < taken["yields"]


def test_who_has_ended_is_new_once_more() -> None:
    scheduler = ExaminationScheduler()
    order(scheduler, {"job": ExaminationPriority.LOW, "low": ExaminationPriority.LOW}, 0.0)
    scheduler.examined("job", 0.0, fruitful=False)
    scheduler.examined("low", 0.0, fruitful=True)
    assert order(scheduler, {"low": ExaminationPriority.LOW, "job": ExaminationPriority.ENDED}, 10.0)[0] == "job"


def test_thousands_of_jobs_of_one_namespace_do_not_make_another_wait() -> None:
    """One namespace has more warned jobs than a tick's examinations can ever look at; another has one of each kind."""
    alone = {f"quiet/{priority}": priority for priority in ExaminationPriority}
    crowd = {f"crowd/{number}": ExaminationPriority.WARNED for number in range(2000)}
    shared, own = played(alone | crowd, 300, budget=20), played(alone, 300, budget=20)
    for uid, priority in alone.items():
        if PATIENCE[priority] <= 300 * TICK / 10:
            enough = min(own[uid], 300 * TICK / PATIENCE[priority])
            assert shared[uid] >= enough * 0.8, f"{uid}: {shared[uid]} of {enough}"
    assert sum(shared[uid] for uid in crowd) > 300 * 20 * 0.5, "who has many jobs has the rest"


@given(st.dictionaries(st.text(max_size=3), st.sampled_from(ExaminationPriority), max_size=20), st.floats(0, 1e6))
def test_an_order_names_each_job_once(priorities: dict[str, ExaminationPriority], now: float) -> None:
    assert sorted(order(ExaminationScheduler(), priorities, now)) == sorted(priorities)
