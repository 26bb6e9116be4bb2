"""The literal parts of words: which escapes hold in them by how they are quoted, and the escapes of `$'...'`."""

import re

from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.interpreter.values import Fragment

_ESCAPES = {"word": None, "double": '$`"\\\n', "heredoc": "$`\\\n", "raw": ""}
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v", "E": "\x1b"}
_ANSI_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)


def closing(text: str, start: int, end: int) -> int:
    """Where the bracket at `start` is closed; `end` where it isn't."""
    depth = 0
    for index in range(start, end):
        if text[index] in "({":
            depth += 1
        elif text[index] in ")}":
            depth -= 1
            if depth == 0:
                return index + 1
    return end


def literal(source: ParsedText, start: int, end: int, mode: str, *, quoted: bool = False) -> list[Fragment]:
    """Pieces of literal text, escapes resolved; each run between escapes keeps its exact place."""
    fragments: list[Fragment] = []
    escapes = _ESCAPES[mode]
    text = source.text
    index = text.find("\\", start, end) if escapes != "" else -1
    if index < 0:
        return [Fragment(text[start:end], *source.outer(start, end), quoted)] if end > start else []
    position = start

    def add(begin: int, limit: int, *, escaped: bool = False) -> None:
        if limit > begin:
            fragments.append(Fragment(text[begin:limit], *source.outer(begin, limit), quoted or escaped))

    while 0 <= index < end - 1:
        following = text[index + 1]
        if escapes is None or following in escapes:
            add(position, index)
            if following != "\n":
                add(index + 1, index + 2, escaped=True)
            position = index + 2
        index = text.find("\\", index + 2, end)
    add(position, end)
    return fragments


def ansi(text: str) -> str:
    """With the escapes of `$'...'`, `printf` and `echo -e` resolved."""
    return _ANSI_ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if code[0] in "01234567":
        return chr(int(code, 8) % 256)
    return _ANSI.get(code, code if code in "\\'\"?" else escape[0])


__all__ = ["ansi", "closing", "literal"]
