"""Edits inside a YAML scalar: which characters of the file a character of its value is, for each style."""

import json
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from stoker.cli.places import Place

BREAK = r"(?:\r\n|[\n\r\x85])"
_FOLD = re.compile(rf"[ \t]*{BREAK}(?:[ \t]*{BREAK})*[ \t]*")
_ESCAPE = re.compile(rf"\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|{BREAK}[ \t]*|.)", re.DOTALL)

Replacement = tuple[int, int, str]
"""Characters start..end of the file, and what takes their place."""

Unit = tuple[int, int, int]
"""Characters of the value that can only be edited together: their number, and where they begin and end in the file."""


class NotApplicableError(Exception):
    """A change that cannot be made in this text as it is written; the message says why."""


def rewritten(text: str, place: Place, edits: Sequence[Replacement], newline: str) -> list[Replacement]:
    """The edits of a scalar's value (offsets into the value) as edits of the file.

    Optimistic: who applies them checks that the scalar then holds what it should.
    Raises NotApplicableError where an edit cuts a fold or needs a line that the style cannot hold.
    """
    if place.style == "|":
        return _lines(text, place, edits, newline)
    left, right = _boundaries(_units(text, place))
    found: list[Replacement] = []
    for start, end, new in edits:
        if start not in right or end not in left:
            raise NotApplicableError("it cuts through a folded line")
        begin = left[start] if start == end else right[start]
        found.append((begin, left[end], _encoded(new, place.style)))
    return found


def _encoded(text: str, style: str) -> str:
    if style == '"':
        return json.dumps(text, ensure_ascii=False)[1:-1]
    if "\n" in text:
        raise NotApplicableError("it needs a new line where the text is folded")
    return text.replace("'", "''") if style == "'" else text


def _boundaries(units: Sequence[Unit]) -> tuple[dict[int, int], dict[int, int]]:
    """By offset into the value: where the unit before it ends in the file, and where the one after it begins."""
    left: dict[int, int] = {}
    right: dict[int, int] = {}
    offset = 0
    for length, start, end in units:
        right[offset] = start
        left.setdefault(offset, start)
        offset += length
        left[offset] = end
        right.setdefault(offset, end)
    return left, right


def _units(text: str, place: Place) -> list[Unit]:
    if place.style == ">":
        return _folded_units(text, place)
    quotes = 1 if place.style else 0
    position, limit = place.start + quotes, place.end - quotes
    units: list[Unit] = [(0, position, position)]
    while position < limit:
        fold = _FOLD.match(text, position, limit)
        escape = _ESCAPE.match(text, position, limit) if place.style == '"' else None
        if fold is not None:
            breaks = len(re.findall(BREAK, fold[0]))
            length, end = max(breaks - 1, 1), fold.end()
        elif escape is not None:
            length, end = int(re.match(BREAK, escape[0][1:]) is None), escape.end()
        elif place.style == "'" and text.startswith("''", position):
            length, end = 1, position + 2
        else:
            length, end = 1, position + 1
        units.append((length, position, end))
        position = end
    return units


def _folded_units(text: str, place: Place) -> list[Unit]:
    """Line by line: between two lines stands what the value has there."""
    units: list[Unit] = []
    offset, ended = 0, None
    for start, line in _block(text, place):
        if not line.strip(" "):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if not units:
            base = indent
        content = line[base:]
        if ended is not None:
            gap = place.value.find(content, offset) - offset
            if gap < 1 or place.value[offset : offset + gap].strip("\n ") != "":
                raise NotApplicableError("its lines are folded")
            units.append((gap, ended, start + base))
            offset += gap
        if not place.value.startswith(content, offset):
            raise NotApplicableError("its lines are folded")
        units += [(1, start + base + index, start + base + index + 1) for index in range(len(content))]
        offset += len(content)
        ended = start + len(line)
    return units or [(0, place.end, place.end)]


def _block(text: str, place: Place) -> list[tuple[int, str]]:
    """The lines of a block scalar under its header: where each begins, and its characters without the break."""
    position = place.start
    lines: list[tuple[int, str]] = []
    for match in re.finditer(rf"(.*?)({BREAK}|\Z)", text[place.start : place.end], re.DOTALL):
        lines.append((place.start + match.start(), match[1]))
        position = place.start + match.end()
        if position >= place.end:
            break
    return lines[1:]


def _lines(text: str, place: Place, edits: Sequence[Replacement], newline: str) -> list[Replacement]:
    """A literal block: only the lines that change are written anew, with the block's indent."""
    old = place.value
    new = old
    for start, end, what in sorted(edits, reverse=True):
        new = f"{new[:start]}{what}{new[end:]}"
    written = _block(text, place)
    before, after = old.split("\n"), new.split("\n")
    if before[-1] == "" and after[-1] == "":
        before, after = before[:-1], after[:-1]
    indent = next((len(line) - len(value) for (_, line), value in zip(written, before, strict=False) if value), None)
    if indent is None or len(before) > len(written):
        raise NotApplicableError("its lines can't be told from their indent")
    ends = [start for start, _ in written[1:]] + [place.end]
    found: list[Replacement] = []
    for tag, first, last, begin, stop in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lines = "".join(f"{' ' * indent if line else ''}{line}{newline}" for line in after[begin:stop])
        start = written[first][0] if first < len(written) else place.end
        end = ends[last - 1] if last > first else start
        if end == len(text) and not text.endswith(("\n", "\r")):  # a last line without its break stays one
            start -= 0 if lines else len(newline)
            lines = lines.removesuffix(newline)
        found.append((start, end, lines))
    return found


__all__ = ["BREAK", "NotApplicableError", "Replacement", "rewritten"]
