"""PromQL text: what is put together here is never put together elsewhere."""

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

from stoker.adapters.prometheus.access import LabelMatcher

ORIGIN = "stoker_origin"
"""The label by which the rows of a combined query say which of its terms they answer."""


def quote(value: str) -> str:
    """A string literal: a label's value can't end it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Selectors:
    """Makes selectors, of none but the series that are believed. Every series of every query is selected by this."""

    def __init__(self, believed: Iterable[LabelMatcher] = ()) -> None:
        self._believed = [f"{one.label}{one.operator}{quote(one.value)}" for one in believed]

    def __call__(self, metric: str, matchers: Mapping[str, str] | None = None) -> str:
        """`metric{label="value",...}`; a value from `any_of` is a regular expression."""
        parts = []
        for label, value in (matchers or {}).items():
            operator = "=~" if isinstance(value, AnyOf) else "!=" if isinstance(value, Not) else "="
            parts.append(f"{label}{operator}{quote(value)}")
        parts += self._believed
        return f"{metric}{{{','.join(parts)}}}" if parts else metric


class AnyOf(str):
    """A regular expression that matches exactly one of several values."""

    __slots__ = ()


class Not(str):
    """A value that a label must not have."""

    __slots__ = ()


def any_of(values: Iterable[str]) -> AnyOf:
    """Match exactly these values; RE2's special characters are escaped."""
    return AnyOf("|".join(re.sub(r"([.+*?^${}()|\[\]\\])", r"\\\1", value) for value in values))


def duration(time: timedelta) -> str:
    """A duration in whole milliseconds, the finest that PromQL has."""
    milliseconds = round(time.total_seconds() * 1000)
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def named(origin: str, expression: str) -> str:
    """Mark the rows of an expression."""
    return f'label_replace({expression}, "{ORIGIN}", {quote(origin)}, "", "")'


def union(terms: Iterable[str]) -> str:
    """All rows of marked terms.

    As a balanced tree: each `or` goes through all rows on its left, and a chain of them would do so for every term.
    """
    level = list(terms)
    while len(level) > 1:
        pairs = [level[place : place + 2] for place in range(0, len(level), 2)]
        level = [f"({' or '.join(pair)})" if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def aggregate(operator: str, labels: Iterable[str], expression: str) -> str:
    """`max by (labels) (expression)`."""
    return f"{operator} by ({', '.join(labels)}) ({expression})"
