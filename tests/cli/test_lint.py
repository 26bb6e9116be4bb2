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
from stoker.findings.verdict import Verdict
from stoker.shell.model import Shortfall

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
OVER = Shortfall.OVER_BUDGET
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"


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
        "   = stoker rules show launcher-too-few\n"
        "\n"
        "1 DLJob: 1 denied.\n"
        "1 finding fixable with --fix --unsafe-fixes.\n"
    )


def test_json_has_the_published_shape() -> None:
    document = as_json(given=f"{SERVICE}---\n{WRONG}")
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
        "clusterVerdict": "deny",
        "suppressed": [],
        "unfinished": [],
        "unfinishedReason": None,
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
        "docs": "stoker rules show launcher-too-few",
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
    result = run("-", given=f"{SERVICE}---\n{RIGHT}---\nreplicas: 3\n")
    assert result.exit_code == 0
    assert "<stdin>:1: skipped the Service web" in result.stdout
    assert "skipped a document that is not a Kubernetes object" in result.stdout
    assert result.stdout.endswith("1 DLJob: 1 clean; 2 other documents skipped.\n")


WORK = """\
apiVersion: batch/v1
kind: Job
metadata: {name: bert, namespace: nlp}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.example.com/nlp/bert:2026.11
        command: [bash, -c]
        args:
        - |
          torchrun --nproc_per_node=4 train.py
        resources: {limits: {nvidia.com/gpu: 8}}
"""


def test_a_job_of_kubernetes_gets_the_same_findings_at_its_own_fields() -> None:
    (file,) = as_json(given=WORK)["files"]
    assert (file["kind"], file["namespace"], file["name"], file["verdict"]) == ("Job", "nlp", "bert", "deny")
    (finding,) = file["findings"]
    assert finding["rule"] == "launcher-too-few"
    assert finding["location"]["fieldPath"] == "spec.template.spec.containers[0].args[0]"
    assert (finding["location"]["line"], finding["location"]["column"]) == (14, 20)
    assert "spec.gpusPerNode" not in finding["fix"]


def test_jobs_without_gpus_are_clean() -> None:
    result = run("-", given=WORK.replace("nvidia.com/gpu: 8", "cpu: 8"))
    assert (result.exit_code, result.stdout) == (0, "1 Job: 1 clean.\n")


def test_a_fault_of_stokers_in_reading_a_job_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("stoker.lint.kinds.pod_manifest.read_containers", broken)
    (file,) = as_json(given=WORK)["files"]
    assert (file["verdict"], file["findings"], file["unfinished"]) == ("warn", [], ["submission"])


def test_what_breaks_the_schema_of_a_kubernetes_job_is_an_error() -> None:
    (file,) = as_json(given=WORK.replace("command: [bash, -c]", "command: bash"))["files"]
    (finding,) = file["findings"]
    assert (finding["rule"], finding["location"]["line"]) == ("schema", 11)
    assert finding["location"]["fieldPath"] == "spec.template.spec.containers[0].command"


PYTORCH_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: nlp}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &template
        spec:
          containers:
          - name: pytorch
            image: registry.example.com/nlp/bert:latest
            command: [torchrun, --nproc_per_node=4, train.py]
            resources: {limits: {nvidia.com/gpu: 8}}
    Worker: {replicas: 3, template: *template}
"""


def test_a_line_that_an_alias_repeats_is_accused_once() -> None:
    assert rules_of(given=PYTORCH_JOB) == ["launcher-too-few", "image-unpinned"]


def test_suppressions_work_in_every_kind() -> None:
    given = WORK.replace("4 train.py", "16 train.py  # stoker: ignore[launcher-too-many] two for each GPU")
    (file,) = as_json(given=given)["files"]
    assert [one["rule"] for one in (*file["findings"], *file["suppressed"])].count("launcher-too-many") == 1


PROGRAM = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: bert-src, namespace: nlp}
data:
  start.sh: torchrun --nproc_per_node=4 train.py
"""


