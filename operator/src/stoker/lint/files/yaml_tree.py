"""A YAML text as a tree of nodes: where each begins and ends, in which style it is written, what an alias stands for.

The one tree of positions: lint.files.manifests finds fields and lines in it, lint.fixes edits the text by it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

import yaml

Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

NodeKind = Literal["scalar", "mapping", "sequence", "alias"]

MAX_DEPTH = 200
"""Levels of a document; chosen because no manifest has them, and composing many more overflows the C parser's stack."""


class Mark(Protocol):
    """A position as the parser gives it: a character's offset, its line and its column, from 0."""

    index: int
    line: int
    column: int


class NestingError(Exception):
    """A text that is nested too deep; `line` is 1-based."""

    def __init__(self, line: int) -> None:
        super().__init__(f"nested more than {MAX_DEPTH} levels deep")
        self.line = line


@dataclass(slots=True, kw_only=True, eq=False)
class YamlNode:
    """One node of a text.

    start, end: character offsets; a collection in block style ends with its last item. first, last: the parser's marks
    of its begin and its end, which of a collection in block style is where the next node begins.
    style: of a scalar: "" (plain), "'", '"', "|" or ">". value: a scalar's text.
    marked: it has an anchor or a tag, or is an alias: to edit it might change another node or its type.
    flow: a collection in flow style. items: key and value of a mapping; of a sequence, None and the item.
    target: what an alias stands for; None of other nodes, and of an alias without an anchor.
    """

    kind: NodeKind
    start: int
    end: int
    first: Mark
    last: Mark
    style: str = ""
    value: str = ""
    marked: bool = False
    flow: bool = False
    items: list[tuple["YamlNode | None", "YamlNode"]] = field(default_factory=list)
    target: "YamlNode | None" = None

    @property
    def resolved(self) -> "YamlNode":
        """The node, or what it stands for."""
        return self.target or self

    def child(self, part: str | int) -> tuple[int, "YamlNode"] | None:
        """The number and the value of an item: by key, by index, or by the `name` that a sequence's item has."""
        for number, (key, value) in enumerate(self.items):
            if key is not None:
                if key.kind == "scalar" and key.value == str(part):
                    return number, value
            elif number == part:
                return number, value
            elif isinstance(part, str) and value.resolved.kind == "mapping":
                name = value.resolved.child("name")
                if name is not None and name[1].resolved.kind == "scalar" and name[1].resolved.value == part:
                    return number, value
        return None

    def children(self) -> Iterator["YamlNode"]:
        """Its keys and values, or its items, in their order; an alias has none."""
        for key, value in self.items:
            if key is not None:
                yield key
            yield value

    def walk(self) -> Iterator["YamlNode"]:
        """This node and all under it."""
        yield self
        for child in self.children():
            yield from child.walk()


def yaml_nodes(text: str) -> list[YamlNode]:
    """The documents of a text. Raises yaml.YAMLError for what is no YAML, NestingError for what is nested too deep."""
    roots: list[YamlNode] = []
    open_: list[YamlNode] = []
    keys: list[YamlNode | None] = []
    anchors: dict[str, YamlNode] = {}
    for event in yaml.parse(text, Loader=Parser):
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
        elif isinstance(event, yaml.CollectionEndEvent):
            keys.pop()
            _close(open_.pop(), event)
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, anchors)
            if not open_:
                roots.append(node)
            elif open_[-1].kind == "sequence":
                open_[-1].items.append((None, node))
            elif (key := keys[-1]) is None:
                keys[-1] = node
            else:
                open_[-1].items.append((key, node))
                keys[-1] = None
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(node)
                keys.append(None)
                if len(open_) > MAX_DEPTH:
                    raise NestingError(node.first.line + 1)
    return roots


def _close(node: YamlNode, event: yaml.CollectionEndEvent) -> None:
    """Set the end of a collection."""
    assert event.end_mark is not None
    node.last = event.end_mark
    node.end = node.last.index if node.flow else max((child.end for child in node.children()), default=node.start)


def _node(event: yaml.NodeEvent, anchors: dict[str, YamlNode]) -> YamlNode:
    """The node that begins with an event, which becomes its anchor's."""
    first, last = event.start_mark, event.end_mark
    assert first is not None
    assert last is not None
    node = YamlNode(kind="alias", start=first.index, end=last.index, first=first, last=last)
    if isinstance(event, yaml.AliasEvent):
        node.marked, node.target = True, anchors.get(event.anchor or "")
        return node
    node.marked = event.anchor is not None or getattr(event, "tag", None) is not None
    if isinstance(event, yaml.ScalarEvent):
        node.kind, node.style, node.value = "scalar", event.style or "", str(event.value)
    else:
        node.kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
        node.flow = bool(getattr(event, "flow_style", False))
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def split(text: str) -> list[str]:
    """The text cut in front of each `---`; whole where directives, which stand before it, are in use.

    Raises yaml.YAMLError for what is no YAML.
    """
    if re.search(r"^%", text, re.MULTILINE):
        return [text]
    starts = [event for event in yaml.parse(text, Loader=Parser) if isinstance(event, yaml.DocumentStartEvent)]
    cuts = [event.start_mark.index for event in starts if event.explicit and event.start_mark is not None]
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]


_NAMES = re.compile(r"[^.\[\]]+|\[[^\[\]]*\]")


def field_parts(field_path: str) -> list[str | int]:
    """`spec.env[0].name` as ["spec", "env", 0, "name"]; what is in brackets and no number is a name or a key."""
    parts: list[str | int] = []
    for name in _NAMES.findall(field_path):
        inside = name[1:-1] if name.startswith("[") else None
        is_number = inside is not None and inside.isdecimal() and len(inside) < 10
        parts.append(name if inside is None else int(inside) if is_number else inside)
    return parts


__all__ = ["MAX_DEPTH", "Parser", "NestingError", "YamlNode", "field_parts", "split", "yaml_nodes"]
