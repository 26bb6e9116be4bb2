from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import DLJobs, dljobs_of_their_own


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
    with dljobs_of_their_own(operator.cluster, "policies") as jobs:
        yield jobs
        operator.cluster.kubectl("delete", "utilizationpolicies", "--all")
