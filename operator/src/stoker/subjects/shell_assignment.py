"""Assignments and declarations: what a script's variables become."""

from dataclasses import replace

from tree_sitter import Node

from stoker.subjects import shell_text
from stoker.subjects.shell_source import Offsets
from stoker.subjects.shell_state import EXPECTED, SUCCESS, UNDECIDED, Outcome, State, Variable
from stoker.subjects.shell_text import EMPTY, Value
from stoker.subjects.shell_walk import Walk


class Assignments(Walk):
    """NAME=value, arrays, export, local, unset."""

    def _assign(self, node: Node, state: State, *, exported: bool | None = None, store: bool = True) -> Outcome:
        """NAME=value, NAME+=value, NAME=(...), NAME[i]=value."""
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return UNDECIDED
        append = any(child.type == "+=" for child in node.children)
        origin = self._source.outer(self._source.start(node), self._source.end(node))
        if name_node.type == "subscript":
            base = name_node.child_by_field_name("name")
            if base is not None:
                self._assign_element(self._source.slice(base), name_node, value_node, state, origin)
            return SUCCESS
        name = self._source.slice(name_node)
        previous = state.variables.get(name)
        keep = previous.exported if previous is not None else False
        flag = keep if exported is None else exported or keep
        if value_node is not None and value_node.type == "array":
            items = self._array(value_node, state)
            if append and items is not None:
                known = previous.items if previous is not None else ()
                if known is None and previous is not None:
                    known = () if not previous.value or previous.value == EMPTY else (previous.value,)
                    if any(piece.text is None for text in (previous.value or ()) for piece in text):
                        items = None
                items = (*(known or ()), *items) if items is not None else None
            if items is None:
                variable = Variable(value=shell_text.hole([name], many=True), exported=flag, origin=origin)
            else:
                variable = Variable(items=items, exported=flag, origin=origin)
            state.variables[name] = variable
            return SUCCESS
        value = shell_text.as_assigned(self._value(value_node, state))
        if append:
            found = self._expander.lookup(name, state)
            if previous is not None and previous.items is not None:
                found = previous.items[0] if previous.items else EMPTY
            base_value = EMPTY if found is None or shell_text.is_absent(found) else found
            if found is not None and shell_text.is_absent(found):
                self._assumed_unset.add(name)
            value = shell_text.concatenate([base_value, value])
        if store:
            state.variables[name] = Variable(value=value, exported=flag, origin=origin)
        return EXPECTED if value_node is not None and "command_substitution" in _types(value_node) else SUCCESS

    def _assign_element(self, name: str, target: Node, value: Node | None, state: State, origin: Offsets) -> None:
        index_node = target.child_by_field_name("index")
        previous = state.variables.get(name)
        items = previous.items if previous is not None else ()
        position = self._expander.integer(self._source.slice(index_node), state) if index_node is not None else None
        exported = previous is not None and previous.exported
        if items is None or position is None or not 0 <= position <= len(items):
            state.variables[name] = Variable(value=shell_text.hole([name], many=True), exported=exported, origin=origin)
            return
        element = shell_text.as_assigned(self._value(value, state))
        state.variables[name] = Variable(
            items=(*items[:position], element, *items[position + 1 :]), exported=exported, origin=origin
        )

    def _array(self, node: Node, state: State) -> tuple[Value, ...] | None:
        elements = [child for child in node.named_children if child.type != "comment"]
        if any(self._source.slice(child).startswith("[") for child in elements):
            return None
        variants = self._expander.fields(elements, self._source, state)
        if len(variants) != 1 or any(field.many for field in variants[0]) or len(variants[0]) > 1_024:
            return None
        return tuple(shell_text.as_assigned(field.value) for field in variants[0])

    def _declare(self, node: Node, state: State) -> Outcome:
        """export, declare, typeset, local, readonly."""
        keyword = node.children[0].type if node.children else ""
        flags = ""
        outcome = SUCCESS
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                name_node = child.child_by_field_name("name")
                if name_node is not None:
                    self._localize(keyword, flags, self._source.slice(name_node), state)
                    if "A" in flags:
                        state.variables[self._source.slice(name_node)] = Variable(
                            value=shell_text.hole([self._source.slice(name_node)], many=True)
                        )
                        continue
                export = keyword == "export" or "x" in flags
                outcome = self._assign(child, state, exported=export or None)
            elif child.is_named:
                self._declare_word(child, keyword, flags, state)
                text = self._source.slice(child)
                if text.startswith("-"):
                    flags += text[1:]
        return outcome

    def _declare_word(self, node: Node, keyword: str, flags: str, state: State) -> None:
        """`export NAME`, `export $(cat .env)`, `local x`, `declare -A m`."""
        if self._source.slice(node).startswith("-"):
            return
        for field_ in self._expander.fields([node], self._source, state)[0]:
            text = field_.text
            if text is None:
                head = shell_text.prefix(field_.value)
                if "=" in head:
                    state.forget_names([head.split("=", 1)[0]])
                else:
                    state.forget()
                continue
            name, equals, content = text.partition("=")
            if not name.isidentifier():
                continue
            self._localize(keyword, flags, name, state)
            previous = state.variables.get(name)
            export = (keyword == "export" or "x" in flags) and "n" not in flags
            if equals:
                state.variables[name] = Variable(
                    value=shell_text.literal(content),
                    exported=export or (previous is not None and previous.exported),
                    origin=field_.site,
                )
            elif "A" in flags:
                state.variables[name] = Variable(value=shell_text.hole([name], many=True))
            elif previous is not None:
                state.variables[name] = replace(previous, exported=export or (previous.exported and "n" not in flags))
            elif export and name not in state.unset:
                state.variables[name] = Variable(
                    value=shell_text.hole([name], absent=not state.tainted, many=True), exported=True
                )

    def _localize(self, keyword: str, flags: str, name: str, state: State) -> None:
        if self._locals and (keyword == "local" or (keyword in ("declare", "typeset") and "g" not in flags)):
            self._locals[-1].setdefault(name, state.variables.get(name))
            if keyword == "local":
                state.clear(name)

    def _unset(self, node: Node, state: State) -> Outcome:
        for child in node.named_children:
            text = self._source.slice(child)
            if text == "-f":
                break
            if text.isidentifier():
                state.clear(text)
        return SUCCESS


def _types(node: Node) -> set[str]:
    found: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        found.add(current.type)
        stack.extend(current.children)
    return found
