from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.api.applying import Applier


@pytest.fixture(scope="package")
def installed(start_cluster: StartCluster) -> Iterator[Cluster]:
    """A cluster of its own with the chart's objects but no webhook: what holds then holds in the API server itself."""
    cluster = start_cluster("api")
    Operator(cluster).install()
    cluster.kubectl("delete", "validatingwebhookconfigurations", "--all")
    yield cluster
    cluster.stop()


@pytest.fixture
def applier(installed: Cluster) -> Iterator[Applier]:
    """Applies to a namespace of its own; leaves no policy behind."""
    yield Applier(installed, installed.create_namespace("api"))
    installed.kubectl("delete", "utilizationpolicies", "--all")
