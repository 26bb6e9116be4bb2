"""Each command of the documentation is run by a test, or the page's source says why not."""

import os
import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from stoker.cli import stoker
from tests.examples.blocks import ROOT, Block, blocks, every_block, pages, write_manifests

WIDTH = "120"
"""Columns of the terminal, which those of the machine must not decide."""
COMMANDS = [block for block in every_block() if block.language in {"", "sh", "bash", "console"}]


def test_every_block_says_how_it_is_kept_right() -> None:
    assert [str(block) for block in COMMANDS if not block.kind] == []
    assert [str(block) for block in COMMANDS if block.kind == "not run" and len(block.why) < 10] == []


@pytest.mark.parametrize("block", [one for one in COMMANDS if one.kind in {"compared by", "tried by"}], ids=str)
def test_the_test_that_a_block_names_is_there(block: Block) -> None:
    path, _, name = block.why.partition("::")
    source = (ROOT / path).read_text()
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE)
    if block.kind == "compared by":
        assert Path(block.page).name in source


SHELL_WORD = re.compile(
    r"(?:^|[|;]|do) *(?:\$ )?(kubectl stoker|stoker|make|python -m|helm)((?: [^|;#\n]*)?)", re.MULTILINE
)
LINES = [
    pytest.param(program, arguments.split(), id=f"{block}: {program}{arguments}"[:80])
    for block in COMMANDS
    if block.kind != "no command"
    for program, arguments in SHELL_WORD.findall(block.text.replace("\\\n", " "))
]


@pytest.mark.parametrize("program, words", LINES)
def test_what_a_command_names_is_there(program: str, words: list[str]) -> None:
    """Of every command, run or not: the commands and options of stoker, targets, modules, values of the chart."""
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    if program in {"stoker", "kubectl stoker"} and not words[0].startswith("--"):
        context = click.Context(stoker)
        command = stoker.get_command(context, words[0])
        assert command is not None
        taken = {name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)}
        assert set(options) <= taken
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets
    elif program == "python -m":
        assert (ROOT / words[0].replace(".", "/")).with_suffix(".py").exists() or (
            ROOT / words[0].replace(".", "/") / "__main__.py"
        ).exists()
    elif program == "helm" and "stoker" in words:
        for option, value in pairwise(words):
            if option in {"--set", "--set-file"}:
                assert_value(value.strip("'").partition("=")[0])


def assert_value(path: str) -> None:
    """A value of the chart, such as metrics.readers[0].kind."""
    known = yaml.safe_load((ROOT / "charts/stoker/values.yaml").read_text())
    for key in path.partition("[")[0].split("."):
        assert key in known
        known = known[key]


def printed(block: Block) -> str:
    """What the block's commands print, each after its own line; without `$` the commands alone."""
    prompted = block.text.startswith("$ ")
    commands = [line for line in block.text.splitlines() if line.startswith("$ ") or not prompted]
    shown = []
    for line in commands:
        program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
        assert program == "stoker", f"{block}: only stoker is run here"
        result = CliRunner(env={"COLUMNS": WIDTH}).invoke(stoker, arguments)
        assert result.exit_code in {0, 1}, result.output
        shown.append(f"{line}\n{result.stdout + result.stderr if prompted else ''}")
    return "".join(shown)


@pytest.mark.parametrize("page", [page for page in pages() if any(one.kind == "run" for one in blocks(page))])
def test_the_page_shows_what_its_commands_print(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_manifests(page, tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    expected = {block: printed(block) for block in blocks(page) if block.kind == "run"}
    if os.environ.get("EXPECT") == "write":
        text = (ROOT / page).read_text()
        for block, right in reversed(expected.items()):
            text = text[: block.span[0]] + right + text[block.span[1] :]
        (ROOT / page).write_text(text)
        return
    for block, right in expected.items():
        assert block.text == right, f"{block}: EXPECT=write pytest tests/examples/test_commands.py writes the page"


RECIPES = sorted(one for one in pages() if one.startswith("docs/recipes/") and not one.endswith("README.md"))


@pytest.mark.parametrize("page", RECIPES)
def test_a_recipes_manifest_is_clean_and_its_mistake_is_not(page: str) -> None:
    right, wrong = [block.text for block in blocks(page) if block.kind == "run"]
    assert right.splitlines()[1:] == ["1 DLJob: 1 clean."]
    assert wrong.splitlines()[-2:] != right.splitlines()[-2:]
    assert re.search(r": (error|warning)\[", wrong)
