"""The report as JSON, as a table and as a summary on the terminal; and the command around them."""

import csv
import io
import json
import shlex
import sys
from collections import defaultdict
from math import fsum
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator, FormatChecker

from stoker.adapters.terminal import Terminal
from stoker.cli import stoker
from stoker.findings.vocabulary import Category
from stoker.report import JobNotes, state
from stoker.report.formats import csv as table
from stoker.report.formats import json as published
from stoker.report.formats import page, text
from stoker.report.formats.words import CAUSES, change, spoken
from stoker.telemetry.usage import UsageRecord
from tests.report.recording import job_record, usage_record
from tests.report.week import FORMULA, HOSTILE, NOW, record, statement

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/schemas/report-v1.json").read_text())

# ---------------------------------------------------------------------------------------------------------------- JSON


def valid(document: dict[str, Any]) -> dict[str, Any]:
    Draft202012Validator(SCHEMA, format_checker=FormatChecker()).validate(document)
    return document


@pytest.mark.parametrize("watched", [1.0, 0.0])
def test_the_document_is_as_published(watched: float) -> None:
    document = valid(published.document(statement(watched=(watched,) * 28 + (1.0,) * 28), NOW))
    assert (document["totalBefore"] is None) == (watched == 0)


def test_a_period_without_jobs_has_a_document_whose_shares_are_null() -> None:
    total = valid(published.document(state(usage_record([])), NOW))["total"]
    assert (total["gpuHoursRequested"], total["averagePercent"], total["coveragePercent"]) == (0, None, None)


def test_the_schema_knows_every_field_and_every_category() -> None:
    document = published.document(statement(), NOW)
    assert set(document) == set(SCHEMA["properties"])
    jobs, rows = SCHEMA["$defs"]["job"]["allOf"], SCHEMA["$defs"]["rows"]["items"]["allOf"]
    balance = set(SCHEMA["$defs"]["balance"]["properties"])
    assert {key for job in document["jobs"] for key in job} == balance | set(jobs[1]["properties"])
    assert {key for row in document["teams"] for key in row} == balance | set(rows[1]["properties"])
    assert SCHEMA["$defs"]["category"]["enum"] == [category.value for category in Category]


def test_the_figures_of_the_document_add_up() -> None:
    document = published.document(statement(), NOW)
    total = document["total"]
    assert total["gpuHoursUsed"] + total["gpuHoursIdle"] + total["gpuHoursUnknown"] == pytest.approx(
        total["gpuHoursRequested"], abs=0.01
    )
    causes = fsum(line["gpuHoursIdle"] for line in document["causes"])
    assert causes + total["gpuHoursUnexplained"] == pytest.approx(total["gpuHoursIdle"], abs=0.05)
    for key in ("teams", "owners", "namespaces", "jobTypes", "gpuProducts", "jobs", "timeline"):
        idle = fsum(row["gpuHoursIdle"] for row in document[key])
        assert idle == pytest.approx(total["gpuHoursIdle"], abs=0.05), key


def test_a_job_that_the_cluster_knows_has_its_own_fix_and_the_others_their_rules() -> None:
    fixes = {
        (job["name"], cause["rule"]): cause["fix"]
        for job in published.document(statement(), NOW)["jobs"]
        for cause in job["causes"]
    }
    assert fixes["bert-large", "small-batch"] == "Raise --batch-size from 32 to 64."
    assert fixes["gpt-unreleased", "unreleased-job"] == "Let the job end with its last command."


# ----------------------------------------------------------------------------------------------------------------- CSV


def rows(source: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(source, newline="")))


def test_a_jobs_rows_add_up_to_what_it_requested() -> None:
    sums: dict[str, float] = defaultdict(float)
    for row in rows(table.render(statement())):
        sums[row["namespace"] + "/" + row["job"]] += float(row["gpuHours"])
    for job in published.document(statement(), NOW)["jobs"]:
        name = f"{job['namespace']}/{job['name'] or ''}"
        assert sums.pop(name) == pytest.approx(job["gpuHoursRequested"], abs=0.01)
    assert not sums


