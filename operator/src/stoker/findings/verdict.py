"""The answer to a submission."""

from dataclasses import dataclass, field

from stoker.findings.finding import Change, Finding, Location
from stoker.findings.vocabulary import ReviewOutcome
from stoker.shell.model import Shortfall


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """A finding that the job's author has set aside, and why."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressionFault:
    """A suppression without effect: where it stands, what is wrong with it, and what to do.

    `finding` is the one that it was to set aside, where it would have but for the fault. `change` takes away what
    suppresses nothing.
    """

    location: Location
    detail: str
    fix: str
    finding: Finding | None = field(default=None, hash=False)  # a change in it may hold lists
    change: Change | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What `review` concludes.

    `denied`, `warned`, `audited` and `suppressed` partition the findings by what becomes of them, each ordered by
    cost, the most costly first. `suppression_faults` are the suppressions without effect. `unfinished` names the rules
    and parts that were not judged to their end, and `shortfall` says why, where that was no fault of Stoker's.
    `failures` holds the tracebacks of what failed, by rule, for the caller's log: an internal error never denies.
    """

    denied: tuple[Finding, ...] = ()
    warned: tuple[Finding, ...] = ()
    audited: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    suppression_faults: tuple[SuppressionFault, ...] = ()
    unfinished: tuple[str, ...] = ()
    shortfall: Shortfall | None = None
    failures: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def outcome(self) -> ReviewOutcome:
        """Deny if anything is denied, warn if anything is warned of, else allow."""
        if self.denied:
            return ReviewOutcome.DENY
        return ReviewOutcome.WARN if self.warned else ReviewOutcome.ALLOW

    @property
    def not_analysed(self) -> Shortfall | None:
        """Why the job was not analysed to its end; None where it was."""
        return self.shortfall or (Shortfall.FAULT if self.failures else None)

    @property
    def complete(self) -> bool:
        """Whether every rule judged everything."""
        return not self.unfinished and self.not_analysed is None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings but the suppressed, denied ones first."""
        return self.denied + self.warned + self.audited
