from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.kueue.queue import MANAGED, Kueue
from e2e.scenarios.reclaim.idling import Idling


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """Everything, in a cluster that knows Workloads."""
    cluster = start_cluster("kueue")
    cluster.add_nodes(4)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    operator.start_admission()
    operator.start_controller(scan_interval="1s", minimum_warning_grace="10s")
    yield operator
    cluster.stop()


@pytest.fixture
def kueue(operator: Operator) -> Iterator[Kueue]:
    """Nobody but Kueue starts or suspends the Jobs that it manages."""
    with Kueue(operator.cluster) as kueue:
        yield kueue
    assert not kueue.meddled


@pytest.fixture
def jobs(operator: Operator, kueue: Kueue) -> Iterator[Idling]:
    """A namespace of its own, all of whose Jobs are Kueue's; nothing that holds GPUs is left after the test."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("queued", MANAGED)
    wait_for("Jobs to be created suspended", lambda: kueue.suspends(namespace))
    yield Idling(operator, cluster, namespace)
    cluster.kubectl("delete", "utilizationpolicies", "--all")
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-n", namespace, "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
