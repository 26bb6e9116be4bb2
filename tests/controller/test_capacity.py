"""Nodes and pending pods as the API server has them, read for what the scheduler would make of them."""

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import PODS
from stoker.controller.capacity import Capacity, demand_of, is_everywhere, node_of, requests_of, waiting_of
from stoker.findings.quantity import exact_quantity
from stoker.reclaim.pressure import NAME_FIELD, Node
from tests.controller.cluster import FakeApi, HeldClock

GPU = "nvidia.com/gpu"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]


def pod(name: str = "waits", *, owner: str | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Any:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": name,
        "creationTimestamp": "2026-11-21T11:00:00Z",
    }
    if owner is not None:
        metadata["ownerReferences"] = [{"uid": "another"}, {"uid": owner, "controller": True}]
    container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
        "status": {"phase": "Pending", "conditions": UNSCHEDULABLE, **(status or {})},
    }


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


@pytest.mark.parametrize(
    "text, value",
    [
        ("8", 8),
        (8, 8),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("64Gi", 64 * 2**30),
        ("2k", 2000),
        ("1e3", 1000),
        ("1E", 10**18),
        ("250u", Fraction(1, 4000)),
        ("3n", Fraction(3, 10**9)),
    ],
)
def test_quantities_are_read_as_the_api_server_means_them(text: object, value: Fraction | int) -> None:
    assert exact_quantity(text) == value


@pytest.mark.parametrize("text", ["", "eight", "8 Gi", "1X", "-", "1.2.3"])
def test_what_is_no_quantity_is_none(text: str) -> None:
    assert exact_quantity(text) is None


def test_a_pod_asks_for_its_containers_together_or_for_what_runs_before_them() -> None:
    together = pod(containers=[container(cpu="1", memory="1Gi"), container(cpu="500m")], overhead={"cpu": "250m"})
    assert requests_of(together) == {"cpu": Fraction(7, 4), "memory": 2**30, "pods": 1}
    first = pod(containers=[container(cpu="1")], initContainers=[container(cpu="4"), container(cpu="2", memory="1Gi")])
    assert requests_of(first) == {"cpu": 4, "memory": 2**30, "pods": 1}
    stays = {**container(cpu="1"), "restartPolicy": "Always"}
    assert requests_of(pod(containers=[container(cpu="2")], initContainers=[stays, container(cpu="1")]))["cpu"] == 3
    assert requests_of(pod(containers=[container(cpu="2")], initContainers=[stays, container(cpu="3")]))["cpu"] == 4
    whole = pod(containers=[container(cpu="2")], resources={"requests": {"cpu": "8"}})
    assert requests_of(whole)["cpu"] == 8


def test_a_limit_is_a_request_where_there_is_none() -> None:
    limited = pod(containers=[{"name": "c", "resources": {"limits": {GPU: "8", "cpu": "4"}, "requests": {"cpu": "1"}}}])
    assert requests_of(limited) == {GPU: 8, "cpu": 1, "pods": 1}


def test_a_node_keeps_away_by_its_taints_and_is_known_by_its_labels_and_name() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]
    raw = {
        "metadata": {"name": "gpu-1", "labels": {"zone": "x"}},
        "spec": {"taints": taints},
        "status": {"allocatable": {GPU: "8", "cpu": "7900m"}},
    }
    node = node_of(raw)
    assert [taint.key for taint in node.taints] == ["a"]
    assert node.labels == {"zone": "x", NAME_FIELD: "gpu-1"}
    assert node.room == {GPU: 8, "cpu": Fraction(79, 10)}


def test_what_a_pod_demands_of_its_node_is_read_as_it_is_written() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["x"]}
    by_name = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
    terms = [{"matchExpressions": [expression], "matchFields": [by_name]}]
    demand = demand_of(
        pod(
            nodeSelector={"product": "h100"},
            tolerations=[{"operator": "Exists", "key": "a"}, {"key": "b", "value": "v", "effect": "NoSchedule"}],
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                }
            },
        )
    )
    assert demand is not None
    assert demand.selector == {"product": "h100"}
    assert demand.terms is not None
    assert [[one.key for one in term] for term in demand.terms] == [["zone", "metadata.name"]]
    assert [(one.key, one.exists, one.value, one.effect) for one in demand.tolerations] == [
        ("a", True, "", ""),
        ("b", False, "v", "NoSchedule"),
    ]


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": []},
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {"nominatedNodeName": "gpu-1"},
    ],
)
def test_who_was_not_found_unschedulable_or_is_being_made_room_for_does_not_wait(status: dict[str, Any]) -> None:
    assert demand_of(pod(status=status)) is None
    assert demand_of(pod()) is not None


def test_pods_wait_together_with_the_others_of_their_owner_and_not_if_one_can_not_be_judged() -> None:
    pods = [
        pod("a-0", owner="a"),
        pod("a-1", owner="a"),
        pod("b-0", owner="b"),
        pod("b-1", owner="b", volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]),
        pod("alone"),
        pod("placed", nodeName="gpu-1"),
    ]
    pods.append(pod("ending"))
    pods[-1]["metadata"]["deletionTimestamp"] = "2026-11-21T11:30:00Z"
    assert {one.owner: len(one.pods) for one in waiting_of(pods)} == {"a": 2, "alone": 1}
    known = waiting_of(pods, {("team", "data")})
    assert {one.owner: len(one.pods) for one in known} == {"a": 2, "b": 2, "alone": 1}


BOUND: dict[str, Any] = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
ANYWHERE: dict[str, Any] = {"metadata": {}, "spec": {"nfs": {"server": "store"}}}


@pytest.mark.parametrize(
    "claim, volume, everywhere",
    [
        (BOUND, ANYWHERE, True),
        ({**BOUND, "status": {"phase": "Pending"}}, ANYWHERE, False),
        ({**BOUND, "spec": {"accessModes": ["ReadWriteOnce"]}}, ANYWHERE, False),
        (BOUND, {**ANYWHERE, "spec": {"nodeAffinity": {"required": {}, "x": 1}}}, False),
        (BOUND, {**ANYWHERE, "metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}}, False),
        (BOUND, {**ANYWHERE, "metadata": {"labels": {"failure-domain.beta.kubernetes.io/region": "a"}}}, False),
        (BOUND, {**ANYWHERE, "metadata": {"labels": {"tier": "gold"}}}, True),
    ],
)
def test_only_a_shared_volume_without_a_place_keeps_a_pod_from_no_node(
    claim: dict[str, Any], volume: dict[str, Any], everywhere: bool
) -> None:
    assert is_everywhere(claim, volume) is everywhere


async def test_a_pod_that_is_not_understood_concerns_itself_alone() -> None:
    """Whoever waits beside it still waits, and of the nodes only its own has no known room."""
    api = FakeApi()
    for name, node in (("odd", "gpu-0"), ("fine", "gpu-1")):
        limits = {GPU: "many" if name == "odd" else "8"}
        running = {"nodeName": node, "containers": [{"resources": {"limits": limits}}]}
        api.store(PODS, None, {"metadata": {"name": name, "namespace": "team"}, "spec": running, "status": {}})
    capacity = Capacity(api, HeldClock(NOW))
    nodes = [Node(name=name, labels={}, taints=(), room={GPU: Fraction(8)}) for name in ("gpu-0", "gpu-1")]
    (roomy,) = await capacity.with_room(nodes, leaving=frozenset())
    assert (roomy.name, roomy.room[GPU]) == ("gpu-1", Fraction(0))
