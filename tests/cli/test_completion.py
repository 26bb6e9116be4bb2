"""Shells complete commands, options, rules and what can be selected."""

import shutil
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete, ZshComplete
from click.testing import CliRunner

from stoker.cli import stoker
from stoker.cli.completion import SHELLS, VARIABLE


def completed(arguments: list[str], incomplete: str) -> list[str]:
    return [item.value for item in BashComplete(stoker, {}, "stoker", VARIABLE).get_completions(arguments, incomplete)]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_it_accepts(shell: str) -> None:
    script = CliRunner().invoke(stoker, ["completion", shell]).stdout
    assert VARIABLE in script
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True, capture_output=True)


def test_the_program_answers_what_the_script_of_bash_asks() -> None:
    environment = {VARIABLE: "bash_complete", "COMP_WORDS": "stoker rules show launcher-too-f", "COMP_CWORD": "3"}
    done = subprocess.run([sys.executable, "-m", "stoker"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "plain,launcher-too-few\n"


def test_commands_and_options_are_completed() -> None:
    assert completed([], "li") == ["lint"]
    assert "--select" in completed(["lint"], "--sel")


def test_rules_are_completed_with_their_summaries() -> None:
    assert completed(["rules", "show"], "trailing") == ["trailing-sleep"]
    (item,) = ZshComplete(stoker, {}, "stoker", VARIABLE).get_completions(["rules", "show"], "trailing")
    assert item.help


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_what_can_be_selected_is_completed_after_a_comma_too(option: str) -> None:
    assert completed(["lint", option], "trailing") == ["trailing-sleep"]
    assert completed(["lint", option], "A101,trailing") == ["A101,trailing-sleep"]
    assert completed(["lint", option], "GPUO") == ["GPUOversubscription"]
    assert completed(["lint", option], "A10")[0] == "A101"


@pytest.mark.parametrize("form", ["sarif"])
def test_choices_are_completed(form: str) -> None:
    assert completed(["lint", "--format"], form[:2]) == [form]
