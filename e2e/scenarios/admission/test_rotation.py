"""The webhook's own certificate is renewed under load: two processes keep it at once, and no review fails."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.conftest import StartCluster
from e2e.operator import NAMESPACE, SERVICE, Operator
from e2e.scenarios.admission.mounted import SECRET, mount, serves
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, Webhook, dljob, eventually
from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import Kubernetes
from stoker.certificates.renewal import SETTLE, CertificateKeeper, CertificateLocation

pytestmark = pytest.mark.e2e
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
PLACE = CertificateLocation(
    namespace=NAMESPACE,
    secret="stoker-admission-tls",
    webhook=SERVICE,
    names=(f"{SERVICE}.{NAMESPACE}.svc", "localhost"),
    valid=timedelta(hours=2),
)
LIVES = tuple(timedelta(hours=2 * 4**renewal) for renewal in range(5))
"""How long each certificate is valid: of each, less than a third of the next one's life is left."""


class ShiftedClock(SystemClock):
    """The real clock, and some time ahead where the test does not wait for a renewal's second step."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An installed release that keeps its certificate itself."""

    operator: Operator
    cluster: Cluster
    folder: Path
    """Where the admission process reads its certificate: what the kubelet mounts of the Secret."""
    kubeconfig: Path
    """Of the account of the certificates' process."""

    async def keep(self, valid: timedelta, ahead: timedelta) -> None:
        """Two processes look at once, and once more: what one of them could not write, the other has."""
        clock = ShiftedClock()
        clock.ahead = ahead
        place = replace(PLACE, valid=valid)
        async with (
            await Kubernetes.connect(kubeconfig=str(self.kubeconfig)) as one,
            await Kubernetes.connect(kubeconfig=str(self.kubeconfig)) as other,
        ):
            keepers = [CertificateKeeper(api, place, clock) for api in (one, other)]
            for _ in range(2):
                await asyncio.gather(*(keeper.look() for keeper in keepers), return_exceptions=True)
            await keepers[0].look()

    def wait_until_trusted(self, number: int) -> None:
        """Until the API server acts by the webhook configurations as they are now: it learns of changes in their order,
        and the last one is a webhook that nobody answers.
        """
        marker = f"marker-{number}"
        webhook = {
            "name": "marker.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "objectSelector": {"matchLabels": {"marker": marker}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        self.cluster.api("POST", WEBHOOKS, kind | {"metadata": {"name": marker}, "webhooks": [webhook]})

        def is_asked() -> bool:
            labelled = {"metadata": {"name": marker, "labels": {"marker": marker}}}
            try:
                self.cluster.api("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", labelled)
            except ApiError as error:
                return "marker.example.com" in error.message
            return False

        eventually(is_asked)
        self.cluster.api("DELETE", f"{WEBHOOKS}/{marker}")


@pytest.fixture(scope="module")
def release(start_cluster: StartCluster) -> Iterator[Release]:
    cluster = start_cluster("rotation")
    operator = Operator(cluster, values={"admission": {"certificate": {"existingSecret": ""}, "caBundle": ""}})
    operator.install()
    release = Release(
        operator=operator,
        cluster=cluster,
        folder=cluster.folder / "mounted",
        kubeconfig=cluster.service_account_kubeconfig(NAMESPACE, "stoker-certificates"),
    )
    release.folder.mkdir()
    asyncio.run(release.keep(LIVES[0], timedelta(0)))
    mount(cluster, release.folder)
    operator.start_admission(f"--certificate-folder={release.folder}")
    yield release
    cluster.stop()


def test_no_review_fails_while_the_certificate_is_renewed_again_and_again(release: Release) -> None:
    cluster, done = release.cluster, Event()
    submitter = Submitter(cluster, cluster.create_namespace("rotation"))
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{submitter.namespace}/dljobs?dryRun=All"
    port = Webhook.of(cluster).port
    eventually(lambda: submitter.refused(dljob("bert", TOO_FEW)))

    def load() -> int:
        """Right and wrong jobs, each with its right answer: an ApiError of another kind ends it, and fails the test."""
        count = 0
        while not done.is_set():
            cluster.api("POST", path, dljob("bert"))
            with pytest.raises(ApiError, match="launcher-too-few"):
                cluster.api("POST", path, dljob("bert", TOO_FEW))
            count += 1
        return count

    serials = {mount(cluster, release.folder)}
    with ThreadPoolExecutor() as pool:
        counts = [pool.submit(load) for _ in range(2)]
        try:
            for number, valid in enumerate(LIVES[1:]):
                asyncio.run(release.keep(valid, timedelta(0)))
                release.wait_until_trusted(number)
                asyncio.run(release.keep(valid, SETTLE + timedelta(minutes=1)))
                serial = mount(cluster, release.folder)
                eventually(partial(serves, port, serial))
                serials.add(serial)
        finally:
            done.set()
        assert all(count.result() > len(LIVES) for count in counts)
    assert len(serials) == len(LIVES), "one renewal a step, though two processes have made it"
    configuration = json.loads(cluster.kubectl("get", "validatingwebhookconfiguration", SERVICE, "-o", "json"))
    bundles = {webhook["clientConfig"]["caBundle"] for webhook in configuration["webhooks"]}
    assert bundles == {cluster.api("GET", SECRET)["data"]["ca.crt"]}
