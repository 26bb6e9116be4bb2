"""What one GPU or one pod does over time, as totals that only grow: any mean over any interval is a difference of two.

A job is written as blocks of stretches, each with a duration and rates. A track joins them and integrates, so that no
byte, second or joule is lost between stretches, whatever grid or exporter reads it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Rates = Mapping[str, "float | FloatArray"]

SHARES = ("busy", "sm", "tensor", "dram", "decode")
"""Of a GPU, 0..1: time with a kernel resident; parts of the card at work; the video decoder."""
GPU_FLOWS = (*SHARES, "rx", "tx", "link", "watts")
"""What adds up over time: seconds of the shares, bytes from and to the host and over NVLink, joules."""
GPU_LEVELS = ("memory", "context")
"""What has a value at a time: MiB in use, whether a process holds a CUDA context."""
PRESSURES = ("cpu_wait", "io_wait", "memory_wait", "throttled")
"""Of a pod, 0..1: shares of time in which tasks waited, and of scheduler periods in which the limit stopped it."""
POD_FLOWS = ("cpu", "net_rx", "net_tx", "disk_read", "disk_write", *PRESSURES)
"""Core-seconds, bytes, and seconds of the pressures."""
POD_LEVELS = ("rss",)
"""Bytes of memory."""


@dataclass(frozen=True, slots=True)
class Block:
    """Stretches that follow one another: their seconds, and rates (one for all, or one each)."""

    seconds: FloatArray
    rates: Rates

    def column(self, name: str) -> FloatArray:
        """A rate of every stretch; 0 where none is given."""
        return np.broadcast_to(np.asarray(self.rates.get(name, 0.0), dtype=np.float64), self.seconds.shape)


@dataclass(frozen=True, slots=True)
class Track:
    """Corners in time (seconds since the start), totals at them, and levels between them."""

    corners: FloatArray
    totals: Mapping[str, FloatArray]
    levels: Mapping[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, blocks: Iterable[Block], flows: Iterable[str], levels: Iterable[str]) -> "Track":
        """Join and integrate."""
        every = list(blocks)
        seconds = np.concatenate([block.seconds for block in every]) if every else np.zeros(0)
        corners = np.concatenate(([0.0], np.cumsum(seconds)))

        def joined(name: str) -> FloatArray:
            return np.concatenate([block.column(name) for block in every]) if every else np.zeros(0)

        return cls(
            corners,
            {name: np.concatenate(([0.0], np.cumsum(joined(name) * seconds))) for name in flows},
            {name: joined(name) for name in levels},
        )

    @property
    def end(self) -> float:
        """Seconds from the start to the end."""
        return float(self.corners[-1])

    def total(self, name: str, times: FloatArray) -> FloatArray:
        """The total of a flow from the start to each time."""
        return np.interp(times, self.corners, self.totals[name])

    def mean(self, name: str, begin: FloatArray, end: FloatArray) -> FloatArray:
        """The mean rate of a flow between pairs of times; outside of the track nothing flows."""
        amount: FloatArray = (self.total(name, end) - self.total(name, begin)) / np.maximum(end - begin, 1e-9)
        return amount

    def level(self, name: str, times: FloatArray) -> FloatArray:
        """A level at each time; that of the last stretch after the end."""
        values = self.levels[name]
        places = np.clip(np.searchsorted(self.corners, times, side="right") - 1, 0, len(values) - 1)
        return values[places]
