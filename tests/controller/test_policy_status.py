from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import POLICIES, ConflictError
from stoker.api.policy import UtilizationPolicy
from stoker.controller.policy_status import PolicyScope, policy_scopes
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class World:
    """A cluster with namespaces and policies, and what a reporter writes of them."""

    def __init__(self) -> None:
        self.api, self.clock = FakeApi(), HeldClock(NOW)
        controller = assembled(self.api, self.clock)
        self.cache, self.policies, self.reporter = controller.cache, controller.policies, controller.policy_status

    def namespace(self, name: str, version: int = 1, **labels: str) -> None:
        labels["kubernetes.io/metadata.name"] = name
        self.cache.namespaces.put({"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}})

    def policy(self, name: str, selector: Mapping[str, str] | None = None, generation: int = 1, **spec: Any) -> None:
        if name != "default":
            spec["namespaceSelector"] = {"matchLabels": selector or {}}
        known = self.api.objects.get((POLICIES, None, name), {})
        body = {**known, "metadata": {"name": name, "uid": name, "generation": generation}, "spec": spec}
        self.cache.policies.put(self.api.store(POLICIES, None, body))

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.api.objects[POLICIES, None, name]["status"]
        return status

    def condition(self, name: str, kind: str = "Ready") -> tuple[str, str, str]:
        (found,) = (one for one in self.status(name)["conditions"] if one["type"] == kind)
        return found["status"], found["reason"], found["message"]


@pytest.fixture
def world() -> World:
    world = World()
    for name, tier in (("nlp", "prod"), ("vision", "prod"), ("play", "dev")):
        world.namespace(name, tier=tier)
    return world


async def test_a_policy_says_where_it_is_in_force(world: World) -> None:
    world.policy("default")
    world.policy("prod", {"tier": "prod"}, generation=4)
    await world.reporter.once()
    assert world.condition("default") == ("True", "InForce", "the base of all namespaces")
    assert world.condition("prod") == ("True", "InForce", "applies in 2 of 2 selected namespaces")
    assert world.status("prod")["observedGeneration"] == 4
    assert world.status("prod")["conditions"][0]["observedGeneration"] == 4
    assert "overlaps" not in world.status("prod")


async def test_a_policy_that_selects_nothing_says_so_until_a_namespace_comes(world: World) -> None:
    world.policy("lab", {"tier": "lab"})
    await world.reporter.once()
    assert world.condition("lab")[:2] == ("False", "SelectsNothing")
    world.namespace("bench", version=5, tier="lab")
    await world.reporter.once()
    assert world.condition("lab") == ("True", "InForce", "applies in 1 of 1 selected namespaces")


async def test_a_policy_that_comes_during_a_look_is_told_of_at_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*given: Any) -> dict[str, PolicyScope]:
        before = policy_scopes(*given)
        if "prod" not in before:
            world.policy("prod", {"tier": "prod"})
        return before

    monkeypatch.setattr("stoker.controller.policy_status.policy_scopes", found)
    await world.reporter.once()
    assert "status" not in world.api.objects[POLICIES, None, "prod"]
    await world.reporter.once()
    assert world.condition("prod")[:2] == ("True", "InForce")


async def test_policies_that_meet_name_the_namespaces_and_which_of_them_counts_there(world: World) -> None:
    world.policy("all", priority=1)
    world.policy("prod", {"tier": "prod"}, priority=2)
    world.policy("play", {"kubernetes.io/metadata.name": "play"})
    await world.reporter.once()
    assert world.condition("all") == ("True", "InForce", "applies in 1 of 3 selected namespaces")
    assert world.status("all")["overlaps"] == [
        "nlp, vision: also selected by prod; prod applies",
        "play: also selected by play; all applies",
    ]
    assert world.status("prod")["overlaps"] == ["nlp, vision: also selected by all; prod applies"]
    assert world.condition("play") == (
        "False",
        "Overridden",
        "other policies have precedence in all 1 namespaces that it selects: all",
    )


async def test_an_invalid_policy_says_what_is_wrong_and_which_generation_counts(world: World) -> None:
    world.policy("default", generation=2, thresholds={"lowPercent": 40})
    world.policy("default", generation=3, thresholds={"lowPercent": 400})
    await world.reporter.once()
    status, reason, message = world.condition("default")
    assert (status, reason) == ("False", "Invalid")
    assert message.startswith("generation 2 stays in force: spec.thresholds.lowPercent: ")
    assert world.status("default")["observedGeneration"] == 3
    world.policy("default", generation=4, thresholds={"lowPercent": 41})
    await world.reporter.once()
    assert world.condition("default")[:2] == ("True", "InForce")


async def test_a_policy_that_was_never_valid_says_that_nothing_is_reclaimed(world: World) -> None:
    world.policy("default", thresholds={"lowPercent": 400})
    await world.reporter.once()
    assert "no job is reclaimed in any namespace: spec.thresholds.lowPercent" in world.condition("default")[2]


async def test_an_exemption_is_told_of_a_week_before_its_end_and_after_it(world: World) -> None:
    until = NOW + timedelta(days=8)
    exemption = {"jobSelector": {"matchLabels": {"team": "nlp"}}, "until": until.isoformat(), "reason": "new images"}
    world.policy("default", exemptions=[exemption])
    await world.reporter.once()
    assert [one["type"] for one in world.status("default")["conditions"]] == ["Ready"]
    world.clock.time = NOW + timedelta(days=1)
    await world.reporter.once()
    assert world.condition("default", "NeedsAttention") == (
        "True",
        "ExemptionExpiring",
        "spec.exemptions[0].until: ends at 2026-11-29T12:00:00Z (reason: new images)",
    )
    world.clock.time = until
    await world.reporter.once()
    assert world.condition("default", "NeedsAttention")[:2] == ("True", "ExemptionExpired")
    world.policy("default", generation=2)
    await world.reporter.once()
    assert world.condition("default", "NeedsAttention") == ("False", "None", "")


async def test_what_an_upgrade_has_made_wrong_is_told_of(world: World) -> None:
    world.policy("default", rules={"launcher-too-few": {"parameters": {"gone": 1}}, "no-such-rule": {"action": "Off"}})
    await world.reporter.once()
    status, reason, message = world.condition("default", "NeedsAttention")
    assert (status, reason) == ("True", "Contradiction")
    assert "spec.rules[launcher-too-few].parameters.gone" in message
    assert "spec.rules[no-such-rule]" in message


async def test_nothing_is_written_twice(world: World) -> None:
    world.policy("default")
    world.policy("prod", {"tier": "prod"})
    await world.reporter.once()
    await world.reporter.once()
    world.namespace("vision", version=9, tier="prod", colour="red")
    await world.reporter.once()
    assert world.api.requests == ["replace utilizationpolicies"] * 2


async def test_what_reclaim_noted_is_kept_and_what_it_notes_meanwhile_is_not_overwritten(world: World) -> None:
    noted = {"jobUID": "u", "job": "nlp/bert", "time": "2026-11-21T11:59:00Z", "gpus": 8}
    world.policy("default")
    raw = world.api.objects[POLICIES, None, "default"]
    stored = world.api.store(POLICIES, None, {**raw, "status": {"recentReclaims": [noted]}})
    await world.reporter.once()
    assert world.status("default") == {"recentReclaims": [noted]}, "the store had not seen it: refused"
    world.cache.policies.put(stored)
    await world.reporter.once()
    assert world.status("default")["recentReclaims"] == [noted]
    assert world.condition("default")[:2] == ("True", "InForce")


async def test_one_policy_that_can_not_be_written_does_not_hold_up_the_others(world: World) -> None:
    world.policy("a", {"tier": "prod"})
    world.policy("b", {"tier": "dev"})
    refused: list[str] = []

    def refuse_once(verb: str) -> None:
        if verb.startswith("replace") and not refused:
            refused.append(verb)
            raise ConflictError("put", code=409, reason="Conflict")

    world.api.before = refuse_once
    await world.reporter.once()
    assert "status" not in world.api.objects[POLICIES, None, "a"]
    assert world.condition("b")[:2] == ("True", "InForce")
    await world.reporter.once()
    assert world.condition("a")[:2] == ("True", "InForce")


def test_overlaps_are_bounded_in_number_and_length() -> None:
    """As the schema has it: one line too long, and the API server refuses the whole status."""
    names = [f"{'long-policy-name-' * 3}{number:03}" for number in range(100)]
    policies = [
        UtilizationPolicy.model_validate(
            {
                "metadata": {"name": name},
                "spec": {"namespaceSelector": {"matchExpressions": [{"key": name[-3:], "operator": "DoesNotExist"}]}},
            }
        )
        for name in names
    ]
    namespaces = [(f"{'n' * 60}{number:03}", {f"{number:03}": "x"}) for number in range(100)]
    found = policy_scopes(policies, namespaces)
    assert {one.selected for one in found.values()} == {99}
    assert max(len(line) for one in found.values() for line in one.overlaps) <= 512


async def test_more_overlaps_than_fit_are_counted(world: World) -> None:
    world.policy("all")
    for number in range(100):
        world.namespace(f"ns-{number:03}", version=number + 5)
        world.policy(f"one-{number:03}", {"kubernetes.io/metadata.name": f"ns-{number:03}"}, priority=1)
    await world.reporter.once()
    overlaps = world.status("all")["overlaps"]
    assert len(overlaps) == 64
    assert overlaps[0] == "ns-000: also selected by one-000; one-000 applies"
    assert overlaps[-1] == "and 37 more"


async def test_a_policy_says_what_is_done_with_idle_jobs_under_it_though_it_leaves_that_to_others(world: World) -> None:
    world.policy("prod", {"tier": "prod"})
    await world.reporter.once()
    assert world.status("prod")["reclaimMode"] == "Observe"
    world.policy("default", reclaim={"mode": "Suspend"})
    world.policy("play", {"tier": "dev"}, reclaim={"mode": "Delete"})
    await world.reporter.once()
    assert [world.status(name)["reclaimMode"] for name in ("default", "prod", "play")] == [
        "Suspend",
        "Suspend",
        "Delete",
    ]


async def test_delete_is_no_reason_for_a_look_at_the_policy(world: World) -> None:
    world.policy("default", reclaim={"mode": "Delete"})
    await world.reporter.once()
    assert [one["type"] for one in world.status("default")["conditions"]] == ["Ready"]
