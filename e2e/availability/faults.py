"""What happens to the webhook's replicas under load: what administrators, nodes and crashes do to them.

A fault is done again and again while a load runs, each time after all replicas are ready again.
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from cryptography import x509

from e2e.availability.load import Load, Running
from e2e.cluster.api import ApiError
from e2e.cluster.node import NodeCluster
from e2e.cluster.waiting import wait_for
from e2e.installed import CERTIFICATES, InstalledOperator
from e2e.node import settings
from e2e.operator import ADMISSION, NAMESPACE
from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import Kubernetes
from stoker.certificates.renewal import SETTLE, CertificateKeeper, CertificateLocation

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ENDPOINTS = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices?labelSelector=kubernetes.io/service-name="
POLICIES = "/apis/stoker.dev/v1alpha1/utilizationpolicies"
MERGE = "application/merge-patch+json"
_WEBHOOK_PORT = 9443


class _ShiftedClock(SystemClock):
    """The real clock, and some time ahead: a renewal's second step does not wait."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


def kill_container(cluster: NodeCluster, pod: dict[str, Any]) -> None:
    """Send SIGKILL to the first process of the pod's only container."""
    [status] = pod["status"]["containerStatuses"]
    ctr = [str(cluster.programs["ctr"]), f"--address={settings.CONTAINERD_SOCKET}", "--namespace=k8s.io"]
    listed = cluster.run_inside([*ctr, "tasks", "list"]).splitlines()
    container = status["containerID"].removeprefix("containerd://")
    [process] = [line.split()[1] for line in listed if line.startswith(container)]
    cluster.run_inside(["kill", "-KILL", process])


