"""The job computes on CPUs and has never used a GPU.

## What it flags

The rule flags a job whose pods keep CPUs busy while none of its GPUs has ever worked and no GPU memory was ever
allocated. For an ended job its whole life counts, for a running job at least the first hour. No GPU framework is
known in the job.

## Why it costs GPU time

Data analysis and classical machine learning (Spark, pandas, scikit-learn) compute on CPUs, whatever the job holds.
All its GPUs are lost for its whole life.

## When it stays silent

- The framework is PyTorch, TensorFlow or JAX, or a CUDA context was created: the job was meant to use the GPUs (see
  gpu-never-used).
- The job runs for less than an hour: it may prepare its data.
- A GPU has worked for more than a minute, or in the last ten minutes of a running job.
- The pods do nothing: they wait.
- A GPU holds more memory than a CUDA context.
- Any GPU has too few samples, or the job is a serving or interactive job.

The finding is only possible without samples of the pods' CPUs. It is also only possible without samples of GPU memory
while the job runs: the job may hold a model there and wait.

## Change

Submit the job without GPUs: set spec.gpusPerNode to 0, or use a queue for CPU jobs. If it should use them, check that
its libraries are built for GPUs, and check CUDA_VISIBLE_DEVICES.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Non-DL Job
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.unused_gpus import never_used, unused_claim
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Severity, Source


def check(exam: Examination) -> Iterator[Claim]:
    """Report a job without a known GPU framework that has never used a GPU."""
    unused = never_used(exam)
    if unused is None or unused.context or exam.facts.framework not in (None, Framework.OTHER):
        return
    memory = "no samples of GPU memory" if unused.context is None else "no GPU memory ever allocated"
    sure = unused.cores is not None and (unused.context is not None or not exam.running)
    yield unused_claim(
        exam,
        unused,
        memory=f", {memory}",
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        other=Category.API_MISUSE,
    )


RULE = Rule(
    id="D105",
    name="non-dl-on-gpus",
    category=Category.NON_DL_JOB,
    severity=Severity.WARNING,
    summary="The job computes on CPUs and has never used its GPUs.",
    fix="Submit it without GPUs, or check that its libraries are built for GPUs.",
    check=check,
)
