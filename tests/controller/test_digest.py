"""The digest says what reclaim did since the last one, once, at the policy's hour."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import POLICIES, ApiError, ConflictError
from stoker.api.policy import DigestTime
from stoker.controller.digest import DigestPeriod, digest, last_due
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimEvent, ReclaimState
from stoker.policy.effective import EffectiveDigest
from stoker.policy.resolution import set_fields
from stoker.reclaim import Record, resumed
from tests.controller.test_notifier import NOW, World, reclaimed, warned
from tests.workload.building import dljob_object

EIGHT = NOW.replace(hour=8)
DAY = DigestPeriod(start=EIGHT - timedelta(days=1), end=EIGHT)


def at(hours: float) -> str:
    """A time so many hours before the digest."""
    return rfc3339(EIGHT - timedelta(hours=hours))


def event(hours: float, event: ReclaimEvent, reason: str) -> dict[str, str]:
    """An entry of a history, so many hours before the digest."""
    return {"time": at(hours), "event": event.value, "reason": reason}


def deferred(hours: float) -> dict[str, str]:
    """A warning's notification that was left to the digest."""
    return {"event": "Warned", "eventTime": at(hours), "result": "Digest", "time": at(hours)}


def job(name: str = "bert", **record: Any) -> dict[str, Any]:
    return dljob_object(name, status={"phase": "Running", "gpus": 8, "reclaim": record})


@pytest.mark.parametrize(
    "settings, now, due",
    [
        ({"at": "08:00"}, "2026-11-21T07:59:59Z", "2026-11-20T08:00:00Z"),
        ({"at": "08:00"}, "2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"),
        ({"at": "08:00", "timeZone": "Europe/Berlin"}, "2026-11-21T07:30:00Z", "2026-11-21T07:00:00Z"),
        ({"at": "08:00", "timeZone": "Asia/Tokyo", "days": ["Mon"]}, "2026-11-21T12:00:00Z", "2026-11-15T23:00:00Z"),
        ({"at": "02:30", "timeZone": "Europe/Berlin"}, "2026-03-29T12:00:00Z", "2026-03-29T01:30:00Z"),
    ],
)
def test_the_hour_is_that_of_the_policys_time_zone(settings: dict[str, Any], now: str, due: str) -> None:
    effective = EffectiveDigest(**set_fields(DigestTime.model_validate(settings)))
    assert rfc3339(last_due(effective, datetime.fromisoformat(now))) == due


def test_it_counts_what_happened_since_the_last_one_and_shows_what_stands() -> None:
    jobs = [
        job(
            "gpt",
            history=[
                event(30, ReclaimEvent.WARNED, "before"),
                event(5, ReclaimEvent.WARNED, "idle"),
                event(4, ReclaimEvent.RECLAIMED, "idle"),
            ],
            state="Reclaimed",
            reclaimedAt=at(4),
        ),
        job("llama", history=[event(2, ReclaimEvent.WARNED, "idle")], state="Warned", deadline=at(-1), idleSince=at(3)),
        job(
            "t5",
            history=[event(3, ReclaimEvent.RESUMED, "annotation")],
            state="Active",
            reclaimedAt=at(26),
            resumedAt=at(3),
        ),
        job("vit", history=[event(1, ReclaimEvent.SNOOZED, f"until {at(-3)}: <!channel> @all")], state="Snoozed"),
        job("old", history=[event(200, ReclaimEvent.WARNED, "idle")], state="Active"),
        job("later", history=[event(-1, ReclaimEvent.WARNED, "idle")], state="Active", notified=[deferred(-1)]),
        job("many", notified=[deferred(2)], state="Active"),
    ]
    message = digest("research", jobs, DAY)
    assert message is not None
    assert message.title == "Policy research: 2 warned, 1 reclaimed, 1 resumed, 1 snoozed"
    # gpt has held nothing for 4 hours, t5 for the 21 from the period's start to its resumption.
    assert "Given back: 8 GPUs, and 200.0 GPU-hours" in message.body
    assert f"team/llama: 8 GPUs idle since {at(3)}, deadline {at(-1)}" in message.body
    assert f"team/many Warned {at(2)}" in message.body
    assert "(!channel)  at all" in message.body
    assert "team/old" not in message.body
    assert "team/later" not in message.body


def test_without_news_there_is_none() -> None:
    assert digest("research", [job(state="Warned", deadline=at(-1)), job(state="Active")], DAY) is None


def test_a_brake_that_came_on_is_news_and_is_shown_while_it_is_on() -> None:
    brake = {"since": at(2), "message": "7 jobs turned idle"}
    message = digest("research", [], DAY, brake)
    assert message is not None
    assert (
        f"The mass-idle brake has stopped reclaims under this policy since {at(2)}: 7 jobs turned idle"
    ) in message.body
    assert digest("research", [], DAY, {**brake, "since": at(48)}) is None


def test_it_stays_readable_however_much_happened() -> None:
    jobs = [
        job(f"j{n}", history=[event(1, ReclaimEvent.WARNED, "idle")], state="Warned", deadline=at(-1))
        for n in range(500)
    ]
    message = digest("research", jobs, DAY)
    assert message is not None
    assert "Policy research: 500 warned" in message.title
    assert message.body.count("\n") < 100
    assert "and 460 more" in message.body


def test_one_namespace_with_much_to_tell_leaves_no_other_out() -> None:
    jobs = [
        job(f"j{n}", history=[event(1, ReclaimEvent.WARNED, "idle")], state="Warned", deadline=at(-1))
        for n in range(500)
    ]
    small = job("small", history=[event(1, ReclaimEvent.WARNED, "idle")], state="Warned", deadline=at(-1))
    small["metadata"]["namespace"] = "zoo"
    message = digest("research", [*jobs, small], DAY)
    assert message is not None
    assert message.body.count("zoo/small") == 2, "still warned, and what happened"
    assert "and 461 more" in message.body


