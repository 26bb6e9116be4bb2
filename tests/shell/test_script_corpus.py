"""Scripts as real jobs write them, in our own words, with the commands that they run."""

from pathlib import Path

import pytest
import yaml

from stoker.shell.script import read_script
from tests.shell.summary import summary

SCRIPTS = Path(__file__).parent / "scripts"
EXPECTED: dict[str, list[str]] = yaml.safe_load((SCRIPTS / "expected.yaml").read_text())


def script(name: str) -> str:
    """The text of a script, line ends untouched."""
    return (SCRIPTS / f"{name}.sh").read_bytes().decode()


def test_every_script_has_an_expectation() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.sh")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_script_runs_what_it_says(name: str) -> None:
    assert summary(script(name)) == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_in_a_dead_branch_a_comment_or_an_uncalled_function_it_runs_nothing(name: str) -> None:
    source = script(name).replace("\r", "")
    commented = "".join(f"# {line}\n" for line in source.splitlines())
    for dead in (f"if false; then\n{source}\nfi", f"false && {{\n{source}\n}}", f"f() {{\n{source}\n}}", commented):
        assert read_script(dead).invocations == ()
    assert read_script(f"exit 0\n{source}").invocations == ()


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - {"heredoc_script", "heredoc_python", "echoes"}))
def test_written_to_a_file_it_runs_nothing_until_the_file_is_run(name: str) -> None:
    source = script(name).replace("\r", "")
    written = f"cat > /tmp/x.sh <<'STOP'\n{source}\nSTOP\n"
    assert [invocation.name for invocation in read_script(written).invocations] == ["cat"]
    if "$0" not in source and "nohup" not in source:
        assert summary(f"{written}bash /tmp/x.sh") == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_echoed_it_runs_nothing(name: str) -> None:
    source = script(name).replace("'", '"')
    assert {invocation.name for invocation in read_script(f"echo '{source}'").invocations} == {"echo"}
