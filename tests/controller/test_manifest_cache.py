"""When a job's manifest is judged anew."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.workers import TaskEnd, Workers
from stoker.api.dljob import DLJob
from stoker.cluster.workqueue import Transient
from stoker.controller.manifest_cache import warm_up
from stoker.findings.finding import rfc3339
from stoker.shell.model import Shortfall
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock
from tests.inline_workers import InlineWorkers
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULE = "launcher-too-few"
WASTEFUL = "torchrun --nproc_per_node=4 train.py"


class World:
    def __init__(self) -> None:
        self.clock, self.workers = HeldClock(NOW), InlineWorkers()
        controller = assembled(FakeApi(), self.clock, workers=self.workers)
        self.cache, self.manifests = controller.cache, controller.manifests
        self.cache.namespaces.put({"metadata": {"name": "team", "resourceVersion": "1"}})
        self.version = 0

    def policy(self, **spec: Any) -> None:
        self.version += 1
        metadata = {"name": "default", "uid": "u", "generation": self.version, "resourceVersion": str(self.version)}
        self.cache.policies.put({"metadata": metadata, "spec": spec})

    async def rules(self, **labels: str) -> list[str]:
        return [one.rule for one in (await self.manifests.review(job(**labels))).findings]


def job(**labels: str) -> DLJob:
    return DLJob.model_validate(dljob_object(script=WASTEFUL, labels=labels))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("action, found", [("Deny", [RULE]), ("Warn", [RULE]), ("Audit", [RULE]), ("Off", [])])
async def test_a_switched_rule_counts_at_once(action: str, found: list[str], world: World) -> None:
    assert await world.rules() == [RULE]
    world.policy(rules={RULE: {"action": action}})
    assert await world.rules() == found


async def test_an_exemption_ends_without_an_event(world: World) -> None:
    until = NOW + timedelta(hours=1)
    exempt = {"jobSelector": {}, "rules": [RULE], "until": rfc3339(until), "reason": "on trial"}
    world.policy(exemptions=[exempt])
    assert await world.rules() == []
    world.clock.time = until - timedelta(seconds=1)
    assert await world.rules() == []
    world.clock.time = until
    assert await world.rules() == [RULE]


async def test_a_label_that_an_exemption_selects_by_counts_at_once(world: World) -> None:
    selector = {"matchLabels": {"stoker.dev/team": "vision"}}
    world.policy(exemptions=[{"jobSelector": selector, "rules": [RULE], "reason": "on trial"}])
    assert await world.rules() == [RULE]
    assert await world.rules(**{"stoker.dev/team": "vision"}) == []


async def test_what_has_not_changed_is_not_read_again(world: World) -> None:
    world.policy(rules={RULE: {"action": "Warn"}})
    assert await world.rules() == [RULE]
    world.policy(rules={RULE: {"action": "Warn"}})
    assert await world.rules() == [RULE]
    assert len(world.workers.asked) == 1


async def test_a_review_that_did_not_end_leaves_what_the_manifest_says_and_is_tried_again_ever_later(
    world: World,
) -> None:
    world.workers.end, world.workers.results = TaskEnd.TIME, 1
    late = await world.manifests.review(job())
    assert (late.findings, late.shortfall) == ((), Shortfall.OVER_BUDGET)
    asked = []
    for minute in range(0, 24 * 60 * 4, 10):
        world.clock.time = NOW + timedelta(minutes=minute)
        before = len(world.workers.asked)
        await world.manifests.review(job())
        if len(world.workers.asked) > before:
            asked.append(minute)
    assert asked[:7] == [10, 30, 70, 150, 310, 630, 1270]
    assert asked[8] - asked[7] == 24 * 60
    world.workers.end = None
    world.clock.time = NOW + timedelta(days=9)
    assert await world.rules() == [RULE]


@pytest.mark.parametrize("end", [TaskEnd.DIED, TaskEnd.RAISED])
async def test_a_worker_that_failed_is_a_fault_of_ours(
    end: TaskEnd, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.workers.end = end
    assert (await world.manifests.review(job())).not_analysed is Shortfall.FAULT
    assert "rule review failed" in caplog.text


@pytest.mark.parametrize("end", [TaskEnd.BUSY, TaskEnd.LATE])
async def test_where_others_were_in_the_way_it_is_tried_again(end: TaskEnd, world: World) -> None:
    """Nothing is concluded from it, and nothing remembered."""
    world.workers.end = end
    with pytest.raises(Transient, match="all workers were busy"):
        await world.manifests.review(job())
    world.workers.end = None
    assert await world.rules() == [RULE]


async def test_a_program_is_unread_until_a_worker_has_read_it(world: World) -> None:
    serving = DLJob.model_validate(dljob_object(script="vllm serve model"))
    assert world.manifests.program(serving).is_unread
    assert world.manifests.known_program(serving.uid) is None
    assert await world.manifests.settle()
    assert not await world.manifests.settle()
    program = world.manifests.program(serving)
    assert (program.serves, program.is_unread) == (True, False)
    assert world.manifests.known_program(serving.uid) is program
    assert len(world.workers.asked) == 1
    world.manifests.keep_only(())
    assert world.manifests.known_program(serving.uid) is None


async def test_a_program_that_is_not_read_to_its_end_stays_unread(world: World) -> None:
    endless = DLJob.model_validate(dljob_object(script="f(){ f|f& };f\nvllm serve model"))
    assert (await world.manifests.review(endless)).shortfall is Shortfall.OVER_BUDGET
    assert world.manifests.program(endless).is_unread


async def test_what_was_read_once_stays_though_a_later_review_has_less_time(world: World) -> None:
    assert await world.rules() == [RULE]
    world.workers.end, world.workers.results = TaskEnd.TIME, 1
    world.policy(rules={RULE: {"action": "Deny"}})
    assert (await world.manifests.review(job())).shortfall is Shortfall.OVER_BUDGET
    assert not world.manifests.program(job()).is_unread


def placed(uid: str, namespace: str, script: str) -> DLJob:
    raw = dljob_object(script=script)
    raw["metadata"] |= {"uid": uid, "namespace": namespace}
    return DLJob.model_validate(raw)


COSTLY = "parallel " + "{} " * 19_000


async def test_costly_manifests_are_read_in_processes_and_hold_up_neither_the_loop_nor_others() -> None:
    async with Workers(2, warm_up=warm_up) as workers:
        manifests = assembled(FakeApi(), HeldClock(NOW), workers=workers).manifests
        await workers.ready()
        costly = [placed(f"costly-{number}", "team", COSTLY) for number in range(4)]
        before = time.thread_time()
        assert all(manifests.program(one).is_unread for one in costly)
        other = placed("other", "other", WASTEFUL)
        assert [one.rule for one in (await manifests.review(other)).findings] == [RULE]
        while await manifests.settle():
            pass
        # The loop's thread has only waited; each of these takes most of a second to read.
        assert time.thread_time() - before < 1.0
        assert all(manifests.known_program(one.uid) is not None for one in costly)
