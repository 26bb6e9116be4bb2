"""A workload is stopped by the outermost object's own field; below it a hand is corrected, and costs the pods."""

from collections.abc import Iterator
from functools import partial

import pytest

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.counterparts.controller import start
from e2e.scenarios.counterparts import workloads
from e2e.scenarios.counterparts.workloads import MERGE, Kind, Workload

KINDS = (workloads.JOBSET, workloads.TRAINJOB, workloads.MPIJOB, workloads.LWS)
WITH_INNER = [kind for kind in KINDS if kind.inner]


@pytest.fixture(scope="module")
def controlled(start_cluster: StartCluster) -> Iterator[Cluster]:
    """A cluster with the controllers of all the kinds."""
    cluster = start_cluster("counterparts")
    cluster.add_nodes(2)
    start(cluster, *dict.fromkeys(one for kind in KINDS for one in kind.controllers))
    yield cluster
    cluster.stop()


@pytest.fixture
def workload(controlled: Cluster, request: pytest.FixtureRequest) -> Iterator[Workload]:
    """A workload of a kind, its pods running."""
    namespace = controlled.create_namespace("kinds")
    one = Workload(controlled, request.param, namespace, "example")
    one.create()
    yield one
    one.delete()
    controlled.api("DELETE", f"/api/v1/namespaces/{namespace}")


def named(kind: Kind) -> str:
    return kind.name


@pytest.mark.parametrize("workload", KINDS, ids=named, indirect=True)
def test_its_own_field_stops_it_and_starts_it_again(workload: Workload) -> None:
    """It says that it is stopped while its pods still end."""
    before = workload.wait_running()
    workload.patch(workload.kind.stop)
    wait_for("its pods to be ending", workload.ending)
    wait_for("its condition", workload.is_said)
    assert workload.ending() & before, "none of them has ended yet"
    wait_for("its pods to have ended", workload.has_no_pods)
    workload.settled()
    assert not workload.pods()
    workload.patch(workload.kind.start)
    workload.wait_running(without=before)


@pytest.mark.parametrize("workload", WITH_INNER, ids=named, indirect=True)
def test_an_object_below_it_that_is_stopped_by_hand_is_started_again_and_the_pods_are_lost(workload: Workload) -> None:
    for path, field in workload.inner().items():
        before = workload.wait_running()
        own = workload.cluster.api("GET", path)["spec"].get(field)
        workload.cluster.api("PATCH", path, {"spec": {field: 0 if field == "replicas" else True}}, MERGE)

        def reverted(path: str = path, field: str = field, own: object = own) -> bool:
            assert workload.cluster.api("GET", path)["spec"].get(field) == own
            return True

        wait_for("the field to have its value again", reverted)
        lost = wait_for("pods to be ending", workload.ending)
        assert lost <= before
        wait_for("other pods to run in their place", partial(workload.replaced, lost), timeout=60)
