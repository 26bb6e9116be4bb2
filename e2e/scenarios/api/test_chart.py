"""What the chart installs, and what its roles and admission policies let whom do, on the API server."""

import base64
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtensionOID

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster, CommandError
from e2e.operator import CHART, NAMESPACE, RELEASE, Operator, answers
from e2e.scenarios.admission.submitting import eventually
from e2e.scenarios.alerts.rules import rules
from e2e.scenarios.api.applying import Applier, dljob
from e2e.scenarios.api.workload_kind import CRD, workload_kind
from stoker.cli.run import admission as admission_command
from stoker.cli.run import certificates as certificates_command
from stoker.cli.run import controller as controller_command
from stoker.lint.word_lists.loader import SITE_FOLDER

pytestmark = pytest.mark.e2e

WEBHOOK = "stoker-admission"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TLS_SECRET = "stoker-admission-tls"


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


def test_an_upgrade_changes_the_definitions_as_the_chart_does(installed: Cluster, tmp_path: Path) -> None:
    """Definitions of a chart's folder crds/, which these are not, would stay as they were."""
    name = "dljobs.stoker.dev"
    newer = shutil.copytree(CHART, tmp_path / "stoker")
    definition = newer / "templates" / "crds" / "dljobs.yaml"
    text = definition.read_text()
    assert "    shortNames:\n" in text
    definition.write_text(text.replace("    shortNames:\n", "    shortNames:\n      - newer\n"))
    values = installed.folder / "values.json"

    # The harness has led the webhook's Service elsewhere: --force-conflicts gives it back to the chart.
    def upgraded(chart: Path) -> list[str]:
        installed.helm(
            "upgrade", RELEASE, str(chart), f"--namespace={NAMESPACE}", f"--values={values}", "--force-conflicts"
        )
        return list(installed.api("GET", f"{DEFINITIONS}/{name}")["spec"]["names"]["shortNames"])

    assert "newer" in upgraded(newer)
    assert "newer" not in upgraded(CHART)
    installed.kubectl("delete", "validatingwebhookconfigurations", "--all")


def test_helm_finds_nothing_to_object_to(installed: Cluster) -> None:
    assert "0 chart(s) failed" in installed.helm("lint", "--strict", str(CHART))


