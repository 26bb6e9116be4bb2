import random
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.handlers.mirror import Mirror


def obj(name: str, version: int, value: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value or str(version)}


def read(document: Mapping[str, Any]) -> str:
    if document["value"] == "invalid":
        raise ValueError("no good")
    return str(document["value"])


@pytest.fixture
def changes() -> list[None]:
    return []


@pytest.fixture
def mirror(changes: list[None]) -> Mirror[str]:
    return Mirror("Things", read, lambda: changes.append(None))


def test_it_is_not_ready_before_a_list_even_of_nothing(mirror: Mirror[str]) -> None:
    mirror.watched("ADDED", obj("a", 1))
    assert mirror.not_listed() == "Things not listed yet"
    mirror.listed([], 2)
    assert mirror.not_listed() is None
    assert list(mirror) == []


def test_a_late_event_does_not_undo_a_newer_list(mirror: Mirror[str]) -> None:
    mirror.listed([obj("a", 7)], 8)
    mirror.watched("MODIFIED", obj("a", 5))
    assert mirror.get("a") == "7"


def test_a_late_list_does_not_undo_a_newer_event(mirror: Mirror[str]) -> None:
    mirror.watched("MODIFIED", obj("a", 9))
    mirror.listed([obj("a", 7)], 8)
    assert mirror.get("a") == "9"


def test_a_late_list_does_not_bring_back_what_was_deleted(mirror: Mirror[str]) -> None:
    mirror.watched("ADDED", obj("a", 5))
    mirror.watched("DELETED", obj("a", 9))
    mirror.listed([obj("a", 5)], 8)
    assert mirror.get("a") is None


def test_a_late_list_does_not_remove_what_was_created_after_it(mirror: Mirror[str]) -> None:
    mirror.watched("ADDED", obj("a", 9))
    mirror.listed([], 8)
    assert mirror.get("a") == "9"


def test_a_deletion_is_forgotten_after_the_next_list(mirror: Mirror[str]) -> None:
    mirror.watched("ADDED", obj("a", 5))
    mirror.watched("DELETED", obj("a", 9))
    mirror.listed([], 10)
    assert mirror._deleted == {}


def test_what_is_created_again_is_there_again(mirror: Mirror[str]) -> None:
    mirror.watched("ADDED", obj("a", 5))
    mirror.watched("DELETED", obj("a", 9))
    mirror.watched("ADDED", obj("a", 10))
    assert mirror.get("a") == "10"


def test_a_list_removes_what_was_deleted_in_a_gap_of_the_watch(mirror: Mirror[str], changes: list[None]) -> None:
    mirror.watched(None, obj("a", 5))
    changes.clear()
    mirror.listed([], 8)
    assert len(mirror) == 0
    assert changes == [None]


def test_an_invalid_object_keeps_its_last_good_value(mirror: Mirror[str], caplog: pytest.LogCaptureFixture) -> None:
    mirror.watched("ADDED", obj("a", 5, "good"))
    mirror.watched("MODIFIED", obj("a", 6, "invalid"))
    assert mirror.get("a") == "good"
    assert "Things a is invalid, the last valid one stays in force: no good" in caplog.text
    mirror.listed([obj("a", 6, "invalid")], 8)
    assert mirror.get("a") == "good"
    assert len(caplog.records) == 1, "said once for each version"
    mirror.watched("MODIFIED", obj("a", 9, "better"))
    assert mirror.get("a") == "better"


def test_an_object_that_was_never_valid_is_ignored(mirror: Mirror[str]) -> None:
    mirror.listed([obj("a", 5, "invalid")], 8)
    assert list(mirror) == []
    assert mirror.not_listed() is None


def test_a_change_of_something_else_in_the_object_is_no_change(mirror: Mirror[str], changes: list[None]) -> None:
    mirror.watched("ADDED", obj("a", 5, "same"))
    mirror.watched("MODIFIED", obj("a", 6, "same"))
    assert len(changes) == 1


def test_a_watch_that_does_not_tell_until_the_next_list_is_stalled(mirror: Mirror[str]) -> None:
    mirror.listed([obj("a", 5)], 8)
    assert mirror.stalled() is None
    mirror.watched(None, obj("a", 5))
    mirror.listed([obj("a", 5), obj("b", 9)], 10)
    assert mirror.stalled() is None, "it may be on its way"
    mirror.listed([obj("a", 5), obj("b", 9)], 20)
    assert mirror.stalled() == "the watch of Things missed 1 changes"
    mirror.watched("ADDED", obj("b", 9))
    mirror.listed([obj("a", 5), obj("b", 9)], 30)
    assert mirror.stalled() is None


def test_any_order_of_events_and_lists_ends_in_what_the_last_list_says() -> None:
    """A history of one object, told in any order and with any gaps, then a list: the mirror agrees with the list."""
    for seed in range(300):
        rng = random.Random(seed)
        mirror = Mirror("Things", read, lambda: None)
        history: list[tuple[str, dict[str, Any]]] = []
        for version in range(1, 20):
            exists = bool(history) and history[-1][0] != "DELETED"
            kind = rng.choice(["MODIFIED", "DELETED"]) if exists else "ADDED"
            history.append((kind, obj("a", version)))
        told = [event for event in history if rng.random() < 0.7]
        listings = rng.sample(range(1, 20), 3)
        steps: list[tuple[str, dict[str, Any]] | int] = [*told, *listings]
        rng.shuffle(steps)
        steps.append(20)
        for step in steps:
            if isinstance(step, int):
                kind, last = history[min(step, 19) - 1]
                mirror.listed([] if kind == "DELETED" else [last], step)
            else:
                mirror.watched(step[0], step[1])
        kind, last = history[-1]
        assert mirror.get("a") == (None if kind == "DELETED" else last["value"]), f"seed {seed}"