@pytest.mark.parametrize("order", ["before", "after", "beside"])
def test_config_maps_of_the_input_are_the_jobs_files(order: str, tmp_path: Path) -> None:
    job = WRONG.replace("torchrun --nproc_per_node=4 train.py", "bash start.sh") + "  sources: {configMap: bert-src}\n"
    documents = [PROGRAM, job] if order == "before" else [job, PROGRAM]
    if order == "beside":
        for number, document in enumerate(documents):
            (tmp_path / f"{number}.yaml").write_text(document)
        given = json.loads(run(str(tmp_path), "--format", "json").stdout)
    else:
        given = as_json(given="---\n".join(documents))
    assert [finding["rule"] for finding in given["files"][0]["findings"]] == ["launcher-too-few"]
    assert as_json(given=job)["files"][0]["findings"] == []
    assert (given["files"][0]["verdict"], given["files"][0]["clusterVerdict"]) == ("deny", "allow")
    other = PROGRAM.replace("namespace: nlp", "namespace: cv")
    assert as_json(given=f"{other}---\n{job}")["files"][0]["findings"] == []


def test_a_verdict_that_a_config_map_decides_is_told_beside_the_clusters() -> None:
    told = "the verdict here is deny, in the cluster allow: the cluster does not read files of ConfigMaps"
    job = WRONG.replace("torchrun --nproc_per_node=4 train.py", "bash start.sh") + "  sources: {configMap: bert-src}\n"
    assert f"<stdin>:7: {told}" in run("-", given=f"{PROGRAM}---\n{job}").stdout
    assert told not in run("-", given=f"{PROGRAM}---\n{WRONG}").stdout


def test_a_dljob_of_another_project_is_skipped() -> None:
    assert "skipped the DLJob bert" in run("-", given=RIGHT.replace("stoker.dev/", "example.org/")).stdout


