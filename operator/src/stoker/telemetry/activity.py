"""When a value of a GPU's signal says that the GPU works."""

from stoker.telemetry.series import GpuSignal

IDLE_PROFILING_PERCENT = 0.1
"""Profiling ratios are means over the exporter's interval; an idle engine reads 0, rounding aside."""
IDLE_DRAM_PERCENT = 0.5
"""Refresh and the monitoring itself touch device memory."""
IDLE_PCIE_BYTES = 5e6
"""bytes/s. Reading the counters over PCIe costs up to about 1 MB/s; pageable copies carry some 6 GB/s (DCGM field
reference).
"""
IDLE_NVLINK_BYTES = 5e6
"""bytes/s. Idle links carry nothing; the floor only absorbs rounding to whole MB/s."""
POWER_MARGIN_WATTS = 15.0
"""Watts over the context-idle draw that are no work on small boards."""
POWER_MARGIN_SHARE = 0.10
"""Over its context-idle draw a GPU must rise by the larger of 15 W and 10 % before power says that it works: an idle
board's own swing with temperature stays below that.
"""

ACTIVITY_SIGNALS = (
    GpuSignal.UTIL,
    GpuSignal.GRAPHICS,
    GpuSignal.SM_ACTIVE,
    GpuSignal.TENSOR,
    GpuSignal.DRAM,
    GpuSignal.PCIE_RX,
    GpuSignal.PCIE_TX,
    GpuSignal.NVLINK,
    GpuSignal.ENCODER,
    GpuSignal.DECODER,
    GpuSignal.POWER,
)
"""What can show that a GPU works. Memory is not among them: a framework keeps what it reserved."""

PROFILING_SIGNALS = frozenset(
    {
        GpuSignal.GRAPHICS,
        GpuSignal.SM_ACTIVE,
        GpuSignal.TENSOR,
        GpuSignal.DRAM,
        GpuSignal.PCIE_RX,
        GpuSignal.PCIE_TX,
    }
)
"""They come from one profiling module of DCGM and fail together."""


def idle_ceiling(signal: GpuSignal, idle_percent: float, context_idle_watts: float | None) -> float | None:
    """The largest value at which a GPU may still be idle, in the signal's unit; None when this signal can't tell.

    `idle_percent` is the policy's; `context_idle_watts` what the GPU draws with a CUDA context and no work.
    """
    match signal:
        case GpuSignal.UTIL | GpuSignal.ENCODER | GpuSignal.DECODER:
            return idle_percent
        case GpuSignal.GRAPHICS | GpuSignal.SM_ACTIVE | GpuSignal.TENSOR:
            return max(idle_percent, IDLE_PROFILING_PERCENT)
        case GpuSignal.DRAM:
            return max(idle_percent, IDLE_DRAM_PERCENT)
        case GpuSignal.PCIE_RX | GpuSignal.PCIE_TX:
            return IDLE_PCIE_BYTES
        case GpuSignal.NVLINK:
            return IDLE_NVLINK_BYTES
        case GpuSignal.POWER if context_idle_watts is not None:
            return context_idle_watts + max(POWER_MARGIN_WATTS, POWER_MARGIN_SHARE * context_idle_watts)
        case _:
            return None
