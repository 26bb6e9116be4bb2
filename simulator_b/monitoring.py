"""What exporters, the kubelet and Prometheus make of a job: which signals there are, when they are read, what is lost.

dcgm-exporter reads all fields each 30 s by default: GPU_UTIL is the driver's, over the last sixth of a second to second
before it; the profiling fields are means of the interval; the energy counter only grows. cAdvisor reads each container
some 10 to 15 s apart, and the kubelet serves its counters with the times at which they were read. Prometheus scrapes
both at its own times, and what a range query says of a step follows from the samples that it holds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zlib import crc32

import numpy as np

from simulator.recording import Tier
from simulator_b.hardware import MIB, Card
from simulator_b.job import DrawnJob
from simulator_b.track import FloatArray, Track
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.readings import mean_rates
from stoker.telemetry.screen import step_for
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries, PodFacts, PodSignal

STALE = 45.0
"""Seconds for which a query lets a sample stand for the steps that follow it, where these hold none."""
LONGER = 120.0
"""Seconds of the window in which a rate is taken where the usual one holds fewer than two samples."""
CONTEXT_WATTS = {"H100": 122.0, "A100": 80.0, "L40S": 102.0}
"""What the product knows of a model's power at rest; the cards themselves depart from it."""

MEANS = {GpuSignal.TENSOR: "tensor", GpuSignal.DRAM: "dram"}
RATES = {
    PodSignal.CPU: ("cpu", 1.0),
    PodSignal.NET_RX: ("net_rx", 1.0),
    PodSignal.NET_TX: ("net_tx", 1.0),
    PodSignal.DISK_READ: ("disk_read", 1.0),
    PodSignal.DISK_WRITE: ("disk_write", 1.0),
}
EXTRA_RATES = {
    PodSignal.CPU_THROTTLED: ("throttled", 100.0),
    PodSignal.CPU_PRESSURE: ("cpu_wait", 100.0),
    PodSignal.IO_PRESSURE: ("io_wait", 100.0),
    PodSignal.MEMORY_PRESSURE: ("memory_wait", 100.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """How one job is monitored. Times are seconds; `quiet` are the stretches without any scrape.

    window: what GPU_UTIL looks back over. missed: share of scrapes without an answer. profiling: whether the exporter
    may read the profiling fields, which needs a capability.
    """

    collect: float
    scrape: float
    window: float
    missed: float
    quiet: tuple[tuple[float, float], ...]
    profiling: bool

    @classmethod
    def drawn(cls, rng: np.random.Generator, life: float) -> "Cluster":
        """One of many."""
        quiet = []
        if rng.random() < 0.1:
            begin = float(rng.uniform(0, life))
            quiet.append((begin, begin + float(rng.uniform(60, 600))))
        return cls(
            collect=float(rng.choice([30.0, 30.0, 30.0, 15.0])),
            scrape=float(rng.choice([15.0, 30.0])),
            window=float(rng.choice([1 / 6, 0.5, 1.0])),
            missed=float(rng.choice([0.0, 0.002, 0.015])),
            quiet=tuple(quiet),
            profiling=bool(rng.random() > 0.03),
        )

    def times(self, rng: np.random.Generator, every: float, end: float, jitter: float) -> FloatArray:
        """When something that happens each `every` seconds happens: at a phase of its own, a little off each time."""
        regular = np.arange(float(rng.uniform(0, every)), end, every)
        return np.sort(np.clip(regular + rng.normal(0.0, jitter, len(regular)), 0.0, end))

    def scrapes(self, rng: np.random.Generator, end: float) -> FloatArray:
        """When a target was scraped with success."""
        times = self.times(rng, self.scrape, end, 0.03)
        kept = rng.random(len(times)) >= self.missed
        for begin, until in self.quiet:
            kept &= (times < begin) | (times >= until)
        return times[kept]


def record(job: DrawnJob, tier: Tier) -> tuple[JobFacts, JobSeries, datetime]:
    """The job's facts and series as a cluster of this tier has them at the end of what was drawn, and that time.

    The same job and tier give the same samples; a tier with more signals has the same values of those that are in both.
    """
    now = job.started_at + timedelta(seconds=job.life)
    step = step_for(timedelta(seconds=job.life))
    seconds = step.total_seconds()
    start = datetime.fromtimestamp(job.started_at.timestamp() // seconds * seconds, UTC)
    end = datetime.fromtimestamp(now.timestamp() // seconds * seconds, UTC)
    count = int((end - start).total_seconds() // seconds)
    offset = start.timestamp() - job.started_at.timestamp()
    grid = offset + seconds * np.arange(1, count + 1, dtype=np.float64)
    rng = np.random.default_rng([job.seed, crc32(job.mechanism.name.encode()), 4242])
    cluster = Cluster.drawn(rng, job.life)
    traces: list[Trace] = []
    for pod, track in zip(job.facts.pods, job.pods, strict=True):
        reader = _Reader(cluster, np.random.default_rng(rng.integers(1 << 40)), grid, seconds, job)
        traces += reader.pod(pod, track, tier)
        traces += reader.gpus(pod, job.gpus[pod.rank * pod.gpus : (pod.rank + 1) * pod.gpus], tier)
    return job.facts, job_series(job.facts, traces, start=start, end=end, step=step), now


class _Reader:
    """One node's exporters, and the queries of their samples. Times are seconds since the job's start."""

    def __init__(
        self, cluster: Cluster, rng: np.random.Generator, grid: FloatArray, step: float, job: DrawnJob
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._grid = grid
        self._step = step
        self._origin = job.started_at.timestamp()
        self._card: Card = job.card
        self._end = job.life
        self._model = next((word for word in CONTEXT_WATTS if word in job.card.product), None)

    # ------------------------------------------------------------------------------------------------------- GPUs

    def gpus(self, pod: PodFacts, tracks: tuple[Track, ...], tier: Tier) -> Iterator[Trace]:
        """The traces of a pod's GPUs: all fields of all of them are read and scraped together."""
        reads = self._cluster.times(self._rng, self._cluster.collect, self._end, 0.15)
        scrapes = self._cluster.scrapes(self._rng, self._end)
        places = np.searchsorted(reads, scrapes, side="right") - 1
        kept = places >= 0
        scrapes, places = scrapes[kept], places[kept]
        for number, track in enumerate(tracks):
            values = self._fields(track, reads)
            energy = values.pop(GpuSignal.POWER)
            for signal in self._signals(tier):
                if signal is GpuSignal.POWER:
                    points = self._power(energy[places], scrapes)
                elif signal in values:
                    points = self._held(scrapes, values[signal][places])
                else:
                    continue
                yield Trace(
                    signal=signal,
                    pod=pod.name,
                    points=points,
                    gpu=f"GPU-{pod.uid}-{number}",
                    index=str(number),
                    context_idle_watts=CONTEXT_WATTS[self._model] if self._model else None,
                )

    def _signals(self, tier: Tier) -> tuple[GpuSignal, ...]:
        if tier is Tier.UTIL_ONLY:
            return (GpuSignal.UTIL,)
        extras = (GpuSignal.SM_ACTIVE, GpuSignal.NVLINK) if tier is Tier.EXTRAS else ()
        return (
            GpuSignal.UTIL, GpuSignal.GRAPHICS, GpuSignal.TENSOR, GpuSignal.DRAM, GpuSignal.MEMORY_USED,
            GpuSignal.MEMORY_FREE, GpuSignal.PCIE_RX, GpuSignal.PCIE_TX, GpuSignal.POWER, GpuSignal.ENCODER,
            GpuSignal.DECODER, GpuSignal.SM_CLOCK, GpuSignal.XID, GpuSignal.PCIE_REPLAY, *extras,
        )  # fmt: skip

    def _fields(self, track: Track, reads: FloatArray) -> dict[GpuSignal, FloatArray]:
        """What the exporter reads at each of its times."""
        rng, cluster = self._rng, self._cluster
        # The driver renews its figure once a window, so what is read is up to one window old.
        until = reads - rng.uniform(0, cluster.window, len(reads))
        recent = track.mean("busy", until - cluster.window, until)
        level = track.level("context", reads)
        used = track.level("memory", reads) + float(rng.integers(1, 12))
        reserved = 0.011 * self._card.memory
        busy = self._interval(track, "busy", reads)
        clock = np.where(busy > 0.01, rng.uniform(0.9, 1.0, len(reads)) * self._card.clock, self._card.slow_clock)
        clock = np.where((busy <= 0.01) & (level > 0), self._card.clock, clock)
        energy = np.floor(track.total("watts", reads) * 1e3 + 1e9 * rng.uniform(1, 50))
        if rng.random() < 0.02:
            energy = energy - np.where(reads > rng.uniform(0, self._end), energy.min(), 0.0)
        fields = {
            GpuSignal.UTIL: np.round(100 * np.clip(recent, 0, 1)),
            GpuSignal.MEMORY_USED: np.floor(used),
            GpuSignal.MEMORY_FREE: np.floor(np.maximum(self._card.memory - reserved - used, 0.0)),
            GpuSignal.POWER: energy,
            GpuSignal.ENCODER: np.zeros(len(reads)),
            GpuSignal.DECODER: np.round(100 * self._interval(track, "decode", reads)),
            GpuSignal.SM_CLOCK: np.round(clock / 15) * 15,
            GpuSignal.XID: np.zeros(len(reads)),
            GpuSignal.PCIE_REPLAY: np.full(len(reads), float(rng.integers(0, 3))),
        }
        return fields | (self._profiling(track, reads, busy) if cluster.profiling else {})

    def _profiling(self, track: Track, reads: FloatArray, busy: FloatArray) -> dict[GpuSignal, FloatArray]:
        rng = self._rng

        def noisy(name: str, error: float = 0.004) -> FloatArray:
            read = self._interval(track, name, reads, passes=self._card.passes)
            factors: FloatArray = rng.normal(1.0, error, len(reads)).clip(0.9, 1.1)
            return read * factors

        fields = {GpuSignal.GRAPHICS: np.round(100 * np.clip(busy * 0.995, 0, 1), 4)}
        fields[GpuSignal.SM_ACTIVE] = np.round(100 * noisy("sm"), 4)
        fields |= {signal: np.round(100 * noisy(name), 4) for signal, name in MEANS.items()}
        # Packets have headers, launches and completions cross the bus, and the exporter's own reads do, too.
        overhead = rng.uniform(1.04, 1.12)
        launches = busy * rng.uniform(1e6, 1.5e7)
        fields[GpuSignal.PCIE_RX] = np.floor(noisy("rx") * overhead + launches + rng.uniform(2e4, 9e4, len(reads)))
        fields[GpuSignal.PCIE_TX] = np.floor(
            noisy("tx") * overhead + 0.4 * launches + rng.uniform(2e4, 9e4, len(reads))
        )
        if self._card.link and self._card.passes == 1:
            fields[GpuSignal.NVLINK] = np.floor(noisy("link"))
        return fields

    def _interval(self, track: Track, name: str, reads: FloatArray, passes: int = 1) -> FloatArray:
        """The mean since the last read; where counters are read in turns, that of the last part of it only."""
        before = np.concatenate(([max(reads[0] - self._cluster.collect, 0.0)], reads[:-1])) if len(reads) else reads
        return track.mean(name, reads - (reads - before) / passes, reads)

    def _power(self, energy: FloatArray, scrapes: FloatArray) -> FloatArray:
        """Mean watts, from a counter in millijoules."""
        places = np.searchsorted(scrapes, self._grid, side="right") - 1
        reach = max(self._step, STALE)
        known = (places >= 0) & (self._grid - scrapes[np.maximum(places, 0)] <= reach) if len(scrapes) else places > 0
        times = self._grid[known]
        total = np.column_stack((times, energy[places[known]] / 1e3))
        taken = np.column_stack((times, scrapes[places[known]]))
        watts = mean_rates(total, taken, self._step, 1.5 * reach)
        return watts + np.array([self._origin, 0.0]) if len(watts) else watts

    # ------------------------------------------------------------------------------------------------------- pods

    def pod(self, pod: PodFacts, track: Track, tier: Tier) -> Iterator[Trace]:
        """The traces of a pod's container and network."""
        rng = self._rng
        reads = np.cumsum(rng.uniform(10, 15, int(self._end / 10) + 2))
        reads = reads[reads < self._end]
        scrapes = self._cluster.scrapes(rng, self._end)
        latest = np.unique(np.searchsorted(reads, scrapes, side="right") - 1)
        times = reads[latest[latest >= 0]]
        rates = RATES | (EXTRA_RATES if tier is Tier.EXTRAS else {})
        drops = float(rng.uniform(0, self._end)) if rng.random() < 0.03 else None
        noise = {signal: rng.uniform(150, 2500) for signal in (PodSignal.NET_RX, PodSignal.NET_TX)}
        node = rng.uniform(1e5, 4e7) if pod.host_network else 0.0
        for signal, (name, factor) in rates.items():
            if signal is PodSignal.CPU_THROTTLED and pod.cpu_limit is None:
                continue
            total = track.total(name, times) + times * (noise.get(signal, 0.0) + (node if signal in noise else 0.0))
            if drops is not None and signal in noise:
                total = total - np.where(times > drops, np.interp(drops, times, total) if len(times) else 0.0, 0.0)
            yield Trace(signal=signal, pod=pod.name, points=self._rate(times, total * factor))
        used = track.level("rss", times) * rng.normal(1.0, 0.01, len(times)) + np.minimum(
            0.2 * track.total("disk_read", times), 4096 * MIB
        )
        yield Trace(signal=PodSignal.MEMORY, pod=pod.name, points=self._held(times, np.floor(used)))

    # ---------------------------------------------------------------------------------------------------- queries

    def _held(self, times: FloatArray, values: FloatArray) -> FloatArray:
        """A gauge on the grid: the mean of each step's samples, else the last sample while it is not stale."""
        last = np.searchsorted(times, self._grid, side="right")
        first = np.searchsorted(times, self._grid - self._step, side="right")
        sums = np.concatenate(([0.0], np.cumsum(values)))
        some = last > first
        means = (sums[last] - sums[first]) / np.maximum(last - first, 1)
        known = (
            (last > 0) & (self._grid - times[np.maximum(last - 1, 0)] <= max(self._step, STALE)) if len(times) else some
        )
        held = np.where(some, means, values[np.maximum(last - 1, 0)]) if len(times) else means
        return np.column_stack((self._grid[known] + self._origin, held[known]))

    def _rate(self, times: FloatArray, totals: FloatArray) -> FloatArray:
        """A counter's rate on the grid: growth between a window's first and last sample, over their distance."""
        growth = np.concatenate(([0.0], np.cumsum(np.maximum(np.diff(totals), 0.0)))) if len(times) else totals
        last = np.searchsorted(times, self._grid, side="right") - 1
        usual, longer = (
            np.searchsorted(times, self._grid - window, side="right")
            for window in (self._step + 30.0, max(self._step + 60.0, LONGER))
        )
        first = np.where(last > usual, usual, longer)
        known = last > first
        last, first = last[known], first[known]
        rates = (growth[last] - growth[first]) / (times[last] - times[first])
        return np.column_stack((self._grid[known] + self._origin, rates))
