"""What MkDocs does with a page before it draws it (mkdocs.yml, `make docs`).

The pages are read in the repository as well, where a link may lead to a source file. The site has no source files:
there such a link becomes its text.
"""

import posixpath
import re
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The page's text, in which no link leads out of docs/. page: MkDocs' Page."""
    return within_docs(markdown, page.file.src_uri)


def within_docs(markdown: str, path: str) -> str:
    """The text without links that leave docs/; path: the page's own, from docs/."""
    return LINK.sub(lambda found: found[1] if leaves_docs(path, found[2]) else found[0], markdown)


def leaves_docs(path: str, target: str) -> bool:
    """Whether a relative link on the page leads to another part of the repository."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), target)).split("/")[0] != "docs"
