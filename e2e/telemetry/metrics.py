"""Samples under the names and labels that dcgm-exporter and cAdvisor give them."""

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from e2e.telemetry.products import Product, product_named
from e2e.telemetry.samples import Export, GpuSample, PodSample, Program
from e2e.telemetry.scenario import Scenario

DCGM_JOB, CADVISOR_JOB = "dcgm-exporter", "kubelet"
DCGM_PATH, CADVISOR_PATH = "/dcgm/metrics", "/metrics/cadvisor"
_DRIVER = "580.65.06"
_NAMESPACE = uuid.UUID("9e0b3a66-64e3-4a5e-8d2b-6c1f7a0f6b55")

ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
# dcgm-exporter's default counters; the PROF gauges are ratios and bytes a second.
DCGM_METRICS = (
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_POWER_USAGE",
    ENERGY,
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
)


PROFILING = "DCGM_FI_PROF_"
THROTTLED = "container_cpu_cfs_throttled_periods_total"
LINKS = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
"""Also on by default: MB/s, whatever its type says."""
CFS_PERIODS_PER_SECOND = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU of a node; everything that identifies it follows from the node's name and its index."""

    node: str
    index: int
    product: str

    def labels(self) -> dict[str, str]:
        return {
            "gpu": str(self.index),
            "UUID": f"GPU-{uuid.uuid5(_NAMESPACE, f'{self.node}/{self.index}')}",
            "pci_bus_id": f"00000000:{0x18 + 0x10 * self.index:02X}:00.0",
            "device": f"nvidia{self.index}",
            "modelName": self.product.replace("-", " "),
            "Hostname": self.node,
            "DCGM_FI_DRIVER_VERSION": _DRIVER,
            "instance": f"{self.node}:9400",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedPod:
    """A pod on its node: `started` is when the container `container` started (seconds since the epoch), if it runs.

    `gpus` are the indices of its GPUs on the node; `container` is the one that requests them, else the first.
    """

    uid: str
    namespace: str
    name: str
    node: str
    container: str
    image: str
    product: str
    gpus: tuple[int, ...]
    rank: int
    started: float | None
    scenario: str
    device_labels: Mapping[str, str] = field(default_factory=dict)
    """What dcgm-exporter adds to the labels of a part of a GPU (GPU_I_ID) or of a shared one (vgpu)."""

    def program(self) -> Program:
        """What it plays. Raises ScenarioError."""
        return Scenario(self.scenario).play(rank=self.rank, gpus=len(self.gpus), product=product_named(self.product))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A sample of one series: `labels` as they stand between the braces. `taken_at` is the time that it carries, in
    seconds since the epoch; None: that of the scrape.
    """

    name: str
    labels: str
    value: float
    taken_at: float | None = None


class PodPlayer:
    """All series of one pod, at any time."""

    def __init__(self, pod: PlayedPod, program: Program) -> None:
        self.pod, self._program = pod, program
        self._product = product_named(pod.product)
        identity = {"namespace": pod.namespace, "pod": pod.name, "container": pod.container, **pod.device_labels}
        self._gpus = [
            rendered(Gpu(node=pod.node, index=index, product=pod.product).labels() | identity) for index in pod.gpus
        ]
        self._cadvisor = _cadvisor_labels(pod)
        self._container = next(labels for name, labels, _ in self._cadvisor if name == THROTTLED)

    def dcgm(self, at: float, interval: float) -> Iterator[Series]:
        """Its GPUs' series at `at` (seconds since the epoch); at rest while the container has not started."""
        started = self.pod.started
        for slot, labels in enumerate(self._gpus):
            sample = self._program.gpu(slot, at - started if started is not None else -1.0, interval)
            for one in dcgm_series(labels, sample, self._product):
                if started is None and one.name == ENERGY:
                    continue  # as in idle_series
                yield replace(one, taken_at=at + self._program.clock) if self._program.clock else one

    def cadvisor(self, at: float) -> Iterator[Series]:
        """Its containers' series; none while the container has not started."""
        if self.pod.started is None or at < self.pod.started:
            return
        sample = self._program.pod(at - self.pod.started)
        for name, labels, figure in self._cadvisor:
            value = _cadvisor_value(sample, figure)
            if value is not None:
                yield Series(name=name, labels=labels, value=value)
        if sample.stopped is not None:
            periods = CFS_PERIODS_PER_SECOND * (at - self.pod.started)
            yield Series(name="container_cpu_cfs_periods_total", labels=self._container, value=round(periods))


def idle_series(gpu: Gpu, sample: GpuSample, product: Product) -> Iterator[Series]:
    """The series of a GPU that no pod has: without pod labels, and without its energy. A pod's energy counts from its
    start, which may be back-dated: the GPU's counter would jump by that of the pod's whole past.
    """
    return (one for one in dcgm_series(rendered(gpu.labels()), sample, product) if one.name != ENERGY)


def dcgm_series(labels: str, sample: GpuSample, product: Product) -> Iterator[Series]:
    """One GPU's sample under dcgm-exporter's names, in its units."""
    if sample.export is Export.NOTHING:
        return
    works = sample.memory > 0 or sample.util > 0
    values = (
        product.clock if works else product.idle_clock,
        round(sample.power, 3),
        round(sample.energy * 1000),
        round(sample.util),
        round(sample.dram * 100),
        round(sample.encoder),
        round(sample.decoder),
        round(sample.xid),
        product.memory - round(sample.memory),
        round(sample.memory),
        round(sample.engine, 6),
        round(sample.tensor, 6),
        round(sample.dram, 6),
        round(sample.tx),
        round(sample.rx),
    )
    for name, value in zip(DCGM_METRICS, values, strict=True):
        if sample.export is Export.DRIVER and name.startswith(PROFILING):
            continue
        yield Series(name=name, labels=labels, value=math.nan if sample.export is Export.NAN else value)
    if sample.links is not None:
        yield Series(name=LINKS, labels=labels, value=round(sample.links / 1e6))


def _cadvisor_labels(pod: PlayedPod) -> list[tuple[str, str, str]]:
    """Name, labels and the sample's field of each series.

    CPU, memory and disk come for the container and again for the pod's whole cgroup (no container label), the network
    for the pod's sandbox only, as with a real kubelet.
    """
    slice_path = f"/kubepods.slice/kubepods-pod{pod.uid.replace('-', '_')}.slice"
    node = {"instance": f"{pod.node}:10250", "node": pod.node, "metrics_path": "/metrics/cadvisor"}
    pod_labels = {"namespace": pod.namespace, "pod": pod.name, **node}
    name = f"{uuid.uuid5(_NAMESPACE, pod.uid).hex}"
    container = pod_labels | {
        "container": pod.container,
        "id": f"{slice_path}/cri-containerd-{name}.scope",
        "image": pod.image,
        "name": name,
    }
    cgroup = pod_labels | {"id": slice_path}
    sandbox = pod_labels | {"id": slice_path, "image": "registry.k8s.io/pause:3.10", "interface": "eth0"}
    found: list[tuple[str, str, str]] = []
    for labels in (container, cgroup):
        found += [
            ("container_cpu_usage_seconds_total", rendered(labels | {"cpu": "total"}), "cpu"),
            ("container_memory_working_set_bytes", rendered(labels), "rss"),
            ("container_fs_reads_bytes_total", rendered(labels | {"device": "/dev/nvme0n1"}), "disk_read"),
            ("container_fs_writes_bytes_total", rendered(labels | {"device": "/dev/nvme0n1"}), "disk_write"),
        ]
    found.append((THROTTLED, rendered(container), "stopped"))
    found += [
        (f"container_pressure_{resource}_waiting_seconds_total", rendered(labels), f"{resource}_waiting")
        for resource in ("cpu", "io", "memory")
        for labels in (container, cgroup)
    ]
    found += [
        ("container_network_receive_bytes_total", rendered(sandbox), "net_rx"),
        ("container_network_transmit_bytes_total", rendered(sandbox), "net_tx"),
    ]
    return found


def _cadvisor_value(sample: PodSample, field: str) -> float | None:
    value: float | None = getattr(sample, field)
    if value is None:
        return None
    if field == "stopped":
        return round(CFS_PERIODS_PER_SECOND * value)
    return round(value, 6) if field == "cpu" or field.endswith("_waiting") else round(value)


def rendered(labels: Mapping[str, str]) -> str:
    """Labels as in the text formats, without braces."""
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# ------------------------------------------------------------------------------------------- from the cluster's objects

GPU_RESOURCE = "nvidia.com/gpu"
_PREFIX = "e2e.stoker.dev/"


def gpu_container(pod: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """The first container that requests GPUs (else the first) and the GPUs of all containers together."""
    containers: Sequence[dict[str, Any]] = pod["spec"]["containers"]
    counts = [whole_number((c.get("resources", {}).get("limits") or {}).get(GPU_RESOURCE)) for c in containers]
    first = next((c for c, count in zip(containers, counts, strict=True) if count), containers[0])
    return first, sum(counts)


def whole_number(text: str | None) -> int:
    """A small number as objects hold it; 0 for everything else, such as what hostile pods say."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 6 else 0


def annotation(pod: Mapping[str, Any], name: str) -> str | None:
    """The pod's annotation `e2e.stoker.dev/NAME`."""
    value: str | None = (pod["metadata"].get("annotations") or {}).get(_PREFIX + name)
    return value


def device_labels(pod: Mapping[str, Any]) -> dict[str, str]:
    """The annotation `e2e.stoker.dev/device-labels`, as in `vgpu=1` or `GPU_I_ID=3,GPU_I_PROFILE=1g.10gb`."""
    pairs = (part.partition("=") for part in (annotation(pod, "device-labels") or "").split(",") if part)
    return {name: value for name, _, value in pairs}
