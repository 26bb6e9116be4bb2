"""`stoker resume` and `stoker snooze` without a cluster: clear errors. With one they are tried end to end."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stoker.cli import stoker
from stoker.cli.reclaim import _answer


@pytest.mark.parametrize("args", [["resume", "bert"], ["snooze", "bert", "--for", "4h"]])
def test_without_a_cluster_the_kubeconfig_is_named(args: list[str], tmp_path: Path) -> None:
    missing = tmp_path / "config"
    answer = CliRunner().invoke(stoker, [*args, "--kubeconfig", str(missing)])
    assert answer.exit_code == 1
    assert str(missing) in answer.output
    assert "Traceback" not in answer.output


@pytest.mark.parametrize("duration", ["", "4", "4 hours", "-1h", "1d"])
def test_a_duration_that_is_none_is_refused_with_an_example(duration: str) -> None:
    answer = CliRunner().invoke(stoker, ["snooze", "bert", "--for", duration])
    assert answer.exit_code == 2
    assert "1h30m" in answer.output


def test_the_controller_needs_to_know_where_the_metrics_are() -> None:
    answer = CliRunner().invoke(stoker, ["run", "controller"])
    assert answer.exit_code == 2
    assert "--prometheus-url" in answer.output


@pytest.mark.parametrize(
    "state, action, suspend, words",
    [
        ("Reclaimed", "Suspend", None, "resumes"),
        ("Reclaimed", "Suspend", True, "spec.suspend"),
        ("Warned", "Suspend", None, "not be reclaimed"),
        ("Active", None, None, "nothing to resume"),
        (None, None, None, "nothing to resume"),
    ],
)
def test_resume_says_what_it_does(state: str | None, action: str | None, suspend: bool | None, words: str) -> None:
    record = {"state": state, "action": action}
    assert words in _answer({"spec": {"suspend": suspend}, "status": {"reclaim": record}})


def test_a_job_that_was_deleted_is_not_resumed() -> None:
    with pytest.raises(click.ClickException, match="anew"):
        _answer({"spec": {}, "status": {"reclaim": {"state": "Reclaimed", "action": "Delete"}}})
