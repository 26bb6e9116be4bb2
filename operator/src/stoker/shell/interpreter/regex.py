"""Extended regular expressions of `[[ text =~ expression ]]`, by an engine that matches every one in linear time."""

import re

import re2

MAX_SUBJECT = 256
"""Characters of a text that is matched; chosen because scripts match names, numbers and versions."""
MAX_EXPRESSION = 128
"""Characters of an expression: compiling one takes memory in proportion."""

_CLASSES = {
    "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z",
    "[:space:]": r" \t\n\r\f\v", "[:blank:]": r" \t", "[:xdigit:]": "0-9A-Fa-f",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<bracket>\[\^?\]?(?:\[:[a-z]+:\]|[^\]\[])*\])|(?P<escape>\\[^A-Za-z0-9\n])|(?P<anchor>[\^$])|(?P<any>\.)|"
    r"(?P<open>\()|(?P<close>\))|(?P<or>\|)|(?P<repeat>[*+]|\{\d{1,3}(?:,\d{0,3})?\})|(?P<maybe>\?)|"
    r"(?P<plain>[^\\\[\](){}.*+?^$|])",
    re.ASCII,
)
_REPEATABLE = {
    "repeat": ("bracket", "escape", "any", "plain"),
    "maybe": ("bracket", "escape", "any", "plain", "close"),
}
"""What a repetition may follow: the groups of a repeated group differ between POSIX and this engine."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # it would write users' expressions to the log


class RegexUnknownError(ValueError):
    """The expression is too large, or of a form that isn't followed."""


def search(expression: str, text: str) -> tuple[bool, tuple[str, ...] | None]:
    """Whether it matches, and the match and its groups, () without one. Raises RegexUnknownError.

    Followed are expressions without repeated groups. What alternatives match differs between POSIX and this engine: the
    groups are None then.
    """
    if len(text) > MAX_SUBJECT or len(expression) > MAX_EXPRESSION:
        raise RegexUnknownError
    try:
        found = re2.compile(_translated(expression), _OPTIONS).search(text)
    except (re2.error, UnicodeError) as error:
        raise RegexUnknownError from error
    if found is None:
        return False, ()
    return True, None if "|" in expression else (found[0], *(group or "" for group in found.groups()))


def _translated(expression: str) -> str:
    parts: list[str] = []
    position = 0
    previous = "open"
    while position < len(expression):
        token = _TOKEN.match(expression, position)
        if token is None:
            raise RegexUnknownError
        kind, text = token.lastgroup or "", token[0]
        position = token.end()
        if kind == "bracket":
            text = _bracket(text)
        elif kind == "anchor":
            text = r"\A" if text == "^" else r"\z"
        elif kind == "plain":
            text = re2.escape(text)
        elif kind == "escape":
            text = re2.escape(text[1:])
        elif kind in _REPEATABLE and previous not in _REPEATABLE[kind]:
            raise RegexUnknownError
        parts.append(text)
        previous = kind
    return "".join(parts)


def _bracket(text: str) -> str:
    negated = text.startswith("[^")
    body = text[2:-1] if negated else text[1:-1]
    for name, characters in _CLASSES.items():
        body = body.replace(name, f"\0{characters}\0")
    parts = body.split("\0")
    if any("[" in part or "\\" in part for part in parts[::2]) or not body:
        raise RegexUnknownError
    escaped = "".join(part if index % 2 else re.sub(r"([\]^&~|])", r"\\\1", part) for index, part in enumerate(parts))
    return f"[{'^' if negated else ''}{escaped}]"
