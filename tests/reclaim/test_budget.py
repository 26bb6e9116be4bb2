"""Never more than the policy allows within any window, whatever the sequence; one job always; the most idle first."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stoker.api.policy import MAX_RECENT_RECLAIMS, RecentReclaim
from stoker.reclaim.budget import ReclaimBudget, Slot, full, holds_slot, is_held_by, within
from stoker.reclaim.order import TOGETHER, SlotRequest, in_order, turn

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WINDOW = timedelta(hours=1)
GPU = "nvidia.com/gpu"


def slot(uid: str, minutes_ago: float = 0.0, gpus: int = 8, resource: str | None = GPU) -> Slot:
    time = NOW - timedelta(minutes=minutes_ago)
    return Slot(job_uid=uid, job=f"team/{uid}", time=time, gpus=gpus, resource=resource)


def budget(
    jobs: int = 5, gpu_percent: int = 10, cluster: Mapping[str, int] | None = None, unread: str = ""
) -> ReclaimBudget:
    gpus = None if unread else cluster or {GPU: 160}
    return ReclaimBudget(window=WINDOW, jobs=jobs, gpu_percent=gpu_percent, cluster_gpus=gpus, unread=unread)


def request(uid: str, gpus: int = 8, idle_hours: float = 2.0, due_minutes_ago: float = 10.0) -> SlotRequest:
    return SlotRequest(
        job_uid=uid,
        job=f"team/{uid}",
        gpus=gpus,
        resource=GPU,
        idle_since=NOW - timedelta(hours=idle_hours),
        warned_at=NOW - timedelta(minutes=due_minutes_ago + 15),
        due_at=NOW - timedelta(minutes=due_minutes_ago),
    )


def test_the_bound_on_jobs_says_when_the_oldest_leaves() -> None:
    taken = within([slot("b", 10, gpus=1), slot("a", 50, gpus=1)], WINDOW, NOW)
    obstruction = full(taken, slot("c", gpus=1), budget(jobs=2))
    assert obstruction is not None
    assert obstruction.until == NOW + timedelta(minutes=10)
    assert "2 jobs were reclaimed within 1h" in obstruction.reason
    assert full(taken, slot("c", gpus=1), budget(jobs=3)) is None


def test_a_bound_that_was_lowered_below_what_is_taken_waits_until_enough_have_left() -> None:
    taken = within([slot("a", 50), slot("b", 30), slot("c", 10)], WINDOW, NOW)
    obstruction = full(taken, slot("d"), budget(jobs=1))
    assert obstruction is not None
    assert obstruction.until == NOW + timedelta(minutes=50)


def test_the_share_is_of_the_cluster_gpus_of_the_same_resource_and_one_job_always_may_go() -> None:
    assert full((), slot("large", gpus=128), budget()) is None
    assert full([slot("a", 5)], slot("b"), budget()) is None
    obstruction = full([slot("a", 5, gpus=12)], slot("b"), budget())
    assert obstruction is not None
    assert "10 % of the cluster's 160" in obstruction.reason
    assert obstruction.until == NOW + timedelta(minutes=55)
    assert full([slot("a", 5, gpus=12, resource="amd.com/gpu")], slot("b"), budget()) is None
    assert full([slot("a", 5, gpus=12, resource=None)], slot("b"), budget()) is not None, "of an unknown resource"


def test_without_a_count_of_the_cluster_gpus_one_job_a_window_is_all() -> None:
    unread = budget(unread="nodes: Forbidden")
    assert full((), slot("a"), unread) is None
    obstruction = full([slot("a", 20, gpus=1)], slot("b", gpus=1), unread)
    assert obstruction is not None
    assert "nodes: Forbidden" in obstruction.reason
    assert full([slot("a", 20)], slot("b"), budget(cluster={"amd.com/gpu": 8})) is not None, "none of its resource"


def test_a_place_is_of_one_warning_and_one_from_a_clock_that_is_ahead_counts() -> None:
    taken = [slot("a", 20)]
    assert holds_slot(taken, "a", NOW - timedelta(minutes=30))
    assert not holds_slot(taken, "a", NOW - timedelta(minutes=10)), "resumed, idle again, and warned since"
    assert within([slot("a", -5), slot("b", 60)], WINDOW, NOW) == (slot("a", -5),)


def test_an_entry_of_the_status_is_read_as_it_was_written() -> None:
    for one in (slot("a"), slot("b", resource=None)):
        assert Slot.from_status(RecentReclaim.model_validate(one.to_status())) == one


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.integers(0, 90),
            st.sampled_from(["take", "take", "crash", "resume"]),
            st.integers(1, 64),
        ),
        max_size=60,
    ),
    jobs=st.integers(1, 5),
    percent=st.integers(1, 100),
)
def test_no_sequence_of_reclaims_crashes_and_resumes_exceeds_the_bounds_in_any_window(
    steps: list[tuple[str, int, str, int]], jobs: int, percent: int
) -> None:
    """A crash after the slot is taken tries again, perhaps much later; a resume leads to another warning."""
    now, done = NOW, list[Slot]()
    slots: tuple[Slot, ...] = ()
    warned: dict[str, datetime] = {}
    reclaimed: set[str] = set()
    bounds = budget(jobs=jobs, gpu_percent=percent)
    for uid, minutes, what, gpus in steps:
        now += timedelta(minutes=minutes)
        if what == "resume" or uid not in warned:
            warned[uid] = now
            reclaimed.discard(uid)
        if what == "resume" or uid in reclaimed:
            continue
        slots = within(slots, WINDOW, now)
        wanted = Slot(job_uid=uid, job=uid, time=now, gpus=gpus, resource=GPU)
        others = tuple(one for one in slots if not is_held_by(one, uid, warned[uid]))
        if others == slots and full(slots, wanted, bounds) is not None:
            continue
        slots = (*others, replace(wanted, gpus=next((one.gpus for one in slots if one not in others), gpus)))
        if what == "take":
            done.append(slots[-1])
            reclaimed.add(uid)
    for last in done:
        window = [one for one in done if timedelta(0) <= last.time - one.time < WINDOW]
        assert len(window) <= jobs
        assert len(window) == 1 or sum(one.gpus for one in window) * 100 <= percent * 160
    assert len(slots) <= MAX_RECENT_RECLAIMS


def test_the_most_idle_gpu_hours_go_first_and_what_is_due_together_counts_as_due() -> None:
    small, long, large = request("small", 1, 3), request("long", 2, 20), request("large", 16, 2)
    soon = request("soon", 64, 2, due_minutes_ago=-0.5)
    later = request("later", 64, 2, due_minutes_ago=-TOGETHER / timedelta(minutes=1) - 1)
    assert [one.job_uid for one in in_order([small, long, large, soon, later], NOW)] == [
        "soon",
        "long",
        "large",
        "small",
    ]


def test_who_idles_least_waits_only_where_places_are_scarce() -> None:
    requests = [request("a", 8), request("b", 4), request("c", 2)]
    waits = [turn(one, requests, (), budget(jobs=2, gpu_percent=100), NOW) for one in requests]
    assert waits[:2] == [None, None]
    assert waits[2] is not None
    assert "2 jobs with more idle GPU-hours go first (team/a)" in waits[2].reason
    assert all(turn(one, requests, (), budget(jobs=3, gpu_percent=100), NOW) is None for one in requests)


def test_a_large_job_that_waits_for_room_is_not_passed_by_small_ones_and_goes_when_the_window_is_empty() -> None:
    large, small = request("large", 64), request("small", 1)
    taken = [slot("other", 30, gpus=8)]
    waits = turn(small, [large, small], taken, budget(), NOW)
    assert waits is not None
    assert "team/large" in waits.reason
    assert waits.until == NOW + timedelta(minutes=30)
    assert turn(large, [large, small], (), budget(), NOW) is None
    assert turn(small, [small], taken, budget(), NOW) is None


@given(
    requests=st.lists(
        st.builds(
            request,
            st.uuids().map(str),
            st.integers(1, 64),
            st.floats(0.5, 48),
            st.floats(-0.9, 60),
        ),
        min_size=1,
        max_size=12,
    ),
    jobs=st.integers(1, 6),
    percent=st.integers(1, 100),
)
def test_the_order_lets_somebody_go_whenever_there_is_a_place(
    requests: list[SlotRequest], jobs: int, percent: int
) -> None:
    """It holds nobody up for good: with an empty window the first in the order goes, and they are those who idle
    most.
    """
    bounds = budget(jobs=jobs, gpu_percent=percent)
    slots: tuple[Slot, ...] = ()
    gone: list[SlotRequest] = []
    left = list(requests)
    while going := [one for one in left if turn(one, left, slots, bounds, NOW) is None]:
        chosen = going[-1]
        slots = (*slots, chosen.slot(NOW))
        gone.append(chosen)
        left.remove(chosen)
    assert gone
    assert {one.job_uid for one in gone} == {one.job_uid for one in in_order(requests, NOW)[: len(gone)]}
