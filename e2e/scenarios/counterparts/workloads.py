"""An example of each kind, and how it is looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.counterparts import known
from e2e.counterparts.controller import Controller

MERGE = "application/merge-patch+json"
Object = dict[str, Any]


def _pod(gpus: int = 1, **container: Any) -> Object:
    """A pod's spec; the whole grace passes before its containers have ended."""
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    main = {"name": "main", "image": "registry.example.com/train:1", "resources": resources, **container}
    return {"containers": [main], "terminationGracePeriodSeconds": 3600}


ANY = [{"operator": "Exists"}]
"""Tolerations of pods without GPUs, which find their place on the nodes with GPUs here."""


def _job(parallelism: int) -> Object:
    pod = {**_pod(), "restartPolicy": "Never"}
    return {"spec": {"parallelism": parallelism, "completions": parallelism, "template": {"spec": pod}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload: what stops it, and what it looks like then."""

    controllers: tuple[Controller, ...]
    """In the order to start them in."""
    api_version: str
    name: str
    plural: str
    spec: Mapping[str, Any]
    pods: int
    selector: str
    """The label whose value, the object's name, its pods carry."""
    stop: Mapping[str, Any]
    start: Mapping[str, Any]
    condition: tuple[str, str] | None = None
    """Type and reason of the condition that says that it is stopped."""
    inner: Mapping[str, str] = field(default_factory=dict)
    """By the path of an object below it, with {namespace} and {name}: the patch by which that would be stopped."""


JOBSET = Kind(
    controllers=(known.JOBSET,),
    api_version="jobset.x-k8s.io/v1alpha2",
    name="JobSet",
    plural="jobsets",
    spec={"replicatedJobs": [{"name": "workers", "replicas": 1, "template": _job(2)}]},
    pods=2,
    selector="jobset.sigs.k8s.io/jobset-name",
    stop={"suspend": True},
    start={"suspend": False},
    condition=("Suspended", "SuspendedJobs"),
    inner={"/apis/batch/v1/namespaces/{namespace}/jobs/{name}-workers-0": "suspend"},
)
TRAINJOB = Kind(
    controllers=(known.JOBSET, known.TRAINER),
    api_version="trainer.kubeflow.org/v1alpha1",
    name="TrainJob",
    plural="trainjobs",
    spec={
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {
            "numNodes": 2,
            "numProcPerNode": 1,
            "image": "registry.example.com/train:1",
            "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}},
        },
    },
    pods=2,
    selector="jobset.sigs.k8s.io/jobset-name",
    stop={"suspend": True},
    start={"suspend": False},
    condition=("Suspended", "Suspended"),
    inner={
        "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets/{name}": "suspend",
        "/apis/batch/v1/namespaces/{namespace}/jobs/{name}-node-0": "suspend",
    },
)
MPIJOB = Kind(
    controllers=(known.MPI_OPERATOR,),
    api_version="kubeflow.org/v2beta1",
    name="MPIJob",
    plural="mpijobs",
    spec={
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": {"spec": {**_pod(0), "tolerations": ANY}}},
            "Worker": {"replicas": 2, "template": {"spec": _pod()}},
        }
    },
    pods=3,
    selector="training.kubeflow.org/job-name",
    stop={"runPolicy": {"suspend": True}},
    start={"runPolicy": {"suspend": False}},
    condition=("Suspended", "MPIJobSuspended"),
    inner={"/apis/batch/v1/namespaces/{namespace}/jobs/{name}-launcher": "suspend"},
)
LWS = Kind(
    controllers=(known.LWS,),
    api_version="leaderworkerset.x-k8s.io/v1",
    name="LeaderWorkerSet",
    plural="leaderworkersets",
    spec={"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": _pod()}}},
    pods=2,
    selector="leaderworkerset.sigs.k8s.io/name",
    stop={"replicas": 0},
    start={"replicas": 1},
    inner={"/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}": "replicas"},
)


