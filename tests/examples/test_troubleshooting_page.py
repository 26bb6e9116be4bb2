"""docs/troubleshooting.md quotes what the product prints: each text in a first column is in the sources."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stoker.api.crds import definitions
from stoker.findings.vocabulary import UnknownReason

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
OURS = re.compile(r"\| (?P<cell>`[^|]+?) \|", re.MULTILINE)
OTHERS = {"failed calling webhook"}
"""What kubectl and the API server print."""


def texts(tree: ast.Module) -> Iterator[str]:
    """The string constants of a module but its docstrings; a value within one is a gap, as `...` is on the page."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "\N{HORIZONTAL ELLIPSIS}" for part in node.values
            )


@cache
def printed() -> str:
    """All that the product's sources and definitions may print."""
    sources = (ROOT / "operator/src/stoker").rglob("*.py")
    return "\n".join([*(text for path in sources for text in texts(ast.parse(path.read_text()))), str(definitions())])


QUOTED = [
    text
    for line in PAGE.splitlines()
    if (row := OURS.match(line)) is not None
    for text in re.findall(r"`([^`]+)`", row["cell"])
    if text not in OTHERS
]


def test_the_page_quotes_enough_to_be_of_use() -> None:
    assert len(QUOTED) > 60


def test_every_reason_why_metrics_are_unknown_is_explained() -> None:
    assert [reason for reason in UnknownReason if reason not in QUOTED] == []


@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_is_printed(text: str) -> None:
    pattern = ".{0,80}?".join(re.escape(piece) for piece in text.split("..."))
    assert re.search(pattern, printed()), text
