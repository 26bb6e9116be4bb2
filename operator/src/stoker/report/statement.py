"""The statement of a period: every figure that a report shows, whatever it looks like."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from types import MappingProxyType

from stoker.findings.vocabulary import Category, Stage
from stoker.report.assumptions import Assumption, assumptions
from stoker.report.balance import Balance, settle, total
from stoker.report.ledger import Account, Dimension, Ledger, account
from stoker.telemetry.usage import Cause, JobRecord, Period, UsageRecord

COMPARABLE = 0.9
"""The period before must have been watched for this share of its time to be compared with."""
TOP = 10
"""Rows of a ranking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseLine:
    """A category's losses. before: those of the period before; None where that can't be known."""

    category: Category
    rules: tuple[str, ...]
    lost: float
    jobs: int
    before: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the jobs of one value of a dimension used and lost; "" for those whose value is not known."""

    value: str
    jobs: int
    balance: Balance
    main_cause: Category | None
    before: Balance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNotes:
    """What a report adds to a job's figures: for each rule that found something, what to change."""

    fixes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Where the GPU-hours of a period went.

    total = used + lost + unknown, and lost = causes + unexplained = stages + unstaged; the same holds of each group.
    before is None where the period before was not watched long enough to be compared with.
    """

    period: Period
    namespaces: tuple[str, ...]
    total: Balance
    before: Balance | None
    timeline: tuple[tuple[Period, Balance], ...]
    causes: tuple[CauseLine, ...]
    unexplained: float
    stages: Mapping[Stage, float]
    unstaged: float
    groups: Mapping[Dimension, tuple[Row, ...]]
    jobs: tuple[Account, ...]
    """Every job, the one that lost most first."""
    fixes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What to change, by the job's uid and the rule."""
    notes: Mapping[str, JobNotes] = field(default_factory=dict)
    """Of jobs that the cluster still has, by their uid."""
    assumed: tuple[Assumption, ...] = ()

    @property
    def explained(self) -> float:
        """Lost GPU-hours with a known cause."""
        return fsum(line.lost for line in self.causes)

    def top(self, number: int = TOP) -> tuple[Account, ...]:
        """The jobs that lost most."""
        return Ledger(accounts=self.jobs).top(number)

    def fix(self, job: Account, rule: str) -> str:
        """What to change in a job against what a rule found; empty where nothing is known."""
        return self.fixes.get((job.identity.uid or "", rule), "")

    def unmeasured(self, job: Account) -> Mapping[str, str]:
        """Rules that found something in a job and claim no GPU-hours, such as those that read its manifest alone, each
        with what to change; empty for a job that the cluster no longer has.
        """
        known = self.notes.get(job.identity.uid or "")
        measured = {cause.rule for cause in job.causes}
        return {} if known is None else {rule: fix for rule, fix in known.fixes.items() if rule not in measured}


def state(
    record: UsageRecord,
    *,
    namespaces: Iterable[str] = (),
    notes: Mapping[str, JobNotes] = MappingProxyType({}),
    rule_fixes: Mapping[str, str] = MappingProxyType({}),
    cluster_read: bool = True,
) -> Statement:
    """Add up what was recorded. `notes` are by the job's uid; where there are none, the rule's own fix stands.

    cluster_read: whether the notes are the cluster's; if not, that is among what had to be assumed.
    """
    first, end = record.first, len(record.parts)
    now = _ledger(record.jobs, first, end)
    earlier = _ledger(record.jobs, 0, first)
    watched = fsum(record.watched[:first]) / first if first else 0.0
    before = earlier if watched >= COMPARABLE else None
    return Statement(
        period=record.period,
        namespaces=tuple(sorted(namespaces)),
        total=now.total,
        before=before.total if before is not None else None,
        timeline=tuple((record.parts[part], _balance(record.jobs, part)) for part in range(first, end)),
        causes=tuple(_cause_lines(now, before if before is not None and _has_records(record) else None)),
        unexplained=now.unexplained,
        stages=now.stages(),
        unstaged=now.unstaged,
        groups={dimension: tuple(_rows(now, before, dimension)) for dimension in Dimension},
        jobs=tuple(sorted(now.accounts, key=_order)),
        fixes=_fixes(now.accounts, notes, rule_fixes),
        notes=notes,
        assumed=assumptions(record, now, watched_before=watched, comparable=COMPARABLE, cluster_read=cluster_read),
    )


def _ledger(jobs: Iterable[JobRecord], start: int, end: int) -> Ledger:
    accounts = (account(job, start, end) for job in jobs)
    return Ledger(accounts=tuple(one for one in accounts if one.balance.requested > 0))


def _balance(jobs: Iterable[JobRecord], part: int) -> Balance:
    return total(settle(held=job.held[part], sampled=job.sampled[part], used=job.used[part]) for job in jobs)


def _has_records(record: UsageRecord) -> bool:
    """Whether the operator recorded the period before, without which its causes are not known."""
    return fsum(record.recorded[: record.first]) >= COMPARABLE * record.first


def _cause_lines(now: Ledger, before: Ledger | None) -> Iterable[CauseLine]:
    sums = now.causes()
    earlier = before.causes() if before is not None else {}
    categories = {cause.category: None for cause in sums}
    lines = (
        CauseLine(
            category=category,
            rules=tuple(cause.rule for cause in sums if cause.category is category),
            lost=_of_category(sums, category),
            jobs=sum(any(cause.category is category for cause in one.causes) for one in now.accounts),
            before=_of_category(earlier, category) if before is not None else None,
        )
        for category in categories
    )
    return sorted(lines, key=lambda line: (-line.lost, line.category))


def _of_category(sums: Mapping[Cause, float], category: Category) -> float:
    return fsum(hours for cause, hours in sums.items() if cause.category is category)


def _rows(now: Ledger, before: Ledger | None, dimension: Dimension) -> Iterable[Row]:
    earlier = before.by(dimension) if before is not None else {}
    for value, accounts in now.by(dimension).items():
        causes = Ledger(accounts=accounts).causes()
        yield Row(
            value=value,
            jobs=len(accounts),
            balance=total(one.balance for one in accounts),
            main_cause=next(iter(causes)).category if causes else None,
            before=total(one.balance for one in earlier.get(value, ())) if before is not None else None,
        )


def _fixes(
    accounts: Iterable[Account], notes: Mapping[str, JobNotes], rule_fixes: Mapping[str, str]
) -> Mapping[tuple[str, str], str]:
    fixes: dict[tuple[str, str], str] = {}
    for one in accounts:
        uid = one.identity.uid or ""
        own = notes[uid].fixes if uid in notes else {}
        for cause in one.causes:
            if fix := own.get(cause.rule) or rule_fixes.get(cause.rule, ""):
                fixes[uid, cause.rule] = fix
    return fixes


def _order(one: Account) -> tuple[float, str, str]:
    return -one.balance.lost, one.identity.namespace, one.identity.name


__all__ = ["COMPARABLE", "TOP", "CauseLine", "JobNotes", "Row", "Statement", "state"]
