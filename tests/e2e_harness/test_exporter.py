"""Who has which GPU, and what the exporter shows of it."""

import math
from typing import Any

from e2e.telemetry.exporter import Stage, exposition
from e2e.telemetry.metrics import DCGM_METRICS, Series


def node(name: str, gpus: int) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": {"nvidia.com/gpu": str(gpus)}}}


def pod(
    uid: str, gpus: int, *, on: str = "n", phase: str = "Running", scenario: str = "", rank: int = 0
) -> dict[str, Any]:
    annotations = {"e2e.stoker.dev/scenario": scenario, "batch.kubernetes.io/job-completion-index": str(rank)}
    running = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
    containers: list[dict[str, Any]] = [
        {"name": "sidecar", "image": "s"},
        {"name": "trainer", "image": "t", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}},
    ]
    statuses = [{"name": name, "state": running} for name in ("sidecar", "trainer")] if phase == "Running" else []
    return {
        "metadata": {"uid": uid, "name": f"pod-{uid}", "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": on, "containers": containers},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


START = 1795262400.0
"""2026-11-21T12:00:00Z."""


def stage(*pods: dict[str, Any], gpus: int = 8) -> Stage:
    stage = Stage()
    stage.node_changed("ADDED", node("n", gpus))
    for one in pods:
        stage.pod_changed("ADDED", one)
    return stage


def held(stage: Stage) -> dict[str, tuple[int, ...]]:
    return {player.pod.uid: player.pod.gpus for player in stage.players()}


def test_gpus_are_exclusive_and_stay_with_their_pod() -> None:
    on_stage = stage(pod("a", 2), pod("b", 3))
    assert held(on_stage) == {"a": (0, 1), "b": (2, 3, 4)}
    on_stage.pod_changed("DELETED", pod("a", 2))
    on_stage.pod_changed("MODIFIED", pod("b", 3, scenario="[{util: 5}]"))
    on_stage.pod_changed("ADDED", pod("c", 3))
    assert held(on_stage) == {"b": (2, 3, 4), "c": (0, 1, 5)}
    assert [gpu.index for gpu in on_stage.free_gpus()] == [6, 7]


def test_a_pod_that_has_ended_frees_its_gpus_and_a_terminating_one_does_not() -> None:
    terminating = pod("b", 1)
    terminating["metadata"]["deletionTimestamp"] = "2026-11-21T12:30:00Z"
    on_stage = stage(pod("a", 1), terminating)
    on_stage.pod_changed("MODIFIED", pod("a", 1, phase="Succeeded"))
    assert held(on_stage) == {"b": (1,)}


def test_a_pod_seen_before_its_node_enters_with_the_node() -> None:
    on_stage = stage(pod("a", 1, on="late"))
    assert held(on_stage) == {}
    on_stage.node_changed("ADDED", node("late", 1))
    assert held(on_stage) == {"a": (0,)}


def test_whoever_is_missing_from_a_new_list_is_gone() -> None:
    on_stage = stage(pod("a", 1), pod("b", 1))
    on_stage.pods_listed([pod("b", 1)])
    assert held(on_stage) == {"b": (1,)}


def test_a_pod_that_has_not_started_holds_idle_gpus_and_has_no_container_series() -> None:
    (player,) = stage(pod("a", 1, phase="Pending", scenario="[{util: 90}]")).players()
    series = list(player.dcgm(START + 60, 30))
    assert {one.value for one in series if one.name in {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"}} == {0}
    assert 'pod="pod-a"' in series[0].labels
    assert 'container="trainer"' in series[0].labels
    assert not list(player.cadvisor(START + 60))


def test_a_running_pod_shows_its_scenario_in_the_exporters_units() -> None:
    scenario = (
        "{noise: 0, phases: [{util: 80, memory: 10GiB, tensor: 20, rx: 5MB/s, cpu: 2, netRx: 1MB/s, power: 400}]}"
    )
    (player,) = stage(pod("a", 1, scenario=scenario)).players()
    shown = {one.name: one.value for one in player.dcgm(START + 100, 30)}
    assert tuple(shown) == DCGM_METRICS
    assert shown["DCGM_FI_DEV_GPU_UTIL"] == 80
    assert shown["DCGM_FI_PROF_GR_ENGINE_ACTIVE"] == 0.8
    assert shown["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"] == 0.2
    assert (shown["DCGM_FI_DEV_FB_USED"], shown["DCGM_FI_DEV_FB_FREE"]) == (10240, 81559 - 10240)
    assert shown["DCGM_FI_PROF_PCIE_RX_BYTES"] == 5e6
    assert shown["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == 400 * 100 * 1000
    container = {one.name: one for one in player.cadvisor(START + 100) if 'container="trainer"' in one.labels}
    assert container["container_cpu_usage_seconds_total"].value == 200
    network = [one for one in player.cadvisor(START + 100) if one.name == "container_network_receive_bytes_total"]
    assert [one.value for one in network] == [1e8]
    assert "container=" not in network[0].labels


def test_a_gpu_without_values_shows_none_or_no_series() -> None:
    scenario = "[{gpus: {'0': {export: nothing}, '1': {export: nan}}}]"
    (player,) = stage(pod("a", 2, scenario=scenario)).players()
    series = list(player.dcgm(START + 60, 30))
    assert {one.labels.split(",")[0] for one in series} == {'gpu="1"'}
    assert all(math.isnan(one.value) for one in series)


def test_the_samples_of_another_clock_carry_its_time() -> None:
    (player,) = stage(pod("a", 1, scenario="{clock: -5m, phases: [{}]}")).players()
    shown = exposition(player.dcgm(START + 600, 30))
    assert all(line.endswith(f" {round(START + 300) * 1000}") for line in shown.splitlines())
    assert all(one.taken_at is None for one in player.cadvisor(START + 600))


def test_a_scenario_with_a_mistake_leaves_the_pod_at_rest() -> None:
    (player,) = stage(pod("a", 1, scenario="[{utl: 90}]")).players()
    assert {one.value for one in player.dcgm(START + 60, 30) if one.name == "DCGM_FI_DEV_GPU_UTIL"} == {0}


def test_the_series_of_a_name_stand_together() -> None:
    series = [Series(name=name, labels=f'gpu="{gpu}"', value=gpu) for gpu in (0, 1) for name in ("a", "b")]
    assert exposition(series) == 'a{gpu="0"} 0\na{gpu="1"} 1\nb{gpu="0"} 0\nb{gpu="1"} 1\n'
