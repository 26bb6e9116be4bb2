"""The diagnosis of one job."""

import logging
from collections.abc import Container, Iterable, Sequence
from datetime import datetime

import numpy as np

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis.idle_since import idle_since
from stoker.diagnosis.merge import Claimed, merge
from stoker.diagnosis.series.examination import Claim, Examination, examine
from stoker.diagnosis.series.person import frequent_bursts
from stoker.diagnosis.series.requests import waits_for_work
from stoker.diagnosis.series.turns import turns
from stoker.diagnosis.utilization import utilization
from stoker.findings.diagnosis import Advice, Diagnosis, DiagnosisThresholds
from stoker.findings.finding import MAX_ADVICE, Finding
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, Severity, UnknownReason
from stoker.telemetry.series import JobFacts, JobSeries

INSIDE_TRAINING = frozenset(
    {
        Category.IMPROPER_BATCH_SIZE,
        Category.INSUFFICIENT_GPU_MEMORY,
        Category.MODEL_CHECKPOINTING,
        Category.INEFFICIENT_HOST_GPU_TRANSFER,
        Category.DATA_PREPROCESSING,
        Category.REMOTE_DATA_READ,
        Category.INTERMEDIATE_RESULT_UPLOAD,
        Category.DATA_EXCHANGE,
    }
)
"""Causes by which training uses its GPUs less than it could."""
MUCH_OF_TRAINING = 0.2
"""Share of the active time that a cause takes to be a finding in a job that is not low. Chosen because ordinary
checkpoints and validations take less.
"""
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
    series show nothing; of a partial answer nothing is concluded but the utilization's bounds and what the facts alone
    tell. A cause that takes little of the training of a job that is not low is advice. `off` names the rules that a
    policy switches off: they don't claim GPU time from the others either.
    """
    exam = examine(facts, series, thresholds, now)
    told = series.complete and exam.known_at_all
    rules = [rule for rule in diagnosis_rules() if rule.name not in off and (told or rule.without_samples)]
    # Advice explains no lost time: it must not take any from a cause.
    claims = _claims(exam, [rule for rule in rules if rule.severity is not Severity.ADVICE])
    causes = [one for one in claims if not _is_hint(exam, one)]
    hints = [one for one in claims if _is_hint(exam, one)]
    hints += _claims(exam, [rule for rule in rules if rule.severity is Severity.ADVICE])
    return Diagnosis(
        utilization=utilization(exam),
        unknown=_unknown(exam),
        gap=_gap(exam),
        findings=merge(exam, causes, static_findings),
        advice=tuple(_advice(hint.finding) for hint in hints)[:MAX_ADVICE],
        idle_since=idle_since(exam) if told else None,
    )


def _is_hint(exam: Examination, claimed: Claimed) -> bool:
    """Whether a cause is only advice: it lies inside the training of a job that is not low, and is only possible or
    takes little of the time. What takes much of it stays a finding: the GPUs of peers that wait for one rank spin, and
    their utilization is not low. In a job that waits for work or for a person, or whose GPUs work by turns, the GPUs
    wait for that.
    """
    if claimed.finding.category not in INSIDE_TRAINING:
        return False
    if waits_for_work(exam) or frequent_bursts(exam) or turns(exam) is not None:
        return True
    if not exam.is_not_low:
        return False
    taken = claimed.claim.explains.any(axis=0)
    if (taken & ~exam.active).any():
        return False  # the job's start or its end
    little = taken.sum() < MUCH_OF_TRAINING * exam.active.sum()
    return claimed.finding.confidence is Confidence.POSSIBLE or bool(little)


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
    if any(pod.uncounted_gpus is not None for pod in exam.facts.pods):
        return UnknownReason.UNCOUNTED_GPUS
    lately = exam.lately
    if not lately.any() or exam.sampled(lately):
        return None
    if not any((device.known & lately).any() for device in exam.devices):
        return UnknownReason.STALE
    return UnknownReason.PARTIAL if exam.every_gpu_seen else UnknownReason.NO_SAMPLES


def _gap(exam: Examination) -> tuple[datetime, datetime] | None:
    missing = np.flatnonzero((exam.alive & ~(exam.busy | exam.idle) & exam.lately).any(axis=0))
    return (exam.time(int(missing[0])), exam.time(int(missing[-1]) + 1)) if len(missing) else None


def _claims(exam: Examination, rules: Iterable[Rule[Examination]]) -> list[Claimed]:
    """What each rule reports. A rule that fails is a fault of ours: it is logged, and the others stand."""
    claimed: list[Claimed] = []
    for rule in rules:
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
