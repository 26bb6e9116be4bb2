"""Changes are made in the text by surgery: what they don't concern stays as it is, byte for byte."""

import copy
import difflib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.findings.finding import Change, FieldEdit, TextEdit
from stoker.lint.files.manifests import parse
from stoker.lint.fixes.apply import NotApplicableError, apply


def edited(text: str, *edits: TextEdit | FieldEdit, document: int = 0) -> str:
    return apply(text, parse(text, "x.yaml")[document], Change(edits=edits, safe=True))


def replaced(path: str, source: str, old: str, new: str) -> TextEdit:
    start = source.index(old)
    return TextEdit(field_path=path, start=start, end=start + len(old), text=new, source=source)


def diff(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True))
    return [line for line in lines if line[0] in "-+"]


@pytest.mark.parametrize(
    "text, source, old, new, changed",
    [
        pytest.param(
            "a: # top\n  s: |  # head\n    one\n    two 4\n\n    three\n# end\nb: 1\n",
            "one\ntwo 4\n\nthree\n",
            "4",
            "8",
            ["-     two 4\n", "+     two 8\n"],
            id="literal",
        ),
        pytest.param(
            "a:\n  s: |-\n      one\n      sleep 60\nb: 1\n",
            "one\nsleep 60",
            "\nsleep 60",
            "",
            ["-       sleep 60\n"],
            id="the last line of a literal without a last break",
        ),
        pytest.param(
            "a:\r\n  s: |\r\n    one\r\n    two\r\nb: 1\r\n",
            "one\ntwo\n",
            "two",
            "2\n3",
            ["-     two\r\n", "+     2\r\n", "+     3\r\n"],
            id="CRLF",
        ),
        pytest.param(
            "a:\n  s: |\n    one\n    two", "one\ntwo", "\ntwo", "", ["-     one\n", "+     one", "-     two"]
        ),
        pytest.param(
            "a:\n  s: >-\n    one\n    two 4\n\n    three\n",
            "one two 4\nthree",
            "4",
            "8",
            ["-     two 4\n", "+     two 8\n"],
            id="folded",
        ),
        pytest.param(
            "a:\n  s: 'one\n    two'\nb: 1\n",
            "one two",
            "two",
            "2\n3",
            ["+     2\n", "+ \n", "-     two'\n", "+     3'\n"],
            id="a new line in a fold",
        ),
        pytest.param(
            'a: {s: "one\\n\\ttwo 4 \\"x\\" \\\n   three"}\n',
            'one\n\ttwo 4 "x" three',
            'two 4 "',
            '2\n"',
            ['- a: {s: "one\\n\\ttwo 4 \\"x\\" \\\n', '+ a: {s: "one\\n\\t2\\n\\"x\\" \\\n'],
            id="double quotes",
        ),
        pytest.param(
            "a: {s: 'it''s 4\n\n  yes'}\n",
            "it's 4\nyes",
            "4",
            "it's 8",
            ["- a: {s: 'it''s 4\n", "+ a: {s: 'it''s it''s 8\n"],
            id="single quotes",
        ),
        pytest.param(
            "a:\n  s: run --n=4\n   more\n",
            "run --n=4 more",
            "4",
            "8",
            ["-   s: run --n=4\n", "+   s: run --n=8\n"],
            id="plain",
        ),
        pytest.param(
            "a:\n  s: run 4  # c\n",
            "run 4",
            "run 4",
            "8",
            ["-   s: run 4  # c\n", '+   s: "8"  # c\n'],
            id="quoted where it would be a number",
        ),
        pytest.param(
            '{"a": {"s": "x 4"}}', "x 4", "4", '"8"', ['- {"a": {"s": "x 4"}}', '+ {"a": {"s": "x \\"8\\""}}']
        ),
    ],
)
def test_a_text_is_edited_in_its_style(text: str, source: str, old: str, new: str, changed: list[str]) -> None:
    assert diff(text, edited(text, replaced("a.s", source, old, new))) == changed


