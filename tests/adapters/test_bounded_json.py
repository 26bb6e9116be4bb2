"""Whatever is nested too deep is cut off before a parser that would give up on it sees it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.adapters.kubernetes.bounded_json import MAX_DEPTH, is_deeper, loads, shallow


def nested(levels: int, inner: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inner + "]}" * (levels // 2)


def depth(value: Any) -> int:
    levels, layer = 0, [value]
    while layer := [one for one in layer if isinstance(one, dict | list)]:
        levels += 1
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return levels


@pytest.mark.parametrize("levels", [1000, 1022, 2000, 10_000, 200_000])
def test_what_is_too_deep_for_every_parser_is_read_up_to_a_level(levels: int) -> None:
    text = '{"before":"{[\\"","deep":' + nested(levels) + ',"after":[{},"]}\\\\"]}'
    read = loads(text.encode())
    assert depth(read) == MAX_DEPTH
    assert (read["before"], read["after"]) == ('{["', [{}, "]}\\"])


def test_what_is_not_deep_stays_as_it_is_however_wide() -> None:
    wide = json.dumps({f"k{n}": [{"x": {"{": "["}}] for n in range(5000)}).encode()
    assert shallow(wide) is wide


@pytest.mark.parametrize(
    "text", ["", "{", "]" * 500, "[" * 500, '{"a":' * 500, '"' * 501, "\\" * 501, "{[" * 300 + "}]" * 300]
)
def test_what_is_no_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- orjson has words of its own for each
        loads(text.encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def cut(value: Any, levels: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [cut(one, levels - 1) for one in value]
    return {key: cut(one, levels - 1) for key, one in value.items()}


@given(value=JSON, limit=st.integers(1, 4), ascii_only=st.booleans())
def test_exactly_what_is_deeper_is_cut(value: Any, limit: int, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert json.loads(shallow(text, limit)) == cut(value, limit)
    assert is_deeper(text, limit) == (depth(value) > limit)
