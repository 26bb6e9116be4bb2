"""The default provider: a control plane of plain processes on loopback, without root and without Docker."""

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import binaries
from e2e.cluster.api import kubeconfig_text
from e2e.cluster.base import SupervisedCluster
from e2e.cluster.pki import service_account_keys, write_private

# What needs a cloud or an overlay network has nothing to do here.
_CONTROLLERS = "*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller"


WEBHOOK_CLIENT = "kube-apiserver-webhooks"
"""Whom the API server is to webhooks: the common name of its certificate."""


class LocalCluster(SupervisedCluster):
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler; kwok is every node's kubelet.

    There is no network between pods and no DNS: a webhook's Service becomes an ExternalName for localhost.
    """

    needs: tuple[str, ...] = binaries.LOCAL
    api_server_names: tuple[str, ...] = (
        *("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
        "10.96.0.1",  # the Service kubernetes
    )

    def _start_control_plane(self) -> None:
        self._etcd_url = self._start_etcd()
        server = self._start_api_server(self._etcd_url)
        kubeconfigs = {
            name: self._write_kubeconfig(name, server, user)
            for name, user in (
                ("kube-controller-manager", "system:kube-controller-manager"),
                ("kube-scheduler", "system:kube-scheduler"),
            )
        }
        manager, scheduler = kubeconfigs["kube-controller-manager"], kubeconfigs["kube-scheduler"]
        self.start_process(
            "kube-controller-manager",
            [
                self.programs["kube-controller-manager"],
                *_three_times(manager),
                f"--service-account-private-key-file={self._pki / 'sa.key'}",
                f"--root-ca-file={self._pki / 'ca.crt'}",
                "--use-service-account-credentials",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.reserve_port()}",
                "--leader-elect=false",
                "--kube-api-qps=200",  # at the default of 20 its controllers take 5 s to start
                "--kube-api-burst=400",
                f"--controllers={_CONTROLLERS}",
            ],
        )
        self.start_process(
            "kube-scheduler",
            [
                self.programs["kube-scheduler"],
                *_three_times(scheduler),
                "--bind-address=127.0.0.1",
                f"--secure-port={self.reserve_port()}",
                "--leader-elect=false",
            ],
        )
        self._start_kwok(self.kubeconfig)

    @property
    def etcd_url(self) -> str:
        return self._etcd_url

    def expose_webhook(self, namespace: str, service: str, port: int) -> None:
        path = f"/api/v1/namespaces/{namespace}/services"
        spec: dict[str, Any] = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        existing = {item["metadata"]["name"] for item in self.api("GET", path)["items"]}
        if service in existing:
            # null removes what an ExternalName must not have
            gone = dict.fromkeys(("clusterIP", "clusterIPs", "selector", "ipFamilies", "ipFamilyPolicy"))
            self.api("PATCH", f"{path}/{service}", {"spec": gone | spec}, "application/merge-patch+json")
        else:
            body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": spec}
            self.api("POST", path, body)

    # ---------------------------------------------------------------------------------------------------- the parts

    @property
    def _pki(self) -> Path:
        return self.folder / "pki"

    def _start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{self.reserve_port()}" for _ in range(2))
        self.start_process(
            "etcd",
            [
                self.programs["etcd"],
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",  # nothing here must survive the machine
                "--log-level=warn",
            ],
            ready=_answers(f"{client}/health"),
        )
        return client

    def _start_api_server(self, etcd: str) -> str:
        self._pki.mkdir(mode=0o700, exist_ok=True)
        write_private(self._pki / "ca.crt", self._authority.pem)
        private, public = service_account_keys()
        write_private(self._pki / "sa.key", private)
        write_private(self._pki / "sa.pub", public)
        certificate, key = self._authority.issue_server(self.api_server_names)
        write_private(self._pki / "apiserver.crt", certificate)
        write_private(self._pki / "apiserver.key", key)
        self._api_port = port = self.reserve_port()
        server = f"https://127.0.0.1:{port}"
        shown = self._webhook_identity()
        self._write_kubeconfig("admin", server, "e2e-admin", "system:masters")
        self.start_process(
            "kube-apiserver",
            [
                self.programs["kube-apiserver"],
                f"--etcd-servers={etcd}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                f"--tls-cert-file={self._pki / 'apiserver.crt'}",
                f"--tls-private-key-file={self._pki / 'apiserver.key'}",
                f"--client-ca-file={self._pki / 'ca.crt'}",
                f"--admission-control-config-file={shown}",
                f"--service-account-key-file={self._pki / 'sa.pub'}",
                f"--service-account-signing-key-file={self._pki / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--authorization-mode=Node,RBAC",
                # as GPU clouds have it: a pod that requests GPUs tolerates the taint of GPU nodes
                "--enable-admission-plugins=ExtendedResourceToleration",
                "--allow-privileged=true",
                # a simulated node's name leads nowhere; its address is where kwok serves logs
                "--kubelet-preferred-address-types=InternalIP",
                "--profiling=false",
                f"--audit-policy-file={self._audit_policy()}",
                f"--audit-log-path={self.audit_log}",
                *self._api_server_options(),
            ],
            ready=lambda: self.api("GET", "/readyz") == "ok",
            timeout=60,
        )
        return server

    def _api_server_options(self) -> list[str]:
        """What a provider that builds on this one has the API server do besides."""
        return []

    def _audit_policy(self) -> Path:
        """The API server records who of the operator's namespace asked for what, for e2e/permissions.py."""
        rules = [{"level": "Metadata", "userGroups": ["system:serviceaccounts:stoker-system"]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        return write_private(self._pki / "audit.yaml", yaml.safe_dump(policy))

    def _webhook_identity(self) -> Path:
        """What the API server shows to webhooks that ask for a client's certificate, as its option wants it."""
        certificate, key = self._authority.issue_client(WEBHOOK_CLIENT)
        user = {
            "client-certificate": str(write_private(self._pki / "webhook-client.crt", certificate)),
            "client-key": str(write_private(self._pki / "webhook-client.key", key)),
        }
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
        path = write_private(self._pki / "webhooks.kubeconfig", yaml.safe_dump(kubeconfig))
        plugin = {
            "name": "ValidatingAdmissionWebhook",
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": str(path),
            },
        }
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [plugin],
        }
        return write_private(self._pki / "admission.yaml", yaml.safe_dump(configuration))

    def _write_kubeconfig(self, name: str, server: str, user: str, *groups: str) -> Path:
        certificate, key = self._authority.issue_client(user, groups)
        text = kubeconfig_text(
            server=server,
            ca=self._pki / "ca.crt",
            certificate=write_private(self._pki / f"{name}.crt", certificate),
            key=write_private(self._pki / f"{name}.key", key),
        )
        return write_private(self.folder / f"{name}.kubeconfig", text)


def _three_times(kubeconfig: Path) -> list[str]:
    return [f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")]


def _answers(url: str) -> Callable[[], bool]:
    def probe() -> bool:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)

    return probe
