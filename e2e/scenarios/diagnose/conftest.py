from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.diagnose.story import Story, begin


@pytest.fixture(scope="package")
def story(start_cluster: StartCluster) -> Iterator[Story]:
    cluster = start_cluster("diagnose")
    cluster.add_nodes(6)  # three jobs of a whole node each, and three pods of one GPU, which may be spread
    operator = Operator(cluster, values={"controller": {"readLogs": True}})
    operator.start(scan_interval="1s")
    yield begin(operator)  # starts Prometheus on the history: a counter scraped before would jump where that begins
    cluster.stop()
