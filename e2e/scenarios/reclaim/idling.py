"""Jobs with a past: an hour of training, then nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml

from e2e.cluster.waiting import wait_for
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs

Phase = Mapping[str, Any]
Phases = tuple[Phase, ...]

TRAINS: Phase = {"for": "70m", "util": 92, "memory": "70%", "cpu": 4}
RESTS: Phase = {"util": 0, "memory": "70%", "cpu": 0.01}
"""Holds its memory and does nothing."""
WORKS: Phase = {"util": 92, "memory": "70%", "cpu": 4}
PAST = timedelta(hours=2)
IDLE: Phases = (TRAINS, RESTS)
ONE_BUSY: Phases = (TRAINS, {**RESTS, "gpus": {"1": {"util": 90, "memory": "70%"}}})
ONE_RANK_BUSY: Phases = (TRAINS, {**RESTS, "ranks": {"1": {"util": 90, "memory": "70%"}}})
BUSY: Phases = (WORKS,)

UNBOUNDED: Mapping[str, Any] = {
    "maxJobsPerWindow": 500,
    "maxGPUPercentPerWindow": 100,
    "massIdleBrake": {"minJobs": 10_000, "gpuPercent": 100},
}
"""Many jobs of a test turn idle at once, and are reclaimed at once."""


def happened(record: Mapping[str, Any]) -> list[str]:
    """The events of a record's history, the oldest first."""
    return [entry["event"] for entry in record.get("history", ())]


def time_of(text: str) -> datetime:
    """A time of a status."""
    return datetime.fromisoformat(text)


def past(since: timedelta) -> str:
    """The time so long ago, as objects hold it."""
    return (datetime.now(UTC) - since).strftime("%Y-%m-%dT%H:%M:%SZ")


def scenario(phases: Phases, **more: Any) -> str:
    """What pods play, as their annotation says it."""
    return yaml.safe_dump({**more, "phases": [dict(phase) for phase in phases]})


@dataclass(frozen=True, slots=True)
class Idling(DLJobs):
    """DLJobs whose pods run since two hours and did nothing in the last 50 minutes."""

    operator: Operator

    def __init__(self, operator: Operator, cluster: Any, namespace: str) -> None:
        DLJobs.__init__(self, cluster, namespace)
        object.__setattr__(self, "operator", operator)

    def begin(
        self,
        name: str,
        phases: Phases = IDLE,
        *,
        gpus: int = 2,
        since: timedelta = PAST,
        play: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Create a job that runs since then, and don't wait for it; its history is still to be written (`remember`)."""
        steered = {"started_at": past(since), "scenario": scenario(phases), **(play or {})}
        self.create(name, play=steered, gpusPerNode=gpus, **options)

    def start(self, name: str, phases: Phases = IDLE, **options: Any) -> None:
        """`begin`, and wait for it to run."""
        self.begin(name, phases, **options)
        self.wait_phase(name, "Running")

    def remember(self) -> None:
        """Write the pods' past into Prometheus."""
        self.cluster.backfill(self.namespace)

    def beside(self, labels: Mapping[str, str]) -> "Idling":
        """The same in another namespace, with labels."""
        return Idling(self.operator, self.cluster, self.cluster.create_namespace("reclaim", labels))

    def rehearse(self, name: str, *phases: Phase, clock: str = "0s") -> None:
        """From now on its pods play this, as if since their start, and their samples carry that clock's time."""
        for pod in self.pods(name):
            body = {"metadata": {"annotations": {"e2e.stoker.dev/scenario": scenario(phases, clock=clock)}}}
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.cluster.api("PATCH", path, body, "application/merge-patch+json")

    def policy(
        self,
        mode: str = "Suspend",
        *,
        name: str = "default",
        selector: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        **reclaim: Any,
    ) -> None:
        """Make a policy, by default the cluster's: idle after half an hour, warned a minute before, whatever time pods
        get to end and wherever their results are. `reclaim` are other settings, `spec` what stands beside them.
        """
        settings = {
            "mode": mode,
            "idleAfter": "30m",
            "startupGrace": "10m",
            "warningGrace": "1m",
            "minTerminationGrace": "0s",
            "trainingWithoutVolume": True,
            **UNBOUNDED,
            **reclaim,
        }
        selected = {} if selector is None else {"namespaceSelector": {"matchLabels": dict(selector)}}
        self.cluster.apply(
            {
                "apiVersion": "stoker.dev/v1alpha1",
                "kind": "UtilizationPolicy",
                "metadata": {"name": name},
                "spec": {**selected, "reclaim": settings, **(spec or {})},
            }
        )

    def record(self, name: str) -> dict[str, Any]:
        """status.reclaim, empty before there is one."""
        record: dict[str, Any] = self.status(name).get("reclaim", {})
        return record

    def deadline(self, name: str) -> datetime:
        """When it is reclaimed at the earliest."""
        return time_of(self.record(name)["deadline"])

    def wait_state(self, state: str, *names: str, action: str | None = None, timeout: float = 120) -> None:
        """Wait until all these jobs are in this state of reclaim, with that action if one is given."""

        def probe() -> bool:
            records = {name: self.record(name) for name in names}
            others = {
                name: (record.get("state"), record.get("reason"), self._idle(name))
                for name, record in records.items()
                if record.get("state") != state or action not in {None, record.get("action")}
            }
            assert not others, others
            return True

        wait_for(f"{', '.join(names)} to be {state}", probe, timeout=timeout, interval=0.2)

    def _idle(self, name: str) -> str:
        """What its condition Idle says, empty without one."""
        found = (one["message"] for one in self.status(name).get("conditions", ()) if one["type"] == "Idle")
        return next(found, "")

    def wait_warned(self, *names: str) -> None:
        """Wait until all these jobs are warned."""
        self.wait_state("Warned", *names)

    def is_suspended(self, name: str) -> bool:
        """Whether its Job is suspended."""
        return bool(self.job(name)["spec"].get("suspend"))
