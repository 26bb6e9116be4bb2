import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import NAMESPACE, Operator
from e2e.scenarios.doctor.patient import Patient
from e2e.scenarios.lifecycle.workload import DLJobs

BUSY = "phases: [{util: 91, memory: 70%, cpu: 6}]"
CPU_NODES = "cpu"
CERTIFICATE = "e2e"
"""The Secret that the chart's admission Deployment mounts; see Operator.values."""


@pytest.fixture(scope="package")
def patient(start_cluster: StartCluster) -> Iterator[Patient]:
    """A sound installation with one job that works. Each test breaks one thing, and repairs it."""
    cluster = start_cluster("doctor")
    cluster.add_nodes(2)
    cluster.add_nodes(1, gpus=0, prefix=CPU_NODES)
    cluster.start_prometheus()
    operator = Operator(cluster, values={"admission": {"replicas": 1}, "controller": {"replicas": 1}})
    operator.start(scan_interval="1s")
    folder = operator.certificates
    data = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": CERTIFICATE, "namespace": NAMESPACE},
            "type": "kubernetes.io/tls",
            "data": data,
        }
    )
    jobs = DLJobs(cluster, cluster.create_namespace("doctor"))
    started = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    jobs.create("busy", play={"scenario": BUSY, "started_at": started})
    patient = Patient(operator=operator, jobs=jobs)
    wait_for("all checks to be ok", patient.is_sound)
    yield patient
    cluster.stop()
