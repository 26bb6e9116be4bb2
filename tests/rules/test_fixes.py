"""Every computed change: the finding goes, nothing worse comes, a second run changes nothing, in any style of YAML.

`fixed` of a bad case is what `stoker lint --fix --unsafe-fixes` makes of it. `EXPECT=write pytest
tests/rules/test_fixes.py` writes it, for the first case of a rule that has none yet, too: read it before you commit it.
"""

import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.policy import UtilizationPolicy
from stoker.lint.files.judgement import Judge
from stoker.lint.files.manifests import parse
from stoker.lint.files.policies import PolicyFiles
from stoker.lint.files.results import Entry, Report
from stoker.lint.files.selection import select
from stoker.lint.fixes.fixer import Fixer
from tests.rules import fixtures
from tests.rules.fixtures import Case, cases, find

BAD = cases("admission", "bad_")


@cache
def judge(rule: str) -> Judge:
    text = fixtures.policy("admission", rule)
    policies = () if text is None else (UtilizationPolicy.model_validate(yaml.safe_load(text)),)
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    return Judge(policy_of=PolicyFiles(policies=policies).effective, selection=select((), ()), now=now)


@cache
def entries(rule: str, text: str) -> list[Entry]:
    """What a rule finds in the last document."""
    report = judge(rule).judge(parse(text, "fixture.yaml")[-1])
    assert isinstance(report, Report)
    return [entry for entry in report.entries if entry.rule == rule]


@cache
def fixed(rule: str, text: str, *, unsafe: bool = True) -> tuple[str, Fixer]:
    fixer = Fixer(judge=judge(rule), unsafe=unsafe)
    return fixer.rewrite("fixture.yaml", text), fixer


HARMFUL = find("admission", "cpu-wheel/bad_extra_index")
"""Its change would bring a finding of the same severity: the image still lacks the framework."""

FIXABLE = [case for case in BAD if case is not HARMFUL and any(one.change for one in entries(case.rule, case.manifest))]
RULES = sorted({case.rule for case in FIXABLE})


def test_the_page_about_fixes_lists_the_rules_that_have_changes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fixes.md").read_text()
    listed = [line.split("|")[1] for line in page.splitlines() if re.match(r"\| [a-z]+-[a-z-]+[, |]", line)]
    assert sorted(word for cell in listed for word in cell.replace(",", " ").split()) == RULES


@pytest.mark.parametrize("case", FIXABLE, ids=str)
def test_a_change_removes_its_finding_and_a_second_run_changes_nothing(case: Case) -> None:
    before = case.manifest
    after, fixer = fixed(case.rule, before)
    assert not fixer.refused
    assert not [entry for entry in entries(case.rule, after) if entry.change]
    assert len(entries(case.rule, after)) < len(entries(case.rule, before))
    assert fixed(case.rule, after)[0] == after


@pytest.mark.parametrize("case", FIXABLE, ids=str)
def test_an_unsafe_change_is_made_only_where_it_is_asked_for(case: Case) -> None:
    before = case.manifest
    unsafe = [entry for entry in entries(case.rule, before) if entry.change and not entry.change.safe]
    after, fixer = fixed(case.rule, before, unsafe=False)
    assert len([entry for entry in entries(case.rule, after) if entry.change]) == len(unsafe)
    assert fixer.withheld >= len(unsafe)


def test_a_change_that_would_bring_another_finding_is_taken_back() -> None:
    after, fixer = fixed(HARMFUL.rule, HARMFUL.manifest)
    assert after == HARMFUL.manifest
    assert [refused.reason for refused in fixer.refused] == ["it would bring image-installs-framework"]
    assert fixer.fixed == 0


def test_a_fixed_manifest_belongs_to_a_case_that_is_fixed() -> None:
    assert [str(case) for case in cases("admission") if case.fixed is not None and case not in FIXABLE] == []


@pytest.mark.parametrize("rule", RULES)
def test_the_fixed_manifest_is_the_bad_one_with_its_change(rule: str) -> None:
    bad = [case for case in FIXABLE if case.rule == rule]
    shown = [case for case in bad if case.fixed is not None]
    if fixtures.WRITES:
        for case in shown or bad[:1]:
            case.write_fixed(fixed(rule, case.manifest)[0])
    else:
        assert shown, f"{rule} computes changes: show one of them (EXPECT=write)"
        for case in shown:
            assert case.fixed == fixed(rule, case.manifest)[0]


class Quoting(yaml.SafeDumper):
    """Writes texts in double quotes, over several lines."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@pytest.mark.parametrize("style", ["CRLF", "JSON", "one line", "quoted", "commented", "item of a list"])
@pytest.mark.parametrize("rule", RULES)
def test_a_change_does_the_same_in_every_style(rule: str, style: str) -> None:
    text = next(case.manifest for case in FIXABLE if case.rule == rule)
    value = yaml.safe_load(text)
    written = {
        "CRLF": text.replace("\n", "\r\n"),
        "JSON": json.dumps(value, indent=2),
        "one line": json.dumps(value),
        "quoted": yaml.dump(value, Dumper=Quoting, width=60),
        "commented": "".join(f"{line}  # why\n" if line.endswith(":") else f"{line}\n" for line in text.splitlines()),
        "item of a list": "kind: List\nitems:\n- kind: ConfigMap\n- " + text.strip().replace("\n", "\n  ") + "\n",
    }[style]
    after, fixer = fixed(rule, written)
    assert not fixer.refused
    assert parse(after, "")[-1].value == yaml.safe_load(fixed(rule, text)[0])
    assert after.count("# why") == written.count("# why") or "env" not in parse(after, "")[-1].value["spec"]
    assert ("\n" in after.replace("\r\n", "")) == ("\n" in written.replace("\r\n", ""))


def test_a_number_of_nodes_that_two_templates_give_is_not_changed_in_one_of_them() -> None:
    pods = {
        "containers": [
            {
                "name": "pytorch",
                "image": "registry.example.com/team/train:1.4",
                "command": ["bash", "-c", "torchrun --nnodes=4 --nproc_per_node=8 --node_rank=$RANK train.py"],
                "resources": {"limits": {"nvidia.com/gpu": 8}},
            }
        ]
    }
    roles = {role: {"replicas": 1, "template": {"spec": pods}} for role in ("Master", "Worker")}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a", "namespace": "team"}}
    text = json.dumps({**job, "spec": {"pytorchReplicaSpecs": roles}})
    rule = "launcher-nodes-mismatch"
    assert [entry.rule for entry in entries(rule, text)] == [rule] * 2
    assert fixed(rule, text)[0] == text


SCRIPTS = [yaml.safe_load(case.manifest)["spec"].get("script") or "" for case in FIXABLE]
LINES = sorted({line for script in SCRIPTS for line in script.splitlines() if line.strip()})


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=5), gpus=st.sampled_from([1, 8]))
def test_scripts_mixed_of_many_faults_are_fixed_in_one_run(lines: list[str], gpus: int) -> None:
    """A second run finds nothing to do, and what is not done would do harm; the lines need not make a whole script."""
    spec = {"image": "registry.example.com/a:1", "gpusPerNode": gpus, "script": "\n".join(lines)}
    manifest = {"apiVersion": "stoker.dev/v1alpha1", "kind": "DLJob", "metadata": {"name": "a"}, "spec": spec}
    rule = "launcher-too-few"
    after, fixer = fixed(rule, json.dumps(manifest))
    assert fixed(rule, after)[0] == after
    harmful = ("it would bring", "the script would no longer parse")
    assert not [one for one in fixer.refused if not one.reason.startswith(harmful)]
