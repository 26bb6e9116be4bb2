"""Reclaim on a real control plane and a real Prometheus: what must never happen, and what must."""

from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.reclaim.idling import Idling
from e2e.scenarios.reclaim.play import UNWANTED, WANTED, Play
from e2e.witness import Witness


@pytest.fixture(scope="package")
def play(start_cluster: StartCluster) -> Iterator[Play]:
    """The play, all of it, with the controller behind the proxy that stands in front of Prometheus."""
    cluster = start_cluster("reclaim")
    cluster.add_nodes(24)
    for product, prefix in ((WANTED, "wanted"), (UNWANTED, "unwanted")):
        cluster.add_nodes(1, gpus=2, product=product, prefix=prefix)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    with Witness(cluster) as witness:
        play = Play(operator, witness)
        play.start()
        play.rehearse()
        cluster.backfill()
        play.warn()
        play.act()
        play.restart()
        yield play
    cluster.stop()


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """Everything, with the controller behind the proxy that stands in front of Prometheus."""
    cluster = start_cluster("idling")
    cluster.add_nodes(8)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.start(prometheus_url=cluster.start_prometheus_proxy(), scan_interval="1s", minimum_warning_grace="10s")
    yield operator
    cluster.stop()


@pytest.fixture
def idling(operator: Operator) -> Iterator[Idling]:
    """A namespace of its own; afterwards no policy, no fault and nothing that holds GPUs is left."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("reclaim")
    yield Idling(operator, cluster, namespace)
    cluster.set_prometheus_fault("none")
    cluster.kubectl("delete", "utilizationpolicies", "--all")
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-A", "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
