"""Whoever writes to a namespace, each with a token of their own and the rights that people usually have."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from e2e.cluster.api import ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import DLJobs

DLJOBS = "/apis/stoker.dev/v1alpha1/namespaces/{}/dljobs"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
TEXTS = 'a\x1b[2J\r\n2026-11-21T12:00:00+0000 ERROR forged\n{"event": "Reclaimed"} <script>alert(1)</script> \u202e'
"""Text that would be a command to a terminal, a line of the log, a line of the audit, or markup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with an account in one namespace. `jobs` looks at it as the administrator."""

    cluster: Cluster
    namespace: str
    kubeconfig: Path
    jobs: DLJobs

    def kubectl(self, *args: str, manifest: str | None = None) -> CompletedProcess[str]:
        """`kubectl ARGS` in the namespace, as this person."""
        command = ("--namespace", self.namespace, *args)
        return self.cluster.run_kubectl(*command, input=manifest, kubeconfig=self.kubeconfig)

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """A request as this person; `{}` in the path is the namespace. Raises ApiError."""
        return self.cluster.api(method, path.format(self.namespace), body, content_type, kubeconfig=self.kubeconfig)

    def refusal(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> ApiError:
        """How such a request is refused; fails the test when it is not."""
        try:
            answer = self.request(method, path, body, content_type)
        except ApiError as error:
            return error
        raise AssertionError(f"{method} {path} was answered: {answer}")

    def may(self, verb: str, resource: str, subresource: str = "") -> bool:
        """Whether RBAC allows it in the namespace."""
        asked = ("auth", "can-i", verb, resource, f"--subresource={subresource}")
        return self.kubectl(*asked).stdout.strip() == "yes"


def person(cluster: Cluster, namespace: str, name: str, role: str) -> Person:
    """Make an account that is bound to a ClusterRole in the namespace; return when the role is in force."""
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    )
    kubeconfig = cluster.service_account_kubeconfig(namespace, name)
    made = Person(cluster=cluster, namespace=namespace, kubeconfig=kubeconfig, jobs=DLJobs(cluster, namespace))
    # The chart's role reaches `edit` and `view` by aggregation, which is a controller's work.
    wait_for(f"{name} to have the rights of {role}", lambda: made.may("get", "dljobs.stoker.dev"))
    return made


def stoker(asking: Person, *args: str) -> str:
    """All that `stoker ARGS` prints in the person's namespace, as the administrator."""
    cluster = asking.cluster
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "STOKER_PROMETHEUS_URL": cluster.prometheus_url}
    command = [sys.executable, "-m", "stoker", *args, f"--namespace={asking.namespace}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    return done.stdout + done.stderr
