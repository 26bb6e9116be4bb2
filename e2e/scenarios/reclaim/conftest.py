"""Reclaim on a real control plane and a real Prometheus: what must never happen, and what must."""

from collections.abc import Iterator

import pytest

from e2e.change_recorder import ChangeRecorder
from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.reclaim.play import UNWANTED, WANTED, Play


@pytest.fixture(scope="module")
def play(start_cluster: StartCluster) -> Iterator[Play]:
    """The play, all of it, with the controller behind the proxy that stands in front of Prometheus."""
    cluster = start_cluster("reclaim")
    cluster.add_nodes(24)
    for product, prefix in ((WANTED, "wanted"), (UNWANTED, "unwanted")):
        cluster.add_nodes(1, gpus=2, product=product, prefix=prefix)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    with ChangeRecorder(cluster) as recorder:
        play = Play(operator, recorder)
        play.start()
        play.rehearse()
        cluster.backfill()
        play.warn()
        play.act()
        play.restart()
        yield play
    cluster.stop()
