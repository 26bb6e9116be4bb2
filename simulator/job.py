"""Jobs: what their programs do from the container's start on, and what that makes of their GPUs and pods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import numpy as np

from simulator.hardware import GpuModel
from simulator.timeline import FloatArray, GpuUse, Pattern, PodUse, Stretch, Timeline, Use
from simulator.training import CONTEXT_MIB, Exchange, Roles, Training
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category
from stoker.telemetry.series import JobFacts

GPU_ROLES = ("lead", "peers", "odd", "unused")
"""The first GPU of rank 0, those that do as it does, one that differs, and those that nothing runs on."""
POD_ROLES = ("head", "tails")
"""The pod of rank 0, and the others."""
QUIET = PodUse(cpu=0.01, memory=1.2e9, net_rx=1.5e3, net_tx=1.5e3)
IDLE_CLOCK = 345.0
BLOCK_SECONDS = 45.0
"""A run of steps is played for about so long before the next one is drawn."""


class Story:
    """What a job does, phase after phase; every method adds one. Seconds, bytes, bytes/s, cores.

    `training` gives the hardware and the memory that the program holds once it has started; phases that name another
    one (evaluation, say) hold that one's.
    """

    def __init__(
        self, rng: np.random.Generator, training: Training, *, used: Sequence[str] = ("lead", "peers")
    ) -> None:
        self.rng, self.training = rng, training
        self._used = tuple(used)
        self._parts: list[tuple[Pattern, float]] = []
        self._constant: dict[tuple[str | Use, ...], Pattern] = {}

    @property
    def seconds(self) -> float:
        """How long it has been so far."""
        return sum(seconds for _, seconds in self._parts)

    def timeline(self) -> Timeline:
        return Timeline(self._parts)

    # ---------------------------------------------------------------------------------------------------- any phase

    def hold(self, seconds: float, activity: str, uses: Mapping[str, Use] | None = None) -> None:
        """The same for so long; roles that aren't named hold nothing and do nothing."""
        if seconds > 0:
            whole = self._at_rest() | dict(uses or {})
            key = (activity, *(whole[role] for role in (*GPU_ROLES, *POD_ROLES)))
            if key not in self._constant:
                stretch = Stretch(seconds=BLOCK_SECONDS, activity=activity, uses=whole)
                self._constant[key] = Pattern([stretch])
            self._parts.append((self._constant[key], seconds))

    def wait(
        self,
        seconds: float,
        activity: str,
        *,
        pod: PodUse = QUIET,
        tails: PodUse | None = None,
        lead: GpuUse | None = None,
        peers: GpuUse | None = None,
    ) -> None:
        """GPUs that hold the job's memory and wait, or do what `lead` and `peers` say."""
        rest = self.training.resting()
        first = lead or rest
        uses: dict[str, Use] = {role: first if role == "lead" else peers or first for role in self._used}
        self.hold(seconds, activity, uses | self._pods(pod, tails))

    def cpu_only(self, seconds: float, activity: str, pod: PodUse, tails: PodUse | None = None) -> None:
        """Before the program has touched a GPU."""
        self.hold(seconds, activity, self._pods(pod, tails))

    def _pods(self, pod: PodUse, tails: PodUse | None) -> dict[str, Use]:
        return {"head": pod, "tails": tails or pod}

    def _at_rest(self) -> dict[str, Use]:
        gpu = GpuUse(power=self.training.gpu.idle, clock=IDLE_CLOCK)
        return dict.fromkeys(GPU_ROLES, gpu) | dict.fromkeys(POD_ROLES, QUIET)

    def play(self, patterns: Sequence[Pattern], seconds: float) -> None:
        """Runs of a regime in random order for so long."""
        left = seconds
        while left > 1e-6:
            pattern = patterns[int(self.rng.integers(len(patterns)))]
            rounds = max(1, round(BLOCK_SECONDS / pattern.period * float(self.rng.uniform(0.5, 1.5))))
            block = min(left, rounds * pattern.period)
            self._parts.append((pattern, block))
            left -= block

    def regime(
        self,
        training: Training | None = None,
        *,
        faster: Mapping[str, Training] | None = None,
        used: Sequence[str] | None = None,
    ) -> list[Pattern]:
        """Runs of steps of this configuration, to be played as often as one likes. `faster` roles wait for it; `used`
        are the roles that work, by default all of the story's.
        """
        working = self._used if used is None else tuple(used)
        others = {role: use for role, use in self._at_rest().items() if role not in {*working, *POD_ROLES}}
        roles = Roles(gpus=working, pods=POD_ROLES, others=others, faster=faster or {})
        return (training or self.training).patterns(self.rng, roles)

    # ------------------------------------------------------------------------------------------------------ start-up

    def boot(self, seconds: float) -> None:
        """The interpreter starts and imports its libraries."""
        self.cpu_only(seconds, "boot", PodUse(cpu=0.95, memory=2e9, net_rx=4e3, net_tx=4e3, disk_read=25e6))

    def install_wheels(self, seconds: float) -> None:
        """pip: resolves and downloads in bursts, unpacks thousands of small files, again and again."""
        fetch = PodUse(cpu=0.6, memory=0.6e9, net_rx=float(self.rng.uniform(6e6, 35e6)), net_tx=4e5, disk_write=8e6)
        unpack = PodUse(
            cpu=1.0,
            memory=0.8e9,
            net_rx=3e4,
            net_tx=1e4,
            disk_write=float(self.rng.uniform(20e6, 60e6)),
            io_pressure=0.1,
        )
        resolve = PodUse(cpu=0.9, memory=0.7e9, net_rx=3e5, net_tx=5e4)
        self._alternate(seconds, "install", [(resolve, 12), (fetch, 18), (unpack, 35)])

    def compile_libraries(self, seconds: float) -> None:
        """Extensions from source: compilers on some cores, hardly any traffic."""
        cores = min(float(self.rng.uniform(1.0, 8.0)), self.training.cpu_limit)
        build = PodUse(cpu=cores, memory=4e9, net_rx=3e3, net_tx=3e3, disk_write=2.5e6)
        link = PodUse(cpu=1.0, memory=3e9, net_rx=3e3, net_tx=3e3, disk_write=15e6, disk_read=5e6)
        self._alternate(seconds, "install", [(build, 60), (link, 8)])

    def copy_libraries(self, seconds: float) -> None:
        """A folder of small files from a share: a round trip a file leaves little throughput."""
        rate = float(self.rng.uniform(2e6, 9e6))
        copy = PodUse(cpu=0.25, memory=0.5e9, net_rx=rate, net_tx=rate * 0.08, disk_write=rate, io_pressure=0.7)
        self._alternate(seconds, "install", [(copy, 40), (replace(copy, net_rx=rate * 0.5, disk_write=rate * 0.5), 25)])

    def download(self, size: float, rate: float) -> None:
        """One stream of large files from afar, written to the local disk."""
        pod = PodUse(cpu=0.15 + rate / 3e8, memory=1.5e9, net_rx=rate * 1.03, net_tx=rate * 0.015, disk_write=rate)
        slower = replace(pod, net_rx=pod.net_rx * 0.8, disk_write=pod.disk_write * 0.8)
        self._alternate(size / rate, "download", [(pod, 50), (slower, 30)])

    def prepare(self, seconds: float, cores: float) -> None:
        """Raw data into samples with all the cores there are, before the first kernel."""
        cpu = min(cores, self.training.cpu_limit)
        load = cpu / self.training.cpu_limit
        pod = PodUse(
            cpu=cpu,
            memory=20e9,
            disk_read=cpu * 1.5e6,
            disk_write=cpu * 1.0e6,
            net_rx=2e3,
            net_tx=2e3,
            throttled=max(0.0, load - 0.8) * 4 if self.training.limited else 0.0,
            cpu_pressure=max(0.0, load - 0.7) * 2.5,
        )
        self._alternate(seconds, "preparing", [(pod, 70), (replace(pod, cpu=cpu * 0.97), 40)])

    def load_model(self, seconds: float) -> None:
        """Weights from disk to the GPUs; their memory fills."""
        share = GpuUse(
            power=self.training.gpu.context,
            memory=CONTEXT_MIB + 0.4 * (self.training.gpu_memory - CONTEXT_MIB),
            clock=self.training.gpu.clock,
            rx=self.training.network.parameters * 4e6 / max(seconds, 1.0),
        )
        pod = PodUse(cpu=1.2, memory=8e9, disk_read=self.training.network.parameters * 4e6 / max(seconds, 1.0))
        self.wait(seconds, "loading", pod=pod, lead=share)

    def warm_up(self, seconds: float, cores: float = 4.0) -> None:
        """Graph compilation and autotuning: the host works, kernels run now and then."""
        trial = self.training.gpu_use(engine=0.6, sm=0.3, tensor=0.05, dram=0.15)
        pod = PodUse(cpu=min(cores, self.training.cpu_limit), memory=10e9)
        pattern: list[Stretch] = []
        for _ in range(8):
            quiet, busy = float(self.rng.uniform(3, 12)), float(self.rng.uniform(0.3, 2.5))
            for length, use in ((quiet, self.training.resting()), (busy, trial)):
                uses: dict[str, Use] = dict.fromkeys(self._used, use)
                pattern.append(
                    Stretch(seconds=length, activity="warm-up", uses=self._at_rest() | uses | self._pods(pod, None))
                )
        self._parts.append((Pattern(pattern), seconds))

    def _alternate(self, seconds: float, activity: str, uses: Sequence[tuple[PodUse, float]]) -> None:
        stretches = [
            Stretch(
                seconds=length * float(self.rng.lognormal(0.0, 0.35)),
                activity=activity,
                uses=self._at_rest() | self._pods(use, None),
            )
            for _ in range(6)
            for use, length in uses
        ]
        self._parts.append((Pattern(stretches), seconds))

    # ------------------------------------------------------------------------------------------------ inside training

    def train(self, patterns: Sequence[Pattern], seconds: float, *, beside: Mapping[str, Use] | None = None) -> None:
        """A regime for so long, with something else running beside it."""
        self.play([pattern.over(beside) for pattern in patterns] if beside else patterns, seconds)

    def checkpoint(
        self,
        size: float,
        bandwidth: float,
        *,
        remote: bool,
        sharded: bool = False,
        activity: str = "checkpoint",
        serializing: float = 1.6e9,
    ) -> float:
        """Save synchronously; return its seconds. Rank 0 saves it all, or every rank its share.

        The states leave the GPU in pageable copies, are pickled, and written as fast as the storage takes them; under
        NCCL, ranks that don't save wait in a kernel.
        """
        training = self.training
        savers = training.ranks if sharded else 1
        part = size / savers
        out = part / (training.gpu.pageable * 1e9)
        writing = part / min(serializing, bandwidth / (training.ranks_per_pod if sharded else 1))
        waiting = training.spinning() if training.exchange is Exchange.NCCL else training.resting()
        peers = None if sharded else waiting
        copying = training.gpu_use(tx=training.gpu.pageable * 1e9)
        pod = PodUse(cpu=1.0, memory=training.host_memory + part, net_rx=3e3, net_tx=3e3)
        idle = replace(
            QUIET,
            memory=training.host_memory,
            cpu=0.02 if training.exchange is not Exchange.NCCL else 1.0 * training.ranks_per_pod,
        )
        spinners = idle.cpu if sharded or training.ranks_per_pod == 1 else 1.0 * (training.ranks_per_pod - 1)
        tails = pod if sharded else idle
        self.wait(out, activity, pod=pod, tails=tails, lead=copying, peers=peers or copying)
        written = part * (training.ranks_per_pod if sharded else 1) / writing
        save = PodUse(
            cpu=0.25 + 0.7 * min(1.0, written / serializing) + (0.0 if sharded else spinners),
            memory=training.host_memory + part,
            net_rx=written * 0.01 if remote else 2e3,
            net_tx=written * 1.03 if remote else 2e3,
            disk_write=0.0 if remote else written,
            io_pressure=0.0 if remote else 0.6,
        )
        self.wait(writing, activity, pod=save, tails=save if sharded else idle, peers=peers)
        return out + writing

    def upload(self, size: float, bandwidth: float, *, remote: bool = True) -> float:
        """Send results before going on; return its seconds. The host alone works, from data that it has already."""
        training = self.training
        waiting = training.spinning() if training.exchange is Exchange.NCCL and training.ranks > 1 else None
        seconds = size / bandwidth
        pod = PodUse(
            cpu=0.5 + (1.0 * (training.ranks_per_pod - 1) if waiting else 0.0),
            memory=training.host_memory,
            net_rx=bandwidth * 0.02 + 3e3,
            net_tx=bandwidth * 1.03 if remote else 2e3,
            disk_write=0.0 if remote else bandwidth,
        )
        self.wait(seconds, "upload", pod=pod, tails=QUIET, peers=waiting)
        return seconds

    def evaluate(self, training: Training, seconds: float) -> None:
        """Forward passes in another configuration; the memory of training stays reserved."""
        held = replace(training, forward_only=True, exchange=Exchange.NONE, memory=self.training.gpu_memory)
        self.play(self.regime(held), seconds)


