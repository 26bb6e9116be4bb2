"""Proposes fixes: changes of scripts and manifests, computed from where words were written. Rules call these functions.

A script's text is edited only where it holds, character by character, what the interpreter has read there; words that
came about in another way (escapes, arithmetic, joined pieces) are left to their author.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from stoker.findings.finding import Change, FieldEdit, TextEdit
from stoker.lint.launch.plan import Count, Launch
from stoker.lint.launch.queries import ends_in_number
from stoker.lint.submission import Submission
from stoker.shell.model import Invocation, ShellScript, Span, Word

Cut = tuple[int, int, str]
"""Characters start..end of a script, and what takes their place."""

_REDIRECTIONS = re.compile(r"(?:[ \t]*\d*(?:>>?|<)&?[ \t]*[^\s;&|()<>'\"]+)*")
_REST_OF_LINE = re.compile(r"(?:[ \t]+#[^\n]*|[ \t]*)(?=\n|\Z)")
_OPENED = re.compile(r"(?:(?:^|[\s;&|(])(?:then|do|else|\{)|\()\s*\Z")
_CLOSED = re.compile(r"\s*(?:;\s*)?(?:(?:fi|done|else|elif)\b|\}|\)|;;)")
_ENDED = re.compile(r"[ \t]*(?:;|&&|\|\||\)|['\"]|\Z|\n)|[ \t]+#")
_THEN = re.compile(r"[ \t]*(?:;(?!;)|&&)[ \t]*")
_INDENT = re.compile(r"(?:\A|(?<!\\)\n)[ \t]*\Z")
_SETTING = re.compile(r"(?:\A|[\n;]|&&)[ \t]*((?:(?:export|declare -x|typeset -x)[ \t]+)?)\Z")
_ASSIGNED = re.compile(r"(?:^|[;&])[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=", re.MULTILINE)
_VALUE_ALONE = re.compile(r"[^\s;&]*[ \t]*(?:$|[;&])", re.MULTILINE)
"""A value that no command follows: `A=1; python`, but not `A=1 python`."""
_READ = re.compile(r"\$\{?([A-Za-z_]\w*)")
_WITHIN_LINE = re.compile(r"[^\s]([ \t]+)\Z")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_GAP = re.compile(r"(?:[ \t]|\\\n)+(?=[^\s#])")

WINDOW = 512
"""Characters looked back at: a change of each of thousands of commands shall not read the whole script each time."""


def in_script(submission: Submission, cuts: Iterable[Cut | None], *, safe: bool) -> Change | None:
    """A change of the script's text; None without a cut, with one that can't be made, or with two that overlap."""
    script, found = submission.script, set(cuts)
    if script is None or not submission.script_field or not found or None in found:
        return None
    ordered = sorted(cut for cut in found if cut is not None)
    if any(before[1] > after[0] for before, after in pairwise(ordered)):
        return None
    edits = tuple(
        TextEdit(field_path=submission.script_field, start=start, end=end, text=text, source=script.source)
        for start, end, text in ordered
    )
    return Change(edits=edits, safe=safe)


def in_field(field_path: str, value: Any, *, safe: bool) -> Change:
    """A change of one field of the manifest; None removes it."""
    return Change(edits=(FieldEdit(field_path=field_path, value=value),), safe=safe)


def together(*changes: Change | None) -> Change | None:
    """Several changes as one, safe if all are; None if one of them is missing."""
    if None in changes:
        return None
    made = [change for change in changes if change is not None]
    return Change(edits=tuple(edit for one in made for edit in one.edits), safe=all(one.safe for one in made))


def renumbered(submission: Submission, launch: Launch, count: Count, number: int) -> Change | None:
    """Another number in place of a launcher's count, where the old one was written; never safe."""
    old = str(count.value)
    word = count.words[-1] if count.words else None
    if count.variable is not None:
        word = launch.invocation.environment.get(count.variable)
    if word is None or word.text is None or count.key or not ends_in_number(word.text, old):
        return None
    length = len(word.text)
    written = word.written(length - len(old), length)
    if written is not None:
        return in_script(submission, [_exact(submission, written, old, str(number))], safe=False)
    if word.argument is not None and submission.argv and word.argument < len(submission.argv):
        path, text = submission.argv[word.argument]
        new = f"{word.text[: -len(old)]}{number}"
        edit = TextEdit(field_path=path, start=0, end=len(text), text=new, source=text)
        return Change(edits=(edit,), safe=False) if text == word.text else None
    reference = _reference(submission, word)
    variable = reference[0] if reference is not None else "" if word.span is not None else count.variable or ""
    if variable in submission.environment_fields and submission.environment.get(variable) == old:
        return in_field(variable_path(submission, variable), str(number), safe=False)
    if reference is not None and variable in submission.environment and word.origin is None:
        return in_script(submission, [(*reference[1], str(number))], safe=False)
    return None


def _exact(submission: Submission, written: tuple[int, int], old: str, new: str) -> Cut | None:
    source = submission.script.source if submission.script is not None else ""
    return (*written, new) if source[slice(*written)] == old else None


