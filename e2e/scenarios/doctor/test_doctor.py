"""Each check is green on a sound installation (the fixture waits for that), and red when what it looks at is broken."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import yaml

from e2e.clock import off_by
from e2e.cluster.waiting import wait_for
from e2e.operator import ADMISSION, CHART, CONTROLLER, NAMESPACE, SERVICE
from e2e.scenarios.doctor.conftest import CERTIFICATE, CPU_NODES
from e2e.scenarios.doctor.patient import ALL, Patient
from stoker.adapters.certificates import issue

RBAC = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stoker-controller"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/utilizationpolicies.stoker.dev"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/stoker-admission"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/stoker-controller"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{CERTIFICATE}"
POLICIES = "/apis/stoker.dev/v1alpha1/utilizationpolicies"
WORKS_UNSEEN = "phases: [{util: 91, memory: 70%, engine: 0}]"
NOT_EXPORTED = "phases: [{util: 91, export: nothing}]"


def test_a_sound_installation_is_ok_throughout(patient: Patient) -> None:
    done = patient.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{len(ALL)} ok."


def test_a_cluster_that_does_not_answer(patient: Patient, tmp_path: Any) -> None:
    config = yaml.safe_load(patient.cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(yaml.safe_dump(config))
    found = patient.examine(kubeconfig=nowhere)
    assert found["api-server"]["status"] == "Failed"
    assert {found[name]["status"] for name in ("crds", "leader", "webhook-answers", "policies")} == {"NotChecked"}
    assert found["prometheus"]["status"] == "Ok"


def test_clocks_that_differ(patient: Patient) -> None:
    found = patient.examine(env=off_by(2))
    assert {name: found[name]["status"] for name in ("api-clock", "prometheus-clock")} == dict.fromkeys(
        ("api-clock", "prometheus-clock"), "Failed"
    )


def test_a_user_without_rights_sees_little_and_no_traceback(patient: Patient) -> None:
    nobody = patient.cluster.service_account_kubeconfig("default", "default")
    found = patient.examine(kubeconfig=nobody)
    assert found["own-permissions"]["status"] == "Warning"
    hidden = {name for name, one in found.items() if one["status"] == "NotChecked"}
    assert {"crds", "deployments", "operator-permissions", "webhook-rules", "webhook-answers", "policies"} <= hidden


def test_a_kind_of_another_version(patient: Patient) -> None:
    with patient.changed(CRD, ("/spec/versions/0/schema/openAPIV3Schema/description", "Another.")):
        assert patient.shows("crds", "Warning", "utilizationpolicies.stoker.dev")


def test_deployments_that_are_stopped_or_of_another_version(patient: Patient) -> None:
    with patient.changed(DEPLOYMENT, ("/spec/replicas", 0), ("/metadata/labels/app.kubernetes.io~1version", "0.0.9")):
        found = patient.examine()
        assert (found["deployments"]["status"], "stoker-controller" in found["deployments"]["found"]) == (
            "Warning",
            True,
        )
        assert (found["version"]["status"], "0.0.9" in found["version"]["found"]) == ("Warning", True)
    wait_for("the controller's replica", partial(patient.shows, "deployments", "Ok"))
    elsewhere = patient.examine("--namespace=elsewhere")
    assert (elsewhere["deployments"]["status"], elsewhere["leader"]["status"]) == ("Failed", "Failed")


def test_a_permission_that_is_missing(patient: Patient) -> None:
    rules = patient.cluster.api("GET", RBAC)["rules"]
    without = [rule for rule in rules if "nodes" not in rule.get("resources", [])]
    with patient.changed(RBAC, ("/rules", without)):
        wait_for(
            "the missing permission to show",
            lambda: patient.shows("operator-permissions", "Failed", "stoker-controller may not list nodes"),
        )
    wait_for("the permission", lambda: patient.shows("operator-permissions", "Ok"))


def test_no_leader_and_statuses_that_nobody_writes(patient: Patient) -> None:
    patient.operator.kill_controller()
    old = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{patient.jobs.namespace}/dljobs/busy/status"
    patient.cluster.api("PATCH", path, {"status": {"lookedAt": old}}, "application/merge-patch+json")
    found = patient.examine()
    assert (found["leader"]["status"], found["status-writes"]["status"]) == ("Failed", "Failed")
    assert "busy" in found["status-writes"]["found"]
    patient.cluster.restart(CONTROLLER)
    wait_for("the controller to lead and write", lambda: patient.shows("status-writes", "Ok"))
    assert patient.shows("leader", "Ok")


def test_a_webhook_that_is_down(patient: Patient) -> None:
    patient.cluster.kill(ADMISSION)
    assert patient.shows("webhook-answers", "Failed", "can't call the webhook")
    assert patient.shows("webhook-reviews", "Failed", "can't call the webhook")
    ignored = [(f"/webhooks/{place}/failurePolicy", "Ignore") for place in range(2)]
    with patient.changed(WEBHOOK, *ignored):
        assert patient.shows("webhook-rules", "Warning", "dljobs.stoker.dev")
        wait_for(
            "the policy to pass unseen",
            lambda: patient.shows("webhook-answers", "Failed", "accepts a policy that contradicts itself"),
        )
        assert patient.shows("webhook-reviews", "Failed", "launcher-too-few", "without a word")
    patient.cluster.restart(ADMISSION)
    wait_for("the webhook to answer", lambda: patient.shows("webhook-answers", "Ok"))


def test_a_namespace_that_is_not_reviewed(patient: Patient) -> None:
    found = patient.examine("--trial-namespace=kube-system")["webhook-reviews"]
    assert (found["status"], "without a word" in found["found"]) == ("Failed", True)


def test_chosen_checks_fail_where_they_cannot_be_made(patient: Patient) -> None:
    assert patient.examine("--only=webhook-answers").keys() == {"api-server", "crds", "webhook-answers"}
    done = patient.run("--only=webhook-reviews", "--trial-namespace=missing")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 ok, 1 not checked."), done.stdout


def test_the_test_of_a_release_needs_what_its_account_may_do(patient: Patient) -> None:
    """`helm test` runs these checks under this account (e2e/scenarios/node has its pod run)."""
    values = {"tests": {"namespace": patient.jobs.namespace}}
    rendered = yaml.safe_load_all(patient.cluster.helm_template(CHART, namespace=NAMESPACE, values=values))
    hooks = [one for one in rendered if one and "helm.sh/hook" in one["metadata"].get("annotations", {})]
    [pod] = [one for one in hooks if one["kind"] == "Pod"]
    account = [one for one in hooks if one is not pod]
    patient.cluster.apply(*account)
    arguments = [one for one in pod["spec"]["containers"][0]["args"] if one != "doctor"]
    kubeconfig = patient.cluster.service_account_kubeconfig(NAMESPACE, "stoker-test")
    done = patient.run(*arguments, kubeconfig=kubeconfig)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "3 ok."), done
    for role in (one for one in account if one["kind"] == "Role"):
        place = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{role['metadata']['namespace']}/roles"
        for rule in range(len(role["rules"])):
            less = [one for number, one in enumerate(role["rules"]) if number != rule]
            with patient.changed(f"{place}/{role['metadata']['name']}", ("/rules", less)):
                wait_for("a right to be missed", lambda: patient.run(*arguments, kubeconfig=kubeconfig).returncode == 1)
    for one in account:
        patient.cluster.kubectl("delete", one["kind"], one["metadata"]["name"], "-n", one["metadata"]["namespace"])


def test_a_certificate_that_has_expired_or_is_not_trusted(patient: Patient) -> None:
    now, names = datetime.now(UTC), (f"{SERVICE}.{NAMESPACE}.svc",)
    expired = issue(names, now=now - timedelta(days=2), valid=timedelta(days=1))
    foreign = issue(names, now=now, valid=timedelta(days=1))
    for made, words in ((expired, "expired"), (foreign, "does not trust")):
        with patient.changed(
            SECRET, ("/data/tls.crt", _encoded(made.certificate)), ("/data/tls.key", _encoded(made.key))
        ):
            assert patient.shows("webhook-certificate", "Failed", words)


def test_a_prometheus_that_does_not_answer(patient: Patient) -> None:
    found = patient.examine(prometheus="http://127.0.0.1:1")
    assert found["prometheus"]["status"] == "Failed"
    assert {found[name]["status"] for name in ("gpu-samples", "exporters", "pod-labels")} == {"NotChecked"}


def test_matchers_that_select_no_series(patient: Patient) -> None:
    found = patient.examine('--prometheus-matcher=job="other"')
    assert (found["gpu-samples"]["status"], found["exporters"]["status"]) == ("Failed", "NotChecked")


def test_a_node_without_an_exporter(patient: Patient) -> None:
    """The exporter that plays here knows NVIDIA's GPUs alone."""
    path = f"/api/v1/nodes/{CPU_NODES}-1/status"
    gpus = [(f"/status/{what}/amd.com~1gpu", "4") for what in ("capacity", "allocatable")]
    patient.patch(path, gpus)
    assert patient.shows("exporters", "Failed", "1 of 3 nodes", f"{CPU_NODES}-1")
    patient.patch(path, [(pointer, "0") for pointer, _ in gpus])
    assert patient.shows("exporters", "Ok", "2 nodes")


