"""The pump sees the expressions that once held the process, and lets the sound ones pass."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.expressions.automaton import Suspect, automaton
from tests.expressions.pumping import slow

HELD_THE_PROCESS = [
    ("search", r"(^|\.)s3([.-][a-z0-9-]+)*\.amazonaws\.com$|^storage\.googleapis\.com$"),
    ("search", r"(?P<option>--?[\w.-]+|\w[\w.-]*)[ =](?P<size>\d+)\b"),
    (
        "fullmatch",
        r"\s*(?:import time|from time import sleep)\s*[;\n]\s*while\s+(?:True|1)\s*:\s*(?:time\.)?sleep\(\d+\)",
    ),
    ("search", r"(?:prepare|dedup\w*)[-_]+(?:[a-z0-9]+[-_]+){0,4}(?:data|datasets?|corpus)(?:[-_.]|$)"),
    ("finditer", r"(?:-\d+)+$"),
    ("search", r"(?:[ \t]|\\\n)*\Z"),
    ("search", r"[ \t]*(?:\\\n[ \t]*)*(?:(?:&&|\|\|)(?:\s|\\\n)*|(?<!;);[ \t]*)\Z"),
    ("fullmatch", r"-[a-zA-Z]*c[a-zA-Z]*"),
    ("fullmatch", r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([kMGTPE]i?)?"),
    ("finditer", r"[@#?].*$"),
    ("finditer", r"([^.\[\]]+)|\[([^\]]*)\]"),
    ("match", r"(?:[ \t]*(?:#[^\n\r]*)?(?:\r\n|[\n\r\x85]))*[ \t]*-"),
    ("search", r"\*{3,} ?running"),
    ("search", r"activate|env[^/]*$"),
    ("search", r"[?&][\w-]*(?:sig|key|token)\w*="),
]
"""Expressions that the package has had, as they were."""

PIECES = r"(?:[abc][*+?]?|\([abc][*+?]?[abc]?(?:\|[abc]+)?\)[*+?]?|\[ab\][*+]|\\b|\$){1,5}"
"""Expressions of a few letters, groups and repetitions."""

TEXTBOOK = [
    "(a+)+$",
    "(?:a*)*b",
    "(a|b+)*c",
    "((?:x+)y?)+z",
    "(a|a)*b",
    "(a|aa)+$",
    r"(\w+\s?)*:",
    "(?:a?){30}a{30}b",
    "a*a*b",
]


@pytest.mark.parametrize("way,pattern", HELD_THE_PROCESS)
def test_what_held_the_process_is_found(way: str, pattern: str) -> None:
    assert slow(pattern, re.IGNORECASE if "running" in pattern else 0, (way,)) is not None


@pytest.mark.parametrize("pattern", TEXTBOOK)
def test_the_textbook_ones_are_found(pattern: str) -> None:
    assert slow(pattern, 0, ("fullmatch",)) is not None


@pytest.mark.parametrize(
    "way,pattern",
    [
        ("search", r"(?<!\w)\w+x"),
        ("search", r"\b\w+x"),
        ("fullmatch", r"[^\S\n]*[;\n]\s*x"),
        ("fullmatch", r"s3(?:[.-][a-z0-9]+)*\.amazonaws\.com"),
        ("match", r"(?:[ \t]*(?:#[^\n\r\x85]*)?(?:\r\n|\r(?!\n)|[\n\x85]))*[ \t]*-"),
        ("match", r"a++b"),
        ("finditer", r"[a-z]+"),
    ],
)
def test_sound_ones_pass(way: str, pattern: str) -> None:
    assert slow(pattern, 0, (way,)) is None


def test_the_automaton_tells_the_text_that_shows_it() -> None:
    assert automaton("(a|a)+b", 0, searching=False).suspects() == {Suspect("aa", "a")}
    assert automaton("a+b", 0, searching=False).suspects() == set()
    assert automaton("a+b", 0, searching=True).suspects() == {Suspect("", "aa")}
    assert automaton(r"\ba+b", 0, searching=True).suspects() == set()


@given(st.from_regex(PIECES, fullmatch=True))
@settings(max_examples=60, deadline=None)
def test_what_the_automaton_finds_sound_is(pattern: str) -> None:
    """Expressions at random: where no text has ever more runs, none of those that go round a repetition takes long."""
    built = automaton(pattern, 0, searching=True)
    if not built.suspects():
        assert slow(pattern, 0, ("finditer",)) is None
