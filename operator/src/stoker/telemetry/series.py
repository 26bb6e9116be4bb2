"""The facts and time series of one job, on one grid, in one unit per signal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from stoker.findings.vocabulary import Framework, JobType

FloatArray = npt.NDArray[np.float64]


SHARED_PRODUCT = "-SHARED"
"""What NVIDIA's feature discovery puts after a product's name where its GPUs are shared in time."""


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
    """A rate, of both directions together; some exporters' totals are made one by `telemetry.readings.link_rates`."""
    POWER = "power"
    """Mean over the interval where the energy counter is exported, else over the exporter's last second."""
    ENCODER = "encoder"
    DECODER = "decoder"
    SM_CLOCK = "smClock"
    """MHz."""
    XID = "xid"
    """The number of the driver's last error on this device; 0 without one."""
    PCIE_REPLAY = "pcieReplay"
    """PCIe packets sent again, since the driver's start."""


class PodSignal(StrEnum):
    """A signal of one pod. Units: cores, bytes, bytes/s, percent of time."""

    CPU = "cpu"
    MEMORY = "memory"
    NET_RX = "netRx"
    NET_TX = "netTx"
    DISK_READ = "diskRead"
    DISK_WRITE = "diskWrite"
    CPU_THROTTLED = "cpuThrottled"
    """Percent of the CFS periods in which the CPU limit stopped it."""
    CPU_PRESSURE = "cpuPressure"
    """Percent of time in which some task waited for a CPU (PSI, cgroup v2); likewise the next two."""
    IO_PRESSURE = "ioPressure"
    MEMORY_PRESSURE = "memoryPressure"
    CPU_LIMIT = "cpuLimit"
    """Cores that the pod's containers may use together; absent where one of them has no limit."""
    CPU_REQUEST = "cpuRequest"
    """Cores that they request together; absent where one of them requests none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An earlier run of a pod's trainer container, which ended and was started anew in the same pod."""

    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod of a job, from its status.

    `started_at` and `finished_at` are those of the trainer container's latest run, `attempts` its earlier ones as far
    as they are known, the oldest first; a pod's creation time is never a start. `gpus` is what it was granted.
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
    attempts: tuple[Attempt, ...] = ()
    scheduled_at: datetime | None = None
    """When it was bound to its node: from then on it holds its GPUs."""
    waiting_for: str | None = None
    """What keeps the trainer container from starting, as the kubelet calls it: ContainerCreating, PodInitializing,
    ImagePullBackOff, ...; None once it has run.
    """
    cpu_limit: float | None = None
    """Cores; None without a limit."""
    cpu_request: float | None = None
    """Cores; None without a request."""
    host_network: bool = False
    """Its network series would be the node's."""
    uncounted_gpus: str | None = None
    """How it holds GPUs, or may, beside those that `gpus` counts: of these no samples are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSize:
    """A program's batch size argument: the option and its value as written, and where."""

    option: str
    value: str
    location: str = ""

    def __str__(self) -> str:
        """`--batch-size 32 at spec.script:2`, for people."""
        return f"{self.option} {self.value} at {self.location}" if self.location else f"{self.option} {self.value}"


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
    gpu_product: str | None = None
    """The GPUs' model as the job asked for it or the node's label names it."""
    pods: tuple[PodFacts, ...] = ()
    """Of each rank the latest pod: what is said of now is said of these."""
    former_pods: tuple[PodFacts, ...] = ()
    """Pods that these have replaced (a resume, a disruption): their GPU time belongs to the job's life."""
    interactive_entry: bool = False
    """Admission saw an interactive program as the job's final command."""
    processes_per_node: int | None = None
    """GPU processes that the launch plan starts on each node, where it is known."""
    batch_size: BatchSize | None = None
    """The batch size argument, where one was found."""
    starts_server: bool = False
    """Its program or its image is a server of models, whatever type the job declares."""
    offers: str | None = None
    """What its container declares that only a server needs, such as a port; it may be declared and never used."""
    has_persistent_volume: bool = False
    """The container that computes writes to a volume that outlives the pod."""
    mounts_storage: bool = False
    """Some container mounts storage whose traffic the pods' own metrics need not show: a network file system's, for
    one, is the node's.
    """
    gpus_of_pods: int | None = None
    """What the pods request together, where they need not be alike; None: `gpus_per_node` each."""

    @property
    def is_service(self) -> bool:
        """It serves a model, by its declared type or by its program."""
        return self.starts_server or self.job_type is JobType.SERVING

    @property
    def gpus(self) -> int:
        """All GPUs requested: those without samples count as unknown, not as 0."""
        return self.nodes * self.gpus_per_node if self.gpus_of_pods is None else self.gpus_of_pods

    def host_of(self, pod: PodFacts) -> str:
        """What one of its pods is called: `<job>-<rank>` where that begins the pod's name, else the pod's own name."""
        host = f"{self.name}-{pod.rank}"
        return host if f"{pod.name}-".startswith(f"{host}-") else pod.name

    def gpus_of(self, pod: PodFacts) -> int:
        """How many of them one of its pods has."""
        return max(pod.gpus, self.gpus_per_node) if self.gpus_of_pods is None else pod.gpus

    @property
    def shares_gpus(self) -> bool:
        """It asks for GPUs that are shared in time, whether or not the exporter says so of its devices."""
        return (self.gpu_product or "").endswith(SHARED_PRODUCT)


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
    shared: bool = False
    """Several pods hold the device (time-slicing, MPS): what it does is not this pod's doing alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSeries:
    """One pod: arrays of the grid's length, NaN where there is no sample."""

    pod: str
    signals: Mapping[PodSignal, FloatArray]


class MarkKind(StrEnum):
    """What a line of a program's log says that it does."""

    INSTALL = "install"
    DOWNLOAD = "download"
    EPOCH = "epoch"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    UPLOAD = "upload"
    COLLECTIVE_TIMEOUT = "collectiveTimeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMark:
    """A line of a pod's log that tells what its program does. `text` is the line, one line, at most 200 characters."""

    time: datetime
    pod: str
    kind: MarkKind
    text: str


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
    marks: tuple[LogMark, ...] = ()
    """What the pods' logs say, oldest first, where they may be read (UtilizationPolicy, spec.analysis.readLogs)."""
    complete: bool = True
