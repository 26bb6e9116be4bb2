"""What the chart's and the built-in roles let people do, and who writes a DLJob's status."""

import pytest

from e2e.cluster.provider import Cluster
from e2e.operator import Operator
from e2e.scenarios.lifecycle.workload import MERGE
from e2e.scenarios.security.people import DLJOBS, Person, person

FORGED = {"status": {"phase": "Succeeded", "utilization": {"gpuHours": "1e308"}}}


def test_edit_creates_jobs_and_writes_neither_their_status_nor_policies_nor_the_namespace(tenant: Person) -> None:
    tenant.jobs.create("bert")
    forged = tenant.refusal("PATCH", f"{DLJOBS}/bert/status", FORGED, MERGE)
    assert (forged.status, forged.reason) == (403, "Forbidden")
    policy = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": "mine"},
        "spec": {},
    }
    assert tenant.refusal("POST", "/apis/stoker.dev/v1alpha1/utilizationpolicies", policy).status == 403
    labels = {"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}}
    assert tenant.refusal("PATCH", "/api/v1/namespaces/{}", labels, MERGE).status == 403


def test_view_reads_and_writes_nothing(operator: Operator, tenant: Person) -> None:
    tenant.jobs.create("bert")
    viewer = person(operator.cluster, tenant.namespace, "viewer", "view")
    assert viewer.request("GET", f"{DLJOBS}/bert")["metadata"]["name"] == "bert"
    for verb in ("create", "update", "patch", "delete", "deletecollection"):
        assert not viewer.may(verb, "dljobs.stoker.dev"), verb
    assert viewer.refusal("PATCH", f"{DLJOBS}/bert", {"spec": {"suspend": True}}, MERGE).status == 403


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_not_even_a_role_of_all_resources_writes_the_status(owner: Person, method: str) -> None:
    owner.jobs.create("bert")
    owner.jobs.wait_phase("bert", "Running")
    assert owner.may("update", "dljobs.stoker.dev", "status"), "RBAC lets them"
    whole = owner.jobs.get("bert") | FORGED
    body, kind = (FORGED, MERGE) if method == "PATCH" else (whole, "application/json")
    said = owner.refusal(method, f"{DLJOBS}/bert/status", body, kind)
    assert said.status == 403
    assert "may not write the status of a DLJob: only the operator does" in said.message
    assert owner.jobs.status("bert")["phase"] == "Running"


def test_what_an_administrator_writes_into_the_status_of_a_running_job_does_not_stay(owner: Person) -> None:
    """Somebody who may change policies may write it, as who restores a backup does. What the controller sees is so."""
    jobs = owner.jobs
    jobs.create("bert")
    jobs.wait_phase("bert", "Running")
    jobs.cluster.api("PATCH", f"{DLJOBS.format(jobs.namespace)}/bert/status", FORGED, MERGE)
    status = jobs.wait_phase("bert", "Running")
    assert status.get("completionTime") is None


def hours(operator: Operator, namespace: str) -> float:
    return operator.metric("stoker_gpu_hours_total", process="stoker-controller", namespace=namespace, state="unknown")


def test_no_figure_in_a_status_makes_the_clusters_sums_infinite(operator: Operator, owner: Person) -> None:
    jobs = owner.jobs
    jobs.create("bert")
    jobs.wait_phase("bert", "Running")
    jobs.cluster.api("PATCH", f"{DLJOBS.format(jobs.namespace)}/bert/status", FORGED, MERGE)
    jobs.wait_phase("bert", "Running")
    assert 0 <= hours(operator, jobs.namespace) <= 8 * 87_660


def test_the_status_of_a_job_changes_nothing_of_its_spec(owner: Person) -> None:
    """Kubectl replace --subresource=status, by somebody who may: the API server takes the status alone."""
    cluster: Cluster = owner.cluster
    owner.jobs.create("bert", suspend=True)
    owner.jobs.wait_phase("bert", "Suspended")
    whole = owner.jobs.get("bert")
    whole["spec"] |= {"script": "torchrun --nproc_per_node=4 train.py", "suspend": False}
    cluster.api("PUT", f"{DLJOBS.format(owner.namespace)}/bert/status", whole)
    after = owner.jobs.get("bert")["spec"]
    assert (after["script"], after["suspend"]) == ("torchrun train.py", True)
    assert owner.refusal("GET", f"{DLJOBS}/bert/scale").status == 404
