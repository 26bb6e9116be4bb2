from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import dljobs_of_their_own
from e2e.scenarios.security.people import EVERYTHING, Person, person

PASSWORD = "hunter2-prometheus"


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart and both processes under their accounts; they log all that they can, and Prometheus is not there."""
    cluster = start_cluster("security")
    cluster.add_nodes(1)
    everything = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": EVERYTHING}
    cluster.apply(everything | {"metadata": {"name": "everything"}})
    password = cluster.folder / "password"
    password.write_text(PASSWORD)
    operator = Operator(cluster, log_level="debug")
    operator.install()
    operator.start_admission()
    operator.start_controller(
        options=["--prometheus-username=stoker", f"--prometheus-password-file={password}"], scan_interval="2s"
    )
    yield operator
    cluster.stop()


@pytest.fixture
def namespace(operator: Operator) -> Iterator[str]:
    """A namespace of its own."""
    with dljobs_of_their_own(operator.cluster, "tenant") as jobs:
        yield jobs.namespace


@pytest.fixture
def tenant(operator: Operator, namespace: str) -> Person:
    """Somebody with the built-in role `edit` there, and nothing else."""
    return person(operator.cluster, namespace, "tenant", "edit")


@pytest.fixture
def owner(operator: Operator, namespace: str) -> Person:
    """Somebody whose role there covers all resources, as some clusters give it to the owner of a namespace."""
    return person(operator.cluster, namespace, "owner", "everything")