@dataclass(kw_only=True)
class Faults:
    """Does things to the admission replicas of an installed operator."""

    operator: InstalledOperator
    load: Load
    _count: int = 0
    _renewals: int = 0
    _ports: dict[str, int] = field(default_factory=dict)
    """Ports of this machine that lead to replicas, by their addresses."""
    gone: list[float] = field(default_factory=list)
    """Seconds from a SIGKILL until the Service no longer led to the replica."""

    @property
    def all(self) -> dict[str, Callable[[], None]]:
        """By what is done."""
        return {
            "replicas rolled": self.roll,
            "replicas deleted": self.delete,
            "replicas evicted": self.evict,
            "certificates rotated": self.rotate,
            "policies edited": self.edit,
            "replicas killed": self.kill,
        }

    @staticmethod
    def repeat(fault: Callable[[], None], running: Sequence[Running]) -> int:
        """Do it until the loads are over; how often it was done."""
        done = 0
        while not all(one.is_over for one in running):
            fault()
            done += 1
        return done

    def roll(self) -> None:
        """Every replica is replaced by a new one, as by an upgrade."""
        self._kubectl("rollout", "restart", f"deployment/{ADMISSION}")
        self.operator.wait()

    def delete(self) -> None:
        """One replica is deleted; its Deployment makes another one."""
        self._kubectl("delete", "pod", self._pod()["metadata"]["name"], "--wait=false")
        self._recover()

    def evict(self) -> None:
        """One replica is evicted, as when its node is drained. The budget may refuse that for a while."""
        name = self._pod()["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }

        def evicted() -> bool:
            self.operator.cluster.api("POST", f"{PODS}/{name}/eviction", body)
            return True

        wait_for("the eviction to be allowed", evicted, quiet=True)
        self._recover()

    def rotate(self) -> None:
        """The webhook's certificate and its authority are replaced in their two steps, without the minutes between
        them: the second step waits until this test's requests trust the new authority, and so does the API server.
        """
        self._renewals += 1
        valid = timedelta(days=100 * 4**self._renewals)  # of each, less than a third of the next one's is left
        # the release's own process would wait between the steps
        self._kubectl("scale", f"deployment/{CERTIFICATES}", "--replicas=0")
        asyncio.run(self._keep(valid, timedelta(0)))
        self.load.trust()
        time.sleep(5.0)  # the API server learns of it by a watch, within a second
        asyncio.run(self._keep(valid, SETTLE + timedelta(minutes=1)))
        secret = self.operator.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{ADMISSION}-tls")
        shown = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"])).serial_number
        for pod in self._pods():
            # the kubelet renews what it has mounted within a minute or so
            serves = partial(self._serves, pod["status"]["podIP"], shown)
            wait_for("the new certificate to be served", serves, timeout=180, interval=0.5)
        self._kubectl("scale", f"deployment/{CERTIFICATES}", "--replicas=1")

    def edit(self) -> None:
        """A policy that is in force everywhere is changed; not in what it says of launchers."""
        self._count += 1
        spec = {"thresholds": {"lowPercent": 20 + self._count % 10}}
        body = {"apiVersion": "stoker.dev/v1alpha1", "kind": "UtilizationPolicy", "metadata": {"name": "default"}}
        try:
            self.operator.cluster.api("PATCH", f"{POLICIES}/default", {"spec": spec}, MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
            self.operator.cluster.api("POST", POLICIES, body | {"spec": spec})
        time.sleep(0.2)  # five edits a second

    def kill(self) -> None:
        """A replica's process is killed with SIGKILL; the kubelet starts it again, each time after a longer while."""
        pod = self._pod()
        kill_container(self.operator.cluster, pod)
        killed = time.time()
        wait_for("the Service to leave it out", lambda: pod["status"]["podIP"] not in self._addresses(), interval=0.02)
        self.gone.append(time.time() - killed)
        self._recover()

    # ----------------------------------------------------------------------------------------------------------------

    def _kubectl(self, *arguments: str) -> None:
        self.operator.cluster.kubectl(*arguments, f"--namespace={NAMESPACE}")

    def _pods(self) -> list[dict[str, Any]]:
        selector = "labelSelector=app.kubernetes.io/component=admission"
        items = self.operator.cluster.api("GET", f"{PODS}?{selector}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def _pod(self) -> dict[str, Any]:
        """Each time another one."""
        self._count += 1
        pods = sorted(self._pods(), key=lambda pod: str(pod["metadata"]["name"]))
        return pods[self._count % len(pods)]

    def _recover(self) -> None:
        """Return when the Service leads to all replicas again."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{ADMISSION}"
        replicas = self.operator.cluster.api("GET", path)["spec"]["replicas"]

        def recovered() -> bool:
            addresses = {pod["status"].get("podIP") for pod in self._pods()}
            return len(addresses) == replicas and addresses == self._addresses()

        wait_for("all replicas to be ready", recovered, timeout=120, interval=0.2)

    def _serves(self, address: str, serial: int) -> bool:
        """Whether a replica shows this certificate to a new connection."""
        if address not in self._ports:
            self._ports[address] = self.operator.cluster.forward(address, _WEBHOOK_PORT)
        shown = ssl.get_server_certificate(("127.0.0.1", self._ports[address]), timeout=30)
        return x509.load_pem_x509_certificate(shown.encode()).serial_number == serial

    def _addresses(self) -> set[str]:
        """Where the Service leads to."""
        slices = self.operator.cluster.api("GET", f"{ENDPOINTS}{ADMISSION}")["items"]
        return {
            address
            for one in slices
            for endpoint in one["endpoints"] or ()
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        }

    async def _keep(self, valid: timedelta, ahead: timedelta) -> None:
        place = CertificateLocation(
            namespace=NAMESPACE,
            secret=f"{ADMISSION}-tls",
            webhook=ADMISSION,
            names=(f"{ADMISSION}.{NAMESPACE}.svc", f"{ADMISSION}.{NAMESPACE}.svc.cluster.local"),  # the chart's
            valid=valid,
        )
        async with await Kubernetes.connect(kubeconfig=str(self.operator.cluster.kubeconfig)) as api:
            await CertificateKeeper(api, place, _ShiftedClock(ahead)).look()
