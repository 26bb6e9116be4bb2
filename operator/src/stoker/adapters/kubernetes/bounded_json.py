"""JSON of the API server, read so that no object's nesting can stop the process.

The API server stores custom resources that are nested thousands of levels deep. Python's parsers give up on those, and
what walks such an object recursively (kopf, copies, models) gives up far earlier. So what lies deeper than MAX_DEPTH is
cut off before anything is parsed: the object itself stays readable and can be told of.
"""

import re
from typing import Any

import orjson

MAX_DEPTH = 128
"""Levels that are read. The objects that Stoker accepts have less than a hundred, those of Kubernetes about twenty."""
_STRING = re.compile(rb'"[^"]*"')
_TOKEN = re.compile(rb'"[^"]*"|[\[\]{}]')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"[]", b"{}")


def loads(content: bytes) -> Any:
    """Parse JSON; values deeper than MAX_DEPTH become null. Raises ValueError for what is no JSON."""
    return orjson.loads(shallow(content))


def shallow(content: bytes, limit: int = MAX_DEPTH) -> bytes:
    """The same JSON, with null in place of what is nested deeper than `limit` levels. What is no JSON stays so."""
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
    """Whether JSON is nested deeper than `limit` levels. It is asked of every object, so it has no loop over bytes."""
    if content.count(b"{") + content.count(b"[") <= limit:
        return False
    brackets = _STRING.sub(b"", _without_escapes(content)).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(limit):
        # One level less: the innermost brackets are pairs without anything in between.
        fewer = brackets.replace(b"{}", b"")
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return bool(brackets)


def _without_escapes(content: bytes) -> bytes:
    """The same length, so that places stay, and every quotation mark in it begins or ends a string."""
    return content.replace(b"\\\\", b"__").replace(b'\\"', b"__")
