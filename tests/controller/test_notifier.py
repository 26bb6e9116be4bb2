"""Messages are sent once each by the job's own record, whatever fails, and never hold anything up."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, EVENTS, NAMESPACES, POLICIES, ApiError, ConflictError
from stoker.adapters.notifications import Address, NoAddressesError
from stoker.api.dljob import DLJob
from stoker.api.notification import Message
from stoker.cluster.cache import ClusterCache, Key
from stoker.cluster.faults import Faults
from stoker.cluster.recorder import NO_RECORDER
from stoker.cluster.workqueue import Transient
from stoker.controller.assembly import Substitutes
from stoker.controller.notifier import TRIED_FOR
from stoker.controller.rate_limit import LastHour, Sent
from stoker.findings.finding import rfc3339
from stoker.reclaim import Record
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock, failing
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
WARNED = NOW - timedelta(seconds=10)
KEY = Key("team", "bert")


class Box:
    """A post office: each channel's lines, and what was put into each."""

    def __init__(self, **channels: list[str]) -> None:
        self.channels = channels
        self.sent: list[tuple[str, Message]] = []
        self.failures: dict[str, str] = {}
        self.meanwhile: Callable[[], None] = lambda: None

    def addresses(self, key: str, values: Mapping[str, str]) -> list[Address]:
        if key not in self.channels:
            raise NoAddressesError(f"the notification Secret has no key {key}")
        lines = [line.format(**values) for line in self.channels[key]]
        return [Address(name=f"line {n} of {key}", url=line) for n, line in enumerate(lines, 1)]

    async def send(self, address: Address, message: Message) -> str | None:
        await asyncio.sleep(0)
        failure = self.failures.get(address.url)
        if failure is None:
            self.sent.append((address.url, message))
        self.meanwhile()
        return failure

    @property
    def reached(self) -> list[str]:
        return [url for url, _ in self.sent]


