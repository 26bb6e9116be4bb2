"""All GPUs are busy, and none of them computes.

## What it flags

The rule flags GPUs that show 95 % utilization or more for a quarter of an hour or longer while they compute nothing:
tensor cores, device memory, PCIe and NVLink are idle, and the power is near that of a CUDA context without work. A
collective operation that never ends looks like that: its kernels poll for a rank that does not come. If this rank can
be told, the finding names it as the odd one: its GPU is idle, or its pod computes differently.

## Why it costs GPU time

Utilization looks perfect, and no error is raised until a watchdog's timeout, which is often not set. A stalled job
holds all its GPUs until somebody looks at the loss. Stoker only reports it and never reclaims it, because the rank
that it waits for may still come.

## When it stays silent

- Any GPU computes: the others may wait for a rank that evaluates or generates.
- A pod sends, receives, reads or writes, or computes more than waiting processes do: the others may wait for a
  checkpoint, a download or a preparation on one rank.
- The power is that of a GPU which computes. Tensor cores that this job has never used tell nothing: programs in single
  precision do without.
- Tensor cores, device memory and power are all unknown. If all of them are low but none has ever been higher, the
  finding is only possible.
- It lasts less than a quarter of an hour.
- The GPUs are slices or shared: their signals are mixed.

## Change

Take the stacks of the odd rank first and then of another (`py-spy dump`), and restart from the last checkpoint. Give
collective operations a timeout (`init_process_group(timeout=...)`), so that the next stall ends by itself.

## References

- NVIDIA Collective Communications Library, Troubleshooting:
  https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Claim, Device, Examination
from stoker.diagnosis.series.percentiles import percentile
from stoker.diagnosis.series.stages import runs
from stoker.findings.finding import Recoverable, rfc3339
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes, percent
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, MarkKind, PodSignal

SPINNING_PERCENT = 95.0
"""Percent of utilization that a polling kernel shows at least: it runs all the time."""
SPINNING_SHARE = 0.5
"""Share of the stretch in which a GPU polls to be counted among those that wait. Chosen as the majority."""
LEAST_SECONDS = 900.0
"""Seconds. Chosen because ranks wait for minutes while another one saves or evaluates."""
QUIET_TENSOR_PERCENT = 1.0
"""Percent of the time in which tensor cores are busy. Chosen because polling shows less."""
QUIET_DRAM_PERCENT = 4.0
"""Percent of the time in which device memory is busy. Chosen because polling shows less."""
QUIET_LINK_BYTES = 50e6
"""bytes/s over PCIe or NVLink. Chosen because polling kernels read a few flags only."""
POLLING_FACTOR = 1.75
"""Times the power of a context without work. Chosen because polling draws less: clocks are high, but few processors
read flags. No margin in watts beside it: 60 W are all that a board of 70 W can draw.
"""
POLLING_WATTS_OF_ANY = 215.0
"""Watts that no known GPU draws while it polls: 1.75 times the highest known power of a context without work (H100:
122 W). It refutes polling where the power of the GPU's own context is unknown.
"""
POLLING_SHARE = 0.5
"""Share of the power that the GPU has drawn at work. Chosen because polling draws less."""
POLLING_SHARE_ALONE = 0.4
"""Share of the power that the GPU has drawn at work, where neither tensor cores nor memory are sampled. Chosen lower
than POLLING_SHARE because power is then the only signal.
"""
UNFED_BYTES = 1e6
"""bytes/s from the host. Chosen because a program without tensor cores and with little memory traffic still gets its
data.
"""
WORKED_PERCENTILE = 95.0
"""Percentile of a signal that counts as its height at work. Chosen so that single outliers do not count."""
WORKED_FACTOR = 5.0
"""Times the quiet bound that a signal must have reached before. Chosen because a lower one cannot show that the GPU has
stopped computing.
"""
TRAFFIC_BYTES = 1e6
"""bytes/s of a pod. Chosen because heartbeats and log lines stay below, and a rank that works for all does not."""
CORES_A_GPU = 1.5
"""CPU cores for each GPU. Chosen because a waiting process polls with one core."""
ODD_PERCENT = 50.0
"""Percent of utilization below which a GPU is the odd one. Chosen because the others poll at 95 % or more."""
ODD_CORES = 0.5
"""Share of the median pod's CPU cores (at least one core) by which the odd pod differs. Chosen because waiting pods
differ by less.
"""
KNOWN_SHARE = 0.9
"""Share of the stretch's GPU time that must be sampled. Chosen as the policy's default minCoveragePercent."""
GAP_SECONDS = 120.0
"""Seconds between two stretches that count as one. Chosen because a single wrong sample is shorter."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report stretches in which GPUs poll without computing and nothing else happens in the pods."""
    if not exam.whole_gpus or not exam.every_gpu_seen:
        return
    spinning = np.array([_spinning(device) for device in exam.devices])
    resting = exam.idle | ~exam.alive
    unknown = ~(exam.busy | exam.idle) & exam.alive
    stands = (spinning | resting | unknown).all(axis=0) & (2 * spinning.sum(axis=0) >= exam.facts.gpus)
    for first, last in _stretches(stands & exam.life, int(GAP_SECONDS / exam.step)):
        mask = exam.steps(first, last)
        long = (last - first) * exam.step >= LEAST_SECONDS
        if long and (~unknown[:, mask]).mean() >= KNOWN_SHARE and not _at_work(exam, mask):
            yield _claim(exam, first, last, spinning)


