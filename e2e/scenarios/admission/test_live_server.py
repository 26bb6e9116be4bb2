"""The running process: garbage, unknown paths, and certificates renewed under load."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest
from cryptography import x509

from e2e.operator import ADMISSION, NAMESPACE, SERVICE, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually
from tests.admission.malformed_reviews import malformed_reviews

pytestmark = pytest.mark.e2e

RENEWALS = 5


def test_no_malformed_review_is_allowed_crashes_or_leaves_a_traceback(operator: Operator, webhook: Webhook) -> None:
    before = operator.cluster.log(ADMISSION)
    answers = {bad.name: webhook.request(bad.body, content_type=bad.content_type) for bad in malformed_reviews()}
    assert len(answers) >= 200
    assert {name: answer for name, answer in answers.items() if answer[0] not in {400, 413, 415}} == {}
    said = [json.loads(text)["message"] for _, text in answers.values()]
    assert all(message.startswith("stoker: ") and "\n" not in message for message in said)
    log = operator.cluster.log(ADMISSION).removeprefix(before)
    assert "Traceback" not in log
    assert log.count("Refused a request with HTTP") >= len(answers)


def test_a_webhook_with_a_wrong_path_is_no_silent_bypass(submitter: Submitter, webhook: Webhook) -> None:
    """With failurePolicy Fail the user reads what is wrong; kopf's own server would allow everything."""
    configuration = webhook.configuration | {"metadata": {"name": "e2e-wrong-path"}}
    (jobs,) = [hook for hook in configuration["webhooks"] if hook["name"] == "dljobs.stoker.dev"]
    jobs["name"] = "wrong-path.stoker.dev"
    jobs["clientConfig"]["service"]["path"] = "/validate/dljob"
    jobs["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": submitter.namespace}}
    configuration["webhooks"] = [jobs]
    submitter.cluster.kubectl("create", "-f", "-", input=json.dumps(configuration))
    try:
        eventually(lambda: submitter.refused(dljob("bert")))
        refused = submitter.create(dljob("bert"))
        assert "unknown path '/validate/dljob'" in refused.stderr
        assert "POST /validate/dljobs" in refused.stderr
    finally:
        submitter.cluster.kubectl("delete", "validatingwebhookconfiguration", "e2e-wrong-path")


def test_certificates_are_renewed_under_load_without_a_dropped_request(
    operator: Operator, submitter: Submitter, webhook: Webhook
) -> None:
    cluster, done = operator.cluster, Event()
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{submitter.namespace}/dljobs?dryRun=All"

    def through_the_api_server() -> int:
        count = 0
        while not done.is_set():
            cluster.api("POST", path, dljob("bert"))
            count += 1
        return count

    def over_new_connections() -> int:
        count = 0
        while not done.is_set():
            webhook.serial_served()
            count += 1
        return count

    seen = {webhook.serial_served()}
    with ThreadPoolExecutor() as pool:
        counts = [pool.submit(through_the_api_server), pool.submit(over_new_connections)]
        try:
            for _ in range(RENEWALS):
                renewed = cluster.issue_certificate(
                    f"{SERVICE}.{NAMESPACE}.svc",
                    "localhost",
                    "127.0.0.1",
                    folder=cluster.folder / "admission-certificate",
                )
                serial = x509.load_pem_x509_certificate(renewed.certificate.read_bytes()).serial_number
                eventually(partial(webhook.serves, serial))
                seen.add(serial)
        finally:
            done.set()
        assert all(count.result() > RENEWALS for count in counts)
    assert len(seen) == RENEWALS + 1
    assert submitter.refused(dljob("bert", TOO_FEW))
