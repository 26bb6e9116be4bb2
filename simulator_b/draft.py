"""A job while its mechanism writes it: draws of hardware and time, stretches of work, and an account of what is lost.

A mechanism calls `start`, `loop`, `fed`, `phase` and `finish` in the order in which a program would do these things.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator_b.hardware import CARDS, CONTEXT_MIB, GB, HOSTS, Card, Host
from simulator_b.loader import waits
from simulator_b.track import PRESSURES, SHARES, Block, FloatArray, Rates
from stoker.findings.vocabulary import Category

GpuRates = Rates | Callable[[int], Rates]
Cause = Category | None

MOST_STRETCHES = 60_000
"""Stretches of one loop; chosen to bound time and memory. Longer loops join several cycles in one stretch."""
FINEST = 0.2
"""Seconds: shorter cycles are joined, for no exporter looks at less than a sixth of a second."""

KERNELS: Mapping[str, tuple[tuple[float, float], ...]] = {
    # busy, sm, tensor, dram: each between two bounds, while a step computes
    "transformer": ((0.96, 1.0), (0.78, 0.93), (0.30, 0.58), (0.30, 0.55)),
    "convnet": ((0.93, 0.99), (0.68, 0.88), (0.10, 0.30), (0.45, 0.70)),
    "fp32": ((0.95, 1.0), (0.80, 0.95), (0.0, 0.0), (0.30, 0.60)),
    "diffusion": ((0.96, 1.0), (0.80, 0.95), (0.22, 0.45), (0.40, 0.60)),
    "graph": ((0.85, 0.97), (0.40, 0.65), (0.01, 0.05), (0.35, 0.60)),
    "recommender": ((0.88, 0.97), (0.35, 0.60), (0.01, 0.06), (0.50, 0.75)),
    "decode": ((0.90, 0.99), (0.45, 0.75), (0.05, 0.15), (0.60, 0.85)),
    "launch-bound": ((0.18, 0.42), (0.06, 0.16), (0.004, 0.03), (0.02, 0.08)),
    "eager": ((0.66, 0.82), (0.30, 0.50), (0.03, 0.12), (0.15, 0.35)),
}
SHELL = 0.2 * GB
"""Memory of a container in which only a shell and its tools run."""
WAVER = 0.05
"""How much the load of a kind of step varies over some seconds, as a share of it (samples are of unequal size)."""
SPIN: Rates = {"busy": 1.0, "sm": 0.12, "dram": 0.03}
"""A rank that waits in an NCCL kernel: resident on a few SMs, without arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a cycle. `spread` is its duration's coefficient of variation, `drift` that of a slow change of its
    duration over minutes (a shared link or store). `moved` are amounts of each cycle, for GPUs (rx, tx, link) and pods.
    """

    seconds: float
    spread: float = 0.1
    drift: float = 0.0
    gpu: Rates = field(default_factory=dict)
    pod: Rates = field(default_factory=dict)
    moved: Mapping[str, float] = field(default_factory=dict)
    blame: Cause = None


class Draft:
    """The job that a mechanism writes."""

    def __init__(self, rng: np.random.Generator, cards: Sequence[str], shapes: Sequence[tuple[int, int]]) -> None:
        """`shapes` are (nodes, GPUs of each), of which one is drawn, with a card and a host."""
        self.rng = rng
        self.kind = self.pick(cards)
        self.card: Card = CARDS[self.kind]
        self.nodes, self.per_node = self.pick(shapes)
        hosts = [host for host in HOSTS if host.cores >= 4 * self.per_node]
        self.host: Host = self.pick(hosts)
        self.gpus = self.nodes * self.per_node
        self.pods = range(self.nodes)
        self.facts: dict[str, Any] = {}
        self.host_network = False
        self.finished = bool(rng.random() < 0.55)
        self.limit = None if rng.random() < 0.4 else float(min(self.host.cores, self.pick((8, 12, 16)) * self.per_node))
        self.spin = float(rng.choice([0.35, 0.7, 1.0]))
        """Cores with which a process waits for its GPU: CUDA spins unless told to block."""
        self.memory = [0.0] * self.gpus
        self.context = [False] * self.gpus
        self.rss = SHELL
        self.lost: dict[str, float] = defaultdict(float)
        self.worked = 0.0
        self._gpu: list[list[Block]] = [[] for _ in range(self.gpus)]
        self._pod: list[list[Block]] = [[] for _ in self.pods]
        self.idle_scale = float(rng.normal(1.0, 0.04))

    # ------------------------------------------------------------------------------------------------------ drawing

    def pick(self, options: Sequence[Any]) -> Any:
        """One of several, each as likely."""
        return options[int(self.rng.integers(len(options)))]

    def between(self, low: float, high: float) -> float:
        """A number, uniform."""
        return float(self.rng.uniform(low, high))

    def scale(self, low: float, high: float) -> float:
        """A number, uniform in its logarithm: for sizes and times."""
        return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def durations(self, mean: float, spread: float, count: int) -> FloatArray:
        """Positive times with this mean and coefficient of variation."""
        if spread <= 0:
            return np.full(count, mean)
        shape = 1.0 / spread**2
        return self.rng.gamma(shape, mean / shape, count) + 1e-6

    def drifting(self, seconds: FloatArray, sigma: float, tau: float = 600.0) -> FloatArray:
        """Factors with mean 1 that change slowly: an Ornstein-Uhlenbeck process, sampled after each of `seconds`."""
        if sigma <= 0 or len(seconds) == 0:
            return np.ones(len(seconds))
        keep = np.exp(-seconds / tau)
        noise = self.rng.normal(0.0, sigma, len(seconds)) * np.sqrt(1 - keep**2)
        state = float(self.rng.normal(0.0, sigma))
        states = np.empty(len(seconds))
        for place, (kept, new) in enumerate(zip(keep.tolist(), noise.tolist(), strict=True)):
            state = state * kept + new
            states[place] = state
        return np.exp(states - sigma**2 / 2)

    def kernels(self, kind: str, *, alone: bool = False) -> dict[str, float]:
        """What a card does while it computes steps of this kind; not `alone`, it exchanges gradients with its peers."""
        busy, sm, tensor, dram = (self.between(low, high) for low, high in KERNELS[kind])
        rates = {"busy": busy, "sm": min(sm, busy), "tensor": min(tensor, sm), "dram": dram}
        if not alone:
            rates["peer"] = self.between(0.02, 0.10) * (self.card.link / 4 or self.card.pinned)
        return rates

    def ranks_of(self, pod: int) -> range:
        """The GPUs of a pod, by their number in the job."""
        return range(pod * self.per_node, (pod + 1) * self.per_node)

    # --------------------------------------------------------------------------------------------------------- state

    def hold(self, share: float, ranks: Sequence[int] | None = None) -> None:
        """Processes on these GPUs hold this share of the memory, with a context."""
        base = CONTEXT_MIB[self.kind]
        for rank in range(self.gpus) if ranks is None else ranks:
            self.context[rank] = True
            self.memory[rank] = min(max(share * self.card.memory, base), 0.985 * self.card.memory)

    def release(self, ranks: Sequence[int] | None = None) -> None:
        """The processes on these GPUs have ended."""
        for rank in range(self.gpus) if ranks is None else ranks:
            self.context[rank] = False
            self.memory[rank] = 0.0
        self.rss = SHELL

    # ------------------------------------------------------------------------------------------------------- writing

    def phase(
        self,
        seconds: float,
        *,
        gpu: GpuRates | None = None,
        pod: Rates | None = None,
        rough: float = 0.08,
        blame: Cause = None,
        **where: Any,
    ) -> None:
        """One activity for so long, with rates that vary by `rough` around those given."""
        count = int(np.clip(seconds / 8.0, 1, 3000))
        weights = self.rng.gamma(4.0, 1.0, count)
        lengths = seconds * weights / weights.sum()
        wave = self.drifting(lengths, rough, tau=25.0)
        rates = gpu if callable(gpu) else {name: value * wave for name, value in (gpu or {}).items()}
        self.push(lengths, rates, {name: value * wave for name, value in (pod or {}).items()}, blame=blame, **where)

    def loop(self, seconds: float, parts: Sequence[Part], **where: Any) -> None:
        """Cycles of parts, until about so many seconds are over."""
        cycle = sum(part.seconds for part in parts)
        joined = max(1, int(np.ceil(FINEST / cycle)), int(np.ceil(seconds / cycle * len(parts) / MOST_STRETCHES)))
        fine = cycle >= FINEST and joined == 1
        count = max(round(seconds / (cycle * joined)), 1)
        columns = [self.durations(part.seconds * joined, part.spread / np.sqrt(joined), count) for part in parts]
        whole = np.sum(columns, axis=0)
        columns = [col * self.drifting(whole, part.drift) for col, part in zip(columns, parts, strict=True)]
        wave = self.drifting(whole, WAVER, tau=15.0)
        rates = [_with_moved(part, joined, col, wave) for part, col in zip(parts, columns, strict=True)]
        if fine:
            self._interleave(parts, columns, rates, where)
        else:
            self._blend(parts, columns, rates, where)

    def fed(
        self,
        seconds: float,
        *,
        make: float,
        use: float,
        workers: int,
        compute: Rates,
        ahead: int = 2,
        spread: float = 0.3,
        drift: float = 0.0,
        cores: float = 1.0,
        batch: Mapping[str, float] | None = None,
        pod: Rates | None = None,
        blame: Cause = None,
        **where: Any,
    ) -> None:
        """A training behind a data loader: `make` seconds of one worker for a batch, `use` of the GPU for a step.

        `cores` is what a worker uses of a CPU meanwhile, `batch` what each batch moves. What the GPU waits is blamed.
        """
        count = int(min(seconds / max(use, make / max(workers, 1), FINEST if workers else make + use), 40_000)) + 1
        made = self.durations(make, spread, count)
        made = made * self.drifting(np.full(count, seconds / count), drift)
        used = self.durations(use, 0.05, count)
        waited = waits(made, used, workers, ahead)
        lengths = np.column_stack((waited, used)).ravel()
        active = np.tile([0.0, 1.0], count)
        kept = lengths > 1e-5
        # Workers make as many batches as are used, smoothed by those that lie ready.
        pace = _smoothed(waited + used, max(workers * ahead, 1))
        pace = pace * float(((waited + used) / pace).sum()) / count
        flows = {name: np.repeat(amount / pace, 2) for name, amount in (batch or {}).items()}
        busy_cores = np.repeat(cores * _smoothed(made, max(workers * ahead, 1)) / pace, 2)
        copied = {name: flows.pop(name) for name in ("rx", "tx", "link") if name in flows}
        gpu: dict[str, float | FloatArray] = {name: (value * active)[kept] for name, value in compute.items()}
        steps = np.repeat((waited + used) / used, 2)
        gpu |= {name: (value * steps * active)[kept] for name, value in copied.items()}
        host: dict[str, float | FloatArray] = {name: value[kept] for name, value in flows.items()}
        fixed = dict(pod or {})
        host["cpu"] = busy_cores[kept] + fixed.pop("cpu", 0.0)
        self.push(lengths[kept], gpu, host | fixed, blame=blame, **where)

    def push(
        self,
        seconds: FloatArray,
        gpu: GpuRates,
        pod: Rates,
        *,
        blame: Cause = None,
        active: Sequence[int] | None = None,
        rest: Rates | None = None,
        rest_blame: Cause = None,
        pods: Sequence[int] | None = None,
        each_pod: Callable[[int, Rates], Rates] | None = None,
        each_gpu: Callable[[int, Rates], Rates] | None = None,
    ) -> None:
        """Append stretches to these pods (default: all) and their GPUs. GPUs that are not `active` do `rest`.

        `each_pod` and `each_gpu` say how one pod or one active GPU departs from the rates that are given for all.
        Time without a kernel is booked on `blame`; `rest_blame` takes that of the others, by default `blame`, too.
        """
        for number in self.pods if pods is None else pods:
            kernels = np.zeros(len(seconds))
            for rank in self.ranks_of(number):
                works = active is None or rank in active
                source = (gpu(rank) if callable(gpu) else gpu) if works else (rest or {})
                if works and each_gpu is not None:
                    source = each_gpu(rank, source)
                rates = self._bounded(source, len(seconds), peers=self.gpus if active is None else len(active))
                self._book(seconds, rates["busy"], blame if works or rest_blame is None else rest_blame)
                if self.context[rank]:
                    kernels = kernels + rates["busy"]
                levels = {"memory": self.memory[rank], "context": float(self.context[rank])}
                self._gpu[rank].append(Block(seconds, {**rates, "watts": self._watts(rank, rates), **levels}))
            flows = pod if each_pod is None else each_pod(number, pod)
            self._pod[number].append(Block(seconds, self._pod_rates(number, flows, kernels)))

    # ------------------------------------------------------------------------------------------------- what programs do

    def start(self, share: float, *, seconds: float | None = None, ranks: Sequence[int] | None = None) -> None:
        """Imports, the model's construction and its copy to the GPUs, whose memory is then used by `share`."""
        wait = self.scale(20, 110) if seconds is None else seconds
        reading = {"cpu": 1.2 * self.per_node, "disk_read": min(0.12 * GB, self.host.disk), "io_wait": 0.05}
        self.phase(wait, pod=reading, rough=0.3)
        self.rss += 3.0 * GB * self.per_node
        self.hold(share, ranks)
        model = 0.3 * share * self.card.memory * 1024 * 1024
        copy = max(model / self.card.pageable, 1.0)
        self.phase(copy, gpu={"rx": model / copy}, pod={"cpu": 1.0}, active=ranks)

    def finish(self, *, size: float = 2 * GB) -> None:
        """The last save and the process's end."""
        seconds = max(size / 0.8e9, 3.0)
        self.phase(seconds, gpu=lambda rank: {"tx": size / seconds} if rank == 0 else {}, pod={"cpu": 1.0})
        self.phase(self.between(1, 6), pod={"cpu": 0.3})

    def train(self, seconds: float, kind: str, *, stall: float = 0.03, alone: bool = False, **where: Any) -> None:
        """A training without a fault: steps of this kind with small gaps; `alone`, one for each GPU."""
        work, step = self.kernels(kind, alone=alone), self.scale(0.25, 2.5)
        batch = self.scale(2e6, 8e7)
        feed = {"cpu": self.between(0.3, 2.5) * self.per_node, "disk_read": batch * self.per_node / step * 0.4}
        self.loop(
            seconds,
            [
                Part(seconds=step * stall, spread=0.6, pod=feed, moved={"rx": batch}),
                Part(seconds=step * (1 - stall), spread=0.06, gpu=work, pod=feed),
            ],
            **where,
        )

    # -------------------------------------------------------------------------------------------------------- result

    @property
    def life(self) -> float:
        """Seconds written so far."""
        return max(self.clock(pod) for pod in self.pods)

    def clock(self, pod: int) -> float:
        """Seconds written of one pod."""
        return float(sum(block.seconds.sum() for block in self._pod[pod]))

    @property
    def utilization(self) -> float:
        """The true share of GPU time with a kernel, 0..1."""
        return self.worked / max(self.worked + sum(self.lost.values()), 1e-9)

    def blocks(self) -> tuple[list[list[Block]], list[list[Block]]]:
        """What GPUs and pods do."""
        return self._gpu, self._pod

    # -------------------------------------------------------------------------------------------------------- inside

    def _interleave(
        self, parts: Sequence[Part], columns: Sequence[FloatArray], rates: Sequence[Rates], where: Mapping[str, Any]
    ) -> None:
        seconds = np.column_stack(columns).ravel()
        names = {name for one in rates for name in one}
        count = len(columns[0])
        joined = {
            name: np.column_stack([np.broadcast_to(one.get(name, 0.0), (count,)) for one in rates]).ravel()
            for name in names
        }
        blames = [(part.blame, column) for part, column in zip(parts, columns, strict=True)]
        self._push_parts(seconds, joined, parts, blames, rates, where)

    def _blend(
        self, parts: Sequence[Part], columns: Sequence[FloatArray], rates: Sequence[Rates], where: Mapping[str, Any]
    ) -> None:
        seconds = np.sum(columns, axis=0)
        names = {name for one in rates for name in one}
        mixed = {
            name: np.sum([col * one.get(name, 0.0) for col, one in zip(columns, rates, strict=True)], axis=0) / seconds
            for name in names
        }
        blames = [(part.blame, column) for part, column in zip(parts, columns, strict=True)]
        self._push_parts(seconds, mixed, parts, blames, rates, where)

    def _push_parts(
        self,
        seconds: FloatArray,
        joined: Mapping[str, FloatArray],
        parts: Sequence[Part],
        blames: Sequence[tuple[Cause, FloatArray]],
        rates: Sequence[Rates],
        where: Mapping[str, Any],
    ) -> None:
        gpu = {name: column for name, column in joined.items() if name in {*SHARES, "rx", "tx", "link", "peer"}}
        pod = {name: column for name, column in joined.items() if name not in gpu}
        idle = [
            (
                part.blame,
                float(np.sum(column * (1 - np.clip(np.broadcast_to(one.get("busy", 0.0), column.shape), 0, 1)))),
            )
            for part, (_, column), one in zip(parts, blames, rates, strict=True)
        ]
        main = max(idle, key=lambda item: item[1])[0] if idle else None
        before = dict(self.lost)
        self.push(seconds, gpu, pod, blame=main, **where)
        self._split(before, main, idle)

    def _split(self, before: Mapping[str, float], main: Cause, idle: Sequence[tuple[Cause, float]]) -> None:
        """Book what the active GPUs lost in a loop on each part's cause."""
        key, total = _key(main), sum(lost for _, lost in idle)
        grown = self.lost[key] - before.get(key, 0.0)
        if total <= 0:
            return
        self.lost[key] -= grown
        for cause, lost in idle:
            self.lost[_key(cause)] += grown * lost / total

    def _book(self, seconds: FloatArray, busy: FloatArray, cause: Cause) -> None:
        worked = float((seconds * busy).sum())
        self.worked += worked
        self.lost[_key(cause)] += float(seconds.sum()) - worked

    def _bounded(self, rates: Rates, count: int, peers: int) -> dict[str, FloatArray]:
        """Rates of a GPU that the card can have. What it exchanges with its peers in each direction goes over NVLink
        where there is one, and over PCIe where there is none and between nodes.
        """

        def column(name: str) -> FloatArray:
            return np.broadcast_to(np.asarray(rates.get(name, 0.0), dtype=np.float64), (count,))

        peer = column("peer") * (peers > 1)
        bus = peer if self.card.link == 0 else np.minimum(peer, 0.1 * self.card.pinned) * (peers > self.per_node)
        busy = np.clip(column("busy"), 0.0, 1.0)
        sm = np.minimum(np.clip(column("sm"), 0.0, 1.0), busy)
        return {
            "busy": busy,
            "sm": sm,
            "tensor": np.minimum(np.clip(column("tensor"), 0.0, 1.0), sm),
            "dram": np.clip(column("dram"), 0.0, 0.95),
            "decode": np.clip(column("decode"), 0.0, 1.0),
            "rx": np.clip(column("rx") + bus, 0.0, self.card.pinned),
            "tx": np.clip(column("tx") + bus, 0.0, self.card.pinned),
            "link": np.clip(column("link") + 2 * peer, 0.0, self.card.link),
        }

    def _watts(self, rank: int, rates: Mapping[str, FloatArray]) -> FloatArray:
        """Power between the idle level and the limit, by what works: clocks, SMs, tensor cores, memory, copies."""
        base = (self.card.context if self.context[rank] else self.card.idle) * self.idle_scale
        tensor, dram = np.minimum(rates["tensor"] / 0.55, 1.0), np.minimum(rates["dram"] / 0.6, 1.0)
        copies = np.minimum((rates["rx"] + rates["tx"]) / self.card.pinned, 1.0)
        load = 0.10 * rates["busy"] + 0.38 * rates["sm"] + 0.34 * tensor + 0.15 * dram + 0.03 * copies
        return base + (0.97 * self.card.limit - base) * np.minimum(load, 1.0)

    def _pod_rates(self, pod: int, rates: Rates, kernels: FloatArray) -> dict[str, FloatArray | float]:
        count = len(kernels)
        quiet = 0.01 + 0.03 * sum(self.context[rank] for rank in self.ranks_of(pod))
        bound = min(self.limit or self.host.cores, self.host.cores)
        asked = np.broadcast_to(np.asarray(rates.get("cpu", 0.0), dtype=np.float64), (count,))
        asked = asked + self.spin * kernels + quiet
        short = np.clip((asked - 0.93 * bound) / bound, 0.0, 1.0)
        result: dict[str, FloatArray | float] = {"cpu": np.minimum(asked, bound), "rss": self.rss}
        caps = {"net_rx": self.host.nic, "net_tx": self.host.nic, "disk_read": self.host.disk}
        for name, cap in {**caps, "disk_write": self.host.disk}.items():
            result[name] = np.clip(rates.get(name, 0.0), 0.0, cap)
        for name in PRESSURES:
            result[name] = np.clip(rates.get(name, 0.0), 0.0, 1.0)
        # Some task waits now and then long before all cores are taken, and for the disk in proportion to its load.
        load = np.minimum(asked, bound) / bound
        at_bound = np.clip(4 * short, 0.0, 0.95)
        result["cpu_wait"] = np.maximum(np.maximum(result["cpu_wait"], at_bound), 0.01 * load + 0.2 * load**3)
        disk = (np.asarray(result["disk_read"]) + 0.5 * np.asarray(result["disk_write"])) / self.host.disk
        result["io_wait"] = np.maximum(result["io_wait"], np.clip(0.4 * disk, 0.0, 0.9))
        if self.limit is not None:
            result["throttled"] = np.maximum(result["throttled"], at_bound)
        return result


def _smoothed(values: FloatArray, width: int) -> FloatArray:
    """The mean of the `width` values around each."""
    width = min(width, len(values))
    ones = np.ones(width)
    return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")


def _with_moved(part: Part, joined: int, seconds: FloatArray, wave: FloatArray) -> dict[str, float | FloatArray]:
    """A part's rates, with a wave on the GPU's shares, and the amounts that it moves spread over its seconds."""
    rates: dict[str, float | FloatArray] = {**part.gpu, **part.pod}
    rates |= {name: rates[name] * wave for name in SHARES if name in part.gpu}
    for name, amount in part.moved.items():
        rates[name] = rates.get(name, 0.0) + amount * joined / seconds
    return rates


def _key(cause: Cause) -> str:
    return "none" if cause is None else cause.value
