"""What the chart installs, and what its roles and admission policies let whom do, on the API server."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from e2e.cluster.provider import Cluster, CommandError
from e2e.operator import CHART, NAMESPACE, RELEASE, Operator
from e2e.scenarios.api.applying import Applier, dljob
from stoker.cli.run import controller as controller_command

pytestmark = pytest.mark.e2e

WEBHOOK = "stoker-admission"


def rendered(cluster: Cluster, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    documents = yaml.safe_load_all(cluster.helm_template(CHART, namespace=NAMESPACE, values=values))
    return [document for document in documents if document]


def only(documents: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    [found] = [one for one in documents if one["kind"] == kind and name in {None, one["metadata"]["name"]}]
    return found


# ---------------------------------------------------------------------------------------------------------- rendering


def test_every_object_carries_the_labels_of_the_chart(installed: Cluster) -> None:
    bare = [
        f"{one['kind']}/{one['metadata']['name']}"
        for one in rendered(installed)
        if one["kind"] != "CustomResourceDefinition"
        and one["metadata"]["labels"].get("app.kubernetes.io/instance") != RELEASE
    ]
    assert bare == []


def test_the_chart_brings_the_generated_definitions_and_keeps_them(installed: Cluster) -> None:
    crds = Path(__file__).parents[3] / "crds"
    for path in sorted(crds.glob("*.yaml")):
        generated = yaml.safe_load(path.read_text())
        brought = only(rendered(installed), "CustomResourceDefinition", generated["metadata"]["name"])
        assert brought["spec"] == generated["spec"]
        assert brought["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    without = rendered(installed, {"crds": {"install": False}})
    assert [one for one in without if one["kind"] == "CustomResourceDefinition"] == []


def test_the_webhook_is_narrow(installed: Cluster) -> None:
    """Labels, finalizers, deletion, kube-system and the operator's own namespace never wait for it."""
    configuration = only(rendered(installed), "ValidatingWebhookConfiguration")
    webhooks = {webhook["name"]: webhook for webhook in configuration["webhooks"]}
    assert set(webhooks) == {"dljobs.stoker.dev", "utilizationpolicies.stoker.dev"}
    for webhook in webhooks.values():
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 3, "None")
        assert {condition["name"] for condition in webhook["matchConditions"]} == {
            "spec-changed",
            "not-being-deleted",
            "not-the-operator",
        }
    jobs = webhooks["dljobs.stoker.dev"]
    assert jobs["clientConfig"]["service"]["path"] == "/validate/dljobs"
    assert (
        webhooks["utilizationpolicies.stoker.dev"]["clientConfig"]["service"]["path"] == "/validate/utilizationpolicies"
    )
    [expression] = jobs["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("NotIn", ["kube-system", NAMESPACE])


def test_the_charts_own_certificate_is_signed_for_the_service_by_the_bundles_authority(installed: Cluster) -> None:
    documents = rendered(installed)
    secret = only(documents, "Secret")
    webhooks = only(documents, "ValidatingWebhookConfiguration")["webhooks"]
    assert {webhook["clientConfig"]["caBundle"] for webhook in webhooks} == {secret["data"]["ca.crt"]}
    authority = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["ca.crt"]))
    certificate = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    assert isinstance(names, x509.SubjectAlternativeName)
    assert f"{WEBHOOK}.{NAMESPACE}.svc" in names.get_values_for_type(x509.DNSName)


def test_the_bundle_is_left_out_for_a_certificate_of_somebody_elses(installed: Cluster) -> None:
    documents = rendered(installed, {"admission": {"certificate": {"existingSecret": "mine"}}})
    assert [one for one in documents if one["kind"] == "Secret"] == []
    for webhook in only(documents, "ValidatingWebhookConfiguration")["webhooks"]:
        assert "caBundle" not in webhook["clientConfig"]
    volumes = only(documents, "Deployment", WEBHOOK)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "certificate", "secret": {"secretName": "mine"}} in volumes


