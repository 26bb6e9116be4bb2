"""Finds what no shell accepts in a script: a compound command that nothing ends, and a word that ends none.

The grammar refuses some scripts that shells accept. So a compound command counts as unended only where the grammar
refuses the script and, besides, its last word (`fi`, `done`, `esac`) comes too seldom. It takes words such as `fi` for
commands where they end nothing, which shells refuse.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node, Query, QueryCursor

from stoker.shell.interpreter.parsed_text import LANGUAGE

ENDS: Mapping[str, str] = {
    "if": "fi",
    "for": "done",
    "while": "done",
    "until": "done",
    "select": "done",
    "case": "esac",
}
"""The word that ends each compound command."""

STRAY = frozenset({*ENDS.values(), "then", "elif", "else", "do"})
"""Words that a shell takes for its own where a command begins, and that begin none."""

_LAST_WORD = re.compile(r"\b(?:fi|done|esac)\b")
_COMMANDS = Query(LANGUAGE, "(command_name . (word) @name .)")

_TEXTS = frozenset({"string", "raw_string", "ansi_c_string", "heredoc_body", "heredoc_content", "comment", "regex"})
"""Nodes in which words are text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """A compound command that nothing ends: where its first word stands, and the word that is missing."""

    node: Node
    word: str
    missing: str


def stray(root: Node) -> Node | None:
    """The first word that ends a compound command where there is none, in a text that the grammar accepts."""
    names = QueryCursor(_COMMANDS).captures(root).get("name", ())
    found = [node for node in names if _text(node) in STRAY]
    return min(found, key=lambda node: node.start_byte, default=None)


def unended(root: Node) -> Unended | None:
    """The last compound command that nothing ends, in a text that the grammar refuses; None where each is ended."""
    begun: list[tuple[Node, str]] = []
    for node in _leaves(root):
        word = _text(node)
        if word in ENDS and not node.is_named and not node.is_missing:
            begun.append((node, word))
    # In a text or a comment, too: rather one too many.
    ended = Counter(_LAST_WORD.findall(_text(root)))
    needed = Counter(ENDS[word] for _, word in begun)
    lacking = {word for word, count in needed.items() if count > ended[word]}
    return next(
        (Unended(node=node, word=word, missing=ENDS[word]) for node, word in reversed(begun) if ENDS[word] in lacking),
        None,
    )


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _leaves(root: Node) -> Iterator[Node]:
    """The tokens of a tree in their order, but for those inside texts."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _TEXTS:
            continue
        if node.child_count:
            stack.extend(reversed(node.children))
        else:
            yield node
