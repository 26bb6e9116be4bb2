"""The GPUs are idle for a long time at the start, and no single activity explains it.

## What it flags

The rule flags a quarter of an hour or more from the start of the containers to the first use of a GPU, in which the
pods work but no single activity (installing, downloading, preparing data) takes ten minutes. The evidence lists the
minutes of each activity. The finding's category is that of the longest, the others are its alternatives.

## Why it costs GPU time

The job holds all its GPUs from its first second, whatever the start is spent on.

## When it stays silent

- The start takes less than a quarter of an hour.
- One activity explains the start: its own rule reports it (long-installation, external-download,
  start-preprocessing).
- The pods wait for half of the time or more: the reason is outside of the pods.
- The job has never used a GPU, for an hour or until its end.
- Any GPU has too few samples, or nothing is known of what the pods do.
- The job is a serving or interactive job.

## Change

Read the log of the first minutes. Put libraries into the image, and downloads and preparation into a job without
GPUs.

## References

- An Empirical Study on Low GPU Utilization of Deep Learning Jobs (ICSE 2024), sections 4.3 and 4.4
"""

from collections.abc import Iterator

from stoker.diagnosis.series.examination import Claim, Examination
from stoker.diagnosis.series.startup import Doing, Startup, activity, startups
from stoker.diagnosis.series.unused_gpus import never_used
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.series import PodSignal

LEAST_SECONDS = 900.0
"""Seconds. Chosen longer than for a start with a single reason, because this one names none."""
EXPLAINED_SECONDS = 600.0
"""Seconds of one activity from which its own rule reports it (LEAST_SECONDS there)."""
WAITING_SHARE = 0.5
"""Share of the start. Chosen because pods that wait for half of it or more are held up by something outside."""
CANDIDATES = {
    Doing.INSTALLING: Category.LONG_LIBRARY_INSTALLATION,
    Doing.DOWNLOADING: Category.EXTERNAL_DATA_USAGE,
    Doing.PREPARING: Category.DATA_PREPROCESSING,
}
RECEIVING_BYTES = 100e3
"""bytes/s. Chosen because an installation or a download receives more."""


def check(exam: Examination) -> Iterator[Claim]:
    """Report long starts that no single activity explains."""
    if never_used(exam):
        return
    for startup in startups(exam):
        if len(startup) * exam.step >= LEAST_SECONDS and _undecided(startup, exam.step):
            yield _claim(exam, startup)


def _undecided(startup: Startup, step: float) -> bool:
    explained = any(startup.seconds(doing, step) >= EXPLAINED_SECONDS for doing in CANDIDATES)
    waiting = startup.seconds(Doing.WAITING, step)
    return not explained and waiting < WAITING_SHARE * len(startup) * step


def _candidates(exam: Examination, startup: Startup) -> list[Category]:
    """The possible causes, the most likely first: the longest activity, then what the means of the whole start
    suggest.
    """
    step = exam.step
    received = exam.pod_peak(PodSignal.NET_RX, exam.steps(startup.first, startup.last))
    offline = received is not None and received < RECEIVING_BYTES
    order = [Doing.PREPARING, Doing.INSTALLING, Doing.DOWNLOADING]
    if not offline:
        order = [Doing.INSTALLING, Doing.DOWNLOADING, Doing.PREPARING]
    order.sort(key=lambda doing: -startup.seconds(doing, step))
    return [CANDIDATES[doing] for doing in order if not (offline and doing is Doing.DOWNLOADING)]


def _claim(exam: Examination, startup: Startup) -> Claim:
    mask = exam.steps(startup.first, startup.last)
    since, until = exam.time(startup.first), exam.until(startup.last)
    explains = exam.explains(mask)
    gpus = count(exam.facts.gpus, "GPU")
    doing = activity(exam, mask)
    best, *others = _candidates(exam, startup)
    return Claim(
        detail=(
            f"{gpus} idle for the first {minutes(len(startup) * exam.step)}, and no single activity explains it; "
            f"{gpu_hours(exam.idle_hours(explains))} lost."
        ),
        evidence=(
            f"{interval(since, until)}, {gpus}; {startup.breakdown(exam.step)}{'; on average ' if doing else ''}{doing}"
        ),
        category=best,
        confidence=Confidence.POSSIBLE,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        alternatives=tuple(others),
        explains=explains,
    )


RULE = Rule(
    id="D402",
    name="startup-idle",
    category=Category.LONG_LIBRARY_INSTALLATION,
    severity=Severity.WARNING,
    summary="The GPUs wait a quarter of an hour or more at the start, and no single activity explains it.",
    fix="Look into the log of the first minutes: libraries belong into the image, downloads into a job without GPUs.",
    check=check,
)
