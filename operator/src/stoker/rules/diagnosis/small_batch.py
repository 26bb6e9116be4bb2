"""Each step gives the GPU too little to do.

## What it flags

While it trains, the job uses at most 50 % of each GPU and at most 50 % of its memory, at a steady low level: the
study's definition of an improper batch size. The job as a whole is at most at 50 %, too.

## Why it costs GPU time

A small batch leaves most of a GPU's units empty in every kernel, and the time between kernels, when the CPU prepares
the next one, weighs the more the shorter the kernels are. The study made two jobs 4.9 and 3.4 times as fast by a
larger batch alone.

## When it stays silent

- over 50 % of memory or of the GPU: a larger batch would not fit, or not help by this rule;
- where use falls to nothing and recovers: something interrupts the GPU, which is another cause;
- where the CPUs are at their limit, or data streams in over the network, from disk or over PCIe: the GPU waits for
  input, and a larger batch would wait longer;
- where device memory is the bottleneck;
- TensorFlow and JAX, which take the memory whether they need it or not;
- in the first fifteen minutes of work, where samples are missing, and for serving jobs.

Without the pods' CPU and network series a wait for input can't be excluded, and the finding is only possible.

## Change

Raise the batch size until memory is well used, that of evaluation on its own: without gradients much more fits. Mind
the learning rate, which usually follows the batch size, with a warm-up.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.2, Improper Batch Size;
  sections 1 and 4.5 for figures
"""

import re
from collections.abc import Iterator

import numpy as np

from stoker.models.rule import Rule
from stoker.models.series import FloatArray, GpuSignal, PodSignal
from stoker.models.vocabulary import Category, Confidence, Framework, JobType, Severity, Source, Stage
from stoker.subjects.examination import Claim, Examination
from stoker.subjects.grid import BoolArray
from stoker.subjects.pattern import two_states
from stoker.subjects.wording import gib, gpu_hours, interval, percent

LOW_PERCENT = 50.0
"""Of use and of memory, in the training or evaluation stage (ICSE 2024, section 4.2)."""
LEAST_WORK_SECONDS = 900.0
"""Fifteen minutes of the active stage: compilation, autotuning and warm-up are over."""
DROP_PERCENT = 10.0
DROP_SHARE = 0.1
"""A low state under 10 % for a tenth of the time is an interruption, not a low level."""
SATURATED_SHARE = 0.85
"""Of the CPU limit: the pod computes as fast as it may."""
CORES_A_GPU = 2.0
"""A training process keeps about one core busy; more than two are loading or transforming data."""
RECEIVED_BYTES = 20e6
READ_BYTES = 100e6
"""bytes/s a pod that say that data streams in while the GPUs work."""
TRANSFERRED_BYTES = 3e9
"""bytes/s a GPU, half of what pageable copies over PCIe carry."""
DRAM_PERCENT = 50.0
"""Device memory busy for half of the time is what limits a kernel, whatever the batch size."""
FILL_PERCENT = 80.0
"""How full a larger batch may make the memory."""
BATCH = re.compile(r"(?P<option>--?[\w.-]+|\w[\w.-]*)[ =](?P<size>\d+)\b")


