"""The GPUs wait while libraries are installed.

## What it flags

For ten minutes or more, before any GPU is used or given a model, the pods install: they receive in bursts, compute,
and write more than they receive; or they copy file by file, which sends more than acknowledgements; or they
compile what they have fetched, reading next to nothing. With several attempts each start counts on its own.

## Why it costs GPU time

All GPUs of the job are bound from its first second, and pip, conda or a copy of a folder of libraries use none of
them. The study's example copied such a folder for 16 minutes. The same happens again with each restart.

## When it stays silent

- under ten minutes, the study's bound;
- once a GPU holds more than a CUDA context, or works: the program has started;
- where the pods do nothing, receive a steady stream, or keep many cores busy without receiving: waiting, downloads and
  preprocessing are other causes;
- where any GPU has too few samples, and where the pods' CPUs, network or disks have none;
- for serving and interactive jobs.

A line of an installer in the pod's log makes it certain, where logs may be read. A fast copy of libraries from a share
looks like any other download; the start-up script decides.

## Change

Build an image that has the libraries, and use it as spec.image.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), section 4.4, Long Library Installation
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.startup import Doing, start_claim, startups
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Severity

LEAST_SECONDS = 600.0
"""Ten minutes, the study's definition (ICSE 2024, section 4.4)."""


def check(exam: Examination) -> Iterator[Claim]:
    """Look for starts in which the pods install for long."""
    for startup in startups(exam):
        if startup.seconds(Doing.INSTALLING, exam.step) >= LEAST_SECONDS:
            yield start_claim(exam, startup, Doing.INSTALLING, "while libraries are installed", ())


RULE = Rule(
    id="D401",
    name="long-installation",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The GPUs wait ten minutes or more while libraries are installed.",
    fix="Build an image with these libraries and set it as spec.image.",
    check=check,
)