def test_the_words_it_counts_are_those_of_the_records() -> None:
    standing = Record(state=ReclaimState.WARNED, warned_at=NOW, deadline=NOW)
    word = resumed(standing, annotation="x", unsuspended=False, now=EIGHT)
    message = digest("research", [job(**word.record.to_status())], DAY)
    assert message is not None
    assert message.title == "Policy research: 1 resumed"


class Office(World):
    """The world of notifications, and its digests at 08:00 UTC."""

    async def at(self, hours: float) -> None:
        """Look at this time after the digest's hour."""
        self.clock.time = EIGHT + timedelta(hours=hours)
        await self.digests.once()

    @property
    def last_digest(self) -> str | None:
        status = self.api.objects[POLICIES, None, "default"].get("status") or {}
        found: str | None = status.get("lastDigest")
        return found


def office(**notification: Any) -> Office:
    history = [event(3, ReclaimEvent.WARNED, "idle")]
    return Office(warned(EIGHT - timedelta(hours=3), history=history), **notification)


async def test_it_is_sent_once_a_day_and_that_survives_a_restart() -> None:
    world = office()
    await world.at(-5)  # the first look only begins the period
    assert (world.last_digest, world.box.sent) == (rfc3339(EIGHT - timedelta(hours=5)), [])
    await world.at(-0.1)
    assert world.box.sent == []
    await world.at(0.1)
    await world.at(0.2)
    world.restart()
    await world.at(1)
    ((url, message),) = world.box.sent
    assert (url, message.title) == ("one", "Policy default: 1 warned")
    assert world.last_digest == rfc3339(EIGHT)
    assert world.counts.messages == [("Digest", "sent")]


async def test_a_day_without_news_is_passed_over_in_silence() -> None:
    world = office()
    await world.at(-5)
    await world.at(24.1)
    await world.at(48.1)
    assert [message.title for _, message in world.box.sent] == ["Policy default: 1 warned"]
    assert world.last_digest == rfc3339(EIGHT + timedelta(days=2))


async def test_what_an_address_has_taken_it_gets_no_second_time_while_another_fails() -> None:
    world = office()
    world.box.channels["ops"] = ["one", "two"]
    world.box.failures["two"] = "HTTP 500"
    await world.at(-5)
    await world.at(0.1)
    await world.at(0.11)  # not before a pause
    assert (world.box.reached, world.last_digest) == (["one"], rfc3339(EIGHT))
    del world.box.failures["two"]
    await world.at(0.5)
    await world.at(0.6)
    assert (world.box.reached, world.last_digest) == (["one", "two"], rfc3339(EIGHT))


async def test_a_channel_that_nobody_has_written_does_not_have_the_others_told_again() -> None:
    """A namespace may name a key before it is in the Secret, or never put it there."""
    world = office()
    world.namespace(**{"stoker.dev/notification-channel": "team"})
    await world.at(-5)
    await world.at(0.1)
    world.restart()
    for hours in (1, 24.1, 48.1):
        await world.at(hours)
    assert (world.box.reached, world.last_digest) == (["one"], rfc3339(EIGHT + timedelta(days=2)))


async def test_after_a_day_of_failures_the_next_one_tells_of_it() -> None:
    world = office()
    world.box.failures["one"] = "HTTP 500"
    await world.at(-5)
    await world.at(1)
    del world.box.failures["one"]
    await world.at(24.5)
    assert [message.title for _, message in world.box.sent] == ["Policy default: 1 warned"]


async def test_a_digest_that_could_not_be_noted_is_not_sent_again_by_the_same_process() -> None:
    world = office()
    await world.at(-5)
    for error in (ConflictError("put", code=409, reason="Conflict"), ApiError("put", code=500, reason="InternalError")):

        def fail(request: str, error: ApiError = error) -> None:
            if request == "replace utilizationpolicies":
                raise error

        world.api.before = fail
        await world.at(0.1)
    world.api.before = lambda _: None
    await world.at(0.2)
    assert world.box.reached == ["one"]
    assert world.last_digest == rfc3339(EIGHT)


async def test_a_namespaces_own_channel_gets_what_concerns_its_jobs() -> None:
    world = office()
    world.namespace(**{"stoker.dev/notification-channel": "team"})
    world.box.channels["team"] = ["the team's"]
    await world.at(-5)
    await world.at(0.1)
    assert sorted(world.box.reached) == ["one", "the team's"]


@pytest.mark.parametrize("notification", [{"secretKey": None}, {"events": ["Warned"]}])
async def test_where_nobody_asks_for_it_nothing_is_noted_either(notification: dict[str, Any]) -> None:
    world = office(**notification)
    await world.at(-5)
    await world.at(0.1)
    assert (world.box.sent, world.last_digest) == ([], None)


async def test_what_exceeded_the_hour_is_in_the_digest() -> None:
    world = Office(warned(EIGHT - timedelta(hours=1)), jobs=3, maxPerHour=1)
    await world.at(-5)
    world.clock.time = EIGHT - timedelta(hours=0.9)
    await world.notify_all()
    await world.at(0.1)
    assert "Not sent at the time, since maxPerHour was reached: 2" in world.box.sent[-1][1].body


async def test_reclaimed_jobs_are_given_back_until_they_are_resumed() -> None:
    world = Office(reclaimed(EIGHT - timedelta(hours=2), history=[event(2, ReclaimEvent.RECLAIMED, "idle")]))
    await world.at(-5)
    await world.at(0.1)
    assert "8 GPUs, and 16.0 GPU-hours" in world.box.sent[0][1].body
