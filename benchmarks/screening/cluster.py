"""A cluster of any size: its jobs as the API server holds them, and what their GPUs have shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np

from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.findings.finding import rfc3339

GPUS = 8
NAMESPACES = 40
AGE = timedelta(minutes=74)
"""How long the jobs have run: as far back as the history goes."""
OWN_WINDOWS = ("15m", "20m", "30m", "40m", "50m", "55m")
"""A third of the jobs have an idle window of their own."""


class Kind(StrEnum):
    """What a job does: of a hundred jobs two are idle, five are low, one has lost its exporter, the rest train."""

    IDLE = "idle"
    LOW = "low"
    SILENT = "silent"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Job:
    """One job: a pod with eight GPUs."""

    number: int

    @property
    def kind(self) -> Kind:
        place = self.number % 100
        return Kind.IDLE if place < 2 else Kind.LOW if place < 7 else Kind.SILENT if place == 7 else Kind.BUSY

    @property
    def namespace(self) -> str:
        return f"team-{self.number % NAMESPACES:02}"

    @property
    def name(self) -> str:
        return f"train-{self.number:05}"

    @property
    def pod(self) -> str:
        return f"{self.name}-0-x7k2p"

    @property
    def node(self) -> str:
        return f"gpu-{self.number:05}"

    def dljob(self, now: datetime) -> dict[str, Any]:
        """The DLJob with a status as the operator leaves it."""
        reclaim = (
            {"reclaim": {"idleAfter": OWN_WINDOWS[self.number % len(OWN_WINDOWS)]}} if self.number % 3 == 0 else {}
        )
        uid = f"00000000-0000-4000-8000-{self.number:012}"
        started = rfc3339(now - AGE)
        conditions = [
            {"type": kind, "status": "False", "reason": "Active", "message": "", "lastTransitionTime": started}
            for kind in ("PodsReady", "LowUtilization", "Idle", "ReclaimPending")
        ]
        return {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "DLJob",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": uid,
                "resourceVersion": str(self.number + 1),
                "generation": 1,
                "creationTimestamp": started,
                "labels": {"stoker.dev/owner": f"user-{self.number % 300}", "stoker.dev/team": "vision"},
            },
            "spec": {
                "gpusPerNode": GPUS,
                "image": "registry.example.com/train:2.4",
                "script": "pip install -r requirements.txt\n"
                f"torchrun --nproc_per_node=8 train.py --seed {self.number}\n",
                **reclaim,
            },
            "status": {
                "phase": "Running",
                "jobUID": f"job-{uid}",
                "observedGeneration": 1,
                "startTime": started,
                "conditions": conditions,
            },
        }

    def pod_object(self, now: datetime) -> dict[str, Any]:
        """Its pod, as the kubelet reports it."""
        started = rfc3339(now - AGE)
        resources = {"nvidia.com/gpu": str(GPUS), "cpu": "64", "memory": "512Gi"}
        return {
            "metadata": {
                "name": self.pod,
                "namespace": self.namespace,
                "uid": f"pod-{self.number}",
                "resourceVersion": str(self.number + 1),
                "creationTimestamp": started,
                "labels": {"stoker.dev/dljob": self.name},
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "ownerReferences": [{"controller": True, "uid": f"job-00000000-0000-4000-8000-{self.number:012}"}],
            },
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "trainer", "resources": {"limits": resources, "requests": resources}}],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": started},
                    {"type": "Ready", "status": "True", "lastTransitionTime": started},
                ],
                "containerStatuses": [
                    {"name": "trainer", "restartCount": 0, "ready": True, "state": {"running": {"startedAt": started}}}
                ],
            },
        }


def store(jobs: int, now: datetime) -> ClusterCache:
    """What the operator's watches hold of them."""
    filled = ClusterCache(Faults())
    for number in range(jobs):
        job = Job(number)
        filled.dljobs.put(job.dljob(now))
        filled.pods.put(job.pod_object(now))
    return filled


# --------------------------------------------------------------------------------------------------------------- series

SCREENED = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
"""What the look at the whole cluster reads."""
OTHERS = (
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
)
"""What only the closer looks read."""
EVERY = SCREENED + OTHERS
SHAPES = 200
"""Different courses of a metric; every GPU plays one of them."""


class Played:
    """The courses that the GPUs' metrics take: arrays of `count` samples, by metric and kind of job."""

    def __init__(self, count: int, step: float) -> None:
        self._random = np.random.default_rng(7)
        self._count = count
        worked = np.arange(count) < count - 62 * 60 / step
        self._shapes = {
            (metric, kind): self._draw(metric, kind) * (worked if kind is Kind.IDLE else 1)
            if metric not in {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"}
            else self._draw(metric, kind)
            for metric in EVERY
            for kind in (Kind.IDLE, Kind.LOW, Kind.BUSY)
        }

    def _draw(self, metric: str, kind: Kind) -> np.ndarray[Any, np.dtype[np.float64]]:
        shape = (SHAPES, self._count)
        mean = 22 if kind is Kind.LOW else 91
        load = np.clip(self._random.normal(mean, 6, shape), 1, 100)
        match metric:
            case "DCGM_FI_DEV_GPU_UTIL":
                return np.round(load)
            case "DCGM_FI_DEV_FB_USED":
                return np.full(shape, 61_000.0)
            case "DCGM_FI_DEV_FB_FREE":
                return np.full(shape, 20_000.0)
            case "DCGM_FI_DEV_POWER_USAGE":
                return np.full(shape, 118.0) if kind is Kind.IDLE else np.round(100 + 5 * load, 3)
            case "DCGM_FI_DEV_ENC_UTIL" | "DCGM_FI_DEV_DEC_UTIL":
                return np.zeros(shape)
            case "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL":
                return np.round(1000 * load)
            case "DCGM_FI_PROF_PCIE_RX_BYTES" | "DCGM_FI_PROF_PCIE_TX_BYTES":
                return np.round(3e7 * load)
            case _:
                return np.round(load / 100, 6)

    def series(self, job: Job, metrics: tuple[str, ...]) -> Iterator[tuple[dict[str, str], np.ndarray[Any, Any]]]:
        """Labels and values of every series of a job's GPUs."""
        if job.kind is Kind.SILENT:
            return
        for gpu in range(GPUS):
            labels = {
                "DCGM_FI_DRIVER_VERSION": "580.65.06",
                "Hostname": job.node,
                "UUID": f"GPU-{job.number:08x}-{gpu:04x}-4000-8000-9f86d081884c",
                "container": "trainer",
                "device": f"nvidia{gpu}",
                "gpu": str(gpu),
                "instance": "10.1.2.3:9400",
                "job": "dcgm-exporter",
                "modelName": "NVIDIA H100 80GB HBM3",
                "namespace": job.namespace,
                "pci_bus_id": f"00000000:{0x18 + 0x10 * gpu:02X}:00.0",
                "pod": job.pod,
            }
            for metric in metrics:
                shapes = self._shapes[metric, job.kind]
                yield {"__name__": metric, **labels}, shapes[(job.number * GPUS + gpu) % SHAPES]
