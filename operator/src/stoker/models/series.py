"""The facts and time series of one job, on one grid, in one unit per signal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from stoker.models.vocabulary import Framework, JobType

FloatArray = npt.NDArray[np.float64]


class GpuSignal(StrEnum):
    """A signal of one GPU. Units: percent 0..100, MiB, bytes/s, watts."""

    UTIL = "util"
    """Percent of time with a kernel running, over a short window (DCGM_FI_DEV_GPU_UTIL): aliases at long steps."""
    GRAPHICS = "graphics"
    """Percent, mean over the interval (DCGM_FI_PROF_GR_ENGINE_ACTIVE)."""
    SM_ACTIVE = "smActive"
    TENSOR = "tensor"
    DRAM = "dram"
    MEMORY_USED = "memoryUsed"
    MEMORY_FREE = "memoryFree"
    PCIE_RX = "pcieRx"
    """Host to GPU."""
    PCIE_TX = "pcieTx"
    """GPU to host."""
    NVLINK = "nvlink"
    POWER = "power"
    ENCODER = "encoder"
    DECODER = "decoder"


class PodSignal(StrEnum):
    """A signal of one pod. Units: cores, bytes, bytes/s."""

    CPU = "cpu"
    MEMORY = "memory"
    NET_RX = "netRx"
    NET_TX = "netTx"
    DISK_READ = "diskRead"
    DISK_WRITE = "diskWrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod of a job, from its status.

    `started_at` and `finished_at` are the trainer container's; a pod's creation time is never a start. `gpus` is what
    it was granted.
    """

    name: str
    uid: str
    rank: int
    node: str | None = None
    gpus: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    ready: bool = False
    restarts: int = 0
    terminating: bool = False
    cpu_limit: float | None = None
    """Cores; None without a limit."""
    host_network: bool = False
    """Its network series would be the node's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What diagnosis must know of a job beside its series."""

    namespace: str
    name: str
    uid: str
    nodes: int
    gpus_per_node: int
    gpu_resource: str = "nvidia.com/gpu"
    job_type: JobType = JobType.TRAINING
    framework: Framework | None = None
    pods: tuple[PodFacts, ...] = ()
    interactive_entry: bool = False
    """Admission saw an interactive program as the job's final command."""
    processes_per_node: int | None = None
    """GPU processes that the launch plan starts on each node, where it is known."""
    batch_size: str | None = None
    """The batch size argument as written (`--batch-size 32 at spec.script:2`), where one was seen."""
    has_persistent_volume: bool = False

    @property
    def gpus(self) -> int:
        """All GPUs requested: those without samples count as unknown, not as 0."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeries:
    """One GPU of one pod: arrays of the grid's length, NaN where there is no sample. A missing signal is absent.

    `gpu` identifies the device, `index` is its number on the node. `context_idle_watts` is what its model draws with a
    CUDA context and no work, where the model is known.
    """

    pod: str
    gpu: str
    signals: Mapping[GpuSignal, FloatArray]
    index: str | None = None
    context_idle_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeries:
    """One pod: arrays of the grid's length, NaN where there is no sample."""

    pod: str
    signals: Mapping[PodSignal, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeries:
    """A job's series on a regular grid.

    `times` are seconds since the epoch, `step` apart; every array has their length. The value at a time is that of the
    step before it. Each series is clipped to its pod's container start and finish. `complete` is False when the source
    said that its answer was partial.
    """

    times: FloatArray
    step: float
    gpus: tuple[GpuSeries, ...] = ()
    pods: tuple[PodSeries, ...] = field(default=())
    complete: bool = True
