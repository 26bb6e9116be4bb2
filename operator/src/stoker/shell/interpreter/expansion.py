"""Expansion of shell words: quotes, parameters, arithmetic, arrays; then braces, and splitting into fields."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from tree_sitter import Node

from stoker.shell.interpreter import arithmetic, braces, quoting, values
from stoker.shell.interpreter.arithmetic import ArithmeticUnknownError
from stoker.shell.interpreter.budget import MAX_WORD_DEPTH, Budget
from stoker.shell.interpreter.frame import Frame
from stoker.shell.interpreter.glob import PatternTooLargeError
from stoker.shell.interpreter.parameter_operators import sliced, transform
from stoker.shell.interpreter.parsed_text import NOWHERE, Offsets, ParsedText
from stoker.shell.interpreter.state import SUCCESS, ShellState, Variable
from stoker.shell.interpreter.values import EMPTY, SEPARATOR, Fragment, Text, Value

MAX_VARIANTS = 4
"""Ways to split the words of one command that are followed: each doubles what comes after."""
ORDINARY = 8
"""Pieces of a value that costs nothing but its step."""

_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
)
_OPERATORS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?", "%", "%%", "#", "##", "/", "//", ":", "^^", ",,"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[\\$`*?\[{'\"~]")
_STAND_IN = re.compile(r"\$\{(__unknown_[0-9]+)\}")
_OVERLOOKED = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!$-])|[({])")

# Set by the image, the kubelet or the shell itself: never taken for unset, nor for options.
AMBIENT = frozenset(
    {
        "HOME", "PATH", "HOSTNAME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "LANG", "LC_ALL", "TERM", "TMPDIR",
        "LD_LIBRARY_PATH", "LIBRARY_PATH", "PYTHONPATH", "RANDOM", "SECONDS", "BASHPID", "PPID", "UID", "EUID", "GID",
        "CUDA_HOME", "CUDA_VERSION", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "BASH_VERSION", "BASH", "EPOCHSECONDS", "LINENO", "OSTYPE", "MACHTYPE",
        "BASH_SOURCE", "FUNCNAME", "PIPESTATUS", "OPTARG", "OPTIND", "REPLY", "SHLVL", "DEBIAN_FRONTEND",
        "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HOSTTYPE", "SHELLOPTS", "BASHOPTS", "COLUMNS", "LINES",
    }
)  # fmt: skip


class Field(NamedTuple):
    """One word of a command after expansion: its value, and where it stands: in the outermost script, or in argv."""

    value: Value
    site: Offsets = NOWHERE
    many: bool = False
    argument: int | None = None

    @property
    def text(self) -> str | None:
        return None if self.many else values.single(self.value)

    @property
    def globs(self) -> bool:
        """Whether files' names may take its place."""
        for text in self.value:
            for fragment in text:
                if not fragment.quoted and fragment.text is not None and ("*" in fragment.text or "?" in fragment.text):
                    return True
        return False


Substitute = Callable[[Node, ShellState, Frame, bool], Value]
"""The output of a command substitution; the last argument: with the newlines at its end."""


def _nowhere(_: Node, __: ShellState, ___: Frame, ____: bool) -> Value:
    """What a substitution gives after the end of the walk: unknown text."""
    return values.hole(many=True)


