"""Training steps: input pipeline, copies, kernels and gradient exchange, and what waits for what.

The input pipeline is simulated batch by batch (workers, prefetch queue, delivery in order); the step itself is the sum
of what can't overlap. A rank stands for its peers: they are alike and synchronous unless a job says otherwise.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property

import numpy as np

from simulator.hardware import GpuModel
from simulator.networks import Network
from simulator.timeline import GpuUse, Pattern, PodUse, Stretch, Use

MIB = 2**20
CONTEXT_MIB = 450.0
LAUNCH = 9e-6
"""Seconds that an eager framework needs for one kernel on the host."""
STEPS_PER_PATTERN = 40
PATTERNS = 5
STREAM = 2.5e8
"""Bytes/s of one worker's own reading."""
HOST_OPTIMIZER = 5e9
"""Bytes/s of half-precision gradients that an optimizer on the CPUs gets through, with all that it keeps of each."""
COPY_OVERHEAD = 25e-6
"""Seconds of a small copy beside its bytes: call, staging, completion."""


class Storage(StrEnum):
    """Where a job's bytes are, which decides where they show."""

    MEMORY = "memory"
    """The page cache or the program itself: nowhere."""
    DISK = "disk"
    MOUNT = "mount"
    """A network file system: waiting for it is IO pressure, its bytes are the network's."""
    OBJECTS = "objects"
    """An object store behind a socket: waiting for it is no IO pressure."""


