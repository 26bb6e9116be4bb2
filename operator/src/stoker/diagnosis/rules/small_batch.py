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
- where use falls to nothing and recovers: something interrupts the GPU, which is another cause; the level between
  the drops is judged on its own;
- where the CPUs are at their limit, or data streams in over the network, from disk or over PCIe, or ranks exchange
  much: the GPU waits, and a larger batch would wait longer (see input-bound where that is open);
- where device memory is the bottleneck;
- TensorFlow and JAX, which take the memory whether they need it or not;
- in the first fifteen minutes of work, where samples are missing, with MIG slices and shared GPUs, and for serving and
  interactive jobs.

Without the pods' CPU and network series a wait for input can't be excluded, and the finding is only possible.

## Change

Raise the batch size until memory is well used, that of evaluation on its own: without gradients much more fits. Mind
the learning rate, which usually follows the batch size, with a warm-up.

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
    """Read the verdict on the job's level."""
    found = loss(exam, Category.IMPROPER_BATCH_SIZE)
    if found is None or found.level is None or found.level.peak is None:
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
        evidence="; ".join(part for part in (claim.evidence, exam.facts.batch_size) if part),
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
