"""What a user does: kubectl with a manifest, and what it prints."""

import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from subprocess import CompletedProcess
from typing import Any, ClassVar

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for

IMAGE = "registry.example.com/nlp/bert:2026.11"
GOOD = "torchrun train.py --batch-size 32\n"
TOO_FEW = "torchrun --nproc_per_node=4 train.py\n"
"""Refused on 8 GPUs."""
UNPINNED: dict[str, Any] = {"image": "registry.example.com/nlp/bert:latest"}
"""Warned of."""


def dljob(name: str, script: str = GOOD, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A DLJob on 8 GPUs of one node unless `spec` says otherwise."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"gpusPerNode": 8, "image": IMAGE, "script": script, **spec},
    }


def policy(name: str = "default", **spec: Any) -> dict[str, Any]:
    """A UtilizationPolicy."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def action(rule: str, chosen: str) -> dict[str, Any]:
    """The part of a policy that says what is done about one rule."""
    return {"rules": {rule: {"action": chosen}}}


@dataclass(frozen=True, slots=True)
class Submitter:
    """Somebody who submits to one namespace."""

    cluster: Cluster
    namespace: str

    def kubectl(self, *args: str, manifest: Mapping[str, Any] | None = None) -> CompletedProcess[str]:
        """`kubectl ARGS` in the namespace, with the manifest on stdin."""
        stdin = None if manifest is None else json.dumps(manifest)
        return self.cluster.run_kubectl("--namespace", self.namespace, *args, input=stdin)

    def create(self, manifest: Mapping[str, Any], *options: str) -> CompletedProcess[str]:
        """`kubectl create -f -`."""
        return self.kubectl("create", "-f", "-", *options, manifest=manifest)

    def judged_without_policies(self) -> bool:
        """Whether dry runs are judged as without any policy: the webhook learns by a watch that one was deleted."""
        client = self.cluster.client()
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{self.namespace}/dljobs?dryRun=All"
        try:
            client.request("POST", path, dljob("few", TOO_FEW))
        except ApiError as refused:
            return refused.status == 422 and bool(client.request("POST", path, dljob("latest", **UNPINNED)).warnings)
        return False

    def refused(self, manifest: Mapping[str, Any]) -> bool:
        """Whether a dry run of the manifest is refused."""
        return self.create(manifest, "--dry-run=server").returncode != 0


def eventually(holds: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait until something holds; at once if it does already."""
    wait_for("what should hold", holds, timeout=within)


@dataclass(frozen=True, slots=True)
class Webhook:
    """The chart's ValidatingWebhookConfiguration and the address of the process that it leads to."""

    cluster: Cluster
    port: int
    """The process' port on loopback."""

    NAME: ClassVar[str] = "stoker-admission"

    @classmethod
    def of(cls, cluster: Cluster) -> "Webhook":
        """The one that is installed in the cluster."""
        at = "jsonpath={.webhooks[0].clientConfig.service.port}"
        return cls(cluster, int(cluster.kubectl("get", "validatingwebhookconfiguration", cls.NAME, "-o", at)))

    @property
    def configuration(self) -> dict[str, Any]:
        """The object without what the API server adds to it: fit to be created again."""
        shown = self.cluster.kubectl("get", "validatingwebhookconfiguration", self.NAME, "-o", "json")
        configuration: dict[str, Any] = json.loads(shown)
        name = configuration["metadata"]["name"]
        return configuration | {"metadata": {"name": name}}

    def request(
        self, body: bytes, *, path: str = "/validate/dljobs", content_type: str = "application/json"
    ) -> tuple[int, str]:
        """POST to the process past the API server, over a connection of its own: status and text."""
        context = ssl.create_default_context(cadata=self.cluster.ca_pem)
        connection = HTTPSConnection("localhost", self.port, timeout=30, context=context)
        try:
            connection.request("POST", path, body, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def serial_served(self) -> int:
        """The serial number of the certificate that a new connection is shown."""
        context = ssl.create_default_context(cadata=self.cluster.ca_pem)
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            certificate = connection.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)

    def serves(self, serial: int) -> bool:
        """Whether the certificate with that serial number is shown."""
        return self.serial_served() == serial

    def set_failure_policy(self, chosen: str) -> None:
        """What the chart's value admission.failurePolicy does."""
        patch = [
            {"op": "replace", "path": f"/webhooks/{index}/failurePolicy", "value": chosen}
            for index in range(len(self.configuration["webhooks"]))
        ]
        self.cluster.kubectl(
            "patch", "validatingwebhookconfiguration", self.NAME, "--type=json", f"--patch={json.dumps(patch)}"
        )

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Take the configuration away for a while."""
        kept = self.configuration
        self.cluster.kubectl("delete", "validatingwebhookconfiguration", self.NAME)
        try:
            yield
        finally:
            self.cluster.kubectl("create", "-f", "-", input=json.dumps(kept))
