from collections.abc import Iterator

import pytest

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
    """A namespace of its own; what holds GPUs in it is gone before the next test begins."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("status")
    yield SlowJobs(operator, cluster, namespace)
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-A", "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
