"""The operator as users install it: the chart's own Deployments, from the image, on a real node."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from e2e.cluster.node import NodeCluster
from e2e.cluster.waiting import wait_for
from e2e.node.settings import NODE_ADDRESS, PROMETHEUS_PORT
from e2e.operator import ADMISSION, CHART, CONTROLLER, NAMESPACE, RELEASE, laid_over

CERTIFICATES = "stoker-certificates"
DEPLOYMENTS = (ADMISSION, CONTROLLER, CERTIFICATES)
_METRICS_PORT = 8443
_SECONDS_TO_START = 120.0
"""For all pods together, on two idle cores; they need about ten."""


class InstalledOperator:
    """Stoker in the cluster. What it is asked to do, kubelet and the controllers do."""

    def __init__(self, cluster: NodeCluster, *, values: Mapping[str, Any] | None = None) -> None:
        self.cluster = cluster
        self.values = laid_over(
            {"prometheus": {"url": f"http://{NODE_ADDRESS}:{PROMETHEUS_PORT}"}, "image": {"pullPolicy": "Never"}},
            dict(values or {}),
        )

    def start(self) -> None:
        """Bring the image to the node, install the chart, wait until all pods are ready."""
        self.prepare()
        self.install()

    def install(self, chart: Path = CHART, *, values: Mapping[str, Any] | None = None) -> None:
        """Install the chart or upgrade the release to it, with further values if any; wait until all pods are ready."""
        file = self.cluster.folder / "values.json"
        file.write_text(json.dumps(laid_over(self.values, values or {})))
        self._helm("upgrade", "--install", RELEASE, str(chart), "--create-namespace", f"--values={file}")
        self.wait()

    def rollback(self) -> None:
        """Go back to the release's revision before this one; wait until all pods are ready."""
        self._helm("rollback", RELEASE)
        self.wait()

    def uninstall(self) -> None:
        """Remove the release; return when its pods are gone."""
        self._helm("uninstall", RELEASE, "--wait", "--timeout=5m")
        # helm leaves the pod of `helm test`
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component!=test"
        wait_for("the release's pods to end", lambda: self.cluster.api("GET", path)["items"] == [], timeout=60)

    def test(self) -> str:
        """What `helm test` prints, the log of its pod included. Raises CommandError where the test fails."""
        return self._helm("test", RELEASE, "--logs")

    def _helm(self, *arguments: str) -> str:
        return self.cluster.helm(*arguments, f"--namespace={NAMESPACE}")

    def prepare(self) -> None:
        """Bring the image to the node: there is no registry to pull it from."""
        self.cluster.import_operator()

    def scrape(self) -> None:
        """Have Prometheus scrape both processes' pods; needs `metrics.authentication: false`."""
        for component in ("admission", "controller"):
            selector = f"labelSelector=app.kubernetes.io/component={component}"
            for pod in self.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{selector}")["items"]:
                port = self.cluster.forward(pod["status"]["podIP"], _METRICS_PORT)
                self.cluster.scrape(pod["metadata"]["name"], port)

    def wait(self) -> None:
        """Return when all replicas of all Deployments are ready, and none of a former version is left."""
        for name in DEPLOYMENTS:
            wait_for(f"all pods of {name} to be ready", partial(self._rolled_out, name), timeout=_SECONDS_TO_START)

    def _rolled_out(self, name: str) -> bool:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        found = self.cluster.api("GET", path)
        wanted, status = found["spec"]["replicas"], found["status"]
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")}
        return bool(seen and counts == {wanted})
