"""Every computed change: the finding goes, nothing worse comes, a second run changes nothing, in any style of YAML.

`fixed_<name>.yaml` is what `stoker lint --fix --unsafe-fixes` makes of `bad_<name>.yaml`;
`EXPECT=write pytest tests/rules/test_fixes.py` writes the first of each rule: read it before you commit it.
"""

import json
import os
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.lint.files.judgement import Judge
from stoker.lint.files.manifests import parse
from stoker.lint.files.policies import load
from stoker.lint.files.results import Entry, Report
from stoker.lint.files.selection import select
from stoker.lint.fixes.fixing import Fixer

FIXTURES = Path(__file__).parent / "admission"
BAD = sorted(FIXTURES.glob("*/bad_*.yaml"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def judge(rule: str) -> Judge:
    policy = FIXTURES / rule / "policy.yaml"
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    return Judge(policies=load((str(policy),) if policy.exists() else (), now), selection=select((), ()), now=now)


@cache
def entries(path: Path, text: str) -> list[Entry]:
    """What is found of the rule that a fixture belongs to, in the last document."""
    report = judge(path.parent.name).judge(parse(text, path.name)[-1])
    assert isinstance(report, Report)
    return [entry for entry in report.entries if entry.rule == path.parent.name]


@cache
def fixed(path: Path, text: str, *, unsafe: bool = True) -> tuple[str, Fixer]:
    fixer = Fixer(judge=judge(path.parent.name), unsafe=unsafe)
    return fixer.rewrite(path.name, text), fixer


HARMFUL = FIXTURES / "cpu-wheel" / "bad_extra_index.yaml"
"""Its change would bring a finding of the same severity: the image still lacks the framework."""

FIXABLE = [path for path in BAD if path != HARMFUL and any(entry.change for entry in entries(path, path.read_text()))]
RULES = sorted({path.parent.name for path in FIXABLE})


def test_the_page_about_fixes_lists_the_rules_that_have_changes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fixes.md").read_text()
    listed = [line.split("|")[1] for line in page.splitlines() if re.match(r"\| [a-z]+-[a-z-]+[, |]", line)]
    assert sorted(word for cell in listed for word in cell.replace(",", " ").split()) == RULES


@pytest.mark.parametrize("path", FIXABLE, ids=name)
def test_a_change_removes_its_finding_and_a_second_run_changes_nothing(path: Path) -> None:
    before = path.read_text()
    after, fixer = fixed(path, before)
    assert not fixer.refused
    assert not [entry for entry in entries(path, after) if entry.change]
    assert len(entries(path, after)) < len(entries(path, before))
    assert fixed(path, after)[0] == after


@pytest.mark.parametrize("path", FIXABLE, ids=name)
def test_an_unsafe_change_is_made_only_where_it_is_asked_for(path: Path) -> None:
    before = path.read_text()
    unsafe = [entry for entry in entries(path, before) if entry.change and not entry.change.safe]
    after, fixer = fixed(path, before, unsafe=False)
    assert len([entry for entry in entries(path, after) if entry.change]) == len(unsafe)
    assert fixer.withheld >= len(unsafe)


def test_a_change_that_would_bring_another_finding_is_taken_back() -> None:
    after, fixer = fixed(HARMFUL, HARMFUL.read_text())
    assert after == HARMFUL.read_text()
    assert [refused.reason for refused in fixer.refused] == ["it would bring image-installs-framework"]
    assert fixer.fixed == 0


@pytest.mark.parametrize("rule", RULES)
def test_the_fixed_fixture_is_the_bad_one_with_its_change(rule: str) -> None:
    golden = sorted((FIXTURES / rule).glob("fixed_*.yaml"))
    if os.environ.get("EXPECT") == "write" and not golden:
        first = next(path for path in FIXABLE if path.parent.name == rule)
        golden = [first.with_name(first.name.replace("bad_", "fixed_"))]
        golden[0].touch()
    assert golden
    for path in golden:
        bad = path.with_name(path.name.replace("fixed_", "bad_"))
        after, _ = fixed(bad, bad.read_text())
        if os.environ.get("EXPECT") == "write":
            path.write_text(after)
        assert after == path.read_text()


class Quoting(yaml.SafeDumper):
    """Writes texts in double quotes, over several lines."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@pytest.mark.parametrize("style", ["CRLF", "JSON", "one line", "quoted", "commented", "item of a list"])
@pytest.mark.parametrize("rule", RULES)
def test_a_change_does_the_same_in_every_style(rule: str, style: str) -> None:
    path = next(path for path in FIXABLE if path.parent.name == rule)
    text = path.read_text()
    value = yaml.safe_load(text)
    written = {
        "CRLF": text.replace("\n", "\r\n"),
        "JSON": json.dumps(value, indent=2),
        "one line": json.dumps(value),
        "quoted": yaml.dump(value, Dumper=Quoting, width=60),
        "commented": "".join(f"{line}  # why\n" if line.endswith(":") else f"{line}\n" for line in text.splitlines()),
        "item of a list": "kind: List\nitems:\n- kind: ConfigMap\n- " + text.strip().replace("\n", "\n  ") + "\n",
    }[style]
    after, fixer = fixed(path, written)
    assert not fixer.refused
    assert parse(after, "")[-1].value == yaml.safe_load(fixed(path, text)[0])
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
    path = FIXTURES / "launcher-nodes-mismatch" / "two_templates.json"
    assert [entry.rule for entry in entries(path, text)] == ["launcher-nodes-mismatch"] * 2
    assert fixed(path, text)[0] == text


SCRIPTS = [yaml.safe_load(path.read_text())["spec"].get("script") or "" for path in FIXABLE]
LINES = sorted({line for script in SCRIPTS for line in script.splitlines() if line.strip()})


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=5), gpus=st.sampled_from([1, 8]))
def test_scripts_mixed_of_many_faults_are_fixed_in_one_run(lines: list[str], gpus: int) -> None:
    """A second run finds nothing to do, and what is not done would do harm; the lines need not make a whole script."""
    spec = {"image": "registry.example.com/a:1", "gpusPerNode": gpus, "script": "\n".join(lines)}
    manifest = {"apiVersion": "stoker.dev/v1alpha1", "kind": "DLJob", "metadata": {"name": "a"}, "spec": spec}
    path = FIXTURES / "launcher-too-few" / "mixed.yaml"
    after, fixer = fixed(path, json.dumps(manifest))
    assert fixed(path, after)[0] == after
    harmful = ("it would bring", "the script would no longer parse")
    assert not [one for one in fixer.refused if not one.reason.startswith(harmful)]
