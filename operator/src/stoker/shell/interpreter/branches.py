"""`if` and `case`: branches that are taken, left out, or followed both."""

import re
from collections.abc import Sequence

from tree_sitter import Node

from stoker.shell.interpreter import glob, values
from stoker.shell.interpreter.budget import MAX_DEPTH
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.glob import PatternTooLargeError
from stoker.shell.interpreter.state import SUCCESS, ExitStatus, ShellState
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import Result, Run, Walk, keeper
from stoker.shell.model import ExhaustedError

MATCHES_A_STEP = 128
"""Characters of a text times those of a pattern that are as much work as a statement."""


class Branches:
    """`if` and `case`."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk

    def if_statement(self, node: Node, state: ShellState, frame: Frame) -> Result:
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

        return self._clause(clauses, 0, otherwise, node, state, frame)

    def _clause(
        self,
        clauses: Sequence[tuple[Sequence[Node], Sequence[Node]]],
        index: int,
        otherwise: Sequence[Node],
        node: Node,
        state: ShellState,
        frame: Frame,
    ) -> Result:
        """The clauses of an `if` from one on, each a condition and a body; a method, as a function that calls itself
        would keep its states alive until the next garbage collection.
        """
        if index == len(clauses):
            return self._walk.sequence(otherwise, state, frame)
        self._walk.budget.step()
        if index > MAX_DEPTH:
            raise ExhaustedError
        condition, body = clauses[index]
        status, after = self._walk.sequence(condition, state, frame.as_condition())
        if after is None:
            return status, None
        return self._walk.two_ways(
            status,
            after,
            frame,
            lambda arm: self._walk.sequence(body, arm, frame),
            lambda arm: self._clause(clauses, index + 1, otherwise, node, arm, frame),
            condition[0] if condition else node,
        )

    def case_statement(self, node: Node, state: ShellState, frame: Frame) -> Result:
        subject_node = node.child_by_field_name("value")
        subject = self._walk.expander.optional(subject_node, state, frame)
        arms: list[Run] = []
        items = [child for child in node.children if child.type == "case_item"]
        certain = False
        for index, item in enumerate(items):
            truth = self._matches(subject, item, state, frame)
            if truth is False:
                continue
            arms.append(self._case_body(items, index, frame))
            if truth:
                certain = True
                break
        if certain and len(arms) == 1:
            return arms[0](state)
        if not arms:
            return SUCCESS, state
        if not certain:
            arms.append(keeper(SUCCESS))
        return self._walk.arms(state, frame, arms, values.names(subject), subject_node)

    def _case_body(self, items: Sequence[Node], index: int, frame: Frame) -> Run:
        def run(state: ShellState) -> Result:
            status: ExitStatus = SUCCESS
            after: ShellState | None = state
            for item in items[index:]:
                begin = next((number for number, child in enumerate(item.children) if child.type == ")"), 0)
                status, after = self._walk.sequence(item.children[begin + 1 :], after, frame)
                if not any(child.type in (";&", ";;&") for child in item.children):
                    break
            return status, after

        return run

    def _matches(self, subject: Value, item: Node, state: ShellState, frame: Frame) -> bool | None:
        """Whether a case item is taken."""
        texts = values.possible(subject)
        patterns: list[str] = []
        for index, child in enumerate(item.children):
            if item.field_name_for_child(index) != "value":
                continue
            if child.type == "extglob_pattern" and not child.named_child_count:
                patterns.extend(frame.text.slice(child).split("|"))
                continue
            value = self._walk.expander.value(child, state, frame)
            if len(value) != 1 or values.known_text(value[0]) is None:
                return None
            patterns.append(
                "".join(
                    re.sub(r"([*?\[\]\\])", r"\\\1", fragment.text or "") if fragment.quoted else fragment.text or ""
                    for fragment in value[0]
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
        self._walk.budget.step(sum(len(text) for text in texts) * sum(map(len, patterns)) // MATCHES_A_STEP)
        try:
            outcomes = {any(glob.matches(pattern, text) for pattern in patterns) for text in texts}
        except PatternTooLargeError:
            return None
        return next(iter(outcomes)) if len(outcomes) == 1 else None
