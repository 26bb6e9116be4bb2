"""Jobs of plain Kubernetes on simulated nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for


def ago(**time: float) -> str:
    """RFC 3339 of so long ago (`hours=12`)."""
    return (datetime.now(UTC) - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Jobs:
    """The Jobs of one namespace."""

    cluster: Cluster
    namespace: str

    def create(
        self,
        name: str,
        *,
        pods: int = 1,
        gpus: int = 1,
        grace: int = 2,
        init: bool = False,
        labels: Mapping[str, str] | None = None,
        **play: str,
    ) -> None:
        """Create an Indexed Job; `labels` are its pods', `play` the annotations e2e.stoker.dev/..., with _ for -."""
        spec: dict[str, Any] = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "containers": [
                {
                    "name": "trainer",
                    "image": "registry.example.com/train:1",
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ],
        }
        if init:
            spec["initContainers"] = [
                {"name": "fetch", "image": "registry.example.com/fetch:1"},
                {"name": "logs", "image": "registry.example.com/logs:1", "restartPolicy": "Always"},
            ]
        annotations = {f"e2e.stoker.dev/{key.replace('_', '-')}": value for key, value in play.items()}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "completionMode": "Indexed",
                "completions": pods,
                "parallelism": pods,
                "backoffLimit": 0,
                "podReplacementPolicy": "Failed",
                "template": {"metadata": {"labels": dict(labels or {}), "annotations": annotations}, "spec": spec},
            },
        }
        self.cluster.api("POST", f"/apis/batch/v1/namespaces/{self.namespace}/jobs", body)

    def status(self, name: str) -> dict[str, Any]:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}"
        status: dict[str, Any] = self.cluster.api("GET", path)["status"]
        return status

    def patch(self, name: str, **spec: Any) -> None:
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}"
        self.cluster.api("PATCH", path, {"spec": spec}, "application/merge-patch+json")

    def pods(self, name: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=batch.kubernetes.io/job-name={name}"
        items: list[dict[str, Any]] = self.cluster.api("GET", path)["items"]
        return items

    def running(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until that many of its pods run; return them."""

        def probe() -> list[dict[str, Any]]:
            pods = [pod for pod in self.pods(name) if pod["status"].get("phase") == "Running"]
            assert len(pods) == count, [pod["status"] for pod in self.pods(name)]
            return pods

        return wait_for(f"{count} running pods of {name}", probe)
