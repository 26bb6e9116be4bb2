from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import Operator


@pytest.fixture(scope="package")
def cluster(start_cluster: StartCluster) -> Iterator[Cluster]:
    """A cluster of its own with the operator; its nodes come with the jobs, and Prometheus with their past."""
    cluster = start_cluster("diagnosis")
    Operator(cluster).start()
    yield cluster
    cluster.stop()
