"""Three policies on one cluster, each with jobs of its own that are idle: their warnings run at the same time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.conftest import StartCluster
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import BUSY, IDLE, Idling

LARGEST = ("whole", "two-nodes")
SIZES = {"tiny": 1, "small": 2, "half": 4, "one": 1, "whole": 8, "two-nodes": 16}
QUIET = ("a", "b", "c", "d", "e")
PRODUCT = "NVIDIA-L40S"
NEVER = {"minJobs": 10_000}


@dataclass(frozen=True, slots=True)
class Scenery:
    """The namespaces, each under the policy of its name."""

    operator: Operator
    bounded: Idling
    braked: Idling
    pressed: Idling

    def policy(self, name: str) -> dict[str, Any]:
        """A policy's status."""
        raw = self.operator.cluster.api("GET", f"/apis/stoker.dev/v1alpha1/utilizationpolicies/{name}")
        status: dict[str, Any] = raw.get("status", {})
        return status


@pytest.fixture(scope="package")
def scenery(start_cluster: StartCluster) -> Iterator[Scenery]:
    """The controller first sees the jobs when they have a past: six are idle; five of seven fell silent at once, as if
    an exporter began to write zeros; and one is idle on the only node of its product.
    """
    cluster = start_cluster("bounds")
    cluster.add_nodes(7)
    cluster.add_nodes(1, product=PRODUCT, prefix="scarce")
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.start(scan_interval="1s", minimum_warning_grace="1m")
    namespaces = {
        name: Idling(operator, cluster, cluster.create_namespace(name, {"under": name}))
        for name in ("bounded", "braked", "pressed")
    }
    scenery = Scenery(operator, **namespaces)
    _fill(scenery)
    operator.kill_controller()
    cluster.backfill()
    bounded: dict[str, Any] = {"maxJobsPerWindow": 2, "maxGPUPercentPerWindow": 100, "massIdleBrake": NEVER}
    scenery.bounded.policy(name="bounded", selector={"under": "bounded"}, **bounded)
    brake = {"minJobs": 5, "gpuPercent": 50}
    scenery.braked.policy(name="braked", selector={"under": "braked"}, massIdleBrake=brake)
    scenery.pressed.policy(name="pressed", selector={"under": "pressed"}, onPressureOnly=True, massIdleBrake=NEVER)
    cluster.restart(CONTROLLER)
    yield scenery
    cluster.stop()


def _fill(scenery: Scenery) -> None:
    """Start all jobs: first those that need whole nodes, of which the others would take some GPUs."""
    scenery.pressed.start("idle", gpus=8, gpuProduct=PRODUCT)
    for names in (LARGEST, tuple(SIZES.keys() - set(LARGEST))):
        for name in names:
            scenery.bounded.begin(name, gpus=min(SIZES[name], 8), nodes=max(SIZES[name] // 8, 1))
        for name in names:
            scenery.bounded.wait_phase(name, "Running")
    braked = {**dict.fromkeys(QUIET, IDLE), "busy-1": BUSY, "busy-2": BUSY}
    for name, phases in braked.items():
        scenery.braked.begin(name, phases)
    for name in braked:
        scenery.braked.wait_phase(name, "Running")