def _reference(submission: Submission, word: Word) -> tuple[str, tuple[int, int]] | None:
    """The variable that a word ends with, and where: NPROC of `--nproc_per_node=$NPROC`."""
    if submission.script is None or word.span is None:
        return None
    start, end = submission.script.offsets(word.span)
    text = submission.script.source[start:end]
    found = re.search(r"(\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-[^{}]*)?\}))\"?\Z", text)
    return None if found is None else (found[2] or found[3], (start + found.start(1), start + found.end(1)))


def variable_path(submission: Submission, name: str) -> str:
    """The field of a manifest variable's value."""
    path = submission.environment_fields[name]
    return f"{path}.value" if path.endswith("]") else path


def variable_item(submission: Submission, name: str) -> str:
    """The item of a manifest variable in its list."""
    return submission.environment_fields[name].removesuffix(".value")


def after_word(submission: Submission, word: Word, text: str) -> Cut | None:
    """One more word behind another one."""
    written = word.written(0, len(word.text)) if word.text else None
    if written is None or _exact(submission, written, word.text or "", "") is None:
        return None
    return written[1], written[1], f" {text}"


def without_word(submission: Submission, word: Word) -> Cut | None:
    """A command without one of its words: as it was read, an assignment (`A=1 python`), an option with its value."""
    script = submission.script
    if script is None or word.span is None:
        return None
    start, end = script.offsets(word.span)
    there = script.source[start:end]
    written = word.written(0, len(word.text)) if word.text else None
    if re.match(r"[A-Za-z_]\w*=", there) is None:  # of an assignment, the value is the word's text
        if written is not None:
            start, end = written
        elif re.match(r"--?[A-Za-z][\w-]*=", there) is None:
            return None
    return _with_blanks(script.source, start, end)


def without_words(submission: Submission, words: Sequence[Word]) -> Cut | None:
    """A command without some words that follow one another, as an option and its value do."""
    script = submission.script
    written = [word.written(0, len(word.text)) if word.text else None for word in words]
    if script is None or None in written:
        return None
    places = [place for place in written if place is not None]
    if any(script.source[slice(*place)] != word.text for place, word in zip(places, words, strict=True)):
        return None
    if any(_BLANKS.fullmatch(script.source, one[1], other[0]) is None for one, other in pairwise(places)):
        return None
    return _with_blanks(script.source, places[0][0], places[-1][1])


def _with_blanks(source: str, start: int, end: int) -> Cut:
    """A stretch of a command with the blanks after it; with those before it at the end of a line or of the command."""
    gap = _GAP.match(source, end)
    same_line = _before(_WITHIN_LINE, source, start)
    if gap is not None and "\n" in gap[0] and same_line is not None:
        return same_line.end() - len(same_line[1]), end, ""
    if gap is not None:
        return start, gap.end(), ""
    return _blanks_before(source, start), end, ""


def within_word(submission: Submission, word: Word, old: str, new: str) -> Cut | None:
    """Other characters inside a word, where they stand last: `torch==2.9.1` without its `+cpu`."""
    begin = (word.text or "").rfind(old)
    written = word.written(begin, begin + len(old)) if begin >= 0 else None
    return None if written is None else _exact(submission, written, old, new)


def without_setting(submission: Submission, word: Word) -> Cut | None:
    """A script without an assignment or an export: the whole statement, or the word among others of one."""
    script = submission.script
    if script is None or word.span is None:
        return None
    start, end = script.offsets(word.span)
    alone = _before(_SETTING, script.source, start)
    if alone is not None and re.match(r"[ \t]*(?:[\n;]|&&|\Z)|[ \t]+#", script.source[end:]):
        return without_statement(script.source, start - len(alone[1]), end)
    return without_word(submission, word)


def without_variable(submission: Submission, name: str, words: Sequence[Word], *, safe: bool) -> Change | None:
    """Nothing sets a variable any more, whose values are these words: in the script, or in the manifest.

    None where the script reads the variable, or sets it elsewhere, too.
    """
    script = submission.script
    if script is not None:
        known = {script.offsets(word.span)[0] for word in words if word.span is not None}
        settings = (found for found in _ASSIGNED.finditer(script.source) if found[1] == name)
        alone = (found for found in settings if _VALUE_ALONE.match(script.source, found.end()))
        read = any(found[1] == name for found in _READ.finditer(script.source))
        if read or any(found.start(1) not in known for found in alone):
            return None
    if all(word.span is None for word in words):
        given = name in submission.environment_fields
        return in_field(variable_item(submission, name), None, safe=safe) if given else None
    return in_script(submission, [without_setting(submission, word) for word in words], safe=safe)


def without_command(submission: Submission, invocation: Invocation, instead: str = "") -> Cut | None:
    """A script without one of its commands; None where it runs more than once, or does not stand there as it is read.

    instead: a command that takes its place.
    """
    script = submission.script
    if script is None or invocation.span is None or invocation.wrappers or not _stands_there(script, invocation):
        return None
    start, end = script.offsets(invocation.span)
    if instead:
        return start, end, instead
    return without_statement(script.source, start, end)


