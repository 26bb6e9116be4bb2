"""Every admission rule on its fixtures: exact words on the bad ones, silence on the good ones, which name their reason.

`EXPECT=write pytest tests/rules/test_admission_rules.py` writes what is expected anew: read each changed
line before you commit it.
"""

from datetime import UTC, datetime
from functools import cache

import pytest
import yaml

from stoker.api.dljob import DLJob
from stoker.api.policy import UtilizationPolicy
from stoker.catalogue import admission_rules
from stoker.findings.finding import Finding
from stoker.findings.verdict import Verdict
from stoker.lint.kinds.registry import submissions
from stoker.lint.review import review, review_submission
from stoker.policy.effective import BUILT_IN, EffectivePolicy
from stoker.policy.resolution import resolve
from tests.rules import fixtures
from tests.rules.fixtures import Case, cases

BAD = cases("admission", "bad_")
GOOD = cases("admission", "good_")
NAMES = [rule.name for rule in admission_rules()]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@cache
def verdict(case: Case) -> Verdict:
    document, judge = yaml.safe_load(case.manifest), policy(case.rule)
    if document["kind"] == "DLJob":
        return review(DLJob.model_validate(document), judge, now=NOW)
    (submission,) = submissions(document)
    return review_submission(submission, judge, now=NOW)


def policy(rule: str) -> EffectivePolicy:
    """The policy by which a rule's cases are judged, as if it were the cluster's default."""
    text = fixtures.policy("admission", rule)
    if text is None:
        return BUILT_IN
    return resolve([UtilizationPolicy.model_validate(yaml.safe_load(text))], "team", {})


@pytest.mark.parametrize("case", [*BAD, *GOOD], ids=str)
def test_every_rule_finishes(case: Case) -> None:
    assert verdict(case).unfinished == ()


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_rule_speaks_on_its_bad_fixtures(case: Case) -> None:
    assert case.rule in {finding.rule for finding in verdict(case).findings}


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_rule_is_silent_on_its_good_fixtures(case: Case) -> None:
    assert case.rule not in {finding.rule for finding in verdict(case).findings}


@pytest.mark.parametrize("case", [case for case in GOOD if "undecidable" in case.name], ids=str)
def test_what_cannot_be_decided_is_not_denied_by_any_rule(case: Case) -> None:
    own = {finding.rule for finding in verdict(case).denied}
    assert own <= {"image-invalid"}  # it decides what image-missing leaves open


@pytest.mark.parametrize("case", BAD, ids=str)
def test_findings_are_worded_exactly(case: Case) -> None:
    """All that `review` says about each bad case: the rule's own words, and the names of the others that speak."""
    text = show(case)
    if fixtures.WRITES:
        case.write_expected(text)
    else:
        assert text == case.expected


@pytest.mark.parametrize("rule", NAMES)
def test_every_rule_has_fixtures_both_ways(rule: str) -> None:
    """Several spellings of the fault, several reasons for silence, and what can't be decided among them."""
    good = [case.name for case in GOOD if case.rule == rule]
    assert len([case for case in BAD if case.rule == rule]) >= 2
    assert len(good) >= 3
    assert [name for name in good if name.startswith("good_undecidable")]


def test_every_file_of_fixtures_has_its_rule() -> None:
    assert {file.name for file in (fixtures.HERE / "admission").iterdir()} == {f"{name}.yaml" for name in NAMES}


def test_every_finding_is_a_single_line_with_a_change() -> None:
    findings = [finding for case in BAD for finding in verdict(case).findings]
    assert findings
    for finding in findings:
        for text in (finding.detail, finding.evidence, finding.fix):
            assert "\n" not in text
            assert "\t" not in text
        assert finding.detail.endswith(".")
        assert finding.fix


def show(case: Case) -> str:
    judged = verdict(case)
    lines = [str(judged.outcome)]
    for finding in judged.findings:
        lines += own(finding) if finding.rule == case.rule else [f"also {finding.rule} ({finding.confidence})"]
    return "\n".join([*lines, ""])


def own(finding: Finding) -> list[str]:
    place = finding.location
    assert place is not None
    column = "" if place.column is None else f":{place.column}"
    said = [
        finding.detail,
        finding.evidence,
        finding.fix,
        *(f"| {line}" for line in (place.excerpt or "").splitlines()),
    ]
    return [
        f"{finding.rule} ({finding.severity}, {finding.confidence}) at {place}{column}",
        *(f"  {line}".rstrip() for line in said if line),
    ]
