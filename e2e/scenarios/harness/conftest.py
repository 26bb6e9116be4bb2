"""What the tests of the harness itself share."""

import pytest

from e2e.cluster.provider import Cluster
from e2e.scenarios.harness.jobs import Jobs


@pytest.fixture
def jobs(cluster: Cluster, namespace: str) -> Jobs:
    """Creates Jobs of plain Kubernetes in the test's namespace."""
    return Jobs(cluster, namespace)
