"""Every diagnosis rule on its fixtures: silent just before its threshold, exact words at it, silent on look-alikes."""

import os
from pathlib import Path

import pytest

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.series.examination import examine
from stoker.findings.diagnosis import Advice
from stoker.findings.finding import Finding
from tests.diagnosis.recording import Recording, Thresholds, load

FIXTURES = Path(__file__).parent / "diagnosis"
BAD = sorted(FIXTURES.glob("*/bad_*.yaml"))
GOOD = sorted(FIXTURES.glob("*/good_*.yaml"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def found(recording: Recording, steps: int) -> list[Finding | Advice]:
    """All that is said of the job after so many steps, whichever rule says it."""
    facts, series, now = recording.at(steps)
    diagnosis = diagnose(facts, series, (), Thresholds(), now)
    return [*diagnosis.findings, *diagnosis.advice]


def said(rule: str, recording: Recording, steps: int) -> list[str]:
    """What one rule says by itself: no other has a say in it."""
    facts, series, now = recording.at(steps)
    exam = examine(facts, series, Thresholds(), now)
    checked = next(one for one in diagnosis_rules() if one.name == rule)
    return [problem.detail for problem in checked.check(exam)]


@pytest.mark.parametrize("path", BAD, ids=name)
def test_a_rule_is_silent_just_before_its_threshold_and_speaks_at_it(path: Path) -> None:
    recording, rule = load(path), path.parent.name
    assert recording.fires is not None, "a bad fixture says after how many steps the rule fires"
    assert {steps: words for steps in range(1, recording.fires) if (words := said(rule, recording, steps))} == {}
    assert said(rule, recording, recording.fires)


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_a_rule_is_silent_on_look_alikes_at_every_moment(path: Path) -> None:
    recording, rule = load(path), path.parent.name
    spoken = {steps: words for steps in range(1, recording.length + 1) if (words := said(rule, recording, steps))}
    assert spoken == {}


@pytest.mark.parametrize("rule", [rule.name for rule in diagnosis_rules()])
def test_findings_are_worded_exactly(rule: str) -> None:
    """All that `diagnose` finds at the end of each bad fixture, whichever rule finds it."""
    lines: list[str] = []
    for path in sorted((FIXTURES / rule).glob("bad_*.yaml")):
        recording = load(path)
        lines += [path.name, *(line for finding in found(recording, recording.length) for line in show(finding)), ""]
    expected = FIXTURES / rule / "expected.txt"
    if os.environ.get("EXPECT") == "write":
        expected.write_text("\n".join(lines))
    assert "\n".join(lines) == expected.read_text(), "EXPECT=write writes it: read it before you commit it"


@pytest.mark.parametrize("rule", [rule.name for rule in diagnosis_rules()])
def test_every_rule_has_fixtures_both_ways(rule: str) -> None:
    assert list((FIXTURES / rule).glob("bad_*.yaml"))
    assert list((FIXTURES / rule).glob("good_*.yaml"))
    assert list((FIXTURES / rule).glob("good_undecidable_*.yaml"))


def show(finding: Finding | Advice) -> list[str]:
    if isinstance(finding, Advice):
        return [f"  {finding.rule}: advice", f"    {finding.detail}", f"    {finding.fix}"]
    until = "" if finding.until is None else f"{finding.until:%H:%M}"
    alternatives = "".join(f", or {category}" for category in finding.alternatives)
    graded = f"{finding.category} ({finding.severity}, {finding.confidence}{alternatives})"
    return [
        f"  {finding.rule}: {graded}, {finding.since:%H:%M}-{until}, {finding.gpu_hours_idle:.1f} GPU-hours",
        f"    {finding.detail}",
        f"    {finding.evidence}",
        f"    {finding.fix}",
    ]
