"""kind behind the same interface, for machines that have Docker and can pull images.

**Not tested by this project's own runs**: its machines can neither pull the node image nor run it. What is here is
kept small and works by construction: only the control plane and the way to webhooks differ from the local provider;
kwok, Prometheus, the exporter and the operator run as processes on this machine, as they do there.
"""

import os
import subprocess
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.base import SupervisedCluster
from e2e.cluster.pki import write_private
from e2e.cluster.provider import ClusterError, CommandError

_CONFIG = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
kubeadmConfigPatches:
- |
  kind: ClusterConfiguration
  apiServer:
    extraArgs:
    - {name: enable-admission-plugins, value: "NodeRestriction,ExtendedResourceToleration"}
"""


class KindCluster(SupervisedCluster):
    """One kind node as the control plane (it takes plain pods, too), kwok's nodes beside it.

    $STOKER_E2E_KIND_IMAGE is the node's image, and with it the version of Kubernetes; without it kind takes its newest.
    """

    needs = (*binaries.COMMON, "kind")
    webhook_host = "0.0.0.0"  # the API server reaches this machine through the Docker bridge

    def _start_control_plane(self) -> None:
        self._docker("version", "--format", "{{.Server.Version}}")
        config = write_private(self.folder / "kind.yaml", _CONFIG)
        self._report(f"kind creates {self._cluster_name}, a minute or two")
        image = os.environ.get("STOKER_E2E_KIND_IMAGE")
        self._kind(
            *("create", "cluster", "--config", str(config), "--kubeconfig", str(self.kubeconfig), "--wait", "120s"),
            *(["--image", image] if image else []),
        )
        self._start_kwok(self.kubeconfig)

    def _stop_control_plane(self) -> None:
        if "kind" in self.programs and hasattr(self, "folder") and self.kubeconfig.exists():
            self._kind("delete", "cluster", "--kubeconfig", str(self.kubeconfig))
            self.kubeconfig.unlink(missing_ok=True)

    def expose_webhook(self, namespace: str, service: str, port: int) -> None:
        """Without a selector, the Service's endpoint is the address of this machine on kind's Docker network."""
        gateway = self._docker("network", "inspect", "kind", "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}")
        address = next((word for word in gateway.split() if ":" not in word), None)
        if address is None:
            raise ClusterError("Docker's network `kind` has no IPv4 gateway")
        spec = {"ports": [{"port": port, "targetPort": port}]}
        self.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace}, "spec": spec}
        )
        patch = '{"spec": {"selector": null}}'
        self.kubectl("patch", "service", service, "--namespace", namespace, "--type=merge", "--patch", patch)
        labels = {"kubernetes.io/service-name": service}
        self.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": f"{service}-host", "namespace": namespace, "labels": labels},
                "addressType": "IPv4",
                "ports": [{"port": port, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address]}],
            }
        )

    @property
    def _cluster_name(self) -> str:
        return f"stoker-{self.name}-{self.folder.name[-8:].lower().replace('_', 'x')}"

    def _kind(self, verb: str, noun: str, *args: str) -> str:
        return _checked([self.programs["kind"], verb, noun, "--name", self._cluster_name, *args])

    def _docker(self, *args: str) -> str:
        try:
            return _checked(["docker", *args])
        except FileNotFoundError as error:
            raise ClusterError("the provider `kind` needs Docker: install it, or use the provider `local`") from error


def _checked(argv: list[str | Path]) -> str:
    answer = subprocess.run(argv, env=os.environ, capture_output=True, text=True, timeout=600, check=False)
    if answer.returncode != 0:
        raise CommandError([str(word) for word in argv], answer.returncode, answer.stdout, answer.stderr)
    return answer.stdout
