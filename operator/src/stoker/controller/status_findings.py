"""The findings of a status: what admission saw, what the metrics show, and what no longer holds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from stoker.api.dljob import DLJob
from stoker.api.status import MAX_FINDINGS
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Source


def recorded(job: DLJob) -> tuple[Finding, ...]:
    """The findings of the job's status; those that this version can't read are dropped."""
    entries = job.status.findings if job.status is not None else ()
    return tuple(
        Finding.from_status(entry.model_dump(mode="json", by_alias=True, exclude_none=True)) for entry in entries
    )


def merged(
    before: Sequence[Finding], now_held: Iterable[Finding], now: datetime, *, idle: float | None = None
) -> tuple[Finding, ...]:
    """The findings that hold now, and those of before that the metrics no longer show, closed at `now`.

    A finding that is found again keeps the time since which it was known. Open ones come first, the most idle
    GPU-hours first; of the closed ones the cheapest fall out first. `idle` are the job's idle GPU-hours, where they are
    known: one that closes keeps of its own what the others leave of these, for another cause may explain the same time
    now.
    """
    held = {_identity(finding): finding for finding in now_held}
    known = {_identity(finding): finding for finding in before if Source.METRICS in finding.sources}
    current = [
        replace(finding, since=known[key].since if finding.since is None and key in known else finding.since)
        for key, finding in held.items()
    ]
    gone = [finding for key, finding in known.items() if key not in held]
    closed = [finding for finding in gone if not finding.is_open]
    for finding in (finding for finding in gone if finding.is_open):
        hours = finding.gpu_hours_idle
        if idle is not None and hours is not None:
            hours = min(hours, max(idle + sum(map(_cost, (*current, *closed))), 0.0))
        closed.append(replace(finding, until=now, gpu_hours_idle=hours))
    ordered = sorted(current, key=_cost) + sorted(closed, key=_cost)
    return tuple(ordered[:MAX_FINDINGS])


def holding(
    before: Sequence[Finding], measured: Sequence[Finding] | None, static: Sequence[Finding]
) -> tuple[Finding, ...]:
    """What holds: what the metrics show, and what the manifest says beside it.

    `measured` are the findings of the last examination; None where there was none, and then what the metrics have shown
    `before` stands. `static` are those of the manifest under the policy of now: of a cause that the metrics confirm the
    confirmed finding stays alone.
    """
    shown = [finding for finding in before if finding.is_open] if measured is None else measured
    confirmed = [finding for finding in shown if Source.METRICS in finding.sources]
    causes = {finding.category for finding in confirmed}
    return (*confirmed, *(finding for finding in static if finding.category not in causes))


def summary(findings: Iterable[Finding]) -> str | None:
    """`2: ImproperBatchSize +1`: how many are open, and the most costly one; None without any."""
    return _counted([finding for finding in findings if finding.is_open])


def final_summary(findings: Sequence[Finding], shown: Iterable[Finding]) -> str | None:
    """The same of a job that is over: what its final diagnosis has `shown` counts, whenever it ceased."""
    rules = {finding.rule for finding in shown}
    return _counted([finding for finding in findings if finding.is_open or finding.rule in rules])


def _counted(findings: Sequence[Finding]) -> str | None:
    if not findings:
        return None
    others = f" +{len(findings) - 1}" if len(findings) > 1 else ""
    return f"{len(findings)}: {findings[0].category}{others}"


def opened(before: Sequence[Finding], after: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are new: open now and not before, or over already and never heard of."""
    were_open = {finding.rule for finding in before if finding.is_open}
    heard_of = {finding.rule for finding in before}
    return tuple(finding for finding in after if finding.rule not in (were_open if finding.is_open else heard_of))


def _identity(finding: Finding) -> tuple[str, ...]:
    """By what two findings are the same. Of what the metrics show the figures change; of what the manifest says there
    may be several by one rule.
    """
    if Source.METRICS in finding.sources:
        return (finding.rule,)
    return finding.rule, str(finding.location), finding.detail


def _cost(finding: Finding) -> float:
    return -(finding.gpu_hours_idle or 0.0)
