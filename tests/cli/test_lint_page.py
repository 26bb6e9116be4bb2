"""docs/lint.md says what the command does."""

import re
from pathlib import Path
from typing import Any

import click
import yaml
from click.testing import CliRunner

from stoker.cli import stoker
from stoker.cli.lint import lint
from stoker.lint.formats import FORMATS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/lint.md").read_text()
YAML_BLOCKS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_the_page_names_every_option_and_format() -> None:
    options = [name for one in lint.params if isinstance(one, click.Option) for name in one.opts if name[:2] == "--"]
    assert [name for name in options if f"`{name}" not in PAGE] == []
    assert [name for name in FORMATS if f"**{name}**" not in PAGE] == []


def test_the_shown_run_is_a_run(monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    command, _, shown = re.findall(r"```\n\$ (stoker .*?)```", PAGE, re.DOTALL)[0].partition("\n")
    assert CliRunner().invoke(stoker, command.split()[1:]).stdout == shown


def test_the_suppressions_shown_are_honoured() -> None:
    shown = next(block for block in YAML_BLOCKS if "spec" in block)
    spec = {"gpusPerNode": 2, "image": "registry.example.com/nlp/bert:latest", **shown["spec"]}
    job = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": "bert", **shown["metadata"]},
        "spec": spec,
    }
    result = CliRunner().invoke(stoker, ["lint", "-", "--fail-on", "advice"], input=yaml.safe_dump(job))
    assert (result.exit_code, result.stdout) == (0, "1 DLJob: 1 clean; 3 findings suppressed.\n")


def test_the_hook_shown_is_the_one_that_is_defined() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (shown,) = next(block for block in YAML_BLOCKS if "repos" in block)["repos"][0]["hooks"]
    assert hook["id"] == shown["id"]
    program, command = hook["entry"].split()
    assert (program, command in stoker.list_commands(click.Context(stoker))) == ("stoker", True)
