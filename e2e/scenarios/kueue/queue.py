"""What Kueue does with Jobs, as far as Stoker meets it: Jobs are created suspended, each gets a Workload with its uid
as a label, and whether a Job's pods may run is decided by its Workload's admission and `spec.active`, by Kueue alone.
"""

import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
CRD = f"workloads.{GROUP}"
MERGE = "application/merge-patch+json"
MANAGED = {"queues": "managed"}
"""The label of namespaces whose Jobs are all Kueue's, whether they name a queue or not."""
QUEUE = {f"{GROUP}/queue-name": "gpus"}
POLL = 0.1


def workload_kind() -> dict[str, Any]:
    """The kind Workload, in both versions, with the fields that are looked at here."""
    spec = {
        "type": "object",
        "properties": {
            "queueName": {"type": "string"},
            "active": {"type": "boolean", "default": True},
            "podSets": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        },
    }
    conditions = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    status = {"type": "object", "properties": {"conditions": conditions}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == VERSIONS[0],
            "schema": schema,
            "subresources": {"status": {}},
        }
        for name in VERSIONS
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Kinds in *.k8s.io are approved by the Kubernetes project; this is a copy of one of theirs.
        "metadata": {"name": CRD, "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"},
            "versions": versions,
        },
    }


def webhook() -> list[dict[str, Any]]:
    """What Kueue's webhook does to Jobs when they are created."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rules = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    suspend = {"expression": "Object{spec: Object.spec{suspend: true}}"}
    policy = {
        "matchConstraints": {"resourceRules": rules},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": suspend}],
    }
    binding = {"policyName": "queue", "matchResources": {"namespaceSelector": {"matchLabels": MANAGED}}}
    return [
        {**kind, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "queue"}, "spec": policy},
        {**kind, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "queue"}, "spec": binding},
    ]


@dataclass
class Kueue:
    """Manages the Jobs of namespaces with the label MANAGED, in a thread; in `resting` ones it does nothing."""

    cluster: Cluster
    resting: set[str] = field(default_factory=set)
    meddled: list[str] = field(default_factory=list)
    """Jobs that somebody else has suspended or started: nobody may."""
    _wrote: dict[str, bool] = field(default_factory=dict)
    """Of each Job, by its uid: the `suspend` that Kueue has given it."""
    _end: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="kueue")

    def __enter__(self) -> Self:
        self.cluster.apply(workload_kind(), *webhook())
        self.cluster.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def workload(self, job: Mapping[str, Any]) -> dict[str, Any] | None:
        """The Job's Workload."""
        selector = f"labelSelector={GROUP}/job-uid={job['metadata']['uid']}"
        items = self.cluster.api("GET", f"{_path(job['metadata']['namespace'])}?{selector}")["items"]
        return dict(items[0]) if items else None

    def suspends(self, namespace: str) -> bool:
        """Whether Jobs are created suspended by now: the API server takes a moment to heed the webhook."""
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        body = {"metadata": {"name": "probe"}, "spec": {"template": {"spec": pod}}}
        created = self.cluster.api("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All", body)
        return created["spec"].get("suspend") is True

    def serve(self, *versions: str) -> None:
        """Serve these versions of the kind and no others."""
        kind = workload_kind()
        for version in kind["spec"]["versions"]:
            version["served"] = version["name"] in versions
        self.cluster.apply(kind)

    def _run(self) -> None:
        while not self._end.wait(POLL):
            try:
                namespaces = self.cluster.api("GET", "/api/v1/namespaces?labelSelector=queues=managed")["items"]
                for namespace in namespaces:
                    name = namespace["metadata"]["name"]
                    if name in self.resting:
                        continue
                    for job in self.cluster.api("GET", f"/apis/batch/v1/namespaces/{name}/jobs")["items"]:
                        self._look(job)
            except ApiError as error:
                # Somebody was faster, or it is gone, or the kind is new: the next round sees.
                if error.status not in {404, 409, 429}:
                    traceback.print_exc()

    def _look(self, job: Mapping[str, Any]) -> None:
        uid, suspended = job["metadata"]["uid"], bool(job["spec"].get("suspend"))
        if self._wrote.setdefault(uid, True) != suspended:
            self.meddled.append(f"{job['metadata']['name']}: suspend is {suspended}")
        workload = self.workload(job)
        if workload is None:
            self._create(job)
            return
        active = workload["spec"].get("active", True)
        admitted = any(
            one["type"] == "Admitted" and one["status"] == "True"
            for one in workload.get("status", {}).get("conditions", ())
        )
        if active != admitted:
            # There is room for all; a Workload that is not active is evicted.
            reason = "Admitted" if active else "Deactivated"
            conditions = [
                {"type": "Admitted", "status": str(active), "reason": reason},
                {"type": "Evicted", "status": str(not active), "reason": reason},
            ]
            name = workload["metadata"]["name"]
            path = f"{_path(workload['metadata']['namespace'])}/{name}/status"
            self.cluster.api("PATCH", path, {"status": {"conditions": conditions}}, MERGE)
        if suspended == active:
            self._wrote[uid] = not active
            path = f"/apis/batch/v1/namespaces/{job['metadata']['namespace']}/jobs/{job['metadata']['name']}"
            self.cluster.api("PATCH", path, {"spec": {"suspend": not active}}, MERGE)

    def _create(self, job: Mapping[str, Any]) -> None:
        metadata = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        body = {
            "apiVersion": f"{GROUP}/{VERSIONS[0]}",
            "kind": "Workload",
            "metadata": {
                "name": f"job-{metadata['name']}-{metadata['uid'][:5]}",
                "labels": {f"{GROUP}/job-uid": metadata["uid"]},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "queueName": metadata.get("labels", {}).get(f"{GROUP}/queue-name", "default"),
                "podSets": [{"name": "main", "count": job["spec"]["parallelism"]}],
            },
        }
        self.cluster.api("POST", _path(metadata["namespace"]), body)


def _path(namespace: str) -> str:
    return f"/apis/{GROUP}/{VERSIONS[0]}/namespaces/{namespace}/workloads"