@pytest.mark.parametrize(
    "change,field_path,line,words",
    [
        (("gpusPerNode: 8", "gpusPerNode: 65"), "spec.gpusPerNode", 7, "less than or equal to 64"),
        (("gpusPerNode: 8", 'gpusPerNode: "8"'), "spec.gpusPerNode", 7, "integer"),
        (("gpusPerNode: 8", "gpusPerNodes: 8"), "spec.gpusPerNode", 6, "required"),
        (("gpusPerNode: 8", "gpusPerNode: 8\n  gpuCount: 8"), "spec.gpuCount", 8, "unknown field"),
        (("script: |", "command: [sh]\n  script: |"), "spec.command", 9, "cannot be combined"),
        (("name: bert", "name: Bert_1"), "metadata.name", 4, "lower-case letters"),
        (("apiVersion: stoker.dev/v1alpha1", "apiVersion: stoker.dev/v2"), "apiVersion", 1, "stoker.dev/v1alpha1"),
    ],
    ids=["bound", "type", "missing", "unknown", "cannot be combined", "name", "version"],
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


@pytest.mark.parametrize(
    "given,path,line",
    [
        (
            RIGHT + "  podTemplate:\n    spec:\n      tolerationz: []\n",
            "spec.podTemplate.spec.tolerationz: unknown field: did you mean tolerations?",
            15,
        ),
        (
            WORK.replace("        image:", "        volumeMount: []\n        image:"),
            "spec.template.spec.containers[0].volumeMount: unknown field: did you mean volumeMounts?",
            10,
        ),
        (
            PYTORCH_JOB.replace("          containers:", "          tolerationz: []\n          containers:"),
            "spec.pytorchReplicaSpecs.Master.template.spec.tolerationz: unknown field: did you mean tolerations?",
            10,
        ),
    ],
    ids=["DLJob", "Job", "PyTorchJob"],
)
def test_a_typo_in_a_pod_template_is_an_error_at_its_line(given: str, path: str, line: int) -> None:
    (file,) = as_json(given=given)["files"]
    found = [one for one in file["findings"] if one["rule"] == "schema"]
    assert (found[0]["detail"], found[0]["location"]["line"]) == (path, line)


def test_a_manifest_that_is_too_large_is_told_so() -> None:
    given = RIGHT + f"  env: [{', '.join('{name: A, value: ' + 'x' * 100_000 + '}' for _ in range(3))}]\n"
    (file,) = as_json(given=given)["files"]
    (found,) = [one for one in file["findings"] if one["rule"] == "schema"]
    assert "of them in env; at most 262144 are allowed" in found["detail"]


def test_an_unknown_field_does_not_hide_the_other_findings() -> None:
    document = as_json(given=WRONG.replace("gpusPerNode: 8", "gpusPerNode: 8\n  gpuCount: 8"))
    assert {finding["rule"] for finding in document["files"][0]["findings"]} == {"schema", "launcher-too-few"}


@pytest.mark.parametrize(
    "image", ["", "  image:\n", '  image: ""\n', '  image: " "\n'], ids=["absent", "null", "empty", "blank"]
)
def test_a_job_without_an_image_is_told_so_by_the_rule_and_judged_by_the_others(image: str) -> None:
    given = WRONG.replace("  image: registry.example.com/nlp/bert:2026.11\n", image)
    assert rules_of(given=given) == ["launcher-too-few", "image-missing"]


def test_a_missing_image_breaks_the_schema_where_its_rule_is_not_asked() -> None:
    given = RIGHT.replace("  image: registry.example.com/nlp/bert:2026.11\n", "")
    assert rules_of("--select", "trailing-sleep", given=given) == ["schema"]


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
        ("spec: {}\n", "contains no UtilizationPolicy"),
        (
            "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: default}\nspec:\n  rulez: {}\n",
            "policy.yaml:5: spec.rulez: unknown field",
        ),
        (
            "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: research}\nspec: {}\n",
            "policy.yaml:4: spec.namespaceSelector: ",
        ),
    ],
    ids=["none", "unknown", "about-several-fields"],
)
def test_a_wrong_policy_file_exits_with_2(tmp_path: Path, text: str, message: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    result = run("-", "--policy", str(policy), given=RIGHT)
    assert result.exit_code == 2
    assert message in result.stderr


POLICY = """\
apiVersion: stoker.dev/v1alpha1
kind: UtilizationPolicy
metadata: {{name: {name}}}
spec: {spec}
"""


def test_a_policy_that_the_cluster_would_refuse_exits_with_2(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(name="default", spec="{thresholds: {idlePercent: 9, lowPercent: 3}}"))
    result = run("-", "--policy", str(policy), given=RIGHT)
    assert result.exit_code == 2
    assert "policy.yaml:4: spec.thresholds.idlePercent: idlePercent, 9 %, must not exceed" in result.stderr


def test_policies_alone_can_be_checked(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(name="default", spec="{reclaim: {window: 7h, mode: Suspend}}"))
    result = run("--policy", str(policy))
    assert (result.exit_code, result.stdout) == (0, "1 policy is valid.\n")
    assert "spec.reclaim.window: '7h'" in result.stderr
    assert "the UtilizationPolicy default, which --policy checks" in run(str(policy)).stdout


def test_all_that_is_wrong_with_a_policy_is_told_at_once(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(name="default", spec="{reclaim: {window: 1m, idleafter: 1h}}"))
    result = run("--policy", str(policy))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{policy}:4: spec.reclaim.window: '1m' must be" in result.stderr
    assert f"{policy}:4: spec.reclaim.idleafter: unknown field" in result.stderr


def test_what_in_a_policy_has_no_effect_is_told_beside_the_findings(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(name="default", spec="{rules: {launcher-to-few: {action: Deny}}}"))
    result = run("-", "--policy", str(policy), given=RIGHT)
    assert result.exit_code == 0
    assert result.stderr == (
        f"stoker: {policy}: spec.rules[launcher-to-few]: there is no rule launcher-to-few, so its Deny has no effect; "
        "did you mean launcher-too-few?\n"
    )


NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: nlp, labels: {tier: research}}\n"
BASE = POLICY.format(name="default", spec="{rules: {image-unpinned: {action: Deny}}}")
RESEARCH = POLICY.format(
    name="research",
    spec="{namespaceSelector: {matchLabels: {tier: research}}, rules: {launcher-too-few: {action: Audit}}}",
)


@pytest.mark.parametrize(
    "documents,given,verdict",
    [
        ([BASE, RESEARCH, NAMESPACE], WRONG, "allow"),
        ([BASE, RESEARCH, NAMESPACE], DOUBTFUL, "deny"),
        ([BASE, RESEARCH], WRONG, "deny"),
        ([BASE, RESEARCH, NAMESPACE], WRONG.replace("namespace: nlp", "namespace: cv"), "deny"),
        ([RESEARCH], WRONG, "allow"),
    ],
    ids=["override", "base-below", "labels-unknown", "other-namespace", "one-alone"],
)
def test_of_several_policies_each_namespace_has_its_own(
    documents: list[str], given: str, verdict: str, tmp_path: Path
) -> None:
    (tmp_path / "policies.yaml").write_text("---\n".join(documents))
    assert as_json("--policy", str(tmp_path / "policies.yaml"), given=given)["files"][0]["verdict"] == verdict