@dataclass(frozen=True, slots=True)
class Workload:
    """One object of a kind in a namespace."""

    cluster: Cluster
    kind: Kind
    namespace: str
    name: str

    def create(self) -> None:
        """Create it as soon as its controller's webhook can be called, and wait for its pods to run."""
        body = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.name,
            "metadata": {"name": self.name},
            "spec": dict(self.kind.spec),
        }

        def created() -> bool:
            self.cluster.api("POST", self._path.rpartition("/")[0], body)
            return True

        wait_for(f"{self.kind.name} {self.name} to be admitted", created, quiet=True)
        self.wait_running()

    def wait_running(self, without: frozenset[str] = frozenset()) -> frozenset[str]:
        """Wait until all its pods run, none of them one of these; return their uids."""
        return wait_for(f"the pods of {self.kind.name} {self.name} to run", partial(self._running, without), timeout=60)

    def replaced(self, lost: frozenset[str]) -> frozenset[str]:
        """The uids of its pods once all run, none of these among them; those that are ending have ended meanwhile."""
        self.end_pods()
        return self._running(lost)

    def _running(self, without: frozenset[str]) -> frozenset[str]:
        pods = [pod for pod in self.pods() if "deletionTimestamp" not in pod["metadata"]]
        found = frozenset(pod["metadata"]["uid"] for pod in pods)
        assert len(pods) == self.kind.pods, [pod["metadata"]["name"] for pod in pods]
        assert {pod["status"].get("phase") for pod in pods} == {"Running"}, found
        assert not found & without, found & without
        return found

    def get(self) -> Object:
        found: Object = self.cluster.api("GET", self._path)
        return found

    def patch(self, spec: Mapping[str, Any]) -> None:
        self.cluster.api("PATCH", self._path, {"spec": dict(spec)}, MERGE)

    def pods(self) -> list[Object]:
        """Its pods, those that are ending included."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={self.kind.selector}={self.name}"
        items: list[Object] = self.cluster.api("GET", path)["items"]
        return items

    def ending(self) -> frozenset[str]:
        """The uids of its pods that are ending."""
        return frozenset(pod["metadata"]["uid"] for pod in self.pods() if "deletionTimestamp" in pod["metadata"])

    def end_pods(self) -> None:
        """Those of its pods that are ending have ended, as their node says, before their time for that is over."""
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                self.cluster.api("DELETE", path, {"gracePeriodSeconds": 0})

    def has_no_pods(self) -> bool:
        """Whether none is left; those that are ending have ended meanwhile."""
        self.end_pods()
        return not self.pods()

    def is_said(self) -> bool:
        """Whether its condition says that it is stopped."""
        if self.kind.condition is None:
            return True
        conditions = self.get().get("status", {}).get("conditions", [])
        kind, reason = self.kind.condition
        assert any((one["type"], one["status"], one["reason"]) == (kind, "True", reason) for one in conditions), (
            conditions
        )
        return True

    def settled(self) -> None:
        """Its controller has nothing more to write: the same version over several looks, after a change that it saw."""
        self.cluster.api("PATCH", self._path, {"metadata": {"annotations": {"e2e.stoker.dev/touched": "yes"}}}, MERGE)
        versions: list[str] = []

        def probe() -> bool:
            versions.append(self.get()["metadata"]["resourceVersion"])
            return len(versions) >= 10 and len(set(versions[-10:])) == 1

        wait_for(f"{self.name} to settle", probe, interval=0.1)

    def inner(self) -> Mapping[str, str]:
        """The paths of the objects below it that have a field by which they would be stopped, and the field."""
        return {path.format(namespace=self.namespace, name=self.name): where for path, where in self.kind.inner.items()}

    def delete(self) -> None:
        self.cluster.api("DELETE", self._path, {"propagationPolicy": "Background"})
        wait_for("its pods to have ended", self.has_no_pods)

    @property
    def _path(self) -> str:
        return f"/apis/{self.kind.api_version}/namespaces/{self.namespace}/{self.kind.plural}/{self.name}"
