"""The chart grants what e2e/permissions.yaml lists and nothing else. The tests that the file names show that each of
these permissions is used (e2e/conftest.py).
"""

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.local import LocalCluster
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import CHART, NAMESPACE, Operator, answers
from e2e.permissions import PERMISSIONS, Permission, granted, listed, unused, used
from e2e.scenarios.api.applying import Applier
from e2e.scenarios.api.test_chart import OWNER, job

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
KINDS = SCHEMA["properties"]["workloads"]["properties"]["kinds"]["items"]["enum"]
EVERYTHING: dict[str, Any] = {
    "admission": {"sessionWebhook": {"enabled": True, "trustNetwork": True}},
    "controller": {"readLogs": True},
    "workloads": {"kinds": KINDS},
}
"""The values that switch on what is off by default and needs permissions."""


def permissions(cluster: Cluster, values: dict[str, Any] | None = None) -> set[Permission]:
    documents = yaml.safe_load_all(cluster.helm_template(CHART, namespace=NAMESPACE, values=values))
    return granted(one for one in documents if one)


def test_the_chart_grants_what_is_listed_and_nothing_else(installed: Cluster) -> None:
    assert permissions(installed, EVERYTHING) == set(listed())


def test_what_a_value_switches_on_is_not_granted_without_it(installed: Cluster) -> None:
    optional = {
        (account, entry["resource"], verb)
        for account, entries in yaml.safe_load(PERMISSIONS.read_text()).items()
        for entry in entries
        if "value" in entry
        for verb in entry["verbs"]
    }
    values = {"metrics": {"authentication": False}, "tests": {"enabled": False}}
    assert {(one.account, one.resource, one.verb) for one in permissions(installed, values)} & optional == set()


def test_a_namespaced_release_has_no_other_permissions(installed: Cluster) -> None:
    """Nobody may list the pods of other namespaces, so nobody asks for the volumes of those that wait."""
    volumes = {one for one in listed() if one.resource.startswith("persistentvolume")}
    assert permissions(installed, EVERYTHING | {"watchNamespaces": ["a", "b"]}) == set(listed()) - volumes


def test_with_cert_manager_nobody_may_touch_secrets_or_webhooks(installed: Cluster) -> None:
    """It writes the certificate, and its injector the webhook's authority."""
    values = EVERYTHING | {"admission": {**EVERYTHING["admission"], "certificate": {"certManager": {"enabled": True}}}}
    left = {one for one in listed() if one.account != "stoker-certificates"}
    assert permissions(installed, values) == left


REPORT = Permission(account="stoker-report", verb="list", resource="dljobs.stoker.dev")


@pytest.mark.parametrize("watched", [[], ["a", "b"]])
def test_the_report_may_list_dljobs_and_nothing_else(installed: Cluster, watched: list[str]) -> None:
    """Of a release that is restricted to namespaces in these alone."""
    values = {"report": {"enabled": True}, "watchNamespaces": watched}
    assert {one for one in permissions(installed, values) if one.account == REPORT.account} == {REPORT}
    documents = yaml.safe_load_all(installed.helm_template(CHART, namespace=NAMESPACE, values=values))
    roles = [
        one for one in documents if one and one["kind"].endswith("Role") and one["metadata"]["name"] == REPORT.account
    ]
    assert [one["metadata"].get("namespace", "") for one in roles] == (watched or [""])


