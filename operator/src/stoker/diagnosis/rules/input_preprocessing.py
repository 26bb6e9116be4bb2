"""The GPUs wait for data that the CPUs prepare while they train.

## What it flags

Training uses at most 70 % of each GPU, and the CPUs are what it waits for: they are at 85 % of their limit or more
(or at 75 % of what the GPUs' own processes leave of it), or at 60 % of it while it stops them in a quarter of the
periods or more, or tasks wait for a CPU for half of the time. Or: the GPUs' work drops, for a tenth of the time or
more, while the CPUs are at their limit, or busy by two cores a GPU more than otherwise, and nothing is received or
sent.

Too few workers leave the CPUs time and show only as several busy cores. Where the job is low and every other cause is
excluded, that is reported as possible.

## Why it costs GPU time

Decoding, augmenting or tokenizing each sample on the CPU in each epoch takes longer than the GPU's step. A faster GPU
or a larger batch only waits longer.

## When it stays silent

- where the GPUs do not wait, however busy the CPUs are;
- where the CPUs have time: see remote-read, host-transfer and small-batch;
- before the GPUs are first used: that is another stage;
- in the first fifteen minutes of work, with MIG slices and shared GPUs, and where samples are missing.

## Change

Prepare the data once, in a CPU job, and read the result; or decode and augment on the GPU (NVIDIA DALI); or give the
loader more workers and the job the CPUs for them.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Preprocessing
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.losses import Loss, loss
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity


def check(exam: Examination) -> Iterator[Claim]:
    """Read the verdicts on the job's level and on its drops."""
    found = loss(exam, Category.DATA_PREPROCESSING)
    if found is None:
        return
    yield found.claim(
        fix=f"Prepare the data once in a CPU job, or decode and augment on the GPU (NVIDIA DALI), or give the loader "
        f"{_more(exam, found)}."
    )


def _more(exam: Examination, found: Loss) -> str:
    """What the loader lacks: CPUs that it has used up, or workers to use those that it has."""
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
