"""The GPUs wait while libraries are installed.

## What it flags

The rule flags an installation of ten minutes or more before any GPU works or holds a model. An installation shows in
one of three ways: the pods receive in bursts, compute, and write more than they receive; or they copy file by file,
which sends more than acknowledgements; or they compile what they have downloaded, and read next to nothing. If the
job has several attempts, each start counts on its own.

## Why it costs GPU time

The job holds all its GPUs from its first second, and pip, conda or a copy of a folder of libraries use none of them.
The study's example copied such a folder for 16 minutes. Each restart repeats it.

## When it stays silent

- The installation takes less than ten minutes, the study's bound.
- A GPU works, or holds more than a CUDA context: the program has started.
- The pods do nothing, receive a steady stream, or keep many cores busy without receiving: these are waiting,
  downloads and preprocessing, which are other causes.
- Any GPU has too few samples, or the pods' CPUs, network or disks have none.
- The job is a serving or interactive job.

A line of an installer in the pod's log makes the finding certain, where logs may be read. A fast copy of libraries
from a share looks like any other download, and data that is unpacked or prepared by one process looks like packages:
these causes are named as alternatives. The startup script decides.

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
"""Seconds: the study's definition of a long installation (ICSE 2024, section 4.4)."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report starts in which the pods install for long."""
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
