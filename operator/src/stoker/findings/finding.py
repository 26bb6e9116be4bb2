"""What a rule reports, and what users read of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoker.findings.vocabulary import Category, Confidence, Severity, Source

MAX_ADVICE = 4
"""Pieces of advice in a status: the first ones matter, and a status must stay short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where the cause stands in what was submitted.

    `field_path` is a Kubernetes field path (`spec.script`, `spec.command[2]`). `line` and `column` are 1-based
    positions inside that field's text and absent where the field is not a text; `end_column` is exclusive, on the same
    line. `excerpt` is the offending line with a second line of carets beneath it.
    """

    field_path: str
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    excerpt: str | None = None

    def __str__(self) -> str:
        return self.field_path if self.line is None else f"{self.field_path}:{self.line}"

    def to_status(self) -> dict[str, Any]:
        """The field, and the line where there is one: the `location` of a status."""
        entry: dict[str, Any] = {"fieldPath": single_line(self.field_path)}
        return entry if self.line is None else {**entry, "line": self.line}

    @classmethod
    def from_status(cls, entry: Mapping[str, Any]) -> "Location":
        """Read a `location` back. Raises KeyError for one without a field."""
        return cls(field_path=entry["fieldPath"], line=entry.get("line"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit:
    """Replaces the characters start..end (0-based, end exclusive) of a field's text; `start == end` inserts.

    `source` is the text that the offsets count in: a field that holds another one is left alone.
    """

    field_path: str
    start: int
    end: int
    text: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEdit:
    """Sets a field, making the fields above it where they are missing; a value of None removes it.

    A path that ends in `[]` appends to a list: `spec.volumes[]`.
    """

    field_path: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A computed fix: edits that belong together.

    safe: it changes neither what the job computes nor what it asks for; everything else is the author's decision
    (batch size, process counts, resources).
    """

    edits: tuple[TextEdit | FieldEdit, ...]
    safe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recoverable:
    """What the change may return, in GPU-hours: an estimate, never to be confused with the idle GPU-hours, which are a
    fact. `basis` says where the range comes from (ICSE 2024, section 4.5, shows how far the two lie apart).
    """

    min: float
    max: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedCause:
    """A cause that was weighed for a finding: its share among all that were, 0..1, and its measure as a clause."""

    category: Category
    share: float
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault as a rule's check reports it; the rule adds its own name, category and documentation.

    Texts are single lines. `fix`, `severity` and `category` are the rule's own when absent (a rule of undecided causes
    names the best candidate); `change` is the fix as edits, where they can be computed.
    """

    detail: str
    evidence: str = ""
    fix: str | None = None
    severity: Severity | None = None
    category: Category | None = None
    confidence: Confidence = Confidence.CERTAIN
    location: Location | None = None
    sources: tuple[Source, ...] = (Source.MANIFEST,)
    since: datetime | None = None
    until: datetime | None = None
    gpu_hours_idle: float | None = None
    recoverable: Recoverable | None = None
    alternatives: tuple[Category, ...] = ()
    weighed: tuple[WeighedCause, ...] = ()
    change: Change | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A named root cause, with its evidence and the change that removes it.

    `gpu_hours_idle` is a fact (the integral of 1 - utilization over the cause's interval), not a promise of what the
    fix returns. `until` is set when a finding no longer holds: it is closed, not deleted. `absent_since` is set while
    it stays open though the last examinations have not shown it.
    """

    rule: str
    category: Category
    severity: Severity
    confidence: Confidence
    detail: str
    evidence: str
    fix: str
    docs: str
    sources: tuple[Source, ...]
    location: Location | None = None
    since: datetime | None = None
    until: datetime | None = None
    absent_since: datetime | None = None
    gpu_hours_idle: float | None = None
    recoverable: Recoverable | None = None
    alternatives: tuple[Category, ...] = ()
    weighed: tuple[WeighedCause, ...] = ()
    """Every cause that was weighed, the most likely first; what lacks to a sum of 1 is for reasons that are not known.
    They are no part of the status.
    """
    change: Change | None = None

    @property
    def is_open(self) -> bool:
        """Whether the finding still holds."""
        return self.until is None

    def to_status(self) -> dict[str, Any]:
        """The entry of `status.findings`: single-line strings, quantities as strings, absent values omitted."""
        entry: dict[str, Any] = {
            "category": self.category.value,
            "rule": self.rule,
            "severity": self.severity.value,
            "confidence": self.confidence.value,
            "detail": single_line(self.detail),
            "evidence": single_line(self.evidence),
            "fix": single_line(self.fix),
            "docs": self.docs,
            "sources": [source.value for source in self.sources],
        }
        if self.location is not None:
            entry["location"] = self.location.to_status()
        if self.gpu_hours_idle is not None:
            entry["gpuHoursIdle"] = f"{self.gpu_hours_idle:.1f}"
        if self.since is not None:
            entry["since"] = rfc3339(self.since)
        if self.until is not None:
            entry["until"] = rfc3339(self.until)
        if self.absent_since is not None and self.is_open:
            entry["absentSince"] = rfc3339(self.absent_since)
        if self.alternatives:
            entry["alternatives"] = [category.value for category in self.alternatives]
        return {key: value for key, value in entry.items() if value != ""}

    @classmethod
    def from_status(cls, entry: dict[str, Any]) -> "Finding":
        """Read an entry of `status.findings` back.

        Raises ValueError or KeyError for an entry that this version could not have written.
        """
        hours = entry.get("gpuHoursIdle")
        return cls(
            rule=entry["rule"],
            category=Category(entry["category"]),
            severity=Severity(entry["severity"]),
            confidence=Confidence(entry["confidence"]),
            detail=entry["detail"],
            evidence=entry.get("evidence", ""),
            fix=entry.get("fix", ""),
            docs=entry.get("docs", ""),
            sources=tuple(Source(source) for source in entry.get("sources", ())),
            location=Location.from_status(entry["location"]) if "location" in entry else None,
            since=parse_time(entry.get("since")),
            until=parse_time(entry.get("until")),
            absent_since=parse_time(entry.get("absentSince")),
            gpu_hours_idle=None if hours is None else float(hours),
            alternatives=tuple(Category(category) for category in entry.get("alternatives", ())),
        )


def single_line(text: str) -> str:
    """One line of printable characters, white space collapsed: a line break hides a warning in kubectl and breaks
    `describe`, and a terminal obeys control characters.
    """
    return " ".join(printable(text).split())


def printable(text: str) -> str:
    """The text with a space in the place of each character that is not printable, line breaks excepted: control
    characters, marks of writing direction, halves of surrogate pairs.
    """
    if text.isprintable():
        return text
    return "".join(one if one == "\n" or one.isprintable() else " " for one in text)


def rfc3339(time: datetime) -> str:
    """A time as Kubernetes writes it: RFC 3339 in UTC, whole seconds. Whatever Stoker writes of a time is in this form,
    but for the titles of reports and the axes of their pictures.
    """
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def optional_time(time: datetime | None) -> str | None:
    """A time as `rfc3339` writes it; None where there is none."""
    return None if time is None else rfc3339(time)


def parse_time(text: str | None) -> datetime | None:
    """Read an RFC 3339 time; None stays None. Raises ValueError for anything else."""
    return None if text is None else datetime.fromisoformat(text)
