import asyncio
from typing import Any, cast

import pytest

from stoker.adapters.kubernetes.client import ApiError, KubernetesApi, Resource, UnavailableError
from stoker.cluster.cache import Key
from stoker.cluster.view import ClusterView
from stoker.findings.vocabulary import Action


def policy(name: str, version: int, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": name, "resourceVersion": str(version)},
        "spec": spec,
    }


def namespace(name: str, version: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}


def action(rule: str, chosen: Action) -> dict[str, Any]:
    return {"rules": {rule: {"action": chosen.value}}}


STRICT = {"namespaceSelector": {"matchLabels": {"tier": "prod"}}, **action("launcher-too-few", Action.DENY)}


class Lists:
    """An API server that only lists; None stands for one that doesn't answer."""

    def __init__(self) -> None:
        self.answers: dict[str, list[dict[str, Any]]] | None = {}
        self.asked = 0

    async def list(self, resource: Resource) -> tuple[list[dict[str, Any]], str]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.answers is None:
            raise UnavailableError("GET", code=None, reason="refused")
        return self.answers.get(resource.plural, []), "1000"

    @property
    def api(self) -> KubernetesApi:
        return cast(KubernetesApi, self)


async def own_action(view: ClusterView, where: str, rule: str = "launcher-too-few") -> Action:
    return (await view.policy(where)).action(rule, Action.OFF)


async def test_a_policy_change_holds_for_the_next_review() -> None:
    view = ClusterView()
    view.namespaces.watched(None, namespace("team", 1))
    assert await own_action(view, "team") is Action.OFF
    view.policies.watched("ADDED", policy("default", 2, action("launcher-too-few", Action.WARN)))
    assert await own_action(view, "team") is Action.WARN
    view.policies.watched("MODIFIED", policy("default", 3, action("launcher-too-few", Action.DENY)))
    assert await own_action(view, "team") is Action.DENY
    view.policies.watched("DELETED", policy("default", 4, {}))
    assert await own_action(view, "team") is Action.OFF


async def test_an_invalid_policy_leaves_the_last_good_one_in_force() -> None:
    view = ClusterView()
    view.namespaces.watched(None, namespace("team", 1))
    view.policies.watched("ADDED", policy("default", 2, action("launcher-too-few", Action.DENY)))
    view.policies.watched("MODIFIED", policy("default", 3, {"rules": {"launcher-too-few": {"action": "Maybe"}}}))
    assert await own_action(view, "team") is Action.DENY


async def test_a_namespaces_label_decides_which_policy_holds_and_may_change() -> None:
    view = ClusterView()
    view.policies.watched(None, policy("strict", 1, STRICT))
    view.namespaces.watched(None, namespace("team", 2))
    assert await own_action(view, "team") is Action.OFF
    view.namespaces.watched("MODIFIED", namespace("team", 3, tier="prod"))
    assert await own_action(view, "team") is Action.DENY


async def test_a_review_waits_a_moment_for_a_namespace_that_was_just_created() -> None:
    view = ClusterView()
    view.policies.watched(None, policy("strict", 1, STRICT))
    waiting = asyncio.create_task(own_action(view, "new"))
    await asyncio.sleep(0)
    assert not waiting.done()
    view.namespaces.watched("ADDED", namespace("new", 2, tier="prod"))
    assert await waiting is Action.DENY


async def test_an_unknown_namespace_is_not_remembered_as_one_without_labels() -> None:
    view = ClusterView()
    view.policies.watched(None, policy("strict", 1, STRICT))
    assert await own_action(view, "late") is Action.OFF
    view.namespaces.watched("ADDED", namespace("late", 2, tier="prod"))
    assert await own_action(view, "late") is Action.DENY


async def test_it_is_listed_once_policies_and_namespaces_are() -> None:
    view, lists = ClusterView(), Lists()
    assert view.not_listed() == "UtilizationPolicies not listed yet"
    lists.answers = {"namespaces": [namespace("team", 1, tier="prod")]}
    await view.list_all(lists.api)
    assert view.not_listed() is None
    known = view.namespaces.get(Key("", "team"))
    assert known is not None
    assert known["metadata"]["labels"] == {"tier": "prod"}


async def test_a_watch_that_does_not_tell_until_the_next_list_is_stalled() -> None:
    view, lists = ClusterView(), Lists()
    lists.answers = {"namespaces": [namespace("a", 5)]}
    await view.list_all(lists.api)
    assert view.stalled() is None
    view.namespaces.watched(None, namespace("a", 5))
    lists.answers = {"namespaces": [namespace("a", 5), namespace("b", 9)]}
    await view.list_all(lists.api)
    assert view.stalled() is None, "it may be on its way"
    for _ in range(2):
        await view.list_all(lists.api)
        assert view.stalled() == "the watch of Namespaces missed 1 changes"
    view.namespaces.watched("ADDED", namespace("b", 9))
    await view.list_all(lists.api)
    assert view.stalled() is None


async def test_listing_goes_on_after_the_api_server_was_away(caplog: pytest.LogCaptureFixture) -> None:
    view, lists = ClusterView(), Lists()
    lists.answers = None
    task = asyncio.create_task(view.keep_listed(lists.api, interval=60, retry=0))
    async with asyncio.timeout(10):
        while lists.asked < 5:
            await asyncio.sleep(0)
        assert view.not_listed() is not None
        lists.answers = {}
        while view.not_listed():
            await asyncio.sleep(0)
    task.cancel()
    assert [record.getMessage().partition(",")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "Can't list policies and namespaces"
    ]


async def test_another_fault_of_listing_is_not_swallowed() -> None:
    view, lists = ClusterView(), Lists()
    lists.answers = {"namespaces": [{"metadata": {}}]}
    with pytest.raises(KeyError):
        await asyncio.wait_for(view.keep_listed(lists.api, interval=60, retry=0), 10)
    assert not issubclass(KeyError, ApiError)
