"""The diagnosis of one job."""

import logging
from collections.abc import Container, Sequence
from datetime import datetime

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis.merge import Claimed, merge
from stoker.diagnosis.rest import idle_since
from stoker.diagnosis.utilization import utilization
from stoker.models.diagnosis import MAX_ADVICE, Advice, Diagnosis, DiagnosisThresholds
from stoker.models.finding import Finding
from stoker.models.series import JobFacts, JobSeries
from stoker.models.vocabulary import Severity, UnknownReason
from stoker.subjects.examination import Claim, Examination, examine

LOG = logging.getLogger(__name__)


def diagnose(
    facts: JobFacts,
    series: JobSeries,
    static_findings: Sequence[Finding],
    thresholds: DiagnosisThresholds,
    now: datetime,
    *,
    off: Container[str] = (),
) -> Diagnosis:
    """Conclude a job's utilization and its causes, the most idle GPU-hours first.

    `findings` holds all that stands of the job: those that its series show, joined with the static ones of the same
    category (with a higher confidence), then the static ones that the series don't speak of. `unknown` says why the
    series show nothing; of a partial answer nothing is concluded but the utilization's bounds. `off` names the rules
    that a policy switches off: they don't claim GPU time from the others either.
    """
    exam = examine(facts, series, thresholds, now)
    used, unknown = utilization(exam), _unknown(exam)
    if not series.complete or not exam.known_at_all:
        return Diagnosis(utilization=used, unknown=unknown, findings=tuple(static_findings))
    claims = _claims(exam, off)
    # Advice explains no lost time: it must not take any from a cause.
    causes = [claimed for claimed in claims if claimed.finding.severity is not Severity.ADVICE]
    hints = [claimed.finding for claimed in claims if claimed.finding.severity is Severity.ADVICE]
    return Diagnosis(
        utilization=used,
        unknown=unknown,
        findings=merge(exam, causes, static_findings),
        advice=tuple(map(_advice, hints))[:MAX_ADVICE],
        idle_since=idle_since(exam),
    )


def _advice(finding: Finding) -> Advice:
    return Advice(rule=finding.rule, detail=finding.detail, fix=finding.fix, docs=finding.docs)


def _unknown(exam: Examination) -> UnknownReason | None:
    """Why the series don't say how the job does now; None where they do. An old gap only widens the utilization's
    bounds.
    """
    if not exam.series.complete:
        return UnknownReason.PARTIAL
    if not exam.known_at_all:
        return UnknownReason.NO_SAMPLES
    lately = exam.lately
    if not lately.any() or exam.sampled(lately):
        return None
    if not any((device.known & lately).any() for device in exam.devices):
        return UnknownReason.STALE
    return UnknownReason.PARTIAL if exam.every_gpu_seen else UnknownReason.NO_SAMPLES


def _claims(exam: Examination, off: Container[str]) -> list[Claimed]:
    """What each rule reports. A rule that fails is a fault of ours: it is logged, and the others stand."""
    claimed: list[Claimed] = []
    for rule in diagnosis_rules():
        if rule.name in off:
            continue
        try:
            problems = list(rule.check(exam))
        except Exception:
            LOG.exception("rule %s failed on %s/%s", rule.name, exam.facts.namespace, exam.facts.name)
            continue
        for problem in problems:
            if not isinstance(problem, Claim):
                raise TypeError(f"rule {rule.name} reports a problem that claims no GPU time")
            claimed.append(Claimed(finding=rule.sign(problem), claim=problem))
    return claimed
