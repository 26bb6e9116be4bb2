"""What the programs of a real node are configured with.

Paths are the same inside the node's namespaces and outside, except below /run, /var/lib and /var/log.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import yaml

NODE_NAME = "real-1"
NODE_ADDRESS = "10.89.0.10"
CLUSTER_DOMAIN = "cluster.local"
PODS = "10.89.1.0/24"
GPU = "nvidia.com/gpu"
PAUSE_IMAGE = "localhost/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
API_PORT = 6443
PROMETHEUS_PORT = 9090
"""Ports of the node's address that lead to the API server and to Prometheus."""


def containerd(programs: Mapping[str, Path], folder: Path) -> str:
    """TOML; `folder` is where images and containers are stored."""
    plugins = json.dumps([str(programs[name].parent) for name in ("ptp", "loopback", "host-local")])
    return f"""\
version = 3
root = "{folder / "containerd"}"
state = "/run/containerd"
imports = []

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.snapshotter.v1.overlayfs"]
  # Otherwise each unmounting waits until the disk has all that is written: a minute, for nothing that must survive.
  mount_options = ["volatile"]

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  # A machine without CAP_SYS_RESOURCE may not lower the score of a container.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{programs["containerd-shim-runc-v2"]}"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{shutil.which("runc")}"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = {plugins}
    conf_dir = "{folder / "cni"}"
"""


def pod_network() -> str:
    """The CNI configuration: each pod on a routed cable of its own, so neither a bridge nor iptables are needed."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]})


def kubelet(folder: Path, *, client_ca: Path, certificate: Path, key: Path) -> str:
    """KubeletConfiguration."""
    signals = ("memory.available", "nodefs.available", "nodefs.inodesFree")
    more_signals = ("imagefs.available", "imagefs.inodesFree", "pid.available")
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,  # the default refuses machines with cgroup v1
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "address": NODE_ADDRESS,
            "readOnlyPort": 0,
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(client_ca)},
            },
            "authorization": {"mode": "Webhook"},
            "makeIPTablesUtilChains": False,  # kube-proxy works with nftables, and iptables may be missing
            "resolvConf": str(folder / "resolv.conf"),
            "clusterDNS": [NODE_ADDRESS],
            "clusterDomain": CLUSTER_DOMAIN,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # This machine's disk and memory are not the node's to watch over: nothing is evicted, no image removed.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": dict.fromkeys((*signals, *more_signals), "0%"),
            "nodeStatusUpdateFrequency": "5s",
        },
        sort_keys=False,
    )


def kube_proxy(kubeconfig: Path) -> str:
    """KubeProxyConfiguration."""
    unchanged = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "hostnameOverride": NODE_NAME,
            "detectLocalMode": "ClusterCIDR",
            "clusterCIDR": PODS,
            "healthzBindAddress": f"{NODE_ADDRESS}:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "nftables": {"minSyncPeriod": "100ms"},
            "conntrack": unchanged,  # its settings are machine-wide
        },
        sort_keys=False,
    )
