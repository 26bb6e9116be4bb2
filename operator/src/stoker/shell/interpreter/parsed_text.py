"""A parsed shell text and where its characters stand in the outermost script."""

import re
from bisect import bisect_right

import tree_sitter_bash
from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from stoker.shell.interpreter.values import Text

LANGUAGE = Language(tree_sitter_bash.language())

Offsets = tuple[int, int]
NOWHERE: Offsets = (-1, -1)


class ParsedText:
    """One shell text: the outermost script, or a text inside it (`bash -c`, `eval`, a file it writes).

    Tree-sitter counts bytes; everything else here counts characters. A NUL, which no script can hold, is blanked before
    parsing. Other control characters and those above U+00FF are parsed as `é`: to a shell all of them are parts of
    words, but the grammar's error recovery takes seconds over the former, and its scanner looks the latter up in tables
    of the C library that end before them, which may crash the process.
    """

    def __init__(self, text: str, segments: list[tuple[int, int, int, int]], fallback: Offsets) -> None:
        """segments: (start, end, outer start, outer end) of the text's parts, in order; fallback: for what has none."""
        self.text = text
        self._segments = segments
        self._starts = [segment[0] for segment in segments]
        self._fallback = fallback
        self._outermost = segments == [(0, len(text), 0, len(text))]
        self.blanked = "\0" in text
        printable = _ODD.sub("é", text.replace("\0", " "))
        data = printable.encode("utf-8", "replace")
        self._ascii = len(data) == len(text)
        self._byte_starts: list[int] = []
        if not self._ascii:
            position = 0
            for character in printable:
                self._byte_starts.append(position)
                position += len(character.encode("utf-8", "replace"))
        self.tree = _parsed(data)

    @classmethod
    def outermost(cls, text: str) -> "ParsedText":
        return cls(text, [(0, len(text), 0, len(text))], NOWHERE)

    @classmethod
    def nested(cls, fragments: Text, fallback: Offsets) -> "ParsedText":
        """The text of known fragments, each of which knows where it was written."""
        segments: list[tuple[int, int, int, int]] = []
        parts: list[str] = []
        position = 0
        for fragment in fragments:
            text = " " if fragment.separator else fragment.text or ""
            segments.append((position, position + len(text), fragment.start, fragment.end))
            parts.append(text)
            position += len(text)
        return cls("".join(parts), segments, fallback)

    @property
    def root(self) -> Node:
        """The root of the syntax tree."""
        return self.tree.root_node

    def _character(self, byte: int) -> int:
        return bisect_right(self._byte_starts, byte - 1) if byte else 0

    def node_at(self, position: int) -> Node | None:
        """The smallest named node that holds a character; None where there is none."""
        byte = position if self._ascii else self._byte_starts[position]
        return self.root.named_descendant_for_byte_range(byte, byte + 1)

    def comments(self) -> list[int]:
        """Where the comments begin."""
        nodes = QueryCursor(Query(LANGUAGE, "(comment) @comment")).captures(self.root)
        return [self.start(node) for node in nodes.get("comment", ())]

    def start(self, node: Node) -> int:
        return node.start_byte if self._ascii else self._character(node.start_byte)

    def end(self, node: Node) -> int:
        return node.end_byte if self._ascii else self._character(node.end_byte)

    def slice(self, node: Node) -> str:
        if self._ascii:
            return self.text[node.start_byte : node.end_byte]
        return self.text[self.start(node) : self.end(node)]

    def outer(self, start: int, end: int) -> Offsets:
        """Where the characters start..end of this text stand in the outermost script."""
        if self._outermost and 0 <= start < end <= len(self.text):
            return start, end
        first, last = self._outer_of(start), self._outer_of(max(start, end - 1))
        if NOWHERE in (first, last) or last[1] < first[0]:
            return first if first != NOWHERE else self._fallback
        return first[0], last[1]

    def _outer_of(self, position: int) -> Offsets:
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return NOWHERE
        start, end, outer_start, outer_end = self._segments[index]
        if outer_start < 0:
            return NOWHERE
        if end - start == outer_end - outer_start and position < end:
            return outer_start + position - start, outer_start + position - start + 1
        return outer_start, outer_end

    def exact(self, start: int, end: int) -> Offsets:
        """As `outer`, NOWHERE if it isn't character by character."""
        index = bisect_right(self._starts, start) - 1
        if index < 0:
            return NOWHERE
        begin, limit, outer_start, outer_end = self._segments[index]
        if outer_start < 0 or end > limit or limit - begin != outer_end - outer_start:
            return NOWHERE
        return outer_start + start - begin, outer_start + end - begin


def _parsed(data: bytes) -> Tree:
    """The tree of a text.

    The grammar lets some commands run on into the next line: after a continued line, a number, a redirection. Such a
    line's end is parsed as the `;` that it is.
    """
    tree = Parser(LANGUAGE).parse(data)
    for _ in range(MAX_RUN_ONS if tree.root_node.descendant_count < MAX_NODES else 0):
        ends = [end for node in _captured(tree) if (end := _run_on(node, data)) is not None]
        if not ends:
            break
        mended = bytearray(data)
        for end in ends:
            mended[end] = ord(";")
        data = bytes(mended)
        tree = Parser(LANGUAGE).parse(data)
    return tree


def _captured(tree: Tree) -> list[Node]:
    return QueryCursor(_COMMANDS).captures(tree.root_node).get("command", [])


def _run_on(command: Node, data: bytes) -> int | None:
    """Where a line ends between the words of a command or redirection; None where that is nowhere, or escaped."""
    if command.start_point.row == command.end_point.row:
        return None
    previous: Node | None = None
    for child in command.children:
        if child.type.startswith("heredoc"):
            return None
        if previous is not None and previous.type != "variable_assignment":
            between = data[previous.end_byte : child.start_byte]
            end = between.replace(b"\\\n", b"  ").replace(b"\\\r\n", b"   ").find(b"\n")
            if end >= 0:
                return previous.end_byte + end
        previous = child
    return None


MAX_RUN_ONS = 8
"""Times that a text is parsed anew: each mends all ends that it finds, and may bring others to light."""
MAX_NODES = 50_000
"""Of a tree that is searched for commands that run on: that takes quadratic time where the grammar gave up."""
_COMMANDS = Query(LANGUAGE, "[(command) (file_redirect)] @command")
_ODD = re.compile("[^\t\n\r -~\x80-\xff]")