@pytest.mark.parametrize(
    "text, path, value, changed",
    [
        ("e:\n- name: X\n  value: '4' # c\n", "e[0].value", "8", ["-   value: '4' # c\n", "+   value: '8' # c\n"]),
        ("e:\n- name: X\n  value: '4' # c\n", "e[X].value", "8", ["-   value: '4' # c\n", "+   value: '8' # c\n"]),
        ("e: 1 # c\n", "e", 2, ["- e: 1 # c\n", "+ e: 2 # c\n"]),
        ("e: # c\nf: 1\n", "e", 2, ["- e: # c\n", "+ e: 2 # c\n"]),
        ("a:\n  e: 1 # c\n  # d\n  f: 2\n", "a.e", None, ["-   e: 1 # c\n"]),
        ("a:\n- e: 1\n  f: 2\n", "a[0].e", None, ["- - e: 1\n", "-   f: 2\n", "+ - f: 2\n"]),
        ("a:\n  e:\n  - x: 1\n  # d\n  - y: 2 # c\n  - z\nb: 1\n", "a.e[1]", None, ["-   - y: 2 # c\n"]),
        (
            "a:\n  e:\n  - x: |\n      long\n\n  f: 1\n",
            "a.e[0]",
            None,
            ["-   e:\n", "-   - x: |\n", "-       long\n", "- \n"],
        ),
        ("a: {e: 1, f: 2} # c\n", "a.e", None, ["- a: {e: 1, f: 2} # c\n", "+ a: {f: 2} # c\n"]),
        ("a: {e: 1, f: 2} # c\n", "a.f", None, ["- a: {e: 1, f: 2} # c\n", "+ a: {e: 1} # c\n"]),
        ("a: {e: 1}\n", "a.e", None, ["- a: {e: 1}\n", "+ a: {}\n"]),
        ("a:\n  e: 1\nb: 2\n", "a.e", None, ["-   e: 1\n", "+   {}\n"]),
        ("a:\n  b: 1 # c\n\n# d\ne: 2\n", "a.v[]", {"n": "x"}, ["+   v:\n", "+   - n: x\n"]),
        ("a:\n  v:\n  - n: x\n# d\n", "a.v[]", {"n": "y", "m": 1}, ["+   - n: y\n", "+     m: 1\n"]),
        ("a:\n    v:\n      -   x", "a.v[]", "y", ["-       -   x", "+       -   x\n", "+       - y"]),
        ("a: {v: []}\n", "a.v[]", {"n": "y"}, ["- a: {v: []}\n", '+ a: {v: [{"n": "y"}]}\n']),
        ("a: 1\n", "b.c.d", True, ["+ b:\n", "+   c:\n", "+     d: true\n"]),
        ('{\n  "a": {\n    "b": 1\n  }\n}\n', "a.c", [2], ['-     "b": 1\n', '+     "b": 1,\n', '+     "c": [2]\n']),
        ('{\n  "a": 1,\n  "b": 2\n}\n', "b", None, ['-   "a": 1,\n', '+   "a": 1\n', '-   "b": 2\n']),
    ],
)
def test_a_field_is_set_added_or_removed(text: str, path: str, value: Any, changed: list[str]) -> None:
    assert diff(text, edited(text, FieldEdit(field_path=path, value=value))) == changed


def test_only_the_named_document_or_item_of_a_list_is_edited() -> None:
    text = "s: x4\n---\nkind: List\nitems:\n- s: x4\n- s: x4 # c\n---\ns: x4\n"
    after = edited(text, replaced("s", "x4", "4", "8"), document=2)
    assert diff(text, after) == ["- - s: x4 # c\n", "+ - s: x8 # c\n"]


