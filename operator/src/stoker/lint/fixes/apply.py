"""Applies one proposed change to the text of a YAML or JSON file: everything else stays as it is, byte for byte.

Used by lint.fixes.fixer.
"""

import copy
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from stoker.findings.finding import Change, FieldEdit, TextEdit
from stoker.lint.files.manifests import InputError, Manifest, parse
from stoker.lint.files.yaml_tree import YamlNode, field_parts
from stoker.lint.fixes.scalars import BREAK, NotApplicableError, Replacement, rewritten

Parts = list[str | int]

APPEND = ""
"""The last part of a path that ends in `[]`."""


def apply(text: str, manifest: Manifest, change: Change) -> str:
    """The text with a change made in one of its documents (`manifest`, as parsed from this very text).

    Raises NotApplicableError where it cannot be made in place, or where the result would hold anything else than the
    document before with the change: an anchor or an alias on the way, a fold that an edit would cut, a field that
    holds another text than the rule has seen.
    """
    newline = match[0] if (match := re.search(BREAK, text)) else "\n"
    for edit in _grouped(change):
        value = copy.deepcopy(manifest.value)
        expected = _expected_text(value, edit) if isinstance(edit, list) else _expected_field(value, edit)
        for candidate in _candidates(text, manifest, edit, newline):
            after = _parsed(candidate)
            if after is not None and _holds(text, manifest, after, expected):
                text, manifest = candidate, after[manifest.document]
                break
        else:
            raise NotApplicableError("the text can't be edited safely")
    return text


def _grouped(change: Change) -> Iterable[list[TextEdit] | FieldEdit]:
    """The edits of one text together, since their offsets count in the same one; then the fields, in order."""
    texts: dict[str, list[TextEdit]] = {}
    for edit in change.edits:
        if isinstance(edit, TextEdit):
            texts.setdefault(edit.field_path, []).append(edit)
    yield from texts.values()
    yield from (edit for edit in change.edits if isinstance(edit, FieldEdit))


def _parsed(text: str) -> list[Manifest] | None:
    try:
        return parse(text, "")
    except InputError:
        return None


def _holds(text: str, manifest: Manifest, after: Sequence[Manifest], expected: Any) -> bool:
    """Whether the documents are what they were, but for the one, which is as expected.

    By their representation, for which 1, 1.0 and true differ and a mapping's order counts.
    """
    before = [one.value for one in parse(text, "")]
    before[manifest.document] = expected
    return [repr(one.value) for one in after] == [repr(value) for value in before]


# What the document should hold afterwards.


def _expected_text(document: Any, edits: list[TextEdit]) -> Any:
    parts = field_parts(edits[0].field_path)
    held = _value(document, parts)
    if not isinstance(held, str) or any(edit.source != held for edit in edits):
        raise NotApplicableError("the field holds another text")
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        held = f"{held[: edit.start]}{edit.text}{held[edit.end :]}"
    _value(document, parts[:-1])[_key(document, parts)] = held
    return document


def _expected_field(document: Any, edit: FieldEdit) -> Any:
    parts = _path(edit)
    if edit.value is None:
        holder: Any = []
        while holder == [] and parts:  # an empty list says the same as none
            holder = _value(document, parts[:-1])
            del holder[_key(document, parts)]
            parts = parts[:-1]
        return document
    holder, rest = _deepest(document, parts)
    _put(holder, rest, edit.value)
    return document


def _deepest(document: Any, parts: Parts) -> tuple[Any, Parts]:
    """The deepest collection on the way to a field, and the rest of the way, at least one part."""
    for index, part in enumerate(parts[:-1]):
        try:
            below = _value(document, [part])
        except NotApplicableError:
            return document, parts[index:]
        document = below
    return document, parts[-1:]


def _put(holder: Any, rest: Parts, value: Any) -> None:
    if rest == [APPEND] and isinstance(holder, list):
        holder.append(value)
    elif isinstance(holder, list) and len(rest) == 1:
        holder[_key(holder, rest)] = value
    elif isinstance(holder, dict) and APPEND not in rest[:-1] and not any(isinstance(part, int) for part in rest):
        holder[rest[0]] = _nested(rest[1:], value)
    else:
        raise NotApplicableError("there is no such field")


