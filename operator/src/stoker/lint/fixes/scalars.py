"""Turns edits of a YAML scalar's value into edits of the file, for each style that a scalar is written in.

Used by lint.fixes.apply.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from stoker.lint.files.yaml_tree import YamlNode

BREAK = r"(?:\r\n|\r(?!\n)|[\n\x85])"
"""A line break; no text is a number of breaks in two ways."""
_FOLD = re.compile(rf"[ \t]*{BREAK}(?:[ \t]*{BREAK})*[ \t]*")
_BLANKS = re.compile(r"[ \t]+")
_ESCAPE = re.compile(rf"\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|{BREAK}[ \t]*|.)", re.DOTALL)

Replacement = tuple[int, int, str]
"""Characters start..end of the file, and what takes their node."""

Unit = tuple[int, int, int]
"""Characters of the value that can only be edited together: their number, and where they begin and end in the file."""


class NotApplicableError(Exception):
    """A change that cannot be made in this text as it is written; the message says why."""


def rewritten(text: str, node: YamlNode, edits: Sequence[Replacement], newline: str) -> list[Replacement]:
    """The edits of a scalar's value (offsets into the value) as edits of the file.

    Optimistic: who applies them checks that the scalar then holds what it should.
    Raises NotApplicableError where an edit cuts a fold, or needs quotes.
    """
    if node.style == "|":
        return _lines(text, node, edits, newline)
    left, right = _boundaries(_units(text, node))
    margin = _margin(text, node)
    found: list[Replacement] = []
    for start, end, new in edits:
        if start not in right or end not in left:
            raise NotApplicableError("it cuts through a folded line")
        begin = left[start] if start == end else right[start]
        found.append((begin, left[end], _encoded(new, node.style, f"{newline}{newline}{margin}")))
    return found


def _encoded(text: str, style: str, new_line: str) -> str:
    """The characters of a value as a style writes them; new_line: the empty line that stands for a break in a fold."""
    if style == '"':
        return json.dumps(text, ensure_ascii=False)[1:-1]
    if "\t" in text and not style:
        raise NotApplicableError("a tab needs quotes")  # some parsers refuse it in a plain text
    return (text.replace("'", "''") if style == "'" else text).replace("\n", new_line)


def _margin(text: str, node: YamlNode) -> str:
    """The indent of a scalar's further lines."""
    further = re.search(rf"{BREAK}([ ]*)[^ \t\n\r\x85]", text[node.start : node.end])
    if further is not None:
        return further[1]
    line = max(text.rfind(mark, 0, node.start) for mark in "\n\r\x85") + 1
    return " " * (len(text[line : node.start]) - len(text[line : node.start].lstrip(" ")) + 2)


def _boundaries(units: Sequence[Unit]) -> tuple[dict[int, int], dict[int, int]]:
    """By offset into the value: where the unit before it ends in the file, and where the one after it begins."""
    left: dict[int, int] = {}
    right: dict[int, int] = {}
    offset = 0
    for length, start, end in units:
        right[offset] = start
        left.setdefault(offset, start)
        if not length:  # an escaped line break
            continue
        offset += length
        left[offset] = end
        right.setdefault(offset, end)
    return left, right


def _units(text: str, node: YamlNode) -> list[Unit]:
    if node.style == ">":
        return _folded_units(text, node)
    quotes = 1 if node.style else 0
    position, limit = node.start + quotes, node.end - quotes
    units: list[Unit] = []
    while position < limit:
        blanks = _BLANKS.match(text, position, limit)
        fold = _FOLD.match(text, position, limit) if blanks is None or text[blanks.end()] in "\n\r\x85" else None
        if fold is None and blanks is not None:
            units += [(1, index, index + 1) for index in range(position, blanks.end())]
            position = blanks.end()
            continue
        escape = _ESCAPE.match(text, position, limit) if node.style == '"' else None
        if fold is not None:
            breaks = len(re.findall(BREAK, fold[0]))
            length, end = max(breaks - 1, 1), fold.end()
        elif escape is not None:
            length, end = int(re.match(BREAK, escape[0][1:]) is None), escape.end()
        elif node.style == "'" and text.startswith("''", position):
            length, end = 1, position + 2
        else:
            length, end = 1, position + 1
        units.append((length, position, end))
        position = end
    return units or [(0, position, position)]