@pytest.mark.parametrize(
    "text, edit",
    [
        ("a: &x run 4\nb: *x\n", replaced("a", "run 4", "4", "8")),
        ("a: &x run 4\nb: *x\n", replaced("b", "run 4", "4", "8")),
        ("a: &x {s: run 4}\nb: *x\n", replaced("a.s", "run 4", "4", "8")),
        ("a: &x {s: run 4}\nb:\n  <<: *x\n", replaced("b.s", "run 4", "4", "8")),
        ("a: !!str 4\n", replaced("a", "4", "4", "8")),
        ("a: run 5\n", replaced("a", "run 4", "4", "8")),
        ("a: 4\n", replaced("a", "4", "4", "8")),
        ("a: |\n  s\n", replaced("b", "s\n", "s", "8")),
        ("a: [1]\n", FieldEdit(field_path="a.b", value=1)),
        ("a: 1\n", FieldEdit(field_path="a[]", value=1)),
        ("a: 1\n", FieldEdit(field_path="b", value=None)),
        ("a: &x [1]\nb: *x\n", FieldEdit(field_path="b[]", value=1)),
    ],
)
def test_what_cannot_be_edited_in_place_is_refused(text: str, edit: TextEdit | FieldEdit) -> None:
    with pytest.raises(NotApplicableError):
        edited(text, edit)


# Any sequence of edits of any document.

WORDS = st.text(alphabet="ab4 é'\"#:{[-,\\\n\t", max_size=12)
STYLES = st.sampled_from(["|", ">", "'", '"', ""])
LEAVES = st.tuples(WORDS, STYLES) | st.integers(-9, 99) | st.booleans()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.sampled_from("kmnpq"), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("uvw"), TREES, min_size=1, max_size=3)