def test_what_an_administrator_adds_is_on_every_pod_and_never_takes_the_charts_place(installed: Cluster) -> None:
    added = {"podLabels": {"a": "b", "app.kubernetes.io/name": "other"}, "serviceAccountAnnotations": {"role": "r"}}
    own = {**added, "podAnnotations": {"c": "d", "prometheus.io/port": "1"}}
    values: dict[str, Any] = {
        "logLevel": "debug",
        "commonLabels": {"cost-center": "ml"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "revisionHistoryLimit": 1,
        "metrics": {"authentication": False},
        "report": {"enabled": True, **own},
        **dict.fromkeys(("admission", "controller", "certificates"), own),
    }
    documents = [one for one in rendered(installed, values) if one["kind"] != "CustomResourceDefinition"]
    assert all(one["metadata"]["labels"]["cost-center"] == "ml" for one in documents)
    deployments = [one for one in documents if one["kind"] == "Deployment"]
    report = only(documents, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    assert len(deployments) == 3
    for pod in (*(one["spec"]["template"] for one in deployments), report):
        labels = pod["metadata"]["labels"]
        assert (labels["a"], labels["app.kubernetes.io/name"], labels["cost-center"]) == ("b", "stoker", "ml")
        assert pod["metadata"]["annotations"]["c"] == "d"
        assert values["extraEnv"][0] in pod["spec"]["containers"][0]["env"]
    for deployment in deployments:
        assert deployment["spec"]["revisionHistoryLimit"] == 1
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        assert {"name": "STOKER_LOG_LEVEL", "value": "debug"} in container["env"]
    controller = only(documents, "Deployment", "stoker-controller")["spec"]["template"]["metadata"]
    assert controller["annotations"]["prometheus.io/port"] == "8443"
    accounts = [one for one in documents if one["kind"] == "ServiceAccount" and "helm.sh/hook" not in str(one)]
    assert [one["metadata"].get("annotations") for one in accounts] == [{"role": "r"}] * 4


def test_the_webhook_can_be_on_its_nodes_network(installed: Cluster) -> None:
    documents = rendered(installed, {"admission": {"hostNetwork": True}})
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment"
    }
    assert pods["stoker-admission"]["hostNetwork"] is True
    assert pods["stoker-admission"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "hostNetwork" not in pods["stoker-controller"]


def test_the_webhook_is_narrow(installed: Cluster) -> None:
    """Labels, finalizers, deletion, kube-system and the operator's own namespace never wait for it."""
    configuration = only(rendered(installed), "ValidatingWebhookConfiguration")
    webhooks = {webhook["name"]: webhook for webhook in configuration["webhooks"]}
    assert set(webhooks) == {"dljobs.stoker.dev", "utilizationpolicies.stoker.dev"}
    for webhook in webhooks.values():
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Fail", 5, "None")
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


def test_the_chart_renders_no_certificate_and_two_renderings_are_alike(installed: Cluster) -> None:
    """Who renders it without a cluster, as Argo CD does, must not get another certificate each time."""
    documents = rendered(installed)
    assert documents == rendered(installed)
    secret = only(documents, "Secret")
    assert (secret["metadata"]["name"], secret.get("data"), secret.get("stringData")) == (TLS_SECRET, None, None)
    for webhook in only(documents, "ValidatingWebhookConfiguration")["webhooks"]:
        assert "caBundle" not in webhook["clientConfig"]
    [container] = only(documents, "Deployment", "stoker-certificates")["spec"]["template"]["spec"]["containers"]
    parsed = certificates_command.make_context("certificates", container["args"][2:])
    assert (parsed.params["secret"], parsed.params["webhook"]) == (TLS_SECRET, WEBHOOK)
    assert f"{WEBHOOK}.{NAMESPACE}.svc" in parsed.params["dns_names"]
    assert parsed.params["valid"] == timedelta(days=90)


def test_the_bundle_is_left_out_for_a_certificate_of_somebody_elses(installed: Cluster) -> None:
    documents = rendered(installed, {"admission": {"certificate": {"existingSecret": "mine"}}})
    assert [one for one in documents if one["kind"] == "Secret" or "certificates" in one["metadata"]["name"]] == []
    for webhook in only(documents, "ValidatingWebhookConfiguration")["webhooks"]:
        assert "caBundle" not in webhook["clientConfig"]
    volumes = only(documents, "Deployment", WEBHOOK)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "certificate", "secret": {"secretName": "mine"}} in volumes


def test_cert_manager_makes_the_certificate_where_it_is_asked_to(installed: Cluster) -> None:
    """By an authority for this webhook alone, or by an issuer that there is; nothing of ours keeps it then."""
    asked = {"certManager": {"enabled": True}, "validDays": 30}
    documents = rendered(installed, {"admission": {"certificate": asked}})
    assert [
        one for one in documents if one["metadata"]["name"] == "stoker-certificates" or one["kind"] == "Secret"
    ] == []
    certificate = only(documents, "Certificate", WEBHOOK)["spec"]
    assert certificate["secretName"] == TLS_SECRET
    assert f"{WEBHOOK}.{NAMESPACE}.svc" in certificate["dnsNames"]
    assert (certificate["duration"], certificate["renewBefore"]) == ("720h", "240h")
    issuer = only(documents, "Issuer", certificate["issuerRef"]["name"])["spec"]
    authority = only(documents, "Certificate", f"{WEBHOOK}-authority")["spec"]
    assert (authority["isCA"], authority["secretName"]) == (True, issuer["ca"]["secretName"])
    injected = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/{WEBHOOK}"}
    assert only(documents, "ValidatingWebhookConfiguration")["metadata"]["annotations"] == injected
    volumes = only(documents, "Deployment", WEBHOOK)["spec"]["template"]["spec"]["volumes"]
    assert {"name": "certificate", "secret": {"secretName": TLS_SECRET}} in volumes

    theirs = asked | {"certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer", "name": "internal"}}}
    documents = rendered(installed, {"admission": {"certificate": theirs}})
    assert [one for one in documents if one["kind"] == "Issuer"] == []
    assert only(documents, "Certificate")["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "internal"}


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["a"]}, {"admission": {"excludedNamespaces": ["b"]}}])
def test_no_webhook_is_asked_about_the_systems_or_the_releases_own_namespace(
    installed: Cluster, values: dict[str, Any]
) -> None:
    """Whatever is set: neither could be repaired while a webhook about it does not answer."""
    sessions = {"sessionWebhook": {"enabled": True, "trustNetwork": True}}
    whole = values | {"admission": sessions | values.get("admission", {})}
    webhooks = only(rendered(installed, whole), "ValidatingWebhookConfiguration")["webhooks"]
    assert len(webhooks) == 3
    for webhook in webhooks:
        # What has no namespace is a UtilizationPolicy, of which none stands in the way of a repair.
        if {rule["scope"] for rule in webhook["rules"]} == {"Cluster"}:
            assert {name for rule in webhook["rules"] for name in rule["resources"]} == {"utilizationpolicies"}
            continue
        excluded = [one for one in webhook["namespaceSelector"]["matchExpressions"] if one["operator"] == "NotIn"]
        assert {"kube-system", NAMESPACE} <= {name for one in excluded for name in one["values"]}


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
        ({"controller": {"scrapeInterval": "2m"}}, "controller.scrapeInterval: 2m is more than 1m"),
        ({"controller": {"scrapeInterval": "1m1s"}}, "controller.scrapeInterval: 1m1s is more than 1m"),
        ({"controller": {"scrapeInterval": "0s"}}, "controller.scrapeInterval: must be at least 1s"),
        ({"controller": {"minimumWarningGrace": "10s"}}, "controller.minimumWarningGrace: 10s is less than 1m"),
        ({"admission": {"podDisruptionBudget": {"minAvailable": 2}}}, "would let no node be drained"),
        ({"admission": {"podDisruptionBudget": {"minAvailable": "100%"}}}, "minAvailable"),
        ({"admission": {"resources": {"limits": {"memory": "1Gb"}}}}, "admission/resources/limits/memory.*1Gb"),
        ({"controller": {"resources": {"request": {"cpu": 1}}}}, "controller/resources.*request"),
        ({"admission": {"sessionWebhook": {"enabled": True}}}, "admission.clientCA"),
        ({"admission": {"clientNames": ["a"]}}, "admission.clientNames: needs admission.clientCA"),
        ({"admission": {"clientCA": "LS0tLS1CRUdJTg=="}}, "clientCA"),
        ({"admission": {"caBundle": "YQ=="}}, "admission.certificate.existingSecret"),
        (
            {"admission": {"certificate": {"existingSecret": "s", "certManager": {"enabled": True}}}},
            "admission.certificate.existingSecret: with certManager.enabled",
        ),
        ({"commonLabels": {"helm.sh/chart": "x"}}, "commonLabels: helm.sh/chart is set by the chart"),
        ({"watchNamespaces": ["team", NAMESPACE]}, f"watchNamespaces: the operator does not act in {NAMESPACE}"),
        ({"watchNamespaces": ["a", "a"]}, "watchNamespaces"),
        ({"metrics": {"podMonitor": {"enabled": True}}}, "metrics.podMonitor.tokenSecret.name"),
        ({"metrics": {"readers": [{"kind": "ServiceAccount", "name": "p"}]}}, "metrics.readers"),
        ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}}, "apiServerCIDRs"),
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
    sessions = {"enabled": True, "trustNetwork": True, "ignoredUsers": ['"quoted"', "system:serviceaccount:ci:runner"]}
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
    assert ["--trust-network" in arguments for arguments in commands] == [True, False]


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
    named = [
        one["metadata"]["name"]
        for one in documents
        if one["kind"] in {"Role", "ClusterRole"}
        for rule in one["rules"]
        if "secrets" in rule.get("resources", ())
    ]
    assert named == ["stoker-certificates"], "nobody reads Secrets but who writes the webhook's own"
    assert "notification" not in yaml.safe_dump(only(rendered(installed), "Deployment", "stoker-controller"))


