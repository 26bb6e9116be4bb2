"""The GPUs wait for data that the CPUs prepare during training.

## What it flags

The rule flags training at 70 % or less of each GPU in which the CPUs are the bottleneck, in one of three cases:

- The CPUs are at 85 % of their limit or more, or at 75 % of what the GPUs' own processes leave of it.
- The CPUs are at 60 % of their limit or more, and are throttled in a quarter of the periods or more, or tasks wait
  for a CPU for half of the time.
- The GPUs' work drops, for a tenth of the time or more, while the CPUs are at their limit, or busy by two cores a GPU
  more than otherwise, and nothing is received or sent. In a job that is not low, this is only possible: such phases
  may be the algorithm's, as in reinforcement learning.

Where the CPU limit is not known, several cores that stay as busy while the GPUs' pace varies show one. Too few workers
show only as some busy cores, because the other CPUs are idle. If the job is low and every other cause is unlikely, the
rule reports that.

## Why it costs GPU time

Decoding, augmenting or tokenizing each sample on the CPU takes longer than the GPU's step, in each epoch. A faster
GPU or a larger batch only waits longer.

## When it stays silent

- The GPUs do not wait, however busy the CPUs are.
- The CPUs have time left (see remote-read, host-transfer and small-batch).
- The GPUs have not been used yet: that is another stage.
- The job has worked for less than fifteen minutes, the GPUs are MIG slices or shared, or samples are missing.

## Change

Prepare the data once, in a CPU job, and read the result. Or decode and augment on the GPU (NVIDIA DALI). Or give the
loader more workers, and the job the CPUs for them.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Preprocessing
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import Loss, loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Report a low level of the GPUs' work, or drops of it, that busy CPUs explain."""
    found = loss(exam, Category.DATA_PREPROCESSING)
    if found is None:
        return
    yield found.claim(
        fix=f"Prepare the data once in a CPU job, or decode and augment on the GPU (NVIDIA DALI), or give the loader "
        f"{_more(exam, found)}."
    )


def _more(exam: Examination, found: Loss) -> str:
    """What the data loader lacks: CPUs, if it has used all of them, or workers."""
    limits = {pod.cpu_limit for pod in exam.facts.pods}
    limit = limits.pop() if len(limits) == 1 else None
    if found.drops is None and found.confidence is Confidence.POSSIBLE:
        return "more workers"
    return "more CPUs and as many workers" if limit is None else f"more than {limit:g} CPUs a pod and as many workers"


RULE = Rule(
    id="D302",
    name="input-preprocessing",
    category=Category.DATA_PREPROCESSING,
    severity=Severity.WARNING,
    summary="The GPUs wait for data that the CPUs decode or augment during training.",
    fix="Prepare the data once in a CPU job, decode and augment on the GPU, or give the loader more CPUs and workers.",
    check=check,
)
