from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.kueue.queues import QUEUE, Kueue
from e2e.scenarios.reclaim.idling import BUSY, Idling


@pytest.fixture(scope="package")
def kueue(start_cluster: StartCluster) -> Iterator[Kueue]:
    """Kueue in a cluster of its own."""
    cluster = start_cluster("kueue")
    cluster.add_nodes(4)
    kueue = Kueue(cluster)
    kueue.start()
    yield kueue
    cluster.stop()


@pytest.fixture(scope="package")
def operator(kueue: Kueue) -> Operator:
    """Everything of Stoker in that cluster."""
    kueue.cluster.start_prometheus()
    operator = Operator(kueue.cluster)
    operator.install()
    operator.start_admission()
    operator.start_controller(scan_interval="1s", minimum_warning_grace="1m")
    return operator


def managed(operator: Operator, kueue: Kueue) -> Idling:
    """A namespace of its own, all of whose Jobs are Kueue's."""
    namespace = operator.cluster.create_namespace("queued")
    kueue.open(namespace)
    return Idling(operator, operator.cluster, namespace)


@pytest.fixture
def jobs(operator: Operator, kueue: Kueue) -> Iterator[Idling]:
    """Nothing of them that holds GPUs is left after the test."""
    jobs = managed(operator, kueue)
    yield jobs
    jobs.cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-n", jobs.namespace, "--force", "--grace-period=0")
    jobs.cluster.api("DELETE", f"/api/v1/namespaces/{jobs.namespace}")


@pytest.fixture(scope="package", autouse=True)
def warned(operator: Operator, kueue: Kueue) -> Idling:
    """Two idle jobs, one in a queue by its label and one by its namespace's default queue; and one that works. They are
    warned before the first test, and the others run while their grace does.
    """
    jobs = managed(operator, kueue)
    jobs.begin("labelled", nodes=2, labels=QUEUE, grace=3600)
    jobs.begin("unlabelled")
    jobs.begin("busy", BUSY, labels=QUEUE)
    for name in ("labelled", "unlabelled", "busy"):
        jobs.wait_phase(name, "Running")
    jobs.remember()
    jobs.policy()
    jobs.wait_warned("labelled", "unlabelled")
    return jobs
