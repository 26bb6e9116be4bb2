"""Conditions: `[ ]`, `(( ))`, `if` and `case`."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from stoker.shell.interpreter import glob, test_expression, values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.glob import PatternTooLargeError
from stoker.shell.interpreter.pipelines import Pipelines
from stoker.shell.interpreter.state import EXPECTED, SUCCESS, UNDECIDED, UNEXPECTED, Outcome, State, Variable, decided
from stoker.shell.interpreter.test_expression import Token
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import MAX_DEPTH, MAX_STEPS, Run
from stoker.shell.model import ExhaustedError


class Decisions(Pipelines):
    """Branches that are taken, left out, or followed both."""

    def _test(self, node: Node, state: State) -> Outcome:
        """`[ ]`, `[[ ]]` and `(( ))` where the grammar gives it as a test."""
        opening = node.children[0].type if node.children else ""
        if opening == "((":
            return self._truth_of(self._expander.calculate(self._inside(node, state), state))
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
                tokens.append(Token(self._source.slice(child)))
            elif child.type == "regex":
                text = self._source.slice(child)
                plain = not any(mark in text for mark in "'\"`") and not re.search(r"\$[\w({]", text)
                tokens.append(Token("", values.literal(text) if plain else values.hole(["=~"])))
            else:
                value = self._expander.value(child, self._source, state)
                text = self._source.slice(child)
                operator = text if text in test_expression.BINARY or text in test_expression.UNARY else ""
                tokens.append(Token(operator, value))
        return self._answer(tokens, state, patterns=opening == "[[")

    def _answer(self, tokens: Sequence[Token], state: State, *, patterns: bool) -> Outcome:
        answer = test_expression.evaluate(tokens, patterns=patterns)
        if answer.groups is not None:
            state.assign("BASH_REMATCH", Variable(items=tuple(map(values.literal, answer.groups))))
        elif any(token.operator == "=~" for token in tokens):
            state.forget_names(["BASH_REMATCH"])
        self._assumed_unset |= answer.assumed if answer.truth is not None else set()
        if answer.truth is None and answer.names == {EXPECTED.ending.value} and len(tokens) == 3:
            # `[ $? -ne 0 ]` after a program: a successful run doesn't come here.
            operator, right = tokens[1].operator, tokens[2].value
            if right is not None and values.single(right) == "0":
                return {"-eq": EXPECTED, "=": EXPECTED, "==": EXPECTED, "-ne": UNEXPECTED, "!=": UNEXPECTED,
                        "-gt": UNEXPECTED}.get(operator, UNDECIDED)  # fmt: skip
        return decided(answer.truth, answer.names)

    def _test_words(self, fields: Sequence[Field], state: State) -> Outcome:
        """`test EXPRESSION`."""
        tokens: list[Token] = []
        for each in fields:
            text = each.text
            operator = text in test_expression.BINARY or text in test_expression.UNARY or text in ("!", "(", ")")
            if text in ("-a", "-o", "!", "(", ")"):
                tokens.append(Token(text or ""))
            else:
                tokens.append(Token(text or "" if operator else "", each.value))
        return self._answer(tokens, state, patterns=False)

    def _inside(self, node: Node, state: State) -> Value:
        """The expression of `(( ))`, its `$` expansions done."""
        start, end = self._source.start(node) + 2, self._source.end(node) - 2
        return self._expander.region(node, start, end, self._source, state)

    def _truth_of(self, value: Value) -> Outcome:
        texts = values.possible(value)
        if texts is None:
            return Outcome(UNDECIDED.ending, values.names(value))
        truths = {text not in ("0", "") for text in texts}
        return decided(next(iter(truths)) if len(truths) == 1 else None)

    def _if(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        clauses: list[tuple[list[Node], list[Node]]] = [([], [])]
        otherwise: list[Node] = []
        into_body = False
        for child in node.children:
            if child.type == "elif_clause":
                condition: list[Node] = []
                body: list[Node] = []
                current = condition
                for each in child.children[1:]:
                    if each.type == "then":
                        current = body
                    else:
                        current.append(each)
                clauses.append((condition, body))
            elif child.type == "else_clause":
                otherwise = list(child.children[1:])
            elif child.type == "then":
                into_body = True
            elif child.type not in ("if", "fi"):
                clauses[0][1 if into_body else 0].append(child)

        return self._clause(clauses, 0, otherwise, node, state)

    def _clause(
        self,
        clauses: Sequence[tuple[Sequence[Node], Sequence[Node]]],
        index: int,
        otherwise: Sequence[Node],
        node: Node,
        state: State,
    ) -> tuple[Outcome, State | None]:
        """The clauses of an `if` from one on, each a condition and a body; a method, as a function that calls itself
        would keep its states alive until the next garbage collection.
        """
        if index == len(clauses):
            return self._sequence(otherwise, state)
        self._steps += 1
        if self._steps > MAX_STEPS or index > MAX_DEPTH:
            raise ExhaustedError
        condition, body = clauses[index]
        self._conditions += 1
        try:
            outcome, after = self._sequence(condition, state)
        finally:
            self._conditions -= 1
        if after is None:
            return outcome, None
        return self._two_ways(
            outcome,
            after,
            lambda arm: self._sequence(body, arm),
            lambda arm: self._clause(clauses, index + 1, otherwise, node, arm),
            condition[0] if condition else node,
        )

    def _case(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        subject_node = node.child_by_field_name("value")
        subject = self._value(subject_node, state)
        arms: list[Run] = []
        items = [child for child in node.children if child.type == "case_item"]
        certain = False
        for index, item in enumerate(items):
            truth = self._matches(subject, item, state)
            if truth is False:
                continue
            arms.append(self._case_body(items, index))
            if truth:
                certain = True
                break
        if certain and len(arms) == 1:
            return arms[0](state)
        if not arms:
            return SUCCESS, state
        if not certain:
            arms.append(self._keeper(SUCCESS))
        return self._arms(state, arms, values.names(subject), subject_node)

    def _case_body(self, items: Sequence[Node], index: int) -> Run:
        def run(state: State) -> tuple[Outcome, State | None]:
            outcome: Outcome = SUCCESS
            after: State | None = state
            for item in items[index:]:
                begin = next((number for number, child in enumerate(item.children) if child.type == ")"), 0)
                outcome, after = self._sequence(item.children[begin + 1 :], after)
                if not any(child.type in (";&", ";;&") for child in item.children):
                    break
            return outcome, after

        return run

    def _matches(self, subject: Value, item: Node, state: State) -> bool | None:
        """Whether a case item is taken."""
        texts = values.possible(subject)
        patterns: list[str] = []
        for index, child in enumerate(item.children):
            if item.field_name_for_child(index) != "value":
                continue
            if child.type == "extglob_pattern" and not child.named_child_count:
                patterns.extend(self._source.slice(child).split("|"))
                continue
            value = self._expander.value(child, self._source, state)
            if len(value) != 1 or values.plain(value[0]) is None:
                return None
            patterns.append(
                "".join(
                    re.sub(r"([*?\[\]\\])", r"\\\1", piece.text or "") if piece.quoted else piece.text or ""
                    for piece in value[0]
                )
            )
        if "*" in patterns:
            return True
        if texts is None:
            known = values.prefix(subject)
            literal = [pattern for pattern in patterns if not any(each in pattern for each in "*?[\\@!+")]
            if known and len(literal) == len(patterns) and not any(each.startswith(known) for each in literal):
                return False
            return None
        self._steps += sum(len(text) for text in texts) * sum(map(len, patterns)) // 128
        if self._steps > MAX_STEPS:
            raise ExhaustedError
        try:
            answers = {any(glob.matches(pattern, text) for pattern in patterns) for text in texts}
        except PatternTooLargeError:
            return None
        return next(iter(answers)) if len(answers) == 1 else None
