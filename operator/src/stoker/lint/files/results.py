"""What `stoker lint` found: the values that every output format prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stoker.findings.finding import Change
from stoker.findings.vocabulary import Action, Category, Confidence, ReviewOutcome, Severity, Source
from stoker.lint.files.manifests import InputError, Manifest, Region
from stoker.lint.messages import not_analysed
from stoker.shell.model import Shortfall

SCHEMA_RULE = "schema"
"""The rule that violations of the API's schema are reported under; no check has this name."""

SUPPRESSION_RULE = "suppression"
"""The rule that suppressions without effect are reported under; no check has this name."""


MAX_PARTS = 3
"""Of what failed so many are named; the log has the others."""


class Level(StrEnum):
    """How loud an entry is: an error refuses the job, a note is only recorded, and never fails the command."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finding with its place in the file.

    `action` is what the policy does with it (Deny, Warn, Audit). `region` is the word's where the field's text can be
    followed in the file (`in_text`), else the field's; `script_line` counts within that text. `excerpt` is the
    finding's own: the line and carets beneath it. `category` is None for what is no cause of low utilization (schema,
    suppression). `reason` is the author's, of a suppressed finding.
    """

    rule: str
    category: Category | None = None
    severity: Severity
    confidence: Confidence = Confidence.CERTAIN
    action: Action
    detail: str
    evidence: str = ""
    fix: str = ""
    docs: str = ""
    sources: Sequence[Source] = (Source.MANIFEST,)
    field_path: str
    region: Region
    in_text: bool = False
    script_line: int | None = None
    excerpt: str | None = None
    change: Change | None = None
    reason: str | None = None

    @property
    def level(self) -> Level:
        """How loud it is."""
        if self.action is Action.DENY:
            return Level.ERROR
        if self.action is not Action.WARN:
            return Level.NOTE
        return Level.ADVICE if self.severity is Severity.ADVICE else Level.WARNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is said about one manifest that was judged.

    `unfinished`: rules that could not judge to their end, and `shortfall` why; `on_unfinished` is what the policy does
    about that. `in_cluster`: the cluster's verdict, where it is another because ConfigMaps of the input, which the
    cluster does not read, decide.
    """

    manifest: Manifest
    namespace: str = ""
    name: str = ""
    entries: Sequence[Entry] = ()
    suppressed: Sequence[Entry] = ()
    unfinished: Sequence[str] = ()
    shortfall: Shortfall | None = None
    on_unfinished: Action = Action.WARN
    in_cluster: ReviewOutcome | None = None

    @property
    def not_analysed(self) -> str | None:
        """Why it was not judged to its end, in a sentence or two with what to do; None where it was."""
        if not self.unfinished:
            return None
        shortfall = self.shortfall or Shortfall.FAULT
        parts = f" ({', '.join(self.unfinished[:MAX_PARTS])})" if shortfall is Shortfall.FAULT else ""
        return f"not analysed completely: {not_analysed(shortfall)}{parts}."

    @property
    def outcome(self) -> ReviewOutcome:
        """The verdict on all that is in sight, the schema included; what could not be judged is no clean bill."""
        taken = {entry.action for entry in self.entries if entry.rule != SUPPRESSION_RULE}
        if self.unfinished:
            taken.add(self.on_unfinished)
        if Action.DENY in taken:
            return ReviewOutcome.DENY
        return ReviewOutcome.WARN if Action.WARN in taken else ReviewOutcome.ALLOW

    def fails_on(self, level: str) -> bool:
        """Whether there is something of the level `deny`, `warn` or `advice`, or worse."""
        loud = {entry.level for entry in self.entries}
        if self.unfinished and self.on_unfinished in {Action.DENY, Action.WARN}:
            loud.add(Level.ERROR if self.on_unfinished is Action.DENY else Level.WARNING)
        order = {"deny": (Level.ERROR,), "warn": (Level.ERROR, Level.WARNING)}
        return bool(loud & set(order.get(level, (Level.ERROR, Level.WARNING, Level.ADVICE))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A document, or a whole file, that is nothing to judge, and why. `document` is None of a file."""

    path: str
    line: int
    document: int | None = None
    kind: str = ""
    name: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that one run of the command has to say, in the order of its input."""

    reports: Sequence[Report] = ()
    skipped: Sequence[Skipped] = ()
    errors: Sequence[InputError] = ()


__all__ = ["SCHEMA_RULE", "SUPPRESSION_RULE", "Entry", "Level", "Report", "Results", "Skipped"]
