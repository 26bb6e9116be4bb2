"""Reads manifests from files, directories and standard input, and knows where each field stands in them."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"
MAX_DEPTH = 200
MAX_NODES = 1_000_000
"""Aliases expanded, a manifest has at most some thousand nodes; a bomb of aliases has billions."""

Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(Parser):  # type: ignore[misc]  # chosen at run time
    """YAML as kubectl reads it: times and `1:30` are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (
            tag,
            re.compile(r"^[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+)$")
            if tag.endswith(":int")
            else pattern,
        )
        for tag, pattern in resolvers
        if not tag.endswith(":timestamp")
    ]
    for first, resolvers in Parser.yaml_implicit_resolvers.items()
}


class InputError(Exception):
    """A file that can't be read or parsed; the message names it, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file, 1-based."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One document of a file: its values, and its nodes with their positions."""

    path: str
    document: int
    value: Any
    node: yaml.Node
    lines: Sequence[str]

    @property
    def kind(self) -> str:
        """Its kind; empty where it is no Kubernetes object."""
        return str(self.value.get("kind", "")) if isinstance(self.value, dict) else ""

    def locate(self, field_path: str) -> Position:
        """Where a field stands; of a field that is not there, the deepest one above it."""
        node, place = self.node, self.node
        for part in _parts(field_path):
            child = _child(node, part)
            if child is None:
                break
            place, node = child
        return Position(place.start_mark.line + 1, place.start_mark.column + 1)

    def locate_text(self, field_path: str, line: int, column: int) -> Position | None:
        """Where a line and column of a field's text stand in the file; None where the text is folded or quoted away."""
        node = self.node
        for part in _parts(field_path):
            child = _child(node, part)
            if child is None:
                return None
            node = child[1]
        if not isinstance(node, yaml.ScalarNode):
            return None
        wanted = node.value.split("\n")[line - 1 : line]
        if not wanted:
            return None
        first, last = node.start_mark.line, node.end_mark.line
        if node.style == "|":
            candidates = [first + line]
        else:  # folded, quoted or plain: only a line that stands there once, and as it is, can be told
            candidates = [number for number in range(first, last + 1) if wanted[0].strip() in self._line(number)]
        if len(candidates) != 1 or not wanted[0].strip():
            return None
        indent = self._line(candidates[0]).find(wanted[0].rstrip())
        return None if indent < 0 else Position(candidates[0] + 1, indent + column)

    def _line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else ""


def read(paths: Sequence[str]) -> Iterator[Manifest | InputError]:
    """All documents of the files, directories (their manifests, in order of name) and `-` (standard input).

    A file that can't be read or parsed gives an InputError in its place, so that the others are still looked at.
    """
    for path in paths:
        try:
            files = _files(path)
        except InputError as error:
            yield error
            continue
        for file in files:
            try:
                yield from parse(_text(file), "<stdin>" if file == STDIN else file)
            except InputError as error:
                yield error


def parse(text: str, path: str) -> list[Manifest]:
    """The documents of a text. Raises InputError, with the line, for what is no YAML."""
    lines = text.splitlines()
    manifests: list[Manifest] = []
    try:
        _refuse_depth(text, path)
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                _check(node, path)
                value = loader.construct_document(node)
                manifests += _documents(path, len(manifests), value, node, lines)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else path
        raise InputError(f"{where}: not valid YAML: {error.problem or error}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{path}:{line}: not valid YAML: the character {_shown(error)} is not allowed") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path}: not valid YAML: {error}") from error
    return manifests


def _documents(path: str, index: int, value: Any, node: yaml.Node, lines: Sequence[str]) -> list[Manifest]:
    """One document, or the items of a v1 List, which kubectl applies one by one."""
    whole = Manifest(path=path, document=index, value=value, node=node, lines=lines)
    if value is None:
        return []
    if whole.kind == "List" and isinstance(value.get("items"), list):
        child = _child(node, "items")
        if child is not None and isinstance(child[1], yaml.SequenceNode):
            pairs = zip(value["items"], child[1].value, strict=True)
            return [
                Manifest(path=path, document=index + number, value=item, node=item_node, lines=lines)
                for number, (item, item_node) in enumerate(pairs)
            ]
    return [whole]


def _files(path: str) -> list[str]:
    if path == STDIN:
        return [path]
    place = Path(path)
    if not place.is_dir():
        return [path]
    found = sorted(str(file) for file in place.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not found:
        raise InputError(f"{path}: no manifest in this directory ({', '.join(sorted(SUFFIXES))})")
    return found


def _text(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}:{line}: not UTF-8: byte {content[error.start]:#04x}") from error


def _shown(error: yaml.reader.ReaderError) -> str:
    """The character that the reader refuses; the C parser gives its number."""
    return f"U+{error.character if isinstance(error.character, int) else ord(error.character):04X}"


def _refuse_depth(text: str, path: str) -> None:
    """Raises InputError for a nesting that no manifest has; composing it would overflow the C parser's stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark is not None else 1
                raise InputError(f"{path}:{line}: nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check(node: yaml.Node, path: str) -> None:
    """Raises InputError for a key given twice, which kubectl refuses, and for aliases that expand beyond measure."""
    sizes: dict[int, int] = {}
    stack: list[tuple[yaml.Node, bool]] = [(node, False)]
    while stack:
        current, done = stack.pop()
        children = _children(current)
        if done:
            sizes[id(current)] = 1 + sum(sizes.get(id(child), 0) for child in children)
            if sizes[id(current)] > MAX_NODES:
                raise InputError(
                    f"{path}:{current.start_mark.line + 1}: aliases expand to more than {MAX_NODES:,} nodes"
                )
        elif id(current) not in sizes:
            sizes[id(current)] = 0  # an alias to a node around it counts once
            stack.append((current, True))
            stack.extend((child, False) for child in children)
            if isinstance(current, yaml.MappingNode):
                _refuse_duplicates(current, path)


def _refuse_duplicates(node: yaml.MappingNode, path: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            continue
        line = key.start_mark.line + 1
        if key.value in seen:
            raise InputError(f'{path}:{line}: the key "{key.value}" is already set at line {seen[key.value]}')
        seen[key.value] = line


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _parts(field_path: str) -> list[str | int]:
    """`spec.env[0].name` as ["spec", "env", 0, "name"]; what is in brackets and no number is a name or a key."""
    parts: list[str | int] = []
    for name, inside in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", field_path):
        parts.append(name or (int(inside) if inside.isdigit() else inside))
    return parts


def _child(node: yaml.Node, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """The node to point at (a key, an item) and the node of the value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key, value
    if isinstance(node, yaml.SequenceNode):
        if isinstance(part, int):
            return (node.value[part], node.value[part]) if part < len(node.value) else None
        for item in node.value:
            name = _child(item, "name")
            if name is not None and name[1].value == part:
                return item, item
    return None


__all__ = ["STDIN", "InputError", "Manifest", "Position", "parse", "read"]
