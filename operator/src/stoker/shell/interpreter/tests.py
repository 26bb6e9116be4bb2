"""Questions whose answers decide: `[ ]`, `[[ ]]`, `test` and `(( ))`."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from stoker.shell.interpreter import test_expression, values
from stoker.shell.interpreter.expansion import Expander, Field
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.record import ScriptRecord
from stoker.shell.interpreter.state import EXPECTED, UNDECIDED, UNEXPECTED, ExitStatus, ShellState, Variable, decided
from stoker.shell.interpreter.test_expression import Token
from stoker.shell.interpreter.values import Value


class Tests:
    """What `test` and its kin answer, as far as it is known."""

    def __init__(self, expander: Expander, record: ScriptRecord) -> None:
        self._expander = expander
        self._record = record

    def test(self, node: Node, state: ShellState, frame: Frame) -> ExitStatus:
        """`[ ]`, `[[ ]]` and `(( ))` where the grammar gives it as a test."""
        opening = node.children[0].type if node.children else ""
        if opening == "((":
            return self.arithmetic(node, state, frame)
        tokens: list[Token] = []
        stack = list(reversed(node.children[1:-1]))
        while stack:
            child = stack.pop()
            if child.type in (
                "binary_expression", "unary_expression", "parenthesized_expression", "negation_expression",
                "ternary_expression",
            ):  # fmt: skip
                stack.extend(reversed(child.children))
            elif child.type == "test_operator" or not child.is_named:
                tokens.append(Token(frame.text.slice(child)))
            elif child.type == "regex":
                text = frame.text.slice(child)
                plain = not any(mark in text for mark in "'\"`") and not re.search(r"\$[\w({]", text)
                tokens.append(Token("", values.literal(text) if plain else values.hole(["=~"])))
            else:
                value = self._expander.value(child, state, frame)
                text = frame.text.slice(child)
                operator = text if text in test_expression.BINARY or text in test_expression.UNARY else ""
                tokens.append(Token(operator, value))
        return self._evaluated(tokens, state, patterns=opening == "[[")

    def _evaluated(self, tokens: Sequence[Token], state: ShellState, *, patterns: bool) -> ExitStatus:
        result = test_expression.evaluate(tokens, patterns=patterns)
        if result.groups is not None:
            state.assign("BASH_REMATCH", Variable(items=tuple(map(values.literal, result.groups))))
        elif any(token.operator == "=~" for token in tokens):
            state.forget_names(["BASH_REMATCH"])
        self._record.assumed_unset |= result.assumed if result.truth is not None else set()
        if result.truth is None and result.names == {EXPECTED.ending.value} and len(tokens) == 3:
            # `[ $? -ne 0 ]` after a program: a successful run doesn't come here.
            operator, right = tokens[1].operator, tokens[2].value
            if right is not None and values.single(right) == "0":
                return {"-eq": EXPECTED, "=": EXPECTED, "==": EXPECTED, "-ne": UNEXPECTED, "!=": UNEXPECTED,
                        "-gt": UNEXPECTED}.get(operator, UNDECIDED)  # fmt: skip
        return decided(result.truth, result.names)

    def test_words(self, fields: Sequence[Field], state: ShellState) -> ExitStatus:
        """`test EXPRESSION`."""
        tokens: list[Token] = []
        for each in fields:
            text = each.text
            operator = text in test_expression.BINARY or text in test_expression.UNARY or text in ("!", "(", ")")
            if text in ("-a", "-o", "!", "(", ")"):
                tokens.append(Token(text or ""))
            else:
                tokens.append(Token(text or "" if operator else "", each.value))
        return self._evaluated(tokens, state, patterns=False)

    def arithmetic(self, node: Node, state: ShellState, frame: Frame) -> ExitStatus:
        """`(( ))`."""
        start, end = frame.text.start(node) + 2, frame.text.end(node) - 2
        return self.truth_of(self._expander.calculate(self._expander.region(node, start, end, state, frame), state))

    def truth_of(self, value: Value) -> ExitStatus:
        texts = values.possible(value)
        if texts is None:
            return ExitStatus(UNDECIDED.ending, values.names(value))
        truths = {text not in ("0", "") for text in texts}
        return decided(next(iter(truths)) if len(truths) == 1 else None)
