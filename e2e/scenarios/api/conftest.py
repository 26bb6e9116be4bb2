from collections.abc import Iterator

import pytest

from e2e.cluster.provider import Cluster
from e2e.operator import Operator
from e2e.scenarios.api.applying import Applier


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    """The chart's objects without its webhook and processes: what holds then holds in the API server itself."""
    Operator(cluster).install()
    cluster.kubectl("delete", "validatingwebhookconfigurations", "--all")
    return cluster


@pytest.fixture
def applier(installed: Cluster) -> Iterator[Applier]:
    """Applies to a namespace of its own; leaves no policy behind."""
    yield Applier(installed, installed.create_namespace("api"))
    installed.kubectl("delete", "utilizationpolicies", "--all")
