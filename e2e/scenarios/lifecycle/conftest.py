from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart, admission and the controller under their ServiceAccounts, on four nodes of eight GPUs each."""
    cluster = start_cluster("lifecycle")
    cluster.add_nodes(4)
    operator = Operator(cluster)
    operator.start(scan_interval="1h")
    yield operator
    cluster.stop()


@pytest.fixture
def jobs(operator: Operator) -> Iterator[DLJobs]:
    """A namespace of its own; what holds GPUs in it is gone before the next test begins."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("life")
    yield DLJobs(cluster, namespace)
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-n", namespace, "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
