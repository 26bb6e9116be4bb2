"""Simulated jobs as DLJobs with a past."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import DLJobs
from simulator import SimulatedJob, simulate
from stoker.findings.finding import rfc3339

FIRST_SEED = 700_000
"""From here on no seed has been used to tune or to report (benchmarks/diagnosis)."""
MOST_GPUS = 16


def played(case: str) -> SimulatedJob:
    """The first job of a case from FIRST_SEED on that still runs and fits into two nodes."""
    return next(
        job
        for seed in range(FIRST_SEED, FIRST_SEED + 100)
        if (job := simulate(case, seed)).facts.gpus <= MOST_GPUS
        and all(pod.started_at is not None and pod.finished_at is None for pod in job.facts.pods)
    )


@dataclass(frozen=True)
class Playing(DLJobs):
    """A namespace whose DLJobs are simulated."""

    def provide(self, jobs: Iterable[SimulatedJob]) -> None:
        """Nodes for all these jobs, each of its GPUs' model."""
        wanted: dict[str, int] = defaultdict(int)
        for job in jobs:
            wanted[job.pods[0].model.name] += job.facts.nodes
        for product, count in wanted.items():
            self.cluster.add_nodes(count, product=product, prefix=product.lower())

    def start(self, job: SimulatedJob) -> None:
        """Create the DLJob; it began as long ago as its simulated life is."""
        facts, limit = job.facts, job.facts.pods[0].cpu_limit
        spec: dict[str, Any] = {
            "nodes": facts.nodes,
            "gpusPerNode": facts.gpus_per_node,
            "gpuProduct": job.pods[0].model.name,
            "jobType": facts.job_type.value,
            "script": "/opt/job/run",
        }
        if facts.framework is not None:
            spec["framework"] = facts.framework.value
        if limit is not None:
            spec["resources"] = {"limits": {"cpu": f"{round(limit * 1000)}m"}}
        began = datetime.now(UTC) - timedelta(seconds=job.life)
        scenario = f"simulate: {{case: {job.case}, seed: {job.seed}}}"
        self.create(job.case, play={"started_at": rfc3339(began), "scenario": scenario}, **spec)

    def causes(self, name: str) -> list[str]:
        """The categories that `kubectl describe` names, the most costly first."""
        described = self.cluster.kubectl("describe", "dljob", name, "--namespace", self.namespace)
        return list(_categories(described))

    def wait_for_causes(self, name: str, enough: Callable[[list[str]], bool]) -> None:
        """Wait until `kubectl describe` names causes that are enough."""

        def probe() -> bool:
            causes = self.causes(name)
            assert enough(causes), self.status(name)["findings"]
            return True

        wait_for(f"the causes of {name}", probe, timeout=20, interval=1)

    def examined(self, *names: str) -> None:
        """Wait until the operator has looked at the whole life of each."""

        def probe() -> bool:
            missing = [name for name in names if "coveragePercent" not in self.status(name).get("utilization", {})]
            assert not missing, missing
            return True

        wait_for(f"{len(names)} examinations", probe, timeout=90)


def _categories(described: str) -> Iterator[str]:
    for line in described.splitlines():
        key, _, value = line.strip().partition(":")
        if key == "Category":
            yield value.strip()
