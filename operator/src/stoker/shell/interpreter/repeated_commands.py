"""Commands that run another command for each item of a list: `xargs`, GNU `parallel`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.shell.interpreter import values
from stoker.shell.interpreter.expansion import Field
from stoker.shell.interpreter.values import Fragment, Text, Value

_XARGS_VALUED = frozenset(
    {"-n", "-P", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--max-lines", "--delimiter", "--arg-file"}
)
_PARALLEL_VALUED = frozenset(
    {"-j", "-P", "-N", "-n", "-a", "-C", "-L", "--jobs", "--max-args", "--arg-file", "--colsep", "--delay", "--joblog",
     "--results", "--timeout", "--retries", "--tmpdir", "--memfree", "--load", "--halt", "--nice", "--tagstring"}
)  # fmt: skip
MAX_WORDS = 256
"""Words that `parallel` joins to a text; chosen because nobody writes a longer command for it."""
_PLACEHOLDER = re.compile(r"\{(?:[./#%]{0,2}|[1-9][0-9]?[./]{0,2})\}")


@dataclass(frozen=True, slots=True)
class Repeated:
    """A command of which the items are holes: `fields`, or with `text` a shell's text. parallel: several at a time."""

    fields: list[Field]
    text: bool = False
    parallel: bool = False


def repeated(fields: Sequence[Field]) -> Repeated | None:
    """What is repeated; None where nothing is, or where it can't be followed."""
    name = (fields[0].text or "").rsplit("/", 1)[-1] if fields else ""
    match name:
        case "xargs":
            return _xargs(fields)
        case "parallel":
            return _parallel(fields)
        case _:
            return None


def _xargs(fields: Sequence[Field]) -> Repeated | None:
    position, placeholder, parallel = 1, "", False
    while position < len(fields):
        text = fields[position].text
        if text is None or not text.startswith("-") or text == "-":
            break
        replacing = re.fullmatch(r"(?:-I|-i|--replace=?)(.*)", text)
        if replacing is not None:
            separate = text == "-I"
            placeholder = (fields[position + 1].text or "" if position + 1 < len(fields) else "") if separate else ""
            placeholder = placeholder or replacing[1] or "{}"
            position += 1 + separate
            continue
        parallel = parallel or text.startswith(("-P", "--max-procs"))
        position += 2 if text in _XARGS_VALUED else 1
    rest = list(fields[position:])
    if not rest or rest[0].text is None:
        return None
    if placeholder:
        return Repeated([_with_holes(each, re.compile(re.escape(placeholder))) for each in rest], parallel=parallel)
    return Repeated([*rest, _any()], parallel=parallel)


def _parallel(fields: Sequence[Field]) -> Repeated | None:
    """The command's words are joined and given to a shell; without any, the items are the commands."""
    position = 1
    while position < len(fields) and (text := fields[position].text) is not None and text.startswith("-"):
        if text.startswith(("-S", "--ssh", "--pipe", "--env", "-I")):
            return None
        position += 2 if text in _PARALLEL_VALUED else 1
    words: list[Field] = []
    for each in fields[position:]:
        if (each.text or "").startswith(":::"):
            break
        words.append(each)
    if not words or len(words) > MAX_WORDS or words[0].text is None or any(each.many for each in words):
        return None
    if not any(_PLACEHOLDER.search(each.text or "") for each in words):
        words.append(_any())
    parts: list[Value] = []
    for each in words:
        parts.append(_with_holes(each, _PLACEHOLDER).value)
        parts.append(values.literal(" "))
    return Repeated([Field(values.concatenate(parts), words[0].site)], text=True, parallel=True)


def _any() -> Field:
    return Field(values.hole(many=True), many=True)


def _with_holes(field: Field, placeholder: re.Pattern[str]) -> Field:
    """The word with a hole in each place of an item."""
    if len(field.value) != 1:
        return field
    fragments: list[Fragment] = []
    for fragment in _merged(field.value[0]):
        position = 0
        for match in placeholder.finditer(fragment.text or ""):
            if match.start() > position:
                fragments.append(fragment.part(position, match.start()))
            fragments.append(Fragment(None, quoted=True, names=frozenset({"{}"})))
            position = match.end()
        if fragment.text is None or position < len(fragment.text):
            fragments.append(fragment.part(position, len(fragment.text)) if fragment.text is not None else fragment)
    return Field((tuple(fragments),), field.site, field.many, field.argument)


def _merged(text: Text) -> Text:
    """Known fragments in a row as one: the grammar cuts `{}` in two."""
    merged: list[Fragment] = []
    for fragment in text:
        last = merged[-1] if merged else None
        if last is None or last.text is None or fragment.text is None:
            merged.append(fragment)
        else:
            merged[-1] = last._replace(text=last.text + fragment.text, end=max(last.end, fragment.end))
    return tuple(merged)
