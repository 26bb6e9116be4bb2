"""Loops: unrolled where their rounds are known, else walked once with what they assign forgotten."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.branches import Decisions
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.parsed_text import Source
from stoker.shell.interpreter.state import SUCCESS, UNDECIDED, Outcome, State, Variable, join
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import MAX_STEPS, Loop
from stoker.shell.model import ExhaustedError

MAX_UNROLL = 64
MAX_ALIKE = 16  # rounds whose body does not look at the variable: they try or wait again
_WORD = re.compile(r"\w+")
_LEAVES = re.compile(r"\b(?:break|continue|exit|return)\b")
_ADVANCES = re.compile(r"\b(read|mapfile|readarray|getopts|shift)\b")


class Loops(Decisions):
    """`for`, `while`, `until`, `for (( ))`."""

    def _for(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        if body is None or variable is None:
            return UNDECIDED, state
        name = self._source.slice(variable)
        listed = [child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "value"]
        if any(child.type == "in" for child in node.children):
            variants = self._expander.fields(listed, self._source, state)
        else:
            variants = (
                [[Field(values.hole(many=True), many=True)]]
                if state.positional is None
                else [[Field(value) for value in state.positional]]
            )
        items = variants[0]
        selects = any(child.type == "select" for child in node.children)
        known = len(variants) == 1 and not selects and not any(each.many or each.globs for each in items)
        counted = known and _LEAVES.search(self._source.slice(body)) is None
        rounds = max(state.how.rounds, 1) if counted and (state.how.rounds or not state.how.in_loop) else 0
        alike = len(items) > MAX_ALIKE and name not in _WORD.findall(self._source.slice(body))
        if known and len(items) <= MAX_UNROLL and not alike:
            return self._unrolled(name, items, body, state, rounds)
        # Something is in the list, but what and how much is unknown; a long known list does run.
        certain = known or (len(variants) == 1 and not selects and any(not each.many for each in items))
        runs = True if certain else None
        return self._repeated(body, state, runs=runs, bind=name, node=variable, times=rounds * len(items))

    def _unrolled(
        self, name: str, items: Sequence[Field], body: Node, state: State, rounds: int
    ) -> tuple[Outcome, State | None]:
        outer, self._loops = self._loops, [*self._loops, Loop()]
        loop = self._loops[-1]
        how, state.how = state.how, replace(state.how, in_loop=True, rounds=rounds)
        current: State | None = state
        outcome = SUCCESS
        try:
            for item in items:
                if current is None:
                    break
                current.assign(name, Variable(value=values.as_assigned(item.value), origin=item.site))
                outcome, current = self._iteration(body, current, loop)
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.how = replace(after.how, in_loop=how.in_loop, rounds=how.rounds)
        return (outcome if current is not None else SUCCESS), after

    def _iteration(self, body: Node, state: State, loop: Loop) -> tuple[Outcome, State | None]:
        outcome, after = self._execute(body, state)
        after = join([each for each in (after, *loop.continues) if each is not None])
        loop.continues.clear()
        return outcome, after

    def _repeated(
        self,
        body: Node,
        state: State,
        *,
        runs: bool | None,
        bind: str | None = None,
        node: Node | None = None,
        endless: bool = False,
        names: frozenset[str] = values.NO_NAMES,
        recorded: int | None = None,
        times: int = 0,
    ) -> tuple[Outcome, State | None]:
        """A loop whose number of rounds is unknown: what the body assigns is forgotten, the body is walked once.

        runs: it runs at least once (None: maybe). endless: its condition never ends it. recorded: number of invocations
        before its condition was walked. times: its rounds, 0 = unknown.
        """
        changed = self._assigned(body, state)
        first = len(self._invocations) if recorded is None else recorded
        outer, self._loops = self._loops, [*self._loops, Loop()]
        loop = self._loops[-1]
        ends = self._ends
        how, was_endless = state.how, state.how.loop_endless

        def rounds(current: State) -> tuple[Outcome, State | None]:
            if changed is None:
                current.forget()
            else:
                current.forget_names(changed)
            if bind is not None:
                current.forget_names([bind])
            if self._stdin is not None:
                self._stdin = values.hole(["<"])
            current.how = replace(current.how, in_loop=True, rounds=times, loop_endless=endless or was_endless)
            return self._iteration(body, current, loop)

        try:
            if runs:
                outcome, after = rounds(state)
            else:
                outcome, after = self._arms(state, [rounds, self._keeper(SUCCESS)], names, node)
        finally:
            self._loops = outer
        left = loop.breaks or self._ends != ends
        if endless:
            for index in range(first, len(self._invocations)):
                self._invocations[index] = replace(self._invocations[index], loop_endless=was_endless or not left)
        result = join([*loop.breaks] if endless else [each for each in (after, *loop.breaks) if each is not None])
        if result is not None:
            result.how = replace(result.how, in_loop=how.in_loop, rounds=how.rounds, loop_endless=was_endless)
            if endless or loop.breaks:
                result.how = replace(result.how, branches=how.branches)
            if changed is None:
                result.forget()
            elif not endless:
                result.forget_names(name for name in changed if name not in state.variables or runs)
        return outcome, result

    def _while(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        body = node.child_by_field_name("body")
        condition = [
            child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "condition"
        ]
        if body is None:
            return UNDECIDED, state
        until = bool(node.children) and node.children[0].type == "until"
        text = (
            self._source.text[self._source.start(condition[0]) : self._source.end(condition[-1])] if condition else ""
        )
        constant = not any(character in text for character in "$`(") and not _ADVANCES.search(text)
        how = state.how
        outer, self._loops = self._loops, [*self._loops, Loop()]
        loop = self._loops[-1]
        current: State | None = state
        try:
            for _ in range(MAX_UNROLL):
                assert current is not None
                recorded = len(self._invocations)
                current.how = replace(current.how, in_loop=True, rounds=0)
                self._conditions += 1
                try:
                    outcome, current = self._sequence(condition, current)
                finally:
                    self._conditions -= 1
                if current is None:
                    break
                outcome = outcome.negated() if until else outcome
                if outcome.certain and outcome.truth is False:
                    break
                if not outcome.certain or constant:
                    current = self._abstract(body, current, outcome, node, recorded)
                    break
                outcome, current = self._iteration(body, current, loop)
                if current is None:
                    break
            else:
                assert current is not None
                changed = self._assigned(body, current)
                if changed is None:
                    current.forget()
                else:
                    current.forget_names(changed)
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.how = replace(after.how, in_loop=how.in_loop, rounds=how.rounds)
        return SUCCESS, after

    def _abstract(self, body: Node, state: State, outcome: Outcome, node: Node, recorded: int) -> State | None:
        """The rounds of a `while` that can't be counted."""
        if outcome.certain:
            return self._repeated(body, state, runs=True, endless=True, recorded=recorded)[1]
        if outcome.truth is False:
            # `until program; do ...`: the body runs only after a failure.
            failed = state.fork()
            failed.how = replace(failed.how, after_failure=True)
            after = self._repeated(body, failed, runs=True)[1]
            return join([each for each in (state, after) if each is not None])
        return self._repeated(body, state, runs=None, node=node, names=outcome.names)[1]

    def _counted(self, node: Node, state: State) -> tuple[Outcome, State | None]:
        """`for ((i = 0; i < n; i++))`."""
        body = node.child_by_field_name("body")
        if body is None:
            return UNDECIDED, state
        parts: dict[str, list[Node]] = {"initializer": [], "condition": [], "update": []}
        for index, child in enumerate(node.children):
            name = node.field_name_for_child(index)
            if name in parts and child.is_named:
                parts[name].append(child)

        def evaluate(part: str, current: State) -> Value:
            value: Value = values.literal("1")
            for each in parts[part]:
                region = self._expander.region(
                    each, self._source.start(each), self._source.end(each), self._source, current
                )
                value = self._expander.calculate(region, current)
            return value

        evaluate("initializer", state)
        how, state.how = state.how, replace(state.how, in_loop=True, rounds=0)
        outer, self._loops = self._loops, [*self._loops, Loop()]
        loop = self._loops[-1]
        current: State | None = state
        try:
            for _ in range(MAX_UNROLL):
                assert current is not None
                outcome = self._truth_of(evaluate("condition", current))
                if outcome.truth is False:
                    break
                if outcome.truth is None or not parts["condition"]:
                    current = self._repeated(
                        body, current, runs=True if not parts["condition"] else None,
                        endless=not parts["condition"], node=node, names=outcome.names,
                    )[1]  # fmt: skip
                    break
                _, current = self._iteration(body, current, loop)
                if current is None:
                    break
                evaluate("update", current)
            else:
                assert current is not None
                changed = self._assigned(body, current)
                current.forget_names(changed or ())
        finally:
            self._loops = outer
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.how = replace(after.how, in_loop=how.in_loop, rounds=how.rounds)
        return SUCCESS, after

    def _assigned(self, node: Node, state: State) -> frozenset[str] | None:
        """Names that a piece of script may assign; None if that can be any (`eval`, `source`)."""
        names: set[str] = set()
        seen: set[str] = set()
        stack: list[tuple[Source, Node]] = [(self._source, node)]
        while stack:
            source, current = stack.pop()
            self._steps += 1
            self._allowance.check()
            if self._steps > 4 * MAX_STEPS:
                raise ExhaustedError
            match current.type:
                case "variable_assignment" | "for_statement":
                    target = current.child_by_field_name("name") or current.child_by_field_name("variable")
                    if target is not None:
                        names.add(source.slice(target).split("[", 1)[0])
                case "arithmetic_expansion" | "compound_statement" | "c_style_for_statement" | "test_command":
                    head = source.slice(current)
                    if current.type != "compound_statement" or head.startswith("(("):
                        names.update(
                            re.findall(r"[A-Za-z_]\w*", head[:2_000])
                            if "=" in head or "++" in head or "--" in head
                            else ()
                        )
                case "expansion":
                    head = source.slice(current)
                    if "=" in head[:200]:
                        names.update(re.findall(r"[A-Za-z_]\w*", head[:200])[:1])
                case "declaration_command" | "unset_command":
                    names.update(
                        source.slice(child) for child in current.named_children if child.type == "variable_name"
                    )
                case "command":
                    name_node = current.child_by_field_name("name")
                    name = source.slice(name_node) if name_node is not None else ""
                    if name in ("eval", "source", "."):
                        return None
                    if name in ("read", "mapfile", "readarray", "getopts", "printf", "let"):
                        names.update(re.findall(r"[A-Za-z_]\w*", source.slice(current)[:2_000]))
                    if name in state.functions and name not in seen:
                        seen.add(name)
                        stack.append(state.functions[name])
                case _:
                    pass
            stack.extend((source, child) for child in current.named_children)
        return frozenset(names)
