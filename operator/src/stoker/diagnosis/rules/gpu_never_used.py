"""A program for GPUs has never used one.

## What it flags

The rule flags a job of PyTorch, TensorFlow or JAX, or one that has created a CUDA context, whose pods keep CPUs busy
while none of its GPUs has ever worked. A minute of work in an hour or more counts as none: it is a check of the
devices, or the start of a runtime that then falls back to CPUs. For an ended job its whole life counts, for a running
job at least the first hour.

## Why it costs GPU time

Frameworks use the CPUs without any message if they find no GPU: CUDA_VISIBLE_DEVICES is empty or wrong, the package
is the CPU build, or the program never moves its model to the device. The study's example trained for 481 minutes on
CPUs with an empty CUDA_VISIBLE_DEVICES. All GPUs of the job are lost, and the job takes many times as long.

## When it stays silent

- The job runs for less than an hour: it may prepare its data.
- A GPU of a running job has worked in the last ten minutes: it may go on.
- The pods do nothing: they wait.
- A GPU holds more memory than a CUDA context: the model is there. TensorFlow and JAX are excepted, as they reserve
  memory that they may not need.
- No framework is known and no CUDA context was seen (see non-dl-on-gpus).
- Any GPU has too few samples, or the job is a serving or interactive job.

Without samples of the pods' CPUs the finding is only possible.

## Change

Correct or remove CUDA_VISIBLE_DEVICES. Install the framework's CUDA build. Let the program check
`torch.cuda.is_available()` first, and stop if it is false.

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
    """Report a job for GPUs that has never used one."""
    unused = never_used(exam)
    framework = exam.facts.framework if exam.facts.framework in FRAMEWORKS else None
    if unused is None or not (framework or unused.context):
        return
    reason = "a CUDA context was made" if unused.context else f"the program uses {framework}"
    yield unused_claim(
        exam,
        unused,
        though=f", though {reason}",
        # A context alone is made by programs of any kind that look for GPUs.
        confidence=Confidence.POSSIBLE if unused.cores is None or framework is None else Confidence.LIKELY,
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