class Counts:
    """A Meter that remembers what became of messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []

    def notified(self, event: str, result: str) -> None:
        self.messages.append((event, result))

    def __getattr__(self, name: str) -> Any:
        return getattr(NO_RECORDER, name)


NOON = "2026-11-21T12:00:00Z"


def warned_of(result: str, time: str) -> dict[str, str]:
    """What `status.reclaim.notified` has of the warning."""
    return {"event": "Warned", "eventTime": "2026-11-21T11:59:50Z", "result": result, "time": time}


def warned(at: datetime = WARNED, **more: Any) -> dict[str, Any]:
    deadline = rfc3339(at + timedelta(minutes=15))
    own = {
        "state": "Warned",
        "warnedAt": rfc3339(at),
        "deadline": deadline,
        "action": "Suspend",
        "rule": "unreleased-job",
    }
    return {
        **own,
        "idleSince": rfc3339(at - timedelta(hours=1)),
        "policies": [{"name": "default", "generation": 1}],
        **more,
    }


def reclaimed(at: datetime = WARNED, **more: Any) -> dict[str, Any]:
    return warned(at - timedelta(minutes=15), **{"state": "Reclaimed", "reclaimedAt": rfc3339(at), **more})


class World:
    """Jobs with their records, one policy, one post office; `restart` forgets what the process knew."""

    def __init__(self, record: dict[str, Any] | None = None, *, jobs: int = 1, **notification: Any) -> None:
        self.api, self.cache, self.clock, self.counts = FakeApi(), ClusterCache(Faults()), HeldClock(NOW), Counts()
        self.box = Box(ops=["one"], own=["own-line"])
        self.names = ["bert", *(f"bert-{n}" for n in range(1, jobs))]
        self.policy(**notification)
        for name in self.names:
            self.record(record or warned(), name)
        self.restart()

    def policy(self, **notification: Any) -> None:
        body = {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "UtilizationPolicy",
            "metadata": {"name": "default", "generation": len(self.cache.policies) + 1},
            "spec": {"notification": {"secretKey": "ops", **notification}},
        }
        self.cache.policies.put(self.api.store(POLICIES, None, body))

    def namespace(self, **annotations: str) -> None:
        body = {"metadata": {"name": "team", "annotations": annotations}}
        self.cache.namespaces.put(self.api.store(NAMESPACES, None, body))

    def record(self, record: dict[str, Any], name: str = "bert", phase: str = "Running") -> None:
        body = dljob_object(
            name, status={"phase": phase, "gpus": 8, "reclaim": record}, labels={"stoker.dev/owner": "ada"}
        )
        body["metadata"]["uid"] = f"uid-of-{name}"
        self.cache.dljobs.put(self.api.store(DLJOBS, "team", body))

    def restart(self) -> None:
        parts = Substitutes(cache=self.cache)
        controller = assembled(self.api, self.clock, substitutes=parts, post=self.box, recorder=self.counts)
        self.notifier, self.digests = controller.notifier, controller.digests
        self.notifier.remember()

    async def notify_all(self) -> None:
        for name in self.names:
            await self.notifier.notify(Key("team", name))

    def notified(self, name: str = "bert") -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.api.objects[DLJOBS, "team", name]["status"]["reclaim"].get("notified", [])
        return found


async def test_a_warning_is_told_once_and_that_is_noted() -> None:
    world = World()
    await world.notify_all()
    await world.notify_all()
    world.restart()
    await world.notify_all()
    ((_, message),) = world.box.sent
    assert message.title == "team/bert will be suspended at 2026-11-21T12:14:50Z"
    assert "stoker snooze bert -n team --for 2h" in message.body
    assert world.notified() == [warned_of("Sent", "2026-11-21T12:00:00Z")]
    assert world.counts.messages == [("Warned", "sent")]


async def test_the_action_is_told_beside_the_warning() -> None:
    world = World(warned(WARNED - timedelta(minutes=15)))
    await world.notify_all()
    world.record(reclaimed(notified=world.notified()))
    await world.notify_all()
    assert [message.title for _, message in world.box.sent] == [
        "team/bert will be suspended at 2026-11-21T11:59:50Z",
        "team/bert was suspended: its GPUs were idle",
    ]
    assert "stoker resume bert -n team" in world.box.sent[1][1].body
    assert [entry["event"] for entry in world.notified()] == ["Warned", "Reclaimed"]


async def test_a_new_warning_is_told_anew() -> None:
    world = World()
    await world.notify_all()
    world.record(warned(NOW, notified=world.notified()))
    await world.notify_all()
    assert len(world.box.sent) == 2


@pytest.mark.parametrize(
    "record, notification",
    [
        (warned(NOW - timedelta(hours=25)), {}),
        (warned(), {"events": ["Reclaimed", "Digest"]}),
        (reclaimed(), {"events": ["Warned"]}),
        (warned(), {"secretKey": None}),
        ({"state": "Active", "resumedAt": rfc3339(WARNED), "reclaimedAt": rfc3339(WARNED)}, {}),
        ({"state": "Idle", "action": "Observe"}, {}),
    ],
    ids=["old", "warnings not wanted", "actions not wanted", "nobody named", "resumed", "observed only"],
)
async def test_nothing_is_told_of(record: dict[str, Any], notification: dict[str, Any]) -> None:
    world = World(record, **notification)
    await world.notify_all()
    assert world.box.sent == []
    assert world.notified() == []


async def test_a_job_that_is_over_is_told_of_no_more() -> None:
    world = World()
    world.record(warned(), phase="Succeeded")
    await world.notify_all()
    assert world.box.sent == []


async def test_a_message_that_could_not_be_sent_is_tried_again_then_given_up() -> None:
    world = World()
    world.box.failures["one"] = "HTTP 500"
    with pytest.raises(Transient, match="Warned message: line 1 of ops: HTTP 500"):
        await world.notify_all()
    assert world.notified() == []
    world.clock.time += TRIED_FOR
    await world.notify_all()
    await world.notify_all()
    assert world.notified() == [warned_of("Failed", "2026-11-21T13:00:00Z")]
    assert world.counts.messages == [("Warned", "failed")]
    (event,) = [obj for (resource, _, _), obj in world.api.objects.items() if resource == EVENTS]
    assert event["reason"] == "NotificationFailed"
    assert event["note"] == "The notification Warned was not delivered: line 1 of ops: HTTP 500."


async def test_an_address_that_failed_gets_what_the_others_have_and_they_get_it_once() -> None:
    world = World()
    world.box.channels["ops"] = ["one", "two", "three"]
    world.box.failures["two"] = "no connection"
    with pytest.raises(Transient):
        await world.notify_all()
    assert world.box.reached == ["one", "three"]
    assert [entry["result"] for entry in world.notified()] == ["Sent"]
    del world.box.failures["two"]
    await world.notify_all()
    assert world.box.reached == ["one", "three", "two"]


async def test_a_warning_that_ended_is_not_told_by_a_late_attempt() -> None:
    world = World()
    world.box.failures["one"] = "HTTP 500"
    with pytest.raises(Transient):
        await world.notify_all()
    del world.box.failures["one"]
    world.record({"state": "Active"})
    await world.notify_all()
    assert world.box.sent == []


async def test_a_crash_between_sending_and_noting_repeats_one_message() -> None:
    world = World()
    world.api.before = failing(ApiError("put", code=500, reason="InternalError"))
    with pytest.raises(Transient, match="not noted"):
        await world.notify_all()
    world.api.before = lambda _: None
    world.restart()
    await world.notify_all()
    world.restart()
    await world.notify_all()
    assert world.box.reached == ["one", "one"]


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("seed", range(20))
async def test_killed_anywhere_it_forgets_no_message_and_repeats_one_for_each_kill_at_most(seed: int) -> None:
    dice = random.Random(seed)
    world = World(jobs=3, maxPerHour=1000)
    kills = 0

    def maybe_killed(*_: object) -> None:
        if dice.random() < 0.3:
            raise Killed

    for _ in range(30):
        world.api.before, world.box.meanwhile = maybe_killed, maybe_killed
        try:
            await world.notify_all()
        except Killed:
            kills += 1
            world.restart()
    world.api.before, world.box.meanwhile = (lambda _: None), (lambda: None)
    await world.notify_all()
    titles = Counter(message.title for _, message in world.box.sent)
    assert len(titles) == len(world.names)
    assert sum(titles.values()) <= len(world.names) + kills
    assert all([entry["result"] for entry in world.notified(name)] == ["Sent"] for name in world.names)
    before = len(world.box.sent)
    world.restart()
    await world.notify_all()
    assert len(world.box.sent) == before


async def test_what_could_not_be_noted_is_not_sent_again_by_the_same_process() -> None:
    world = World()
    world.api.before = failing(ApiError("put", code=500, reason="InternalError"))
    with pytest.raises(Transient, match="not noted"):
        await world.notify_all()
    world.api.before = lambda _: None
    await world.notify_all()
    assert world.box.reached == ["one"]
    assert len(world.notified()) == 1


async def test_what_reclaim_writes_meanwhile_is_kept() -> None:
    world = World()

    def reclaim() -> None:
        world.box.meanwhile = lambda: None
        raw = world.api.objects[DLJOBS, "team", "bert"]
        raw["status"]["reclaim"]["state"] = "Reclaiming"
        world.api.store(DLJOBS, "team", raw)

    world.box.meanwhile = reclaim
    await world.notify_all()
    record = world.api.objects[DLJOBS, "team", "bert"]["status"]["reclaim"]
    assert record["state"] == "Reclaiming"
    assert len(record["notified"]) == 1


async def test_a_job_that_keeps_changing_is_noted_later() -> None:
    world = World()

    def conflicting(request: str) -> None:
        if request == "replace dljobs":
            raise ConflictError("put", code=409, reason="Conflict")

    world.api.before = conflicting
    with pytest.raises(Transient, match="keeps changing"):
        await world.notify_all()


def test_the_note_survives_every_write_of_the_record() -> None:
    world = World(warned(notified=[warned_of("Sent", "2026-11-21T12:00:00Z")]))
    status = DLJob.model_validate(world.cache.dljobs.get(KEY)).status
    assert status is not None
    assert Record.from_status(status.reclaim).to_status()["notified"] == world.notified()


# --------------------------------------------------------------------------------------------------------- bounds


async def test_of_a_thousand_warnings_at_once_those_that_exceed_the_hour_go_to_the_digest() -> None:
    world = World(jobs=1_000)
    keys = [Key("team", name) for name in world.names]

    async def worker() -> None:
        while keys:
            await world.notifier.notify(keys.pop())

    await asyncio.gather(*(worker() for _ in range(4)))
    assert len(world.box.sent) == 30
    became = [world.notified(name)[0]["result"] for name in world.names]
    assert (became.count("Sent"), became.count("Digest")) == (30, 970)


async def test_one_namespace_can_not_silence_the_warnings_of_another() -> None:
    """Thirty idle jobs of one team, and one of another: both are warned of, though the hour is full."""
    world = World(jobs=30, maxPerHour=20)
    await world.notify_all()
    assert len(world.box.sent) == 20
    for number in range(4):
        body = dljob_object(f"other-{number}", status={"phase": "Running", "gpus": 8, "reclaim": warned()})
        body["metadata"] |= {"namespace": "other", "uid": f"other-{number}"}
        world.cache.dljobs.put(world.api.store(DLJOBS, "other", body))
        await world.notifier.notify(Key("other", f"other-{number}"))
    assert len(world.box.sent) == 22, "a tenth of the hour's messages is each namespace's own"
    world.restart()
    body = dljob_object("third", status={"phase": "Running", "gpus": 8, "reclaim": warned()})
    body["metadata"] |= {"namespace": "other", "uid": "third"}
    world.cache.dljobs.put(world.api.store(DLJOBS, "other", body))
    await world.notifier.notify(Key("other", "third"))
    assert len(world.box.sent) == 22, "a restart does not give it anew"


@pytest.mark.parametrize(
    "sent, namespace, is_warning, room",
    [
        ([("a", True)] * 9, "a", True, True),
        ([("a", True)] * 10, "a", True, False),
        ([("a", True)] * 10, "b", True, True),
        ([("a", True)] * 10, "b", False, False),
        ([("a", True)] * 10 + [("b", True)], "b", True, False),
        ([("a", True)] * 10 + [("b", False)], "b", True, True),
        ([("a", False)] * 500, "b", True, True),
    ],
)
def test_the_first_warnings_of_each_namespace_have_room(
    sent: list[tuple[str, bool]], namespace: str, is_warning: bool, room: bool
) -> None:
    hour = LastHour(Sent(NOW, name, warning) for name, warning in sent)
    assert hour.has_room(namespace, 10, NOW, is_warning=is_warning) is room
    assert hour.has_room(namespace, 10, NOW + timedelta(hours=1), is_warning=is_warning)


async def test_a_restart_does_not_begin_the_hour_anew() -> None:
    world = World(jobs=3, maxPerHour=1)
    await world.notify_all()
    world.record(warned(NOW, notified=world.notified()))
    world.restart()
    await world.notify_all()
    assert len(world.box.sent) == 1
    world.clock.time += timedelta(hours=1)
    world.record(warned(world.clock.time))
    await world.notify_all()
    assert len(world.box.sent) == 2


@pytest.mark.parametrize(
    "entry",
    ["", "Warned 2026-11-21T11:59:50Z sent 2026-11-21T12:00:00Z", {}, {**warned_of("Sent", NOON), "time": "soon"}],
)
async def test_what_another_version_has_recorded_stops_nothing(entry: object) -> None:
    world = World(warned(notified=[entry]))
    world.restart()
    await world.notify_all()
    assert len(world.box.sent) == 1
    assert world.notified() == [warned_of("Sent", NOON)]


async def test_a_message_that_nobody_took_does_not_count() -> None:
    world = World(jobs=2, maxPerHour=1)
    world.box.failures["one"] = "HTTP 500"
    with pytest.raises(Transient):
        await world.notifier.notify(KEY)
    del world.box.failures["one"]
    await world.notifier.notify(Key("team", "bert-1"))
    assert len(world.box.sent) == 1


async def test_where_no_address_is_for_the_job_that_is_noted() -> None:
    world = World()
    world.box.channels["ops"] = []
    await world.notify_all()
    await world.notify_all()
    assert [entry["result"] for entry in world.notified()] == ["Nobody"]


async def test_a_secret_that_comes_later_is_taken() -> None:
    world = World()
    lines = world.box.channels.pop("ops")
    with pytest.raises(Transient, match="the notification Secret has no key ops"):
        await world.notify_all()
    world.box.channels["ops"] = lines
    await world.notify_all()
    assert world.box.reached == ["one"]


# ------------------------------------------------------------------------------------------------------- channels


@pytest.mark.parametrize(
    "asked, keys, reached",
    [
        ("team", (), "own"),
        ("team.chat", (), "own"),
        ("teams", (), "ops"),
        ("team-secret", (), "ops"),
        ("finance", (), "ops"),
        ("finance", ("fin*",), "own"),
        ("../team", ("*",), "own"),
        ("", (), "ops"),
    ],
)
async def test_a_namespace_may_name_its_own_channels_and_those_that_the_policy_lists(
    asked: str, keys: tuple[str, ...], reached: str
) -> None:
    world = World(namespaceKeys=list(keys))
    world.namespace(**{"stoker.dev/notification-channel": asked})
    world.box.channels = {"ops": ["ops"], asked: ["own"]} if asked else {"ops": ["ops"]}
    await world.notify_all()
    assert world.box.reached == [reached]


async def test_owner_and_team_are_the_jobs_labels() -> None:
    world = World()
    world.box.channels["ops"] = ["to {owner} in {namespace}"]
    await world.notify_all()
    assert world.box.reached == ["to ada in team"]


# ---------------------------------------------------------------------------------------------------------- words


async def test_a_policy_may_use_its_own_words() -> None:
    world = World(
        templates={"warned": "{owner}: {job}/{namespace}, {gpus} GPUs, {cause}, until {deadline} {{by {policy}}}"}
    )
    await world.notify_all()
    assert world.box.sent[0][1].body == (
        "ada: bert/team, 8 GPUs, unreleased-job, until 2026-11-21T12:14:50Z {by default@1}"
    )


@pytest.mark.parametrize("template", ["{job.__class__}", "{0}", "{job!r}", "{job:>9999999}", "{secret}", "{", "{job"])
async def test_a_template_that_is_none_is_passed_over(template: str) -> None:
    world = World(templates={"warned": template})
    await world.notify_all()
    assert "All GPUs (8) of the job bert in team have been idle since" in world.box.sent[0][1].body


@pytest.mark.parametrize(
    "record, says",
    [(warned(action="Delete"), "deleted for good at"), (reclaimed(action="Delete"), "was deleted for good")],
)
async def test_what_can_not_be_undone_is_said(record: dict[str, Any], says: str) -> None:
    world = World(record)
    await world.notify_all()
    body = world.box.sent[0][1].body
    assert says in body
    assert "stoker resume" not in body


# --------------------------------------------------------------------------------------------------------- running


async def test_what_changes_while_it_runs_is_told_and_a_policy_that_begins_to_tell_is_followed() -> None:
    world = World({"state": "Active"}, secretKey=None)
    running = asyncio.create_task(world.notifier.run())
    await asyncio.sleep(0)
    world.record(warned())
    for _ in range(10):
        await asyncio.sleep(0)
    assert world.box.sent == []
    world.policy()
    while not world.notified():
        await asyncio.sleep(0)
    running.cancel()
    assert world.box.reached == ["one"]
