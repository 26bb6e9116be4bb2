"""Workloads of a namespace, and what Stoker says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import Operator

MERGE = "application/merge-patch+json"


def policy(namespace: str, kinds: Sequence[str]) -> dict[str, Any]:
    """The policy of one namespace: which kinds are watched."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "workloads": {"kinds": list(kinds)},
        },
    }


@dataclass(frozen=True, slots=True)
class Watched:
    """One namespace."""

    operator: Operator
    namespace: str

    @property
    def cluster(self) -> Cluster:
        return self.operator.cluster

    def all(self) -> dict[str, dict[str, Any]]:
        """Its GPUWorkloads by name."""
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{self.namespace}/gpuworkloads"
        return {one["metadata"]["name"]: one for one in self.cluster.api("GET", path)["items"]}

    def status(self, name: str) -> dict[str, Any]:
        """The status of one; empty before there is one."""
        status: dict[str, Any] = self.all().get(name, {}).get("status", {})
        return status

    def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        def probe() -> dict[str, Any]:
            status = self.status(name)
            assert status.get("phase") == phase, (sorted(self.all()), status)
            return status

        return wait_for(f"{name} to be {phase}", probe, timeout=60)

    def wait_names(self, *names: str) -> dict[str, dict[str, Any]]:
        """Wait until there are these GPUWorkloads and no others."""

        def probe() -> dict[str, dict[str, Any]]:
            found = self.all()
            assert set(found) == set(names), sorted(found)
            return found or {"": {}}

        return wait_for(f"the GPUWorkloads {', '.join(names) or 'to be gone'}", probe, timeout=60)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object below a path of the API, such as apis/apps/v1, in the namespace."""
        group, plural = path.rsplit("/", 1)
        made: dict[str, Any] = self.cluster.api("POST", f"/{group}/namespaces/{self.namespace}/{plural}", body)
        return made
