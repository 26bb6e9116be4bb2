"""What a user does: kubectl with a manifest, and what it prints."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from e2e.cluster.provider import Cluster


def dljob(name: str = "bert", **spec: Any) -> dict[str, Any]:
    """A DLJob of one node with 8 GPUs, its spec changed by `spec`; a field of None is left out."""
    whole = {"gpusPerNode": 8, "image": "registry.example.com/nlp/bert:2026.11", **spec}
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": name},
        "spec": {field: value for field, value in whole.items() if value is not None},
    }


def policy(name: str = "default", **spec: Any) -> dict[str, Any]:
    """A UtilizationPolicy."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass(frozen=True, slots=True)
class Applier:
    """Somebody who works in one namespace."""

    cluster: Cluster
    namespace: str

    def run(
        self, *args: str, manifest: Mapping[str, Any] | None = None, kubeconfig: Path | None = None
    ) -> CompletedProcess[str]:
        """`kubectl ARGS` in the namespace, with the manifest on stdin."""
        stdin = None if manifest is None else json.dumps(manifest)
        return self.cluster.run_kubectl("--namespace", self.namespace, *args, input=stdin, kubeconfig=kubeconfig)

    def create(self, manifest: Mapping[str, Any], *options: str, kubeconfig: Path | None = None) -> None:
        """`kubectl create -f -`; fails the test when it is refused."""
        done = self.run("create", "-f", "-", *options, manifest=manifest, kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr

    def refusal(self, manifest: Mapping[str, Any], *options: str, kubeconfig: Path | None = None) -> str:
        """What `kubectl create -f -` prints when it is refused; fails the test when it is not."""
        done = self.run("create", "-f", "-", *options, manifest=manifest, kubeconfig=kubeconfig)
        assert done.returncode != 0, f"accepted: {json.dumps(manifest)}"
        return done.stderr

    def patch(self, name: str, spec: Mapping[str, Any]) -> CompletedProcess[str]:
        """A merge patch of a DLJob's spec."""
        return self.run("patch", "dljob", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def set_status(self, name: str, status: Mapping[str, Any]) -> None:
        """A merge patch of a DLJob's status, as the operator writes it."""
        patch = json.dumps({"status": status})
        done = self.run("patch", "dljob", name, "--subresource=status", "--type=merge", f"--patch={patch}")
        assert done.returncode == 0, done.stderr

    def get(self, name: str) -> dict[str, Any]:
        """The DLJob as it is stored."""
        done = self.run("get", "dljob", name, "-o", "json")
        assert done.returncode == 0, done.stderr
        stored: dict[str, Any] = json.loads(done.stdout)
        return stored
