"""Job definitions as people write them: each with the one fault that its label names, or healthy.

They are modelled on public launch scripts, and were written before the rules were looked at, those of spellings.yaml
after it. A label names the rules that may speak of the fault, any of them; `healthy` means that nothing may be denied,
nor warned of.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stoker.cli.lint import lint

LABEL = "e2e.stoker.dev/expect"
HEALTHY = "healthy"
FILES = sorted(Path(__file__).parent.glob("*.yaml"))
ADVICE = "Advice"
LEAST_RECALL = 0.95


def labelled() -> dict[str, frozenset[str]]:
    """What is expected of each definition, by its name, which no two share."""
    found: dict[str, frozenset[str]] = {}
    for path in FILES:
        for document in yaml.safe_load_all(path.read_text()):
            name = document["metadata"]["name"]
            assert name not in found, f"two definitions are called {name}"
            found[name] = frozenset(document["metadata"]["annotations"][LABEL].split(" | "))
    return found


LABELS = labelled()
FAULTY = {name: rules for name, rules in LABELS.items() if HEALTHY not in rules}
SOUND = {name: rules for name, rules in LABELS.items() if HEALTHY in rules}


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """What lint's JSON says of each definition, by its name."""
    done = CliRunner().invoke(lint, ["--format", "json", *map(str, FILES)])
    files = json.loads(done.stdout)["files"]
    assert {file["name"] for file in files} == set(LABELS)
    return {file["name"]: file for file in files}


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_said_of_a_healthy_job(name: str, results: dict[str, dict[str, Any]]) -> None:
    """Advice aside, which asks for nothing."""
    findings = results[name]["findings"]
    assert {finding["rule"] for finding in findings if finding["severity"] != ADVICE} <= SOUND[name]


def test_nothing_healthy_is_denied(results: dict[str, dict[str, Any]]) -> None:
    assert [name for name in SOUND if results[name]["verdict"] == "deny"] == []


def test_nearly_all_faults_are_found(results: dict[str, dict[str, Any]]) -> None:
    spoken = {name: {finding["rule"] for finding in results[name]["findings"]} for name in FAULTY}
    missed = [name for name, expected in FAULTY.items() if not expected & spoken[name]]
    recall = 1 - len(missed) / len(FAULTY)
    print(f"{len(FAULTY)} faults, {recall:.1%} found; missed: {', '.join(missed) or 'none'}")  # noqa: T201 - the figure
    assert recall >= LEAST_RECALL, f"missed: {', '.join(missed)}"
