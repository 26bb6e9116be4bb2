"""Every diagnosis rule on its fixtures: silent just before its threshold, exact words at it, silent on look-alikes."""

import pytest

from stoker.catalogue import diagnosis_rules
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.series.examination import examine
from stoker.findings.diagnosis import Advice
from stoker.findings.finding import Finding
from tests.diagnosis.recording import Recording, Thresholds, from_dict
from tests.rules import fixtures
from tests.rules.fixtures import Case, cases

BAD = cases("diagnosis", "bad_")
GOOD = cases("diagnosis", "good_")
NAMES = [rule.name for rule in diagnosis_rules()]


def found(recording: Recording, steps: int) -> list[Finding | Advice]:
    """All that is said of the job after so many steps, whichever rule says it."""
    facts, series, now = recording.at(steps)
    diagnosis = diagnose(facts, series, (), Thresholds(), now)
    return [*diagnosis.findings, *diagnosis.advice]


def messages(rule: str, recording: Recording, steps: int) -> list[str]:
    """What one rule says by itself: no other has a say in it."""
    facts, series, now = recording.at(steps)
    exam = examine(facts, series, Thresholds(), now)
    checked = next(one for one in diagnosis_rules() if one.name == rule)
    return [problem.detail for problem in checked.check(exam)]


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_rule_is_silent_just_before_its_threshold_and_speaks_at_it(case: Case) -> None:
    recording, rule = from_dict(case.document), case.rule
    assert recording.fires is not None, "a bad fixture says after how many steps the rule fires"
    assert {steps: words for steps in range(1, recording.fires) if (words := messages(rule, recording, steps))} == {}
    assert messages(rule, recording, recording.fires)


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_rule_is_silent_on_look_alikes_at_every_moment(case: Case) -> None:
    recording, rule = from_dict(case.document), case.rule
    spoken = {steps: words for steps in range(1, recording.length + 1) if (words := messages(rule, recording, steps))}
    assert spoken == {}


@pytest.mark.parametrize("case", BAD, ids=str)
def test_findings_are_worded_exactly(case: Case) -> None:
    """All that `diagnose` finds at the end of each bad case, whichever rule finds it."""
    recording = from_dict(case.document)
    text = "".join(f"{line}\n" for finding in found(recording, recording.length) for line in show(finding))
    if fixtures.WRITES:
        case.write_expected(text)
    else:
        assert text == case.expected, "EXPECT=write writes it: read it before you commit it"


@pytest.mark.parametrize("rule", NAMES)
def test_every_rule_has_fixtures_both_ways(rule: str) -> None:
    good = [case.name for case in GOOD if case.rule == rule]
    assert [case for case in BAD if case.rule == rule]
    assert good
    assert [name for name in good if name.startswith("good_undecidable")]


def test_every_file_of_fixtures_has_its_rule() -> None:
    assert {file.name for file in (fixtures.HERE / "diagnosis").iterdir()} == {f"{name}.yaml" for name in NAMES}


def show(finding: Finding | Advice) -> list[str]:
    if isinstance(finding, Advice):
        return [f"{finding.rule}: advice", f"  {finding.detail}", f"  {finding.fix}"]
    until = "" if finding.until is None else f"{finding.until:%H:%M}"
    alternatives = "".join(f", or {category}" for category in finding.alternatives)
    graded = f"{finding.category} ({finding.severity}, {finding.confidence}{alternatives})"
    return [
        f"{finding.rule}: {graded}, {finding.since:%H:%M}-{until}, {finding.gpu_hours_idle:.1f} GPU-hours",
        f"  {finding.detail}",
        f"  {finding.evidence}",
        f"  {finding.fix}",
    ]
