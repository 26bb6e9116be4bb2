"""The GPUs have room for a larger batch: advice, not a finding.

## What it flags

The rule gives advice for a job that trains with at most half of its GPUs' memory, and whose GPUs compute little while
they are in use: tensor cores are busy for less than 30 % and device memory for less than 40 % of the time, as far as
these are sampled. If neither is, kernels must run for less than 80 % of the time. The job's utilization need not be
low: utilization shows how long kernels run, not how much they compute.

## Why it costs GPU time

The study's two examples had mean utilizations of 55 and 53 %, which is above its bound for a low job. A larger batch
alone made them 4.9 and 3.4 times as fast.

## When it stays silent

- More than 50 % of the memory is used, or tensor cores or device memory are well used.
- A finding already says that the batch is small, or that the GPUs wait for something else: a larger batch would only
  wait longer.
- The framework is TensorFlow or JAX, which reserve memory whether they need it or not.
- The job has trained for less than fifteen minutes, samples of use or memory are missing, or the GPUs are MIG slices
  or shared.
- The job is an evaluation, serving or interactive job.

The advice does not count as a finding, and leads to no action.

## Change

Try a larger batch, and a separate one for evaluation. Compare the samples per second, not the utilization, and adjust
the learning rate. If the batch cannot grow, fewer or smaller GPUs may be enough.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.5, table 2
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.batch_size import larger_batch
from stoker.diagnosis.series.effort import working
from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.input_wait import input_wait
from stoker.diagnosis.series.interruption import interrupted
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, JobType, Severity, Source
from stoker.findings.wording import gib, percent
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import GpuSignal

MOST_MEMORY_PERCENT = 50.0
"""Percent of GPU memory: the study's definition of an improper batch size (ICSE 2024, section 4.2)."""
TENSOR_PERCENT = 30.0
"""Percent of the time in which tensor cores are busy. Chosen because large matrix products keep them busier."""
DRAM_PERCENT = 40.0
"""Percent of the time in which device memory is busy. Chosen because kernels that move much data keep it busier."""
KERNEL_PERCENT = 80.0
"""Percent of the time with a kernel. Chosen because the study's largest batches reach 85 % and more in training, its
baselines 58 and 64 %.
"""
DELAYED = 0.35
"""The share of a cause from which it may be what delays the GPUs. Chosen because causes of which nothing is measured
have less.
"""
LEAST_SECONDS = 900.0
"""Seconds of training. Chosen because compilation, autotuning and warm-up are over by then."""


def check(exam: Examination) -> Iterator[Claim]:
    """Advise a larger batch where memory is free and the GPUs compute little."""
    if exam.facts.job_type is not JobType.TRAINING or exam.facts.framework in (Framework.TENSORFLOW, Framework.JAX):
        return
    mask = exam.training & ~interrupted(exam)
    if mask.sum() * exam.step < LEAST_SECONDS or not exam.whole_gpus or not exam.sampled(mask) or _named(exam):
        return
    memory = [device.memory[exam.active] for device in exam.present]
    if not all(np.isfinite(one).any() for one in memory) or len(working(exam)) < len(exam.present):
        return
    peak, words = max(float(np.nanmax(one)) for one in memory), _idle_units(exam, mask)
    if peak > MOST_MEMORY_PERCENT or words is None:
        return
    capacity = min((mib for device in exam.devices if (mib := device.capacity_mib) is not None), default=None)
    size = "of the memory" if capacity is None else f"of {gib(capacity)}"
    yield Claim(
        detail=f"Training uses at most {percent(peak)} {size}, and the GPUs compute little: {words}.",
        fix=larger_batch(exam.facts.batch_size, peak, capacity),
        confidence=Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=exam.time(int(mask.argmax())),
        explains=exam.explains(exam.steps(0, 0)),
    )


def _named(exam: Examination) -> bool:
    """Whether a finding explains the job's level already, or something may delay the GPUs that a batch does not
    change.
    """
    level = input_wait(exam)
    if level is None:
        return False
    return level.category is not None or any(one.share >= DELAYED for one in level.weighed)


def _idle_units(exam: Examination, mask: BoolArray) -> str | None:
    """The figures of the GPUs' units, as text, if these do little; otherwise None."""
    use = percent(float(np.nanmean(exam.use[:, mask])))
    tensor, dram = exam.device_mean(GpuSignal.TENSOR, mask), exam.device_mean(GpuSignal.DRAM, mask)
    if tensor is None and dram is None:
        return f"a kernel runs {use} of the time" if float(np.nanmean(exam.use[:, mask])) < KERNEL_PERCENT else None
    if (tensor or 0.0) >= TENSOR_PERCENT or (dram or 0.0) >= DRAM_PERCENT:
        return None
    units = (
        None if tensor is None else f"tensor cores are busy {percent(tensor)}",
        None if dram is None else f"memory {percent(dram)}",
    )
    return f"a kernel runs {use} of the time, {', '.join(unit for unit in units if unit)}"


RULE = Rule(
    id="D601",
    name="headroom",
    category=Category.IMPROPER_BATCH_SIZE,
    severity=Severity.ADVICE,
    summary="Half of the GPUs' memory is free while they compute little: a larger batch may be much faster.",
    fix="Try a larger batch, that of evaluation separately; mind the learning rate.",
    check=check,
)
