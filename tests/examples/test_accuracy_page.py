"""The tests that docs/accuracy.md names exist, one that says each cause and one that refuses it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_, _, SECTION = (ROOT / "docs" / "accuracy.md").read_text().partition("## What is told apart")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in SECTION.partition("\n## ")[0].splitlines()
    if line.startswith("|") and "`" in line
]
CASE, FUNCTION = re.compile(r"([a-z0-9-]+)/((?:bad|good)_\w+)"), re.compile(r"(tests/\S+\.py)::(test_\w+)")


def test_the_page_has_its_table() -> None:
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_confusion_is_tested_both_ways(row: list[str]) -> None:
    _, says, refuses = row
    for cell, kind in ((says, "bad_"), (refuses, "good_")):
        names = re.findall(r"`([^`]+)`", cell)
        assert names
        for name in names:
            if (case := CASE.fullmatch(name)) is not None:
                assert case[2].startswith(kind)
                cases = (ROOT / "tests" / "rules" / "diagnosis" / f"{case[1]}.yaml").read_text()
                assert f"case: {case[2]}\n" in cases
            else:
                function = FUNCTION.fullmatch(name)
                assert function is not None, name
                assert f"def {function[2]}(" in (ROOT / function[1]).read_text()
