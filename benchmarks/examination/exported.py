"""A job's series as an exporter and the kubelet would have published them, to be pushed into a Prometheus."""

from collections.abc import Iterator

import numpy as np

from benchmarks.screening.history import Series
from stoker.telemetry.series import FloatArray, GpuSignal, JobFacts, JobSeries, PodSignal

GAUGES: dict[GpuSignal, tuple[str, float]] = {
    GpuSignal.UTIL: ("DCGM_FI_DEV_GPU_UTIL", 1.0),
    GpuSignal.GRAPHICS: ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.01),
    GpuSignal.SM_ACTIVE: ("DCGM_FI_PROF_SM_ACTIVE", 0.01),
    GpuSignal.TENSOR: ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.01),
    GpuSignal.DRAM: ("DCGM_FI_PROF_DRAM_ACTIVE", 0.01),
    GpuSignal.MEMORY_USED: ("DCGM_FI_DEV_FB_USED", 1.0),
    GpuSignal.MEMORY_FREE: ("DCGM_FI_DEV_FB_FREE", 1.0),
    GpuSignal.PCIE_RX: ("DCGM_FI_PROF_PCIE_RX_BYTES", 1.0),
    GpuSignal.PCIE_TX: ("DCGM_FI_PROF_PCIE_TX_BYTES", 1.0),
    GpuSignal.POWER: ("DCGM_FI_DEV_POWER_USAGE", 1.0),
    GpuSignal.SM_CLOCK: ("DCGM_FI_DEV_SM_CLOCK", 1.0),
    GpuSignal.XID: ("DCGM_FI_DEV_XID_ERRORS", 1.0),
    GpuSignal.PCIE_REPLAY: ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1.0),
}
"""The metric of dcgm-exporter, and how many of its units make one of the signal's."""
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
"""Millijoules since the driver's start."""
TOTALS: dict[PodSignal, tuple[str, dict[str, str]]] = {
    PodSignal.CPU: ("container_cpu_usage_seconds_total", {"container": "trainer", "cpu": "total"}),
    PodSignal.NET_RX: ("container_network_receive_bytes_total", {"interface": "eth0"}),
    PodSignal.NET_TX: ("container_network_transmit_bytes_total", {"interface": "eth0"}),
    PodSignal.DISK_READ: ("container_fs_reads_bytes_total", {"container": "trainer", "device": "/dev/nvme0n1"}),
    PodSignal.DISK_WRITE: ("container_fs_writes_bytes_total", {"container": "trainer", "device": "/dev/nvme0n1"}),
}
"""The counter of cAdvisor whose rate is the signal, and its labels."""
MEMORY = "container_memory_working_set_bytes"


def exported(facts: JobFacts, series: JobSeries) -> Iterator[Series]:
    """Labels and values of every series of the job's GPUs and pods, at the times of its grid."""
    for gpu in series.gpus:
        labels = {
            "namespace": facts.namespace,
            "pod": gpu.pod,
            "container": "trainer",
            "Hostname": gpu.pod,
            "UUID": gpu.gpu,
            "gpu": gpu.index or "0",
            "device": f"nvidia{gpu.index}",
            "modelName": "NVIDIA H100 80GB HBM3",
            "instance": "10.1.2.3:9400",
            "job": "dcgm-exporter",
        }
        for signal, (metric, factor) in GAUGES.items():
            if signal in gpu.signals:
                yield {"__name__": metric, **labels}, np.round(_filled(gpu.signals[signal]) * factor, 6)
        if GpuSignal.POWER in gpu.signals:
            energy = np.cumsum(_filled(gpu.signals[GpuSignal.POWER])) * series.step * 1000
            yield {"__name__": ENERGY, **labels}, np.round(energy)
    for pod in series.pods:
        labels = {"namespace": facts.namespace, "pod": pod.pod, "instance": "10.1.2.3:10250", "job": "kubelet"}
        for total, (metric, own) in TOTALS.items():
            if total in pod.signals:
                yield {"__name__": metric, **labels, **own}, np.cumsum(_filled(pod.signals[total])) * series.step
        if PodSignal.MEMORY in pod.signals:
            yield {"__name__": MEMORY, **labels, "container": "trainer"}, _filled(pod.signals[PodSignal.MEMORY])


def _filled(values: FloatArray) -> FloatArray:
    """The values with the last one where one is missing, 0 before the first."""
    places = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), -1))
    return np.where(places >= 0, values[np.maximum(places, 0)], 0.0)
