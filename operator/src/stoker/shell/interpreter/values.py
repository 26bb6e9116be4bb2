"""Abstract strings: what a shell word or variable can be, as far as it is known.

A text is a sequence of fragments, known characters or holes; a value is a small set of alternative texts. Fragments
remember where in the outermost script they were written, so that a word of a nested script can be pointed at.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, product
from typing import NamedTuple

MAX_ALTERNATIVES = 8
"""Texts that a value can be: each doubles the work of what it stands in. More than that is unknown."""
MAX_TEXT = 131_072
"""Characters of a text, those of Linux' longest argument: doubling in a loop would exhaust memory."""
MAX_FRAGMENTS = 4_096
"""Fragments of a text, each of which takes more than a hundred bytes of memory."""


class NotFollowedError(Exception):
    """What a script does from here on is not followed: `declare -n` renames variables, `coproc` starts a group."""


NO_NAMES: frozenset[str] = frozenset()


class Fragment(NamedTuple):
    """Known characters, or a hole (`text` is None).

    start, end: offsets in the outermost script, -1 where there are none. Character by character when the lengths agree.
    quoted: not subject to splitting and patterns. expanded: came from an expansion (only then is it split).
    names: what made the hole. absent: a variable that nobody in sight sets. many: any number of words.
    separator: a boundary between words, as in "$@".
    """

    text: str | None
    start: int = -1
    end: int = -1
    quoted: bool = False
    expanded: bool = False
    names: frozenset[str] = NO_NAMES
    absent: bool = False
    many: bool = False
    separator: bool = False

    @property
    def exact(self) -> bool:
        return self.text is not None and self.start >= 0 and self.end - self.start == len(self.text)

    def part(self, begin: int, end: int) -> "Fragment":
        """The characters begin..end of a known fragment."""
        assert self.text is not None
        if self.exact:
            return self._replace(text=self.text[begin:end], start=self.start + begin, end=self.start + end)
        return self._replace(text=self.text[begin:end])


Text = tuple[Fragment, ...]
Value = tuple[Text, ...]

EMPTY: Value = ((),)
SEPARATOR = Fragment("", separator=True)


def literal(text: str, start: int = -1, end: int = -1, *, quoted: bool = False) -> Value:
    """One known text."""
    return ((Fragment(text, start, end, quoted),),) if text or quoted else EMPTY


def hole(names: Iterable[str] = (), *, absent: bool = False, many: bool = False) -> Value:
    """An unknown text."""
    return ((Fragment(None, names=frozenset(names), absent=absent, many=many),),)


def is_several(value: Value) -> bool:
    """Whether an array's element stands for any number of elements: a hole that keeps its `many`."""
    return len(value) == 1 and len(value[0]) == 1 and value[0][0].text is None and value[0][0].many


def known_text(text: Text) -> str | None:
    """The characters, None if a part is unknown."""
    known: list[str] = []
    for fragment in text:
        if fragment.text is None:
            return None
        known.append(" " if fragment.separator else fragment.text)
    return "".join(known)


def single(value: Value) -> str | None:
    """The only text of a value, None if it is not exactly known."""
    return known_text(value[0]) if len(value) == 1 else None


def possible(value: Value) -> frozenset[str] | None:
    """All texts of a value, None if one of them is unknown."""
    texts = {known_text(text) for text in value}
    return None if None in texts else frozenset(text for text in texts if text is not None)


def prefix(value: Value) -> str:
    """The characters that every alternative begins with."""
    starts: list[str] = []
    for text in value:
        known: list[str] = []
        for fragment in text:
            if fragment.text is None:
                break
            known.append(fragment.text)
        starts.append("".join(known))
    if len(starts) == 1:
        return starts[0]
    first, last = min(starts), max(starts)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]


def names(value: Value) -> frozenset[str]:
    """What made the value's holes."""
    return frozenset().union(*(fragment.names for text in value for fragment in text if fragment.text is None))


def is_absent(value: Value) -> bool:
    """Nothing but a variable that nobody in sight sets."""
    return len(value) == 1 and len(value[0]) == 1 and value[0][0].absent


