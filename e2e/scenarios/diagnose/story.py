"""Jobs with a past, in a cluster of their own, and the command over them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import Operator
from e2e.scenarios.harness.jobs import Jobs
from e2e.scenarios.lifecycle.workload import DLJobs

HOURS = 4
INSTALLING = timedelta(minutes=17)
LEFT = """
    phases:
    - {for: 5m, cpu: 1.5, netRx: 40MB/s}
    - {for: 120m, util: 91, memory: 70%, cpu: 6}
    - {util: 0, memory: 70%, cpu: 0.02, netRx: 2kB/s, netTx: 2kB/s}
"""
FEW = "phases: [{util: 0, cpu: 5, gpus: {'0-3': {util: 83, memory: 60%}}}]"
INSTALLS = """
    phases:
    - {for: 17m, cpu: 1.2, netRx: 4MB/s, diskWrite: 9MB/s}
    - {util: 93, memory: 70%, cpu: 6}
"""
"""What says nothing of what is installed: that is in the log."""
BUSY, IDLE = "phases: [{util: 91, memory: 70%, cpu: 6}]", "phases: [{for: 30m, util: 80, cpu: 6}, {util: 0, cpu: 0.02}]"
ROLES = {"leader": (1, BUSY), "worker": (2, IDLE)}
"""The replicated jobs of a JobSet, with their pods and what these do."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """The cluster with its jobs; `started` is when all of them did."""

    operator: Operator
    dljobs: DLJobs
    logged: DLJobs
    """Those of a namespace whose policy lets the controller read logs."""
    sets: Jobs
    """The child Jobs of a JobSet called `js`."""
    started: datetime

    @property
    def cluster(self) -> Cluster:
        return self.operator.cluster

    def diagnose(
        self, *arguments: str, url: str | None = None, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run the command as a user would."""
        prometheus = url or self.cluster.prometheus_url
        command = [sys.executable, "-m", "stoker", "diagnose", f"--prometheus={prometheus}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)

    def in_cluster(self, namespace: str, *arguments: str, url: str | None = None) -> dict[str, dict[str, Any]]:
        """The cluster's jobs by name, from JSON."""
        where = (f"--kubeconfig={self.cluster.kubeconfig}", f"--namespace={namespace}", "--format=json")
        result = self.diagnose(*where, *arguments, url=url)
        assert "Traceback" not in result.stderr, result.stderr
        return {job["name"]: job for job in json.loads(result.stdout)["jobs"]}


def begin(operator: Operator) -> Story:
    """Create the jobs and their past; return when all is in Prometheus."""
    cluster = operator.cluster
    started = (datetime.now(UTC) - timedelta(hours=HOURS)).replace(microsecond=0)
    at = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    dljobs, logged = (DLJobs(cluster, cluster.create_namespace(name)) for name in ("diagnose", "logged"))
    cluster.trainer_log.write_text("".join(_log(started)))
    cluster.apply(_reads_logs(logged.namespace))
    dljobs.create("left", play={"scenario": LEFT, "started_at": at}, script="torchrun train.py\nsleep 1d\n")
    logged.create("installs", play={"scenario": INSTALLS, "started_at": at}, script="bash run.sh")
    Jobs(cluster, dljobs.namespace).create("few", gpus=8, scenario=FEW, started_at=at)
    sets = Jobs(cluster, cluster.create_namespace("sets"))
    for number, (role, (pods, scenario)) in enumerate(ROLES.items()):
        labels = _jobset_labels(role, number)
        sets.create(f"js-{role}-0", pods=pods, labels=labels, scenario=scenario, started_at=at)
    for role, (pods, _) in ROLES.items():
        sets.running(f"js-{role}-0", pods)
    for jobs, name in ((dljobs, "left"), (logged, "installs"), (dljobs, "few")):
        wait_for(f"{name} to run", partial(_run, jobs, name))
    cluster.backfill()
    held = f'count(DCGM_FI_DEV_GPU_UTIL{{namespace=~"{dljobs.namespace}|{logged.namespace}|{sets.namespace}"}})'

    def sampled() -> bool:
        rows = cluster.query(held)
        assert [float(row["value"][1]) for row in rows] == [27.0], rows
        return True

    wait_for("live samples", sampled)
    return Story(operator=operator, dljobs=dljobs, logged=logged, sets=sets, started=started)


def _jobset_labels(role: str, number: int) -> dict[str, str]:
    """What JobSet's controller (0.12) writes into the pod templates of its child Jobs."""
    labels = {
        "jobset-name": "js",
        "jobset-uid": "00000000-0000-4000-8000-000000000001",
        "replicatedjob-name": role,
        "replicatedjob-replicas": "1",
        "job-index": "0",
        "job-global-index": str(number),
        "restart-attempt": "0",
    }
    return {f"jobset.sigs.k8s.io/{key}": value for key, value in labels.items()}


def _run(jobs: DLJobs, name: str) -> bool:
    pods = jobs.pods(name)
    assert [pod["status"].get("phase") for pod in pods] == ["Running"], [pod["status"] for pod in pods]
    return True


def _log(started: datetime) -> list[str]:
    """Seventeen minutes of pip, then epochs; and what must never be kept."""
    lines = [
        (30.0 * number, f"Collecting package-{number}==1.0") for number in range(int(INSTALLING.total_seconds() / 30))
    ]
    lines += [(45.0, "Looking in indexes: https://robot:s3cr3t-Passw0rd@pypi.example.com/simple")]
    lines += [(INSTALLING.total_seconds() + 600.0 * number, f"Epoch {number}/90") for number in range(20)]
    return [
        f"{(started + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z stdout F {text}\n"
        for seconds, text in sorted(lines)
    ]


def _reads_logs(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": "reads-logs"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "analysis": {"readLogs": True},
        },
    }