class Exchange(StrEnum):
    """How ranks share gradients."""

    NONE = "none"
    NCCL = "nccl"
    """Kernels on the GPUs: whoever waits spins in one."""
    HOST = "host"
    """Through host memory (Gloo, MPI without GPU support, parameter servers): the GPUs wait idle."""
    DATA_PARALLEL = "data-parallel"
    """One process that scatters, replicates and gathers each step."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A configuration of training or evaluation. Times in seconds, rates in bytes/s, memory in MiB.

    `batch` and `workers` are per rank, `bandwidth` and `cpu_limit` per pod. `latency` is that of reading one sample,
    which a worker does one after the other. `resident` is what the model's states take beside its activations.
    """

    gpu: GpuModel
    network: Network
    batch: int
    ranks: int = 1
    ranks_per_pod: int = 1
    mixed_precision: bool = True
    forward_only: bool = False
    workers: int = 4
    prefetch: int = 2
    cpu_per_sample: float = 0.0
    cpu_limit: float = 64.0
    limited: bool = True
    """`cpu_limit` is a CFS quota, not just the node's size."""
    storage: Storage = Storage.MEMORY
    latency: float = 0.0
    bandwidth: float = 1e9
    jitter: float = 0.15
    pinned: bool = True
    copies: int = 1
    """Copies a batch: the number of samples where each goes alone."""
    host_gap: float = 0.0
    synchronizes: bool = False
    """The host waits for each small result, so launches don't run ahead of the GPU."""
    exchange: Exchange = Exchange.NONE
    network_bandwidth: float = 0.0
    """Of the exchange between pods; 0 for ranks in one pod."""
    rdma: bool = False
    overlap: float = 0.7
    accumulate: int = 1
    asymmetry: float = 0.02
    """How much more a pod sends than it receives in an exchange over sockets, as a share: headers, resends, the ends of
    trees."""
    offload_bytes: float = 0.0
    """Optimizer states and gradients, or activations, that go to host memory and back each step."""
    offload_speed: float | None = None
    """Bytes/s of that way; by default three fifths of what pinned copies reach."""
    host_optimizer: bool = True
    """The CPUs update what is offloaded; activations and parameters only lie there."""
    resident: float | None = None
    memory: float | None = None
    """What the allocator holds, where the model does not say it (TensorFlow and JAX take nearly all)."""
    host_memory: float = 12 * 2.0**30
    slowdown: float = 1.0
    """Of the GPUs' clocks."""

    @property
    def batch_bytes(self) -> float:
        """What a batch brings to one GPU."""
        return self.batch * self.network.device_bytes

    @cached_property
    def gpu_memory(self) -> float:
        """MiB that the process holds: context, states, activations, and what the caching allocator rounds up."""
        if self.memory is not None:
            return self.memory
        states = self.network.parameters * 1e6 * (4 if self.forward_only else 16) / MIB
        states = states if self.resident is None else self.resident
        activations = self.batch * self.network.activations * (1.0 if self.mixed_precision else 1.7)
        return min(CONTEXT_MIB + (states + activations * (0.3 if self.forward_only else 1.0)) * 1.04, self.gpu.memory)

    # ------------------------------------------------------------------------------------------------------ the GPU

    @property
    def flop(self) -> float:
        """Of one step on one GPU."""
        return self.batch * self.network.gflop * 1e9 * (1 if self.forward_only else 3)

    @property
    def kernels(self) -> float:
        """Of one step on one GPU."""
        return self.network.kernels * (0.3 if self.forward_only else 1.0)

    @property
    def peak(self) -> float:
        """FLOP/s that its precision allows."""
        return (self.gpu.tensor if self.mixed_precision else self.gpu.fp32) * 1e12

    @cached_property
    def work(self) -> float:
        """Seconds of useful arithmetic or memory traffic, whichever is longer."""
        arithmetic = self.flop / (self.peak * self.network.efficiency)
        return max(arithmetic, self.traffic / (self.gpu.dram * 1e9 * 0.85)) * self.slowdown

    @property
    def traffic(self) -> float:
        """Bytes of device memory that a step moves."""
        weights = self.network.parameters * 1e6 * (4 if self.forward_only else 26)
        return self.flop / (self.network.intensity * (2 if self.mixed_precision else 1)) + weights

    @cached_property
    def busy(self) -> float:
        """Seconds with a kernel on the device: every kernel costs its floor, however little it does."""
        return self.kernels * self.gpu.kernel_floor * self.slowdown + self.work

    @property
    def launching(self) -> float:
        """Seconds that the host needs to launch a step; the threads of DataParallel share one interpreter."""
        threads = self.ranks if self.exchange is Exchange.DATA_PARALLEL else 1
        return self.kernels * LAUNCH * threads

    @cached_property
    def compute(self) -> float:
        """Seconds of a step's forward, backward and update, gaps between kernels included."""
        if self.synchronizes:
            return self.busy + self.launching * 0.6 + self.host_gap
        return max(self.busy, self.launching) + self.host_gap

    # --------------------------------------------------------------------------------------------- copies, exchange

    @property
    def copy(self) -> float:
        """Seconds in which the host waits for a batch to reach the GPU: pinned copies run beside the kernels."""
        if self.pinned:
            return max(0.0, self.batch_bytes / (self.gpu.pinned * 1e9) - self.busy)
        return self.batch_bytes / (self.gpu.pageable * 1e9) + self.copies * COPY_OVERHEAD

    @property
    def offload(self) -> float:
        """Seconds of a step for states kept in host memory: two ways over PCIe, and an optimizer on the CPU."""
        speed = self.gpu.pinned * 1e9 * 0.6 if self.offload_speed is None else self.offload_speed
        updating = self.offload_bytes / HOST_OPTIMIZER if self.host_optimizer else 0.0
        return 2 * self.offload_bytes / speed + updating

    @property
    def gradient_bytes(self) -> float:
        """Of one exchange."""
        return self.network.parameters * 1e6 * (2 if self.mixed_precision else 4)

    @cached_property
    def exchanging(self) -> float:
        """Seconds of a whole exchange, were it alone."""
        if self.ranks == 1 or self.exchange is Exchange.NONE or self.forward_only:
            return 0.0
        volume = 2 * (self.ranks - 1) / self.ranks * self.gradient_bytes
        if self.exchange is Exchange.DATA_PARALLEL:
            # parameters out to all, gradients back from all, over the link of the first GPU
            link = self.gpu.bus * 0.25 if self.gpu.nvlink else self.gpu.pinned * 0.5
            return 2 * (self.ranks - 1) * self.network.parameters * 4e6 / (link * 1e9) + 4e-3 * self.ranks
        rate = self.gpu.bus * 1e9
        if self.network_bandwidth:
            rate = min(rate, self.network_bandwidth)
        if self.exchange is Exchange.HOST:
            rate = min(rate, 1.6e9)
            volume = 2 * (self.ranks - 1) / self.ranks * self.network.parameters * 4e6
        return volume / rate + 40e-6 * self.ranks

    @cached_property
    def exposed(self) -> float:
        """Seconds of the exchange, a step, that the backward pass does not cover."""
        whole = self.exchanging / self.accumulate
        if self.exchange is Exchange.NCCL:
            return max(whole * (1 - self.overlap), whole - 0.6 * self.busy)
        return whole

    # ------------------------------------------------------------------------------------------------ the pipeline

    @property
    def main_cpu(self) -> float:
        """Cores of one rank's own threads: it launches, or spins until the GPU is done."""
        return 1.0

    @cached_property
    def supply(self) -> float:
        """Batches a second that one rank's input pipeline can make: the slowest of workers, CPUs and storage."""
        reading = self.batch * (self.latency + self.network.stored_bytes / STREAM) if self._reads else 0.0
        in_worker = self.batch * self.cpu_per_sample + reading
        return min(max(self.workers, 1) / max(in_worker, 1e-9), self._by_cores, self._by_bandwidth)

    @property
    def _by_cores(self) -> float:
        cpu = self.batch * self.cpu_per_sample
        left = max(self.cpu_limit - self.main_cpu * self.ranks_per_pod, 0.15 * self.cpu_limit)
        return left / (self.ranks_per_pod * cpu) if cpu > 0 else math.inf

    @property
    def _by_bandwidth(self) -> float:
        if not self._reads:
            return math.inf
        return self.bandwidth / (self.ranks_per_pod * self.batch * self.network.stored_bytes)

    @property
    def _bound_by_cpu(self) -> bool:
        """Preparing samples, not reading them, is what the pipeline spends its time on."""
        if not self._reads:
            return True
        cpu, reading = self.cpu_per_sample, self.latency + self.network.stored_bytes / STREAM
        if self._by_bandwidth < min(self._by_cores, max(self.workers, 1) / (self.batch * (cpu + reading))):
            return False
        return cpu > reading or self._by_cores <= self.supply

    @property
    def _reads(self) -> bool:
        return self.storage is not Storage.MEMORY

    @cached_property
    def step(self) -> float:
        """Seconds of a step that never waits for data."""
        return self.copy + self.compute + self.exposed + self.offload

    def waits(self, rng: np.random.Generator, steps: int = STEPS_PER_PATTERN) -> list[float]:
        """Seconds that each of so many steps waits for its batch, after the pipeline has come to its pace."""
        service = max(self.workers, 1) / self.supply
        count = steps + 4 * max(self.workers, 1)
        deviation = math.sqrt(math.log1p(self.jitter**2))
        services = service * rng.lognormal(-(deviation**2) / 2, deviation, count)
        if self.workers == 0:
            return [float(value) for value in services[-steps:]]
        finished = [0.0] * count
        taken = [0.0] * count
        waits: list[float] = []
        now = delivered = 0.0
        depth = self.workers * self.prefetch
        for index in range(count):
            start = finished[index - self.workers] if index >= self.workers else 0.0
            if index >= depth:
                start = max(start, taken[index - depth])
            finished[index] = start + float(services[index])
            delivered = max(delivered, finished[index])
            wait = max(0.0, delivered - now)
            taken[index] = now + wait
            now += wait + self.step
            waits.append(wait)
        return waits[-steps:]

    # -------------------------------------------------------------------------------------------------- stretches

    def patterns(self, rng: np.random.Generator, roles: "Roles", number: int = PATTERNS) -> list[Pattern]:
        """Different runs of some dozens of steps, in the same regime."""
        return [self._pattern(rng, roles) for _ in range(number)]

    def _pattern(self, rng: np.random.Generator, roles: "Roles") -> Pattern:
        pace = float(rng.lognormal(0.0, 0.012))
        cause = "preprocessing" if self._bound_by_cpu else "reading"
        peers = self.ranks > 1 and self.exchange is Exchange.NCCL and not self.forward_only
        planned: list[tuple[str, float]] = []
        for wait in self.waits(rng):
            # ranks that got their batch sooner spin in the exchange until the last one comes
            spun = wait * self.jitter * min(0.6, 0.25 * math.log2(self.ranks)) if peers else 0.0
            planned += [
                (cause, wait - spun),
                ("waiting-for-peers", spun),
                ("copy", self.copy * pace),
                ("compute", self.compute * pace * float(rng.lognormal(0.0, 0.02))),
                ("offload", self.offload * pace),
                ("exchange", self.exposed * pace * float(rng.lognormal(0.0, 0.05))),
            ]
        period = sum(seconds for _, seconds in planned)
        pod = self._pod(period / STEPS_PER_PATTERN, sum(s for kind, s in planned if kind == cause) / period)
        uses = {kind: self._uses(kind, pod, roles) for kind in {kind for kind, seconds in planned if seconds > 0}}
        return Pattern([Stretch(seconds=s, activity=kind, uses=uses[kind]) for kind, s in planned if s > 0])

    def pod(self) -> PodUse:
        """What one pod does while its GPUs never wait for data."""
        return self._pod(self.step, 0.0)

    def _pod(self, step: float, starved: float) -> PodUse:
        """What one pod does over a run of steps of this mean length, a share of it starved."""
        rate = self.ranks_per_pod / step
        processes = 1 if self.exchange is Exchange.DATA_PARALLEL else self.ranks_per_pod
        wanted = rate * self.batch * self.cpu_per_sample + self.main_cpu * processes * (1 - 0.7 * starved)
        if self.exchange is Exchange.HOST:
            wanted += 1.2 * self.ranks_per_pod * self.exposed / step
        if self.offload_bytes and self.host_optimizer:
            wanted += 10 * self.ranks_per_pod * (self.offload_bytes / HOST_OPTIMIZER) / step
        cpu = min(wanted, self.cpu_limit)
        load = cpu / self.cpu_limit
        # with a quota, bursts of many threads run into it well before the mean does
        throttled = min(1.0, max(0.0, (load - 0.55) / 0.4)) if self.limited else 0.0
        waiting = min(0.95, max(0.0, (load - 0.6) / 0.4)) if load > 0.6 else 0.02 * load
        read = rate * self.batch * self.network.stored_bytes if self._reads else 0.0
        blocked = 0.0
        if self.storage in {Storage.DISK, Storage.MOUNT} and not self._bound_by_cpu:
            blocked = min(0.95, starved * 1.1 + 0.02)
        sent = received = 0.0
        if self.network_bandwidth and not self.rdma and self.exchanging:
            sent = received = 2 * self.gradient_bytes * self.ranks_per_pod / step / self.accumulate / self.ranks_per_pod
        remote = self.storage in {Storage.MOUNT, Storage.OBJECTS}
        return PodUse(
            cpu=cpu,
            memory=self.host_memory,
            net_rx=received + (read * 1.03 if remote else 0.0) + 2e3,
            net_tx=sent * (1 + self.asymmetry) + (read * 0.02 if remote else 0.0) + 2e3,
            disk_read=read if self.storage is Storage.DISK else 0.0,
            throttled=throttled,
            cpu_pressure=waiting,
            io_pressure=blocked,
        )

    def _uses(self, kind: str, pod: PodUse, roles: "Roles") -> Mapping[str, Use]:
        use = {
            "compute": self.computing,
            "exchange": self.in_exchange,
            "waiting-for-peers": self.spinning,
            "copy": self.copying,
            "offload": self.offloading,
        }.get(kind, self.resting)()
        uses: dict[str, Use] = dict.fromkeys(roles.gpus, use)
        for role, fast in roles.faster.items():
            if kind == "compute":
                uses[role] = mixed(fast.computing(), fast.spinning(), fast.compute / self.compute)
            elif kind == "copy":
                uses[role] = mixed(fast.copying(), fast.spinning(), fast.copy / self.copy)
        return uses | dict.fromkeys(roles.pods, pod) | dict(roles.others)

    def gpu_use(self, **activities: float) -> GpuUse:
        """A GPU that holds the job's memory and does this."""
        engine, sm = activities.get("engine", 0.0), activities.get("sm", 0.0)
        tensor, dram = activities.get("tensor", 0.0), activities.get("dram", 0.0)
        return GpuUse(
            **activities,
            power=self.gpu.power(engine, sm, tensor, dram) if engine else self.gpu.context,
            memory=self.gpu_memory,
            clock=self.gpu.clock / self.slowdown,
        )

    def resting(self) -> GpuUse:
        """Between kernels."""
        return self.gpu_use()

    def spinning(self) -> GpuUse:
        """In a collective kernel that waits for a peer."""
        return self.gpu_use(engine=1.0, sm=0.12, dram=0.015)

    def computing(self) -> GpuUse:
        """Mean over a step's kernels and the gaps between them."""
        span = self.compute
        engine = min(1.0, self.busy / span)
        fill = self.work / self.busy
        rx = self.batch_bytes / span if self.pinned else 0.0
        link = 0.0
        if self.exchange is Exchange.NCCL and self.gpu.nvlink and self.ranks_per_pod > 1:
            hidden = self.exchanging / self.accumulate - self.exposed
            link = 2 * self.gradient_bytes / self.accumulate / span if hidden > 0 else 0.0
        uses_tensor = self.mixed_precision or self.gpu.tf32
        return self.gpu_use(
            engine=engine,
            sm=engine * (0.25 + 0.65 * fill),
            tensor=min(0.75, self.flop / self.peak / span) if uses_tensor else 0.0,
            dram=min(0.9, self.traffic / (self.gpu.dram * 1e9) / span),
            rx=min(rx, self.gpu.pinned * 1e9) + 2e6 * engine,
            tx=1e6 * engine,
            nvlink=link,
        )

    def copying(self) -> GpuUse:
        """While the host waits for a copy: the copy engine is no kernel."""
        return self.gpu_use(rx=self.batch_bytes / self.copy if self.copy else 0.0, tx=1e5)

    def offloading(self) -> GpuUse:
        """Gradients out, parameters in, the optimizer on the CPU between."""
        rate = self.offload_bytes / self.offload if self.offload else 0.0
        return self.gpu_use(engine=0.05, sm=0.01, rx=rate, tx=rate)

    def in_exchange(self) -> GpuUse:
        """The part of the exchange that nothing covers."""
        if not self.exposed:
            return self.spinning()
        rate = 2 * self.gradient_bytes / self.accumulate / self.exposed
        if self.exchange is Exchange.NCCL:
            linked = self.gpu.nvlink and self.ranks_per_pod > 1
            over_pcie = rate / 2 if not linked else 0.0
            if self.network_bandwidth:
                over_pcie = max(over_pcie, rate / 2 / self.ranks_per_pod)
            return self.gpu_use(
                engine=1.0, sm=0.15, dram=0.04, nvlink=rate if linked else 0.0, rx=over_pcie, tx=over_pcie
            )
        if self.exchange is Exchange.DATA_PARALLEL:
            moved = self.network.parameters * 4e6 / self.exposed
            linked = self.gpu.nvlink
            return self.gpu_use(
                engine=0.25,
                sm=0.04,
                dram=0.02,
                nvlink=2 * moved if linked else 0.0,
                rx=0.0 if linked else moved,
                tx=0.0 if linked else moved,
            )
        staged = self.network.parameters * 4e6 / self.accumulate / self.exposed
        return self.gpu_use(rx=staged, tx=staged)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Who takes part: the roles of GPUs and pods that do as the regime says, and what all others do meanwhile."""

    gpus: tuple[str, ...]
    pods: tuple[str, ...]
    others: Mapping[str, Use]
    faster: Mapping[str, Training] = field(default_factory=dict)
    """Those that are done sooner with each step, and then spin until the slowest is."""


def mixed(first: GpuUse, second: GpuUse, share: float) -> GpuUse:
    """The mean use of a GPU that does the first for this share of the time, and the second for the rest."""
    names = [name.name for name in fields(GpuUse)]
    return GpuUse(**{name: share * getattr(first, name) + (1 - share) * getattr(second, name) for name in names})