def test_pods_meet_the_restricted_pod_security_standard(installed: Cluster, applier: Applier) -> None:
    """Created for real in a namespace that enforces it, where a pod outside of the standard is refused."""
    installed.kubectl("label", "namespace", applier.namespace, "pod-security.kubernetes.io/enforce=restricted")
    for deployment in (one for one in rendered(installed) if one["kind"] == "Deployment"):
        template = deployment["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": deployment["metadata"]["name"]},
            "spec": template["spec"] | {"serviceAccountName": "default"},
        }
        done = applier.run("create", "-f", "-", "--dry-run=server", manifest=pod)
        assert done.returncode == 0, done.stderr
        [container] = template["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize(
    "values, named",
    [
        ({"admission": {"failurePolicy": "Open"}}, "failurePolicy"),
        ({"admission": {"timeoutSeconds": 31}}, "timeoutSeconds"),
        ({"admision": {}}, "admision"),
        ({"prometheus": {"url": "prometheus:9090"}}, "prometheus"),
        ({"prometheus": {"profile": "intel"}}, "profile"),
        ({"prometheus": {"secret": {"tokenKey": "token"}}}, "prometheus.secret.name"),
        ({"prometheus": {"username": "stoker"}}, "passwordKey"),
        ({"prometheus": {"secret": {"name": "s", "passwordKey": "p"}}}, "prometheus.username"),
        ({"prometheus": {"secret": {"name": "s", "privateKeyKey": "k"}}}, "prometheus.secret.certKey"),
        ({"prometheus": {"secret": {"name": "s"}}}, "which of its keys"),
        ({"prometheus": {"url": "http://p", "secret": {"name": "s", "caKey": "c"}}}, "need https"),
        ({"prometheus": {"serviceAccountToken": True, "secret": {"name": "s", "tokenKey": "t"}}}, "tokenKey"),
        ({"controller": {"scanInterval": "30"}}, "scanInterval"),
        ({"image": {"repository": ""}}, "repository"),
    ],
)
def test_a_wrong_value_is_refused_by_name(installed: Cluster, values: dict[str, Any], named: str) -> None:
    with pytest.raises(CommandError, match=named):
        rendered(installed, values)


def test_credentials_for_prometheus_are_mounted_from_the_secret_by_key(installed: Cluster) -> None:
    secret = {
        "name": "mimir",
        "passwordKey": "basic",
        "caKey": "ca.crt",
        "certKey": "tls.crt",
        "privateKeyKey": "tls.key",
    }
    values = {
        "url": "https://mimir/prometheus",
        "username": "stoker",
        "headers": {"X-Scope-OrgID": "a|b"},
        "secret": secret,
    }
    pod = only(rendered(installed, {"prometheus": values}), "Deployment", "stoker-controller")["spec"]["template"][
        "spec"
    ]
    [container] = pod["containers"]
    folder = "/etc/stoker/prometheus"
    assert [arg for arg in container["args"] if arg.startswith("--prometheus")] == [
        "--prometheus-url=https://mimir/prometheus",
        "--prometheus-profile=nvidia",
        "--prometheus-timeout=6s",
        "--prometheus-username=stoker",
        "--prometheus-header=X-Scope-OrgID: a|b",
        *(f"--prometheus-{file}-file={folder}/{file}" for file in ("ca", "cert", "key", "password")),
    ]
    assert {"name": "prometheus", "mountPath": folder, "readOnly": True} in container["volumeMounts"]
    [volume] = [volume["secret"] for volume in pod["volumes"] if volume["name"] == "prometheus"]
    assert volume["secretName"] == "mimir"
    assert {item["path"]: item["key"] for item in volume["items"]} == {
        "ca": "ca.crt",
        "cert": "tls.crt",
        "key": "tls.key",
        "password": "basic",
    }


def test_sessions_are_reviewed_and_pods_read_only_where_that_is_asked_for(installed: Cluster) -> None:
    sessions = {"enabled": True, "ignoredUsers": ['"quoted"', "system:serviceaccount:ci:runner"]}
    asked, unasked = rendered(installed, {"admission": {"sessionWebhook": sessions}}), rendered(installed)

    def may(documents: list[dict[str, Any]]) -> set[tuple[str, str]]:
        rules = only(documents, "ClusterRole", "stoker-admission")["rules"]
        return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    assert may(asked) - may(unasked) == {("pods", "get"), ("dljobs/status", "patch")}
    hooks = {one["name"]: one for one in only(asked, "ValidatingWebhookConfiguration")["webhooks"]}
    assert hooks.keys() - {one["name"] for one in only(unasked, "ValidatingWebhookConfiguration")["webhooks"]} == {
        "sessions.stoker.dev"
    }
    hook = hooks["sessions.stoker.dev"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 1)
    assert json.dumps(sessions["ignoredUsers"], separators=(",", ":")) in hook["matchConditions"][0]["expression"]
    commands = [
        only(documents, "Deployment", "stoker-admission")["spec"]["template"]["spec"]["containers"][0]["args"]
        for documents in (asked, unasked)
    ]
    assert ["--note-sessions" in arguments for arguments in commands] == [True, False]


