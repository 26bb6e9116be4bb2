"""Every dependency that pyproject.toml declares for users is imported by the package, and nothing else is."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "src" / "stoker"

PARTS_OF = {"pydantic-core": "pydantic", "yarl": "aiohttp", "markupsafe": "jinja2"}
"""Distributions whose types are part of another's interface and come with it."""


def distribution(requirement: str) -> str:
    """The normalized name in a requirement such as `pydantic>=2.12`."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {distribution(one) for one in (*project["dependencies"], *project["optional-dependencies"]["report"])}


def imported() -> set[str]:
    modules: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(str(node.module).partition(".")[0])
    providers = packages_distributions()
    foreign = modules - set(sys.stdlib_module_names) - {"stoker"}
    return {PARTS_OF.get(distribution(name), distribution(name)) for module in foreign for name in providers[module]}


def test_what_is_declared_is_what_is_imported() -> None:
    assert declared() == imported()
