"""`stoker replay`: its options, its errors, and what it prints of a replay."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from stoker.adapters.terminal import Terminal
from stoker.cli import replay as replay_command
from stoker.cli import stoker
from stoker.lint.files.policies import load
from stoker.reclaim import GATES, Reads
from stoker.replay.formats import json as as_json
from stoker.replay.formats import page, text
from tests.lint.test_formats import strict
from tests.replay.pasts import Story, at, rests
from tests.replay.test_summary import STORIES, stated

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/replay-v1.json").read_text())
HOSTILE = "<script>alert(1)</script>\x1b[31m"


def run(*arguments: str) -> Result:
    options = ["--prometheus", "http://127.0.0.1:1", *arguments]
    return CliRunner().invoke(stoker, ["replay", *options], catch_exceptions=False)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text("apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: default}\nspec: {}\n")
    return str(path)


def test_a_policy_that_the_cluster_would_refuse_is_named_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: default}\n"
        "spec:\n  reclaim:\n    idleAfter: 5m\n"
    )
    result = run("--policy", str(path))
    assert result.exit_code == 2
    assert f"{path}:6" in result.stderr
    assert "spec.reclaim.idleAfter" in result.stderr
    assert "10m" in result.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--since", "400d"), "at most 90 days"),
        (("--since", "10m"), "at least 1 hour"),
        (("--since", "soon"), "is not a time"),
        (("--step", "5m"), "from 10s to 60s"),
        (("--mode", "Observe"), "is not one of 'Suspend', 'Delete'"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: Sequence[str], words: str, policy: str) -> None:
    result = run("--policy", policy, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_without_a_policy_there_is_nothing_to_replay() -> None:
    result = run()
    assert result.exit_code == 2
    assert "--policy" in result.stderr


def test_a_policy_alone_that_selects_namespaces_is_said_to_be_replayed_in_all(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "apiVersion: stoker.dev/v1alpha1\nkind: UtilizationPolicy\nmetadata: {name: research}\n"
        "spec: {namespaceSelector: {matchLabels: {team: research}}}\n"
    )
    (said,) = replay_command._everywhere(load([str(path)], at(0)))
    assert "research is replayed in all namespaces" in said


async def test_the_json_is_what_its_schema_describes_and_nothing_else() -> None:
    document = as_json.document(await stated(), at(24))
    Draft202012Validator(strict(SCHEMA)).validate(json.loads(json.dumps(document)))


def test_every_gate_that_may_hold_a_job_back_has_its_words() -> None:
    from stoker.replay.formats.words import held_back

    unseen = {"touchable", "gpus", "not-snoozed", "pods-ready", "all-idle", "same-pods", "suspendable", "warned"}
    unseen |= {"response-recorded", "intent-settled"} | {gate.name for gate in GATES if gate.reads & Reads.PROCESS}
    assert [gate.name for gate in GATES if gate.name not in unseen and held_back(gate.name) == gate.name] == []


async def test_the_terminal_names_each_regret_and_what_was_left_alone() -> None:
    shown = text.render(await stated(), Terminal())
    assert "2 reclaims would have given back" in shown
    assert "1 job worked again afterwards" in shown
    assert "after 4 h 45 min" in shown
    assert "warned, and within the grace" in shown
    assert "Assumed" in shown


async def test_nothing_to_reclaim_is_said_so() -> None:
    shown = text.render(await stated(stories=STORIES[2:3]), Terminal())
    assert "Nothing would have been reclaimed" in shown


async def test_the_page_proposes_an_idle_after_for_each_type_and_owner() -> None:
    often = [Story(name=f"left-{n}", utilization=rests((10, 24)), end=20, owner="mina") for n in range(20)]
    asked = Story(name="asked", utilization=rests((4, 6), (10, 15)), owner="jonas", job_type="Serving")
    shown = page.render(await stated(stories=[*often, asked]), at(24))
    rows = {match[1]: match[0] for match in re.finditer(r"<tr><th scope=.row.>\w+<small>(\w+)</small>.*?</tr>", shown)}
    assert re.findall(r">([^<>]+)</td>", rows["mina"]) == ["20", *["0 of 20"] * 5, "-", "-", "30m"]
    assert re.findall(r">([^<>]+)</td>", rows["jonas"]) == ["1", *["2 of 2"] * 3, "1 of 1", *["-"] * 3, "not known"]
    assert '<th scope="col" class="n">30m or more</th>' in shown


async def test_without_rests_the_page_has_no_table_of_them() -> None:
    shown = page.render(await stated(stories=[Story(name="busy", utilization=rests())]), at(24))
    assert "ended in work" not in shown


async def test_hostile_names_are_text_on_the_page_and_harmless_on_the_terminal() -> None:
    summary = await stated(stories=[Story(name="left", utilization=rests((10, 24)), owner=HOSTILE)])
    shown = page.render(summary, at(24))
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "\x1b" not in text.render(summary, Terminal())
