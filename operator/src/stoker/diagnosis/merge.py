"""From the rules' problems to a job's findings: no GPU time counted twice, source and series joined, the most costly
first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stoker.diagnosis.contradiction import is_refuted
from stoker.diagnosis.look_alikes import with_look_alikes
from stoker.diagnosis.series.examination import Claim, Examination
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Confidence, Severity

CONFIDENCES = (Confidence.POSSIBLE, Confidence.LIKELY, Confidence.CERTAIN)
SEVERITIES = (Severity.ADVICE, Severity.WARNING, Severity.ERROR)
STANDS_ALONE = 0.1
"""A weaker cause whose GPU time is explained by stronger ones to more than nine tenths is not reported beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A signed finding and the GPU time that it claims."""

    finding: Finding
    claim: Claim


def merge(exam: Examination, claimed: Iterable[Claimed], static_findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Join what the series show with what the source showed before the job ran.

    Each idle GPU-hour goes to one cause: the better supported first, then the one that explains more. A static finding
    of the same category joins a runtime one; one of a category that a runtime finding named as its alternative decides
    for that category. What remains of the static findings follows; those that the series refute do not.
    """
    static_findings = [static for static in static_findings if not is_refuted(exam, static)]
    joined = [
        (with_look_alikes(exam, _join(entry, static_findings), entry.claim.explains), entry.claim) for entry in claimed
    ]
    joined.sort(
        key=lambda pair: (-CONFIDENCES.index(pair[0].confidence), -exam.idle_hours(pair[1].explains), pair[0].rule)
    )

    free = np.ones((len(exam.devices), len(exam.series.times)), dtype=np.bool_)
    findings: list[Finding] = []
    for finding, claim in joined:
        hours = exam.idle_hours(claim.explains & free)
        if findings and hours < STANDS_ALONE * exam.idle_hours(claim.explains):
            continue
        free &= ~claim.explains
        findings.append(replace(finding, gpu_hours_idle=hours))
    findings.sort(key=lambda finding: (-(finding.gpu_hours_idle or 0.0), finding.rule))

    explained = {finding.category for finding in findings}
    return (*findings, *(static for static in static_findings if static.category not in explained))


def _join(entry: Claimed, static_findings: Sequence[Finding]) -> Finding:
    finding = entry.finding
    same = next((static for static in static_findings if static.category is finding.category), None)
    if same is None:
        same = next((static for static in static_findings if static.category in finding.alternatives), None)
    if same is None:
        return finding
    others = tuple(
        category
        for category in dict.fromkeys((finding.category, *finding.alternatives))
        if category is not same.category
    )
    return replace(
        finding,
        category=same.category,
        alternatives=() if same.category is finding.category else others,
        confidence=finding.confidence if entry.claim.stays_possible else _raised(finding.confidence),
        severity=max(finding.severity, same.severity, key=SEVERITIES.index),
        evidence="; ".join(text for text in (finding.evidence, same.detail) if text),
        fix=same.fix or finding.fix,
        location=same.location or finding.location,
        sources=tuple(dict.fromkeys((*same.sources, *finding.sources))),
        # What the source says holds as long as the job does, and happens again at each restart.
        until=same.until,
    )


def _raised(confidence: Confidence) -> Confidence:
    return CONFIDENCES[min(CONFIDENCES.index(confidence) + 1, len(CONFIDENCES) - 1)]