def _stretches(mask: BoolArray, gap: int) -> list[tuple[int, int]]:
    """The stretches in which the mask is true; a short gap does not end one."""
    joined: list[tuple[int, int]] = []
    for first, last in runs(mask):
        if joined and first - joined[-1][1] <= gap:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def _spinning(device: Device) -> BoolArray:
    """The steps in which the GPU is fully used while every known signal says that it computes nothing."""
    quiet = np.nan_to_num(device.use) >= SPINNING_PERCENT
    for signal, bound in _bounds(device):
        if not quiet.any():
            return quiet
        values = _known(device, signal)
        if values is not None:
            with np.errstate(invalid="ignore"):
                quiet &= ~(values > bound)
    return quiet & (_informative(device) | _unfed(device))


def _bounds(device: Device) -> Iterator[tuple[GpuSignal, float]]:
    """What a polling GPU's signals stay under."""
    yield GpuSignal.TENSOR, QUIET_TENSOR_PERCENT
    yield GpuSignal.DRAM, QUIET_DRAM_PERCENT
    watts = _power_bound(device)
    yield GpuSignal.POWER, POLLING_WATTS_OF_ANY if watts is None else watts
    for link in (GpuSignal.PCIE_RX, GpuSignal.PCIE_TX, GpuSignal.NVLINK):
        yield link, QUIET_LINK_BYTES


def _informative(device: Device) -> BoolArray:
    """The steps with a sample of a signal that is known to be higher when this GPU computes: tensor cores and memory
    that have worked in this job, or power where the GPU's power at rest is known. Tensor cores that were never used
    tell nothing: programs in single precision do without.
    """
    informative = np.zeros(len(device.life), dtype=np.bool_)
    for signal, bound in ((GpuSignal.TENSOR, QUIET_TENSOR_PERCENT), (GpuSignal.DRAM, QUIET_DRAM_PERCENT)):
        values = _known(device, signal)
        if values is not None and _at_its_best(values) >= WORKED_FACTOR * bound:
            informative |= np.isfinite(values)
    power = _known(device, GpuSignal.POWER)
    if power is not None and _power_bound(device) is not None:
        informative |= np.isfinite(power)
    return informative


def _unfed(device: Device) -> BoolArray:
    """The steps in which tensor cores, memory and the link from the host all rest."""
    unfed = np.ones(len(device.life), dtype=np.bool_)
    for signal, bound in (
        (GpuSignal.TENSOR, QUIET_TENSOR_PERCENT),
        (GpuSignal.DRAM, QUIET_DRAM_PERCENT),
        (GpuSignal.PCIE_RX, UNFED_BYTES),
    ):
        values = _known(device, signal)
        with np.errstate(invalid="ignore"):
            unfed &= values <= bound if values is not None else False
    return unfed


def _known(device: Device, signal: GpuSignal) -> FloatArray | None:
    values = device.signal(signal)
    return values if values is not None and np.isfinite(values).any() else None


def _at_its_best(values: FloatArray) -> float:
    return percentile(values[np.isfinite(values)], WORKED_PERCENTILE)


def _power_bound(device: Device) -> float | None:
    """The most watts that this GPU draws while it polls; None if there is nothing to compare with."""
    power, rest = _known(device, GpuSignal.POWER), device.series.context_idle_watts
    if power is None:
        return None
    polling = None if rest is None else POLLING_FACTOR * rest
    alone = _known(device, GpuSignal.TENSOR) is None and _known(device, GpuSignal.DRAM) is None
    worked = (POLLING_SHARE_ALONE if alone else POLLING_SHARE) * _at_its_best(power)
    if polling is not None:
        return polling if alone else max(polling, worked)
    # A job that has polled for its whole life has no level of work to compare with.
    full = power[np.isfinite(power) & (np.nan_to_num(device.use) >= SPINNING_PERCENT)]
    return worked if len(full) and worked > float(full.min()) else None


