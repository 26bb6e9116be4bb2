"""What monitoring makes of a job: an exporter and cAdvisor that sample it, with their habits and faults."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import numpy as np

from simulator.job import SimulatedJob, SimulatedPod
from simulator.timeline import GPU_FIELDS, POD_FIELDS, FloatArray
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.screen import step_for
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries, PodFacts, PodSignal

COLLECT = 30.0
"""Seconds between two collections of dcgm-exporter."""
RATE_SPAN = 60.0
"""Seconds over which a counter's rate is taken."""
_GPU = {name: number for number, name in enumerate(GPU_FIELDS)}
_POD = {name: number for number, name in enumerate(POD_FIELDS)}


class Tier(StrEnum):
    """Which metrics a cluster has."""

    UTIL_ONLY = "util-only"
    """GPU utilization, and cAdvisor's CPU, memory, network and disk."""
    DEFAULTS = "defaults"
    """dcgm-exporter's default counters."""
    EXTRAS = "extras"
    """With SM activity, NVLink, CPU throttling and pressure."""


_MEANS = {
    GpuSignal.GRAPHICS: ("engine", 100.0),
    GpuSignal.TENSOR: ("tensor", 100.0),
    GpuSignal.DRAM: ("dram", 100.0),
    GpuSignal.PCIE_RX: ("rx", 1.0),
    GpuSignal.PCIE_TX: ("tx", 1.0),
}
_EXTRA_MEANS = {GpuSignal.SM_ACTIVE: ("sm", 100.0)}
_LEVELS = {GpuSignal.SM_CLOCK: "clock", GpuSignal.XID: "xid", GpuSignal.PCIE_REPLAY: "replays"}
_RATES = {
    PodSignal.CPU: ("cpu", 1.0),
    PodSignal.NET_RX: ("net_rx", 1.0),
    PodSignal.NET_TX: ("net_tx", 1.0),
    PodSignal.DISK_READ: ("disk_read", 1.0),
    PodSignal.DISK_WRITE: ("disk_write", 1.0),
}
_EXTRA_RATES = {
    PodSignal.CPU_THROTTLED: ("throttled", 100.0),
    PodSignal.CPU_PRESSURE: ("cpu_pressure", 100.0),
    PodSignal.IO_PRESSURE: ("io_pressure", 100.0),
    PodSignal.MEMORY_PRESSURE: ("memory_pressure", 100.0),
}


