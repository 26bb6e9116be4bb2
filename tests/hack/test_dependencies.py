"""Every dependency that pyproject.toml declares for users is imported by the package, and nothing else is."""

import ast
import re
import sys
import tomllib
from importlib import metadata
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
    extras = project["optional-dependencies"]
    return {distribution(one) for one in (*project["dependencies"], *extras["report"], *extras["traces"])}


def modules_of(name: str) -> set[str]:
    """The modules at the top that a distribution installs; its name, where it is not installed."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        return {name}
    return {file.parts[0].partition(".")[0] for file in files if file.suffix in {".py", ".so"}}


def imported() -> set[str]:
    """What the package imports from outside the standard library, by its first name."""
    modules: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(str(node.module).partition(".")[0])
    return modules - set(sys.stdlib_module_names) - {"stoker"}


def test_every_declared_dependency_is_imported() -> None:
    modules = imported()
    assert [name for name in sorted(declared()) if not modules & modules_of(name)] == []


def test_every_import_is_of_a_declared_dependency() -> None:
    parts = {part for part, whole in PARTS_OF.items() if whole in declared()}
    assert imported() - {module for name in declared() | parts for module in modules_of(name)} == set()
