"""Reads manifests from files, directories and standard input, and knows where each field stands in them."""

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from stoker.lint.files.places import field_parts

SUFFIXES = frozenset({".yaml", ".yml", ".json"})
STDIN = "-"
STDIN_NAME = "<stdin>"
MAX_BYTES = 64 << 20
"""Of one file; the API server takes objects of some megabytes at most."""
HELM = re.compile(r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Capabilities)\b|(?:include|template|define|toYaml|tpl)\s)")
RENDER = "render it first (helm template CHART | stoker lint -)"
KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml"})
PATCHES = ("patches", "patchesStrategicMerge", "patchesJson6902")
BUILD = "build it first (kustomize build FOLDER | stoker lint -)"
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
    """A file that can't be read or parsed: its path, the line where there is one (1-based), and what is wrong."""

    def __init__(self, path: str, message: str, *, line: int | None = None, column: int | None = None) -> None:
        where = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{where}: {message}")
        self.path, self.line, self.message = path, line, message


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file, 1-based."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of a file: 1-based lines and columns in characters, `end_column` exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One document of a file: its values, and its nodes with their positions; `text` and `lines` are the file's."""

    path: str
    document: int
    value: Any
    node: yaml.Node
    text: str
    lines: Sequence[str]

    @property
    def kind(self) -> str:
        """Its kind; empty where it is no Kubernetes object."""
        return str(self.value.get("kind", "")) if isinstance(self.value, dict) else ""

    @property
    def line(self) -> int:
        """The line that it begins on."""
        return int(self.node.start_mark.line) + 1

    def locate(self, field_path: str) -> Position:
        """Where a field stands; of a field that is not there, the deepest one above it."""
        region = self.region(field_path)
        return Position(region.line, region.column)

    def region(self, field_path: str) -> Region:
        """A field from its key to the end of its value, or of its first line; of a field that is not there, the key of
        the deepest one above it.
        """
        place = value = self.node
        found = True
        for part in field_parts(field_path):
            child = _child(value, part)
            if child is None:
                found = False
                break
            place, value = child
        start, end = place.start_mark, place.end_mark
        if found and place is not value and isinstance(value, yaml.ScalarNode):
            end = value.end_mark if value.end_mark.line == start.line else end
        if end.line != start.line:
            return Region(start.line + 1, start.column + 1, start.line + 1, len(self._line(start.line).rstrip()) + 1)
        return Region(start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def locate_text(self, field_path: str, line: int, column: int) -> Position | None:
        """Where a line and column of a field's text stand in the file; None where the text is folded or quoted away."""
        node = self.node
        for part in field_parts(field_path):
            child = _child(node, part)
            if child is None:
                return None
            node = child[1]
        if not isinstance(node, yaml.ScalarNode):
            return None
        wanted = node.value.split("\n")[line - 1 : line]
        if not wanted or not wanted[0].strip():
            return None
        first, last = node.start_mark, node.end_mark
        if node.style == "|":
            number = first.line + line
            indent = self._line(number).find(wanted[0].rstrip())
            return None if indent < 0 else Position(number + 1, indent + column)
        # Folded, quoted or plain: only a line that stands there once, and as it is, can be told.
        text = wanted[0].strip()
        places: list[Position] = []
        for number in range(first.line, last.line + 1):
            begin = first.column if number == first.line else 0
            end = last.column if number == last.line else None
            written = self._line(number)[begin:end]
            if written.count(text) > 1:
                return None
            if text in written:
                indent = len(wanted[0]) - len(wanted[0].lstrip())
                places.append(Position(number + 1, begin + written.index(text) - indent + column))
        return places[0] if len(places) == 1 else None

    def comments(self, mark: re.Pattern[str]) -> Iterator[tuple[Region, str]]:
        """The comments of the YAML that hold a mark, from the mark on; those inside texts are none of it."""
        first = self.node.start_mark.line if self.document else 0
        last = min(self.node.end_mark.line + 1, len(self.lines))
        marked = [number for number in range(first, last) if mark.search(self.lines[number])]
        scalars = [node for node in _all_nodes(self.node) if isinstance(node, yaml.ScalarNode)] if marked else []
        for number in marked:
            for found in mark.finditer(self.lines[number]):
                if not any(_holds(node, number, found.start()) for node in scalars):
                    text = found.string[found.start() :].rstrip()
                    yield Region(number + 1, found.start() + 1, number + 1, found.start() + 1 + len(text)), text
                    break

    def _line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A file of a directory that is no manifest by itself, and what it looks like: a template, a patch."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file's text and its documents; the path of standard input is STDIN_NAME."""

    path: str
    text: str
    manifests: Sequence[Manifest]


def read(paths: Sequence[str]) -> Iterator[File | Fragment | InputError]:
    """All files, those of directories (in order of name), and `-` (standard input).

    A file that can't be read or parsed gives an InputError in its place, so that the others are still looked at.
    """
    for path in paths:
        try:
            files = _files(path)
        except InputError as error:
            yield error
            continue
        patches = _patches(files) if files != [path] else frozenset[str]()
        for file in files:
            if os.path.normpath(file) in patches:
                yield Fragment(path=file, line=1, reason=f"a patch of Kustomize: {BUILD}")
                continue
            try:
                yield _read(file, given=file == path)
            except InputError as error:
                yield error


def _read(file: str, *, given: bool) -> File | Fragment:
    """A file that was `given` by name or found in a directory. Raises InputError."""
    text, name = _text(file), STDIN_NAME if file == STDIN else file
    try:
        return File(path=name, text=text, manifests=parse(text, name))
    except InputError as error:
        template = HELM.search(text)
        if template is None:
            raise
        line = text.count("\n", 0, template.start()) + 1
        if not given:
            return Fragment(path=name, line=line, reason=f"what looks like a Helm template: {RENDER}")
        raise InputError(name, f"looks like a Helm template: {RENDER}", line=line) from error


def _patches(files: Sequence[str]) -> frozenset[str]:
    """The files that Kustomize patches others with; by themselves they are parts of objects."""
    found: set[str] = set()
    for file in files:
        if Path(file).name not in KUSTOMIZATIONS:
            continue
        try:
            documents = parse(_text(file), file)
        except InputError:
            continue  # told of when it is read itself
        for value in (one.value for one in documents if isinstance(one.value, dict)):
            listed = [item for key in PATCHES if isinstance(value.get(key), list) for item in value[key]]
            named = [item.get("path") if isinstance(item, dict) else item for item in listed]
            found |= {os.path.normpath(Path(file).parent / name) for name in named if isinstance(name, str)}
    return frozenset(found)


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
                value = _value(loader, node)
                manifests += _items(
                    Manifest(path=path, document=len(manifests), value=value, node=node, text=text, lines=lines)
                )
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        raise InputError(path, f"not valid YAML: {error.problem or error}", line=line, column=column) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(path, f"not valid YAML: the character {_shown(error)} is not allowed", line=line) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(path, f"not valid YAML: {error}") from error
    return manifests


def _value(loader: Any, node: yaml.Node) -> Any:
    """What a document says; one with somebody else's tags (`!Ref`) is no Kubernetes object unless it has a kind."""
    try:
        return loader.construct_document(node)
    except yaml.constructor.ConstructorError:
        if _child(node, "kind") is not None:
            raise
        return {}


def _items(whole: Manifest) -> list[Manifest]:
    """One document, or the items of a v1 List, which kubectl applies one by one; nothing of an empty one."""
    if whole.value is None:
        return []
    if whole.kind == "List" and isinstance(whole.value.get("items"), list):
        child = _child(whole.node, "items")
        if child is not None and isinstance(child[1], yaml.SequenceNode):
            pairs = zip(whole.value["items"], child[1].value, strict=True)
            return [
                replace(whole, document=whole.document + number, value=item, node=node)
                for number, (item, node) in enumerate(pairs)
            ]
    return [whole]


def _files(path: str) -> list[str]:
    """The path itself, or the manifests of a directory; what is hidden in it is left out."""
    if path == STDIN or not Path(path).is_dir():
        return [path]
    found: list[str] = []

    def refused(error: OSError) -> None:
        raise InputError(str(error.filename), error.strerror or str(error)) from error

    for folder, inner, files in os.walk(path, onerror=refused):
        inner[:] = [name for name in inner if not name.startswith(".")]
        candidates = [Path(folder, name) for name in files if not name.startswith(".")]
        found += [str(file) for file in candidates if file.suffix in SUFFIXES and _may_be_read(file)]
    if not found:
        raise InputError(path, f"no manifest in this directory ({', '.join(sorted(SUFFIXES))})")
    return sorted(found)


def _may_be_read(file: Path) -> bool:
    """Whether it is a regular file, or can't be looked at: reading it then says why."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return True


def _text(file: str) -> str:
    name = STDIN_NAME if file == STDIN else file
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(name, getattr(error, "strerror", None) or str(error)) from error
    if len(content) > MAX_BYTES:
        raise InputError(name, f"larger than {MAX_BYTES >> 20} MiB")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(name, "UTF-16: save it as UTF-8, which Kubernetes reads")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(name, f"not UTF-8: byte {content[error.start]:#04x}", line=line) from error


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
                raise InputError(path, f"nested more than {MAX_DEPTH} levels deep", line=line)
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
                line = current.start_mark.line + 1
                raise InputError(path, f"aliases expand to more than {MAX_NODES:,} nodes", line=line)
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
            raise InputError(path, f'the key "{key.value}" is already set at line {seen[key.value]}', line=line)
        seen[key.value] = line


def _all_nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    """A node and all beneath it, each once."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            stack.extend(_children(current))


def _holds(node: yaml.Node, line: int, column: int) -> bool:
    """Whether a node holds a place, both 0-based."""
    start, end = node.start_mark, node.end_mark
    return bool((start.line, start.column) <= (line, column) < (end.line, end.column))


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


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


__all__ = ["STDIN", "STDIN_NAME", "File", "Fragment", "InputError", "Manifest", "Position", "Region", "parse", "read"]
