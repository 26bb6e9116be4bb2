"""When a job's manifest is judged anew."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.admission import review
from stoker.controller.manifests import Manifests
from stoker.controller.policies import Policies
from stoker.controller.store import Store
from stoker.models.dljob import DLJob
from stoker.models.finding import rfc3339
from stoker.models.policy import EffectivePolicy
from stoker.models.verdict import Verdict
from tests.controller.cluster import HeldClock
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RULE = "launcher-too-few"
WASTEFUL = "torchrun --nproc_per_node=4 train.py"


class World:
    def __init__(self) -> None:
        self.store, self.clock = Store(), HeldClock(NOW)
        self.store.namespaces.put({"metadata": {"name": "team", "resourceVersion": "1"}})
        self.manifests = Manifests(Policies(self.store.policies, self.store.namespaces), self.clock)
        self.version = 0

    def policy(self, **spec: Any) -> None:
        self.version += 1
        metadata = {"name": "default", "uid": "u", "generation": self.version, "resourceVersion": str(self.version)}
        self.store.policies.put({"metadata": metadata, "spec": spec})

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


@pytest.fixture
def reviews(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the jobs that were judged."""
    judged: list[str] = []

    def counting(job: DLJob, policy: EffectivePolicy, *, now: datetime) -> Verdict:
        judged.append(job.name)
        return review(job, policy, now=now)

    monkeypatch.setattr("stoker.controller.manifests.review", counting)
    return judged


async def test_what_has_not_changed_is_not_judged_again(world: World, reviews: list[str]) -> None:
    world.policy(rules={RULE: {"action": "Warn"}})
    assert await world.rules() == [RULE]
    world.policy(rules={RULE: {"action": "Warn"}})
    assert await world.rules() == [RULE]
    assert reviews == ["bert"]


async def test_a_review_that_ran_out_of_time_is_tried_again_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.controller.manifests.review", lambda *_, **__: Verdict(unfinished=(RULE,)))
    assert (await world.manifests.review(job())).unfinished == (RULE,)
    monkeypatch.undo()
    world.clock.time = NOW + timedelta(minutes=9)
    assert await world.rules() == []
    world.clock.time = NOW + timedelta(minutes=10)
    assert await world.rules() == [RULE]
