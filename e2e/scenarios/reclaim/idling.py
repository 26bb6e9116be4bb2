"""Jobs with a past: hours of training, then nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from e2e.cluster.waiting import wait_for
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs

TRAINS = {"for": "2h", "util": 92, "memory": "70%", "cpu": 4}
RESTS = {"util": 0, "memory": "70%", "cpu": 0.01}
"""Holds its memory and does nothing."""
HOURS = 3
IDLE: tuple[Mapping[str, Any], ...] = (TRAINS, RESTS)
ONE_BUSY: tuple[Mapping[str, Any], ...] = (TRAINS, {**RESTS, "gpus": {"5": {"util": 90, "memory": "70%"}}})
ONE_RANK_BUSY: tuple[Mapping[str, Any], ...] = (TRAINS, {**RESTS, "ranks": {"1": {"util": 90, "memory": "70%"}}})
BUSY: tuple[Mapping[str, Any], ...] = ({"util": 92, "memory": "70%", "cpu": 4},)


def time_of(text: str) -> datetime:
    """A time of a status."""
    return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Idling(DLJobs):
    """DLJobs whose pods run since three hours and did nothing in the last one."""

    operator: Operator

    def __init__(self, operator: Operator, cluster: Any, namespace: str) -> None:
        DLJobs.__init__(self, cluster, namespace)
        object.__setattr__(self, "operator", operator)

    def start(self, name: str, phases: tuple[Mapping[str, Any], ...] = IDLE, **options: Any) -> None:
        """Create a job that has run for three hours; its history is still to be written (`remember`)."""
        past = (datetime.now(UTC) - timedelta(hours=HOURS)).strftime("%Y-%m-%dT%H:%M:%SZ")
        scenario = yaml.safe_dump({"phases": [dict(phase) for phase in phases]})
        self.create(name, play={"started_at": past, "scenario": scenario}, **options)
        self.wait_phase(name, "Running")

    def remember(self) -> None:
        """Write the pods' past into Prometheus."""
        self.cluster.backfill(self.namespace)

    def beside(self, labels: Mapping[str, str]) -> "Idling":
        """The same in another namespace, with labels."""
        return Idling(self.operator, self.cluster, self.cluster.create_namespace("reclaim", labels))

    def policy(
        self,
        mode: str = "Suspend",
        *,
        name: str = "default",
        selector: Mapping[str, str] | None = None,
    ) -> None:
        """Make a policy, by default the cluster's: idle after half an hour, warned a minute before."""
        reclaim = {"mode": mode, "idleAfter": "30m", "startupGrace": "10m", "warningGrace": "1m"}
        selected = {} if selector is None else {"namespaceSelector": {"matchLabels": dict(selector)}}
        self.cluster.apply(
            {
                "apiVersion": "stoker.dev/v1alpha1",
                "kind": "UtilizationPolicy",
                "metadata": {"name": name},
                "spec": {**selected, "reclaim": reclaim},
            }
        )

    def record(self, name: str) -> dict[str, Any]:
        """status.reclaim, empty before there is one."""
        record: dict[str, Any] = self.status(name).get("reclaim", {})
        return record

    def wait_warned(self, *names: str) -> None:
        """Wait until all these jobs are warned."""

        def probe() -> bool:
            records = {name: self.record(name) for name in names}
            assert all(record.get("state") == "Warned" for record in records.values()), records
            return True

        wait_for(f"{', '.join(names)} to be warned", probe, timeout=60)

    def is_suspended(self, name: str) -> bool:
        """Whether its Job is suspended."""
        return bool(self.job(name)["spec"].get("suspend"))
