from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import ADMISSION, CONTROLLER, Operator
from e2e.scenarios.lifecycle.workload import POLICIES
from e2e.scenarios.status.observer import Observer
from e2e.scenarios.status.slow_jobs import SlowJobs


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """Everything, on eight nodes of eight GPUs each; a look at the metrics each second."""
    cluster = start_cluster("status")
    cluster.add_nodes(8)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.start(scan_interval="1s")
    yield operator
    cluster.stop()


@pytest.fixture(scope="package")
def observer(operator: Operator) -> Observer:
    """A Prometheus that scrapes both processes."""
    return Observer.start(operator.cluster, operator.metrics_address(CONTROLLER), operator.metrics_address(ADMISSION))


@pytest.fixture
def jobs(operator: Operator) -> Iterator[SlowJobs]:
    """A namespace of its own, and a controller that runs, whatever the test before has left."""
    cluster = operator.cluster
    operator.ensure_controller()
    yield SlowJobs(operator, cluster, cluster.create_namespace("status"))
    empty(cluster)


def empty(cluster: Cluster) -> None:
    """Delete all policies, all jobs and whatever holds GPUs, and return when they are gone: the next test's metrics
    would have them. Not by kubectl, which waits for one of hundreds after the other.
    """
    cluster.api("DELETE", POLICIES)

    def gone() -> bool:
        left = [
            (f"{api}/namespaces/{one['metadata']['namespace']}/{plural}", one["metadata"]["name"])
            for api, plural in (
                ("/apis/stoker.dev/v1alpha1", "dljobs"),
                ("/apis/batch/v1", "jobs"),
                ("/api/v1", "pods"),
            )
            for one in cluster.api("GET", f"{api}/{plural}")["items"]
        ]
        for path in {path for path, _ in left}:
            cluster.api("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        assert not left, left
        return True

    wait_for("all jobs and pods to be gone", gone, interval=0.2)
