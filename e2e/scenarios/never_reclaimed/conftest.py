from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.never_reclaimed.cast import ALONE, SESSIONS, Cast


@pytest.fixture(scope="package")
def cast(start_cluster: StartCluster) -> Iterator[Cast]:
    """All jobs in one cluster, after the twins among them were reclaimed."""
    cluster = start_cluster("never")
    cluster.add_nodes(5)
    cluster.add_nodes(1, prefix="alone", labels={ALONE.key: "yes"}, taints=[ALONE])
    cluster.start_prometheus()
    operator = Operator(cluster, values=SESSIONS)
    operator.start(scan_interval="1s", minimum_warning_grace="1m")
    cast = Cast(operator)
    cast.enter()
    cast.judge()
    yield cast
    cluster.stop()