def _at_work(exam: Examination, mask: BoolArray) -> bool:
    """Whether some pod does work that the others may wait for; False where that is unknown."""
    for signal in (PodSignal.NET_TX, PodSignal.NET_RX, PodSignal.DISK_READ, PodSignal.DISK_WRITE):
        level = exam.pod_peak(signal, mask)
        if level is not None and level >= TRAFFIC_BYTES:
            return True
    gpus = {pod.name: pod.gpus for pod in exam.pods}
    cores = exam.pod_means(PodSignal.CPU, mask) or {}
    return any(level > CORES_A_GPU * max(gpus[pod], 1) for pod, level in cores.items())


def _claim(exam: Examination, first: int, last: int, spinning: BoolArray) -> Claim:
    mask = exam.steps(first, last)
    since, until = exam.time(first), exam.until(last)
    spun = [device for device, row in zip(exam.devices, spinning, strict=True) if row[mask].mean() > SPINNING_SHARE]
    hours = float((exam.alive & mask).sum()) * exam.step / 3600
    odd = _odd(exam, mask)
    compared = any(_informative(device)[mask].any() for device in spun)
    timeouts = [
        mark
        for mark in exam.series.marks
        if mark.kind is MarkKind.COLLECTIVE_TIMEOUT and mark.time >= since and (until is None or mark.time <= exam.now)
    ]
    return Claim(
        detail=(
            f"{count(len(spun), 'GPU')} spin at {percent(float(np.nanmean(exam.use[:, mask][spinning[:, mask]])))} "
            f"without computing {'since' if until is None else 'from'} {rfc3339(since)}, "
            f"{minutes((last - first) * exam.step)}{f' up to {rfc3339(exam.time(last))}' if until is None else ''}; "
            f"{odd or 'no rank stands out'}; {gpu_hours(hours)} held for nothing."
        ),
        evidence="; ".join(
            part
            for part in (
                f"{interval(since, until)}, {exam.names(exam.devices)}",
                _levels(exam, mask),
                f"log: {timeouts[0].text}" if timeouts else "",
            )
            if part
        ),
        confidence=Confidence.CERTAIN if timeouts else Confidence.LIKELY if compared else Confidence.POSSIBLE,
        sources=(Source.METRICS, Source.LOGS) if timeouts else (Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=hours, max=hours, basis="GPU time from the last computation on"),
        explains=exam.explains(mask),
    )


def _odd(exam: Examination, mask: BoolArray) -> str:
    """The rank that differs from the others, as text; empty if none does, or too many do."""
    use = [
        float(np.nanmean(device.use[mask])) if np.isfinite(device.use[mask]).any() else 100.0 for device in exam.devices
    ]
    idle = [device for device, level in zip(exam.devices, use, strict=True) if level < ODD_PERCENT]
    if 0 < len(idle) < len(exam.devices) / 2:
        return f"{exam.names(idle)} at {percent(min(use))} {'is' if len(idle) == 1 else 'are'} the odd one"
    cores = exam.pod_means(PodSignal.CPU, mask) or {}
    middle = float(np.median(list(cores.values()))) if cores else 0.0
    apart = [(pod, level) for pod, level in cores.items() if abs(level - middle) >= ODD_CORES * max(middle, 1.0)]
    if len(apart) != 1 or len(cores) < 3:
        return ""
    rank = next(pod.rank for pod in exam.pods if pod.name == apart[0][0])
    return f"rank {rank} is the odd one: {apart[0][1]:.1f} CPU cores, the others {middle:.1f}"


def _levels(exam: Examination, mask: BoolArray) -> str:
    """The figures of the idle units, such as `tensor 0 %, memory 0.3 %, 128 W`."""
    tensor, dram = exam.device_mean(GpuSignal.TENSOR, mask), exam.device_mean(GpuSignal.DRAM, mask)
    power = exam.device_mean(GpuSignal.POWER, mask)
    parts = (
        None if tensor is None else f"tensor {percent(tensor)}",
        None if dram is None else f"memory {percent(dram)}",
        None if power is None else f"{power:.0f} W",
    )
    return ", ".join(part for part in parts if part)


RULE = Rule(
    id="D502",
    name="stalled",
    category=Category.STALLED,
    severity=Severity.WARNING,
    summary="The GPUs are fully used but compute nothing: a collective operation does not end.",
    fix="Take the stacks of the odd rank (py-spy dump), restart from the last checkpoint, give collectives a timeout.",
    check=check,
)
