"""What commands have in common on the command line, so that who knows one knows the others."""

from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from stoker.cli import COMMANDS, stoker


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stoker, list(arguments), catch_exceptions=False)


def parsed(*arguments: str) -> dict[str, object]:
    """The parameters of a command, by their names."""
    command = stoker.get_command(click.Context(stoker), arguments[0])
    assert command is not None
    parameters = command.make_context(arguments[0], list(arguments[1:]), resilient_parsing=False).params
    return dict(parameters)


@pytest.mark.parametrize(
    "arguments, meant",
    [
        (["lnt"], "Did you mean 'lint'?"),
        (["diagnoze"], "Did you mean 'diagnose'?"),
        (["rules", "lst"], "Did you mean 'list'?"),
        (["run", "contoller"], "Did you mean 'controller'?"),
        (["report", "--form", "json"], "Did you mean"),
        (["lint", "--polcy", "x"], "Did you mean '--policy'?"),
        (["rules", "show", "launcher-to-few"], "did you mean launcher-too-few?"),
    ],
)
def test_what_is_misspelt_is_answered_with_what_was_meant(arguments: list[str], meant: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert meant in result.stderr


def test_what_resembles_nothing_is_answered_without_a_guess() -> None:
    result = run("xyzzy")
    assert (result.exit_code, "Did you mean" in result.stderr) == (2, False)
    assert "No such command 'xyzzy'" in result.stderr


@pytest.mark.parametrize("option", ["--since", "--from"])
@pytest.mark.parametrize("command", [["diagnose"], ["report"], ["replay", "--policy", "x"]])
def test_the_beginning_of_a_period_has_one_name_everywhere(command: list[str], option: str) -> None:
    where = ["--prometheus", "http://prometheus"]
    values = parsed(*command, *where, option, "2026-11-21T18:00:00Z", "--to", "2026-11-21T19:00:00Z")
    assert values["start"] == datetime.fromisoformat("2026-11-21T18:00:00Z")
    assert values["end"] == datetime.fromisoformat("2026-11-21T19:00:00Z")


@pytest.mark.parametrize("command", ["explain", "resume", "snooze", "diagnose", "report"])
def test_a_namespace_has_one_option_everywhere(command: str) -> None:
    found = stoker.get_command(click.Context(stoker), command)
    assert found is not None
    options = {option for parameter in found.params for option in parameter.opts}
    assert {"-n", "--namespace"} <= options
    assert set(COMMANDS) >= {command}


JOBS = "- {namespace: nlp, name: bert, pods: [bert-0], nodes: 1, gpusPerNode: 1}\n"


@pytest.mark.parametrize("chosen", [["gpt"], ["dljob/gpt"], ["jobset/gpt"], ["--job", "gpt"], ["gpt", "--job", "gpt"]])
def test_a_job_is_named_as_in_the_other_commands_or_by_an_option(tmp_path: Path, chosen: list[str]) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    result = run("diagnose", "--prometheus", "http://127.0.0.1:1", "--jobs", str(file), *chosen)
    assert result.exit_code == 2
    assert "holds no such job" in result.stderr


@pytest.mark.parametrize(
    "chosen, said",
    [
        (["bert", "--job", "gpt"], "name different jobs"),
        (["dljob/"], "is not the name of a job"),
        (["bert", "-A"], "cannot be combined with --namespace or JOB"),
        (["bert", "-l", "app=bert"], "JOB and --selector cannot be combined"),
    ],
)
def test_a_job_is_named_once(chosen: list[str], said: str) -> None:
    result = run("diagnose", "--prometheus", "http://127.0.0.1:1", *chosen)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("command", ["diagnose", "explain", "resume", "snooze"])
@pytest.mark.parametrize("written", ["bert", "dljob/bert", "dljobs/bert", "dljob.stoker.dev/bert"])
def test_every_command_reads_the_same_forms_of_a_job_and_its_cluster(command: str, written: str) -> None:
    where = ["--prometheus", "http://prometheus"] if command == "diagnose" else []
    values = parsed(command, *where, written, "-n", "nlp", "--kubeconfig", "a", "--context", "b")
    job = next(values[name] for name in ("jobs", "name", "job") if values.get(name))
    assert job in {"bert", ("bert",)}
    assert (values["namespace"], values["kubeconfig"], values["kube_context"]) == ("nlp", "a", "b")


@pytest.mark.parametrize("command", [["diagnose", "--prometheus", "http://p"], ["explain"], ["resume"], ["snooze"]])
@pytest.mark.parametrize("written", ["dljob/", "a/b/c", "b ert", "--/bert"])
def test_what_is_not_the_name_of_a_job_is_refused_with_an_example(command: list[str], written: str) -> None:
    result = run(*command, "--", written)
    assert result.exit_code == 2
    assert f"{written!r} is not the name of a" in result.stderr
    assert "write bert or dljob/bert" in result.stderr


def test_each_fault_of_a_policy_is_a_line_that_says_who_speaks(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: default}\n"
        "spec: {reclaim: {idleAfter: 1m, mode: Foo}}\n"
    )
    for command in (["lint"], ["replay", "--prometheus", "http://127.0.0.1:1"]):
        lines = run(*command, "--policy", str(policy)).stderr.splitlines()
        assert len(lines) == 2
        assert all(line.startswith(f"stoker: {policy}:4: spec.reclaim.") for line in lines)
