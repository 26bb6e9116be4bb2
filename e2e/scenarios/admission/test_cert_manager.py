"""cert-manager itself makes and renews the webhook's certificate (`admission.certificate.certManager.enabled`)."""

import base64
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.binaries import module_folder, resolve
from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import NAMESPACE, SERVICE, Operator
from e2e.scenarios.admission.mounted import SECRET, mount, serves
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.long]  # cert-manager takes minutes to build
CERTIFICATE = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/{SERVICE}"
WEBHOOK = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{SERVICE}"
VALUES = {"admission": {"certificate": {"existingSecret": "", "certManager": {"enabled": True}}, "caBundle": ""}}


def bundles(cluster: Cluster) -> list[str]:
    """The authorities that the API server trusts when it calls each of the webhooks."""
    webhooks = cluster.api("GET", WEBHOOK)["webhooks"]
    return [base64.b64decode(one["clientConfig"].get("caBundle", "")).decode() for one in webhooks]


def is_injected(cluster: Cluster) -> bool:
    """Whether the authority of the certificate in the Secret is among them; cert-manager leaves others there."""
    authority = base64.b64decode(cluster.api("GET", SECRET)["data"]["ca.crt"]).decode().strip()
    return all(authority in bundle for bundle in bundles(cluster))


def certificate_is_ready(cluster: Cluster) -> bool:
    conditions = cluster.api("GET", CERTIFICATE).get("status", {}).get("conditions", [])
    return {"Ready": "True"}.items() <= {one["type"]: one["status"] for one in conditions}.items()


@pytest.fixture(scope="module")
def cluster(start_cluster: StartCluster) -> Iterator[Cluster]:
    """A cluster with cert-manager, and the chart that asks it for the certificate."""
    program = resolve("cert-manager")
    cluster = start_cluster("cert-manager")
    for path in sorted((module_folder("cert-manager") / "deploy" / "crds").glob("*.yaml")):
        cluster.kubectl("apply", "--server-side", "-f", str(path))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    cluster.start_process("cert-manager", [program, cluster.kubeconfig])
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def operator(cluster: Cluster) -> Operator:
    """The chart, and a running admission process that reads what cert-manager has issued from `mounted`."""
    operator = Operator(cluster, values=VALUES)
    operator.install()
    eventually(partial(certificate_is_ready, cluster))
    mounted(cluster).mkdir()
    mount(cluster, mounted(cluster))
    operator.start_admission(f"--certificate-folder={mounted(cluster)}")
    return operator


def mounted(cluster: Cluster) -> Path:
    return cluster.folder / "mounted"


def test_the_webhook_answers_with_the_certificate_that_cert_manager_has_issued(
    cluster: Cluster, operator: Operator
) -> None:
    eventually(partial(is_injected, cluster))
    submitter = Submitter(cluster, cluster.create_namespace("issued"))
    eventually(lambda: submitter.refused(dljob("bert", TOO_FEW)))


def test_a_ca_bundle_that_somebody_overwrites_comes_back(cluster: Cluster, operator: Operator) -> None:
    eventually(partial(is_injected, cluster))
    other = base64.b64encode(cluster.ca_pem.encode()).decode()
    patch: list[dict[str, Any]] = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other}]
    cluster.kubectl("patch", "validatingwebhookconfiguration", SERVICE, "--type=json", "-p", json.dumps(patch))
    eventually(partial(is_injected, cluster))


def test_a_renewed_certificate_is_served_without_a_restart(cluster: Cluster, operator: Operator) -> None:
    """Renewed as `cmctl renew` asks for it."""
    port, former = Webhook.of(cluster).port, mount(cluster, mounted(cluster))
    issuing = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by a test"}
    certificate = cluster.api("GET", CERTIFICATE)
    certificate["status"]["conditions"].append(issuing)
    cluster.api("PUT", f"{CERTIFICATE}/status", certificate)
    eventually(lambda: mount(cluster, mounted(cluster)) != former)
    serial = mount(cluster, mounted(cluster))
    eventually(partial(serves, port, serial))
    submitter = Submitter(cluster, cluster.create_namespace("renewed"))
    eventually(lambda: submitter.refused(dljob("bert", TOO_FEW)))
    eventually(partial(is_injected, cluster))


def test_an_upgrade_leaves_the_ca_bundle_that_was_injected(cluster: Cluster, operator: Operator) -> None:
    eventually(partial(is_injected, cluster))
    before = bundles(cluster)
    Operator(cluster, values=VALUES).install()  # with another port of the Service, so it is the last test
    assert bundles(cluster) == before
