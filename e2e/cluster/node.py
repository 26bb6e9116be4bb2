"""The local control plane with a real node: containers run, pods have a network, webhooks are reached by their Service.

The node's programs run in namespaces and control groups of their own (e2e/node); this machine needs Linux and root, and
`e2e.node.machine.obstacle` says what else it lacks. kwok's nodes stay what they are with the local provider; only they
have GPUs unless `start_device_plugin` was called. Pods without GPUs run on the real node.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.local import LocalCluster
from e2e.cluster.pki import write_private
from e2e.cluster.provider import H100, ClusterError, CommandError
from e2e.cluster.waiting import wait_for
from e2e.node import settings
from e2e.node.debian import OPERATOR_IMAGE, Builder
from e2e.node.machine import obstacle
from e2e.node.sandbox import Sandbox
from e2e.node.settings import API_PORT, GPU, NODE_ADDRESS, NODE_NAME, PROMETHEUS_PORT

ROOT = Path(__file__).resolve().parents[2]
_KUBELET_CLIENT = "kube-apiserver-kubelet-client"
_EGRESS = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {{uds: {{udsName: "{socket}"}}}}
"""


class NodeCluster(LocalCluster):
    """The local cluster, joined by one real node named `real-1`."""

    needs = (*binaries.LOCAL, *binaries.NODE)
    api_server_names = (*LocalCluster.api_server_names, NODE_ADDRESS)

    def start(self) -> None:
        if reason := obstacle():
            raise ClusterError(f"{reason}; the provider `local` needs none of this")
        super().start()

    def _start_control_plane(self) -> None:
        self._node_folder.mkdir()
        self._start_sandbox()
        super()._start_control_plane()
        self._start_gateway()
        self._start_containerd()
        self._start_kubelet()
        self._start_kube_proxy()
        self._start_names()
        wait_for(f"the node {NODE_NAME} to be Ready", self._node_is_ready, quiet=True)

    @property
    def _node_folder(self) -> Path:
        return self.folder / "node"

    @property
    def _tunnel(self) -> Path:
        return self.folder / "tunnel.sock"

    # --------------------------------------------------------------------------------------------- what tests use

    def import_image(self, archive: Path) -> None:
        """Make the images of an OCI archive known to the node. Raises ClusterError."""
        socket = f"--address={settings.CONTAINERD_SOCKET}"
        self.run_inside([str(self.programs["ctr"]), socket, "--namespace=k8s.io", "images", "import", str(archive)])

    def import_python(self) -> None:
        """Make PYTHON_IMAGE known to the node, on which tests run small programs."""
        archive = Builder().python(self._node_folder / "python.tar")
        self.import_image(archive)
        archive.unlink()

    def import_operator(self, *, source: Path = ROOT, name: str = OPERATOR_IMAGE) -> None:
        """Assemble the operator's image from a working tree, by default this one, and import it."""
        archive = Builder().operator(self._node_folder / "operator.tar", source=source, name=name)
        self.import_image(archive)
        archive.unlink()

    def run_inside(self, argv: list[str]) -> str:
        """What a command prints that runs inside the node's namespaces and groups. Raises CommandError."""
        program, *arguments = self.inside(argv)
        answer = self._run(Path(program), arguments, {}, None)
        if answer.returncode != 0:
            raise CommandError(argv, answer.returncode, answer.stdout, answer.stderr)
        return answer.stdout

    def inside(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` inside the node's namespaces and groups. Paths in it must be absolute."""
        return self._sandbox.entering(argv)

    def start_device_plugin(self, gpus: int = 8, product: str = H100) -> None:
        """Give the real node GPUs of that product, for small programs to be run on: they are only counted and named.

        The node gets no taint: the operator's pods run on it, too.
        """
        labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(gpus)}
        patch = {"metadata": {"labels": labels}}
        self.api("PATCH", f"/api/v1/nodes/{NODE_NAME}", patch, "application/merge-patch+json")
        self._start_python("device-plugin", "e2e.node.device_plugin", str(gpus))

        def counted() -> bool:
            node = self.api("GET", f"/api/v1/nodes/{NODE_NAME}")
            return bool(node["status"]["allocatable"].get(GPU) == str(gpus))

        wait_for(f"{gpus} GPUs on {NODE_NAME}", counted)

    def forward(self, address: str, port: int) -> int:
        """A port of this machine's loopback that leads to an address inside: a pod's or a Service's."""
        entry = self.reserve_port()

        def listens() -> bool:
            socket.create_connection(("127.0.0.1", entry), timeout=1).close()
            return True

        self._run_gateway(f"gateway-{entry}", f"--in={entry}:{address}:{port}", ready=listens)
        return entry

    # -------------------------------------------------------------------------------------------------- the parts

    def _api_server_options(self) -> list[str]:
        egress = self.folder / "egress.yaml"
        egress.write_text(_EGRESS.format(socket=self._tunnel))
        certificate, key = self._authority.issue_client(_KUBELET_CLIENT, ["system:masters"])
        return [
            f"--egress-selector-config-file={egress}",
            f"--kubelet-client-certificate={write_private(self._pki / 'kubelet-client.crt', certificate)}",
            f"--kubelet-client-key={write_private(self._pki / 'kubelet-client.key', key)}",
        ]

    def _start_sandbox(self) -> None:
        self.start_process(
            "sandbox",
            [sys.executable, "-m", "e2e.node.sandbox", "hold", self._node_folder],
            env={"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            ready=lambda: Sandbox.read(self._node_folder),
            grace=15.0,  # for the groups to be removed
        )
        self._sandbox = Sandbox.read(self._node_folder)

    def _start_gateway(self) -> None:
        outward = {API_PORT: self._api_port, PROMETHEUS_PORT: int(self.prometheus_url.rpartition(":")[2])}
        options = [f"--out={port}:{here}" for port, here in outward.items()]
        self._run_gateway("gateway", *options, f"--tunnel={self._tunnel}", ready=self._tunnel.exists)
        endpoint = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": API_PORT, "protocol": "TCP"}],
            "endpoints": [{"addresses": [NODE_ADDRESS]}],
        }
        self.apply(endpoint)

    def _run_gateway(self, name: str, *options: str, ready: Callable[[], object]) -> None:
        argv = [sys.executable, "-m", "e2e.node.gateway", str(self._sandbox.pid), *options]
        self.start_process(name, argv, env={"PYTHONPATH": str(ROOT)}, cwd=ROOT, ready=ready)

    def _start_containerd(self) -> None:
        folder = self._node_folder
        (folder / "cni").mkdir()
        (folder / "cni" / "pods.conflist").write_text(settings.pod_network())
        configuration = folder / "containerd.toml"
        configuration.write_text(settings.containerd(self.programs, folder))
        ctr = [str(self.programs["ctr"]), f"--address={settings.CONTAINERD_SOCKET}", "version"]
        self._start_inside("containerd", [f"--config={configuration}"], ready=lambda: self.run_inside(ctr))
        pause = Builder().pause(folder / "pause.tar")
        self.import_image(pause)
        pause.unlink()

    def _start_kubelet(self) -> None:
        folder = self._node_folder
        (folder / "resolv.conf").write_text("")
        certificate, key = self._authority.issue_server([NODE_NAME, NODE_ADDRESS])
        configuration = folder / "kubelet.yaml"
        configuration.write_text(
            settings.kubelet(
                folder,
                client_ca=self._pki / "ca.crt",
                certificate=write_private(self._pki / "kubelet.crt", certificate),
                key=write_private(self._pki / "kubelet.key", key),
            )
        )
        self._start_inside(
            "kubelet",
            [
                f"--config={configuration}",
                f"--kubeconfig={self._node_kubeconfig('kubelet', f'system:node:{NODE_NAME}', 'system:nodes')}",
                f"--root-dir={folder / 'kubelet'}",
                f"--hostname-override={NODE_NAME}",
                f"--node-ip={NODE_ADDRESS}",
            ],
        )

    def _start_kube_proxy(self) -> None:
        configuration = self._node_folder / "kube-proxy.yaml"
        configuration.write_text(settings.kube_proxy(self._node_kubeconfig("kube-proxy", "system:kube-proxy")))
        self._start_inside("kube-proxy", [f"--config={configuration}"])

    def _start_names(self) -> None:
        kubeconfig = self._node_kubeconfig("names", "e2e-names", "system:masters")
        self._start_python("names", "e2e.node.names", str(kubeconfig))

    def _start_python(self, name: str, module: str, *arguments: str) -> None:
        """Start a module of ours inside the node's namespaces."""
        python = ["env", f"PYTHONPATH={os.pathsep.join([str(ROOT), *sys.path])}", sys.executable, "-P", "-m"]
        self.start_process(name, self.inside([*python, module, *arguments]))

    def _node_kubeconfig(self, name: str, user: str, *groups: str) -> Path:
        return self._write_kubeconfig(name, f"https://{NODE_ADDRESS}:{API_PORT}", user, *groups)

    def _start_inside(self, name: str, options: list[str], *, ready: Callable[[], object] | None = None) -> None:
        self.start_process(name, self.inside([str(self.programs[name]), *options]), ready=ready)

    def _node_is_ready(self) -> bool:
        return self._schedulable(NODE_NAME)
