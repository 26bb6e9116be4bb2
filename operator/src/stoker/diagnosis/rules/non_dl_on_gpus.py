"""The job computes, and has never touched a GPU.

## What it flags

A job whose pods keep CPUs busy while none of its GPUs has ever worked and no GPU memory was ever allocated: over its
whole life if it has ended, after an hour if it still runs. Nothing is known of a GPU framework in it.

## Why it costs GPU time

Data analysis and classical machine learning (Spark, pandas, scikit-learn) compute on CPUs, whatever the job holds. All
its GPUs are lost for its whole life.

## When it stays silent

- for PyTorch, TensorFlow and JAX, and once a CUDA context was made: then the GPUs were meant to be used (see
  gpu-never-used);
- in the first hour of a job that runs: it may prepare its data;
- where the pods do nothing: they wait, and for whom is another question;
- where a GPU holds more than a CUDA context takes;
- where any GPU has too few samples, and for serving and interactive jobs.

Without samples of the pods' CPUs it is only possible, and so it is without those of GPU memory while the job runs: it
may hold a model there, and wait.

## Change

Submit it without GPUs: remove spec.gpusPerNode's GPUs, or use a queue for CPU jobs. If it should use them, check that
its libraries are built for GPUs, and CUDA_VISIBLE_DEVICES.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.1, Non-DL Job
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.unused_gpus import never_used, unused_claim
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Severity, Source


def check(exam: Examination) -> Iterator[Claim]:
    """Look for a life without any use of a GPU, in a job that no GPU framework is known of."""
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
    summary="The job computes on CPUs and has never touched its GPUs.",
    fix="Submit it without GPUs, or check that its libraries are built for GPUs.",
    check=check,
)
