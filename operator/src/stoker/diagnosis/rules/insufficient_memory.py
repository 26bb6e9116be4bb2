"""The GPUs' memory is full, but their cores are not busy.

## What it flags

The rule flags training that uses at most 50 % of each GPU and, at the peak, more than 80 % of its memory. This is the
study's definition of insufficient GPU memory. The mean utilization of the job must be at most 50 %, too, at a steady
level that no other cause explains.

## Why it costs GPU time

The batch that would keep the cores busy does not fit into the memory. The study's example, GPT-2 on one V100, used 40
% of the GPU and 83 % of its memory. States, activations or parameters that are moved to host memory for lack of
room cost even more, because they cross the host link twice in each step. The evidence says so if it is the case.

## When it stays silent

- The framework is TensorFlow or JAX, which reserve nearly all memory whether they need it or not. Or the framework is
  not known and the memory is reserved at once and nearly whole, as inference servers do.
- The job is a serving or interactive job: its load is not its own choice.
- The GPUs wait for input, for copies or for one another.
- The use drops to zero and recovers.
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or samples are missing.

## Change

Free memory with mixed precision, activation checkpointing or a sharded optimizer (ZeRO, FSDP), or use GPUs with more
memory, or more GPUs. Then raise the batch size.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.2, Insufficient GPU Memory
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from stoker.diagnosis.series.examination import Claim, Device, Examination
from stoker.diagnosis.series.losses import at_work, loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Severity
from stoker.findings.wording import gib, gpu_hours, percent

RESERVED_PERCENT = 88.0
"""Percent of GPU memory from which it may have been reserved as a whole. Chosen because vLLM reserves 90 % by default.
"""
RESERVED_SWING = 1.0
"""Percentage points by which reserved memory changes. Chosen because memory that a training needs changes by more from
the first sample on.
"""


def check(exam: Examination) -> Iterator[Claim]:
    """Report a low level of the GPUs' work while their memory is full."""
    found = loss(exam, Category.INSUFFICIENT_GPU_MEMORY)
    if found is None or found.level is None or found.level.peak is None:
        return
    unknown = exam.facts.framework is not Framework.PYTORCH
    if unknown and all(_reserved(device) for device in exam.present):
        return
    capacity = min((mib for device in exam.devices if (mib := device.capacity_mib) is not None), default=None)
    of = f" of its {gib(capacity)}" if capacity is not None else " of its memory"
    claim = found.claim()
    yield replace(
        claim,
        detail=(
            f"Training uses {percent(found.level.level)} of each {at_work(exam)} "
            f"and up to {percent(found.level.peak)}{of}; {gpu_hours(found.hours)} idle."
        ),
        confidence=Confidence.POSSIBLE if unknown else claim.confidence,
    )


def _reserved(device: Device) -> bool:
    """Whether the memory was reserved as a whole: as soon as it is more than half full, it is nearly full."""
    held = device.memory[np.isfinite(device.memory)]
    held = held[held > held.max(initial=0.0) / 2]
    return bool(len(held) and held.min() >= RESERVED_PERCENT and held.max() - held.min() <= RESERVED_SWING)


RULE = Rule(
    id="D202",
    name="insufficient-memory",
    category=Category.INSUFFICIENT_GPU_MEMORY,
    severity=Severity.WARNING,
    summary="Training fills the GPUs' memory, but uses at most half of the GPUs.",
    fix="Make room (mixed precision, activation checkpointing, ZeRO/FSDP) or take larger GPUs; then raise the batch.",
    check=check,
)
