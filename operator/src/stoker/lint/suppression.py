"""Findings that a job's author sets aside, with a reason, where the policy lets them.

By a comment in the script, at the end of the offending line or alone above its command,

    # stoker: ignore[trailing-sleep] the debugger attaches within the hour

or by an annotation of the object, for all that a rule finds in it:

    ignore.stoker.dev/image-unpinned: the registry's tags are immutable
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain, islice

from stoker.findings.finding import Change, FieldEdit, Finding, Location, TextEdit
from stoker.findings.verdict import SuppressionFault
from stoker.lint.submission import Submission
from stoker.shell.model import Comment
from stoker.shell.script import comments

ANNOTATION = "ignore.stoker.dev/"
"""Prefix of the annotations; the rule's name follows."""

MARK = re.compile(r"#[ \t]*stoker:[ \t]*ignore\b")
COMMENT = re.compile(r"#[ \t]*stoker:[ \t]*ignore[ \t]*(?:\[(?P<rules>[^\]]*)\])?[ \t:.;,-]*(?P<reason>.*)")

MAX_SUPPRESSIONS = 1_000
"""So many of one object are read."""

MAX_FAULTS = 20
"""So many suppressions without effect are told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """One rule set aside, and why.

    `first` and `last` are the script's lines that it covers; 0 for the whole object. `removal` takes it away, where it
    is of this rule alone.
    """

    rule: str
    reason: str
    location: Location
    first: int = 0
    last: int = 0
    removal: Change | None = None

    @property
    def written(self) -> str:
        """How it is spelt, for a message."""
        return f"# stoker: ignore[{self.rule}]" if self.first else f"{ANNOTATION}{self.rule}"


class Suppressions:
    """What the author of one submission sets aside. Ask `reason` for each finding, and `faults` afterwards."""

    def __init__(self, submission: Submission) -> None:
        self._script_field = submission.script_field
        self._analysed = submission.script is None or submission.script.complete
        self._given = list(islice(chain(_annotated(submission.annotations), _commented(submission)), MAX_SUPPRESSIONS))
        self._used: set[int] = set()
        self._refused: dict[int, Finding] = {}
        self._by_rule: dict[str, list[tuple[int, Suppression]]] = {}
        for index, one in enumerate(self._given):
            self._by_rule.setdefault(one.rule, []).append((index, one))

    def reason(self, finding: Finding, *, allowed: bool) -> str | None:
        """Why a finding is set aside; None where it is not, as without a reason or where the policy forbids it."""
        reason: str | None = None
        for index, one in self._by_rule.get(finding.rule, ()):
            if self._covers(one, finding):
                if allowed and one.reason:
                    self._used.add(index)
                    reason = reason or one.reason
                else:
                    self._refused.setdefault(index, finding)
        return reason

    def faults(self, known: Collection[str], judged: Collection[str]) -> tuple[SuppressionFault, ...]:
        """The suppressions without effect, at most MAX_FAULTS.

        known: the names of all rules. judged: of those that ran to their end, so that silence means that there was
        nothing to suppress.
        """
        faults: list[SuppressionFault] = []
        for index, one in enumerate(self._given):
            if len(faults) == MAX_FAULTS:
                break
            fault = self._fault(index, one, known, judged)
            if fault is not None:
                faults.append(fault)
        return tuple(faults)

    def _fault(
        self, index: int, one: Suppression, known: Collection[str], judged: Collection[str]
    ) -> SuppressionFault | None:
        """What is wrong with a suppression."""
        fault = partial(SuppressionFault, location=one.location, finding=self._refused.get(index))
        if not one.rule:
            fix = "Name the rules: # stoker: ignore[RULE] and the reason."
            return fault(detail=f'"{one.written}" does not name a rule.', fix=fix)
        if one.rule not in known:
            near = get_close_matches(one.rule[:64], known, n=1)
            fix = f"Did you mean {near[0]}?" if near else "See stoker rules list."
            return fault(detail=f'"{one.written}" does not name an admission rule.', fix=fix)
        if not one.reason:
            fix = "Add the reason after it."
            return fault(detail=f'"{one.written}" has no effect, because it gives no reason.', fix=fix)
        if index in self._refused:
            detail = f'"{one.written}" has no effect: the policy does not allow to suppress this rule.'
            return fault(detail=detail, fix="Remove it, and correct the fault.")
        if index not in self._used and one.rule in judged and (self._analysed or not one.first):
            return fault(detail=f'"{one.written}" suppresses nothing.', fix="Remove it.", change=one.removal)
        return None

    def _covers(self, one: Suppression, finding: Finding) -> bool:
        if not one.first:
            return True
        place = finding.location
        return (
            place is not None
            and place.field_path == self._script_field
            and place.line is not None
            and one.first <= place.line <= one.last
        )


def _annotated(annotations: Mapping[str, str]) -> Iterator[Suppression]:
    parent = "metadata.annotations"
    for key, reason in annotations.items():
        if key.startswith(ANNOTATION):
            path, others = f"{parent}[{key}]", len(annotations) > 1
            yield Suppression(
                rule=key.removeprefix(ANNOTATION),
                reason=_reason(reason),
                location=Location(field_path=path),
                removal=Change(edits=(FieldEdit(field_path=path if others else parent, value=None),), safe=True),
            )


def _commented(submission: Submission) -> Iterator[Suppression]:
    if submission.script is None or not submission.script_field:
        return
    for comment in comments(submission.script.source, MARK):
        match = COMMENT.match(comment.text)
        assert match is not None
        location = _location(comment, submission.script_field)
        rules = [name for name in (text.strip() for text in (match["rules"] or "").split(",")) if name]
        for rule in rules or [""]:
            yield Suppression(
                rule=rule,
                reason=_reason(match["reason"]),
                location=location,
                first=comment.first,
                last=comment.last,
                removal=_removal(comment, submission) if len(rules) == 1 else None,
            )


def _removal(comment: Comment, submission: Submission) -> Change:
    """Takes a comment away, with its line where it stands alone."""
    assert submission.script is not None
    edit = TextEdit(
        field_path=submission.script_field,
        source=submission.script.source,
        start=comment.start,
        end=comment.end,
        text="",
    )
    return Change(edits=(edit,), safe=True)


def _location(comment: Comment, field_path: str) -> Location:
    return Location(field_path=field_path, line=comment.line, column=comment.column, end_column=comment.end_column)


def _reason(text: str) -> str:
    """The reason in one line; empty where there is no word in it."""
    return " ".join(text.split()) if re.search(r"\w", text) else ""


__all__ = ["ANNOTATION", "MARK", "Suppressions"]
