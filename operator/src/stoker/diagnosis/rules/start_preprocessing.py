"""The GPUs wait while data is prepared on the CPUs.

## What it flags

For ten minutes or more, before any GPU is used or given a model, the pods keep several cores busy and receive next to
nothing, or compute as fast as their CPU limit lets them: they prepare data. With several attempts each start counts on
its own.

## Why it costs GPU time

Cleaning, decoding and tokenizing before the first step use the CPUs alone, and all GPUs of the job are bound meanwhile.
The result is the same each time, and is computed again with each job and each restart.

## When it stays silent

- under ten minutes: imports, indexing and building the model keep CPUs busy, too;
- once a GPU holds more than a CUDA context, or works: compiling the model's kernels comes after that;
- at one core: a single-threaded preparation is undecided (see startup-idle);
- for a job that has never used a GPU in an hour, or until its end: there may never come a first use;
- where any GPU has too few samples, where the pods' CPUs or network have none;
- for serving and interactive jobs.

Compiling a library with all cores looks the same, and is named as the alternative; the start-up script decides. It is
only possible where the pods' disks are sampled and next to nothing is read or written; and without samples of the GPUs'
memory where nothing is read: the model may be there, and its kernels be compiled.

## Change

Prepare the data once, in a job without GPUs, and store the result; or prepare it while training runs: in the loader's
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
"""Ten minutes, as for an installation: a shorter start is everyday."""


def check(exam: Examination) -> Iterator[Claim]:
    """Look for starts in which the pods prepare data for long."""
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
