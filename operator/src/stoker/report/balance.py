"""GPU-hours and what became of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """GPU-hours by what became of them. The three add up to what was requested: a GPU-hour is in exactly one.

    used: the integral of the utilization, the study's measure of work (ICSE 2024, section 2). lost: sampled, and not
    used. unknown: held by a job and not sampled, which is neither used nor lost.
    """

    used: float = 0.0
    lost: float = 0.0
    unknown: float = 0.0

    @property
    def requested(self) -> float:
        """What the jobs held, whatever became of it."""
        return fsum((self.used, self.lost, self.unknown))

    @property
    def used_share(self) -> float | None:
        """Of what is known, the share that was used, 0..1; None where nothing is known."""
        known = self.used + self.lost
        return self.used / known if known > 0 else None

    @property
    def known_share(self) -> float | None:
        """Of what was requested, the share that was sampled, 0..1; None where nothing was requested."""
        return (self.used + self.lost) / self.requested if self.requested > 0 else None


def total(balances: Iterable[Balance]) -> Balance:
    """The sum of them all."""
    every = tuple(balances)
    return Balance(
        used=fsum(one.used for one in every),
        lost=fsum(one.lost for one in every),
        unknown=fsum(one.unknown for one in every),
    )


def settle(*, held: float, sampled: float, used: float) -> Balance:
    """The balance of one job in one stretch of time, from three measurements that need not agree.

    What was sampled was held, whatever the phase said: a terminating pod keeps its GPUs, and the operator may have been
    away. Of what was sampled at most all was used.
    """
    used = min(max(used, 0.0), max(sampled, 0.0))
    return Balance(used=used, lost=max(sampled, 0.0) - used, unknown=max(held - max(sampled, 0.0), 0.0))


__all__ = ["Balance", "settle", "total"]