def test_each_cause_of_a_job_has_its_row() -> None:
    ranker = [row for row in rows(table.render(statement())) if row["job"] == "ranker"]
    assert [(row["state"], row["category"]) for row in ranker] == [
        ("used", ""),
        ("lost", "GPUOversubscription"),
        ("lost", "ModelCheckpointing"),
        ("lost", "(no finding)"),
        ("unknown", ""),
    ]


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", "\n=1", "\uff1d1", FORMULA])
def test_no_name_is_a_formula_to_a_spreadsheet(name: str) -> None:
    job = job_record("bert", gpus=1, start=28, end=56, utilization=0.5, team=name, owner=name)
    (row,) = (row for row in rows(table.render(state(usage_record([job])))) if row["state"] == "used")
    assert row["team"] == row["owner"] == f"'{name}"


def test_names_with_separators_and_quotes_stay_one_cell() -> None:
    job = job_record("bert", gpus=1, start=28, end=56, utilization=0.5, team='a,b;"c"', owner=HOSTILE)
    source = table.render(state(usage_record([job])))
    assert {(row["team"], row["owner"]) for row in rows(source)} == {('a,b;"c"', HOSTILE)}
    assert source.startswith("namespace,job,uid,")


# ---------------------------------------------------------------------------------------------------------------- text


def test_the_summary_says_the_total_the_causes_the_jobs_with_their_fix_the_teams_and_what_was_assumed() -> None:
    summary = text.render(statement(watched=(1.0,) * 40 + (0.5,) + (1.0,) * 15), Terminal(width=100))
    for line in (
        "All namespaces, Sat 14 Nov 2026, 00:00 to Sat 21 Nov 2026, 00:00 UTC (7 days)",
        "42 % of 8,160 GPU-hours were lost",
        "  lost          3,416 GPU-hours   42 %   +113 % from the previous period",
        "  ImproperBatchSize             1,150   34 %   batch too small, 1 job",
        "     1,325 of    1,920   research/bert-large",
        f"{text.INDENT}ImproperBatchSize: Raise --batch-size from 32 to 64.",
    ):
        assert line in summary.splitlines()
    assert "No GPU has samples for 3 h" in " ".join(summary.split())
    assert all(len(line) <= 100 for line in summary.splitlines())


def test_the_summary_obeys_no_name() -> None:
    """No control character of a name reaches the terminal; colours are ours alone, and none where none is wanted."""
    job = job_record("bert", gpus=8, start=28, end=56, utilization=0.5, team="\x1b[31mred\x07", namespace="\x1b]0;x")
    summary = text.render(state(usage_record([job])), Terminal(colour=False))
    assert all(line.isprintable() for line in summary.splitlines())


def test_a_terminal_without_blocks_gets_letters() -> None:
    summary = text.render(statement(), Terminal(unicode=False))
    assert "####" in summary
    assert "█" not in summary


# --------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "now, before, words",
    [
        (112, 100, "+12 %"),
        (88, 100, "\N{MINUS SIGN}12 %"),
        (100.2, 100, "as before"),
        (5, 0, "new"),
        (0, 0, ""),
        (5, None, ""),
        (2400, 100, "x24"),
    ],
)
def test_a_change_is_said_in_words_that_fit_its_size(now: float, before: float | None, words: str) -> None:
    assert change(now, before) == words


def test_every_category_has_plain_words() -> None:
    assert set(CAUSES) == set(Category)
    assert spoken(Category.INSUFFICIENT_GPU_MEMORY) == "Insufficient GPU memory"
    assert spoken(Category.NON_DL_JOB) == "Non DL job"
    assert spoken(Category.API_MISUSE) == "API misuse"


def test_findings_without_hours_stand_by_their_job_and_not_as_none() -> None:
    """What its manifest alone says of a job claims no GPU-hours."""
    job = job_record("left", gpus=8, start=28, end=56, utilization=0.0)
    uid = job.identity.uid
    assert uid is not None
    noted = state(usage_record([job]), notes={uid: JobNotes(fixes={"trailing-sleep": "Remove the sleep."})})
    bare = state(usage_record([job]), cluster_read=False)
    assert "trailing-sleep (no GPU-hours measured): Remove the sleep." in text.render(noted, Terminal())
    pages = [" ".join(page.render(one, NOW, rule_fixes={}).split()) for one in (noted, bare)]
    assert ["Remove the sleep." in one for one in pages] == [True, False]
    assert ["No finding claims these hours." in one for one in pages] == [False, True]


# ------------------------------------------------------------------------------------------------------------- command


