from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import ADMISSION, CONTROLLER, Operator
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
    """Delete all jobs, whatever holds GPUs and all policies, and return when they are gone: they would be seen in the
    next test's metrics.
    """
    cluster.kubectl("delete", "dljobs,jobs,pods,utilizationpolicies", "--all", "-A", "--force", "--grace-period=0")