@pytest.mark.parametrize("asks", [True, False])
def test_jupyter_is_asked_unless_that_is_off(installed: Cluster, *, asks: bool) -> None:
    documents = rendered(installed, {"controller": {"askJupyter": asks}})
    [container] = only(documents, "Deployment", "stoker-controller")["spec"]["template"]["spec"]["containers"]
    parsed = controller_command.make_context("controller", container["args"][2:])
    assert parsed.params["ask_jupyter"] is asks


def test_peoples_addresses_are_mounted_from_the_secret_and_reclaim_starts_without_it(installed: Cluster) -> None:
    documents = rendered(installed, {"notification": {"secretName": "people"}})
    pod = only(documents, "Deployment", "stoker-controller")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    parsed = controller_command.make_context("controller", container["args"][2:])
    assert str(parsed.params["notification_folder"]) == "/etc/stoker/notification"
    mount = {"name": "notification", "mountPath": "/etc/stoker/notification", "readOnly": True}
    assert mount in container["volumeMounts"]
    [volume] = [volume["secret"] for volume in pod["volumes"] if volume["name"] == "notification"]
    assert (volume["secretName"], volume["optional"]) == ("people", True)
    roles = [one for one in documents if one["kind"] in {"Role", "ClusterRole"}]
    assert not any("secrets" in rule["resources"] for role in roles for rule in role["rules"])
    assert "notification" not in yaml.safe_dump(only(rendered(installed), "Deployment", "stoker-controller"))


def test_both_processes_can_be_scraped_as_prometheus_finds_its_targets(installed: Cluster) -> None:
    documents = rendered(installed, {"controller": {"healthPort": 9081}, "metrics": {"podMonitor": {"enabled": True}}})
    for component, port in (("controller", "9081"), ("admission", "8081")):
        template = only(documents, "Deployment", f"stoker-{component}")["spec"]["template"]
        annotations = template["metadata"]["annotations"]
        assert (annotations["prometheus.io/scrape"], annotations["prometheus.io/path"]) == ("true", "/metrics")
        assert annotations["prometheus.io/port"] == port
        service = only(documents, "Service", f"stoker-{component}-metrics")
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        [named] = [one for one in template["spec"]["containers"][0]["ports"] if one["name"] == "health"]
        assert (service["spec"]["ports"][0]["targetPort"], str(named["containerPort"])) == ("health", port)
        monitor = only(documents, "PodMonitor")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True


def test_a_cluster_that_scrapes_otherwise_gets_neither_annotations_nor_services(installed: Cluster) -> None:
    quiet = {"metrics": {"scrapeAnnotations": False, "service": {"enabled": False}}}
    documents = rendered(installed, quiet)
    assert [one["metadata"]["name"] for one in documents if one["kind"] == "Service"] == ["stoker-admission"]
    assert [one for one in documents if one["kind"] == "PodMonitor"] == []
    deployments = [one for one in documents if one["kind"] == "Deployment"]
    assert all("annotations" not in one["spec"]["template"]["metadata"] for one in deployments)


def test_the_options_of_the_chart_are_those_of_the_command(installed: Cluster) -> None:
    every = {
        "url": "https://p",
        "username": "u",
        "metricPrefix": "amd_",
        "headers": {"A": "b"},
        "secret": {"name": "s", "passwordKey": "p", "caKey": "c", "certKey": "d", "privateKeyKey": "k"},
    }
    for values in (every, {"serviceAccountToken": True}, {"secret": {"name": "s", "tokenKey": "t"}}):
        pod = only(rendered(installed, {"prometheus": values}), "Deployment", "stoker-controller")["spec"]["template"]
        [container] = pod["spec"]["containers"]
        # Raises a usage error for an option that the command does not have, or a value that it refuses.
        parsed = controller_command.make_context("controller", container["args"][2:])
        assert str(parsed.params["prometheus_url"]).startswith("http")


# ------------------------------------------------------------------------------------------------------------ helm


