from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart, admission and the controller under their ServiceAccounts, on two nodes of eight GPUs each."""
    cluster = start_cluster("policies")
    cluster.add_nodes(2)
    operator = Operator(cluster)
    operator.start(scan_interval="1h")
    yield operator
    cluster.stop()


@pytest.fixture
def jobs(operator: Operator) -> Iterator[DLJobs]:
    """A namespace of its own; afterwards no policy and nothing that holds GPUs is left."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("policies")
    yield DLJobs(cluster, namespace)
    cluster.kubectl("delete", "utilizationpolicies", "--all")
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-n", namespace, "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
