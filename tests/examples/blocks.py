"""The fenced blocks of the documentation that have no language: commands, what they print, and drawings.

A comment on the line before a block says how it is kept right. Readers do not see it.

    <!-- run -->                      tests/examples/test_commands.py runs it
    <!-- run in a cluster -->         e2e/scenarios/demo/test_demo.py runs it in the demo's cluster, page by page
    <!-- compared by PATH::TEST -->   this test reads the block from the page
    <!-- tried by PATH::TEST -->      this test does the same with names and addresses of its own
    <!-- not run: WHY -->             what it needs is not there
    <!-- no command -->               a drawing, or a part of a file
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"(?:^ *<!-- (?P<kind>run in a cluster|run|compared by|tried by|not run|no command)"
    r"(?:(?:: | )(?P<why>[^\n]+?))? -->\n)?"
    r"^(?P<fence> *```) *(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
FILE = re.compile(r"# ([\w-]+\.yaml)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. kind: the first words of the comment, empty without one; why: what follows them. span: of its text."""

    page: str
    line: int
    kind: str
    why: str
    language: str
    text: str
    span: tuple[int, int]

    def __str__(self) -> str:
        """Where it is."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """The pages that users read, from the root. Rules' pages show scripts alone, which the rules' own cases cover."""
    found = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    return ["README.md", "CONTRIBUTING.md", *sorted(str(path) for path in found if path.parts[1] != "rules")]


def blocks(page: str) -> Iterator[Block]:
    """All blocks of a page in their order, those with a language, too."""
    text = (ROOT / page).read_text()
    for found in BLOCK.finditer(text):
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("fence")) + 1,
            kind=found["kind"] or "",
            why=found["why"] or "",
            language=found["language"],
            text=found["text"],
            span=found.span("text"),
        )


def every_block() -> list[Block]:
    """The blocks of all pages."""
    return [block for page in pages() for block in blocks(page)]


def write_manifests(page: str, folder: Path) -> None:
    """The YAML of a page whose first line is a comment with a file's name, as files of that name."""
    for block in blocks(page):
        if block.language == "yaml" and (found := FILE.match(block.text)):
            (folder / found[1]).write_text(block.text)
