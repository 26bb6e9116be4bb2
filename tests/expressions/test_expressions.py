"""Every regular expression of the package takes time in proportion to its text: Python's `re` holds the interpreter's
lock while it matches, so that one which takes the square of it, or worse, holds everybody's reviews.
"""

from functools import cache

import pytest

from tests.expressions.collecting import Collected, calls, collected, modules
from tests.expressions.pumping import slow


@cache
def found() -> Collected:
    return collected()


@cache
def checked(pattern: str, flags: int, ways: tuple[str, ...]) -> str | None:
    return slow(pattern, flags, ways)


@pytest.mark.parametrize("module", modules())
def test_every_expression_takes_time_in_proportion_to_its_text(module: str) -> None:
    own = [one for one in found().expressions if one.module == module]
    assert own
    slow_ones = {one.pattern: text for one in own if (text := checked(one.pattern, one.flags, one.ways))}
    assert slow_ones == {}


def test_no_expression_is_missed() -> None:
    """Each call of `re` in the source was seen to make one, or has it written out."""
    assert found().unseen == []
    assert {call.module for call, _ in calls()} == set(modules())
    places = {(one.module, one.line) for one in found().expressions}
    assert places == {(call.module, call.line) for call, _ in calls()}
    assert len(places) > 200


def test_nothing_hides_an_expression() -> None:
    """No other name for `re`, none of its functions handed on, no other engine but the one for users' expressions."""
    assert found().other_uses == []