@dataclass(frozen=True, kw_only=True)
class SimulatedPod:
    """One pod: where its GPUs' and its own use over time are found. `gpus` are roles, by slot."""

    name: str
    model: GpuModel
    timeline: Timeline = field(repr=False)
    gpus: tuple[str, ...]
    role: str
    started: float = 0.0
    """Seconds after the job's first container."""

    def gpu_value(self, slot: int, times: FloatArray) -> FloatArray:
        """Rates of the fields of GpuUse at these seconds since the container's start."""
        return self.timeline.value(self.gpus[slot], np.maximum(times, 0.0))

    def gpu_total(self, slot: int, times: FloatArray) -> FloatArray:
        """Integrals of the fields of GpuUse from the container's start on."""
        return self.timeline.integral(self.gpus[slot], np.maximum(times, 0.0))

    def pod_value(self, times: FloatArray) -> FloatArray:
        """Rates of the fields of PodUse."""
        return self.timeline.value(self.role, np.maximum(times, 0.0))

    def pod_total(self, times: FloatArray) -> FloatArray:
        """Integrals of the fields of PodUse."""
        return self.timeline.integral(self.role, np.maximum(times, 0.0))


@dataclass(frozen=True, kw_only=True)
class SimulatedJob:
    """A job with what is wrong in it.

    `facts` are those of a look at `life` seconds after its first container's start; `truth` is empty for a healthy job.
    """

    case: str
    seed: int
    facts: JobFacts
    pods: tuple[SimulatedPod, ...]
    truth: frozenset[Category]
    life: float
    static_findings: tuple[Finding, ...] = ()

    @property
    def started_at(self) -> datetime:
        """When its first container started; of a job whose containers never did, when it got its GPUs."""
        pods = self.facts.pods
        first = [attempt.started_at for pod in pods for attempt in pod.attempts]
        started = first + [pod.started_at for pod in pods if pod.started_at is not None]
        return min(started or [pod.scheduled_at for pod in pods if pod.scheduled_at is not None])

    @cached_property
    def activities(self) -> Mapping[str, float]:
        """Seconds of the first pod's life by what the program did; none without a pod that started."""
        return self.pods[0].timeline.activities if self.pods else {}

    @cached_property
    def utilization(self) -> float:
        """The true mean over the GPUs of all pods that started, in percent: what a perfect exporter would show."""
        means = [
            pod.gpu_total(slot, np.array([self.life - pod.started]))[0, 0] / (self.life - pod.started)
            for pod in self.pods
            for slot in range(len(pod.gpus))
        ]
        return 100 * float(np.mean(means)) if means else math.nan
