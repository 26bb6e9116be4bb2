"""What README.md tells people to type is taken."""

import re
import shlex
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from stoker import __version__
from stoker.api.dljob import DLJob
from stoker.lint.messages import denial
from stoker.lint.review import review
from stoker.policy.effective import BUILT_IN

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_helm_line_installs_the_charts_own_values() -> None:
    (block,) = (one for one in blocks() if "helm install" in one)
    words = shlex.split(block.replace("\\\n", " ").split("helm install")[1])
    assert (ROOT / words[1] / "Chart.yaml").exists()
    values: Any = yaml.safe_load((ROOT / words[1] / "values.yaml").read_text())
    settings = [words[place + 1].partition("=")[0] for place, word in enumerate(words) if word == "--set"]
    assert settings == ["image.repository", "prometheus.url"]
    for setting in settings:
        known = values
        for key in setting.split("."):
            assert key in known
            known = known[key]
    assert f":{__version__}" in block


def test_the_shown_refusal_is_what_the_webhook_answers() -> None:
    (manifest,) = (
        block for block in blocks() if block.startswith("apiVersion: stoker.dev/") and "kind: DLJob" in block
    )
    (shown,) = (block for block in blocks() if block.startswith("$ kubectl apply -f bert.yaml\n"))
    job = DLJob.model_validate({"metadata": {"namespace": "nlp"}} | yaml.safe_load(manifest))
    refused = denial(job.name, review(job, BUILT_IN, now=datetime(2026, 11, 21, tzinfo=UTC)))
    said = refused.message.partition(" is invalid: ")[2]
    assert shown.partition("\n")[2] == f'The DLJob "{job.name}" is invalid: {said}\n'


def test_the_shown_diagnosis_is_that_of_its_page() -> None:
    """tests/cli/test_diagnose_page.py compares the page with the command; here some of its lines are left out."""
    page = (ROOT / "docs/diagnose.md").read_text().splitlines()
    (shown,) = (block for block in blocks() if block.startswith("$ stoker diagnose"))
    assert [line for line in shown.splitlines()[1:] if line not in page] == []


def test_what_is_installed_by_name_is_in_the_checkout() -> None:
    """No package of that name is published: whoever registered it would own its readers."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (block,) = (one for one in blocks() if "pipx install" in one)
    assert set(re.findall(r"install '?(\S+?)'? ", block)) == {".", ".[report]"}
    assert "report" in extras
    pages = [README, *(path.read_text() for path in (ROOT / "docs").glob("*.md"))]
    sources = [path.read_text() for path in (ROOT / "operator").rglob("*.py")]
    published = re.compile(r"pipx? install ['\"]?stoker(?:\[|['\"]|\s(?!@))")
    assert [text for text in (*pages, *sources) if published.search(text)] == []