def check(exam: Examination) -> Iterator[Claim]:
    """Hold the active stage against the study's definition, and other causes against the pods' series."""
    if exam.facts.job_type is JobType.SERVING or exam.facts.framework in (Framework.TENSORFLOW, Framework.JAX):
        return
    active = exam.stage(Stage.ACTIVE)
    if active is None or len(active) * exam.step < LEAST_WORK_SECONDS or not exam.covered or not exam.is_low:
        return
    mask = exam.steps(active.first, active.last)
    use = exam.use[:, mask]
    memory = np.array([device.memory[mask] for device in exam.devices])
    if not np.isfinite(memory).any() or not exam.busy.any(axis=1).all():
        return
    average, peak = float(np.nanmean(use)), float(np.nanmax(memory))
    if average > LOW_PERCENT or peak > LOW_PERCENT or not _steady(use):
        return
    confidence = _confidence(exam, mask)
    if confidence is None:
        return

    explains = exam.explains(mask)
    capacity = min((mib for device in exam.devices if (mib := device.capacity_mib) is not None), default=None)
    since, until = exam.time(active.first), exam.until(active.last)
    size = f" of its {gib(capacity)}" if capacity is not None else " of its memory"
    yield Claim(
        detail=(
            f"The active stage uses {percent(average)} of each GPU and at most {percent(peak)}{size}; "
            f"{gpu_hours(exam.idle_hours(explains))} lost."
        ),
        evidence="; ".join(
            part
            for part in (
                f"active {interval(since, until)}, {exam.names(exam.devices)}, steady",
                exam.facts.batch_size,
            )
            if part
        ),
        fix=_fix(exam.facts.batch_size, peak, capacity),
        confidence=confidence,
        sources=(Source.METRICS,) if exam.facts.batch_size is None else (Source.SCRIPT, Source.METRICS),
        since=since,
        until=until,
        explains=explains,
    )


def _steady(use: FloatArray) -> bool:
    """No GPU's use falls to next to nothing and recovers for a tenth of the time."""
    for row in use:
        known = row[np.isfinite(row)]
        states = two_states(known)
        if states is not None and states[1] <= DROP_PERCENT and float(states[0].mean()) >= DROP_SHARE:
            return False
        if float((known <= DROP_PERCENT / 2).mean()) >= DROP_SHARE and float(known.mean()) > DROP_PERCENT:
            return False
    return True


def _confidence(exam: Examination, mask: BoolArray) -> Confidence | None:
    """How well waiting for input is excluded; None where the series show it."""
    pods = {pod.name: pod for pod in exam.facts.pods}
    cpu = exam.pod_means(PodSignal.CPU, mask)
    received, read = exam.pod_peak(PodSignal.NET_RX, mask), exam.pod_peak(PodSignal.DISK_READ, mask)
    transferred, dram = exam.device_mean(GpuSignal.PCIE_RX, mask), exam.device_mean(GpuSignal.DRAM, mask)
    for name, cores in (cpu or {}).items():
        limit = pods[name].cpu_limit
        if limit is not None and cores >= SATURATED_SHARE * limit:
            return None
    ceilings = ((received, RECEIVED_BYTES), (read, READ_BYTES), (transferred, TRANSFERRED_BYTES), (dram, DRAM_PERCENT))
    if any(level is not None and level >= ceiling for level, ceiling in ceilings):
        return None
    if cpu is None or received is None:
        return Confidence.POSSIBLE
    if any(cores > CORES_A_GPU * max(pods[name].gpus, 1) for name, cores in cpu.items()):
        return Confidence.POSSIBLE
    return Confidence.LIKELY


def _fix(batch_size: str | None, peak: float, capacity: float | None) -> str:
    """The change, with the batch size that certainly fits: memory grows at most in proportion to the batch."""
    factor = 1
    while 2 * factor * peak <= FILL_PERCENT:
        factor *= 2
    written = BATCH.search(batch_size) if batch_size else None
    if factor == 1:
        room = ""
    else:
        target = f"{factor} times the batch" if written is None else str(int(written["size"]) * factor)
        most = f"{percent(factor * peak)} of the memory" if capacity is None else gib(factor * peak / 100 * capacity)
        room = f" ({target} needs at most {most})"
    option = "the batch size" if written is None else f"{written['option']} from {written['size']}"
    return f"Raise {option}{room}, that of evaluation separately; mind the learning rate."


RULE = Rule(
    id="D201",
    name="small-batch",
    category=Category.IMPROPER_BATCH_SIZE,
    severity=Severity.WARNING,
    summary="Training uses at most half of each GPU and of its memory, at a steady low level.",
    fix="Raise the batch size, that of evaluation separately; mind the learning rate.",
    check=check,
)
