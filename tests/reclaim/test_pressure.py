"""Somebody waits for a job's GPUs only if taking them away lets a pending pod run."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.reclaim.pressure import Gain, Node, PendingPod, Requirement, Taint, Toleration, Waiting, pressed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def node(name: str, free: int = 0, *, taints: tuple[Taint, ...] = (), cpu: int = 64, **labels: str) -> Node:
    room = {GPU: Fraction(free), "cpu": Fraction(cpu), "pods": Fraction(100)}
    return Node(name=name, labels={"metadata.name": name, **labels}, taints=taints, room=room)


def pods(*gpus: int, owner: str = "owner", waits: int = 10, **demands: Any) -> Waiting:
    each = tuple(PendingPod(requests={GPU: Fraction(number), "pods": Fraction(1)}, **demands) for number in gpus)
    return Waiting(owner=owner, since=NOW - timedelta(minutes=waits), pods=each)


def gain(uid: str, **by_node: int) -> Gain:
    return Gain(job_uid=uid, by_node={name: {GPU: Fraction(gpus)} for name, gpus in by_node.items()})


def test_without_anybody_who_waits_nobody_goes() -> None:
    assert pressed([], [node("a")], [gain("idle", a=8)]) == frozenset()


def test_a_pod_that_fits_where_the_job_runs_presses() -> None:
    assert pressed([pods(8)], [node("a")], [gain("idle", a=8)]) == {"idle"}
    assert pressed([pods(8)], [node("a", free=4)], [gain("idle", a=4)]) == {"idle"}


@pytest.mark.parametrize(
    "waiting, nodes, why",
    [
        (pods(8), [node("a", free=8), node("b")], "it fits as it is"),
        (pods(16), [node("a")], "it would not fit then either"),
        (pods(8, selector={"product": "h100"}), [node("a", product="a100")], "it asks for another product"),
        (pods(8), [node("a", taints=(Taint(key="reserved"),))], "a taint keeps it away"),
        (pods(8, terms=()), [node("a")], "affinity without terms is met by no node"),
        (pods(8, 8), [node("a")], "its owner's other pod would not fit"),
    ],
)
def test_a_pod_that_could_not_use_the_gpus_does_not_press(waiting: Waiting, nodes: list[Node], why: str) -> None:
    assert pressed([waiting], nodes, [gain("idle", a=8)]) == frozenset(), why


@pytest.mark.parametrize(
    "toleration, tolerates",
    [
        (Toleration(exists=True), True),
        (Toleration(key="reserved", value="team"), True),
        (Toleration(key="reserved", value="other"), False),
        (Toleration(key="reserved", exists=True, effect="NoExecute"), False),
        (Toleration(), False),
    ],
)
def test_a_toleration_lets_a_pod_onto_a_tainted_node(toleration: Toleration, tolerates: bool) -> None:
    tainted = node("a", taints=(Taint(key="reserved", value="team"),))
    waiting = pods(8, tolerations=(toleration,))
    assert bool(pressed([waiting], [tainted], [gain("idle", a=8)])) is tolerates


@pytest.mark.parametrize(
    "requirement, meets",
    [
        (Requirement(key="product", operator="In", values=("h100", "h200")), True),
        (Requirement(key="product", operator="NotIn", values=("h100",)), False),
        (Requirement(key="other", operator="NotIn", values=("h100",)), True),
        (Requirement(key="product", operator="Exists"), True),
        (Requirement(key="product", operator="DoesNotExist"), False),
        (Requirement(key="memory", operator="Gt", values=("40",)), True),
        (Requirement(key="memory", operator="Lt", values=("40",)), False),
        (Requirement(key="product", operator="Gt", values=("40",)), False),
        (Requirement(key="metadata.name", operator="In", values=("a",)), True),
        (Requirement(key="product", operator="Resembles", values=("h100",)), False),
    ],
)
def test_required_node_affinity_is_asked_of_the_labels_and_the_name(requirement: Requirement, meets: bool) -> None:
    labelled = node("a", product="h100", memory="80")
    waiting = pods(8, terms=((requirement,),))
    assert bool(pressed([waiting], [labelled], [gain("idle", a=8)])) is meets


def test_one_pod_takes_one_job_the_first_in_the_order() -> None:
    nodes, gains = [node("a"), node("b")], [gain("longest", a=8), gain("other", b=8)]
    assert pressed([pods(8)], nodes, gains) == {"longest"}
    assert pressed([pods(8), pods(8, owner="second")], nodes, gains) == {"longest", "other"}


def test_a_gang_takes_all_that_it_needs_or_nothing() -> None:
    nodes = [node("a"), node("b"), node("c", free=8)]
    gains = [gain("first", a=8), gain("second", b=8)]
    assert pressed([pods(8, 8, 8)], nodes, gains) == {"first", "second"}
    assert pressed([pods(8, 8)], nodes, gains) == {"first"}
    assert pressed([pods(8, 8, 8, 8)], nodes, gains) == frozenset()


def test_a_job_of_no_use_is_spared_though_it_idles_most() -> None:
    nodes = [node("a", product="a100"), node("b", product="h100")]
    waiting = pods(8, selector={"product": "h100"})
    assert pressed([waiting], nodes, [gain("elsewhere", a=8), gain("useful", b=8)]) == {"useful"}


def test_who_waits_longest_is_thought_of_first_and_keeps_what_it_gets() -> None:
    nodes = [node("a")]
    waiting = [pods(4, owner="late", waits=1), pods(8, owner="early", waits=60)]
    assert pressed(waiting, nodes, [gain("idle", a=8)]) == {"idle"}
    roomy = [node("a", free=4)]
    assert pressed([pods(4, owner="early"), pods(4, owner="late", waits=1)], roomy, [gain("idle", a=4)]) == {"idle"}


def test_other_resources_count_as_well() -> None:
    busy = node("a", cpu=2)
    demand = PendingPod(requests={GPU: Fraction(8), "cpu": Fraction(16)})
    waiting = Waiting(owner="owner", since=NOW, pods=(demand,))
    assert pressed([waiting], [busy], [gain("idle", a=8)]) == frozenset()
    frees = Gain(job_uid="idle", by_node={"a": {GPU: Fraction(8), "cpu": Fraction(14)}})
    assert pressed([waiting], [busy], [frees]) == {"idle"}


@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    groups=st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=3), max_size=4),
    held=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), max_size=5),
)
def test_no_job_goes_that_could_be_spared_and_none_for_nothing(
    free: list[int], groups: list[list[int]], held: list[tuple[int, int]]
) -> None:
    """Of one owner that waits: with all chosen it runs, and with one of them less it does not."""
    nodes = [node(f"n{number}", gpus) for number, gpus in enumerate(free)]
    gains = [gain(f"job-{number}", **{f"n{place}": gpus}) for number, (place, gpus) in enumerate(held)]
    for group in groups:
        waiting = pods(*group)
        chosen = pressed([waiting], nodes, gains)
        kept = [one for one in gains if one.job_uid in chosen]
        if chosen:
            assert pressed([waiting], nodes, kept) == chosen
            for one in kept:
                assert pressed([waiting], nodes, [other for other in kept if other is not one]) == frozenset()