def _nested(rest: Parts, value: Any) -> Any:
    for part in reversed(rest):
        value = [value] if part == APPEND else {part: value}
    return value


def _value(document: Any, parts: Parts) -> Any:
    for part in parts:
        document = document[_key(document, [part])]
    return document


def _key(document: Any, parts: Parts) -> Any:
    """The key or index that the last part of a path stands for in its collection."""
    holder, part = _value(document, parts[:-1]), parts[-1]
    if isinstance(holder, dict) and str(part) in holder:
        return str(part)
    if isinstance(holder, list) and isinstance(part, int) and part < len(holder):
        return part
    if isinstance(holder, list):
        for index, item in enumerate(holder):
            if isinstance(item, dict) and part != APPEND and item.get("name") == part:
                return index
    raise NotApplicableError("there is no such field")


def _path(edit: FieldEdit) -> Parts:
    if edit.field_path.endswith("[]"):
        return [*field_parts(edit.field_path[:-2]), APPEND]
    return field_parts(edit.field_path)


# How that can be written.


def _candidates(text: str, manifest: Manifest, edit: list[TextEdit] | FieldEdit, newline: str) -> Iterable[str]:
    """Ways to write an edit, the best first."""
    root = manifest.node
    if isinstance(edit, list):
        field = _unshared(_way(root, field_parts(edit[0].field_path)))[-1]
        yield from _scalar(text, field, [(one.start, one.end, one.text) for one in edit], newline)
        return
    parts = _path(edit)
    way = _unshared(_way(root, parts, partial=edit.value is not None))
    if edit.value is None:
        yield _removed(text, way, parts)
    elif len(way) == len(parts) + 1:
        node = way[-1]
        if node.kind == "scalar" and isinstance(edit.value, str) and node.start < node.end:
            yield from _scalar(text, node, [(0, len(node.value), edit.value)], newline)
        elif node.kind == "scalar" and node.style != "|":
            written = json.dumps(edit.value)
            yield _replaced(text, [(node.start, node.end, written if node.end > node.start else f" {written}")])
    else:
        rest = parts[len(way) - 1 :]
        value = _nested(rest[1:], edit.value)
        yield _inserted(text, way[-1], None if rest[0] == APPEND else str(rest[0]), value, newline)


def _way(root: YamlNode, parts: Parts, *, partial: bool = False) -> list[YamlNode]:
    """The nodes from the document's to a field's; partial: as far as there are any."""
    way = [root]
    for part in parts:
        found = None if part == APPEND else way[-1].child(part)
        if found is None:
            if partial and way[-1].kind in ("mapping", "sequence"):
                return way
            raise NotApplicableError("there is no such field in the text")
        way.append(found[1])
    return way


def _unshared(way: list[YamlNode]) -> list[YamlNode]:
    if any(node.marked for node in way):
        raise NotApplicableError("it is behind an anchor, an alias or a tag")
    return way


def _scalar(text: str, node: YamlNode, edits: Sequence[Replacement], newline: str) -> Iterable[str]:
    if node.kind != "scalar":
        raise NotApplicableError("the field is not a text")
    quotable = node.style not in ("|", ">") and not re.search(BREAK, text[node.start : node.end])
    try:
        yield _replaced(text, rewritten(text, node, edits, newline))
    except NotApplicableError:
        if not quotable:
            raise
    if quotable:
        value = node.value
        for start, end, new in sorted(edits, reverse=True):
            value = f"{value[:start]}{new}{value[end:]}"
        yield _replaced(text, [(node.start, node.end, json.dumps(value, ensure_ascii=False))])


