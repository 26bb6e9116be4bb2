"""On a real API server: what one tenant writes does not keep another's jobs from being looked at, told of and run."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import Idling
from e2e.scenarios.status.conftest import empty

pytestmark = pytest.mark.e2e

INDEX = "batch.kubernetes.io/job-completion-index"
MERGE = "application/merge-patch+json"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two namespaces of one cluster: a bystander's, and that of whoever makes something odd."""

    operator: Operator
    bystander: Idling
    guilty: Idling


@pytest.fixture
def neighbours(operator: Operator) -> Iterator[Neighbours]:
    """Both are empty; afterwards nothing of them is left, and no policy."""
    cluster = operator.cluster
    operator.ensure_controller()
    bystander, guilty = (Idling(operator, cluster, cluster.create_namespace(name)) for name in ("bystander", "guilty"))
    yield Neighbours(operator, bystander, guilty)
    empty(cluster)


def condition(jobs: Idling, name: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        (one for one in jobs.status(name).get("conditions", []) if one["type"] == kind), {"reason": "", "status": ""}
    )
    return found


def scans(operator: Operator, result: str) -> float:
    return operator.metric("stoker_scan_ticks_total", process=CONTROLLER, result=result)


def wait_for_scans(operator: Operator, number: int = 3) -> None:
    """Until so many more looks at the metrics have succeeded."""
    before = scans(operator, "done")
    wait_for("further looks at the metrics", lambda: scans(operator, "done") >= before + number, timeout=60)


def test_one_pods_annotation_and_quantity_stop_nobodys_scan(neighbours: Neighbours) -> None:
    bystander, guilty, operator = neighbours.bystander, neighbours.guilty, neighbours.operator
    cluster, failed = operator.cluster, scans(operator, "failed")
    bystander.policy("Observe")
    for jobs, name in ((bystander, "rests"), (guilty, "odd")):
        jobs.start(name)
    cluster.backfill()
    (pod,) = guilty.pods("odd")
    path = f"/api/v1/namespaces/{guilty.namespace}/pods"
    cluster.api("PATCH", f"{path}/{pod['metadata']['name']}", {"metadata": {"annotations": {INDEX: "x"}}}, MERGE)
    owners = pod["metadata"]["ownerReferences"]
    for number, (controller, amount) in enumerate([(True, "1k"), (False, "4Ki"), (True, "1e3")]):
        fake = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"odd-fake-{number}",
                "labels": {"stoker.dev/dljob": "odd"},
                "ownerReferences": [{**owners[0], "controller": controller, "blockOwnerDeletion": False}],
            },
            "spec": {
                "containers": [
                    {
                        "name": "x",
                        "image": "registry.example.com/x:1",
                        "resources": {"limits": {"nvidia.com/gpu": amount}},
                    }
                ]
            },
        }
        cluster.api("POST", path, fake)
    wait_for("the bystander's idleness", lambda: condition(bystander, "rests", "Idle")["status"] == "True", timeout=120)
    wait_for_scans(operator)
    assert scans(operator, "failed") == failed


def test_hundreds_of_refused_jobs_hold_up_nobody(neighbours: Neighbours) -> None:
    """A quota refuses their Jobs. A bystander's job is created, suspended and resumed meanwhile."""
    bystander, operator = neighbours.bystander, neighbours.operator
    cluster = operator.cluster
    crowd = Idling(operator, cluster, cluster.create_namespace("crowd"))
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    cluster.api("POST", f"/api/v1/namespaces/{crowd.namespace}/resourcequotas", quota)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: crowd.create(f"refused-{number}", gpusPerNode=1), range(200)))
    wait_for(
        "a refused job's status",
        lambda: condition(crowd, "refused-199", "PodsReady")["reason"] == "JobForbidden",
        timeout=120,
    )
    bystander.start("goes-on", gpus=1)
    for suspended, phase in ((True, "Suspended"), (False, "Running")):
        bystander.patch("goes-on", {"spec": {"suspend": suspended}})
        bystander.wait_phase("goes-on", phase)
    # Room in the quota is told by no watch: a change of the DLJob has it tried at once.
    cluster.api("DELETE", f"/api/v1/namespaces/{crowd.namespace}/resourcequotas/none")
    crowd.annotate("refused-199", note="again")
    wait_for("its Job", lambda: crowd.has("jobs", "refused-199"), timeout=60)
    cluster.api("DELETE", f"/api/v1/namespaces/{crowd.namespace}")


def test_an_invalid_job_is_tried_once(neighbours: Neighbours) -> None:
    """What passes the schema, and the API server finds invalid in a Job: a mount of a volume that is not there."""
    guilty, operator = neighbours.guilty, neighbours.operator
    mount = {"containers": [{"name": "trainer", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]}
    with without_admission(operator):
        guilty.create("invalid", gpusPerNode=1, pod_template=mount)
        wait_for("its end", lambda: guilty.status("invalid").get("phase") == "Failed", timeout=60)
    failed = condition(guilty, "invalid", "Failed")
    assert failed["reason"] == "JobInvalid"
    assert '"data"' in failed["message"]
    assert not guilty.has("jobs", "invalid")


@contextmanager
def without_admission(operator: Operator) -> Iterator[None]:
    """Take the webhook for DLJobs away for a while, as where it is not answering and its failurePolicy is Ignore."""
    cluster = operator.cluster
    names = [one["metadata"]["name"] for one in cluster.api("GET", WEBHOOKS)["items"]]
    kept = [cluster.api("GET", f"{WEBHOOKS}/{name}") for name in names if "stoker" in name]
    for one in kept:
        cluster.api("DELETE", f"{WEBHOOKS}/{one['metadata']['name']}")
    try:
        yield
    finally:
        for one in kept:
            metadata = {name: one["metadata"].get(name) for name in ("name", "labels", "annotations")}
            cluster.api("POST", WEBHOOKS, {**one, "metadata": metadata})
