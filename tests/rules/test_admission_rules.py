"""Every admission rule on its fixtures: exact words on the bad ones, silence on the good ones, which name their reason.

`EXPECT=write pytest tests/rules/test_admission_rules.py` writes expected.txt anew: read each
changed line before you commit it.
"""

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml

from stoker.api.dljob import DLJob
from stoker.api.policy import BUILT_IN, EffectivePolicy, UtilizationPolicy, resolve
from stoker.catalogue import admission_rules
from stoker.findings.finding import Finding
from stoker.findings.verdict import Verdict
from stoker.lint.kinds.pod_submission import submissions
from stoker.lint.review import review, review_submission

FIXTURES = Path(__file__).parent / "admission"
BAD = sorted(FIXTURES.glob("*/bad_*.yaml"))
GOOD = sorted(FIXTURES.glob("*/good_*.yaml"))
NAMES = [rule.name for rule in admission_rules()]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def verdict(path: Path) -> Verdict:
    document, judge = yaml.safe_load(path.read_text()), policy(path.parent / "policy.yaml")
    if document["kind"] == "DLJob":
        return review(DLJob.model_validate(document), judge, now=NOW)
    (submission,) = submissions(document)
    return review_submission(submission, judge, now=NOW)


def policy(path: Path) -> EffectivePolicy:
    """The policy beside the fixtures of a rule that needs one, as if it were the cluster's default."""
    if not path.exists():
        return BUILT_IN
    return resolve([UtilizationPolicy.model_validate(yaml.safe_load(path.read_text()))], "team", {})


@pytest.mark.parametrize("path", [*BAD, *GOOD], ids=name)
def test_every_rule_finishes(path: Path) -> None:
    assert verdict(path).unfinished == ()


@pytest.mark.parametrize("path", BAD, ids=name)
def test_a_rule_speaks_on_its_bad_fixtures(path: Path) -> None:
    assert path.parent.name in {finding.rule for finding in verdict(path).findings}


@pytest.mark.parametrize("path", GOOD, ids=name)
def test_a_rule_is_silent_on_its_good_fixtures(path: Path) -> None:
    assert path.parent.name not in {finding.rule for finding in verdict(path).findings}


@pytest.mark.parametrize("path", [path for path in GOOD if "undecidable" in path.stem], ids=name)
def test_what_cannot_be_decided_is_not_denied_by_any_rule(path: Path) -> None:
    own = {finding.rule for finding in verdict(path).denied}
    assert own <= {"image-invalid"}  # it decides what image-missing leaves open


@pytest.mark.parametrize("rule", NAMES)
def test_findings_are_worded_exactly(rule: str) -> None:
    """All that `review` says about each bad fixture: the rule's own words, and the names of the others that speak."""
    blocks = [show(path, rule) for path in BAD if path.parent.name == rule]
    text = "\n".join(blocks)
    expected = FIXTURES / rule / "expected.txt"
    if os.environ.get("EXPECT") == "write":
        expected.write_text(text)
    assert text == expected.read_text()


@pytest.mark.parametrize("rule", NAMES)
def test_every_rule_has_fixtures_both_ways(rule: str) -> None:
    """Several spellings of the fault, several reasons for silence, and what can't be decided among them."""
    files = FIXTURES / rule
    assert len(list(files.glob("bad_*.yaml"))) >= 2
    assert len(list(files.glob("good_*.yaml"))) >= 3
    assert list(files.glob("good_undecidable*.yaml"))


def test_every_fixture_directory_has_its_rule() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == set(NAMES)


def test_every_finding_is_a_single_line_with_a_change() -> None:
    findings = [finding for path in BAD for finding in verdict(path).findings]
    assert findings
    for finding in findings:
        for text in (finding.detail, finding.evidence, finding.fix):
            assert "\n" not in text
            assert "\t" not in text
        assert finding.detail.endswith(".")
        assert finding.fix


def show(path: Path, rule: str) -> str:
    judged = verdict(path)
    lines = [f"{path.name}: {judged.outcome}"]
    for finding in judged.findings:
        lines += own(finding) if finding.rule == rule else [f"  also {finding.rule} ({finding.confidence})"]
    return "\n".join([*lines, ""])


def own(finding: Finding) -> list[str]:
    place = finding.location
    assert place is not None
    column = "" if place.column is None else f":{place.column}"
    lines = [
        f"  {finding.rule} ({finding.severity}, {finding.confidence}) at {place}{column}",
        f"    {finding.detail}",
        f"    {finding.evidence}",
        f"    {finding.fix}",
    ]
    return lines + [f"    | {line}".rstrip() for line in (place.excerpt or "").splitlines()]
