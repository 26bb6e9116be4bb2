"""Parses the API server's JSON with bounded nesting. Used by the client and by kopf's sessions.

The API server stores custom resources that are nested thousands of levels deep. Python's parsers fail on them, and
recursive code (kopf, copies, models) fails at much lower depths. So values deeper than MAX_DEPTH are replaced by null
before the JSON is parsed. The object itself stays readable, and a fault in it can be reported.
"""

import re
from typing import Any

import orjson

MAX_DEPTH = 128
"""Levels that are read. Chosen above the hundred levels that Stoker accepts; Kubernetes' own objects have about twenty.
"""
_STRING = re.compile(rb'"[^"]*"')
_TOKEN = re.compile(rb'"[^"]*"|[\[\]{}]')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"[]", b"{}")


def loads(content: bytes) -> Any:
    """Parse JSON. Values deeper than MAX_DEPTH become null. Raises ValueError for invalid JSON."""
    return orjson.loads(shallow(content))


def shallow(content: bytes, limit: int = MAX_DEPTH) -> bytes:
    """The same JSON with null in place of values deeper than `limit` levels. Invalid JSON stays invalid."""
    if not is_deeper(content, limit):
        return content
    masked = _without_escapes(content)
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(masked):
        match masked[token.start()]:
            case 0x5B | 0x7B:
                depth += 1
                if depth == limit + 1:
                    kept += (content[start : token.start()], b"null")
            case 0x5D | 0x7D:
                if depth == limit + 1:
                    start = token.end()
                depth -= 1
    return b"".join((*kept, content[start:])) if depth == 0 else content


def is_deeper(content: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether JSON is nested deeper than `limit` levels. Called for every object, so it has no loop over bytes."""
    if content.count(b"{") + content.count(b"[") <= limit:
        return False
    brackets = _STRING.sub(b"", _without_escapes(content)).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(limit):
        # Remove the innermost level: its brackets are pairs with nothing in between.
        fewer = brackets.replace(b"{}", b"")
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return bool(brackets)


def _without_escapes(content: bytes) -> bytes:
    """Mask escapes, keeping the length and all offsets. In the result every quotation mark begins or ends a string."""
    return content.replace(b"\\\\", b"__").replace(b'\\"', b"__")
