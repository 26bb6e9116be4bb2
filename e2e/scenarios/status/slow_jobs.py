"""Jobs with a past that waste GPUs, and a controller that comes and goes meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.lifecycle.workload import MERGE, DLJobs

HALF_UNUSED: tuple[Mapping[str, Any], ...] = (
    {"for": "6m", "util": 0, "cpu": 1},
    {"util": 88, "memory": "60%", "cpu": 6, "gpus": {"4-7": {"util": 0, "memory": 0}}},
)
"""Some minutes of start-up, then half of the GPUs work for ever."""
LEFT: tuple[Mapping[str, Any], ...] = (
    {"for": "90m", "util": 92, "memory": "70%", "cpu": 4},
    {"util": 0, "memory": "70%", "cpu": 0.01},
)
"""Trains, and then holds on to the GPUs."""


@dataclass(frozen=True, slots=True)
class SlowJobs(DLJobs):
    """DLJobs of one namespace whose pods have run for hours, as Prometheus has it."""

    operator: Operator

    def __init__(self, operator: Operator, cluster: Any, namespace: str) -> None:
        DLJobs.__init__(self, cluster, namespace)
        object.__setattr__(self, "operator", operator)

    def start(
        self, name: str, phases: tuple[Mapping[str, Any], ...] = HALF_UNUSED, *, hours: float = 3, **options: Any
    ) -> None:
        """Create a job that has run for hours, and give Prometheus its past."""
        past = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")
        scenario = yaml.safe_dump({"phases": [dict(phase) for phase in phases]})
        self.create(name, play={"started_at": past, "scenario": scenario}, **options)
        self.wait_phase(name, "Running")
        self.cluster.backfill(self.namespace)

    def end(self, name: str) -> None:
        """Let the programs of its pods end, and wait until its Job is complete."""
        for pod in self.pods(name):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            body = {"metadata": {"annotations": {"e2e.stoker.dev/duration": "1s"}}}
            self.cluster.api("PATCH", path, body, MERGE)

        def complete() -> bool:
            conditions = self.job(name)["status"].get("conditions", [])
            return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)

        wait_for(f"Job {name} to be complete", complete)

    def wait_found(self, name: str, category: str, *, timeout: float = 60) -> dict[str, Any]:
        """Wait until the status has an open or final finding of the category; return the status."""

        def probe() -> dict[str, Any]:
            status = self.status(name)
            assert category in status.get("findingsSummary", ""), status
            return status

        return wait_for(f"{category} of {name}", probe, timeout=timeout)

    def writes(self) -> float:
        """Status writes that the controller has done since it began."""
        return self.operator.metric("stoker_status_writes_total", process=CONTROLLER, result="done")

    def ticks(self) -> float:
        """Looks at the metrics that it has done since it began."""
        return self.operator.metric("stoker_scan_ticks_total", process=CONTROLLER, result="done")
