"""What a statement had to assume, and what it could not see: said with its size, never filled in."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import fsum

from stoker.findings.wording import interval
from stoker.report.ledger import Ledger
from stoker.telemetry.usage import Period, UsageRecord

WHOLE = 0.999
"""From this share on a part counts as watched or recorded throughout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One of them. `key` is stable for programs; `gpu_hours` is how much it concerns, where that can be said."""

    key: str
    text: str
    gpu_hours: float | None = None


def assumptions(
    record: UsageRecord, ledger: Ledger, *, watched_before: float, comparable: float, cluster_read: bool
) -> tuple[Assumption, ...]:
    """All that applies to the record of a period and its ledger, the gravest first."""
    return (
        *_gaps(record),
        *_comparison(record, watched_before, comparable),
        *_jobs(record, ledger),
        *_causes(ledger),
        *_sources(record, cluster_read),
    )


def _gaps(record: UsageRecord) -> Iterator[Assumption]:
    first = record.first
    parts = record.parts[first:]
    blind = _gap(parts, record.watched[first:])
    if blind is not None:
        yield Assumption(
            key="notWatched",
            text=f"No GPU has samples for {_length(blind.length)} {_when(blind)}: the exporter was down, or "
            "Prometheus no "
            "longer retains them. GPU-hours that the operator recorded then count as unknown; others are not counted.",
        )
    unrecorded = _gap(parts, record.recorded[first:])
    if unrecorded is not None:
        yield Assumption(
            key="notRecorded",
            text=f"The operator recorded no jobs for {_length(unrecorded.length)} {_when(unrecorded)}. Pods of "
            "that time are known by their samples only: GPUs that were held without samples are not counted, nor are "
            "causes that were found only then.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    length: timedelta
    start: datetime
    end: datetime


def _gap(parts: tuple[Period, ...], shares: tuple[float, ...]) -> _Gap | None:
    missing = [(part, 1 - share) for part, share in zip(parts, shares, strict=True) if share < WHOLE]
    if not missing:
        return None
    length = sum((part.length * share for part, share in missing), timedelta(0))
    return _Gap(length=length, start=missing[0][0].start, end=missing[-1][0].end)


def _when(gap: _Gap) -> str:
    within = "" if gap.length >= (gap.end - gap.start) * WHOLE else "within "
    return f"({within}{interval(gap.start, gap.end)})"


def _comparison(record: UsageRecord, watched: float, comparable: float) -> Iterator[Assumption]:
    if watched < comparable:
        yield Assumption(
            key="noComparison",
            text=f"Only {100 * watched:.0f} % of the previous period have records ({100 * comparable:.0f} % are "
            "needed): no trend is shown.",
        )
    elif fsum(record.recorded[: record.first]) < comparable * record.first:
        yield Assumption(
            key="noCauseComparison",
            text="The operator did not record the previous period: causes have no trend.",
        )


def _jobs(record: UsageRecord, ledger: Ledger) -> Iterator[Assumption]:
    balance = ledger.total
    if balance.unknown > 0.005 * balance.requested:
        yield Assumption(
            key="notSampled",
            text=f"{hours(balance.unknown)} GPU-hours ({percent(balance.unknown / balance.requested)}) were held by "
            "jobs whose GPUs have no samples. They count as unknown, neither used nor lost.",
            gpu_hours=balance.unknown,
        )
    foreign = [one for one in ledger.accounts if one.identity.uid is None]
    if foreign:
        held = fsum(one.balance.requested for one in foreign)
        yield Assumption(
            key="noRecord",
            text=f"{hours(held)} GPU-hours belong to pods without a recorded DLJob: their owner, team and causes are "
            "unknown, and only their GPUs with samples are counted.",
            gpu_hours=held,
        )
    known = {one.identity.uid for one in ledger.accounts if one.identity.uid is not None}
    early = [
        fsum(job.sampled[record.first : job.first_seen])
        for job in record.jobs
        if job.identity.uid in known and job.first_seen is not None and job.first_seen > record.first
    ]
    if (before := fsum(early)) > 0:
        number = sum(one > 0 for one in early)
        yield Assumption(
            key="beforeRecord",
            text=f"{_jobs_word(number)} ran before the operator's first record of {'it' if number == 1 else 'them'}: "
            f"{hours(before)} GPU-hours are attributed by the pods' names, and assumed to have the same owner "
            "and team.",
            gpu_hours=before,
        )


def _causes(ledger: Ledger) -> Iterator[Assumption]:
    if number := sum(one.from_birth for one in ledger.accounts):
        yield Assumption(
            key="causesFromBirth",
            text=f"The findings of {_jobs_word(number)} were not recorded when the period began: they count from the "
            "start of the job, but at most what the job lost in the period.",
        )
    if number := sum(one.scaled for one in ledger.accounts):
        yield Assumption(
            key="causesScaled",
            text=f"The findings of {_jobs_word(number)} claim more idle GPU-hours than were lost in the period: each "
            "is reduced by the same share.",
        )
    lost, unstaged = ledger.total.lost, ledger.unstaged
    if unstaged > 0.005 * lost:
        yield Assumption(
            key="noStage",
            text=f"The stage of {hours(unstaged)} lost GPU-hours ({percent(unstaged / lost)}) was not recorded.",
            gpu_hours=unstaged,
        )


def _sources(record: UsageRecord, cluster_read: bool) -> Iterator[Assumption]:
    if not cluster_read:
        yield Assumption(
            key="noCluster",
            text="The DLJobs were not read from the cluster: the fixes are the rules' general ones, without the jobs' "
            "own numbers.",
        )
    yield Assumption(
        key="resolution",
        text=f"Time is counted in steps of {_length(record.resolution)}: starts and ends of pods are rounded to it.",
    )
    for warning in record.warnings:
        yield Assumption(key="prometheusWarning", text=f"Prometheus warned: {warning}")


def _jobs_word(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def _length(time: timedelta) -> str:
    minutes = round(time.total_seconds() / 60)
    if minutes < 120:
        return f"{minutes} min" if minutes else f"{time.total_seconds():.0f} s"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 1440:.1f} days"


def hours(value: float) -> str:
    """GPU-hours for people: three digits where there are fewer than 100, thousands with commas."""
    if value < 0.05:
        return "< 0.1" if value > 0.0005 else "0"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def percent(share: float) -> str:
    """A share 0..1 as a percentage; small ones are not rounded to nothing."""
    value = 100 * share
    return "< 1 %" if 0 < value < 0.95 else f"{value:.0f} %"


__all__ = ["Assumption", "assumptions", "hours", "percent"]
