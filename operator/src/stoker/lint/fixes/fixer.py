"""Fixes files for `stoker lint --fix` and `--diff`: applies the changes that findings carry, one after the other,
judges the result, and takes back what did harm.
"""

import difflib
import os
import re
import stat
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from stoker.findings.finding import Change
from stoker.findings.vocabulary import Severity
from stoker.lint.files.judgement import Judge
from stoker.lint.files.manifests import STDIN_NAME, InputError, Manifest, parse
from stoker.lint.files.results import Entry, Report
from stoker.lint.files.yaml_tree import split
from stoker.lint.fixes.apply import NotApplicableError, apply
from stoker.lint.fixes.propose import shell_texts
from stoker.shell.script import read_script

MAX_CHANGES = 100
"""Of one document; each removes a finding, and no document has as many."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Key = tuple[str, str, str | None]
"""What tells findings apart while their lines move: the rule, its words, and the line that it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A file's text before and after its fixes."""

    path: str
    before: str
    after: str

    def diff(self) -> str:
        """The difference as a unified diff; empty without one."""
        names = self.path, self.path
        lines = difflib.unified_diff(_lines(self.before), _lines(self.after), *names)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A fix that was not made, and why; place: of the finding, as `train, line 3 of its script`."""

    path: str
    rule: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: the fix of {self.rule} in {self.place} could not be applied safely: {self.reason}"


@dataclass(slots=True, kw_only=True)
class Fixer:
    """Rewrites the texts of files. unsafe: also by changes that are the author's decision.

    fixed: the findings that are gone. withheld: those whose change is unsafe, and was not asked for.
    """

    judge: Judge
    unsafe: bool = False
    files: list[Rewritten] = field(default_factory=list)
    fixed: int = 0
    withheld: int = 0
    refused: list[Refused] = field(default_factory=list)
    _texts: dict[str, str] = field(default_factory=dict)

    def rewrite(self, path: str, text: str) -> str:
        """The text of a file with all its documents fixed. Raises InputError for what is no YAML."""
        file = os.path.realpath(path)
        if file not in self._texts:  # else named twice, or linked to
            parse(text, path)
            self._texts[file] = "".join(self._documents(path, part) for part in split(text))
            self.files.append(Rewritten(path=path, before=text, after=self._texts[file]))
        return self._texts[file]

    def _documents(self, path: str, text: str) -> str:
        """A document, or a list of them, each of which is parsed after every change: not the whole file."""
        for manifest in parse(text, path):
            text = self._document(path, text, manifest.document)
        return text

    @property
    def piped(self) -> str | None:
        """What standard input has become; None where it was not read."""
        return next((file.after for file in self.files if file.path == STDIN_NAME), None)

    def write(self) -> list[InputError]:
        """Write what has changed, but for standard input; gives back what went wrong."""
        errors: list[InputError] = []
        for file in self.files:
            if file.path != STDIN_NAME and file.after != file.before:
                try:
                    replace(file)
                except InputError as error:
                    errors.append(error)
        return errors

    def summary(self, *, made: bool) -> str:
        """Lines: what could not be fixed, and `Fixed 3 findings (2 more with --unsafe-fixes).`; made: it is done."""
        said = f"{'Fixed' if made else 'Would fix'} {self.fixed} finding{'' if self.fixed == 1 else 's'}"
        more = f" ({self.withheld} more with --unsafe-fixes)" if self.withheld else ""
        return "\n".join([*map(str, self.refused), f"{said}{more}."])

    def _document(self, path: str, text: str, document: int) -> str:
        """One change at a time, each judged by itself: its neighbours' offsets move, and may overlap it.

        What was refused is tried again after each change, which may have made way for it.
        """
        for _ in range(MAX_CHANGES):
            manifest = parse(text, path)[document]
            report = self.judge.judge(manifest)
            if not isinstance(report, Report):
                break
            refused: list[Refused] = []
            for entry in report.entries:
                if entry.change is None or not (entry.change.safe or self.unsafe):
                    continue
                try:
                    text = self._changed(text, manifest, report, entry, entry.change)
                    self.fixed += 1
                    break
                except NotApplicableError as error:
                    line = f", line {entry.script_line} of its script" if entry.script_line is not None else ""
                    place = f"{report.name or manifest.kind}{line}"
                    refused.append(Refused(path=path, rule=entry.rule, place=place, reason=str(error)))
            else:
                changes = [entry.change for entry in report.entries if entry.change is not None]
                self.withheld += 0 if self.unsafe else sum(not change.safe for change in changes)
                self.refused += refused
                break
        return text

    def _changed(self, text: str, manifest: Manifest, report: Report, entry: Entry, change: Change) -> str:
        """The text with a change. Raises NotApplicableError where it can't be made, or did not do what it should."""
        after = apply(text, manifest, change)
        if any(_issues(new) > _issues(old) for old, new in shell_texts(change)):
            raise NotApplicableError("the script would no longer parse")
        judged = self.judge.judge(parse(after, manifest.path)[manifest.document])
        if not isinstance(judged, Report):
            raise NotApplicableError("the job could no longer be judged")
        if not _gone(entry, change, report, judged):
            raise NotApplicableError("the finding would stay")
        if judged.unfinished and not report.unfinished:
            raise NotApplicableError("the job could no longer be judged")
        if worse := _grave(judged, entry.severity) - _grave(report, entry.severity):
            raise NotApplicableError(f"it would bring {', '.join(sorted(worse))}")
        return after


def _gone(entry: Entry, change: Change, before: Report, after: Report) -> bool:
    """Whether a finding, or its line, is no longer there: a rule that speaks once goes on to the next equal line."""
    key, line = _key(entry), entry.script_line
    if Counter(map(_key, after.entries))[key] < Counter(map(_key, before.entries))[key]:
        return True
    texts = [(old.split("\n"), new.split("\n")) for old, new in shell_texts(change)]
    return line is not None and any(
        line <= len(old) and new.count(old[line - 1]) < old.count(old[line - 1]) for old, new in texts
    )


def _key(entry: Entry) -> Key:
    return entry.rule, entry.detail, entry.excerpt


def _grave(report: Report, severity: Severity) -> Counter[str]:
    """The findings that weigh as much as a severity or more, by rule."""
    order = list(Severity)
    return Counter(one.rule for one in report.entries if order.index(one.severity) <= order.index(severity))


def _issues(script: str) -> int:
    return len(read_script(script).syntax_issues)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def replace(file: Rewritten) -> None:
    """Put a file's new text in place of the old one at once, with its mode; a link stays one.

    Raises InputError where that is not possible; the old text is then still there.
    """
    target = Path(os.path.realpath(file.path))
    temporary = None
    try:
        old = target.read_bytes()
        mark = BYTE_ORDER_MARK if old.startswith(BYTE_ORDER_MARK) else b""
        if old != mark + file.before.encode():
            raise InputError(file.path, "was changed in the meantime")
        if not os.access(target, os.W_OK):
            raise InputError(file.path, "is read-only")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(mark + file.after.encode())
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode))
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(file.path, error.strerror or str(error)) from error


__all__ = ["Fixer", "Refused", "Rewritten", "replace"]
