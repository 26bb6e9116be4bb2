"""DLJobs of one namespace and what the operator makes of them, as tests look at them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for

MERGE = "application/merge-patch+json"
POLICIES = "/apis/stoker.dev/v1alpha1/utilizationpolicies"
IMAGE = "registry.example.com/nlp/bert:2026.11"


@contextmanager
def dljobs_of_their_own(cluster: Cluster, name: str) -> Iterator["DLJobs"]:
    """A namespace of its own; what holds GPUs in it is gone before the next test begins."""
    namespace = cluster.create_namespace(name)
    yield DLJobs(cluster, namespace)
    cluster.kubectl("delete", "dljobs,jobs,pods", "--all", "-n", namespace, "--force", "--grace-period=0")
    cluster.api("DELETE", f"/api/v1/namespaces/{namespace}")


@dataclass(frozen=True, slots=True)
class DLJobs:
    """Creates DLJobs and reads them, their Job, their pods and their events."""

    cluster: Cluster
    namespace: str

    def create(
        self,
        name: str,
        *,
        play: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pod_template: Mapping[str, Any] | None = None,
        grace: int = 1,
        **spec: Any,
    ) -> dict[str, Any]:
        """Create a DLJob with eight GPUs on each node.

        `play` are the pods' annotations e2e.stoker.dev/..., with _ for -; `grace` is their time to end after SIGTERM.
        """
        steered = {f"e2e.stoker.dev/{key.replace('_', '-')}": value for key, value in (play or {}).items()}
        template: dict[str, Any] = {
            "metadata": {"annotations": steered},
            "spec": {"terminationGracePeriodSeconds": grace, **(pod_template or {})},
        }
        body = {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "DLJob",
            "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
            "spec": {
                "gpusPerNode": 8,
                "image": IMAGE,
                "script": "torchrun train.py",
                "podTemplate": template,
                **spec,
            },
        }
        created: dict[str, Any] = self.cluster.api("POST", self._path("dljobs"), body)
        return created

    def create_admitted(self, name: str, **spec: Any) -> None:
        """Create a DLJob as soon as the webhook lets it pass, which learns by a watch that a policy does."""

        def admitted() -> bool:
            self.create(name, **spec)
            return True

        wait_for(f"{name} to be admitted", admitted, quiet=True)

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.api("GET", self._path("dljobs", name))
        return found

    def status(self, name: str) -> dict[str, Any]:
        """The DLJob's status, empty before there is one."""
        status: dict[str, Any] = self.get(name).get("status", {})
        return status

    def patch(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        patched: dict[str, Any] = self.cluster.api("PATCH", self._path("dljobs", name), dict(body), MERGE)
        return patched

    def annotate(self, name: str, **annotations: str) -> None:
        """Set annotations of the DLJob: stoker.dev/..., with _ for -."""
        values = {f"stoker.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.patch(name, {"metadata": {"annotations": values}})

    def delete(self, name: str, propagation: str = "Background") -> None:
        self.cluster.api("DELETE", self._path("dljobs", name), {"propagationPolicy": propagation})

    def job(self, name: str) -> dict[str, Any]:
        """The Job of that name."""
        found: dict[str, Any] = self.cluster.api("GET", self._path("jobs", name))
        return found

    def has(self, plural: str, name: str) -> bool:
        """Whether an object of that name exists."""
        try:
            self.cluster.api("GET", self._path(plural, name))
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def patch_job(self, name: str, body: Mapping[str, Any]) -> None:
        self.cluster.api("PATCH", self._path("jobs", name), dict(body), MERGE)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of the Job of that name, terminating ones included, by name."""
        path = f"{self._path('pods')}?labelSelector=batch.kubernetes.io/job-name={name}"
        items: list[dict[str, Any]] = self.cluster.api("GET", path)["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def live_pods(self, name: str) -> list[dict[str, Any]]:
        """Those of `pods` that have not ended, and so hold their GPUs. An ended pod is there for a moment longer."""
        return [pod for pod in self.pods(name) if pod["status"]["phase"] not in {"Succeeded", "Failed"}]

    def end_pods(self, name: str) -> None:
        """The pods of the Job of that name have ended, as their node says, before their time for that is over."""
        for pod in self.pods(name):
            path = f"{self._path('pods')}/{pod['metadata']['name']}"
            self.cluster.api("DELETE", path, {"gracePeriodSeconds": 0})

    def events(self, name: str, reason: str | None = None) -> list[dict[str, Any]]:
        """The events that tell of the DLJob."""
        uid = self.get(name)["metadata"]["uid"]
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events?fieldSelector=regarding.uid={uid}"
        items: list[dict[str, Any]] = self.cluster.api("GET", path)["items"]
        return [event for event in items if reason in {None, event["reason"]}]

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition; raises LookupError before there is one."""
        conditions = self.status(name).get("conditions", [])
        found = next((one for one in conditions if one["type"] == kind), None)
        if found is None:
            raise LookupError(f"no condition {kind} of {name}: {conditions}")
        return dict(found)

    def wait_phase(self, name: str, phase: str, *, timeout: float = 30.0) -> dict[str, Any]:
        """Wait for a phase; return the status."""

        def probe() -> dict[str, Any]:
            status = self.status(name)
            assert status.get("phase") == phase, status
            return status

        return wait_for(f"phase {phase} of {name}", probe, timeout=timeout)

    def wait_condition(
        self, name: str, kind: str, status: str, reason: str | None = None, *, timeout: float = 30.0
    ) -> dict[str, Any]:
        """Wait for a condition's status, and its reason if given; return the condition."""

        def probe() -> dict[str, Any]:
            found = self.condition(name, kind)
            assert found["status"] == status, found
            assert reason in {None, found["reason"]}, found
            return found

        return wait_for(f"{kind}={status} of {name}", probe, timeout=timeout)

    def settled(self, name: str) -> str:
        """The DLJob's resource version once the operator has nothing more to write: the same over several looks."""
        versions: list[str] = []

        def probe() -> bool:
            versions.append(self.get(name)["metadata"]["resourceVersion"])
            return len(versions) >= 10 and len(set(versions[-10:])) == 1

        wait_for(f"{name} to settle", probe, interval=0.1)
        return versions[-1]

    def _path(self, plural: str, name: str | None = None) -> str:
        api = {"dljobs": "/apis/stoker.dev/v1alpha1", "jobs": "/apis/batch/v1"}.get(plural, "/api/v1")
        return f"{api}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")