def test_an_upgrade_keeps_the_certificate(installed: Cluster, applier: Applier) -> None:
    """A release of its own, without what only one release can own."""
    options = [f"--namespace={applier.namespace}", "--set=crds.install=false", "--set=fullnameOverride=second"]
    chart = [str(CHART), *options, "--set=admission.failurePolicy=Ignore"]
    secret = ["get", "secret", "second-admission-certificate", "-o", "jsonpath={.data}"]
    installed.helm("install", "second", *chart)
    try:
        before = applier.run(*secret).stdout
        installed.helm("upgrade", "second", *chart, "--set=admission.replicas=3")
        after = applier.run(*secret).stdout
        bundle = ["-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"]
        trusted = installed.kubectl("get", "validatingwebhookconfiguration", "second-admission", *bundle)
        assert before == after
        assert set(trusted.split()) == {json.loads(after)["ca.crt"]}
    finally:
        installed.helm("uninstall", "second", f"--namespace={applier.namespace}")


def test_uninstalling_keeps_the_jobs_and_installing_again_takes_them_up(installed: Cluster, applier: Applier) -> None:
    applier.create(dljob())
    before = applier.get("bert")["metadata"]["uid"]
    installed.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")
    try:
        assert applier.get("bert")["metadata"]["uid"] == before
        policies = installed.kubectl("get", "validatingadmissionpolicies", "-o", "name")
        assert "stoker" not in policies
    finally:
        Operator(installed).install()
        installed.kubectl("delete", "validatingwebhookconfigurations", "--all")
    assert applier.get("bert")["metadata"]["uid"] == before


# ---------------------------------------------------------------------------------------- roles and admission policies

ALLOWED = {
    "stoker-admission": [
        ("list", "utilizationpolicies.stoker.dev"),
        ("watch", "namespaces"),
    ],
    "stoker-controller": [
        ("watch", "dljobs.stoker.dev"),
        ("patch", "dljobs.stoker.dev/status"),
        ("update", "dljobs.stoker.dev/finalizers"),
        ("create", "jobs.batch"),
        ("patch", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "services"),
        ("watch", "pods"),
        ("create", "events.events.k8s.io"),
        ("patch", "utilizationpolicies.stoker.dev/status"),
    ],
}
FORBIDDEN = {
    "stoker-admission": [
        ("create", "jobs.batch"),
        ("get", "secrets"),
        ("list", "pods"),
        ("patch", "dljobs.stoker.dev"),
        ("patch", "utilizationpolicies.stoker.dev"),
    ],
    "stoker-controller": [
        ("get", "secrets"),
        ("list", "configmaps"),
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "dljobs.stoker.dev"),
        ("create", "dljobs.stoker.dev"),
        ("patch", "utilizationpolicies.stoker.dev"),
        ("delete", "services"),
        ("update", "leases.coordination.k8s.io"),
    ],
}


def may(cluster: Cluster, account: str, verb: str, resource: str, namespace: str) -> bool:
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    kind, _, subresource = resource.partition("/")
    part = [f"--subresource={subresource}"] if subresource else []
    done = cluster.run_kubectl("auth", "can-i", verb, kind, *part, user, f"--namespace={namespace}")
    return done.stdout.strip() == "yes"


@pytest.mark.parametrize("account", sorted(ALLOWED))
def test_an_account_may_do_its_work_and_nothing_else(applier: Applier, account: str) -> None:
    allowed = [one for one in ALLOWED[account] if not may(applier.cluster, account, *one, applier.namespace)]
    forbidden = [one for one in FORBIDDEN[account] if may(applier.cluster, account, *one, applier.namespace)]
    assert (allowed, forbidden) == ([], [])


def test_the_leaders_lease_lives_in_the_operators_namespace_only(applier: Applier) -> None:
    lease = ("update", "leases.coordination.k8s.io")
    assert may(applier.cluster, "stoker-controller", *lease, NAMESPACE)
    assert not may(applier.cluster, "stoker-controller", *lease, applier.namespace)


@pytest.mark.parametrize("role, verbs", [("admin", "create"), ("edit", "create"), ("view", "list")])
def test_the_built_in_roles_learn_about_jobs_but_never_about_their_status(
    applier: Applier, role: str, verbs: str
) -> None:
    """Aggregation is a controller's work: read what the chart asks it to aggregate."""
    roles = json.loads(
        applier.cluster.kubectl(
            "get", "clusterroles", "-l", f"rbac.authorization.k8s.io/aggregate-to-{role}=true", "-o", "json"
        )
    )
    rules = [
        rule
        for one in roles["items"]
        if one["metadata"]["name"].startswith("stoker-")
        for rule in one["rules"]
        if "stoker.dev" in rule["apiGroups"]
    ]
    assert any("dljobs" in rule["resources"] and verbs in rule["verbs"] for rule in rules)
    assert not any("dljobs/status" in rule["resources"] for rule in rules)