def test_a_pod_without_series_and_a_profiler_that_is_stuck(patient: Patient) -> None:
    started = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    patient.jobs.create("stuck", gpusPerNode=4, play={"scenario": WORKS_UNSEEN, "started_at": started})
    patient.jobs.create("unseen", gpusPerNode=4, play={"scenario": NOT_EXPORTED, "started_at": started})
    wait_for("the pod to be missed", lambda: patient.shows("pod-labels", "Warning", "1 of 3 pods", "unseen-0"))
    wait_for("the profiler to be stuck", lambda: patient.shows("profiling", "Failed", "4 GPUs"))


def test_a_scrape_interval_that_is_longer_than_was_said(patient: Patient) -> None:
    args = patient.cluster.api("GET", DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]["args"]
    told = ["--scrape-interval=1s" if one.startswith("--scrape-interval=") else one for one in args]
    patient.cluster.start_prometheus(scrape_interval=3.0)
    with patient.changed(DEPLOYMENT, ("/spec/template/spec/containers/0/args", told)):
        wait_for(
            "three slow scrapes",
            lambda: patient.shows("scrape-interval", "Warning", "every 3 s", "told 1 s"),
            timeout=90,
        )
    patient.cluster.start_prometheus()


@pytest.mark.parametrize(
    "spec, status, words",
    [
        ({"reclaim": {"mode": "Suspend"}}, "Warning", "no namespace has these labels"),
        ({"namespaceSelector": {}, "reclaim": {"mode": "Suspend"}}, "Ok", "trial: Suspend (acts)"),
    ],
)
def test_policies(patient: Patient, spec: dict[str, Any], status: str, words: str) -> None:
    with _policy(patient, {"namespaceSelector": {"matchLabels": {"nobody": "has"}}, **spec}):
        assert patient.shows("policies", status, words)


def test_a_kueue_of_an_unknown_version(patient: Patient) -> None:
    group, plural = "kueue.x-k8s.io", "workloads"
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # A group under k8s.io is protected; the API server asks for this word.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Workload", "plural": plural},
            "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    patient.cluster.api("POST", path, definition)
    wait_for("Kueue's kind", lambda: patient.shows("kueue", "Failed", "v1alpha1"))
    patient.cluster.api("DELETE", f"{path}/{plural}.{group}")


@contextmanager
def _policy(patient: Patient, spec: dict[str, Any]) -> Iterator[None]:
    body = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": "trial"},
        "spec": spec,
    }
    patient.cluster.api("POST", POLICIES, body)
    yield
    patient.cluster.api("DELETE", f"{POLICIES}/trial")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
