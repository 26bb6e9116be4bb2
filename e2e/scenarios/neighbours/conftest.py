from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.reclaim.idling import Idling


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two namespaces of one cluster: a bystander's, and that of whoever makes something odd."""

    operator: Operator
    bystander: Idling
    guilty: Idling


@pytest.fixture(scope="package")
def neighbours(start_cluster: StartCluster) -> Iterator[Neighbours]:
    """The chart, admission, the controller, which looks at the metrics each second, and a Prometheus."""
    cluster = start_cluster("neighbours")
    cluster.add_nodes(4)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.start(scan_interval="1s")
    bystander, guilty = (Idling(operator, cluster, cluster.create_namespace(name)) for name in ("bystander", "guilty"))
    yield Neighbours(operator, bystander, guilty)
    cluster.stop()
