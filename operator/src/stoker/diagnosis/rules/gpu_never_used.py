"""A program for GPUs that has never used one.

## What it flags

A job of PyTorch, TensorFlow or JAX, or one that has made a CUDA context, whose pods keep CPUs busy while none of its
GPUs has ever worked: over its whole life if it has ended, after an hour if it still runs.

## Why it costs GPU time

Frameworks fall back to the CPUs without a word where they see no GPU: CUDA_VISIBLE_DEVICES is empty or wrong, the wheel
is the CPU's, or the program never moves its model to the device. The study's example trained for 481 minutes on CPUs
with an empty CUDA_VISIBLE_DEVICES. All GPUs of the job are lost, and it takes many times as long.

## When it stays silent

- in the first hour of a job that runs: it may prepare its data;
- where the pods do nothing: they wait;
- where a GPU holds more than a CUDA context takes: the model is there;
- where neither a framework is known nor a context seen (see non-dl-on-gpus);
- where any GPU has too few samples, and for serving and interactive jobs.

Without samples of the pods' CPUs it is only possible.

## Change

Set CUDA_VISIBLE_DEVICES right, or not at all; install the framework's build for CUDA; check
`torch.cuda.is_available()` first and stop without it.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, API Misuse
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.unused_gpus import never_used, unused_claim
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Framework, Severity, Source

FRAMEWORKS = (Framework.PYTORCH, Framework.TENSORFLOW, Framework.JAX)


def check(exam: Examination) -> Iterator[Claim]:
    """Look for a life without any use of a GPU, in a job that was made for GPUs."""
    unused = never_used(exam)
    framework = exam.facts.framework if exam.facts.framework in FRAMEWORKS else None
    if unused is None or not (framework or unused.context):
        return
    reason = "a CUDA context was made" if unused.context else f"the program uses {framework}"
    yield unused_claim(
        exam,
        unused,
        though=f", though {reason}",
        confidence=Confidence.POSSIBLE if unused.cores is None else Confidence.LIKELY,
        sources=(Source.METRICS,) if framework is None else (Source.MANIFEST, Source.METRICS),
        other=Category.NON_DL_JOB,
    )


RULE = Rule(
    id="D106",
    name="gpu-never-used",
    category=Category.API_MISUSE,
    severity=Severity.WARNING,
    summary="A program for GPUs computes on CPUs and has never used its GPUs.",
    fix="Set CUDA_VISIBLE_DEVICES right or not at all; install the framework's CUDA build; move the model to the GPU.",
    check=check,
)
