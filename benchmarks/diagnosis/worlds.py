"""The simulators whose jobs the benchmark plays, and which of their seeds are for tuning and which for reporting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import simulator_b
from simulator import CASES, Tier, record, simulate
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category
from stoker.telemetry.series import JobFacts, JobSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedJob:
    """A simulated job as the benchmark sees it.

    truth: its causes. acceptable: of an ambiguous job all causes that its metrics fit, else empty. recorded: its facts
    and series as a cluster of a tier has them, and the time at which they were read.
    """

    truth: frozenset[Category]
    acceptable: frozenset[Category]
    static_findings: Sequence[Finding]
    recorded: Callable[[Tier], tuple[JobFacts, JobSeries, datetime]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One simulator.

    cases: the names of its jobs. play: the job of a case and a seed. tuning: seeds that thresholds may be tuned on.
    reporting: seeds that accuracy is reported on; which of their cases fail is not shown.
    """

    cases: tuple[str, ...]
    play: Callable[[str, int], PlayedJob]
    tuning: range
    reporting: range


def _play_a(case: str, seed: int) -> PlayedJob:
    job = simulate(case, seed)
    return PlayedJob(
        truth=job.truth,
        acceptable=CASES[case].acceptable,
        static_findings=job.static_findings,
        recorded=lambda tier: record(job, tier),
    )


def _play_b(case: str, seed: int) -> PlayedJob:
    job = simulator_b.draw(case, seed)
    return PlayedJob(
        truth=job.truth,
        acceptable=job.acceptable,
        static_findings=(),
        recorded=lambda tier: simulator_b.record(job, tier),
    )


WORLDS: dict[str, World] = {
    "a": World(cases=tuple(CASES), play=_play_a, tuning=range(1000, 1010), reporting=range(5000, 5010)),
    "b": World(
        cases=tuple(simulator_b.MECHANISMS),
        play=_play_b,
        tuning=range(91_000, 91_004),
        reporting=range(90_210, 90_214),  # four jobs of each mechanism: at most 400 in all
    ),
}
"""By the name that `--world` has."""
