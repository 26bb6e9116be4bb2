"""Kueue's kind Workload without Kueue: for what the API server alone decides about its objects."""

from typing import Any

GROUP = "kueue.x-k8s.io"
CRD = f"workloads.{GROUP}"


def workload_kind() -> dict[str, Any]:
    """The kind in both versions, with the fields that are looked at here, and without a conversion webhook."""
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
    versions: list[dict[str, Any]] = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1beta1",
            "schema": schema,
            "subresources": {"status": {}},
        }
        for name in ("v1beta1", "v1beta2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Kinds in *.k8s.io are approved by the Kubernetes project; this is a copy of one of theirs.
        "metadata": {"name": CRD, "annotations": {"api-approved.kubernetes.io": "unapproved, a copy for tests"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "workloads", "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"},
            "versions": versions,
        },
    }