def _replaced(text: str, replacements: Iterable[Replacement]) -> str:
    for start, end, new in sorted(replacements, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


def _removed(text: str, way: Sequence[YamlNode], parts: Parts) -> str:
    *above, holder, _ = way
    found = holder.child(parts[-1])
    assert found is not None
    number, value = found
    if len(holder.items) == 1 and above and holder.kind == "sequence":
        return _removed(text, way[:-1], parts[:-1])
    if len(holder.items) == 1:
        end = holder.end if holder.flow else _line_end(text, value.end)
        kept = "{}" if holder.flow or not above else f"{{}}{text[_trimmed(text, end) : end]}"
        return _replaced(text, [(holder.start, end, kept)])
    key = holder.items[number][0]
    start = key.start if key is not None else value.start if holder.flow else _dash(text, holder, number)
    following = holder.items[number + 1] if number + 1 < len(holder.items) else None
    if holder.flow:
        if following is not None:
            return _replaced(text, [(start, (following[0] or following[1]).start, "")])
        return _replaced(text, [(holder.items[number - 1][1].end, value.end, "")])
    line = _line_start(text, start)
    before = text[line:start]
    if not before.strip():
        return _replaced(text, [(line, _line_end(text, value.end), "")])
    if key is not None and following is not None and following[0] is not None:  # the first key of `- key: value`
        return _replaced(text, [(start, following[0].start, "")])
    raise NotApplicableError("it can't be taken out of its line")


def _dash(text: str, holder: YamlNode, number: int) -> int:
    """Where an item of a list in block style begins."""
    if number == 0:
        return holder.start
    position = _line_end(text, holder.items[number - 1][1].end)
    found = re.compile(rf"(?:[ \t]*(?:#[^\n\r\x85]*)?{BREAK})*[ \t]*-").match(text, position)
    if found is None:
        raise NotApplicableError("it can't be taken out of its line")
    return found.end() - 1


def _inserted(text: str, holder: YamlNode, key: str | None, value: Any, newline: str) -> str:
    """An item at the end of a collection."""
    if (key is None) != (holder.kind == "sequence"):
        raise NotApplicableError("there is no such field")
    if holder.flow:
        return _inserted_in_flow(text, holder, key, value)
    if not holder.items:
        raise NotApplicableError("there is no such field")
    first = holder.items[0][0]
    start = holder.start if first is None else first.start
    margin = text[_line_start(text, start) : start]
    if key is None and margin.strip():
        raise NotApplicableError("it can't be added to this list")
    lines = _dumped([value] if key is None else {key: value}).splitlines()
    block = "".join(f"{' ' * len(margin)}{line}{newline}" for line in lines)
    end = _line_end(text, holder.items[-1][1].end)
    if end and text[end - 1] not in "\r\n\x85":
        return f"{text[:end]}{newline}{block.removesuffix(newline)}{text[end:]}"
    return f"{text[:end]}{block}{text[end:]}"


def _inserted_in_flow(text: str, holder: YamlNode, key: str | None, value: Any) -> str:
    item = json.dumps(value, ensure_ascii=False)
    if key is not None:
        quoted = not holder.items or (first := holder.items[0][0]) is None or first.style == '"'
        item = f"{json.dumps(key) if quoted else key}: {item}"
    if not holder.items:
        return f"{text[: holder.start]}{text[holder.start]}{item}{text[holder.end - 1 :]}"
    last_key, last = holder.items[-1]
    start = (last_key or last).start
    margin = text[_line_start(text, start) : start]
    gap = f",{text[_line_break(text, start) : start]}" if not margin.strip() else ", "
    return f"{text[: last.end]}{gap}{item}{text[last.end :]}"


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False, allow_unicode=True, width=10_000)


def _line_start(text: str, position: int) -> int:
    return max(text.rfind(mark, 0, position) for mark in "\n\r\x85") + 1


def _line_break(text: str, position: int) -> int:
    """Where the break before the position's line begins."""
    start = _line_start(text, position)
    return start - 2 if text[max(start - 2, 0) : start] == "\r\n" else max(start - 1, 0)


def _line_end(text: str, position: int) -> int:
    """Where the next line begins; the position itself, where a block scalar has ended with its line."""
    if position and text[position - 1] in "\n\r\x85":
        return position
    found = re.compile(rf"[^\n\r\x85]*{BREAK}?").match(text, position)
    return found.end() if found else position


def _trimmed(text: str, end: int) -> int:
    """Where the break at the end of a line begins."""
    return len(text[:end].rstrip("\r\n\x85"))


__all__ = ["NotApplicableError", "apply"]
