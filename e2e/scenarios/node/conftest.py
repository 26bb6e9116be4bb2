from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.node import NodeCluster
from e2e.installed import InstalledOperator
from e2e.node.machine import obstacle
from e2e.scenarios.lifecycle.workload import DLJobs


@pytest.fixture(scope="package", autouse=True)
def _able_machine() -> None:
    """What a machine lacks that no package brings (root, control groups, namespaces) is no fault of a change: even on
    CI these tests are skipped then. hack/packages.sh fails there for what a package would bring.
    """
    if reason := obstacle():
        pytest.skip(reason)


@pytest.fixture(scope="package")
def operator(_able_machine: None, report: Callable[[str], object]) -> Iterator[InstalledOperator]:
    """The chart on a real node with eight GPUs, which only count."""
    with NodeCluster("real", report=report) as cluster:
        cluster.start_prometheus()
        cluster.import_python()
        operator = InstalledOperator(cluster)
        operator.start()
        cluster.start_device_plugin()
        yield operator


@pytest.fixture
def jobs(operator: InstalledOperator) -> Iterator[DLJobs]:
    """A namespace of its own."""
    namespace = operator.cluster.create_namespace("real")
    yield DLJobs(operator.cluster, namespace)
    operator.cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")
