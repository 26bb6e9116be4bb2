"""The operator in a scratch cluster: the chart's objects, installed by helm, and its two processes beside them.

Simulated nodes run no containers, so the chart's two Deployments stay at no replicas, and the same two commands run
here as processes. Each has a token of its own ServiceAccount: what it may do is what the chart's RBAC allows, nothing
more.
"""

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for

CHART = Path(__file__).parent.parent / "charts" / "stoker"
NAMESPACE = "stoker-system"
RELEASE = "stoker"
SERVICE = "stoker-admission"
ADMISSION = "stoker-admission"
CONTROLLER = "stoker-controller"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/stoker-controller"


class Operator:
    """Stoker installed in one cluster. Processes are named ADMISSION and CONTROLLER at the cluster's supervisor."""

    def __init__(
        self, cluster: Cluster, *, values: Mapping[str, Any] | None = None, log_level: str | None = None
    ) -> None:
        """`log_level` None: the commands' own default."""
        self.cluster = cluster
        self._log_options = [] if log_level is None else [f"--log-level={log_level}"]
        self._port = cluster.reserve_port()
        self.certificates = cluster.folder / "admission-certificate"
        self._values = dict(values or {})
        self._metrics_ports: dict[str, int] = {}

    @property
    def values(self) -> dict[str, Any]:
        """The chart's values that fit this cluster, the caller's laid over them."""
        admission = {
            "replicas": 0,
            "certificate": {"existingSecret": "e2e"},
            "caBundle": base64.b64encode(self.cluster.ca_pem.encode()).decode(),
            "service": {"port": self._port},
        }
        return laid_over({"admission": admission, "controller": {"replicas": 0}}, self._values)

    @property
    def _notes_sessions(self) -> bool:
        return bool(self.values["admission"].get("sessionWebhook", {}).get("enabled"))

    def install(self) -> None:
        """`helm upgrade --install` of the chart with `values`, connected to this machine."""
        values = self.cluster.folder / "values.json"
        values.write_text(json.dumps(self.values))
        self.cluster.helm(
            "upgrade",
            "--install",
            RELEASE,
            str(CHART),
            f"--namespace={NAMESPACE}",
            "--create-namespace",
            f"--values={values}",
        )
        self.connect()

    def connect(self) -> None:
        """After an installation with `values`: wait for the kinds, lead the webhook's Service to this machine."""
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.cluster.expose_webhook(NAMESPACE, SERVICE, self._port)

    def start_admission(self, *options: str, scrape_interval: str = "30s") -> None:
        """Start the admission process, with further options if any; return when it is ready to review."""
        names = (f"{SERVICE}.{NAMESPACE}.svc", "localhost", "127.0.0.1")
        self.cluster.issue_certificate(*names, folder=self.certificates)
        self._start(
            ADMISSION,
            "admission",
            f"--address={self.cluster.webhook_host}",
            f"--port={self._port}",
            f"--certificate-folder={self.certificates}",
            f"--scrape-interval={scrape_interval}",
            *(["--note-sessions", "--trust-network"] if self._notes_sessions else []),
            *options,
        )

    def start_controller(
        self,
        *,
        prometheus_url: str | None = None,
        scan_interval: str = "2s",
        minimum_warning_grace: str = "1m",
        environment: Mapping[str, str] | None = None,
        process: str = CONTROLLER,
        options: Sequence[str] = (),
    ) -> None:
        """Start the controller, with further options if any; return when it has listed its objects. Prometheus need not
        run yet. A second one gets the name of another `process`.
        """
        self._start(
            process,
            "controller",
            f"--namespace={NAMESPACE}",
            f"--prometheus-url={prometheus_url or self.cluster.prometheus_url}",
            f"--scan-interval={scan_interval}",
            f"--minimum-warning-grace={minimum_warning_grace}",
            *options,
            environment=environment,
        )

    def kill_controller(self) -> None:
        """Kill the controller with -9, and take its lease from it: the next one would wait until that has run out."""
        if self.cluster.running(CONTROLLER):
            self.cluster.kill(CONTROLLER)
        self.release_lease()

    def crash(self, **controller: Any) -> None:
        """`kill_controller`, and start it again, with other settings if any are given."""
        self.kill_controller()
        if controller:
            self.start_controller(**controller)
        else:
            self.cluster.restart(CONTROLLER)

    def ensure_controller(self) -> None:
        """Start the controller again where a test that failed has left it dead."""
        if not self.cluster.running(CONTROLLER):
            self.crash()

    def release_lease(self) -> None:
        """Nobody leads. What the last holder has sent may arrive meanwhile, and change the lease: then once more."""

        def released() -> bool:
            lease = self.cluster.api("GET", LEASE)
            lease["spec"]["holderIdentity"] = ""
            self.cluster.api("PUT", LEASE, lease)
            return True

        wait_for("the lease to be released", released, quiet=True)

    def leader(self) -> str:
        """Who leads by the lease; empty where nobody does."""
        return str(self.cluster.api("GET", LEASE)["spec"].get("holderIdentity", ""))

    def start(self, **controller: Any) -> None:
        """Install the chart and start both processes."""
        self.install()
        self.start_admission()
        self.start_controller(**controller)

    def metric(self, name: str, *, process: str = ADMISSION, **labels: str) -> float:
        """A sample of a process' metrics page; 0 while there is none."""
        families = text_string_to_metric_families(self.metrics_page(process))
        samples = (sample for family in families for sample in family.samples)
        return next((one.value for one in samples if one.name == name and labels.items() <= one.labels.items()), 0.0)

    def metrics_page(self, process: str = CONTROLLER) -> str:
        """What Prometheus would scrape of it."""
        with urlopen(f"http://{self.metrics_address(process)}/metrics", timeout=10) as response:
            return str(response.read().decode())

    def metrics_address(self, process: str = CONTROLLER) -> str:
        """Where a process serves its metrics: host and port."""
        return f"127.0.0.1:{self._metrics_ports[process]}"

    def _start(self, name: str, role: str, *options: str, environment: Mapping[str, str] | None = None) -> None:
        health = self.cluster.reserve_port()
        metrics = self._metrics_ports[name] = self.cluster.reserve_port()
        kubeconfig = self.cluster.service_account_kubeconfig(NAMESPACE, f"stoker-{role}")
        self.cluster.start_process(
            name,
            [
                *(sys.executable, "-m", "stoker", "run", *self._log_options, role),
                *(f"--health-port={health}", f"--metrics-port={metrics}", "--no-metrics-authentication"),
                *options,
            ],
            env={"KUBECONFIG": str(kubeconfig), **(environment or {})},
            ready=lambda: answers(f"http://127.0.0.1:{health}/readyz"),
        )
        self.cluster.scrape(name, metrics)


def answers(url: str) -> bool:
    """Whether a probe says yes."""
    with urlopen(url, timeout=1) as response:
        return bool(response.status == 200)


def laid_over(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The chart's values `base` with those of `over` in their place, as helm merges them."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = laid_over(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return merged
