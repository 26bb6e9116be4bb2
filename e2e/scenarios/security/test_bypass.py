"""No way of writing a DLJob leads past the review of what would run."""

import json
from typing import Any

import pytest

from e2e.cluster.waiting import wait_for
from e2e.scenarios.admission.submitting import TOO_FEW, dljob
from e2e.scenarios.lifecycle.workload import MERGE
from e2e.scenarios.security.people import DLJOBS, Person

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
WRONG = dljob("wrong", TOO_FEW)


@pytest.mark.parametrize(
    "method, path, content_type",
    [
        ("POST", DLJOBS, JSON),
        ("POST", f"{DLJOBS}?dryRun=All", JSON),
        ("POST", f"{DLJOBS}?fieldManager=argocd&fieldValidation=Ignore&pretty=true", JSON),
        ("PATCH", f"{DLJOBS}/wrong?fieldManager=kubectl&force=true", APPLY),
        ("PATCH", f"{DLJOBS}/wrong?fieldManager=argocd&force=true&dryRun=All", APPLY),
    ],
)
def test_a_wrong_job_is_refused_however_it_is_created(
    tenant: Person, method: str, path: str, content_type: str
) -> None:
    said = tenant.refusal(method, path, WRONG, content_type)
    assert said.status == 422
    assert "launcher-too-few" in said.message
    assert not tenant.jobs.has("dljobs", "wrong")


@pytest.mark.parametrize(
    "path", ["/apis/stoker.dev/v1/namespaces/{}/dljobs", "/apis/stoker.dev/v1alpha1/namespaces//{}/dljobs"]
)
def test_no_other_version_and_no_other_spelling_of_the_address_creates_one(tenant: Person, path: str) -> None:
    said = tenant.refusal("POST", path, WRONG)
    assert said.status in {403, 404}
    assert not tenant.jobs.has("dljobs", "wrong")


def test_a_generated_name_annotations_and_finalizers_change_no_verdict(tenant: Person) -> None:
    metadata: dict[str, Any] = {
        "generateName": "wrong-",
        "annotations": {
            "stoker.dev/skip": "true",
            "stoker.dev/ignore": "launcher-too-few",
            "admission.stoker.dev/ignore": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "labels": {"stoker.dev/skip": "true", "control-plane": "controller-manager"},
        "finalizers": ["example.com/keep"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "0" * 36}],
    }
    assert "launcher-too-few" in tenant.refusal("POST", DLJOBS, WRONG | {"metadata": metadata}).message


@pytest.mark.parametrize("path", [f"{DLJOBS}/right", f"{DLJOBS}/right/status", f"{DLJOBS}/right/scale"])
def test_what_runs_can_not_be_exchanged_after_the_review(tenant: Person, path: str) -> None:
    """Not while it is suspended either, and by no subresource."""
    tenant.request("POST", DLJOBS, dljob("right", suspend=True))
    tenant.jobs.wait_phase("right", "Suspended")
    change = {"spec": {"script": TOO_FEW}}
    assert tenant.refusal("PATCH", path, change, MERGE).status in {403, 404, 422}
    applied = dljob("right", TOO_FEW, suspend=True)
    assert tenant.refusal("PATCH", f"{path}?fieldManager=other&force=true", applied, APPLY).status in {403, 404, 422}
    assert tenant.jobs.get("right")["spec"]["script"] != TOO_FEW


def test_a_job_that_is_being_deleted_is_not_started(tenant: Person) -> None:
    """The webhook is not asked about what is being deleted: neither does it run."""
    body = dljob("ending", suspend=True)
    body["metadata"]["finalizers"] = ["example.com/keep"]
    tenant.request("POST", DLJOBS, body)
    tenant.jobs.wait_phase("ending", "Suspended")
    tenant.request("DELETE", f"{DLJOBS}/ending")
    tenant.request("PATCH", f"{DLJOBS}/ending", {"spec": {"suspend": False}}, MERGE)
    tenant.jobs.settled("ending")
    # The queue takes each in its turn: when a later one runs, this one has been passed over.
    tenant.request("POST", DLJOBS, dljob("later"))
    tenant.jobs.wait_phase("later", "Running")
    assert not tenant.jobs.has("jobs", "ending")
    tenant.request("PATCH", f"{DLJOBS}/ending", {"metadata": {"finalizers": None}}, MERGE)
    wait_for("it to go", lambda: not tenant.jobs.has("dljobs", "ending"))


def test_created_and_deleted_again_and_again_a_name_never_carries_a_verdict_over(tenant: Person) -> None:
    right, wrong = dljob("same"), dljob("same", TOO_FEW)
    for _ in range(5):
        tenant.request("POST", DLJOBS, right)
        tenant.request("DELETE", f"{DLJOBS}/same", {"propagationPolicy": "Background"})
        wait_for("it to go", lambda: not tenant.jobs.has("dljobs", "same"))
        assert "launcher-too-few" in tenant.refusal("POST", DLJOBS, wrong).message


def test_kubectl_is_refused_by_every_verb(tenant: Person) -> None:
    written = json.dumps(WRONG)
    for command in (
        ("create",),
        ("apply",),
        ("apply", "--server-side", "--field-manager=other"),
        ("replace", "--force"),
    ):
        done = tenant.kubectl(*command, "-f", "-", manifest=written)
        assert "launcher-too-few" in done.stderr, (command, done.stderr)