def test_a_sites_word_lists_are_mounted_where_they_are_read(installed: Cluster) -> None:
    documents = rendered(installed, {"wordLists": {"configMapName": "words"}})
    for component in ("admission", "controller"):
        pod = only(documents, "Deployment", f"stoker-{component}")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (folder,) = [one["value"] for one in container["env"] if one["name"] == SITE_FOLDER]
        (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == folder]
        (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
        assert volume["configMap"] == {"name": "words"}


def test_metrics_are_for_readers_with_a_token_unless_that_is_off(installed: Cluster) -> None:
    readers = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]
    documents = rendered(installed, {"metrics": {"readers": readers, "serviceMonitor": {"enabled": True}}})
    for component in ("controller", "admission"):
        template = only(documents, "Deployment", f"stoker-{component}")["spec"]["template"]
        assert "prometheus.io/scrape" not in template["metadata"].get("annotations", {})
        [container] = template["spec"]["containers"]
        assert "--metrics-authentication" in container["args"]
        service = only(documents, "Service", f"stoker-{component}-metrics")
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        assert (service["spec"]["ports"][0]["targetPort"], ports["metrics"]) == ("metrics", 8443)
        assert ports["health"] != ports["metrics"]
        monitor = only(documents, "ServiceMonitor", f"stoker-{component}")["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        [endpoint] = monitor["endpoints"]
        assert (endpoint["scheme"], endpoint["honorLabels"]) == ("https", True)
        assert endpoint["bearerTokenFile"].endswith("serviceaccount/token")
    assert only(documents, "ClusterRoleBinding", "stoker-metrics-reader")["subjects"] == readers


def test_without_authentication_pods_can_be_scraped_by_their_annotations(installed: Cluster) -> None:
    values = {"metrics": {"authentication": False, "port": 9090, "podMonitor": {"enabled": True}}}
    documents = rendered(installed, values)
    for component in ("controller", "admission"):
        template = only(documents, "Deployment", f"stoker-{component}")["spec"]["template"]
        annotations = template["metadata"]["annotations"]
        assert (annotations["prometheus.io/scrape"], annotations["prometheus.io/path"]) == ("true", "/metrics")
        assert annotations["prometheus.io/port"] == "9090"
        assert "--no-metrics-authentication" in template["spec"]["containers"][0]["args"]
        monitor = only(documents, "PodMonitor")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert (endpoint["honorLabels"], endpoint["scheme"]) == (True, "http")
    assert not [one for one in documents if one["metadata"]["name"] == "stoker-metrics-authentication"]


def test_only_what_is_named_comes_in_through_the_network_policies(installed: Cluster) -> None:
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    values = {"networkPolicy": {"apiServerCIDRs": ["10.0.0.0/28", "fd00::/64"]}, "report": {"enabled": True}}
    documents = rendered(installed, values)
    policies = {one["metadata"]["name"]: one for one in documents if one["kind"] == "NetworkPolicy"}
    assert set(policies) == {"stoker-admission", "stoker-controller", "stoker-certificates", "stoker-report"}
    metrics = {"from": [monitoring], "ports": [{"port": "metrics", "protocol": "TCP"}]}
    webhook = {
        "from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}, {"ipBlock": {"cidr": "fd00::/64"}}],
        "ports": [{"port": "https", "protocol": "TCP"}],
    }
    assert policies["stoker-admission"]["spec"]["ingress"] == [webhook, metrics]
    assert policies["stoker-controller"]["spec"]["ingress"] == [metrics]
    assert policies["stoker-certificates"]["spec"]["ingress"] == []
    assert policies["stoker-report"]["spec"]["ingress"] == []
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in documents if one["kind"] == "Deployment"}
    pods["stoker-report"] = only(documents, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    for name, policy in policies.items():
        assert policy["spec"]["policyTypes"] == ["Ingress"]
        template = pods[name]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    everybody = only(rendered(installed), "NetworkPolicy", "stoker-admission")["spec"]["ingress"][0]
    assert everybody == {"ports": [{"port": "https", "protocol": "TCP"}]}
    egress = [{"ports": [{"port": 443}]}]
    closed = only(
        rendered(installed, {"networkPolicy": {"controllerEgress": egress}}), "NetworkPolicy", "stoker-controller"
    )
    assert (closed["spec"]["policyTypes"], closed["spec"]["egress"]) == (["Ingress", "Egress"], egress)
    without = rendered(installed, {"networkPolicy": {"enabled": False}})
    assert [one for one in without if one["kind"] == "NetworkPolicy"] == []


def test_the_alerts_are_those_of_the_rule_file(installed: Cluster) -> None:
    assert [one for one in rendered(installed) if one["kind"] == "PrometheusRule"] == []
    values = {"metrics": {"prometheusRule": {"enabled": True, "labels": {"release": "monitoring"}}}}
    rule = only(rendered(installed, values), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "monitoring"
    assert rule["spec"] == rules()


def test_the_dashboards_come_in_config_maps_that_grafanas_sidecar_finds(installed: Cluster) -> None:
    assert [one for one in rendered(installed) if "dashboard" in one["metadata"]["name"]] == []
    documents = rendered(installed, {"metrics": {"dashboards": {"enabled": True}}})
    found = {name: text for one in documents if one["kind"] == "ConfigMap" for name, text in one["data"].items()}
    files = {path.name: path.read_text() for path in (CHART / "monitoring" / "dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in found.items()} == {
        name: json.loads(text) for name, text in files.items()
    }
    [label] = {one["metadata"]["labels"]["grafana_dashboard"] for one in documents if one["kind"] == "ConfigMap"}
    assert label == "1"


def test_the_report_runs_by_a_schedule_where_that_is_asked_for(installed: Cluster, applier: Applier) -> None:
    assert [one for one in rendered(installed) if one["kind"] == "CronJob"] == []
    secret = {"name": "mimir", "tokenKey": "token"}
    values = {"prometheus": {"secret": secret}, "report": {"enabled": True, "volumeClaim": "reports"}}
    documents = rendered(installed, values)
    cron = only(documents, "CronJob")["spec"]
    assert (cron["schedule"], cron["timeZone"], cron["concurrencyPolicy"]) == ("0 6 * * 1", "Etc/UTC", "Forbid")
    template = cron["jobTemplate"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert container["image"].startswith("stoker-report:")
    assert container["args"][-1] == "--output=/reports/$(JOB_NAME).html"
    assert "--prometheus-token-file=/etc/stoker/prometheus/token" in container["args"]
    installed.kubectl("label", "namespace", applier.namespace, "pod-security.kubernetes.io/enforce=restricted")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "report"},
        "spec": template["spec"] | {"serviceAccountName": "default"},
    }
    done = applier.run("create", "-f", "-", "--dry-run=server", manifest=pod)
    assert done.returncode == 0, done.stderr
    assert only(documents, "ClusterRole", "stoker-report")["rules"] == [
        {"apiGroups": ["stoker.dev"], "resources": ["dljobs"], "verbs": ["list"]}
    ]


def test_replicas_are_spread_and_the_leader_has_a_stand_in(installed: Cluster) -> None:
    documents = rendered(installed, {"admission": {"spread": "DoNotSchedule"}})
    for component, unsatisfiable in (("admission", "DoNotSchedule"), ("controller", "ScheduleAnyway")):
        deployment = only(documents, "Deployment", f"stoker-{component}")
        assert deployment["spec"]["replicas"] == 2
        pod = deployment["spec"]["template"]
        assert [one["topologyKey"] for one in pod["spec"]["topologySpreadConstraints"]] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
        for one in pod["spec"]["topologySpreadConstraints"]:
            assert one["whenUnsatisfiable"] == unsatisfiable
            assert one["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_the_api_server_takes_every_object_of_the_chart(installed: Cluster) -> None:
    """With what can be switched on switched on; kinds of the Prometheus operator are not installed here."""
    values = {
        "fullnameOverride": "all",
        "crds": {"install": False},
        "admissionPolicies": {"protectedNamespaces": ["argocd"], "namespaceLabels": {"example.com/gpu": 'a"b'}},
        "metrics": {
            "readers": [{"kind": "Group", "name": "monitoring"}],
            "certificateSecret": "metrics",
            "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Stoker"}},
        },
        "networkPolicy": {"apiServerCIDRs": ["10.0.0.0/28"], "controllerEgress": [{"ports": [{"port": 443}]}]},
        "admission": {
            "clientCA": installed.ca_pem,
            "clientNames": ["kube-apiserver"],
            "sessionWebhook": {"enabled": True},
            "priorityClassName": "system-cluster-critical",
        },
        "notification": {"secretName": "people"},
        "controller": {"readLogs": True},
        "report": {"enabled": True, "volumeClaim": "reports", "namespaces": ["nlp"]},
    }
    documents = rendered(installed, values)
    [container] = only(documents, "Deployment", "all-admission")["spec"]["template"]["spec"]["containers"]
    parsed = admission_command.make_context("admission", container["args"][2:])
    assert (parsed.params["note_sessions"], parsed.params["client_names"]) == (True, ("kube-apiserver",))
    assert only(documents, "ConfigMap", "all-admission-client-ca")["data"]["ca.crt"].strip() == installed.ca_pem.strip()
    # of a pod, its account must exist
    installed.apply(only(documents, "ServiceAccount", "all-test"))
    documents = [one for one in documents if one["metadata"]["name"] != "all-test" or one["kind"] != "ServiceAccount"]
    done = installed.run_kubectl("create", "--dry-run=server", "-f", "-", input=yaml.safe_dump_all(documents))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(documents)


def test_a_cluster_that_scrapes_otherwise_gets_neither_annotations_nor_services(installed: Cluster) -> None:
    quiet = {"metrics": {"authentication": False, "scrapeAnnotations": False, "service": {"enabled": False}}}
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


def test_the_certificate_is_made_by_an_account_of_its_own_and_survives_upgrades(
    installed: Cluster, applier: Applier
) -> None:
    """A release of its own, without what only one release can own."""
    options = [f"--namespace={applier.namespace}", "--set=crds.install=false", "--set=fullnameOverride=second"]
    chart = [str(CHART), *options, "--set=admission.failurePolicy=Ignore"]
    secret = ["get", "secret", "second-admission-tls", "-o", "jsonpath={.data}"]
    installed.helm("install", "second", *chart)
    try:
        [deployment] = [
            one
            for one in json.loads(applier.run("get", "deployments", "-o", "json").stdout)["items"]
            if one["metadata"]["name"] == "second-certificates"
        ]
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        health = installed.reserve_port()
        kubeconfig = installed.service_account_kubeconfig(applier.namespace, "second-certificates")
        installed.start_process(
            "certificates",
            [
                *(sys.executable, "-m", "stoker"),
                *(one.replace("$(POD_NAMESPACE)", applier.namespace) for one in arguments),
                f"--health-port={health}",
            ],
            env={"KUBECONFIG": str(kubeconfig)},
            ready=lambda: answers(f"http://127.0.0.1:{health}/readyz"),
        )
        before = applier.run(*secret).stdout
        installed.helm("upgrade", "second", *chart, "--set=admission.replicas=3")
        assert before == applier.run(*secret).stdout
        bundle = ["-o", "jsonpath={.webhooks[*].clientConfig.caBundle}"]
        trusted = installed.kubectl("get", "validatingwebhookconfiguration", "second-admission", *bundle)
        assert set(trusted.split()) == {json.loads(before)["ca.crt"]}
        data = {name: base64.b64decode(value) for name, value in json.loads(before).items()}
        authority = x509.load_pem_x509_certificate(data["ca.crt"])
        certificate = x509.load_pem_x509_certificate(data["tls.crt"])
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
        assert isinstance(names, x509.SubjectAlternativeName)
        assert f"second-admission.{applier.namespace}.svc" in names.get_values_for_type(x509.DNSName)
        assert "PRIVATE KEY" not in data["ca.crt"].decode()
    finally:
        if installed.running("certificates"):
            installed.kill("certificates", 15)
        installed.helm("uninstall", "second", f"--namespace={applier.namespace}")


def test_the_certificates_account_may_touch_its_secret_and_its_webhook_alone(installed: Cluster) -> None:
    rules = [
        (rule.get("resourceNames"), rule["resources"], rule["verbs"])
        for one in rendered(installed)
        if one["kind"] in {"Role", "ClusterRole"} and one["metadata"]["name"] == "stoker-certificates"
        for rule in one["rules"]
    ]
    assert sorted(rules) == [
        ([WEBHOOK], ["validatingwebhookconfigurations"], ["get", "patch"]),
        ([TLS_SECRET], ["secrets"], ["get", "update"]),
    ]


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
        ("update", "dljobs.stoker.dev/status"),
        ("update", "dljobs.stoker.dev/finalizers"),
        ("create", "jobs.batch"),
        ("patch", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "services"),
        ("watch", "pods"),
        ("create", "events.events.k8s.io"),
        ("update", "utilizationpolicies.stoker.dev/status"),
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
    user = f"--as=system:serviceaccount:{NAMESPACE}:stoker-controller"

    def may_renew(name: str, namespace: str) -> bool:
        lease = f"leases.coordination.k8s.io/{name}"
        done = applier.cluster.run_kubectl("auth", "can-i", "update", lease, user, f"--namespace={namespace}")
        return done.stdout.strip() == "yes"

    assert may_renew("stoker-controller", NAMESPACE)
    assert not may_renew("stoker-controller", applier.namespace)
    assert not may_renew("kube-scheduler", NAMESPACE), "no lease but its own"


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


@pytest.mark.parametrize("annotation", ["stoker.dev/resume", "stoker.dev/snooze-until"])
def test_who_may_not_create_jobs_may_not_start_or_keep_pods_by_an_annotation(
    applier: Applier, somebody: Path, annotation: str
) -> None:
    applier.create(dljob(suspend=True))

    def annotated(name: str, value: str | None, kubeconfig: Path | None) -> str:
        patch = json.dumps({"metadata": {"annotations": {name: value}}})
        done = applier.run("patch", "dljob", "bert", "--type=merge", f"--patch={patch}", kubeconfig=kubeconfig)
        return done.stderr

    assert "may not create jobs.batch" in annotated(annotation, "2026-11-21T12:00:00Z", somebody)
    assert annotated("example.com/note", "x", somebody) == ""
    assert annotated(annotation, "2026-11-21T12:00:00Z", None) == ""
    assert "may not create jobs.batch" in annotated(annotation, "2026-11-21T13:00:00Z", somebody)
    assert annotated("example.com/note", "y", somebody) == "", "what is there already may stay"


def job(owner: Mapping[str, Any] | None) -> dict[str, Any]:
    """A Job, of a DLJob or of nobody."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bert"} | ({} if owner is None else {"ownerReferences": [owner]}),
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
        pytest.param({**OWNER, "name": "other"}, id="of another name"),
    ],
)
def test_the_operators_account_may_create_no_other_job(
    applier: Applier, controller: Path, owner: dict[str, Any] | None
) -> None:
    said = applier.refusal(job(owner), "--dry-run=server", kubeconfig=controller)
    assert "only what a DLJob of the same name controls" in said


def test_the_operators_account_may_create_the_service_of_its_dljob_and_no_other(
    applier: Applier, controller: Path
) -> None:
    service: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}
    named = {name: {**service, "metadata": {"name": name, "ownerReferences": [OWNER]}} for name in ("dlj-bert", "bert")}
    applier.create(named["dlj-bert"], "--dry-run=server", kubeconfig=controller)
    said = applier.refusal(named["bert"], "--dry-run=server", kubeconfig=controller)
    assert "the Service dlj-NAME" in said


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
    suspend = ["patch", "job", "bert", "--type=merge", '--patch={"spec":{"suspend":true}}']
    for command in (suspend, ["delete", "job", "bert", "--wait=false"]):
        done = applier.run(*command, kubeconfig=controller)
        assert "only what a DLJob of the same name controls" in done.stderr
    adopt = json.dumps({"metadata": {"ownerReferences": [OWNER]}})
    done = applier.run("patch", "job", "bert", "--type=merge", f"--patch={adopt}", kubeconfig=controller)
    assert "only what a DLJob of the same name controls" in done.stderr


@pytest.fixture
def workloads(installed: Cluster) -> Iterator[None]:
    """Kueue's kind is there."""
    installed.apply(workload_kind())
    installed.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    yield
    installed.kubectl("delete", "crd", CRD)


@pytest.mark.usefixtures("workloads")
def test_the_operators_account_may_switch_a_jobs_workload_and_change_nothing_else_of_it(
    applier: Applier, controller: Path
) -> None:
    # A Job that is there: what belongs to one that is not, the garbage collector takes away.
    applier.create(job(None))
    uid = applier.run("get", "job", "bert", "-o", "jsonpath={.metadata.uid}").stdout
    job_owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "bert", "uid": uid, "controller": True}
    for name, owners in (("of-a-job", [job_owner]), ("of-nobody", [])):
        workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": name, "ownerReferences": owners},
            "spec": {"queueName": "gpus", "podSets": [{"name": "main", "count": 2}]},
        }
        applier.create(workload)

    def patched(name: str, spec: Mapping[str, Any]) -> str:
        path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{applier.namespace}/workloads/{name}"
        try:
            applier.cluster.api("PATCH", path, {"spec": spec}, "application/merge-patch+json", kubeconfig=controller)
        except ApiError as error:
            return str(error)
        return ""

    assert patched("of-a-job", {"active": False}) == ""
    assert patched("of-a-job", {"active": True}) == ""
    for change in ({"queueName": "others"}, {"podSets": [{"name": "main", "count": 1}]}, {"queueName": None}):
        assert "spec.active of a Job's Workload and nothing else" in patched("of-a-job", change)
    assert "spec.active of a Job's Workload" in patched("of-nobody", {"active": False})


