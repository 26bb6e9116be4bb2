"""Loops: unrolled where their rounds are known, else walked once with what they assign forgotten."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.budget import MAX_STEPS
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.frame import Frame, Loop
from stoker.shell.interpreter.parsed_text import ParsedText
from stoker.shell.interpreter.state import SUCCESS, UNDECIDED, ExitStatus, ShellState, Variable, join
from stoker.shell.interpreter.tests import Tests
from stoker.shell.interpreter.values import Value
from stoker.shell.interpreter.walk import Result, Walk, keeper

MAX_UNROLL = 64
"""Rounds that are followed one by one; chosen because the longest known list of benchmarks/corpus has 13 words."""
MAX_ALIKE = 16
"""As many of a body that does not look at the variable; chosen because such rounds try or wait again."""
_WORD = re.compile(r"\w+")
_LEAVES = re.compile(r"\b(?:break|continue|exit|return)\b")
_ADVANCES = re.compile(r"\b(read|mapfile|readarray|getopts|shift)\b")


class Loops:
    """`for`, `while`, `until`, `for (( ))`."""

    def __init__(self, walk: Walk, tests: Tests) -> None:
        self._walk = walk
        self._tests = tests

    def for_statement(self, node: Node, state: ShellState, frame: Frame) -> Result:
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        if body is None or variable is None:
            return UNDECIDED, state
        name = frame.text.slice(variable)
        listed = [child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "value"]
        if any(child.type == "in" for child in node.children):
            variants = self._walk.expander.fields(listed, state, frame)
        else:
            variants = (
                [[Field(values.hole(many=True), many=True)]]
                if state.positional is None
                else [[Field(value) for value in state.positional]]
            )
        items = variants[0]
        selects = any(child.type == "select" for child in node.children)
        known = len(variants) == 1 and not selects and not any(each.many or each.globs for each in items)
        counted = known and _LEAVES.search(frame.text.slice(body)) is None
        rounds = max(state.context.rounds, 1) if counted and (state.context.rounds or not state.context.in_loop) else 0
        alike = len(items) > MAX_ALIKE and name not in _WORD.findall(frame.text.slice(body))
        if known and len(items) <= MAX_UNROLL and not alike:
            return self._unrolled(name, items, body, state, frame, rounds)
        # Something is in the list, but what and how much is unknown; a long known list does run.
        certain = known or (len(variants) == 1 and not selects and any(not each.many for each in items))
        runs = True if certain else None
        return self._repeated(body, state, frame, runs=runs, bind=name, node=variable, times=rounds * len(items))

    def _unrolled(
        self, name: str, items: Sequence[Field], body: Node, state: ShellState, frame: Frame, rounds: int
    ) -> Result:
        loop = Loop()
        frame = frame.in_loop(loop)
        context, state.context = state.context, replace(state.context, in_loop=True, rounds=rounds)
        current: ShellState | None = state
        status = SUCCESS
        for item in items:
            if current is None:
                break
            current.assign(name, Variable(value=values.as_assigned(item.value), origin=item.site))
            status, current = self._iteration(body, current, frame, loop)
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.context = replace(after.context, in_loop=context.in_loop, rounds=context.rounds)
        return (status if current is not None else SUCCESS), after

    def _iteration(self, body: Node, state: ShellState, frame: Frame, loop: Loop) -> Result:
        status, after = self._walk.execute(body, state, frame)
        after = join([each for each in (after, *loop.continues) if each is not None])
        loop.continues.clear()
        return status, after

    def _repeated(
        self,
        body: Node,
        state: ShellState,
        frame: Frame,
        *,
        runs: bool | None,
        bind: str | None = None,
        node: Node | None = None,
        endless: bool = False,
        names: frozenset[str] = values.NO_NAMES,
        recorded: int | None = None,
        times: int = 0,
    ) -> Result:
        """A loop whose number of rounds is unknown: what the body assigns is forgotten, the body is walked once.

        runs: it runs at least once (None: maybe). endless: its condition never ends it. recorded: number of invocations
        before its condition was walked. times: its rounds, 0 = unknown.
        """
        changed = self.assigned(body, state, frame)
        first = len(self._walk.record.invocations) if recorded is None else recorded
        loop = Loop()
        frame = frame.in_loop(loop)
        ends = self._walk.record.ends
        context, was_endless = state.context, state.context.loop_endless

        def rounds(current: ShellState) -> Result:
            if changed is None:
                current.forget()
            else:
                current.forget_names(changed)
            if bind is not None:
                current.forget_names([bind])
            if current.stdin is not None:
                current.stdin = values.hole(["<"])
            current.context = replace(current.context, in_loop=True, rounds=times, loop_endless=endless or was_endless)
            return self._iteration(body, current, frame, loop)

        if runs:
            status, after = rounds(state)
        else:
            status, after = self._walk.arms(state, frame, [rounds, keeper(SUCCESS)], names, node)
        left = loop.breaks or self._walk.record.ends != ends
        if endless:
            for index in range(first, len(self._walk.record.invocations)):
                self._walk.record.invocations[index] = replace(
                    self._walk.record.invocations[index], loop_endless=was_endless or not left
                )
        result = join([*loop.breaks] if endless else [each for each in (after, *loop.breaks) if each is not None])
        if result is not None:
            result.context = replace(
                result.context, in_loop=context.in_loop, rounds=context.rounds, loop_endless=was_endless
            )
            if endless or loop.breaks:
                result.context = replace(result.context, branches=context.branches)
            if changed is None:
                result.forget()
            elif not endless:
                result.forget_names(name for name in changed if name not in state.variables or runs)
        return status, result

    def while_statement(self, node: Node, state: ShellState, frame: Frame) -> Result:
        body = node.child_by_field_name("body")
        condition = [
            child for index, child in enumerate(node.children) if node.field_name_for_child(index) == "condition"
        ]
        if body is None:
            return UNDECIDED, state
        until = bool(node.children) and node.children[0].type == "until"
        text = frame.text.text[frame.text.start(condition[0]) : frame.text.end(condition[-1])] if condition else ""
        constant = not any(character in text for character in "$`(") and not _ADVANCES.search(text)
        context = state.context
        loop = Loop()
        frame = frame.in_loop(loop)
        current: ShellState | None = state
        for _ in range(MAX_UNROLL):
            assert current is not None
            recorded = len(self._walk.record.invocations)
            current.context = replace(current.context, in_loop=True, rounds=0)
            status, current = self._walk.sequence(condition, current, frame.as_condition())
            if current is None:
                break
            status = status.negated() if until else status
            if status.certain and status.truth is False:
                break
            if not status.certain or constant:
                current = self._abstract(body, current, frame, status, node, recorded)
                break
            status, current = self._iteration(body, current, frame, loop)
            if current is None:
                break
        else:
            assert current is not None
            changed = self.assigned(body, current, frame)
            if changed is None:
                current.forget()
            else:
                current.forget_names(changed)
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.context = replace(after.context, in_loop=context.in_loop, rounds=context.rounds)
        return SUCCESS, after

    def _abstract(
        self, body: Node, state: ShellState, frame: Frame, status: ExitStatus, node: Node, recorded: int
    ) -> ShellState | None:
        """The rounds of a `while` that can't be counted."""
        if status.certain:
            return self._repeated(body, state, frame, runs=True, endless=True, recorded=recorded)[1]
        if status.truth is False:
            # `until program; do ...`: the body runs only after a failure.
            failed = state.fork()
            failed.context = replace(failed.context, after_failure=True)
            after = self._repeated(body, failed, frame, runs=True)[1]
            return join([each for each in (state, after) if each is not None])
        return self._repeated(body, state, frame, runs=None, node=node, names=status.names)[1]

    def counted_for(self, node: Node, state: ShellState, frame: Frame) -> Result:
        """`for ((i = 0; i < n; i++))`."""
        body = node.child_by_field_name("body")
        if body is None:
            return UNDECIDED, state
        parts: dict[str, list[Node]] = {"initializer": [], "condition": [], "update": []}
        for index, child in enumerate(node.children):
            name = node.field_name_for_child(index)
            if name in parts and child.is_named:
                parts[name].append(child)

        def evaluate(part: str, current: ShellState) -> Value:
            value: Value = values.literal("1")
            for each in parts[part]:
                region = self._walk.expander.region(each, frame.text.start(each), frame.text.end(each), current, frame)
                value = self._walk.expander.calculate(region, current)
            return value

        evaluate("initializer", state)
        context, state.context = state.context, replace(state.context, in_loop=True, rounds=0)
        loop = Loop()
        frame = frame.in_loop(loop)
        current: ShellState | None = state
        for _ in range(MAX_UNROLL):
            assert current is not None
            status = self._tests.truth_of(evaluate("condition", current))
            if status.truth is False:
                break
            if status.truth is None or not parts["condition"]:
                current = self._repeated(
                    body, current, frame, runs=True if not parts["condition"] else None,
                    endless=not parts["condition"], node=node, names=status.names,
                )[1]  # fmt: skip
                break
            _, current = self._iteration(body, current, frame, loop)
            if current is None:
                break
            evaluate("update", current)
        else:
            assert current is not None
            changed = self.assigned(body, current, frame)
            current.forget_names(changed or ())
        after = join([each for each in (current, *loop.breaks) if each is not None])
        if after is not None:
            after.context = replace(after.context, in_loop=context.in_loop, rounds=context.rounds)
        return SUCCESS, after

    def assigned(self, node: Node, state: ShellState, frame: Frame) -> frozenset[str] | None:
        """Names that a fragment of script may assign; None if that can be any (`eval`, `source`)."""
        names: set[str] = set()
        seen: set[str] = set()
        stack: list[tuple[ParsedText, Node]] = [(frame.text, node)]
        while stack:
            source, current = stack.pop()
            self._walk.budget.step(limit=4 * MAX_STEPS)
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