def record(job: SimulatedJob, tier: Tier, now: datetime | None = None) -> tuple[JobFacts, JobSeries, datetime]:
    """The job's facts and series as a cluster of this tier has them at `now` (by default: at the end of its life).

    The same job and tier give the same samples. Raises ValueError for a time before the job's start.
    """
    first = job.started_at
    now = first + timedelta(seconds=job.life) if now is None else now
    if now <= first:
        raise ValueError(f"{now} is not after the job's start at {first}")
    step = step_for(now - first)
    # a grid's steps end at whole multiples, as a range query's do
    seconds = step.total_seconds()
    start = datetime.fromtimestamp(first.timestamp() // seconds * seconds, UTC)
    end = datetime.fromtimestamp(now.timestamp() // seconds * seconds, UTC)
    rng = np.random.default_rng([job.seed, len(job.case), sum(job.case.encode()), 77])
    faults = _Faults(rng, job.life)
    known = replace(job.facts, pods=tuple(_seen(pod, now) for pod in job.facts.pods))
    traces: list[Trace] = []
    played = {pod.name: pod for pod in job.pods}
    for facts in known.pods:
        if facts.started_at is None or facts.name not in played:
            continue
        began = min([facts.started_at, *(attempt.started_at for attempt in facts.attempts)]).timestamp()
        ended = facts.finished_at.timestamp() if facts.finished_at else now.timestamp()
        exporter = _Exporter(rng, began, ended, faults)
        pod = played[facts.name]
        for slot in range(len(pod.gpus)):
            traces += exporter.gpu(pod, slot, tier)
        traces += exporter.pod(pod, tier)
    return known, job_series(known, traces, start=start, end=end, step=step), now


def _seen(pod: PodFacts, now: datetime) -> PodFacts:
    """The pod as it was at that time: what was to finish later still runs."""
    runs_on = pod.finished_at is not None and pod.finished_at > now
    return replace(pod, finished_at=None, ready=True) if runs_on else pod


class _Faults:
    """What goes wrong with the monitoring of one job."""

    def __init__(self, rng: np.random.Generator, life: float) -> None:
        draw = float(rng.random())
        self.prof_absent = draw < 0.04
        self.prof_stuck = 0.04 <= draw < 0.08
        self.doubled = bool(rng.random() < 0.5)
        """Scraped each 15 s, collected each 30 s."""
        self.missed = float(rng.uniform(0.0, 0.008))
        """Share of scrapes that time out."""
        self.gaps: list[tuple[float, float]] = []
        for _ in range(int(rng.poisson(0.4))):
            at = float(rng.uniform(0.0, life))
            # an exporter's restart takes a minute, a node agent's upgrade some more
            self.gaps.append((at, at + float(rng.choice([60.0, 90.0, 240.0, 420.0]))))


class _Exporter:
    """One node's exporter and kubelet, watching one pod from its start to its end (seconds since the epoch)."""

    def __init__(self, rng: np.random.Generator, began: float, ended: float, faults: _Faults) -> None:
        self._rng, self._began, self._faults = rng, began, faults
        life = ended - began
        self._collected = self._ticks(COLLECT, life, 0.15)
        self._scraped = self._ticks(15.0 if faults.doubled else 30.0, life, 0.02)
        keep = rng.random(len(self._scraped)) >= faults.missed
        for start, end in faults.gaps:
            keep &= (self._scraped < start) | (self._scraped >= end)
        self._scraped = self._scraped[keep]
        # what a scrape sees is the last collection before it
        self._seen = np.searchsorted(self._collected, self._scraped, side="right") - 1
        self._scraped, self._seen = self._scraped[self._seen >= 0], self._seen[self._seen >= 0]
        gaps = rng.uniform(10.0, 15.0, int(life / 10.0) + 2)
        self._housekept = np.concatenate([[0.0], np.cumsum(gaps)])
        self._life = life

    def _ticks(self, interval: float, life: float, jitter: float) -> FloatArray:
        phase = float(self._rng.uniform(0.0, interval))
        ticks = phase + interval * np.arange(max(int((life - phase) / interval) + 1, 0), dtype=np.float64)
        return np.clip(ticks + self._rng.normal(0.0, jitter, len(ticks)), 0.0, None)

    def _points(self, values: FloatArray) -> list[tuple[float, float]]:
        return list(zip((self._began + self._scraped).tolist(), values[self._seen].tolist(), strict=True))

    def gpu(self, pod: SimulatedPod, slot: int, tier: Tier) -> Iterator[Trace]:
        """One GPU's traces."""
        rng, at, model = self._rng, self._collected, pod.model
        now = pod.gpu_total(slot, at)
        before_window = pod.gpu_total(slot, at - model.window)
        level = pod.gpu_value(slot, at)
        previous = np.concatenate([[at[0] - COLLECT], at[:-1]]) if len(at) else at
        means = (now - pod.gpu_total(slot, previous)) / np.maximum(at - previous, 1.0)[:, None]

        def trace(signal: GpuSignal, values: FloatArray) -> Trace:
            return Trace(
                signal=signal,
                pod=pod.name,
                gpu=f"GPU-{pod.name}-{slot}",
                index=str(slot),
                context_idle_watts=model.context if model.published_context else None,
                points=self._points(values),
            )

        engine = (now - before_window)[:, _GPU["engine"]] / model.window
        wobble = np.where((engine > 0) & (engine < 1), rng.normal(0.0, 0.01, len(at)), 0.0)
        yield trace(GpuSignal.UTIL, np.clip(np.round(100 * (engine + wobble)), 0, 100))
        if tier is Tier.UTIL_ONLY:
            return
        used = np.round(level[:, _GPU["memory"]])
        yield trace(GpuSignal.MEMORY_USED, used)
        yield trace(GpuSignal.MEMORY_FREE, model.memory - used)
        # the energy counter is exact; boards of one model differ
        board = float(rng.normal(1.0, 0.02))
        yield trace(GpuSignal.POWER, np.round(means[:, _GPU["power"]] * board, 1))
        for signal, name in _LEVELS.items():
            yield trace(signal, np.round(level[:, _GPU[name]]))
        if self._faults.prof_absent:
            return
        profiled = _MEANS | (_EXTRA_MEANS if tier is Tier.EXTRAS else {})
        for signal, (name, scale) in profiled.items():
            noise = rng.normal(1.0, 0.008, len(at))
            values = np.maximum(means[:, _GPU[name]] * scale * noise, 0.0)
            ceiling = 100.0 if scale == 100.0 else np.inf
            yield trace(signal, np.zeros(len(at)) if self._faults.prof_stuck else np.minimum(values, ceiling))
        if tier is Tier.EXTRAS and model.nvlink:
            yield trace(GpuSignal.NVLINK, means[:, _GPU["nvlink"]] * rng.normal(1.0, 0.01, len(at)))

    def pod(self, pod: SimulatedPod, tier: Tier) -> Iterator[Trace]:
        """The pod's traces: rates as Prometheus takes them from cAdvisor's counters, and its memory."""
        at = self._scraped
        if not len(at):
            return
        times = (self._began + at).tolist()
        last = self._housekept[np.searchsorted(self._housekept, at, side="right") - 1]
        earlier = np.maximum(at - RATE_SPAN, 0.0)
        first = self._housekept[np.searchsorted(self._housekept, earlier, side="right") - 1]
        span = last - first
        totals = pod.pod_total(last) - pod.pod_total(first)
        rated = span > 0
        for signal, (name, scale) in (_RATES | (_EXTRA_RATES if tier is Tier.EXTRAS else {})).items():
            values = totals[rated, _POD[name]] / span[rated] * scale
            points = list(zip(np.array(times)[rated].tolist(), values.tolist(), strict=True))
            yield Trace(signal=signal, pod=pod.name, points=points)
        memory = pod.pod_value(last)[:, _POD["memory"]]
        yield Trace(signal=PodSignal.MEMORY, pod=pod.name, points=list(zip(times, memory.tolist(), strict=True)))
