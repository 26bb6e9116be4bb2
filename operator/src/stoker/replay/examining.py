"""The causes of a job's idleness as they were known at a moment of the past."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis.job import diagnose
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Action, Category
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim import NOBODY, Presence
from stoker.reclaim.cpu_presence import by_cpus
from stoker.telemetry.screen import MIN_STEP, MetricsUnavailable, step_for
from stoker.telemetry.series import JobFacts, JobSeries

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What was known of a job at a moment: its findings, and whether a person was at work in it."""

    findings: tuple[Finding, ...] = ()
    presence: Presence = NOBODY


class Examiner(Protocol):
    """Says what was known of a job."""

    async def examine(self, facts: JobFacts, policy: EffectivePolicy, window: timedelta, now: datetime) -> Examined:
        """What an examination would have found at `now`; nothing where it could not be made. `window` is how long the
        job must be idle.
        """
        ...


class SeriesSource(Protocol):
    """Reads a job's series up to a time."""

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """As models.screen.MetricsSource."""
        ...


class SeriesExaminer:
    """Examines the series that there were at the time, with the step that the controller would have asked for."""

    def __init__(self, source: SeriesSource) -> None:
        self._source = source
        self.failed = 0
        """How many examinations could not be made."""

    async def examine(self, facts: JobFacts, policy: EffectivePolicy, window: timedelta, now: datetime) -> Examined:
        """What the metrics say; what the job's manifest said is not known any more."""
        starts = [pod.started_at for pod in (*facts.pods, *facts.former_pods) if pod.started_at is not None]
        if not starts:
            return Examined()
        try:
            findings = await self._findings(facts, policy, min(starts), now)
            if any(one.category is Category.INTERACTIVE_JOB for one in findings):
                return Examined(findings=findings, presence=await self._presence(facts, window, now))
        except MetricsUnavailable as unavailable:
            LOG.warning("%s/%s: not examined: %s", facts.namespace, facts.name, unavailable.message)
            self.failed += 1
            return Examined()
        return Examined(findings=findings)

    async def _findings(
        self, facts: JobFacts, policy: EffectivePolicy, start: datetime, now: datetime
    ) -> tuple[Finding, ...]:
        series = await self._source.series(facts, start, now, step_for(now - start))
        off = frozenset(rule.name for rule in diagnosis_rules() if policy.action(rule.name, Action.WARN) is Action.OFF)
        found = await asyncio.to_thread(diagnose, facts, series, (), policy.thresholds, now, off=off)
        return found.findings

    async def _presence(self, facts: JobFacts, window: timedelta, now: datetime) -> Presence:
        """Whether the CPUs of a job that waits for a person did more than wait."""
        series = await self._source.series(facts, now - window, now, MIN_STEP)
        return by_cpus(series, (pod.name for pod in facts.pods), window=window, now=now)


__all__ = ["Examined", "Examiner", "SeriesExaminer", "SeriesSource"]