def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Runs the command in a folder of its own, on the recorded week, without a cluster."""

    async def read(*_: object) -> UsageRecord:
        return record()

    monkeypatch.setattr("stoker.cli.report._read", read)
    monkeypatch.chdir(tmp_path)
    environment = {"KUBECONFIG": str(tmp_path / "none"), "COLUMNS": "100"}
    return CliRunner().invoke(stoker, ["report", "--prometheus", "http://prometheus", *arguments], env=environment)


@pytest.mark.parametrize(
    "name, start", [("page.html", "<!DOCTYPE html>"), ("table.csv", "namespace,job"), ("report.json", "{")]
)
def test_the_files_name_tells_the_format_and_the_summary_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: str
) -> None:
    result = report(tmp_path, monkeypatch, "--output", name)
    assert result.exit_code == 0, result.output
    (file,) = tmp_path.iterdir()
    assert file.name == name
    assert file.read_text().startswith(start)
    assert "42 % of 8,160 GPU-hours were lost" in result.stdout
    assert result.stdout.endswith(f"Written to {name}\n")


@pytest.mark.parametrize(
    "arguments, start",
    [([], "All namespaces"), (["--format", "html"], "<!DOCTYPE html>"), (["--format", "csv"], "namespace,job")],
)
def test_without_a_files_name_none_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], start: str
) -> None:
    result = report(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(start)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", [(), ("--output", "-")])
def test_to_standard_output_goes_the_report_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: tuple[str, ...]
) -> None:
    result = report(tmp_path, monkeypatch, "--format", "json", *output)
    assert valid(json.loads(result.stdout))["version"] == 1
    assert not list(tmp_path.iterdir())


def test_a_name_that_tells_no_format_needs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = report(tmp_path, monkeypatch, "--output", "report.pdf")
    assert result.exit_code == 2
    assert "report.pdf: unknown suffix" in result.stderr
    assert report(tmp_path, monkeypatch, "--output", "report.pdf", "--format", "csv").exit_code == 0


def test_without_a_cluster_the_rules_changes_are_shown_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = report(tmp_path, monkeypatch, "--format", "json", "--output", "-")
    keys = {one["key"] for one in json.loads(result.stdout)["assumptions"]}
    assert "noCluster" in keys
    assert result.stderr == ""


def test_a_cluster_that_was_asked_for_by_name_and_does_not_answer_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--format", "csv", "--kubeconfig", str(tmp_path / "none"))
    result = report(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 0
    assert "could not be read from the cluster" in result.stderr


def test_without_the_plotting_library_the_page_says_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = report(tmp_path, monkeypatch, "--format", "html")
    assert result.exit_code == 2
    assert "pip install jinja2 matplotlib" in result.stderr
    assert "missing: matplotlib" in result.stderr
    assert report(tmp_path, monkeypatch, "--format", "csv").exit_code == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--from", "-5m"], "at least 12 minutes"),
        (["--from", "-300d"], "at most 210 days"),
        (["--since", "300d"], "at most 210 days"),
        (["--from", "-1d", "--to", "-2d"], "can't be reported on"),
        (["--from", "yesterday"], "is not a time"),
        (["--format", "pdf"], "'pdf' is not one of"),
    ],
)
def test_what_cannot_be_reported_on_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    result = report(tmp_path, monkeypatch, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_a_file_that_cannot_be_written_is_an_error_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = report(tmp_path, monkeypatch, "--format", "csv", "--output", "nowhere/report.csv")
    assert result.exit_code == 2
    assert "nowhere/report.csv: No such file or directory" in result.stderr


# ---------------------------------------------------------------------------------------------------------------- docs


def test_the_recipe_of_the_page_is_a_cron_job_whose_command_line_the_command_takes() -> None:
    page = (ROOT / "docs/report.md").read_text()
    recipe = page.split("```yaml\n")[1].split("```")[0]
    job, account, role, binding = yaml.safe_load_all(recipe)
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    assert role["metadata"]["name"] == binding["roleRef"]["name"]
    (line,) = pod["containers"][0]["args"]
    program, name, *arguments = shlex.split(line)
    command = stoker.get_command(click.Context(stoker), name)
    assert program == "stoker"
    assert command is not None
    command.make_context(name, arguments)


def test_every_option_of_the_command_but_those_of_prometheus_and_the_cluster_is_on_its_page() -> None:
    page = (ROOT / "docs/report.md").read_text()
    command = stoker.get_command(click.Context(stoker), "report")
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    own = {option for option in options if not option.startswith("--prometheus-")}
    assert {option for option in own if f"`{option}" not in page and f"{option} " not in page} == set()
