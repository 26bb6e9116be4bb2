"""`stoker lint` as its users meet it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker.cli import stoker
from stoker.models.verdict import Verdict

WRONG = """\
apiVersion: stoker.dev/v1alpha1
kind: DLJob
metadata:
  name: bert
  namespace: nlp
spec:
  gpusPerNode: 8
  image: registry.example.com/nlp/bert:2026.11
  script: |
    set -e
    # four processes are enough
    torchrun --nproc_per_node=4 train.py
"""
RIGHT = WRONG.replace("--nproc_per_node=4 ", "")
DOUBTFUL = RIGHT.replace("bert:2026.11", "bert:latest")
HEAVY = {"kopf", "kubernetes", "numpy", "aiohttp", "prometheus_api_client"}
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(stoker, ["lint", *arguments], input=given)


def as_json(*arguments: str, given: str) -> dict[str, Any]:
    document = json.loads(run("-", "--format", "json", *arguments, given=given).stdout)
    assert isinstance(document, dict)
    return document


def test_a_clean_job_exits_with_0() -> None:
    result = run("-", given=RIGHT)
    assert (result.exit_code, result.stdout) == (0, "1 DLJob: 1 clean.\n")


def test_a_fault_is_shown_with_its_line_in_the_file_and_the_change() -> None:
    result = run("-", given=WRONG)
    assert result.exit_code == 1
    assert result.stdout == (
        '<stdin>:12:14: error[launcher-too-few] "--nproc_per_node=4" starts 4 processes on 8 GPUs.\n'
        "12 |     torchrun --nproc_per_node=4 train.py\n"
        "   |              ^^^^^^^^^^^^^^^^^^\n"
        "   = Change it to --nproc_per_node=8, or set spec.gpusPerNode: 4.\n"
        "   = https://stoker.dev/rules/launcher-too-few\n"
        "\n"
        "1 DLJob: 1 denied.\n"
    )


def test_json_has_the_published_shape() -> None:
    document = as_json(given=f"{POD}---\n{WRONG}")
    assert document["version"] == 1
    (file,) = document["files"]
    (finding,) = file.pop("findings")
    assert file == {
        "path": "<stdin>",
        "document": 1,
        "kind": "DLJob",
        "namespace": "nlp",
        "name": "bert",
        "verdict": "deny",
        "suppressed": [],
        "unfinished": [],
    }
    assert finding.pop("location") == {
        "file": "<stdin>",
        "fieldPath": "spec.script",
        "line": 16,
        "column": 14,
        "endLine": 16,
        "endColumn": 32,
        "scriptLine": 3,
    }
    assert finding.pop("fixable") in {None, "safe", "unsafe"}
    assert finding.pop("detail") == '"--nproc_per_node=4" starts 4 processes on 8 GPUs.'
    assert finding.pop("evidence")
    assert finding.pop("fix").startswith("Change it to --nproc_per_node=8")
    assert finding == {
        "rule": "launcher-too-few",
        "category": "GPUOversubscription",
        "severity": "Error",
        "confidence": "Certain",
        "action": "Deny",
        "docs": "https://stoker.dev/rules/launcher-too-few",
        "sources": ["Script", "Manifest"],
    }


@pytest.mark.parametrize(
    "given,level,code",
    [
        (WRONG, "deny", 1),
        (DOUBTFUL, "deny", 0),
        (DOUBTFUL, "warn", 1),
        (RIGHT, "advice", 0),
    ],
    ids=["denied", "warned-deny", "warned", "clean"],
)
def test_fail_on_says_from_which_level_the_exit_code_is_1(given: str, level: str, code: int) -> None:
    assert run("-", "--fail-on", level, given=given).exit_code == code


def test_other_kinds_are_listed_as_skipped() -> None:
    result = run("-", given=f"{POD}---\n{RIGHT}---\nreplicas: 3\n")
    assert result.exit_code == 0
    assert "<stdin>:1: skipped the Pod web" in result.stdout
    assert "skipped a document that is no Kubernetes object" in result.stdout
    assert result.stdout.endswith("1 DLJob: 1 clean; 2 other documents skipped.\n")


def test_a_dljob_of_another_project_is_skipped() -> None:
    assert "skipped the DLJob bert" in run("-", given=RIGHT.replace("stoker.dev/", "example.org/")).stdout


@pytest.mark.parametrize(
    "change,field_path,line,words",
    [
        (("gpusPerNode: 8", "gpusPerNode: 65"), "spec.gpusPerNode", 7, "less than or equal to 64"),
        (("gpusPerNode: 8", 'gpusPerNode: "8"'), "spec.gpusPerNode", 7, "integer"),
        (("gpusPerNode: 8", "gpusPerNodes: 8"), "spec.gpusPerNode", 6, "required"),
        (("gpusPerNode: 8", "gpusPerNode: 8\n  gpuCount: 8"), "spec.gpuCount", 8, "unknown field"),
        (("script: |", "command: [sh]\n  script: |"), "spec.command", 9, "excludes"),
        (("name: bert", "name: Bert_1"), "metadata.name", 4, "lower-case letters"),
        (("apiVersion: stoker.dev/v1alpha1", "apiVersion: stoker.dev/v2"), "apiVersion", 1, "stoker.dev/v1alpha1"),
        (("  image: registry.example.com/nlp/bert:2026.11\n", ""), "spec.image", 6, "required"),
    ],
    ids=["bound", "type", "missing", "unknown", "excludes", "name", "version", "image"],
)
def test_what_breaks_the_schema_is_an_error_at_its_field(
    change: tuple[str, str], field_path: str, line: int, words: str
) -> None:
    document = as_json(given=RIGHT.replace(*change))
    (file,) = document["files"]
    assert file["verdict"] == "deny"
    places = {(f["location"]["fieldPath"], f["location"]["line"]): f for f in file["findings"] if f["rule"] == "schema"}
    found = places[field_path, line]
    assert words in found["detail"]
    assert (found["severity"], found["confidence"]) == ("Error", "Certain")


def test_an_unknown_field_does_not_hide_the_other_findings() -> None:
    document = as_json(given=WRONG.replace("gpusPerNode: 8", "gpusPerNode: 8\n  gpuCount: 8"))
    assert {finding["rule"] for finding in document["files"][0]["findings"]} == {"schema", "launcher-too-few"}


def test_what_the_server_writes_into_an_object_is_no_fault() -> None:
    """`kubectl get -o yaml` can be linted."""
    stored = RIGHT.replace("  namespace: nlp", "  namespace: nlp\n  managedFields: []\n  selfLink: x") + (
        "status:\n  phase: Running\n  later: field\n"
    )
    assert run("-", given=stored).exit_code == 0


def test_unparsable_input_exits_with_2_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: DLJob\nspec: [\n")
    (tmp_path / "good.yaml").write_text(WRONG)
    result = run(str(tmp_path))
    assert result.exit_code == 2
    assert f"{tmp_path}/bad.yaml:3:1: not valid YAML" in result.stderr
    assert "launcher-too-few" in result.stdout, "the readable files are judged all the same"


@pytest.mark.parametrize("arguments", [["missing.yaml"], [], ["-", "--fail-on", "never"], ["--format", "xml", "-"]])
def test_wrong_usage_exits_with_2_and_one_line(arguments: list[str]) -> None:
    result = run(*arguments, given="")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_the_policy_file_decides_what_is_denied(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: research}\nspec:\n"
        "  namespaceSelector: {matchLabels: {tier: research}}\n"
        "  rules:\n    launcher-too-few: {action: Warn}\n    image-unpinned: {action: Deny}\n"
    )
    assert as_json("--policy", str(policy), given=WRONG)["files"][0]["verdict"] == "warn"
    assert as_json("--policy", str(policy), given=DOUBTFUL)["files"][0]["verdict"] == "deny"


@pytest.mark.parametrize(
    "text,message",
    [
        ("spec: {}\n", "holds no UtilizationPolicy"),
        (
            "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: default}\nspec:\n  rulez: {}\n",
            "policy.yaml:5: spec.rulez: unknown field",
        ),
    ],
    ids=["none", "unknown"],
)
def test_a_wrong_policy_file_exits_with_2(tmp_path: Path, text: str, message: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    result = run("-", "--policy", str(policy), given=RIGHT)
    assert result.exit_code == 2
    assert message in result.stderr


def test_colour_is_for_terminals_only() -> None:
    assert "\x1b" not in run("-", given=WRONG).stdout


@pytest.mark.parametrize("arguments", [["--help"], ["lint", "--help"], ["rules", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom stoker.cli import stoker\n"
        f"try: stoker({arguments!r}, prog_name='stoker')\nexcept SystemExit: pass\n"
        f"print('imported:', *sorted({HEAVY | {'pydantic', 'yaml', 'tree_sitter'}!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("imported:\n")


def test_linting_imports_neither_the_controller_nor_numpy() -> None:
    program = (
        "import sys\nfrom stoker.cli import stoker\n"
        "try: stoker(['lint', '-'], prog_name='stoker')\nexcept SystemExit: pass\n"
        f"print('imported:', *sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=RIGHT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("imported:\n")


def test_rules_list_names_every_rule_with_what_it_does() -> None:
    result = CliRunner().invoke(stoker, ["rules", "list"])
    assert result.exit_code == 0
    assert re.search(r"^launcher-too-few +admission +GPUOversubscription +Deny", result.stdout, re.MULTILINE)


def test_rules_show_prints_a_page_and_suggests_the_rule_that_was_meant() -> None:
    assert CliRunner().invoke(stoker, ["rules", "show", "trailing-sleep"]).stdout.startswith("# trailing-sleep\n")
    wrong = CliRunner().invoke(stoker, ["rules", "show", "trailing-slep"])
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        'stoker: there is no rule "trailing-slep": did you mean trailing-sleep?\n',
    )


def test_what_could_not_be_judged_is_no_clean_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the webhook, whose policy warns of it."""
    monkeypatch.setattr("stoker.cli.judgement.review", lambda *_, **__: Verdict(unfinished=("launcher-too-few",)))
    (tmp_path / "job.yaml").write_text(RIGHT)
    result = run(str(tmp_path / "job.yaml"))
    assert result.exit_code == 1
    assert "not analysed: launcher-too-few" in result.stdout
    assert "clean" not in result.stdout
