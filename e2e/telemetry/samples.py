"""What is seen of a program at a moment, whoever plays it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from e2e.telemetry.products import Product


class ScenarioError(ValueError):
    """A scenario can't be read; the message names the place, the value and what is allowed."""


class Export(StrEnum):
    """What the exporter makes of a GPU."""

    VALUES = "values"
    NAN = "nan"
    """Every value is none."""
    NOTHING = "nothing"
    """The GPU has no series."""
    DRIVER = "driver"
    """What the driver counts alone: the profiling module is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """What one GPU shows: percents 0..100, ratios 0..1, MiB, bytes/s, watts; `energy` in joules since the start.

    `links` is both directions of NVLink; None where nobody knows, as in scenarios written by hand.
    """

    util: float
    engine: float
    memory: float
    tensor: float
    dram: float
    rx: float
    tx: float
    power: float
    encoder: float
    decoder: float
    xid: float
    energy: float
    links: float | None = None
    export: Export = Export.VALUES


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSample:
    """What a pod shows: `rss` in bytes; all others are totals since the start, in CPU seconds and bytes.

    `stopped` are the seconds in which the CPU limit held it, the others those in which it waited for a CPU, for disks
    or for memory; None where nobody knows.
    """

    cpu: float
    rss: float
    net_rx: float
    net_tx: float
    disk_read: float
    disk_write: float
    stopped: float | None = None
    cpu_waiting: float | None = None
    io_waiting: float | None = None
    memory_waiting: float | None = None


class Program(Protocol):
    """What a pod plays: a pure function of the seconds since its container's start."""

    @property
    def clock(self) -> float:
        """Seconds by which the clock that stamps its GPUs' samples is ahead; 0 where Prometheus stamps them."""
        ...

    def gpu(self, index: int, t: float, interval: float = 30.0) -> GpuSample:
        """The pod's GPU `index` at that time; means over the last `interval` seconds where the exporter has means."""
        ...

    def pod(self, t: float) -> PodSample:
        """The pod at that time."""
        ...


def idle_gpu(product: Product) -> GpuSample:
    """A GPU without a process on it."""
    return GpuSample(
        util=0,
        engine=0,
        memory=0,
        tensor=0,
        dram=0,
        rx=0,
        tx=0,
        power=product.idle,
        encoder=0,
        decoder=0,
        xid=0,
        energy=0,
    )
