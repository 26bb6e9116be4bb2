from typing import Any

import pytest

from stoker.cluster.cache import Collection
from stoker.cluster.policies import SPARE, Policies
from stoker.findings.vocabulary import Action, ReclaimMode


def obj(name: str, version: int, spec: Any = None, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "uid": name, "resourceVersion": str(version), "generation": version, "labels": labels}
    return {"metadata": metadata, "spec": spec or {}}


def acting(action: str) -> dict[str, Any]:
    return {"rules": {"launcher-too-few": {"action": action}}}


class World:
    def __init__(self) -> None:
        self.policies, self.namespaces = Collection(), Collection()
        self.namespaces.put(obj("team", 1))
        self.in_force = Policies(self.policies, self.namespaces)

    def action(self, namespace: str = "team") -> Action:
        return self.in_force.of(namespace).action("launcher-too-few", Action.OFF)


def test_an_invalid_policy_leaves_the_last_valid_one_in_force(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.policies.watched("ADDED", obj("default", 5, acting("Deny")))
    world.policies.watched("MODIFIED", obj("default", 6, acting("Maybe")))
    assert world.action() is Action.DENY
    assert "UtilizationPolicy default is invalid, the last valid one stays in force: " in caplog.text
    world.policies.compare([obj("default", 6, acting("Maybe"))], version=8)
    assert world.action() is Action.DENY
    assert [record.levelname for record in caplog.records] == ["ERROR"], "said once for each version"
    world.policies.watched("MODIFIED", obj("default", 9, acting("Warn")))
    assert world.action() is Action.WARN


def test_a_policy_that_was_never_valid_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.policies.compare([obj("default", 5, acting("Maybe"))], version=8)
    assert list(world.in_force) == []
    assert world.action() is Action.OFF
    assert "UtilizationPolicy default is invalid, it is ignored, and no job is reclaimed: " in caplog.text


def test_beside_a_policy_that_was_never_valid_nothing_is_reclaimed() -> None:
    """After a restart the last valid version is gone, and it may have protected what `default` does not."""
    world = World()
    world.policies.watched("ADDED", obj("default", 5, {"reclaim": {"mode": "Suspend"}}))
    assert world.in_force.of("team").reclaim.mode is ReclaimMode.SUSPEND
    world.policies.watched("ADDED", obj("research", 6, acting("Maybe")))
    assert world.in_force.of("team").reclaim.mode is ReclaimMode.OBSERVE
    world.policies.watched("DELETED", obj("research", 7, acting("Maybe")))
    assert world.in_force.of("team").reclaim.mode is ReclaimMode.SUSPEND


def test_a_policy_that_a_list_no_longer_has_ends() -> None:
    world = World()
    world.policies.watched(None, obj("default", 5, acting("Deny")))
    assert world.action() is Action.DENY
    world.policies.compare([], version=8)
    assert world.action() is Action.OFF


def test_what_was_there_before_counts() -> None:
    world = World()
    world.policies.watched(None, obj("default", 5, acting("Deny")))
    world.in_force = Policies(world.policies, world.namespaces)
    assert world.action() is Action.DENY


def test_a_change_of_something_else_in_the_policy_is_no_change() -> None:
    world = World()
    world.policies.watched("ADDED", obj("default", 5, acting("Deny")))
    before, revision = world.in_force.of("team"), world.in_force.revision
    world.policies.watched("MODIFIED", obj("default", 6, acting("Deny")))
    assert world.in_force.of("team") is before
    assert world.in_force.revision == revision


def test_a_version_with_the_same_spec_is_not_read_or_complained_of_again(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    invalid = obj("default", 5, acting("Maybe"))
    world.policies.watched("ADDED", invalid)
    written = {**invalid, "metadata": {**invalid["metadata"], "resourceVersion": "6"}, "status": {"overlaps": []}}
    world.policies.watched("MODIFIED", written)
    assert len(caplog.records) == 1
    assert (world.in_force.taken, world.in_force.rejected, world.in_force.invalid) == (0, 1, 1)
    other = obj("default", 7, acting("Deny"))
    other["metadata"] |= {"uid": "another", "generation": 5}
    world.policies.compare([other], version=8)
    assert world.action() is Action.DENY, "deleted and made anew while nobody looked"
    assert (world.in_force.taken, world.in_force.rejected, world.in_force.invalid) == (1, 1, 0)


def test_it_is_told_how_a_policy_stands() -> None:
    world = World()
    assert world.in_force.state_of("default").read is None
    world.policies.watched("ADDED", obj("default", 5, acting("Deny")))
    world.policies.watched("MODIFIED", obj("default", 6, acting("Maybe")))
    standing = world.in_force.state_of("default")
    assert standing.read is not None
    assert standing.read.metadata.generation == 5
    assert [fault.field_path for fault in standing.faults] == ["spec.rules[launcher-too-few].action"]


def test_a_changed_namespace_is_resolved_anew_and_no_other() -> None:
    world = World()
    world.namespaces.put(obj("other", 2))
    strict = acting("Deny") | {"namespaceSelector": {"matchLabels": {"tier": "prod"}}}
    world.policies.watched("ADDED", obj("strict", 5, strict))
    assert world.action() is Action.OFF
    other = world.in_force.of("other")
    world.namespaces.watched("MODIFIED", obj("team", 6, tier="prod"))
    assert world.action() is Action.DENY
    assert world.in_force.of("other") is other
    world.namespaces.watched("DELETED", obj("team", 7))
    assert world.action() is Action.OFF


def test_names_that_do_not_exist_are_not_remembered_without_end() -> None:
    world = World()
    for number in range(2 * SPARE):
        world.in_force.of(f"made-up-{number}")
    assert len(world.in_force._resolved) <= SPARE + 1
    assert world.in_force.of("team") is world.in_force.of("team")
