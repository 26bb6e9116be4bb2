"""The GPUs wait while data or a model is downloaded.

## What it flags

For ten minutes or more, before any GPU is used or given a model, the pods receive a steady stream and compute little:
they download. With several attempts each start counts on its own.

## Why it costs GPU time

All GPUs of the job are bound from its first second. A public site is slower and less reliable than a store in the same
network, and the same bytes come again with each job and each restart.

## When it stays silent

- under ten minutes;
- once a GPU holds more than a CUDA context, or works: the program has started;
- where the stream is taken apart by the CPUs as it comes: that is an installation, or undecided;
- where any GPU has too few samples, where the pods' CPUs or network have none, and for pods on the host's network,
  whose traffic is the node's;
- for serving and interactive jobs.

The series can't see who sends. A copy of libraries from a share looks the same, and is named as the alternative; the
start-up script or a line of a download in the pod's log decides, where logs may be read.

## Change

Put the files into the cluster's own store before the job is submitted, and mount them (`HF_HOME` and
`HF_HUB_OFFLINE=1` for those of the Hugging Face Hub). What must be downloaded is downloaded by a job without GPUs.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.3, External Data Usage
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.startup import Doing, start_claim, startups
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity

LEAST_SECONDS = 600.0
"""Ten minutes, as for an installation: a shorter start is everyday."""


def check(exam: Examination) -> Iterator[Claim]:
    """Look for starts in which the pods download for long."""
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
