"""Who is answered at the admission process' ports, with the API server's own certificate, tokens and roles."""

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from e2e.cluster.local import WEBHOOK_CLIENT
from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import ADMISSION, CONTROLLER, NAMESPACE, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually
from tests.admission.malformed_reviews import review

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def guarded(start_cluster: StartCluster) -> Iterator[Operator]:
    """The admission process asks for client certificates, and for tokens at /metrics."""
    cluster = start_cluster("callers")
    readers = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}]
    operator = Operator(cluster, values={"metrics": {"readers": readers}})
    operator.install()
    authority = cluster.folder / "pki" / "ca.crt"
    operator.start_admission(
        f"--client-ca-file={authority}", f"--client-name={WEBHOOK_CLIENT}", "--metrics-authentication"
    )
    yield operator
    cluster.stop()


def asked(cluster: Cluster, shown: str | None) -> int:
    """The status of a review that is asked past the API server, with one of the cluster's client certificates."""
    context = ssl.create_default_context(cadata=cluster.ca_pem)
    if shown is not None:
        pki = cluster.folder / "pki"
        context.load_cert_chain(pki / f"{shown}.crt", pki / f"{shown}.key")
    connection = http.client.HTTPSConnection("localhost", Webhook.of(cluster).port, timeout=30, context=context)
    try:
        body = json.dumps(review())
        connection.request("POST", "/validate/dljobs", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_api_servers_reviews_are_answered(guarded: Operator) -> None:
    submitter = Submitter(guarded.cluster, guarded.cluster.create_namespace("callers"))
    assert submitter.create(dljob("bert"), "--dry-run=server").returncode == 0
    refused = submitter.create(dljob("bert", TOO_FEW), "--dry-run=server")
    assert "launcher-too-few" in refused.stderr


def test_whoever_has_no_certificate_is_not_answered(guarded: Operator) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        asked(guarded.cluster, None)


def test_another_client_of_the_same_authority_is_refused(guarded: Operator) -> None:
    assert asked(guarded.cluster, "webhook-client") == 200
    assert asked(guarded.cluster, "admin") == 403


# ------------------------------------------------------------------------------------------------------------ metrics


def scraped(operator: Operator, token: str | None, process: str = ADMISSION) -> tuple[int, str]:
    """What a scrape with that token gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = operator.metrics_address(process).partition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
    try:
        connection.request("GET", "/metrics", headers={} if token is None else {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def token_of(cluster: Cluster, namespace: str, account: str) -> str:
    return cluster.kubectl("create", "token", account, f"--namespace={namespace}").strip()


def test_metrics_are_for_accounts_that_may_get_them(guarded: Operator) -> None:
    cluster = guarded.cluster
    for account in ("prometheus", "somebody"):
        cluster.kubectl("create", "serviceaccount", account, "--namespace=default")
    status, page = scraped(guarded, token_of(cluster, "default", "prometheus"))
    assert status == 200
    assert "stoker_admission_reviews_total" in page
    assert "stoker_certificate_expiry_timestamp_seconds" in page
    assert scraped(guarded, token_of(cluster, "default", "somebody"))[0] == 403
    assert scraped(guarded, "made-up")[0] == 401
    assert scraped(guarded, None)[0] == 401
    assert scraped(guarded, token_of(cluster, NAMESPACE, "stoker-controller"))[0] == 403


def test_the_controllers_metrics_are_for_the_same_accounts(guarded: Operator) -> None:
    guarded.start_controller(options=["--metrics-authentication"])
    cluster = guarded.cluster
    cluster.kubectl("create", "serviceaccount", "nobody", "--namespace=default")
    cluster.kubectl("create", "serviceaccount", "reader", "--namespace=default")
    cluster.kubectl(
        "create", "clusterrolebinding", "r", "--clusterrole=stoker-metrics-reader", "--serviceaccount=default:reader"
    )
    assert scraped(guarded, token_of(cluster, "default", "reader"), CONTROLLER)[0] == 200
    assert scraped(guarded, token_of(cluster, "default", "nobody"), CONTROLLER)[0] == 403


def test_a_bound_role_is_needed_that_the_chart_brings(guarded: Operator) -> None:
    """The role <fullname>-metrics-reader, for bindings of one's own."""
    cluster = guarded.cluster
    cluster.kubectl("create", "serviceaccount", "own", "--namespace=default")
    cluster.kubectl(
        "create", "clusterrolebinding", "own", "--clusterrole=stoker-metrics-reader", "--serviceaccount=default:own"
    )
    assert scraped(guarded, token_of(cluster, "default", "own"))[0] == 200


def test_the_other_ports_name_nobody(guarded: Operator) -> None:
    """The probes' port has no metrics."""
    log = guarded.cluster.log(ADMISSION)
    [line] = [line for line in log.splitlines() if "Answering probes at" in line]
    port = int(line.partition("://")[2].partition("/")[0].rpartition(":")[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 404
    finally:
        connection.close()


# -------------------------------------------------------------------------------------------------- what 503 leads to


class Busy(BaseHTTPRequestHandler):
    """Has no room for the first `busy` reviews, and allows what comes then."""

    busy: ClassVar[int] = 1
    asked: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 503 if len(self.asked) < self.busy else 200
        self.asked.append(status)
        answer = {"uid": review["request"]["uid"], "allowed": True}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_the_api_server_asks_again_when_it_is_told_when(guarded: Operator) -> None:
    """Why the server answers 503 with Retry-After when it has no room: a short crowd is nobody's failure."""
    cluster = guarded.cluster
    issued = cluster.issue_certificate("localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    namespace = cluster.create_namespace("busy")
    webhook = {
        "name": "busy.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "failurePolicy": "Fail",
        "clientConfig": {
            "url": f"https://localhost:{server.server_port}/",
            "caBundle": base64.b64encode(cluster.ca_pem.encode()).decode(),
        },
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    cluster.apply({**kind, "metadata": {"name": "busy"}, "webhooks": [webhook]})
    try:
        eventually(lambda: bool(Busy.asked) or not made(cluster, namespace, "probe"), within=30)
        Busy.asked.clear()
        assert made(cluster, namespace, "after-a-crowd")
        assert Busy.asked == [503, 200]
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", "busy")
        server.shutdown()
        serving.join()
        server.server_close()


def made(cluster: Cluster, namespace: str, name: str) -> bool:
    command = ("create", "configmap", name, "--dry-run=server", f"--namespace={namespace}")
    return cluster.run_kubectl(*command).returncode == 0
