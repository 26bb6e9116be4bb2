"""No regular expression of ours can be made to try exponentially many ways."""

import ast
from collections.abc import Iterator
from pathlib import Path
from re import _constants as constants  # type: ignore[attr-defined]  # the parser has no public name
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import pytest

import stoker

REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT}
HARMLESS = {
    # Nothing follows the outer repetition: a match never has to be tried in another way.
    r"(?:[ \t]*\d*(?:>>?|<)&?[ \t]*[^\s;&|()<>'\"]+)*",
}


def expressions() -> Iterator[tuple[str, str]]:
    """Every constant expression that is given to `re`, with the module that it stands in."""
    root = Path(stoker.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr != "escape"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                value = node.args[0].value
                yield str(path.relative_to(root)), value.decode() if isinstance(value, bytes) else str(value)


def nested(tree: Any, *, repeated: bool = False) -> bool:
    """Whether an unbounded repetition begins or ends a round of another one."""
    for operator, argument in tree:
        if operator in REPEATS:
            _, most, inner = argument
            unbounded = most is constants.MAXREPEAT
            if unbounded and repeated and not _fenced(tree):
                return True
            if nested(inner, repeated=repeated or (unbounded and len(inner) >= 1 and _grows(inner))):
                return True
        elif operator is constants.SUBPATTERN:
            if nested(argument[3], repeated=repeated):
                return True
        elif operator is constants.BRANCH:  # noqa: SIM102 - as above
            if any(nested(each, repeated=repeated) for each in argument[1]):
                return True
    return False


def _grows(tree: Any) -> bool:
    low, high = tree.getwidth()
    return bool(low != high)


def _fenced(tree: Any) -> bool:
    """Whether a character that is in none of the repetitions around it stands first or last in a round."""
    fences = {constants.LITERAL, constants.IN}
    edges = [tree[0][0], tree[-1][0]]
    return len(tree) > 1 and any(edge in fences for edge in edges)


@pytest.mark.parametrize("module,expression", sorted(set(expressions())))
def test_no_expression_repeats_a_repetition_without_a_fence(module: str, expression: str) -> None:
    assert expression in HARMLESS or not nested(parser.parse(expression)), module


@pytest.mark.parametrize("expression", ["(a+)+$", "(?:a*)*b", "(a|b+)*c", "((?:x+)y?)+"])
def test_the_classic_ones_are_seen(expression: str) -> None:
    assert nested(parser.parse(expression))


def test_all_are_looked_at() -> None:
    assert len({module for module, _ in expressions()}) > 20
