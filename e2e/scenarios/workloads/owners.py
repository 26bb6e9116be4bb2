"""Objects that own pods, of every kind that the chart can enable, as their controllers nest them.

Deployments, StatefulSets and Jobs are run by the real kube-controller-manager, which makes what is below them. The
other kinds have a definition without a schema and no controller: what Stoker reads of them is their metadata.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster.provider import Cluster

Level = tuple[str, str, str]
"""apiVersion, kind and plural."""

JOB: Level = ("batch/v1", "Job", "jobs")
JOB_SET: Level = ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets")
RAY_CLUSTER: Level = ("ray.io/v1", "RayCluster", "rayclusters")
STATEFUL_SET: Level = ("apps/v1", "StatefulSet", "statefulsets")
DEPLOYMENT: Level = ("apps/v1", "Deployment", "deployments")

CHAINS: Mapping[str, tuple[Level, ...]] = {
    "CronJob": (("batch/v1", "CronJob", "cronjobs"), JOB),
    "JobSet": (JOB_SET, JOB),
    "TrainJob": (("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"), JOB_SET, JOB),
    "PyTorchJob": (("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),),
    "TFJob": (("kubeflow.org/v1", "TFJob", "tfjobs"),),
    "MPIJob": (("kubeflow.org/v2beta1", "MPIJob", "mpijobs"), JOB),
    "JAXJob": (("kubeflow.org/v1", "JAXJob", "jaxjobs"),),
    "PaddleJob": (("kubeflow.org/v1", "PaddleJob", "paddlejobs"),),
    "XGBoostJob": (("kubeflow.org/v1", "XGBoostJob", "xgboostjobs"),),
    "RayCluster": (RAY_CLUSTER,),
    "RayJob": (("ray.io/v1", "RayJob", "rayjobs"), RAY_CLUSTER),
    "RayService": (("ray.io/v1", "RayService", "rayservices"), RAY_CLUSTER),
    "LeaderWorkerSet": (("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"), STATEFUL_SET),
    "Notebook": (("kubeflow.org/v1", "Notebook", "notebooks"), STATEFUL_SET),
    "InferenceService": (("serving.kserve.io/v1beta1", "InferenceService", "inferenceservices"), DEPLOYMENT),
    "VolcanoJob": (("batch.volcano.sh/v1alpha1", "Job", "jobs"),),
}
"""By what Stoker calls the kind: the topmost object first, last the one whose pods are made, here or by Kubernetes."""
BUILT_IN = frozenset({"batch/v1", "apps/v1"})


@dataclass(slots=True)
class Owners:
    """Creates owners and pods in one namespace."""

    cluster: Cluster
    namespace: str
    defined: set[Level] = field(default_factory=set)

    def define(self) -> None:
        """Create the definitions of all kinds that are not Kubernetes' own."""
        versions: dict[tuple[str, str, str], list[str]] = {}
        for level in {level for chain in CHAINS.values() for level in chain if level[0] not in BUILT_IN}:
            group, _, version = level[0].partition("/")
            versions.setdefault((group, level[1], level[2]), []).append(version)
        for (group, kind, plural), served in versions.items():
            self.cluster.apply(_definition(group, kind, plural, served))
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    def pod_of(self, kind: str, scenario: str) -> str:
        """Create the objects of a kind, and see to a pod with a GPU below them; returns the topmost object's name."""
        name, owner = f"the-{kind.lower()}", None
        for level in CHAINS[kind]:
            owner = self._create(level, name, owner, scenario)
        if level[0] not in BUILT_IN:
            self._pod(f"{name}-0", owner, scenario)
        return name

    def _create(self, level: Level, name: str, owner: Mapping[str, Any] | None, scenario: str) -> dict[str, Any]:
        api_version, kind, plural = level
        body = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name, "ownerReferences": [] if owner is None else [owner]},
            "spec": _spec(kind, name, scenario) if api_version in BUILT_IN else {},
        }
        made = self.cluster.api("POST", f"/apis/{api_version}/namespaces/{self.namespace}/{plural}", body)
        return reference(made)

    def _pod(self, name: str, owner: Mapping[str, Any] | None, scenario: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "ownerReferences": [] if owner is None else [owner],
                "annotations": {"e2e.stoker.dev/scenario": scenario},
            },
            "spec": template()["spec"],
        }
        self.cluster.api("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)


def reference(made: Mapping[str, Any]) -> dict[str, Any]:
    """How an object's children name it as their controller."""
    return {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "name": made["metadata"]["name"],
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


def template(*, gpus: int = 1, labels: Mapping[str, str] | None = None, scenario: str = "") -> dict[str, Any]:
    """A pod template of one container."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/train:1", "resources": {"limits": limits}}
    annotations = {"e2e.stoker.dev/scenario": scenario} if scenario else {}
    return {
        "metadata": {"labels": dict(labels or {}), "annotations": annotations},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def _spec(kind: str, name: str, scenario: str) -> dict[str, Any]:
    """The spec of one of Kubernetes' own kinds, for one pod."""
    made = template(labels={"app": name}, scenario=scenario)
    job = {"template": {**made, "spec": {**made["spec"], "restartPolicy": "Never"}}}
    match kind:
        case "CronJob":
            # The test makes the Job that is due.
            return {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}
        case "Job":
            return job
        case _:
            replicated = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": made}
            return replicated | ({"serviceName": "none"} if kind == "StatefulSet" else {})


def _definition(group: str, kind: str, plural: str, versions: list[str]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The API server refuses groups of *.k8s.io without it.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's stand-in"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {"name": version, "served": True, "storage": number == 0, "schema": schema}
                for number, version in enumerate(sorted(versions))
            ],
        },
    }
