"""Assignments and declarations: what a script's variables become."""

from tree_sitter import Node

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Expander
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.parsed_text import Offsets
from stoker.shell.interpreter.record import ScriptRecord
from stoker.shell.interpreter.state import EXPECTED, SUCCESS, UNDECIDED, ExitStatus, ShellState, Variable
from stoker.shell.interpreter.values import EMPTY, NotFollowedError

MAX_ELEMENTS = 1_024
"""Elements of an array that is followed; chosen because the longest of benchmarks/corpus has 25."""


class Assignments:
    """NAME=value, arrays, export, local, unset."""

    def __init__(self, expander: Expander, record: ScriptRecord) -> None:
        self._expander = expander
        self._record = record

    def assign(
        self,
        node: Node,
        state: ShellState,
        frame: Frame,
        *,
        exported: bool | None = None,
        reading: ShellState | None = None,
    ) -> ExitStatus:
        """NAME=value, NAME+=value, NAME=(...), NAME[i]=value. reading: what the value is read from, if not `state`."""
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return UNDECIDED
        append = any(child.type == "+=" for child in node.children)
        origin = frame.text.outer(frame.text.start(node), frame.text.end(node))
        if name_node.type == "subscript":
            base = name_node.child_by_field_name("name")
            if base is not None:
                self._assign_element(frame.text.slice(base), name_node, value_node, state, frame, origin)
            return SUCCESS
        name = frame.text.slice(name_node)
        previous = state.variables.get(name, Variable())
        if previous.fixed:
            return UNDECIDED
        flag = previous.exported if exported is None else exported or previous.exported
        if previous.opaque:
            self._expander.optional(value_node, state, frame)  # what it runs is recorded
            state.forget_names([name])
            return SUCCESS
        if value_node is not None and value_node.type == "array":
            state.variables[name] = self._array(
                name, value_node, state, frame, append=append, origin=origin, exported=flag
            )
            return SUCCESS
        value = values.as_assigned(
            self._expander.optional(value_node, state if reading is None else reading, frame), whole=True
        )
        if append:
            found = self._expander.lookup(name, state)
            base_value = EMPTY if found is None or values.is_absent(found) else found
            if found is not None and values.is_absent(found):
                self._record.assumed_unset.add(name)
            value = values.concatenate([base_value, value])
        # A scalar given to an array is its first element.
        kept = values.hole([name], many=True) if previous.items else value
        state.variables[name] = Variable(value=kept, exported=flag, origin=origin)
        return EXPECTED if value_node is not None and "command_substitution" in _types(value_node) else SUCCESS

    def _assign_element(
        self, name: str, target: Node, value: Node | None, state: ShellState, frame: Frame, origin: Offsets
    ) -> None:
        """`x[1]=a`: a place of a known array, or one more at its end; else the array is not known."""
        index_node = target.child_by_field_name("index")
        previous = state.variables.get(name, Variable(items=()))
        element = values.as_assigned(self._expander.optional(value, state, frame))
        if index_node is not None and previous.items is not None and not any(map(values.is_several, previous.items)):
            position = self._expander.integer(frame.text.slice(index_node), state)
            if position is not None and 0 <= position <= min(len(previous.items), MAX_ELEMENTS):
                items = (*previous.items[:position], element, *previous.items[position + 1 :])
                state.variables[name] = previous._replace(items=items, origin=origin)
                return
        state.variables[name] = previous._replace(value=values.hole([name], many=True), items=None, origin=origin)

    def _array(
        self, name: str, node: Node, state: ShellState, frame: Frame, *, append: bool, origin: Offsets, exported: bool
    ) -> Variable:
        """`x=(a b)`, `x+=(c)`."""
        previous = state.variables.get(name, Variable(items=()))
        unknown = Variable(value=values.hole([name], many=True), exported=exported, origin=origin)
        if append and previous.items is None:
            return unknown
        elements = [child for child in node.named_children if child.type != "comment"]
        if any(frame.text.slice(child).startswith("[") for child in elements):
            return unknown
        variants = self._expander.fields(elements, state, frame)
        if len(variants) != 1 or len(variants[0]) > MAX_ELEMENTS:
            return unknown
        added = tuple(
            values.hole(values.names(each.value), many=True)
            if each.many or each.globs
            else values.as_assigned(each.value)
            for each in variants[0]
        )
        return Variable(items=(*(previous.items or ()), *added) if append else added, exported=exported, origin=origin)

    def declare(self, node: Node, state: ShellState, frame: Frame) -> ExitStatus:
        """export, declare, typeset, local, readonly."""
        keyword = node.children[0].type if node.children else ""
        flags = ""
        status = SUCCESS
        # `export A=1 B=$A`: all words are expanded before the first name is given its value.
        reading = state.fork() if sum(child.type == "variable_assignment" for child in node.children) > 1 else None
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                name_node = child.child_by_field_name("name")
                if name_node is not None:
                    name = frame.text.slice(name_node)
                    _refuse_references(keyword, flags)
                    self._localize(keyword, flags, name, state, frame)
                    self._attribute(flags, name, state)
                export = keyword == "export" or "x" in flags
                status = self.assign(child, state, frame, exported=export or None, reading=reading)
                if name_node is not None and (keyword == "readonly" or "r" in flags):
                    self._fix(frame.text.slice(name_node), state)
            elif child.is_named:
                self._declare_word(child, keyword, flags, state, frame)
                text = frame.text.slice(child)
                if text.startswith("-"):
                    flags += text[1:]
        return status

    def _declare_word(self, node: Node, keyword: str, flags: str, state: ShellState, frame: Frame) -> None:
        """`export NAME`, `export $(cat .env)`, `local x`, `declare -A m`."""
        if frame.text.slice(node).startswith("-"):
            return
        for field_ in self._expander.fields([node], state, frame)[0]:
            text = field_.text
            if text is None:
                head = values.prefix(field_.value)
                if "=" in head:
                    state.forget_names([head.split("=", 1)[0]])
                else:
                    state.forget()
                continue
            name, equals, content = text.partition("=")
            if not name.isidentifier():
                continue
            _refuse_references(keyword, flags)
            self._localize(keyword, flags, name, state, frame)
            self._attribute(flags, name, state)
            previous = state.variables.get(name)
            export = (keyword == "export" or "x" in flags) and "n" not in flags
            if equals:
                state.assign(name, Variable(value=values.literal(content), exported=export, origin=field_.site))
            elif previous is not None:
                state.variables[name] = previous._replace(exported=export or (previous.exported and "n" not in flags))
            elif export and name not in state.unset:
                state.variables[name] = Variable(
                    value=values.hole([name], absent=not state.tainted, many=True), exported=True
                )
            if keyword == "readonly" or "r" in flags:
                self._fix(name, state)

    def _localize(self, keyword: str, flags: str, name: str, state: ShellState, frame: Frame) -> None:
        if frame.locals and (keyword == "local" or (keyword in ("declare", "typeset") and "g" not in flags)):
            frame.locals[-1].setdefault(name, state.variables.get(name))
            if keyword == "local":
                exported = name in state.variables and state.variables[name].exported
                state.clear(name)
                if exported:
                    state.variables[name] = Variable(exported=True)

    @staticmethod
    def _attribute(flags: str, name: str, state: ShellState) -> None:
        """`declare -A`, `declare -i`: what is assigned to the name later on is not followed."""
        if set("Ai") & set(flags):
            previous = state.variables.get(name, Variable())
            state.variables[name] = previous._replace(value=values.hole([name], many=True), items=None, opaque=True)

    @staticmethod
    def _fix(name: str, state: ShellState) -> None:
        """`readonly`, `declare -r`."""
        if name in state.variables:
            state.variables[name] = state.variables[name]._replace(fixed=True)

    def unset(self, node: Node, state: ShellState, frame: Frame) -> ExitStatus:
        children = node.named_children
        for index, child in enumerate(children):
            text = frame.text.slice(child)
            if text == "-f":
                break
            if index + 1 < len(children) and children[index + 1].start_byte == child.end_byte:
                continue  # `x[1]`: its name, then its index
            if text.isidentifier():
                state.clear(text)
            elif not text.startswith("-"):
                # An element, or a name that is computed: what is left of an array has holes in its indices.
                name = frame.text.slice(children[index - 1] if text.startswith("[") and index else child)
                name = name.strip("\"'").split("[", 1)[0]
                state.forget_names([name] if name.isidentifier() else state.variables)
        return SUCCESS


def _refuse_references(keyword: str, flags: str) -> None:
    """`declare -n NAME=TARGET`: from there on an assignment may change any other variable."""
    if "n" in flags and keyword != "export":
        raise NotFollowedError


def _types(node: Node) -> set[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        found.add(current.type)
        stack.extend(current.children)
    return found
