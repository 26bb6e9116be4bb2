"""Every page has its place in the site's navigation, and every link of a page leads somewhere.

`make docs` has MkDocs check the same; these tests need neither MkDocs nor the network.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.site_links import leaves_docs, within_docs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)


def listed(entry: Any) -> Iterator[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from listed(below)


def test_every_page_has_one_place_in_the_navigation() -> None:
    navigation = list(listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(navigation) == PAGES


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as both GitHub and MkDocs make them of plain headings."""
    names = []
    for heading in HEADING.findall(FENCE.sub("", path.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        text = unicodedata.normalize("NFKD", text).lower()
        names.append(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip()))
    return frozenset(names)


@pytest.mark.parametrize("page", ["../README.md", "../CONTRIBUTING.md", *PAGES])
def test_every_link_leads_somewhere(page: str) -> None:
    here = DOCS / page
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", here.read_text()))):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        found = here.parent / name if name else here
        assert found.is_file() or (found.is_dir() and leaves_docs(page, name)), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


def test_the_site_has_no_link_to_a_source_file() -> None:
    text = "[a](lint.md#x) [b](../pyproject.toml) [c](../../docs/lint.md) [d](https://example.com/../x) ![e](../e.png)"
    expected = text.replace("[b](../pyproject.toml)", "b").replace("[c](../../docs/lint.md)", "c")
    assert within_docs(text, "policy.md") == expected
    assert within_docs("[c](../../README.md) [d](../lint.md)", "rules/README.md") == "c [d](../lint.md)"
