"""Jobs of any length and width, made of simulated ones: their middle is repeated, and so are their pods and GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np

from simulator import Tier, record, simulate
from stoker.telemetry.screen import step_for
from stoker.telemetry.series import (
    FloatArray,
    GpuSeries,
    GpuSignal,
    JobFacts,
    JobSeries,
    PodFacts,
    PodSeries,
    PodSignal,
)

Signal = TypeVar("Signal", GpuSignal, PodSignal)

EDGE = 0.1
"""Share of a simulated job at either end that is played once: its start and its end."""
NOISE = 0.01
"""Standard deviation by which GPUs and pods that play the same one differ, as a share of the value."""
PERCENTS = frozenset(GpuSignal) - {
    GpuSignal.MEMORY_USED,
    GpuSignal.MEMORY_FREE,
    GpuSignal.PCIE_RX,
    GpuSignal.PCIE_TX,
    GpuSignal.NVLINK,
    GpuSignal.POWER,
    GpuSignal.SM_CLOCK,
    GpuSignal.XID,
    GpuSignal.PCIE_REPLAY,
}
EXACT = frozenset({GpuSignal.UTIL, GpuSignal.MEMORY_USED, GpuSignal.MEMORY_FREE, GpuSignal.XID, GpuSignal.SM_CLOCK})
"""Signals in whole numbers, which two GPUs may well have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many pods, GPUs of each, and hours of life."""

    pods: int
    gpus: int
    hours: float

    def __str__(self) -> str:
        return f"{self.pods} x {self.gpus} GPUs, {self.hours:g} h"


SIZES = (
    Size(pods=1, gpus=1, hours=2),
    Size(pods=1, gpus=8, hours=24),
    Size(pods=4, gpus=8, hours=33),
    Size(pods=64, gpus=1, hours=24),
)
"""33 h is the longest life at steps of 30 s: some 4,000 of them."""
CASES = (
    "steady",
    "checkpoint-remote",
    "read-objects",
    "small-batch-convnet",
    "upload-images",
    "sleep-after-training",
)
"""What is diagnosed: a healthy job, drops with and without bursts, a low level, an idle tail."""
READ = "read-objects"
"""What is read out of Prometheus: the cost does not depend on the case."""


def played(case: str, size: Size, seed: int = 1000) -> tuple[JobFacts, JobSeries, datetime]:
    """The facts and series of a case's job, made as large as `size`, with all signals; and the end of its life."""
    facts, series, _ = record(simulate(case, seed), Tier.EXTRAS)
    rng = np.random.default_rng(seed)
    life = timedelta(hours=size.hours)
    seconds = step_for(life).total_seconds()
    steps = int(life.total_seconds() / seconds)
    places = _places(len(series.times), steps)
    start = float(series.times[0]) // seconds * seconds
    began = datetime.fromtimestamp(start, UTC)
    pods = tuple(_pod(facts.pods[rank % len(facts.pods)], rank, size.gpus, began) for rank in range(size.pods))
    gpus_of = {pod.name: [gpu for gpu in series.gpus if gpu.pod == pod.name] for pod in facts.pods}
    recorded = {pod.pod: pod for pod in series.pods}
    gpus: list[GpuSeries] = []
    measured: list[PodSeries] = []
    for rank, pod in enumerate(pods):
        model = facts.pods[rank % len(facts.pods)].name
        for index in range(size.gpus):
            gpu = gpus_of[model][index % len(gpus_of[model])]
            signals = _varied(gpu.signals, places, rng)
            gpus.append(replace(gpu, pod=pod.name, gpu=f"GPU-{rank}-{index}", index=str(index), signals=signals))
        measured.append(PodSeries(pod=pod.name, signals=_varied(recorded[model].signals, places, rng)))
    large = replace(facts, nodes=size.pods, gpus_per_node=size.gpus, pods=pods, former_pods=())
    times = start + seconds * np.arange(1, steps + 1, dtype=np.float64)
    return large, JobSeries(times=times, step=seconds, gpus=tuple(gpus), pods=tuple(measured)), began + life


def _places(simulated: int, steps: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which step of the simulated job each step plays."""
    edge = int(EDGE * simulated)
    middle = np.resize(np.arange(edge, simulated - edge), max(steps - 2 * edge, 0))
    return np.concatenate([np.arange(edge), middle, np.arange(simulated - edge, simulated)])[:steps]


def _pod(model: PodFacts, rank: int, gpus: int, began: datetime) -> PodFacts:
    name = f"bench-{rank}-x7k2p"
    return replace(
        model, name=name, uid=name, rank=rank, gpus=gpus, attempts=(), scheduled_at=began, started_at=began,
        finished_at=None,
    )  # fmt: skip


def _varied(
    signals: Mapping[Signal, FloatArray], places: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator
) -> dict[Signal, FloatArray]:
    found: dict[Signal, FloatArray] = {}
    for signal, values in signals.items():
        one = values[places]
        if signal not in EXACT:
            one = one * rng.normal(1.0, NOISE, len(one))
        found[signal] = np.minimum(one, 100.0) if signal in PERCENTS else one
    return found
