"""Scripts as real jobs write them, in our own words, with the commands that they run."""

from pathlib import Path

import pytest
import yaml

from tests.subjects.summary import summary

SCRIPTS = Path(__file__).parent / "scripts"
EXPECTED: dict[str, list[str]] = yaml.safe_load((SCRIPTS / "expected.yaml").read_text())


def test_every_script_has_an_expectation() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.sh")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_script_runs_what_it_says(name: str) -> None:
    assert summary((SCRIPTS / f"{name}.sh").read_bytes().decode()) == EXPECTED[name]
