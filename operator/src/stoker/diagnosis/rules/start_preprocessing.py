"""The GPUs wait while data is prepared on the CPUs.

## What it flags

The rule flags ten minutes or more before any GPU works or holds a model in which the pods prepare data: they keep
several cores busy and receive next to nothing, or compute as fast as their CPU limit allows. If the job has several
attempts, each start counts on its own.

## Why it costs GPU time

Cleaning, decoding and tokenizing before the first step use only CPUs, while the job holds all its GPUs. The result is
always the same, and each job and each restart computes it again.

## When it stays silent

- It takes less than ten minutes: imports, indexing and building the model keep CPUs busy, too.
- A GPU works, or holds more than a CUDA context: the program may compile the model's kernels.
- Only one core is busy: a preparation in one thread cannot be decided (see startup-idle).
- The job has never used a GPU, for an hour or until its end: there may be no first use.
- Any GPU has too few samples, or the pods' CPUs or network have none.
- The job is a serving or interactive job.

Compiling a library with all cores looks the same and is named as the alternative. The startup script decides. The
finding is only possible if the pods' disks are sampled and next to nothing is read or written, and if nothing is read
and GPU memory is not sampled: the model may be there, and its kernels may be compiling.

## Change

Prepare the data once, in a job without GPUs, and store the result. Or prepare it during training, in the loader's
workers, or on the GPU with DALI.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, Data Preprocessing, figure 5
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.startup import Doing, start_claim, startups
from stoker.diagnosis.series.unused_gpus import never_used
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity

LEAST_SECONDS = 600.0
"""Seconds. Chosen as the study's bound for an installation (ICSE 2024, section 4.4): shorter starts are usual."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report starts in which the pods prepare data for long."""
    if never_used(exam):
        return
    for startup in startups(exam):
        if startup.seconds(Doing.PREPARING, exam.step) >= LEAST_SECONDS:
            yield start_claim(
                exam,
                startup,
                Doing.PREPARING,
                "while data is prepared on the CPUs",
                (Category.LONG_LIBRARY_INSTALLATION,),
            )


RULE = Rule(
    id="D312",
    name="start-preprocessing",
    category=Category.DATA_PREPROCESSING,
    severity=Severity.WARNING,
    summary="The GPUs wait ten minutes or more while data is prepared on the CPUs.",
    fix="Prepare the data once, in a job without GPUs; or during training, in loader workers or on the GPU (DALI).",
    check=check,
)
