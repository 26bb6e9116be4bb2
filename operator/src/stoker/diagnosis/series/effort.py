"""How much a job's GPUs really get done, as far as it can be told from the time in which they are busy.

A rank that waits for another one in a collective spins in a kernel: its utilization stays at 100 % while its tensor
cores and its memory rest. Effort sees both.
"""

import warnings
from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Device, Examination, once
from stoker.diagnosis.series.percentiles import percentile
from stoker.telemetry.series import FloatArray, GpuSignal

WORK_SIGNALS = (GpuSignal.TENSOR, GpuSignal.DRAM, GpuSignal.SM_ACTIVE)
"""What rises with the work done and not with the time spent in a kernel, each a mean over the exporter's interval."""
USUAL_PERCENTILE = 90.0
"""Percentile of a signal that counts as its usual height: the highest tenth holds spikes and short phases."""
LEAST_USUAL_PERCENT = 3.0
"""A signal whose usual height is less says nothing of the work: fp32 arithmetic uses no tensor cores."""
LEAST_USE_PERCENT = 1.0
"""A GPU that is below most of the time has no work that could be interrupted."""


@once
def effort(exam: Examination) -> FloatArray:
    """Percent, one row a device: its use, where it is no more than its tensor cores, memory and SMs bear out against
    their usual height at work; NaN where use is unknown.
    """
    rows = list(_efforts(exam))
    return np.array(rows, dtype=np.float64).reshape(exam.use.shape)


@once
def progress(exam: Examination) -> FloatArray:
    """Percent, one value a step: the mean effort of the GPUs that have work, NaN where none of them is known."""
    rows = effort(exam)[list(working(exam))]
    return mean_of(rows) if len(rows) else np.full(len(exam.series.times), np.nan)


@once
def working(exam: Examination) -> tuple[int, ...]:
    """The rows of the devices that have work in the active stage."""
    return tuple(
        row
        for row, device in enumerate(exam.devices)
        if usual_height(device.use[exam.active & device.life]) >= LEAST_USE_PERCENT
    )


def mean_of(rows: FloatArray) -> FloatArray:
    """The mean over the rows of what is known; NaN where nothing is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(rows, axis=0), dtype=np.float64)


def _efforts(exam: Examination) -> Iterator[FloatArray]:
    for device in exam.devices:
        working = exam.active & device.busy
        ratio = _ratio(device, working)
        usual = usual_height(device.use[working])
        yield device.use if ratio is None else np.fmin(device.use, usual * ratio)


def _ratio(device: Device, working: np.ndarray) -> FloatArray | None:
    """The largest of the work signals, each against its own usual height; None where none tells."""
    ratios: list[FloatArray] = []
    for signal in WORK_SIGNALS:
        values = device.signal(signal)
        if values is not None and (usual := usual_height(values[working])) >= LEAST_USUAL_PERCENT:
            ratios.append(values / usual)
    return np.fmax.reduce(ratios) if ratios else None


def usual_height(values: FloatArray | None) -> float:
    """Of a signal, what nine tenths of its samples do not exceed; 0 without samples."""
    known = np.empty(0) if values is None else values[np.isfinite(values)]
    return percentile(known, USUAL_PERCENTILE) if len(known) else 0.0
