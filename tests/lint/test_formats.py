"""What `stoker lint` prints in each of its formats."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft4Validator, Draft202012Validator

from stoker.cli import stoker
from stoker.findings.vocabulary import Action, Category, Confidence, Severity, Source
from stoker.lint.files.manifests import Region, parse
from stoker.lint.files.results import Entry, Report, Results
from stoker.lint.formats import FORMATS, Terminal
from stoker.lint.formats.text import render
from tests.rules.fixtures import cases

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BAD = {str(case): case.manifest for case in cases("admission", "bad_")}
WRONG = "examples/wrong/launcher-too-few.yaml"
OASIS = Draft4Validator(json.loads((HERE / "sarif/sarif-schema-2.1.0.json").read_text()))
JOB = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata:
  name: bert
  annotations:
    ignore.stoker.dev/image-unpinned: the registry's tags are immutable
spec:
  gpusPerNode: 8
  gpuCount: 8
  image: registry.example.com/nlp/bert:latest
  script: |
    torchrun --nproc_per_node=4 train.py
    sleep 3600  # stoker: ignore[trailing-slep]
"""
BROKEN = "kind: DLJob\nspec: [\n"
OTHER = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


def strict(schema: Any) -> Any:
    """The schema with nothing allowed but what it describes: what is printed is published."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items() if key != "$defs"}
    if "$ref" in closed or "$schema" in closed:  # where an object is used: its definition may be extended there
        closed["unevaluatedProperties"] = False
    definitions = {
        name: {key: strict(value) for key, value in one.items()} for name, one in schema.get("$defs", {}).items()
    }
    return {**closed, "$defs": definitions} if definitions else closed


def run(*arguments: str, given: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(stoker, ["lint", *arguments], input=given, env=environment)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with findings of all kinds, what is skipped, and what can't be read."""
    (tmp_path / "job.yaml").write_text(f"{OTHER}---\n{JOB}")
    (tmp_path / "broken.yaml").write_text(BROKEN)
    (tmp_path / "helm.yaml").write_text("kind: DLJob\nspec:\n  nodes: {{ .Values.nodes }}\n")
    return tmp_path


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The bad cases of all rules, each in a file."""
    folder = tmp_path_factory.mktemp("bad")
    for name, manifest in BAD.items():
        (folder / f"{name.replace('/', '-')}.yaml").write_text(manifest)
    return sorted(map(str, folder.iterdir()))


@pytest.fixture(scope="module")
def published() -> Draft202012Validator:
    schema = json.loads((ROOT / "docs/schemas/lint-v1.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(strict(schema))


def test_json_is_as_its_published_schema_says(published: Draft202012Validator, mixed: Path, bad: list[str]) -> None:
    for arguments in ([str(mixed)], bad, [str(ROOT / "examples")], ["missing.yaml"]):
        document = json.loads(run(*arguments, "--format", "json").stdout)
        published.validate(document)
    assert {finding["rule"] for file in document["files"] for finding in file["findings"]} == set()
    assert document["errors"] == [{"path": "missing.yaml", "line": None, "message": "No such file or directory"}]


def test_the_schema_knows_every_word_of_the_vocabulary() -> None:
    finding = json.loads((ROOT / "docs/schemas/lint-v1.json").read_text())["$defs"]["finding"]["properties"]
    assert finding["category"]["enum"] == [*Category, None]
    assert finding["severity"]["enum"] == [*Severity]
    assert finding["confidence"]["enum"] == [*Confidence]
    assert finding["sources"]["items"]["enum"] == [*Source]
    assert finding["action"]["enum"] == [action for action in Action if action is not Action.OFF]


@pytest.mark.parametrize("change", [("verdict", "no"), ("surprise", 1)])
def test_the_schema_refuses_what_is_not_published(published: Draft202012Validator, change: tuple[str, object]) -> None:
    document = json.loads(run("-", "--format", "json", given=JOB).stdout)
    published.validate(document)
    document["files"][0][change[0]] = change[1]
    assert not published.is_valid(document)


def test_json_tells_of_everything_that_was_given(mixed: Path) -> None:
    document = json.loads(run(str(mixed), "--format", "json").stdout)
    (file,) = document["files"]
    assert [finding["rule"] for finding in file["findings"]] == [
        "schema",
        "launcher-too-few",
        "trailing-sleep",
        "suppression",
    ]
    assert [(one["rule"], one["reason"]) for one in file["suppressed"]] == [
        ("image-unpinned", "the registry's tags are immutable")
    ]
    assert [(Path(one["path"]).name, one["kind"]) for one in document["skipped"]] == [
        ("helm.yaml", ""),
        ("job.yaml", "Service"),
    ]
    (error,) = document["errors"]
    assert (Path(error["path"]).name, error["line"]) == ("broken.yaml", 3)


@pytest.mark.parametrize("paths", [["mixed"], ["bad"], ["examples"], ["missing"]], ids=lambda paths: paths[0])
def test_sarif_is_as_its_standard_says(paths: list[str], mixed: Path, bad: list[str]) -> None:
    places = {"mixed": [str(mixed)], "bad": bad, "examples": [str(ROOT / "examples")]}
    document = json.loads(run(*places.get(paths[0], paths), "--format", "sarif").stdout)
    OASIS.validate(document)


def test_sarif_has_what_code_scanning_shows(mixed: Path) -> None:
    (report,) = json.loads(run(str(mixed), "--format", "sarif").stdout)["runs"]
    rules = report["tool"]["driver"]["rules"]
    results = {result["ruleId"]: result for result in report["results"]}
    assert {rule["id"] for rule in rules} == set(results)
    for name, result in results.items():
        assert rules[result["ruleIndex"]]["id"] == name
        assert rules[result["ruleIndex"]]["help"]["text"]
    few = results["launcher-too-few"]
    assert few["level"] == "error"
    assert few["message"]["text"].startswith('"--nproc_per_node=4" starts 4 processes on 8 GPUs.')
    place = few["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 16, "startColumn": 14, "endLine": 16, "endColumn": 32}
    assert results["trailing-sleep"]["level"] == "warning"
    assert results["suppression"]["level"] == "note"
    assert results["image-unpinned"]["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "the registry's tags are immutable"}
    ]
    assert "suppressions" not in few
    (invocation,) = report["invocations"]
    assert invocation["executionSuccessful"] is False
    said = [one["message"]["text"] for one in invocation["toolExecutionNotifications"]]
    assert any("not valid YAML" in text for text in said)


@pytest.mark.parametrize("name", [*list(BAD)[::5], WRONG])
def test_sarif_carries_the_computed_changes_as_replacements(name: str) -> None:
    """Applied by a reader, each gives a manifest in which the finding is gone."""
    text = (ROOT / WRONG).read_text() if name == WRONG else BAD[name]
    document = json.loads(run("-", "--format", "sarif", given=text).stdout)
    OASIS.validate(document)
    for result in document["runs"][0]["results"]:
        for fix in result.get("fixes", ()):
            (replacement,) = fix["artifactChanges"][0]["replacements"]
            region = replacement["deletedRegion"]
            offsets = [0]
            for line in text.splitlines(keepends=True):
                offsets.append(offsets[-1] + len(line))
            start = offsets[region["startLine"] - 1] + region["startColumn"] - 1
            end = offsets[region["endLine"] - 1] + region["endColumn"] - 1
            mended = text[:start] + replacement["insertedContent"]["text"] + text[end:]
            left = json.loads(run("-", "--format", "json", given=mended).stdout)["files"][0]["findings"]
            assert (result["ruleId"], result["message"]["text"]) not in [
                (one["rule"], f"{one['detail']} {one['fix']}") for one in left
            ]


def test_a_change_that_is_known_is_in_sarif() -> None:
    (report,) = json.loads(run("-", "--format", "sarif", given=JOB).stdout)["runs"]
    fixes = {result["ruleId"]: result.get("fixes") for result in report["results"]}
    assert fixes["launcher-too-few"][0]["artifactChanges"][0]["replacements"] == [
        {
            "deletedRegion": {"startLine": 12, "startColumn": 31, "endLine": 12, "endColumn": 32},
            "insertedContent": {"text": "8"},
        }
    ]


def test_sarif_names_files_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a job.yaml").write_text(JOB)
    for given in ("a job.yaml", str(tmp_path / "a job.yaml")):
        document = json.loads(run(given, "--format", "sarif").stdout)
        assert artifact(document) == {"uri": "a%20job.yaml"}
    document = json.loads(run("-", "--format", "sarif", given=JOB).stdout)
    OASIS.validate(document)
    assert artifact(document) == {"description": {"text": "standard input"}}


def artifact(document: dict[str, Any]) -> Any:
    return document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]


def test_github_commands_carry_place_rule_and_message(tmp_path: Path) -> None:
    path = tmp_path / "one,two: three%.yaml"
    path.write_text(JOB)
    lines = run(str(path), "--format", "github").stdout.splitlines()
    named = str(path).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    assert lines[1] == (
        f"::error file={named},line=12,endLine=12,col=14,endColumn=32,title=launcher-too-few::"
        '"--nproc_per_node=4" starts 4 processes on 8 GPUs.%0A'
        "Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4.%0A"
        "stoker rules show launcher-too-few"
    )
    assert [line.split(" ", 1)[0] for line in lines] == ["::error", "::error", "::warning", "::notice"]


def test_github_tells_of_unreadable_input_and_says_nothing_of_clean_jobs(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    result = run(str(tmp_path), "--format", "github")
    assert re.fullmatch(r"::error file=.*broken\.yaml,line=3,title=unreadable::not valid YAML: .*\n", result.stdout)
    assert run(str(ROOT / "examples/torchrun-two-nodes.yaml"), "--format", "github").stdout == ""


def test_no_command_of_a_manifest_reaches_github_or_the_terminal() -> None:
    """A text of a manifest that holds a workflow command, or what a terminal obeys, stays text."""
    hostile = JOB.replace("gpuCount: 8", '"a\\n::warning::b\\e[31m\\r": 8')
    github = run("-", "--format", "github", given=hostile).stdout
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in github.splitlines())
    text = run("-", given=hostile).stdout
    assert "\x1b" not in text
    assert "\\x1b[31m" in text


@pytest.mark.parametrize("form", FORMATS)
def test_a_lone_surrogate_is_written_as_its_escape(form: str) -> None:
    hostile = JOB.replace("gpuCount: 8", '"\\ud800": 8')
    result = run("-", "--format", form, given=hostile)
    assert result.exit_code in {1, 2}
    assert "Traceback" not in result.output
    if form in {"json", "sarif"}:
        json.loads(result.stdout)


@pytest.mark.parametrize("form", FORMATS)
def test_output_goes_to_a_file_as_it_would_be_printed(form: str, tmp_path: Path) -> None:
    target = tmp_path / "report"
    result = run("-", "--format", form, "--output", str(target), given=JOB)
    assert (result.exit_code, result.stdout) == (1, "")
    assert target.read_text() == run("-", "--format", form, given=JOB).stdout


def test_an_output_file_that_cannot_be_written_exits_with_2(tmp_path: Path) -> None:
    result = run("-", "--output", str(tmp_path / "no" / "report"), given=JOB)
    assert (result.exit_code, result.stderr) == (2, f"stoker: {tmp_path}/no/report: No such file or directory\n")


def drawn(line: str, column: int, end_column: int, *, width: int = 80) -> list[str]:
    """A source line and its marker, as they are drawn."""
    (manifest,) = parse("spec: {}", "a.yaml")
    manifest = replace(manifest, lines=[line])
    entry = Entry(
        rule="fault",
        category=Category.API_MISUSE,
        severity=Severity.WARNING,
        action=Action.WARN,
        detail="A fault.",
        field_path="spec",
        region=Region(1, column, 1, end_column),
        in_text=True,
    )
    text = render(Results(reports=[Report(manifest=manifest, entries=[entry])]), Terminal(width=width))
    return text.splitlines()[1:3]


def test_wide_characters_take_two_columns() -> None:
    assert drawn("日本: torchrun train.py", 5, 13) == ["1 | 日本: torchrun train.py", "  |       ^^^^^^^^"]
    assert drawn("a: 日本 x", 4, 6) == ["1 | a: 日本 x", "  |    ^^^^"]


def test_combining_characters_take_none() -> None:
    assert drawn("e\u0301: abc", 5, 8) == ["1 | e\u0301: abc", "  |    ^^^"]


def test_tabs_go_to_the_next_stop_in_the_line_and_its_marker() -> None:
    assert drawn("a: x\tbc", 6, 8) == ["1 | a: x    bc", "  |         ^^"]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("column,end_column", [(4, 8), (5_000, 5_006), (9_990, 10_000), (4, 10_000)])
def test_a_long_line_is_cut_around_the_marked_words(width: int, column: int, end_column: int) -> None:
    line = "a: " + "".join(str(number % 10) for number in range(9_997))
    source, marker = drawn(line, column, end_column, width=width)
    assert len(source) <= width
    assert len(marker) <= width
    start = marker.index("^")
    assert source[start] == line[column - 1]
    if end_column - column < 20:
        assert source[start : len(marker)] == line[column - 1 : end_column - 1]


@pytest.mark.parametrize(
    "environment,coloured",
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": ""}, False),
    ],
    ids=["pipe", "forced", "both", "empty"],
)
def test_colour_is_for_terminals_and_those_who_ask(environment: dict[str, str], coloured: bool) -> None:
    assert ("\x1b[" in run("-", given=JOB, **environment).stdout) is coloured


@pytest.mark.parametrize("environment,coloured", [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_colours_unless_it_says_no(environment: dict[str, str], coloured: bool, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    assert ("\x1b[" in on_a_terminal(["lint", str(tmp_path / "job.yaml")], environment)) is coloured


def on_a_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """What the command prints to a pseudo-terminal."""
    leader, follower = os.openpty()
    cleaned = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}}
    with subprocess.Popen(
        [sys.executable, "-m", "stoker", *arguments],
        stdout=follower,
        env={**cleaned, "TERM": "xterm", **environment},
    ) as process:
        os.close(follower)
        shown = b""
        try:
            while chunk := os.read(leader, 4096):
                shown += chunk
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(leader)
        process.wait()
    return shown.decode()
