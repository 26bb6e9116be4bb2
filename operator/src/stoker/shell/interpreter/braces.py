"""Brace expansion: `{0..7}`, `a{b,c}`."""

import re
from collections.abc import Sequence

from stoker.shell.interpreter import values
from stoker.shell.interpreter.parsed_text import NOWHERE
from stoker.shell.interpreter.values import Fragment, Text

MAX_WORDS = 256
"""Words that one brace expression makes; chosen because more GPUs, nodes or seeds are not listed so."""
MAX_TEXT = 1_024
"""Characters of a word with braces: finding their ends takes the square of it."""
MAX_DEPTH = 8
"""Braces within one another, and after one another in one word."""

_OPAQUE = 0xF0000
"""A fragment that braces don't look into stands among them as one private character."""
_RUNS = re.compile("[^\U000f0000-\U0010ffff]+|.")


class _TooManyWordsError(Exception):
    """A brace expansion has more words than are followed."""


def expanded(text: Text) -> list[Text]:
    """The words of `{0..7}`, `a{b,c}`, `"$x"{1,2}`; what is quoted or expanded stands in them as it is."""
    if not any("{" in fragment.text for fragment in text if _bare(fragment) and fragment.text):
        return [text]
    content = "".join(
        (fragment.text or "") if _bare(fragment) else chr(_OPAQUE + index) for index, fragment in enumerate(text)
    )
    if "}" not in content:
        return [text]
    try:
        words = _words(content, 0) if len(content) <= MAX_TEXT else None
    except _TooManyWordsError:
        words = None
    if words is None or any(ord(each) >= _OPAQUE for fragment in text for each in fragment.text or ""):
        return list(values.hole(many=True))
    if words == [content]:
        return [text]
    located = [fragment for fragment in text if fragment.start >= 0]
    start, end = (located[0].start, located[-1].end) if located else NOWHERE
    return [
        tuple(
            Fragment(run, start, end) if ord(run[0]) < _OPAQUE else text[ord(run) - _OPAQUE]
            for run in _RUNS.findall(word)
        )
        for word in words
    ]


def _bare(fragment: Fragment) -> bool:
    return fragment.text is not None and not fragment.quoted and not fragment.expanded and not fragment.separator


def _words(word: str, depth: int) -> list[str]:
    opening = word.find("{")
    while opening >= 0:
        level = 0
        commas: list[int] = []
        for index in range(opening, len(word)):
            character = word[index]
            if character == "{":
                level += 1
            elif character == "," and level == 1:
                commas.append(index)
            elif character == "}":
                level -= 1
                if level == 0:
                    parts = _parts(word[opening + 1 : index], [comma - opening - 1 for comma in commas])
                    if parts is None:
                        break
                    if depth > MAX_DEPTH:
                        raise _TooManyWordsError
                    inners = [inner for part in parts for inner in _words(part, depth + 1)]
                    tails = _words(word[index + 1 :], depth + 1)
                    if len(inners) * len(tails) > MAX_WORDS:
                        raise _TooManyWordsError
                    return [word[:opening] + inner + tail for inner in inners for tail in tails]
        opening = word.find("{", opening + 1)
    return [word]


def _parts(inner: str, commas: list[int]) -> Sequence[str] | None:
    """What stands for a brace expression, None where it is none and stays as it is."""
    if commas:
        starts = [0, *(comma + 1 for comma in commas)]
        return [inner[start:end] for start, end in zip(starts, [*commas, len(inner)], strict=True)]
    letters = re.fullmatch(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?[0-9]{1,18}))?", inner)
    if letters is not None:
        return [chr(code) for code in _range(ord(letters[1]), ord(letters[2]), letters[3])]
    numbers = re.fullmatch(r"([-+]?[0-9]{1,18})\.\.([-+]?[0-9]{1,18})(?:\.\.(-?[0-9]{1,18}))?", inner)
    if numbers is None:
        return None
    numbers_named = _range(int(numbers[1]), int(numbers[2]), numbers[3])
    padded = any(re.match("[-+]?0[0-9]", each) for each in (numbers[1], numbers[2]))
    width = max(len(numbers[1].lstrip("+")), len(numbers[2].lstrip("+"))) if padded else 0
    return [str(number).zfill(width) for number in numbers_named]


def _range(first: int, last: int, step: str | None) -> range:
    """The numbers from the first to the last one, whatever the sign of the step."""
    stride = abs(int(step or 1)) or 1
    numbers = range(first, last + 1, stride) if first <= last else range(first, last - 1, -stride)
    if numbers[MAX_WORDS:]:
        raise _TooManyWordsError
    return numbers
