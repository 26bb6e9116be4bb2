"""The rule that CONTRIBUTING shows to newcomers works as it stands, with its cases."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import stoker.lint.rules
from stoker.api.dljob import DLJob
from stoker.catalogue import admission_rules
from stoker.catalogue.pages import FAMILIES, next_id, page
from stoker.findings.rule import Rule
from stoker.lint.kinds.dljob import read_dljob
from stoker.lint.submission import Submission
from tests.rules import fixtures
from tests.rules.fixtures import Case

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
NAME = "no-loader-workers"


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    return str(text)


def with_free_id(shown: re.Match[str]) -> str:
    """The id that the reader takes in its place, once a rule has the one that is shown."""
    return f'id="{next_id(shown[1], admission_rules())}"'


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule[Submission]]:
    """The rule, written where the page says: beside all others."""
    (path,) = re.findall(r"to `operator/src/stoker/lint/rules/(\w+\.py)`", CONTRIBUTING)
    (tmp_path / path).write_text(re.sub(r'id="(A\d)\d\d"', with_free_id, block("python")))
    monkeypatch.setattr(stoker.lint.rules, "__path__", [*stoker.lint.rules.__path__, str(tmp_path)])
    admission_rules.cache_clear()
    yield next(rule for rule in admission_rules() if rule.name == NAME)
    admission_rules.cache_clear()
    del sys.modules[f"stoker.lint.rules.{NAME.replace('-', '_')}"]


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    (path,) = re.findall(r"to `tests/rules/(admission/[\w-]+\.yaml)`", CONTRIBUTING)
    (tmp_path / "admission").mkdir()
    (tmp_path / path).write_text(block("yaml"))
    monkeypatch.setattr(fixtures, "HERE", tmp_path)
    return fixtures.cases("admission")


def test_the_shown_rule_reports_its_bad_cases_and_no_good_one(rule: Rule[Submission], cases: list[Case]) -> None:
    names = [case.name for case in cases]
    assert sum(name.startswith("bad_") for name in names) >= 2
    assert sum(name.startswith("good_") for name in names) >= 3
    assert "good_undecidable" in names
    for case in cases:
        found = list(rule.findings(read_dljob(DLJob.model_validate(yaml.safe_load(case.manifest)))))
        assert len(found) == case.name.startswith("bad_"), case


def test_the_shown_rule_has_an_id_of_a_family_and_a_page(rule: Rule[Submission]) -> None:
    assert rule.id[:2] in FAMILIES
    assert page(rule).startswith(f"# {NAME}\n")


def test_every_file_and_target_that_the_page_names_is_there() -> None:
    prose = re.sub(r"^```(?:python|yaml)\n.*?^```", "", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE)
    paths = set(re.findall(r"(?<![\w/.-])((?:[\w-]+/)+[\w-]+\.(?:py|sh|md))", prose))
    new = {f"operator/src/stoker/lint/rules/{NAME.replace('-', '_')}.py"}
    assert [
        path for path in paths - new if not any((top / path).exists() for top in (ROOT, ROOT / "operator/src/stoker"))
    ] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", prose)) <= targets
