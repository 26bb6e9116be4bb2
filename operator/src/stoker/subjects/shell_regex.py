"""Extended regular expressions of `[[ text =~ expression ]]`, as far as they can be matched in little time."""

import re

MAX_SUBJECT = 256
MAX_EXPRESSION = 128
MAX_TRIES = 1 << 21

_CLASSES = {
    "[:digit:]": "0-9", "[:alpha:]": "A-Za-z", "[:alnum:]": "A-Za-z0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z",
    "[:space:]": r"\s", "[:blank:]": r" \t", "[:xdigit:]": "0-9A-Fa-f",
}  # fmt: skip
_TOKEN = re.compile(
    r"(?P<bracket>\[\^?\]?(?:\[:[a-z]+:\]|[^\]\[])*\])|(?P<escape>\\[^A-Za-z0-9\n])|(?P<anchor>[\^$])|(?P<any>\.)|"
    r"(?P<open>\()|(?P<close>\))|(?P<or>\|)|(?P<repeat>[*+]|\{\d{1,3}(?:,\d{0,3})?\})|(?P<maybe>\?)|"
    r"(?P<plain>[^\\\[\](){}.*+?^$|])"
)


class RegexUnknownError(ValueError):
    """The expression is too large, or of a form that isn't followed."""


def search(expression: str, text: str) -> tuple[bool, tuple[str, ...] | None]:
    """Whether it matches, and the match and its groups, () without one. Raises RegexUnknownError.

    Followed are expressions without repeated groups, as long as the ways to match them are few enough to try them all.
    What alternatives match differs between POSIX and Python: the groups are None then.
    """
    if len(text) > MAX_SUBJECT or len(expression) > MAX_EXPRESSION:
        raise RegexUnknownError
    translated, repeats, choices = _translated(expression)
    if (len(text) + 1) ** (repeats + 1) << choices > MAX_TRIES:
        raise RegexUnknownError
    found = re.search(translated, text)
    if found is None:
        return False, ()
    return True, None if "|" in expression else (found[0], *(group or "" for group in found.groups()))


def _translated(expression: str) -> tuple[str, int, int]:
    """The expression to Python, and how many repeats and how many choices (`?`, `|`) are in it."""
    parts: list[str] = []
    position = repeats = choices = 0
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
            text = r"\A" if text == "^" else r"\Z"
        elif kind == "plain":
            text = re.escape(text)
        elif kind == "repeat":
            repeats += 1
            if previous not in ("bracket", "escape", "any", "plain"):
                raise RegexUnknownError
        elif kind == "maybe" and previous not in ("bracket", "escape", "any", "plain", "close"):
            raise RegexUnknownError
        choices += kind in ("maybe", "or")
        parts.append(text)
        previous = kind
    try:
        re.compile("".join(parts))
    except re.error as error:
        raise RegexUnknownError from error
    return "".join(parts), repeats, choices


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
