"""Kueue as an administrator sets it up, and what its Workloads and Jobs say."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.cluster.provider import H100, Cluster
from e2e.cluster.waiting import wait_for
from e2e.counterparts.controller import start
from e2e.counterparts.known import KUEUE

GROUP = "kueue.x-k8s.io"
MERGE = "application/merge-patch+json"
MARK = "stoker.dev/suspended-by"
QUEUE = {f"{GROUP}/queue-name": "gpus"}
GPUS = 32
"""The quota: all GPUs of the scenario's four nodes."""


@dataclass(frozen=True, slots=True)
class Kueue:
    """The real Kueue beside a cluster, with one ClusterQueue for all its GPUs."""

    cluster: Cluster

    def start(self) -> None:
        """Start it, and make its ClusterQueue and the flavor of GPUs."""
        start(self.cluster, KUEUE)
        version = f"{GROUP}/v1beta2"
        flavor = {"nodeLabels": {"nvidia.com/gpu.product": H100}}
        quota = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": GPUS}]}]
        queue = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": quota}],
        }
        self._apply({"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "h100"}, "spec": flavor})
        self._apply({"apiVersion": version, "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": queue})

    def open(self, namespace: str) -> None:
        """Give the namespace the LocalQueue `gpus`, and `default` for Jobs that name none; Jobs are suspended then."""
        for name in ("gpus", "default"):
            metadata = {"name": name, "namespace": namespace}
            spec = {"clusterQueue": "all"}
            self._apply({"apiVersion": f"{GROUP}/v1beta2", "kind": "LocalQueue", "metadata": metadata, "spec": spec})
        wait_for("Kueue to suspend new Jobs", lambda: self._suspends(namespace), quiet=True)

    def workload(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The Job's Workload. Raises LookupError before it has one."""
        selector = f"labelSelector={GROUP}/job-uid={job['metadata']['uid']}"
        [found] = self.cluster.api("GET", f"{_path(job['metadata']['namespace'])}?{selector}")["items"] or [None]
        if found is None:
            raise LookupError(f"no Workload of {job['metadata']['name']}")
        return dict(found)

    def switch(self, job: Mapping[str, Any]) -> tuple[bool, str | None]:
        """Whether the Job's Workload is active, and who had Stoker deactivate it."""
        found = self.workload(job)
        return found["spec"].get("active", True), found["metadata"].get("annotations", {}).get(MARK)

    def deactivate(self, job: Mapping[str, Any]) -> None:
        """Set spec.active of the Job's Workload to false, as an administrator does."""
        found = self.workload(job)["metadata"]
        self.cluster.api("PATCH", f"{_path(found['namespace'])}/{found['name']}", {"spec": {"active": False}}, MERGE)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Kueue has crashed, and is back afterwards."""
        self.cluster.kill(KUEUE.name)
        try:
            yield
        finally:
            self.cluster.restart(KUEUE.name)

    def _apply(self, body: Mapping[str, Any]) -> None:
        """Create it as soon as Kueue's webhook, of which the API server learns by a watch, can be called."""

        def applied() -> bool:
            self.cluster.apply(body)
            return True

        wait_for(f"{body['kind']} {body['metadata']['name']} to be admitted", applied, quiet=True)

    def _suspends(self, namespace: str) -> bool:
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        body = {"metadata": {"name": "probe"}, "spec": {"template": {"spec": pod}}}
        created = self.cluster.api("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All", body)
        return created["spec"].get("suspend") is True


def who_set_suspend(job: Mapping[str, Any]) -> set[str]:
    """The field managers whose word `spec.suspend` of the Job is."""
    return {
        entry["manager"]
        for entry in job["metadata"]["managedFields"]
        if "f:suspend" in entry.get("fieldsV1", {}).get("f:spec", {})
    }


def _path(namespace: str) -> str:
    return f"/apis/{GROUP}/v1beta2/namespaces/{namespace}/workloads"
