"""The findings of a status: what admission saw, what the metrics show, and what no longer holds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from stoker.models.dljob import MAX_FINDINGS, DLJob
from stoker.models.finding import Finding
from stoker.models.vocabulary import Source

MAX_TEXT = 1024


def recorded(job: DLJob) -> tuple[Finding, ...]:
    """The findings of the job's status; those that this version can't read are dropped."""
    entries = job.status.findings if job.status is not None else ()
    return tuple(
        Finding.from_status(entry.model_dump(mode="json", by_alias=True, exclude_none=True)) for entry in entries
    )


def merged(before: Sequence[Finding], now_held: Iterable[Finding], now: datetime) -> tuple[Finding, ...]:
    """The findings that hold now, and those of before that the metrics no longer show, closed at `now`.

    A finding that is found again keeps the time since which it was known. Open ones come first, the most idle
    GPU-hours first; of the closed ones the cheapest fall out first.
    """
    held = {finding.rule: finding for finding in now_held}
    known = {finding.rule: finding for finding in before}
    current = [
        replace(finding, since=known[rule].since if finding.since is None and rule in known else finding.since)
        for rule, finding in held.items()
    ]
    closed = [
        finding if not finding.is_open else replace(finding, until=now)
        for rule, finding in known.items()
        if rule not in held and Source.METRICS in finding.sources
    ]
    ordered = sorted(current, key=_cost) + sorted(closed, key=_cost)
    return tuple(ordered[:MAX_FINDINGS])


def summary(findings: Iterable[Finding]) -> str | None:
    """`2: ImproperBatchSize +1`: how many are open, and the most costly one; None without any."""
    still_open = [finding for finding in findings if finding.is_open]
    if not still_open:
        return None
    others = f" +{len(still_open) - 1}" if len(still_open) > 1 else ""
    return f"{len(still_open)}: {still_open[0].category}{others}"


def opened(before: Sequence[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are open now and were not before."""
    known = {finding.rule for finding in before if finding.is_open}
    return tuple(finding for finding in after if finding.is_open and finding.rule not in known)


def _cost(finding: Finding) -> float:
    return -(finding.gpu_hours_idle or 0.0)
