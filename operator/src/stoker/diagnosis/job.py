"""The diagnosis of one job."""

from collections.abc import Sequence
from datetime import datetime

from stoker.models.diagnosis import Diagnosis, DiagnosisThresholds
from stoker.models.finding import Finding
from stoker.models.series import JobFacts, JobSeries


def diagnose(
    facts: JobFacts,
    series: JobSeries,
    static_findings: Sequence[Finding],
    thresholds: DiagnosisThresholds,
    now: datetime,
) -> Diagnosis:
    """Conclude a job's utilization and the causes that its series show, the most idle GPU-hours first.

    A static finding of the same category as a runtime one is merged into it and raises its confidence; the others are
    not returned.
    """
    raise NotImplementedError
