"""The causes of a job's idleness as they were known at a moment of the past."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Protocol

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis import diagnose
from stoker.models.finding import Finding
from stoker.models.policy import EffectivePolicy
from stoker.models.screen import MetricsUnavailable, step_for
from stoker.models.series import JobFacts, JobSeries
from stoker.models.vocabulary import Action

LOG = logging.getLogger(__name__)


class Examiner(Protocol):
    """Says what was known of a job."""

    async def findings(self, facts: JobFacts, policy: EffectivePolicy, now: datetime) -> tuple[Finding, ...]:
        """What an examination would have found at `now`; nothing where it could not be made."""
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
        self.examinations = 0
        self.failed = 0

    async def findings(self, facts: JobFacts, policy: EffectivePolicy, now: datetime) -> tuple[Finding, ...]:
        """What the metrics say; what the job's manifest said is not known any more."""
        starts = [pod.started_at for pod in (*facts.pods, *facts.former_pods) if pod.started_at is not None]
        if not starts:
            return ()
        self.examinations += 1
        start = min(starts)
        try:
            series = await self._source.series(facts, start, now, step_for(now - start))
        except MetricsUnavailable as unavailable:
            LOG.warning("%s/%s: not examined: %s", facts.namespace, facts.name, unavailable.message)
            self.failed += 1
            return ()
        off = frozenset(rule.name for rule in diagnosis_rules() if policy.action(rule.name, Action.WARN) is Action.OFF)
        found = await asyncio.to_thread(diagnose, facts, series, (), policy.thresholds, now, off=off)
        return found.findings


__all__ = ["Examiner", "SeriesExaminer", "SeriesSource"]
