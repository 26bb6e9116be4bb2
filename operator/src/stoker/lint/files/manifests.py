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

from stoker.lint.files.yaml_tree import NestingError, Parser, YamlNode, field_parts, yaml_nodes

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
MAX_NODES = 1_000_000
"""Aliases expanded, a manifest has at most some thousand nodes; a bomb of aliases has billions."""


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


MERGE_KEY = "<<"


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
    node: YamlNode
    text: str
    lines: Sequence[str]

    @property
    def kind(self) -> str:
        """Its kind; empty where it is no Kubernetes object."""
        return str(self.value.get("kind", "")) if isinstance(self.value, dict) else ""

    @property
    def line(self) -> int:
        """The line that it begins on."""
        return self.node.first.line + 1

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
        start, end = place.first, place.last
        if found and place is not value and value.kind == "scalar":
            end = value.last if value.last.line == start.line else end
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
        if node.kind != "scalar":
            return None
        wanted = node.value.split("\n")[line - 1 : line]
        if not wanted or not wanted[0].strip():
            return None
        first, last = node.first, node.last
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
        first = self.node.first.line if self.document else 0
        last = min(self.node.last.line + 1, len(self.lines))
        marked = [number for number in range(first, last) if mark.search(self.lines[number])]
        scalars = [node for node in self.node.walk() if node.kind == "scalar"] if marked else []
        for number in marked:
            for found in mark.finditer(self.lines[number]):
                if not any(_holds(node, number, found.start()) for node in scalars):
                    text = found.string[found.start() :].rstrip()
                    yield Region(number + 1, found.start() + 1, number + 1, found.start() + 1 + len(text)), text
                    break

    def _line(self, number: int) -> str:
        return self.lines[number] if number < len(self.lines) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestText:
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


def read(paths: Sequence[str]) -> Iterator[File | ManifestText | InputError]:
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
                yield ManifestText(path=file, line=1, reason=f"a patch of Kustomize: {BUILD}")
                continue
            try:
                yield _read(file, given=file == path)
            except InputError as error:
                yield error


def _read(file: str, *, given: bool) -> File | ManifestText:
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
            return ManifestText(path=name, line=line, reason=f"what looks like a Helm template: {RENDER}")
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
        roots = iter(yaml_nodes(text))
        loader = _Loader(text)
        try:
            while loader.check_node():
                composed, node = loader.get_node(), next(roots)
                _check(node, path)
                value = _value(loader, composed, node)
                manifests += _items(
                    Manifest(path=path, document=len(manifests), value=value, node=node, text=text, lines=lines)
                )
        finally:
            loader.dispose()
    except NestingError as error:
        raise InputError(path, str(error), line=error.line) from error
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


def _value(loader: Any, composed: yaml.Node, node: YamlNode) -> Any:
    """What a document says; one with somebody else's tags (`!Ref`) is no Kubernetes object unless it has a kind.

    composed: the parser's own node of the document, which it makes values of.
    """
    try:
        return loader.construct_document(composed)
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
        if child is not None and child[1].kind == "sequence":
            pairs = zip(whole.value["items"], _children(child[1]), strict=True)
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


def _check(node: YamlNode, path: str) -> None:
    """Raises InputError for a key given twice, which kubectl refuses, and for aliases that expand beyond measure."""
    sizes: dict[int, int] = {}
    stack: list[tuple[YamlNode, bool]] = [(node, False)]
    while stack:
        current, done = stack.pop()
        children = _children(current)
        if done:
            sizes[id(current)] = 1 + sum(sizes.get(id(child), 0) for child in children)
            if sizes[id(current)] > MAX_NODES:
                line = current.first.line + 1
                raise InputError(path, f"aliases expand to more than {MAX_NODES:,} nodes", line=line)
        elif id(current) not in sizes:
            sizes[id(current)] = 0  # an alias to a node around it counts once
            stack.append((current, True))
            stack.extend((child, False) for child in children)
            if current.kind == "mapping":
                _refuse_duplicates(current, path)


def _refuse_duplicates(node: YamlNode, path: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.items:
        key = key.resolved if key is not None else None
        if key is None or key.kind != "scalar" or key.value == MERGE_KEY:
            continue
        line = key.first.line + 1
        if key.value in seen:
            raise InputError(path, f'the key "{key.value}" is already set at line {seen[key.value]}', line=line)
        seen[key.value] = line


def _holds(node: YamlNode, line: int, column: int) -> bool:
    """Whether a node holds a position, both 0-based."""
    return (node.first.line, node.first.column) <= (line, column) < (node.last.line, node.last.column)


def _children(node: YamlNode) -> list[YamlNode]:
    """A node's keys and values or items, with what an alias stands for in its place."""
    return [child.resolved for child in node.children()]


def _child(node: YamlNode, part: str | int) -> tuple[YamlNode, YamlNode] | None:
    """The node to point at (a key, an item) and the node of the value; what an alias stands for in its place, and what
    `<<` merges where the node itself does not have it.
    """
    for holder in _with_merged(node):
        if (found := holder.child(part)) is not None:
            number, value = found
            return (holder.items[number][0] or value).resolved, value.resolved
    return None


def _with_merged(node: YamlNode) -> Iterator[YamlNode]:
    """A node and the mappings that `<<` merges into it, each once, in the order in which their keys count."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        merged = [value.resolved for key, value in current.items if key is not None and key.value == MERGE_KEY]
        waiting[:0] = [one for value in merged for one in ([value] if value.kind == "mapping" else _children(value))]


__all__ = [
    "STDIN",
    "STDIN_NAME",
    "File",
    "ManifestText",
    "InputError",
    "Manifest",
    "Position",
    "Region",
    "parse",
    "read",
]
