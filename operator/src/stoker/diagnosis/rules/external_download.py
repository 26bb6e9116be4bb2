"""The GPUs wait while data or a model is downloaded.

## What it flags

The rule flags a download of ten minutes or more before any GPU works or holds a model: the pods receive a steady
stream and compute little. If the job has several attempts, each start counts on its own.

## Why it costs GPU time

The job holds all its GPUs from its first second. A public site is slower and less reliable than a store in the same
network, and each job and each restart downloads the same bytes again.

## When it stays silent

- The download takes less than ten minutes.
- A GPU works, or holds more than a CUDA context: the program has started.
- The CPUs process the stream as it arrives: that is an installation, or cannot be decided.
- Any GPU has too few samples, the pods' CPUs or network have none, or the pods use the host's network, whose traffic
  is that of the node.
- The job is a serving or interactive job.

Series do not show who sends, and what. A copy of libraries from a share, or of a data set from a store, looks the same
and is named as the alternative. The startup script decides, or a line about a download in the pod's log, where logs may
be read.

## Change

Put the files into the cluster's own store before the job is submitted, and mount them (with `HF_HOME` and
`HF_HUB_OFFLINE=1` for files of the Hugging Face Hub). What must be downloaded at run time, download in a job without
GPUs.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, External Data Usage
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.startup import Doing, start_claim, startups
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity

LEAST_SECONDS = 600.0
"""Seconds. Chosen as the study's bound for an installation (ICSE 2024, section 4.4): shorter starts are usual."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report starts in which the pods download for long."""
    for startup in startups(exam):
        if startup.seconds(Doing.DOWNLOADING, exam.step) >= LEAST_SECONDS:
            yield start_claim(
                exam,
                startup,
                Doing.DOWNLOADING,
                "while something is downloaded",
                (Category.LONG_LIBRARY_INSTALLATION,),
            )


RULE = Rule(
    id="D311",
    name="external-download",
    category=Category.EXTERNAL_DATA_USAGE,
    severity=Severity.WARNING,
    summary="The GPUs wait ten minutes or more while data or a model is downloaded.",
    fix="Put the files into the cluster's own store first, mount them; set HF_HOME and HF_HUB_OFFLINE=1 for the Hub.",
    check=check,
)