def test_labels_that_are_not_known_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text("---\n".join([BASE, RESEARCH]))
    said = run("-", "--policy", str(tmp_path / "policies.yaml"), given=WRONG).stderr
    assert 'the labels of namespace "nlp" are unknown: it is assumed not to have those that research selects' in said
    exemption = "exemptions: [{namespaceSelector: {matchLabels: {gpu: free}}, reason: on trial}]"
    exempting = RESEARCH.replace("rules:", f"{exemption}, rules:")
    (tmp_path / "policies.yaml").write_text(exempting)
    assert "those that research selects" in run("-", "--policy", str(tmp_path / "policies.yaml"), given=WRONG).stderr
    for documents in ([BASE, RESEARCH, NAMESPACE], [RESEARCH]):
        (tmp_path / "policies.yaml").write_text("---\n".join(documents))
        assert run("-", "--policy", str(tmp_path / "policies.yaml"), given=WRONG).stderr == ""


def test_a_namespace_may_be_given_for_manifests_that_name_none(tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text("---\n".join([BASE, RESEARCH, NAMESPACE]))
    nameless = WRONG.replace("  namespace: nlp\n", "")
    arguments = ["--policy", str(tmp_path / "policies.yaml"), "--namespace", "nlp"]
    (file,) = as_json(*arguments, given=nameless)["files"]
    assert (file["namespace"], file["verdict"]) == ("nlp", "allow")


def test_audited_findings_are_notes_that_fail_nothing(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(RESEARCH)
    for level in ("deny", "warn", "advice"):
        result = run("-", "--policy", str(tmp_path / "policy.yaml"), "--fail-on", level, given=WRONG)
        assert result.exit_code == 0
        assert "note[launcher-too-few]" in result.stdout


def rules_of(*arguments: str, given: str) -> list[str]:
    return [finding["rule"] for file in as_json(*arguments, given=given)["files"] for finding in file["findings"]]


BOTH = WRONG.replace("bert:2026.11", "bert:latest")


@pytest.mark.parametrize(
    "arguments,rules",
    [
        ([], ["launcher-too-few", "image-unpinned"]),
        (["--select", "image-unpinned"], ["image-unpinned"]),
        (["--select", "A101"], ["launcher-too-few"]),
        (["--select", "GPUOversubscription"], ["launcher-too-few"]),
        (["--select", "image-unpinned,launcher-too-few"], ["launcher-too-few", "image-unpinned"]),
        (["--select", "image-unpinned", "--select", " A101 "], ["launcher-too-few", "image-unpinned"]),
        (["--ignore", "image-unpinned"], ["launcher-too-few"]),
        (["--select", "GPUOversubscription", "--ignore", "A101"], []),
    ],
)
def test_rules_are_selected_and_ignored_by_name_id_and_category(arguments: list[str], rules: list[str]) -> None:
    assert rules_of(*arguments, given=BOTH) == rules


@pytest.mark.parametrize("option", ["--select", "--ignore"])
@pytest.mark.parametrize(
    "word,said",
    [
        ("launcher-to-few", 'there is no rule or category "launcher-to-few": did you mean launcher-too-few?'),
        ("xyz", 'there is no rule or category "xyz": see stoker rules list'),
        ("", 'there is no rule or category "": see stoker rules list'),
        ("schema", '"schema" cannot be chosen: a manifest that violates the schema is never checked further'),
    ],
)
def test_what_names_no_rule_exits_with_2_and_suggests_one(option: str, word: str, said: str) -> None:
    result = run("-", option, f"image-unpinned,{word}", given=RIGHT)
    assert (result.exit_code, result.stderr) == (2, f"stoker: {said}\n")


def test_suppressions_without_effect_can_be_ignored() -> None:
    given = WRONG.replace("# four processes are enough", "true # stoker: ignore[trailing-sleep] none here")
    assert rules_of(given=given) == ["launcher-too-few", "suppression"]
    assert rules_of("--ignore", "suppression", given=given) == ["launcher-too-few"]
    assert rules_of("--select", "suppression,trailing-sleep", given=given) == ["suppression"]


@pytest.mark.parametrize(
    "change,line",
    [
        (("gpusPerNode: 8", "gpusPerNode: 8  # stoker: ignore[launcher-too-few] four are enough"), 7),
        (("apiVersion:", "# stoker: ignore[launcher-too-few] four are enough\napiVersion:"), 1),
    ],
    ids=["beside", "above"],
)
def test_a_comment_of_the_yaml_suppresses_nothing_and_is_told_of(change: tuple[str, str], line: int) -> None:
    """The webhook would never see it."""
    (file,) = as_json(given=WRONG.replace(*change, 1))["files"]
    few, told = file["findings"]
    assert (few["rule"], told["rule"], told["location"]["line"]) == ("launcher-too-few", "suppression", line)
    assert told["detail"].endswith("is a YAML comment, which the cluster does not see.")


@pytest.mark.parametrize(
    "given",
    [
        RIGHT.replace("train.py", "train.py  # stoker: ignore[trailing-sleep] x"),
        RIGHT.replace("torchrun", "# stoker: ignore[trailing-sleep] x\n    torchrun"),
        RIGHT.replace("  namespace: nlp", "  namespace: nlp\n  annotations:\n    ignore.stoker.dev/trailing-sleep: x"),
    ],
    ids=["end", "above", "annotation"],
)
def test_what_suppresses_nothing_is_taken_away_by_fix(given: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(given)
    assert run(str(path), "--fail-on", "advice").exit_code == 1
    assert run(str(path), "--fix", "--fail-on", "advice").exit_code == 0
    assert path.read_text() == RIGHT


@pytest.mark.parametrize("action,verdict,code", [("Deny", "deny", 1), ("Warn", "warn", 1), ("Audit", "allow", 0)])
def test_the_policy_says_what_becomes_of_what_took_too_long(
    action: str, verdict: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "stoker.lint.files.judgement.review_submissions",
        lambda *_, **__: Verdict(unfinished=("script",), shortfall=OVER),
    )
    policy = POLICY.format(name="default", spec=f"{{analysis: {{onNotAnalysed: {action}}}}}")
    (tmp_path / "policy.yaml").write_text(policy)
    (tmp_path / "job.yaml").write_text(RIGHT)
    arguments = [str(tmp_path / "job.yaml"), "--policy", str(tmp_path / "policy.yaml")]
    result = run(*arguments, "--format", "json")
    (file,) = json.loads(result.stdout)["files"]
    assert (file["verdict"], file["unfinished"], result.exit_code) == (verdict, ["script"], code)
    assert file["unfinishedReason"] == "OverBudget"


def test_an_interrupt_exits_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stoker.lint.files.judgement.review_submissions", interrupted)
    result = run("-", given=RIGHT)
    assert (result.exit_code, result.output) == (130, "")


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"{number}.yaml").write_text(WRONG)
    command = f"set -o pipefail; {sys.executable} -m stoker lint {tmp_path} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WRONG)
    command = f"{sys.executable} -m stoker lint {tmp_path} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "stoker: standard output: No space left on device\n")


def test_rules_list_names_every_rule_with_what_it_does() -> None:
    result = CliRunner().invoke(stoker, ["rules", "list"])
    assert result.exit_code == 0
    assert re.search(
        r"^launcher-too-few +A101 +admission +GPUOversubscription +Deny +The launcher", result.stdout, re.MULTILINE
    )


def test_rules_show_prints_a_page_and_suggests_the_rule_that_was_meant() -> None:
    assert CliRunner().invoke(stoker, ["rules", "show", "trailing-sleep"]).stdout.startswith("# trailing-sleep\n")
    wrong = CliRunner().invoke(stoker, ["rules", "show", "trailing-slep"])
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        'stoker: there is no rule "trailing-slep": did you mean trailing-sleep?\n',
    )


def test_what_could_not_be_judged_is_no_clean_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the webhook, whose policy warns of it."""
    monkeypatch.setattr(
        "stoker.lint.files.judgement.review_submissions",
        lambda *_, **__: Verdict(unfinished=("a", "b", "c"), shortfall=OVER),
    )
    (tmp_path / "job.yaml").write_text(RIGHT)
    result = run(str(tmp_path / "job.yaml"))
    assert result.exit_code == 1
    assert "not analysed completely: the script of this job takes too long to analyse" in result.stdout
    assert "clean" not in result.stdout