@pytest.fixture
def somebody(applier: Applier) -> Path:
    """Somebody who may create DLJobs in the namespace, and nothing more."""
    applier.run("create", "serviceaccount", "somebody")
    applier.run("create", "role", "jobs", "--verb=create,get,patch", "--resource=dljobs.stoker.dev")
    applier.run("create", "rolebinding", "jobs", "--role=jobs", f"--serviceaccount={applier.namespace}:somebody")
    return applier.cluster.service_account_kubeconfig(applier.namespace, "somebody")


def test_who_may_not_create_jobs_may_not_create_dljobs(applier: Applier, somebody: Path) -> None:
    """A DLJob becomes pods: the right to create one alone would be the right to more than one has."""
    said = applier.refusal(dljob(), kubeconfig=somebody)
    assert f"system:serviceaccount:{applier.namespace}:somebody may not create jobs.batch" in said
    assert applier.namespace in said

    applier.run("create", "role", "batch", "--verb=create", "--resource=jobs.batch")
    applier.run("create", "rolebinding", "batch", "--role=batch", f"--serviceaccount={applier.namespace}:somebody")
    applier.create(dljob(), kubeconfig=somebody)


def test_who_may_not_create_jobs_may_not_start_a_suspended_one(applier: Applier, somebody: Path) -> None:
    applier.create(dljob(suspend=True))
    patch = ["patch", "dljob", "bert", "--type=merge"]
    resumed = applier.run(*patch, '--patch={"spec":{"suspend":false}}', kubeconfig=somebody)
    assert "may not create jobs.batch" in resumed.stderr
    labelled = applier.run(*patch, '--patch={"metadata":{"labels":{"a":"b"}}}', kubeconfig=somebody)
    assert labelled.returncode == 0, labelled.stderr


def job(owner: Mapping[str, Any] | None) -> dict[str, Any]:
    """A Job, of a DLJob or of nobody."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "child"} | ({} if owner is None else {"ownerReferences": [owner]}),
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "a/b:1"}]}}
        },
    }


OWNER = {
    "apiVersion": "stoker.dev/v1alpha1",
    "kind": "DLJob",
    "name": "bert",
    "uid": "4b8d0c1e-0000-4000-8000-000000000000",
    "controller": True,
    "blockOwnerDeletion": True,
}


@pytest.fixture
def controller(applier: Applier) -> Path:
    """The controller's own identity."""
    return applier.cluster.service_account_kubeconfig(NAMESPACE, "stoker-controller")


def test_the_operators_account_may_create_a_job_that_a_dljob_controls(applier: Applier, controller: Path) -> None:
    applier.create(job(OWNER), "--dry-run=server", kubeconfig=controller)


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param(None, id="of nobody"),
        pytest.param({**OWNER, "controller": False}, id="not controlled"),
        pytest.param({**OWNER, "apiVersion": "example.com/v1"}, id="of another group"),
        pytest.param({**OWNER, "kind": "Deployment"}, id="of another kind"),
    ],
)
def test_the_operators_account_may_create_no_other_job(
    applier: Applier, controller: Path, owner: dict[str, Any] | None
) -> None:
    said = applier.refusal(job(owner), "--dry-run=server", kubeconfig=controller)
    assert "only what a DLJob controls" in said


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", NAMESPACE])
def test_the_operators_account_may_run_nothing_in_the_systems_namespaces(
    installed: Cluster, controller: Path, namespace: str
) -> None:
    said = Applier(installed, namespace).refusal(job(OWNER), "--dry-run=server", kubeconfig=controller)
    assert "system's namespaces" in said


def test_the_operators_account_may_neither_change_nor_delete_somebody_elses_job(
    applier: Applier, controller: Path
) -> None:
    applier.create(job(None))
    suspend = ["patch", "job", "child", "--type=merge", '--patch={"spec":{"suspend":true}}']
    for command in (suspend, ["delete", "job", "child", "--wait=false"]):
        done = applier.run(*command, kubeconfig=controller)
        assert "only what a DLJob controls" in done.stderr
    adopt = json.dumps({"metadata": {"ownerReferences": [OWNER]}})
    done = applier.run("patch", "job", "child", "--type=merge", f"--patch={adopt}", kubeconfig=controller)
    assert "only what a DLJob controls" in done.stderr


def test_everybody_else_creates_jobs_as_before(applier: Applier) -> None:
    applier.create(job(None), "--dry-run=server")