def _stands_there(script: ShellScript, invocation: Invocation) -> bool:
    """Whether a command's span holds it and nothing else runs from there."""
    span, name = invocation.span, invocation.argv[0]
    assert span is not None
    start, end = script.offsets(span)
    written = name.written(0, len(name.text)) if name.text else None
    return (
        written is not None
        and written[0] == start
        and script.source[slice(*written)] == name.text
        and all(word.span is not None and _within(word.span, span) for word in invocation.argv)
        and sum(one.span == span for one in script.invocations) == 1
        and re.search(r"(?<!\\)\n", script.source[start:end]) is None
    )


def _within(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
    )


def without_statement(source: str, start: int, end: int) -> Cut | None:
    """A script without the statement at start..end: with the operator that joins it, or with its line.

    A statement that is all that a branch or a function does becomes `:`. None where it can't be taken out.
    """
    redirected = _REDIRECTIONS.match(source, end)
    end = redirected.end() if redirected is not None else end
    following = _THEN.match(source, end)
    opened = _before(_OPENED, source, start) is not None
    if opened and _CLOSED.match(source, end):
        return start, end, ":"
    joined = _operator_before(source, start)
    if joined is not None:
        if source[joined] == ";" and following is not None and following[0].strip() == "&&":
            return start, following.end(), ""
        return (_blanks_before(source, joined), end, "") if _ENDED.match(source, end) else None
    line = _before(_INDENT, source, start)
    rest = _REST_OF_LINE.match(source, end)
    if line is not None and rest is not None:
        begin = line.start() + (1 if line[0].startswith("\n") else 0)
        if rest.end() < len(source):
            return begin, rest.end() + 1, ""
        return max(begin - 1, 0), rest.end(), ""
    if line is not None and source[end : end + 1] in ("'", '"'):
        return line.start(), end, ""
    if following is not None and (line is not None or opened):
        return start, following.end(), ""
    return None


def _before(pattern: re.Pattern[str], source: str, end: int) -> re.Match[str] | None:
    """A pattern's match that ends where something begins."""
    return pattern.search(source, max(end - WINDOW, 0), end)


def _blanks_before(source: str, end: int, blanks: str = " \t") -> int:
    """Where the blanks and the joined lines begin that end somewhere."""
    while end > 0:
        if source[max(end - 2, 0) : end] == "\\\n":
            end -= 2
        elif source[end - 1] in blanks:
            end -= 1
        else:
            break
    return end


def _operator_before(source: str, end: int) -> int | None:
    """Where the operator stands that joins a statement to the one before it: `&&`, `||`, or one `;` on its line."""
    at = _blanks_before(source, end, " \t\n\r\f\v") - 2
    if at >= 0 and source[at : at + 2] in ("&&", "||"):
        return at
    at = end - 1
    while at >= 0 and source[at] in " \t":
        at -= 1
    return at if at >= 0 and source[at] == ";" and source[at - 1 : at] != ";" else None


def as_changed(change: Change) -> str | None:
    """The line as it reads after a change of one line; None for any other.

    Of a script the command with its continuations joined, as an excerpt shows it; of a field `path: value`.
    """
    if len(change.edits) != 1:
        return None
    (edit,) = change.edits
    if isinstance(edit, FieldEdit):
        simple = isinstance(edit.value, str | int | float) and not edit.field_path.endswith("[]")
        return f"{edit.field_path}: {edit.value}" if simple else None
    if (edit.start, edit.end) == (0, len(edit.source)):
        return None if "\n" in edit.text else f"{edit.field_path}: {edit.text}"
    removed = edit.source[edit.start : edit.end]
    if "\n" in edit.text or "\n" in removed.replace("\\\n", ""):
        return None
    script = ShellScript(source=f"{edit.source[: edit.start]}{edit.text}{edit.source[edit.end :]}")
    return script.excerpt(script.span_of(edit.start, edit.start + max(len(edit.text), 1))).text.rstrip() or None


def shell_texts(change: Change) -> Sequence[tuple[str, str]]:
    """Each text that a change edits, before and after."""
    edited: dict[str, list[TextEdit]] = {}
    for edit in change.edits:
        if isinstance(edit, TextEdit):
            edited.setdefault(edit.field_path, []).append(edit)
    found: list[tuple[str, str]] = []
    for edits in edited.values():
        text = edits[0].source
        for edit in sorted(edits, key=lambda one: one.start, reverse=True):
            text = f"{text[: edit.start]}{edit.text}{text[edit.end :]}"
        found.append((edits[0].source, text))
    return found


__all__ = [
    "Cut",
    "after_word",
    "as_changed",
    "in_field",
    "in_script",
    "renumbered",
    "shell_texts",
    "together",
    "variable_item",
    "variable_path",
    "within_word",
    "without_command",
    "without_setting",
    "without_statement",
    "without_variable",
    "without_word",
    "without_words",
]
