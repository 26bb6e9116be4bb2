"""What README.md tells people to type is taken."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml

from stoker import __version__

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
