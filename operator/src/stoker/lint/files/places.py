"""A YAML text as a tree of places: where each node begins and ends, what is shared, in which style it is written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import yaml

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Kind = Literal["scalar", "mapping", "sequence", "alias"]


@dataclass(slots=True, kw_only=True)
class Place:
    """One node of a text. start, end: character offsets; a collection in block style ends with its last item.

    style: of a scalar: "" (plain), "'", '"', "|" or ">". value: a scalar's text.
    marked: it has an anchor or a tag, or is an alias: to edit it might change another place or its type.
    items: key and value of a mapping; of a sequence, None and the item.
    """

    kind: Kind
    start: int
    end: int
    style: str = ""
    value: str = ""
    marked: bool = False
    flow: bool = False
    items: list[tuple["Place | None", "Place"]] = field(default_factory=list)

    def child(self, part: str | int) -> tuple[int, "Place"] | None:
        """The number and the value of an item: by key, by index, or by the `name` that a sequence's item has."""
        for number, (key, value) in enumerate(self.items):
            if key is not None:
                if key.kind == "scalar" and key.value == str(part):
                    return number, value
            elif number == part:
                return number, value
            elif isinstance(part, str) and value.kind == "mapping":
                name = value.child("name")
                if name is not None and name[1].kind == "scalar" and name[1].value == part:
                    return number, value
        return None

    def walk(self) -> Iterator["Place"]:
        """This place and all under it."""
        yield self
        for key, value in self.items:
            if key is not None:
                yield from key.walk()
            yield from value.walk()


def places(text: str) -> list[Place]:
    """The documents of a text. Raises yaml.YAMLError for what is no YAML."""
    roots: list[Place] = []
    open_: list[Place] = []
    pending: list[Place | None] = []
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            place = open_.pop()
            pending.pop()
            if place.flow:
                place.end = _extent(event)[1]
            else:
                place.end = max((value.end for _, value in place.items), default=place.start)
        elif isinstance(event, yaml.NodeEvent):
            place = _place(event)
        else:
            continue
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(place)
            pending.append(None)
            continue
        if not open_:
            roots.append(place)
        elif open_[-1].kind == "sequence":
            open_[-1].items.append((None, place))
        elif (key := pending[-1]) is None:
            pending[-1] = place
        else:
            open_[-1].items.append((key, place))
            pending[-1] = None
    return roots


def split(text: str) -> list[str]:
    """The text cut in front of each `---`; whole where directives, which stand before it, are in use.

    Raises yaml.YAMLError for what is no YAML.
    """
    if re.search(r"^%", text, re.MULTILINE):
        return [text]
    starts = [event for event in yaml.parse(text, Loader=Loader) if isinstance(event, yaml.DocumentStartEvent)]
    cuts = [_extent(event)[0] for event in starts if event.explicit]
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


def _extent(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


def _place(event: yaml.NodeEvent) -> Place:
    start, end = _extent(event)
    if isinstance(event, yaml.AliasEvent):
        return Place(kind="alias", start=start, end=end, marked=True)
    marked = event.anchor is not None or getattr(event, "tag", None) is not None
    if isinstance(event, yaml.ScalarEvent):
        return Place(
            kind="scalar", start=start, end=end, style=event.style or "", value=str(event.value), marked=marked
        )
    kind: Kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
    return Place(kind=kind, start=start, end=end, marked=marked, flow=bool(getattr(event, "flow_style", False)))


__all__ = ["Place", "field_parts", "places", "split"]
