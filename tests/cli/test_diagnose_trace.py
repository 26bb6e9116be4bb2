"""`stoker diagnose --trace FILE`, and docs/traces.md, which shows it."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from simulator.operation_trace import TraceShape, main, simulate_trace, write
from stoker.cli import stoker
from stoker.findings.vocabulary import Category
from stoker.telemetry.operations import REQUIRED, OperationType
from tests.lint.test_formats import strict

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/traces.md").read_text()
SCHEMA = json.loads((ROOT / "docs/schemas/diagnose-trace-v1.json").read_text())


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(stoker, ["diagnose", *arguments], env={"COLUMNS": "110", **environment})


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    file = tmp_path / "slow.csv"
    write(file, simulate_trace(TraceShape(replicas=2, stages=3, steps=5, slow={(1, 1): 1.5})))
    return file


def test_findings_are_told_with_the_exit_code(slow: Path) -> None:
    result = run("--trace", str(slow))
    assert result.exit_code == 1
    assert result.stderr == ""
    assert "warning[straggler] SlowWorker, likely: Rank 3 needs 1.5" in result.stdout
    assert "6 GPUs: 2 replicas of 3 pipeline stages; 5 steps of " in result.stdout


def test_equal_ranks_are_no_finding(tmp_path: Path) -> None:
    file = tmp_path / "equal.csv"
    write(file, simulate_trace(TraceShape(replicas=2, stages=2, steps=5)))
    result = run("--trace", str(file))
    assert result.exit_code == 0
    assert result.stdout.endswith("\n\n  no finding\n")


def test_a_trace_that_does_not_explain_its_steps_is_no_proof_of_health(tmp_path: Path) -> None:
    file = tmp_path / "loading.csv"
    write(file, simulate_trace(TraceShape(replicas=2, stages=2, steps=5, loading=0.2)))
    result = run("--trace", str(file))
    assert result.exit_code == 0
    assert "  note: The recorded operations explain " in result.stdout
    assert result.stdout.endswith("no finding: the trace does not show enough of its steps\n")


def test_json_is_as_published(slow: Path, tmp_path: Path) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    mixed = tmp_path / "mixed.csv"
    shape = TraceShape(replicas=2, stages=2, steps=5, sequences=0.5, stage_work=(1, 2), ranks_each=4)
    write(mixed, simulate_trace(shape))
    for file in (slow, mixed):
        result = run("--trace", str(file), "--format", "json")
        answer = json.loads(result.stdout)
        Draft202012Validator(strict(SCHEMA)).validate(answer)
        assert {finding["category"] for finding in answer["findings"]} == {Category.STRAGGLER}
        assert answer["gpuHoursRecoverable"] < answer["gpuHours"]
        for finding in answer["findings"]:
            assert 0 <= finding["recoverable"]["min"] <= finding["recoverable"]["max"] < answer["gpuHours"]
    assert [finding["cause"] for finding in answer["findings"]] == ["UnequalSequences", "UnequalStages"]
    assert answer["gpus"] == 16


@pytest.mark.parametrize(
    "others",
    [
        ["bert"],
        ["--jobs", "jobs.yaml"],
        ["-A"],
        ["--namespace", "nlp"],
        ["--prometheus", "http://prometheus"],
        ["--since", "2h"],
        ["--logs"],
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_trace_goes_with_nothing_else(slow: Path, others: list[str], first: bool) -> None:
    own = ["--trace", str(slow)]
    result = run(*own, *others) if first else run(*others, *own)
    assert result.exit_code == 2
    assert "--trace reads no cluster and no metrics: combine it with --format only." in result.stderr


def test_variables_of_other_commands_do_not_hinder_it(slow: Path) -> None:
    assert run("--trace", str(slow), STOKER_PROMETHEUS_URL="http://prometheus").exit_code == 1


def test_without_a_trace_prometheus_is_required() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Missing option '--prometheus'" in result.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_that_is_no_trace_is_named_with_what_is_wrong(tmp_path: Path, form: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("step,rank\n")
    result = run("--trace", str(file), "--format", form)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"stoker: {file}: has no column dp_rank")


def test_the_shown_answer_is_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"python -m simulator\.operation_trace (.*)\n", PAGE)
    main(command.split())
    answer = run("--trace", "trace.csv").stdout
    (shown,) = re.findall(r"```\n(trace\.csv\n.*?)```", PAGE, re.DOTALL)
    if os.environ.get("EXPECT") == "write":
        (ROOT / "docs/traces.md").write_text(PAGE.replace(f"```\n{shown}", f"```\n{answer}"))
        return
    assert shown == answer, "EXPECT=write pytest tests/cli/test_diagnose_trace.py writes the page"


def test_the_page_names_every_column_and_operation() -> None:
    assert [name for name in (*REQUIRED, *OperationType) if f"`{name}`" not in PAGE] == []
