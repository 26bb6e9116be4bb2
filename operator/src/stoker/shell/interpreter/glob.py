"""Shell patterns (`*`, `?`, `[a-z]`) on known text, without regular expressions: matching is at worst quadratic."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

MAX_SUBJECT = 4_096
"""Characters of a text: the longest path that Linux knows (PATH_MAX)."""
MAX_PATTERN = 256
"""Characters of a pattern: matching takes up to their product with those of the text."""


SPECIAL = frozenset("*?[\\(")
"""A pattern without any of these characters matches itself alone: `(` begins an extended pattern."""


class PatternTooLargeError(ValueError):
    """The text or the pattern is longer than is worth following."""


Item: TypeAlias = str | tuple[bool, frozenset[str], tuple[tuple[str, str], ...]] | None
"""A character, a bracket expression (negated, characters, ranges), or None for `*`; "" stands for `?`."""


def compile_pattern(pattern: str) -> list[Item]:
    """Raises PatternTooLargeError, also for extended patterns (`@(a|b)`), which aren't followed."""
    if len(pattern) > MAX_PATTERN:
        raise PatternTooLargeError
    items: list[Item] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character in "@+!?*" and pattern[index + 1 : index + 2] == "(":
            raise PatternTooLargeError
        if character == "\\" and index + 1 < len(pattern):
            items.append(pattern[index + 1])
            index += 2
            continue
        if character == "*":
            if not items or items[-1] is not None:
                items.append(None)
        elif character == "?":
            items.append("")
        elif character == "[":
            end = pattern.find("]", index + (3 if pattern[index + 1 : index + 2] in ("!", "^") else 2))
            if end < 0:
                items.append(character)
            else:
                items.append(_bracket(pattern[index + 1 : end]))
                index = end
        else:
            items.append(character)
        index += 1
    return items


def _bracket(content: str) -> tuple[bool, frozenset[str], tuple[tuple[str, str], ...]]:
    if "[:" in content:
        raise PatternTooLargeError
    negated = content[:1] in ("!", "^")
    body = content[1:] if negated else content
    ranges: list[tuple[str, str]] = []
    characters: set[str] = set()
    index = 0
    while index < len(body):
        if body[index + 1 : index + 2] == "-" and index + 2 < len(body):
            ranges.append((body[index], body[index + 2]))
            index += 3
        else:
            characters.add(body[index])
            index += 1
    return negated, frozenset(characters), tuple(ranges)


def _accepts(item: Item, character: str) -> bool:
    if isinstance(item, str):
        return item in ("", character)
    if item is None:
        return True
    negated, characters, ranges = item
    return (character in characters or any(low <= character <= high for low, high in ranges)) != negated


def _match(items: Sequence[Item], text: str) -> bool:
    """Greedy with one backtrack point, the classic wildcard walk."""
    position = item = 0
    star = mark = -1
    while position < len(text):
        if item < len(items) and items[item] is None:
            star, mark = item, position
            item += 1
        elif item < len(items) and _accepts(items[item], text[position]):
            position, item = position + 1, item + 1
        elif star >= 0:
            mark += 1
            position, item = mark, star + 1
        else:
            return False
    return all(each is None for each in items[item:])


def matches(pattern: str, text: str) -> bool:
    """The whole text matches. Raises PatternTooLargeError."""
    if len(text) > MAX_SUBJECT:
        raise PatternTooLargeError
    if len(pattern) <= MAX_PATTERN and SPECIAL.isdisjoint(pattern):
        return pattern == text
    return _match(_compiled(pattern), text)


@lru_cache(maxsize=2048)
def _compiled(pattern: str) -> tuple[Item, ...]:
    """Known images are told by hundreds of patterns, the same ones for each job."""
    return tuple(compile_pattern(pattern))


def _ends(items: Sequence[Item], text: str) -> list[int]:
    """Where the prefixes of a text end that match as a whole, in order; all are found in one pass."""
    ends: list[int] = []
    active = _skipping(items, {0})
    for position in range(len(text) + 1):
        if len(items) in active:
            ends.append(position)
        if not active or position == len(text):
            break
        reached = {
            index if items[index] is None else index + 1
            for index in active
            if index < len(items) and _accepts(items[index], text[position])
        }
        active = _skipping(items, reached)
    return ends


def _skipping(items: Sequence[Item], reached: set[int]) -> set[int]:
    """With what is reached by letting `*` match nothing."""
    return reached | {index + 1 for index in reached if index < len(items) and items[index] is None}


def remove(pattern: str, text: str, operator: str) -> str:
    """`${x#p}`, `${x##p}`, `${x%p}`, `${x%%p}`. Raises PatternTooLargeError."""
    if len(text) > MAX_SUBJECT:
        raise PatternTooLargeError
    items = compile_pattern(pattern)
    longest = -1 if len(operator) == 2 else 0
    if operator[0] == "#":
        ends = _ends(items, text)
        return text[ends[longest] :] if ends else text
    ends = _ends(items[::-1], text[::-1])
    return text[: len(text) - ends[longest]] if ends else text


def replace(pattern: str, replacement: str, text: str, operator: str) -> str:
    """`${x/p/r}`, `${x//p/r}`. Raises PatternTooLargeError."""
    if len(text) > MAX_SUBJECT // 8:
        raise PatternTooLargeError
    items = compile_pattern(pattern)
    result: list[str] = []
    position = 0
    while position < len(text):
        ends = _ends(items, text[position:])
        if not ends or ends[-1] == 0:
            result.append(text[position])
            position += 1
            continue
        result.append(replacement)
        position += ends[-1]
        if operator == "/":
            break
    return "".join(result) + text[position:]
