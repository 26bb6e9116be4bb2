from datetime import UTC, datetime
from typing import Any

from stoker.adapters.kubernetes.client import EVENTS, UnavailableError
from stoker.adapters.kubernetes.events import Event, EventWriter, cut, event_name
from tests.controller.cluster import FakeApi, failing

REGARDING: dict[str, Any] = {
    "apiVersion": "stoker.dev/v1alpha1",
    "kind": "DLJob",
    "metadata": {"name": "bert", "namespace": "team", "uid": "u", "resourceVersion": "7"},
}
WARNED = Event(type="Warning", reason="ReclaimWarning", action="Warn", note="idle\nsince", rule="reclaim", episode="1")


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


def writer(api: FakeApi) -> EventWriter:
    return EventWriter(api, StoppedClock(), instance="vm_1")


async def test_the_same_event_again_is_counted_not_repeated() -> None:
    api = FakeApi()
    for _ in range(3):
        await writer(api).record(REGARDING, WARNED)
    (event,) = (one for key, one in api.objects.items() if key[0] == EVENTS)
    assert event["note"] == "idle since"
    assert event["series"]["count"] == 3
    assert event["regarding"]["uid"] == "u"


async def test_another_episode_is_another_event() -> None:
    api = FakeApi()
    await writer(api).record(REGARDING, WARNED)
    later = Event(type="Warning", reason="ReclaimWarning", action="Warn", note="n", rule="reclaim", episode="2")
    await writer(api).record(REGARDING, later)
    assert len(api.objects) == 2


async def test_an_event_that_cannot_be_written_stops_nothing() -> None:
    api = FakeApi()
    api.before = failing(UnavailableError("create", code=503, reason="down"))
    await writer(api).record(REGARDING, WARNED)
    assert api.requests == ["create events"]


def test_a_name_is_short_enough_and_the_same_in_another_process() -> None:
    assert event_name("bert", "u", WARNED) == "bert.359bc2b6db05dd01"
    assert len(event_name("x" * 300, "u", WARNED)) <= 253


def test_a_note_is_cut_by_bytes_and_never_inside_a_character() -> None:
    assert cut("short") == "short"
    long = cut("ü" * 600)
    assert len(long.encode()) <= 1024
    assert long.endswith("ü...")