def test_the_operators_account_keeps_out_of_namespaces_that_are_named(
    installed: Cluster, applier: Applier, controller: Path
) -> None:
    """Of DLJobs there as well, which it may delete elsewhere where a policy says so."""
    labelled = installed.create_namespace("labelled", {"example.com/gpu": "yes"})
    values = {
        "admissionPolicies": {
            "protectedNamespaces": [applier.namespace],
            "namespaceLabels": {"example.com/gpu": "yes"},
        }
    }
    inside, elsewhere = Applier(installed, labelled), Applier(installed, installed.create_namespace("unlabelled"))
    for one in (applier, inside, elsewhere):
        one.create(dljob())
    try:
        Operator(installed, values=values).install()
        installed.kubectl("delete", "validatingwebhookconfigurations", "--all")
        delete = ["delete", "dljob", "bert", "--dry-run=server"]

        def refused(where: Applier, said: str) -> bool:
            return said in where.run(*delete, kubeconfig=controller).stderr

        eventually(lambda: refused(applier, "admissionPolicies.protectedNamespaces"))
        eventually(lambda: refused(elsewhere, "admissionPolicies.namespaceLabels"))
        assert inside.run(*delete, kubeconfig=controller).returncode == 0
        inside.create(job(OWNER), "--dry-run=server", kubeconfig=controller)
    finally:
        Operator(installed).install()
        installed.kubectl("delete", "validatingwebhookconfigurations", "--all")
        eventually(
            lambda: applier.run("delete", "dljob", "bert", "--dry-run=server", kubeconfig=controller).returncode == 0
        )


def test_everybody_else_creates_jobs_as_before(applier: Applier) -> None:
    applier.create(job(None), "--dry-run=server")
