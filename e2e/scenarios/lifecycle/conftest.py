from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import POLICIES, DLJobs, dljobs_of_their_own


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
    """A namespace of its own, and a controller that runs, whatever the test before has left. Afterwards no policy and
    nothing that holds GPUs is left.
    """
    operator.ensure_controller()
    with dljobs_of_their_own(operator.cluster, "life") as jobs:
        yield jobs
        operator.cluster.api("DELETE", POLICIES)
