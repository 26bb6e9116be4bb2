import json
from collections.abc import Iterator

import pytest

from e2e.conftest import StartCluster
from e2e.operator import CHART, Operator
from e2e.scenarios.workloads.owners import Owners
from e2e.scenarios.workloads.watched import Watched, policy

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
KINDS = SCHEMA["properties"]["workloads"]["properties"]["kinds"]["items"]["enum"]


@pytest.fixture(scope="package")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart with every kind enabled, the controller under its ServiceAccount, and Prometheus."""
    cluster = start_cluster("workloads")
    cluster.add_nodes(6)
    Owners(cluster, "default").define()
    cluster.start_prometheus()
    operator = Operator(cluster, values={"workloads": {"kinds": KINDS}})
    operator.start(scan_interval="1s", options=["--watch-workloads"])
    yield operator
    cluster.stop()


@pytest.fixture
def watched(operator: Operator) -> Iterator[Watched]:
    """A namespace in which all kinds are watched."""
    cluster = operator.cluster
    namespace = cluster.create_namespace("watched")
    cluster.apply(policy(namespace, ["*"]))
    yield Watched(operator, namespace)
    cluster.kubectl("delete", "utilizationpolicies", "--all")
    cluster.kubectl(
        "delete", "jobs,deployments,statefulsets,pods", "--all", "-n", namespace, "--force", "--grace-period=0"
    )