class Written:
    """A document as somebody may have written it: scalars in their styles, comments above and behind."""

    def __init__(self, document: Any, flow: Callable[[], bool]) -> None:
        self.comments: list[str] = []
        self._flow = flow
        self.text = "".join(f"{line}\n" for line in self._mapping(document, 0))

    def _comment(self) -> str:
        self.comments.append(f"# remark {len(self.comments)}.")
        return self.comments[-1]

    def _mapping(self, value: dict[str, Any], indent: int) -> list[str]:
        lines: list[str] = []
        for key, item in value.items():
            lines += [f"{' ' * indent}{self._comment()}", *self._item(f"{key}:", item, indent)]
        return lines

    def _item(self, head: str, item: Any, indent: int) -> list[str]:
        pad = " " * indent
        if isinstance(item, dict | list) and self._flow():
            return [f"{pad}{head} {json.dumps(plain(item))} {self._comment()}"]
        if isinstance(item, dict):
            return [f"{pad}{head} {self._comment()}", *self._mapping(item, indent + 2)]
        if isinstance(item, list):
            lines = [f"{pad}{head}"]
            for one in item:
                lines += self._item("-", one, indent + 2)
            return lines
        return [f"{pad}{line}" if line else "" for line in self._scalar(head, item)]

    def _scalar(self, head: str, item: Any) -> list[str]:
        if not isinstance(item, tuple):
            return [f"{head} {json.dumps(item)} {self._comment()}"]
        text, style = item
        if style in ("|", ">") and (not text or text[0].isspace() or re.search(r"\s\n", text)):
            style = '"'  # the dumper writes such texts wrong, or in quotes itself
        key, value = (
            yaml.ScalarNode("tag:yaml.org,2002:str", one, style=how) for one, how in (("x", ""), (text, style))
        )
        node = yaml.MappingNode("tag:yaml.org,2002:map", [(key, value)], flow_style=False)
        lines = yaml.serialize(node, width=1000, allow_unicode=True).removesuffix("\n").split("\n")
        lines[0] = head + lines[0].removeprefix("x:")
        if len(lines) == 1:
            lines[0] += f" {self._comment()}"
        return lines


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value[0] if isinstance(value, tuple) else value


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value but the collections, by field path."""
    if isinstance(value, dict):
        return {key: leaf for name in value for key, leaf in leaves(value[name], f"{path}.{name}".lstrip(".")).items()}
    if isinstance(value, list):
        return {key: leaf for index, one in enumerate(value) for key, leaf in leaves(one, f"{path}[{index}]").items()}
    return {path: value}


def comments(text: str) -> set[str]:
    return set(re.findall(r"# remark \d+\.", text))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_edit_of_a_quoted_or_a_literal_text_is_made(data: st.DataObject) -> None:
    """Of a literal one where it stays one: its lines begin with no blank, and it ends with one break."""
    literal = data.draw(st.booleans())
    line = st.text(alphabet="ab4 é'\"#:{", max_size=6).map(lambda one: one.strip())
    source = "".join(f"{one}\n" for one in ["x", *data.draw(st.lists(line, max_size=4)), "y"])
    new = "\n".join(data.draw(st.lists(line, max_size=3)))
    start = data.draw(st.integers(1, len(source) - 2))
    end = data.draw(st.integers(start, len(source) - 2))
    block = "".join(f"    {one}\n" if one else "\n" for one in source.splitlines())
    text = f"a:\n  s: |  # c\n{block}  t: 1\n" if literal else f'a: {{"s": {json.dumps(source)}, "t": 1}} # c\n'
    after = edited(text, TextEdit(field_path="a.s", start=start, end=end, text=new, source=source))
    assert yaml.safe_load(after) == {"a": {"s": source[:start] + new + source[end:], "t": 1}}
    assert "# c\n" in after


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.data())
def test_any_edits_of_texts_keep_all_other_values_and_every_comment(data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS)
    written = Written(document, lambda: data.draw(st.booleans()))
    text, value = written.text, plain(document)
    assert yaml.safe_load(text) == value
    for _ in range(data.draw(st.integers(1, 3))):
        texts = {path: leaf for path, leaf in leaves(value).items() if isinstance(leaf, str)}
        if not texts:
            return
        path = data.draw(st.sampled_from(sorted(texts)))
        source = texts[path]
        start = data.draw(st.integers(0, len(source)))
        end = data.draw(st.integers(start, len(source)))
        new = data.draw(WORDS)
        try:
            text = edited(text, TextEdit(field_path=path, start=start, end=end, text=new, source=source))
        except NotApplicableError:
            continue
        texts[path] = source[:start] + new + source[end:]
        value = yaml.safe_load(text)
        assert leaves(value) == {**leaves(value), **texts}
        assert comments(text) == set(written.comments)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_setting_and_adding_fields_keeps_all_other_values_and_every_comment(data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS)
    written = Written(document, lambda: data.draw(st.booleans()))
    text, value = written.text, plain(document)
    for number in range(data.draw(st.integers(1, 3))):
        lists = [path for path, leaf in collections(value).items() if isinstance(leaf, list)]
        maps = [path for path, leaf in collections(value).items() if isinstance(leaf, dict)]
        path = data.draw(
            st.sampled_from(
                [*leaves(value), *(f"{one}[]" for one in lists), *(f"{one}.z{number}".lstrip(".") for one in maps)]
            )
        )
        new = data.draw(st.sampled_from(["8", "a: b", 8, True, {"n": "x", "m": ["y"]}]))
        before = leaves(value)
        try:
            text = edited(text, FieldEdit(field_path=path, value=new))
        except NotApplicableError:
            continue
        value = yaml.safe_load(text)
        kept = {key: leaf for key, leaf in before.items() if key != path}
        assert leaves(value) == {**leaves(value), **kept}
        assert len(leaves(value)) == len(kept) + len(leaves(new))
        assert comments(text) == set(written.comments)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_removing_a_field_removes_its_lines_alone(data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS)
    written = Written(document, lambda: data.draw(st.booleans()))
    text, value = written.text, plain(document)
    path = data.draw(st.sampled_from(sorted({**leaves(value), **collections(value)}.keys() - {""})))
    after = edited(text, FieldEdit(field_path=path, value=None))
    expected = copy.deepcopy(value)
    removed(expected, path)
    assert yaml.safe_load(after) == expected
    rewritten = [line for line in after.splitlines() if line not in text.splitlines()]
    assert len(rewritten) <= 1


def collections(value: Any, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        found[path] = value
        for name in value:
            found |= collections(value[name], f"{path}.{name}".lstrip("."))
    if isinstance(value, list):
        found[path] = value
        for index, one in enumerate(value):
            found |= collections(one, f"{path}[{index}]")
    return found


def removed(document: Any, path: str) -> None:
    """Take a field out of a value; a list that is then empty goes with it."""
    holder, key = document, None
    steps: list[tuple[Any, Any]] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        key = name or int(index)
        steps.append((holder, key))
        holder = holder[key]
    while steps:
        holder, key = steps.pop()
        del holder[key]
        if holder != []:
            return
