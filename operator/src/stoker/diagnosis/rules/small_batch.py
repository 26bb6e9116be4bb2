"""Each step gives the GPU too little work.

## What it flags

The rule flags training that uses at most 50 % of each GPU and at most 50 % of its memory, at a steady low level. This
is the study's definition of an improper batch size. The mean utilization of the job must be at most 50 %, too.

## Why it costs GPU time

A small batch leaves most units of the GPU without work in every kernel. Between kernels the GPU waits while the CPU
prepares the next one, and the shorter the kernels are, the more that counts. In the study, a larger batch alone made
two jobs 4.9 and 3.4 times as fast.

## When it stays silent

- More than 50 % of memory or of the GPU is used: a larger batch would not fit, or would not help.
- The use drops to zero and recovers: something interrupts the GPU, which is another cause. The level between the
  drops is judged on its own.
- The GPU waits: the CPUs are at their limit, data streams in over the network, from disk or over PCIe, or ranks
  exchange much. A larger batch would only wait longer (see input-bound where this is not decided).
- Device memory is the bottleneck.
- The framework is TensorFlow or JAX, and more than half of the memory is reserved, needed or not.
- Utilization over the last second is either nearly nothing or nearly everything: the GPU stands still for a second and
  more, while a small batch leaves gaps of milliseconds.
- The job has worked for less than fifteen minutes, samples are missing, the GPUs are MIG slices or shared, or the job
  is a serving or interactive job.

Without CPU and network samples of the pods a wait for input cannot be excluded, and the finding is only possible.

## Change

Raise the batch size until the memory is well used. Set that of evaluation separately: without gradients much more
fits. Adjust the learning rate, which usually follows the batch size, with a warm-up.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.2, Improper Batch Size;
  sections 1 and 4.5 for figures
"""

from collections.abc import Iterator
from dataclasses import replace

from stoker.diagnosis.series.batch_size import larger_batch
from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import Loss, at_work, loss
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity, Source
from stoker.findings.wording import gib, gpu_hours, percent

SLOWEST, FASTEST = 1.79, 1.96
"""How much faster twice the batch made the study's two jobs (section 4.5)."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report a steady low level of the GPUs' work while half of their memory is free."""
    found = loss(exam, Category.IMPROPER_BATCH_SIZE)
    if found is None:
        return
    if found.level is None or found.level.peak is None:
        yield found.claim()
        return
    peak = found.level.peak
    capacity = min((mib for device in exam.devices if (mib := device.capacity_mib) is not None), default=None)
    size = f" of its {gib(capacity)}" if capacity is not None else " of its memory"
    claim = found.claim(fix=larger_batch(exam.facts.batch_size, peak, capacity), recoverable=_recoverable(exam, found))
    yield replace(
        claim,
        detail=(
            f"Training uses {percent(found.level.level)} of each {at_work(exam)} and at most {percent(peak)}{size}; "
            f"{gpu_hours(found.hours)} idle."
        ),
        evidence="; ".join(part for part in (claim.evidence, str(exam.facts.batch_size or "")) if part),
        sources=claim.sources if exam.facts.batch_size is None else (Source.SCRIPT, *claim.sources),
    )


def _recoverable(exam: Examination, found: Loss) -> Recoverable:
    hours = float(found.explains.sum()) * exam.step / 3600
    return Recoverable(
        min=hours * (1 - 1 / SLOWEST),
        max=hours * (1 - 1 / FASTEST),
        basis="twice the batch made the jobs of ICSE 2024, section 4.5, 1.79 and 1.96 times as fast",
    )


RULE = Rule(
    id="D201",
    name="small-batch",
    category=Category.IMPROPER_BATCH_SIZE,
    severity=Severity.WARNING,
    summary="Training uses at most half of each GPU and of its memory, at a steady low level.",
    fix="Raise the batch size, that of evaluation separately; mind the learning rate.",
    check=check,
)