def _folded_units(text: str, node: YamlNode) -> list[Unit]:
    """Line by line: between two lines stands what the value has there."""
    units: list[Unit] = []
    offset, ended = 0, None
    for start, line in _block(text, node):
        if not line.strip(" "):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if not units:
            base = indent
        content = line[base:]
        if ended is not None:
            gap = node.value.find(content, offset) - offset
            if gap < 1 or node.value[offset : offset + gap].strip("\n ") != "":
                raise NotApplicableError("its lines are folded")
            units.append((gap, ended, start + base))
            offset += gap
        if not node.value.startswith(content, offset):
            raise NotApplicableError("its lines are folded")
        units += [(1, start + base + index, start + base + index + 1) for index in range(len(content))]
        offset += len(content)
        ended = start + len(line)
    return units or [(0, node.end, node.end)]


def _block(text: str, node: YamlNode) -> list[tuple[int, str]]:
    """The lines of a block scalar under its header: where each begins, and its characters without the break."""
    position = node.start
    lines: list[tuple[int, str]] = []
    for match in re.finditer(rf"(.*?)({BREAK}|\Z)", text[node.start : node.end], re.DOTALL):
        lines.append((node.start + match.start(), match[1]))
        position = node.start + match.end()
        if position >= node.end:
            break
    return lines[1:]


def _lines(text: str, node: YamlNode, edits: Sequence[Replacement], newline: str) -> list[Replacement]:
    """A literal block: only the lines that change are written anew, with the block's indent."""
    written, old = _block(text, node), node.value.split("\n")
    indent = next((len(line) - len(value) for (_, line), value in zip(written, old, strict=False) if value), None)
    if indent is None or len(old) > len(written) + 1:
        raise NotApplicableError("its lines can't be told from their indent")
    starts = [*(start for start, _ in written), node.end]
    found: list[Replacement] = []
    for first, last, lines in _changed_lines(node.value, edits):
        if last >= len(starts):
            raise NotApplicableError("it would take the last line break away")
        block = "".join(f"{' ' * indent if line else ''}{line}{newline}" for line in lines)
        start, end = starts[first], starts[last]
        if end == len(text) and not text.endswith(("\n", "\r")):  # a last line without its break stays one
            start -= 0 if block else len(newline)
            block = block.removesuffix(newline)
        found.append((start, end, block))
    return found


def _changed_lines(value: str, edits: Sequence[Replacement]) -> Iterator[tuple[int, int, list[str]]]:
    """Lines first..last (0-based, end exclusive) of a text, and the lines that take their node."""
    breaks = [index for index, character in enumerate(value) if character == "\n"]
    begins = [0, *(index + 1 for index in breaks)]
    groups: list[tuple[int, int, list[Replacement]]] = []
    for edit in sorted(edits):
        first, last = bisect_right(begins, edit[0]) - 1, bisect_right(begins, edit[1]) - 1
        if groups and first <= groups[-1][1]:
            groups[-1] = (groups[-1][0], max(last, groups[-1][1]), [*groups[-1][2], edit])
        else:
            groups.append((first, last, [edit]))
    for first, last, group in groups:
        begin, end = begins[first], begins[last + 1] - 1 if last + 1 < len(begins) else len(value)
        new = value[begin:end]
        for start, stop, what in reversed(group):
            new = f"{new[: start - begin]}{what}{new[stop - begin :]}"
        before, after = value[begin:end].split("\n"), new.split("\n")
        if last == len(breaks) and before[-1] == "" and after[-1] == "":  # behind the last break stands no line
            before, after = before[:-1], after[:-1]
        same = next((n for n, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
        head = min(len(before), len(after)) if same is None else same
        tail = 0
        while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
            tail += 1
        yield first + head, first + len(before) - tail, after[head : len(after) - tail]


__all__ = ["BREAK", "NotApplicableError", "Replacement", "rewritten"]
