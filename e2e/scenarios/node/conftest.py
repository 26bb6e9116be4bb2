import os
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.node import NodeCluster
from e2e.installed import InstalledOperator
from e2e.node.machine import obstacle
from e2e.scenarios.lifecycle.workload import DLJobs

UNABLE = obstacle()
"""What this machine lacks that no package brings: root, control groups, namespaces. That is no fault of a change, so
the tests are left out on CI, where no test may be skipped; `python -m e2e binaries` prints the reason. hack/packages.sh
fails on CI for what a package would bring.
"""
if UNABLE and os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="package", autouse=True)
def _able_machine() -> None:
    if UNABLE:
        pytest.skip(UNABLE)


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
