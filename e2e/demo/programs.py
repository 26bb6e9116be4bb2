"""What the demo's jobs do on their simulated GPUs: hours of a past, by the name of the DLJob."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import dedent
from typing import Any

from stoker.findings.finding import rfc3339


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A scenario (e2e/telemetry/scenario.py) that began `ago`, or begins when its pods do."""

    scenario: str
    ago: timedelta | None = None
    duration: str | None = None
    """How long from its pods' real start until they end by themselves."""

    def manifest(self, job: str, now: datetime) -> dict[str, Any]:
        """The ConfigMap by which the pods of this Job get it (e2e/telemetry/simulation.yaml)."""
        data = {"scenario": dedent(self.scenario), "termination": "2s"}
        if self.ago is not None:
            data["started-at"] = rfc3339(now - self.ago)
        if self.duration is not None:
            data["duration"] = self.duration
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": job, "namespace": "default", "labels": {"e2e.stoker.dev/simulation": "true"}},
            "data": data,
        }


HOURS = timedelta(hours=1)
MINUTES = timedelta(minutes=1)

PROGRAMS = {
    # a batch of 32 keeps 16 large GPUs at a third of what they can do
    "gpt-small": Program(
        ago=4 * HOURS,
        scenario="""\
            seed: 11
            noise: 3
            phases:
            - {for: 6m, cpu: 2, netRx: 3MB/s}
            - {util: 31, memory: 38%, cpu: 7, rx: 40MB/s}
            """,
    ),
    # nothing to complain about
    "llama-sft": Program(
        ago=4 * HOURS,
        scenario="""\
            seed: 12
            phases:
            - {for: 5m, cpu: 3, netRx: 4MB/s}
            - {util: 94, memory: 81%, cpu: 10}
            """,
    ),
    # four processes, each on a GPU of its own: the other four are never touched
    "ranker": Program(
        ago=3 * HOURS,
        scenario="""\
            seed: 13
            phases:
            - {for: 4m, cpu: 2}
            - {util: 83, memory: 64%, cpu: 5, gpus: {"4-7": {util: 0, memory: 0}}}
            """,
    ),
    # compiles and installs for 19 minutes before the first kernel
    "video-encoder": Program(
        ago=2 * HOURS,
        scenario="""\
            seed: 14
            phases:
            - {for: 19m, cpu: 2.4, netRx: 3MB/s, diskWrite: 12MB/s}
            - {util: 88, memory: 72%, cpu: 6}
            """,
    ),
    # somebody thinks, runs a cell, and thinks again
    "notebook": Program(
        ago=4 * HOURS,
        scenario="""\
            seed: 15
            phases:
            - {for: 31m, cpu: 0.1}
            - {for: 2m, util: 40, memory: 12%}
            - {for: 4m, memory: 12%, cpu: 0.1}
            - {for: 1m, util: 65, memory: 12%}
            - {for: 92m, memory: 12%, cpu: 0.1}
            - {for: 2m, util: 30, memory: 12%}
            - {for: 7m, memory: 12%, cpu: 0.1}
            - {for: 1m, util: 55, memory: 12%}
            - {for: 85m, memory: 12%, cpu: 0.1}
            - {for: 2m, util: 55, memory: 12%}
            - {memory: 12%, cpu: 0.05}
            """,
    ),
    # trained for two hours and three quarters, and sleeps ever since
    "gpt-unreleased": Program(
        ago=4 * HOURS,
        scenario="""\
            seed: 16
            phases:
            - {for: 5m, cpu: 2}
            - {for: 2h45m, util: 91, memory: 76%, cpu: 8}
            - {memory: 76%, cpu: 0.01}
            """,
    ),
    # waits for GPUs; its pods then end after a few seconds
    "vit-large": Program(scenario="phases: [{util: 90, memory: 70%}]", duration="6s"),
}

TRAINING_AGAIN = Program(scenario="phases: [{for: 20s, cpu: 2}, {util: 91, memory: 76%, cpu: 8}]")
"""A resumed job begins its script anew."""