class Expander:
    """Turns words of the syntax tree into values and fields.

    substitute: what `$(...)` gives. assumed_unset: collects the variables whose defaults were taken.
    """

    def __init__(self, substitute: Substitute, assumed_unset: set[str], budget: Budget) -> None:
        self._substitute = substitute
        self._assumed_unset = assumed_unset
        self._budget = budget

    def close(self) -> None:
        """Let go of what gives the substitutions' output (see `Walk.close`)."""
        self._substitute = _nowhere

    # ------------------------------------------------------------------------------------------------------- words

    def fields(self, nodes: Sequence[Node], state: ShellState, frame: Frame) -> list[list[Field]]:
        """The words of a command: one list, or several where alternatives split differently."""
        source = frame.text
        variants: list[list[Field]] = [[]]
        for word in _joined(nodes, source):
            start, end = source.start(word[0]), source.end(word[-1])
            site = source.outer(start, end)
            if len(word) == 1 and word[0].type in ("word", "number") and not _SPECIAL.search(source.text, start, end):
                # Most words are nothing but their characters.
                for variant in variants:
                    variant.append(Field(((Fragment(source.text[start:end], *site),),), site))
                continue
            value = values.concatenate([self.value(node, state, frame) for node in word])
            choices = self._field_choices(value, site, state)
            if len(choices) == 1:
                for variant in variants:
                    variant.extend(choices[0])
                continue
            if len(choices) * len(variants) > MAX_VARIANTS:
                choices = [[Field(values.hole(many=True), site, many=True)]]
            variants = [[*variant, *choice] for variant, choice in product(variants, choices)]
        return variants

    def _field_choices(self, value: Value, site: Offsets, state: ShellState) -> list[list[Field]]:
        ifs = state.variables.get("IFS")
        separators = " \t\n" if ifs is None else values.single(ifs.scalar())
        split: list[list[Text]] = []
        for text in value:
            if separators is None:
                return [[Field(values.hole(values.names(value), many=True), site, many=True)]]
            fields = [each for word in braces.expanded(text) for each in values.split(word, separators)]
            if fields not in split:
                split.append(fields)
        if len(split) == 1 or any(len(fields) != len(split[0]) for fields in split):
            return [[_field((text,), site) for text in fields] for fields in split]
        differing = [index for index in range(len(split[0])) if any(each[index] != split[0][index] for each in split)]
        if len(differing) > 1:
            return [[_field((text,), site) for text in fields] for fields in split]
        merged = [values.union([(each[index],) for each in split]) for index in range(len(split[0]))]
        return [[_field(each, site) for each in merged]]

    def value(self, node: Node, state: ShellState, frame: Frame) -> Value:
        """A word's value before splitting."""
        self._budget.check()
        if frame.word_depth >= MAX_WORD_DEPTH:
            return values.hole(many=True)
        value = self._value(node, state, frame.within_word())
        size = 0
        for text in value:
            for fragment in text:
                size += 1 + len(fragment.text or "") // 64
        if size > ORDINARY:
            self._budget.work(size)
        return value

    def process_output(self, node: Node, state: ShellState, frame: Frame) -> Value:
        """What `< <(...)` reads."""
        return self._substitute(node, state, frame, True)

    def optional(self, node: Node | None, state: ShellState, frame: Frame) -> Value:
        """A word's value, the empty one where no word stands."""
        return EMPTY if node is None else self.value(node, state, frame)

    def _value(self, node: Node, state: ShellState, frame: Frame) -> Value:
        start, end = frame.text.start(node), frame.text.end(node)
        match node.type:
            case "word" | "number" | "test_operator" | "variable_name" | "brace_expression" | "extglob_pattern":
                if node.named_child_count and node.type != "brace_expression":
                    return self._region(node, start, end, state, frame, "word")
                return self._literally(start, end, "word", state, frame)
            case "raw_string":
                value = self._literally(start + 1, end - 1, "raw", state, frame, quoted=True)
                return value if end - start > 2 else _nothing(quoted=True)
            case "string":
                return self._double_quoted(node, start + 1, end - 1, state, frame)
            case "translated_string":
                return self._double_quoted(node, start + 2, end - 1, state, frame)
            case "ansi_c_string":
                return values.literal(
                    quoting.ansi(frame.text.text[start + 2 : end - 1]), *frame.text.outer(start, end), quoted=True
                )
            case "concatenation":
                parts: list[Value] = []
                position = start
                for child in node.children:
                    if (child_start := frame.text.start(child)) > position:
                        parts.append(self._literally(position, child_start, "word", state, frame))
                    parts.append(self.value(child, state, frame))
                    position = frame.text.end(child)
                return values.concatenate(parts)
            case "simple_expansion":
                return self._simple(node, state, frame, quoted=False)
            case "expansion":
                return self._parameter(node, state, frame, quoted=False)
            case "command_substitution" if not _is_arithmetic(node, frame.text):
                return values.mark_expanded(self._substitute(node, state, frame, False), quoted=False)
            case "process_substitution":
                self._substitute(node, state, frame, False)
                return values.hole(["/dev/fd"])
            case "arithmetic_expansion" | "command_substitution":
                return values.mark_expanded(self.arithmetic(node, state, frame), quoted=False)
            case _:
                return self._region(node, start, end, state, frame, "word")

    def _double_quoted(self, node: Node, start: int, end: int, state: ShellState, frame: Frame) -> Value:
        value = self._region(node, start, end, state, frame, "double")
        return tuple(text or (Fragment("", quoted=True),) for text in value) if end <= start else value

    def heredoc(self, node: Node, state: ShellState, frame: Frame) -> Value:
        """The text of a heredoc body whose delimiter isn't quoted."""
        return self._region(node, frame.text.start(node), frame.text.end(node), state, frame, "heredoc")

    def region(self, node: Node, start: int, end: int, state: ShellState, frame: Frame) -> Value:
        """The characters start..end with the expansions below `node` done, backslashes untouched."""
        return self._region(node, start, end, state, frame, "raw")

    def _region(self, node: Node, start: int, end: int, state: ShellState, frame: Frame, mode: str) -> Value:
        """Literal characters and the expansions among them."""
        quoted = mode != "word"
        parts: list[Value] = []
        position = start
        for child in _expansions(node):
            child_start = frame.text.start(child)
            if child_start < position or child_start >= end:
                continue
            if child_start > position:
                parts.append(self._literally(position, child_start, mode, state, frame, quoted=quoted))
            parts.append(self._quoted(child, state, frame) if quoted else self.value(child, state, frame))
            position = frame.text.end(child)
        if position < end:
            parts.append(self._literally(position, end, mode, state, frame, quoted=quoted))
        return values.concatenate(parts)

    def _literally(
        self, start: int, end: int, mode: str, state: ShellState, frame: Frame, *, quoted: bool = False
    ) -> Value:
        """Literal characters, and the expansions among them that the grammar overlooks: `$#` in a default or
        here-document.
        """
        if frame.text.text.find("$", start, end) < 0:
            # Nearly always.
            return values.concatenate([(tuple(quoting.literal(frame.text, start, end, mode, quoted=quoted)),)])
        parts: list[Value] = []
        position = start
        for match in (_STAND_IN if mode == "raw" else _OVERLOOKED).finditer(frame.text.text, start, end):
            before = frame.text.text[position : match.start()]
            if mode != "raw" and (len(before) - len(before.rstrip("\\"))) % 2:
                continue
            parts.append((tuple(quoting.literal(frame.text, position, match.start(), mode, quoted=quoted)),))
            name, limit = match[1], match.end()
            if match.start() < position:
                continue
            if name is None:
                limit = quoting.closing(frame.text.text, match.start() + 1, end)
                parts.append(self._alone(match.start(), limit, state, frame))
            elif name in ("@", "*"):
                parts.append(self._list(state.positional, quoted=quoted, joined=name == "*"))
            else:
                parts.append(values.mark_expanded(self._plain(name, state), quoted=quoted))
            position = limit
        return values.concatenate([*parts, (tuple(quoting.literal(frame.text, position, end, mode, quoted=quoted)),)])

    def _quoted(self, node: Node, state: ShellState, frame: Frame) -> Value:
        if frame.word_depth >= MAX_WORD_DEPTH:
            return values.hole()
        frame = frame.within_word()
        if node.type == "simple_expansion":
            return self._simple(node, state, frame, quoted=True)
        if node.type == "expansion":
            return self._parameter(node, state, frame, quoted=True)
        if node.type == "arithmetic_expansion" or _is_arithmetic(node, frame.text):
            return values.mark_expanded(self.arithmetic(node, state, frame), quoted=True)
        return values.mark_expanded(self._substitute(node, state, frame, False), quoted=True)

    def _alone(self, start: int, end: int, state: ShellState, frame: Frame) -> Value:
        """An overlooked `${...}` or `$(...)`, parsed by itself."""
        text = frame.text.text[start:end]
        inner = ParsedText.nested(
            (Fragment('"'), Fragment(text, *frame.text.outer(start, end)), Fragment('"')), NOWHERE
        )
        node = inner.node_at(0)
        if node is None or node.type != "string" or not any(_expansions(node)):
            return values.hole(many=True)
        return self._double_quoted(node, 1, len(text) + 1, state, frame.in_text(inner))

    # -------------------------------------------------------------------------------------------------- parameters

    def _simple(self, node: Node, state: ShellState, frame: Frame, *, quoted: bool) -> Value:
        name = frame.text.slice(node)[1:]
        if name in ("@", "*"):
            return self._list(state.positional, quoted=quoted, joined=name == "*")
        return values.mark_expanded(self._plain(name, state), quoted=quoted)

    def _plain(self, name: str, state: ShellState) -> Value:
        found = self.lookup(name, state)
        return EMPTY if found is None else found

    def lookup(self, name: str, state: ShellState) -> Value | None:
        """A parameter's value; None if it is certainly not set; a hole marked absent if nobody in sight sets it."""
        if name.isdecimal():
            index = int(name[:6])
            if index == 0 or state.positional is None:
                return values.hole([f"${name}"])
            return state.positional[index - 1] if index <= len(state.positional) else None
        if name == "#":
            if state.positional is None:
                return values.hole(["$#"])
            return values.literal(str(len(state.positional)))
        if name in ("@", "*"):
            return self._list(state.positional, quoted=True, joined=True)
        if name == "?":
            return values.literal("0") if state.last is SUCCESS else values.hole([state.last.ending.value])
        variable = state.variables.get(name)
        if variable is not None:
            return variable.scalar()
        if name in state.unset:
            return None
        if not name.isidentifier() or name in AMBIENT or state.tainted:
            return values.hole([name], many=name.isidentifier() and name not in AMBIENT)
        return values.hole([name], absent=True, many=True)

    def _list(self, items: tuple[Value, ...] | None, *, quoted: bool, joined: bool) -> Value:
        if items is None:
            return values.hole(many=True)
        self._budget.work(len(items))
        if joined and quoted and not items:
            return _nothing(quoted=True)
        parts: list[Value] = []
        between: Fragment = Fragment(" ", quoted=quoted, expanded=True) if joined and quoted else SEPARATOR
        for index, item in enumerate(items):
            if index:
                parts.append(((between,),))
            parts.append(item if values.is_several(item) else values.mark_expanded(item, quoted=quoted))
        if any(len(item) > 1 for item in items) and len(values.concatenate(parts)[0]) == 1 < len(parts):
            return values.hole(many=True)
        return values.concatenate(parts)

    def _parameter(self, node: Node, state: ShellState, frame: Frame, *, quoted: bool) -> Value:
        """`${...}` in all its forms; what isn't understood is a hole."""
        children = node.children[1:-1]
        flag = ""
        if children and children[0].type in ("!", "#") and len(children) > 1:
            flag = children[0].type
            children = children[1:]
        if not children:
            # `${#}`, `${!}`: the grammar gives the name as an operator.
            return values.mark_expanded(self._plain(frame.text.slice(node)[2:-1], state), quoted=quoted)
        target, rest = children[0], children[1:]
        name = frame.text.slice(target)
        index: str | None = None
        if target.type == "subscript":
            name_node = target.child_by_field_name("name")
            index_node = target.child_by_field_name("index")
            if name_node is None or index_node is None:
                return values.hole(many=True)
            name = frame.text.slice(name_node)
            index = frame.text.slice(index_node)
            if index not in ("@", "*"):
                index = values.single(self.value(index_node, state, frame))
                if index is None:
                    return values.hole([name], many=not quoted)
        operator = rest[0].type if rest else ""
        if rest and operator not in _OPERATORS:
            return values.hole([name], many=not quoted)
        variable = None
        if name in ("@", "*") and target.type != "subscript":
            index = name
            items = state.positional
        else:
            variable = state.variables.get(name)
            items = variable.items if variable is not None else None
            if index in ("@", "*") and items is None:
                scalar = self.lookup(name, state)
                if scalar is not None and any(fragment.text is None for text in scalar for fragment in text):
                    return values.hole([name], many=True)
                items = () if scalar is None else (scalar,)
        if index in ("@", "*"):
            return self._array(
                name, items, flag, operator, node, rest, state, frame, quoted=quoted, joined=index == "*"
            )
        value = self._element(name, index, variable, state)
        if flag == "!":
            pointed = values.single(value) if value is not None else None
            if pointed is None or not pointed.isidentifier():
                return values.hole([name], many=not quoted)
            value = self.lookup(pointed, state)
        if flag == "#":
            text = values.single(value) if value is not None else ""
            return values.hole([name]) if text is None else values.literal(str(len(text)))
        if not operator:
            return values.mark_expanded(EMPTY if value is None else value, quoted=quoted)
        return self._operate(name, value, operator, node, rest, state, frame, quoted=quoted)

    def _element(self, name: str, index: str | None, variable: Variable | None, state: ShellState) -> Value | None:
        if index is None:
            return self.lookup(name, state)
        position = self.integer(index, state)
        if variable is None or variable.items is None:
            return self.lookup(name, state) if position == 0 else values.hole([name], many=True)
        items = variable.items
        if position is None or any(map(values.is_several, items)):
            return values.hole([name], many=True)
        return items[position] if -len(items) <= position < len(items) else None

    def _array(
        self,
        name: str,
        items: tuple[Value, ...] | None,
        flag: str,
        operator: str,
        node: Node,
        rest: Sequence[Node],
        state: ShellState,
        frame: Frame,
        *,
        quoted: bool,
        joined: bool,
    ) -> Value:
        """`${x[@]}` and `$@` in their forms."""
        if items is None:
            return values.hole(many=True)
        counted = not any(map(values.is_several, items))
        if flag == "#":
            return values.literal(str(len(items))) if counted else values.hole([name])
        if flag == "!":
            if not counted:
                return values.hole(many=True)
            items = tuple(values.literal(str(index)) for index in range(len(items)))
        elif operator == ":":
            numbers = [self.integer(frame.text.slice(each), state) for each in rest if each.is_named]
            # "${@:1}" starts at $1, not at index 1.
            chosen = sliced(items, numbers, first=1 if items is state.positional else 0) if counted else None
            if chosen is None:
                return values.hole(many=True)
            items = chosen
        elif operator not in ("", ":?", "?"):
            return values.hole(many=True)
        return self._list(items, quoted=quoted, joined=joined)

    def _operand(self, rest: Sequence[Node], state: ShellState, frame: Frame, *, quoted: bool) -> Value:
        """What stands after the operator of `${x:-...}`."""
        nodes = [node for node in rest[1:] if node.type != "}"]
        if not nodes:
            return _nothing(quoted=quoted)
        parts: list[Value] = []
        position = frame.text.start(nodes[0])
        for node in nodes:
            if (start := frame.text.start(node)) > position:
                parts.append(self._literally(position, start, "word", state, frame))
            parts.append((self._within_quotes if quoted else self.value)(node, state, frame))
            position = frame.text.end(node)
        value = values.concatenate(parts)
        if quoted:
            return values.mark_expanded(value, quoted=True)
        # Unquoted literals of a default are split, too: `${ARGS:---a 1 --b 2}`.
        return tuple(tuple(fragment._replace(expanded=True) for fragment in text) for text in value)

    def _within_quotes(self, node: Node, state: ShellState, frame: Frame) -> Value:
        """A part of the default of a `"${x:-...}"`: single quotes and most backslashes there are characters."""
        if node.type == "concatenation":
            return values.concatenate([self._within_quotes(child, state, frame) for child in node.children])
        if node.type in _EXPANSIONS:
            return self._quoted(node, state, frame)
        if node.type == "string":
            return self.value(node, state, frame)
        return self._region(node, frame.text.start(node), frame.text.end(node), state, frame, "double")

    def _operate(
        self,
        name: str,
        value: Value | None,
        operator: str,
        node: Node,
        rest: Sequence[Node],
        state: ShellState,
        frame: Frame,
        *,
        quoted: bool,
    ) -> Value:
        bare = operator.lstrip(":")
        if bare in ("-", "=", "+", "?"):
            alternatives: list[Value] = []
            for text in value if value is not None else ():
                # Once assigned, the value of a variable that nobody sets is empty, not absent.
                known = name in state.variables and state.variables[name].origin != NOWHERE
                absent = len(text) == 1 and text[0].absent and (operator[0] == ":" or not known)
                if absent and bare != "?":
                    self._assumed_unset.add(name)
                null = absent or (operator[0] == ":" and values.known_text(text) == "")
                unknown = not absent and values.known_text(text) is None
                if bare == "+":
                    if not null:
                        alternatives.append(self._operand(rest, state, frame, quoted=quoted))
                    if null or unknown:
                        alternatives.append(_nothing(quoted=quoted))
                elif null and bare != "?":
                    alternatives.append(self._operand(rest, state, frame, quoted=quoted))
                else:
                    alternatives.append(values.mark_expanded((text,), quoted=quoted))
            if value is None and bare in ("+", "?"):
                alternatives.append(_nothing(quoted=quoted))
            elif value is None:
                alternatives.append(self._operand(rest, state, frame, quoted=quoted))
            result = values.union(alternatives)
            if bare == "=" and name.isidentifier():
                previous = state.variables.get(name, Variable())
                origin = frame.text.outer(frame.text.start(node), frame.text.end(node))
                assigned = Variable(
                    value=values.as_assigned(result, whole=True), exported=previous.exported, origin=origin
                )
                state.assign(name, assigned)
            return result
        texts = values.possible(value) if value is not None else frozenset({""})
        if texts is None:
            return values.hole([name], many=not quoted)
        if operator == ":":
            numbers = [self.integer(frame.text.slice(each), state) for each in rest if each.is_named]
            operand: tuple[str, ...] | None = tuple(str(number) for number in numbers) if None not in numbers else None
        else:
            operand = self._pattern_operand(rest, state, frame)
        if operand is None:
            return values.hole([name], many=not quoted)
        self._budget.work(sum(len(text) * (1 + sum(map(len, operand))) for text in texts) // 32)
        try:
            results = [values.literal(transform(text, operator, operand)) for text in sorted(texts)]
        except (PatternTooLargeError, ValueError):
            return values.hole([name], many=not quoted)
        return values.mark_expanded(values.union(results), quoted=quoted)

    def _pattern_operand(self, rest: Sequence[Node], state: ShellState, frame: Frame) -> tuple[str, ...] | None:
        """The pattern and, for `/`, the replacement, in known text."""
        parts: list[list[str]] = [[]]
        for node in rest[1:]:
            if node.type == "/" and not node.is_named:
                parts.append([])
                continue
            if node.type in ("regex", "word", "extglob_pattern") and not node.named_child_count:
                parts[-1].append(frame.text.slice(node))
                continue
            text = values.single(self.value(node, state, frame))
            if text is None:
                return None
            parts[-1].append(text)
        return tuple("".join(part) for part in parts)

    # -------------------------------------------------------------------------------------------------- arithmetic

    def arithmetic(self, node: Node, state: ShellState, frame: Frame) -> Value:
        """`$((...))`, `$[...]` and the inside of `((...))`, with its assignments."""
        start, end = frame.text.start(node), frame.text.end(node)
        opening = 3 if frame.text.text.startswith("$((", start) else 2
        closing = 1 if frame.text.text.startswith("$[", start) else 2
        value = self._region(node, start + opening, end - closing, state, frame, "raw")
        return self.calculate(value, state)

    def calculate(self, value: Value, state: ShellState) -> Value:
        """The results of arithmetic expressions, of those with several possible variables, too."""
        results: list[Value] = []
        for text in value:
            expression = values.known_text(text)
            if expression is None:
                return values.hole(values.names(value))
            identifiers = sorted(set(_IDENTIFIER.findall(expression)))[:16]
            choices = [self._integers(name, state) for name in identifiers]
            size = 1
            for choice in choices:
                size *= len(choice) if choice else 1
            if size > values.MAX_ALTERNATIVES:
                return values.hole(identifiers)
            for combination in product(*(choice or (None,) for choice in choices)):
                known = dict(zip(identifiers, combination, strict=True))
                try:
                    results.append(values.literal(str(self._evaluate(expression, known, state, single=size == 1))))
                except ArithmeticUnknownError:
                    self._spoil(expression, state)
                    return values.hole([name for name, number in known.items() if number is None])
        return values.union(results)

    def _evaluate(self, expression: str, known: dict[str, int | None], state: ShellState, *, single: bool) -> int:
        def lookup(name: str) -> int:
            number = known.get(name)
            if number is None:
                raise ArithmeticUnknownError
            return number

        def assign(name: str, number: int) -> None:
            if not single:
                raise ArithmeticUnknownError
            known[name] = number
            previous = state.variables.get(name, Variable())
            value = values.literal(str(number))
            state.assign(name, Variable(value=value, exported=previous.exported, origin=previous.origin))

        return arithmetic.evaluate(expression, lookup, assign)

    def _spoil(self, expression: str, state: ShellState) -> None:
        """An expression that can't be followed may have assigned its variables."""
        if "=" in expression or "++" in expression or "--" in expression:
            state.forget_names(_IDENTIFIER.findall(expression))

    def _integers(self, name: str, state: ShellState) -> tuple[int, ...]:
        value = self.lookup(name, state)
        texts = frozenset({"0"}) if value is None else values.possible(value)
        if texts is None:
            return ()
        try:
            return tuple(arithmetic.number(text.strip()) if text.strip() else 0 for text in sorted(texts))
        except ArithmeticUnknownError:
            return ()

    def integer(self, text: str, state: ShellState) -> int | None:
        """A known integer, for indices."""
        result = values.single(self.calculate(values.literal(text.strip().removeprefix("$").strip("{}")), state))
        return int(result) if result is not None and result.lstrip("-").isdecimal() else None


def _joined(nodes: Sequence[Node], source: ParsedText) -> Iterator[list[Node]]:
    """Nodes by the word that they are of: the grammar makes several of `"$a"{1,2}`."""
    word: list[Node] = []
    for node in nodes:
        if word and source.end(word[-1]) != source.start(node):
            yield word
            word = []
        word.append(node)
    if word:
        yield word


def _nothing(*, quoted: bool) -> Value:
    """The empty text: between quotes a word, else none."""
    return ((Fragment("", quoted=True),),) if quoted else EMPTY


def _field(value: Value, site: Offsets) -> Field:
    for text in value:
        for fragment in text:
            if fragment.quoted or not fragment.many:
                break
        else:
            if text:
                return Field(value, site, True)
    return Field(value, site)


def _is_arithmetic(node: Node, source: ParsedText) -> bool:
    """`$((1+2))` that the grammar takes for a substitution with a subshell: in here-documents and nested defaults."""
    start, end = source.start(node), source.end(node)
    return source.text.startswith("$((", start) and source.text.endswith("))", start, end)


def _expansions(node: Node) -> Iterator[Node]:
    """The topmost expansions below a node, in order, without recursion."""
    stack = list(reversed(node.children))
    while stack:
        child = stack.pop()
        if child.type in _EXPANSIONS:
            yield child
        elif child.child_count:
            stack.extend(reversed(child.children))