def union(values: Iterable[Value]) -> Value:
    """One of these values, in order, equal texts once; a hole when there are too many."""
    merged: dict[object, Text] = {}
    for value in values:
        for text in value:
            key = known_text(text)
            merged.setdefault(key if key is not None else tuple(fragment[:1] + fragment[3:] for fragment in text), text)
    if len(merged) > MAX_ALTERNATIVES:
        return hole(frozenset().union(*(fragment.names for text in merged.values() for fragment in text)))
    return tuple(merged.values())


def concatenate(values: Sequence[Value]) -> Value:
    """The values one after the other; a hole when there are too many alternatives or characters."""
    count = 1
    for value in values:
        count *= len(value)
        if count > MAX_ALTERNATIVES:
            return hole(frozenset().union(*(names(each) for each in values)))
    if len(values) == 1 and len(values[0]) == 1 and len(values[0][0]) == 1:
        # Often: one piece, as it is.
        text = values[0][0][0].text
        if text is None or len(text) <= MAX_TEXT:
            return values[0]
    if count == 1:
        # Nearly always: one alternative of each.
        texts: Value = (values[0][0] if len(values) == 1 else tuple(chain.from_iterable(value[0] for value in values)),)
    else:
        texts = tuple(tuple(chain.from_iterable(parts)) for parts in product(*values))
    if any(map(_is_too_long, texts)):
        return hole(frozenset().union(*(names(each) for each in values)))
    return texts


def _is_too_long(text: Text) -> bool:
    if len(text) > MAX_FRAGMENTS:
        return True
    length = 0
    for fragment in text:
        if fragment.text is not None:
            length += len(fragment.text)
    return length > MAX_TEXT


def mark_expanded(value: Value, *, quoted: bool) -> Value:
    """As the result of an expansion, inside or outside of double quotes."""
    return tuple(
        tuple(
            fragment
            if fragment.separator
            else Fragment(
                fragment.text,
                fragment.start,
                fragment.end,
                quoted,
                True,
                fragment.names,
                fragment.absent,
                fragment.many,
            )
            for fragment in text
        )
        or ((Fragment("", quoted=True, expanded=True),) if quoted else ())
        for text in value
    )


def as_assigned(value: Value, *, whole: bool = False) -> Value:
    """What a variable keeps: quoting is gone.

    whole: the value is not one word or element already; without quotes, an unknown part of it is split again.
    """
    return tuple(
        tuple(
            Fragment(" ")
            if fragment.separator
            else fragment._replace(quoted=False, expanded=False, many=fragment.many and whole)
            for fragment in text
            if fragment.text != "" or fragment.separator
        )
        for text in value
    )


@lru_cache(maxsize=16)
def _runs(separators: str) -> re.Pattern[str]:
    return re.compile(f"[^{re.escape(separators)}]+" if separators else r"[\s\S]+")


def split(text: Text, separators: str = " \t\n") -> list[Text]:
    """Word splitting of one expanded text: unquoted expansions are cut at blanks."""
    fields: list[Text] = []
    current: list[Fragment] = []

    def end_field() -> None:
        if current:
            fields.append(tuple(current))
            current.clear()

    for fragment in text:
        if fragment.separator:
            end_field()
            continue
        if fragment.text is None or fragment.quoted or not fragment.expanded:
            if fragment.text != "" or fragment.quoted:
                current.append(fragment)
            continue
        last = 0
        for run in _runs(separators).finditer(fragment.text):
            if run.start() > last:
                end_field()
            current.append(fragment.part(run.start(), run.end()))
            last = run.end()
        if last < len(fragment.text):
            end_field()
    end_field()
    return fields


def trim_end(value: Value, characters: str = "\n") -> Value:
    """Without trailing newlines, as command substitution does it."""
    trimmed: list[Text] = []
    for text in value:
        fragments = list(text)
        while fragments and fragments[-1].text is not None:
            content = fragments[-1].text.rstrip(characters)
            if content:
                fragments[-1] = fragments[-1].part(0, len(content))
                break
            fragments.pop()
        trimmed.append(tuple(fragments))
    return tuple(trimmed)