@pytest.mark.parametrize(
    "values",
    [
        EVERYTHING,
        EVERYTHING | {"watchNamespaces": ["a"]},
        {"admission": {"certificate": {"certManager": {"enabled": True}}}, "report": {"enabled": True}},
    ],
    ids=["everything", "namespaces", "cert-manager and report"],
)
def test_no_account_may_do_what_leads_to_more(installed: Cluster, values: dict[str, Any]) -> None:
    """No wildcard, no right to grant rights or to be somebody else, no way into pods, no Secret but the webhook's."""
    for one in permissions(installed, values):
        assert "*" not in one.verb + one.resource
        assert one.verb not in {"escalate", "bind", "impersonate", "deletecollection", "approve", "sign"}, one
        assert one.resource not in {"pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "configmaps"}, one
        assert not one.resource.startswith("serviceaccounts"), one
        assert not one.resource.endswith("rbac.authorization.k8s.io"), one
        assert one.resource != "secrets" or (one.name, one.verb) in {
            ("stoker-admission-tls", "get"),
            ("stoker-admission-tls", "update"),
        }, one


def test_every_test_that_is_named_exists() -> None:
    root = Path(__file__).parents[3]
    for node in filter(None, listed().values()):
        path, _, name = node.partition("::")
        assert f"def {name}(" in (root / path).read_text(), node


class StrictCluster(LocalCluster):
    """As OpenShift has it: whose ownerReference blocks a deletion must be allowed to change the owner's finalizers."""

    def _api_server_options(self) -> list[str]:
        return ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]


def test_a_job_that_blocks_its_owners_deletion_needs_the_right_to_its_finalizers() -> None:
    with StrictCluster("strict") as cluster:
        Operator(cluster).install()
        applier = Applier(cluster, cluster.create_namespace("strict"))
        applier.run("create", "serviceaccount", "somebody")
        applier.run("create", "role", "jobs", "--verb=create", "--resource=jobs.batch")
        applier.run("create", "rolebinding", "jobs", "--role=jobs", f"--serviceaccount={applier.namespace}:somebody")
        somebody = cluster.service_account_kubeconfig(applier.namespace, "somebody")
        controller = cluster.service_account_kubeconfig(NAMESPACE, "stoker-controller")

        def created(kubeconfig: Path) -> str:
            create = ("create", "-f", "-", "--dry-run=server")
            return applier.run(*create, manifest=job(OWNER), kubeconfig=kubeconfig).stderr

        # The API server learns of new kinds every 30 s.
        wait_for("the kind to be known", lambda: created(controller) == "", timeout=60)
        assert "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't" in created(somebody)


@pytest.fixture
def own_certificate(installed: Cluster) -> Iterator[Cluster]:
    """The release keeps its certificate itself, by the chart's command."""
    operator = Operator(installed, values={"admission": {"certificate": {"existingSecret": ""}, "caBundle": ""}})
    operator.install()
    documents = list(yaml.safe_load_all(installed.helm_template(CHART, namespace=NAMESPACE)))
    [arguments] = [
        one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in documents
        if one and one["kind"] == "Deployment" and one["metadata"]["name"] == "stoker-certificates"
    ]
    health = installed.reserve_port()
    installed.start_process(
        "certificates",
        [
            *(sys.executable, "-m", "stoker"),
            *(one.replace("$(POD_NAMESPACE)", NAMESPACE) for one in arguments),
            f"--health-port={health}",
        ],
        env={"KUBECONFIG": str(installed.service_account_kubeconfig(NAMESPACE, "stoker-certificates"))},
        ready=lambda: answers(f"http://127.0.0.1:{health}/readyz"),
    )
    yield installed
    installed.kill("certificates", 15)
    # Helm applies on the server's side, and would not overwrite the bundle that another manager has set.
    installed.kubectl("delete", "validatingwebhookconfigurations", "--all")
    Operator(installed).install()
    installed.kubectl("delete", "validatingwebhookconfigurations", "--all")


def test_the_certificates_process_uses_its_four_permissions(own_certificate: Cluster) -> None:
    secret = own_certificate.api("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/stoker-admission-tls")
    assert base64.b64decode(secret["data"]["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE")


def test_a_permission_that_nobody_needs_is_found(own_certificate: Cluster) -> None:
    surplus = Permission(account="stoker-certificates", verb="delete", resource="secrets", name="stoker-admission-tls")
    assert unused([*listed(), surplus], used(own_certificate.audit_log))[-1] == surplus
