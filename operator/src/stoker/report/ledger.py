"""Accounts of jobs, and their sums by what the jobs have in common."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum
from typing import TypeVar

from stoker.findings.vocabulary import Stage
from stoker.report.balance import Balance, settle, total
from stoker.telemetry.usage import Cause, JobIdentity, JobRecord

Key = TypeVar("Key", Cause, Stage)

TOLERANCE = 0.02
"""Claims and losses are measured apart, with steps of their own: a difference under this share is none."""


class Dimension(StrEnum):
    """What jobs can be grouped by."""

    TEAM = "team"
    OWNER = "owner"
    NAMESPACE = "namespace"
    JOB_TYPE = "jobType"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of one job's GPU-hours in a stretch of time.

    causes, stages: lost GPU-hours by cause and by stage, each together at most the lost ones. from_birth: some of them
    were counted from the job's beginning, for want of their value at the stretch's start. scaled: the causes claimed
    more than was lost, and each was cut by the same factor.
    """

    identity: JobIdentity
    balance: Balance
    causes: Mapping[Cause, float]
    stages: Mapping[Stage, float]
    from_birth: bool = False
    scaled: bool = False

    @property
    def unexplained(self) -> float:
        """Lost GPU-hours that no finding accounts for."""
        return max(self.balance.lost - fsum(self.causes.values()), 0.0)

    @property
    def unstaged(self) -> float:
        """Lost GPU-hours whose stage is not known."""
        return max(self.balance.lost - fsum(self.stages.values()), 0.0)

    @property
    def main_cause(self) -> Cause | None:
        """The cause that lost most."""
        return max(self.causes, key=lambda cause: self.causes[cause], default=None)


def account(job: JobRecord, start: int, end: int) -> Account:
    """The account of a job over the parts `start` to `end` (exclusive) of its record."""
    balance = total(
        settle(held=job.held[part], sampled=job.sampled[part], used=job.used[part]) for part in range(start, end)
    )
    causes = _gained(job.causes, start, end)
    # What a finding has lost before it is first on record, it lost within the stretch, unless the job is older than
    # both the stretch and its record: then some of it may lie before.
    older = fsum(job.sampled[:start]) > 0 and (job.first_seen is None or job.first_seen >= start)
    return Account(
        identity=job.identity,
        balance=balance,
        causes=_within(balance.lost, causes),
        stages=_within(balance.lost, _gained(job.stages, start, end)),
        from_birth=older and any(_latest(job.causes[cause][: start + 1]) is None for cause in causes),
        scaled=fsum(causes.values()) > balance.lost * (1 + TOLERANCE),
    )


def _gained(sums: Mapping[Key, Sequence[float | None]], start: int, end: int) -> dict[Key, float]:
    """How much running sums grew over the parts `start` to `end`; those that did not are left out."""
    gained = {
        key: last - (_latest(hours[: start + 1]) or 0.0)
        for key, hours in sums.items()
        if (last := _latest(hours[start + 1 : end + 1])) is not None
    }
    return {key: hours for key, hours in gained.items() if hours > 0}


def _within(limit: float, claims: Mapping[Key, float]) -> Mapping[Key, float]:
    """The claims, each cut by the same factor where together they exceed the limit."""
    claimed = fsum(claims.values())
    factor = min(limit / claimed, 1.0) if claimed > 0 else 1.0
    return {key: hours * factor for key, hours in claims.items() if hours * factor > 0}


def _latest(hours: Sequence[float | None]) -> float | None:
    """The last value that is known."""
    return next((value for value in reversed(hours) if value is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The accounts of a stretch of time."""

    accounts: tuple[Account, ...]

    @property
    def total(self) -> Balance:
        return total(one.balance for one in self.accounts)

    @property
    def unexplained(self) -> float:
        """Lost GPU-hours that no finding accounts for, of all jobs."""
        return fsum(one.unexplained for one in self.accounts)

    def causes(self) -> Mapping[Cause, float]:
        """Lost GPU-hours by cause, the largest first."""
        sums: dict[Cause, list[float]] = defaultdict(list)
        for one in self.accounts:
            for cause, hours in one.causes.items():
                sums[cause].append(hours)
        totals = {cause: fsum(hours) for cause, hours in sums.items()}
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def stages(self) -> Mapping[Stage, float]:
        """Lost GPU-hours by stage, in the order of a job's life."""
        return {stage: hours for stage in Stage if (hours := fsum(one.stages.get(stage, 0.0) for one in self.accounts))}

    @property
    def unstaged(self) -> float:
        """Lost GPU-hours whose stage is not known, of all jobs."""
        return fsum(one.unstaged for one in self.accounts)

    def by(self, dimension: Dimension) -> Mapping[str, tuple[Account, ...]]:
        """The accounts by a dimension's value, the value that lost most first; "" where it is not known."""
        groups: dict[str, list[Account]] = defaultdict(list)
        for one in self.accounts:
            groups[_value(one.identity, dimension)].append(one)
        ordered = sorted(groups.items(), key=lambda item: (-fsum(one.balance.lost for one in item[1]), item[0]))
        return {value: tuple(accounts) for value, accounts in ordered}

    def top(self, number: int) -> tuple[Account, ...]:
        """The jobs that lost most, the greatest loss first; those that lost nothing are not among them."""
        losers = (one for one in self.accounts if one.balance.lost > 0)
        order = sorted(losers, key=lambda one: (-one.balance.lost, one.identity.namespace, one.identity.name))
        return tuple(order[:number])


def _value(identity: JobIdentity, dimension: Dimension) -> str:
    match dimension:
        case Dimension.TEAM:
            return identity.team
        case Dimension.OWNER:
            return identity.owner
        case Dimension.NAMESPACE:
            return identity.namespace
        case Dimension.JOB_TYPE:
            return identity.job_type
        case Dimension.PRODUCT:
            return identity.product


__all__ = ["Account", "Dimension", "Ledger", "account"]
