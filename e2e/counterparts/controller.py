"""What there is to know of one such controller, and how it is started beside a cluster."""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from e2e.cluster import binaries
from e2e.cluster.pki import write_private
from e2e.cluster.provider import Cluster, ClusterError
from e2e.cluster.waiting import wait_for

Object = dict[str, Any]

LEFT_OUT = frozenset({"Deployment", "Service", "ConfigMap", "APIService"})
"""What a process beside the cluster has no use for; its webhooks' Service is made by `expose_webhook`."""
START = 90.0
"""Seconds to be ready in. On two idle cores it takes five; chosen because a busy machine is ten times as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a controller runs: the address and ports it listens at, and the folder of its webhooks' certificate."""

    host: str
    webhook_port: int
    health_port: int
    spare_port: int
    """For what else it serves: metrics, or a status."""
    certificates: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One controller, by the name of its program in e2e/cluster/binaries.py."""

    name: str
    manifests: tuple[str, ...]
    """Folders of its module with a kustomization each."""
    namespace: str
    account: str
    """The ServiceAccount that the manifests make for it."""
    service: str | None = None
    """Its webhooks' Service; None where it has no webhooks."""
    own_certificate: str | None = None
    """The Secret into which it writes a certificate that it makes itself; otherwise it gets one of the cluster's CA."""
    default_certificate_folder: bool = False
    """It looks for its certificate below the temporary folder, where controller-runtime does: no setting says where."""
    configuration: Callable[[Place], Mapping[str, Any]] | None = None
    """Its configuration file, for the flag --config."""
    arguments: Callable[[Place], Sequence[str]] = lambda _: ()
    environment: Mapping[str, str] | None = None
    readiness: str | None = "readyz"
    """The path that answers 200 at `health_port` once it is ready; None where its port is fixed, which a second cluster
    would need, too: then it counts as ready once it runs.
    """


def start(cluster: Cluster, *controllers: Controller, report: Callable[[str], object] | None = None) -> None:
    """Install and start these controllers, one after the other; each is ready to work, webhooks included, on return.

    Their processes at the cluster's supervisor have the controllers' names. Raises ClusterError when a program or its
    manifests can't be had, or a process does not become ready.
    """
    programs = binaries.resolve_all([one.name for one in controllers], report)
    for one in controllers:
        _Installation(cluster, one, manifests(one, report)).start(programs[one.name])


def manifests(controller: Controller, report: Callable[[str], object] | None = None) -> list[Object]:
    """The controller's objects as its own project deploys them, rendered once by `kubectl kustomize`."""
    text = json.dumps([controller.namespace, *controller.manifests])
    key = hashlib.sha256(text.encode()).hexdigest()[:12]

    def render() -> str:
        module = binaries.module_folder(controller.name, report)
        kubectl = binaries.resolve("kubectl", report)
        with tempfile.TemporaryDirectory() as folder:
            above = Path(folder).resolve()
            # kustomize takes no absolute path, and by itself no file outside its folder
            resources = [os.path.relpath(module / path, above) for path in controller.manifests]
            kustomization = {"resources": resources, "namespace": controller.namespace}
            (above / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            argv: list[str | Path] = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", above]
            answer = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        if answer.returncode != 0:
            raise ClusterError(f"kubectl could not render the manifests of {controller.name}: {answer.stderr}")
        objects = [one for one in yaml.safe_load_all(answer.stdout) if one and one["kind"] not in LEFT_OUT]
        return json.dumps(objects)

    path = binaries.cached_beside(controller.name, f"manifests-{key}.json", render, report)
    objects: list[Object] = json.loads(path.read_text())
    return objects


@dataclass(frozen=True, slots=True)
class _Installation:
    """One controller in one cluster."""

    cluster: Cluster
    controller: Controller
    objects: Sequence[Object]

    def start(self, program: Path) -> None:
        kinds = [one for one in self.objects if one["kind"] == "CustomResourceDefinition"]
        webhooks = [one for one in self.objects if one["kind"].endswith("WebhookConfiguration")]
        defined = {one["spec"]["names"]["kind"] for one in kinds}
        samples = [one for one in self.objects if one["kind"] in defined]
        others = [one for one in self.objects if one not in kinds and one not in webhooks and one not in samples]
        port = self.cluster.reserve_port()
        for one in kinds:
            conversion = one["spec"].get("conversion", {}).get("webhook")
            if conversion:
                self._lead(conversion, port)
        for one in webhooks:
            for webhook in one["webhooks"]:
                self._lead(webhook, port)

        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.controller.namespace}}
        self._apply([namespace, *kinds, *others])
        for one in kinds:
            name = one["metadata"]["name"]
            wait_for(f"the kind {name} to be served", partial(self._is_established, name), timeout=60)
        if self.controller.service is not None:
            self.cluster.expose_webhook(self.controller.namespace, self.controller.service, port)
        if self.controller.own_certificate is not None:
            self._apply(webhooks)  # it writes its CA into them before it is ready
        self._start(program, port)
        self._apply([*([] if self.controller.own_certificate else webhooks), *samples])

    def _is_established(self, name: str) -> bool:
        kind = self.cluster.api("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = kind.get("status", {}).get("conditions") or []
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)

    def _lead(self, webhook: Object, port: int) -> None:
        """Have the API server call a webhook at this port, and trust the cluster's CA there."""
        webhook["clientConfig"]["service"]["port"] = port
        if self.controller.own_certificate is None:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(self.cluster.ca_pem.encode()).decode()

    def _apply(self, objects: Sequence[Object]) -> None:
        if objects:
            self.cluster.apply({"apiVersion": "v1", "kind": "List", "items": list(objects)})

    def _start(self, program: Path, port: int) -> None:
        controller, cluster = self.controller, self.cluster
        folder = cluster.folder / controller.name
        below = "k8s-webhook-server/serving-certs" if controller.default_certificate_folder else "certificate"
        place = Place(
            host=cluster.webhook_host,
            webhook_port=port,
            health_port=cluster.reserve_port(),
            spare_port=cluster.reserve_port(),
            certificates=folder / below,
        )
        place.certificates.mkdir(parents=True, exist_ok=True)
        if controller.service is not None and controller.own_certificate is None:
            names = (f"{controller.service}.{controller.namespace}.svc", "localhost", cluster.webhook_host)
            cluster.issue_certificate(*names, folder=place.certificates)
        argv: list[str | Path] = [program, *controller.arguments(place)]
        if controller.configuration is not None:
            settings = folder / "configuration.yaml"
            settings.write_text(yaml.safe_dump(dict(controller.configuration(place))))
            argv.append(f"--config={settings}")
        kubeconfig = cluster.service_account_kubeconfig(controller.namespace, controller.account)
        environment = {"KUBECONFIG": str(kubeconfig), **(controller.environment or {})}
        if controller.default_certificate_folder:
            environment["TMPDIR"] = str(folder)

        def ready() -> bool:
            if controller.own_certificate is not None:
                self._mount(controller.own_certificate, place.certificates)
            if controller.readiness is None:
                return True
            url = f"http://127.0.0.1:{place.health_port}/{controller.readiness}"
            with urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)

        cluster.start_process(controller.name, argv, env=environment, ready=ready, timeout=START)

    def _mount(self, secret: str, folder: Path) -> None:
        """Write a Secret's files into a folder, as kubelet would, once it has any."""
        path = f"/api/v1/namespaces/{self.controller.namespace}/secrets/{secret}"
        for name, value in (self.cluster.api("GET", path).get("data") or {}).items():
            if not (folder / name).exists():
                write_private(folder / name, base64.b64decode(value).decode())
