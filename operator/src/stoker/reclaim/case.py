"""All that a plan is made from, and the questions about it that several gates ask."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Action, Category, Confidence, JobType, ReclaimMode, Source
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim, JobTraits
from stoker.reclaim.candidate import UNCONSTRAINED, Candidate, Constraints, Execution
from stoker.reclaim.hold import GateHold
from stoker.reclaim.record import Record
from stoker.reclaim.transitions import Trigger

RECLAIMABLE = (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
"""Categories for which idle GPUs are reclaimed, as nobody waits for their work. All others are only reported."""
SURE = frozenset({Confidence.CERTAIN, Confidence.LIKELY})
OWN_IDLE_AFTER = (timedelta(minutes=10), timedelta(hours=24))
"""Shortest and longest idleAfter that a job may ask for. Chosen because a pause below ten minutes is ordinary work."""
CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far the stamps of others (Prometheus, kubelets, the API server) may lie beside our clock: nothing that bears a
stamp this close to the warning came certainly before it.
"""
CLOCKS_APART = timedelta(seconds=150)
"""How far the clock of a process that recorded a warning may be from this one's: both act only where Prometheus' is
within a minute of theirs (adapters.prometheus, MAX_SKEW), and the record may have taken a request's time to be written
(adapters.kubernetes, REQUEST_TIMEOUT, 30 s).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a plan is made from. `now` is the moment at which its parts were read."""

    job: Candidate
    idleness: Idleness
    policy: EffectivePolicy
    record: Record
    now: datetime
    constraints: Constraints = UNCONSTRAINED
    execution: Execution = field(default_factory=Execution)

    @property
    def settings(self) -> EffectiveReclaim:
        """The policy's, as they hold for the job's class."""
        return self.policy.reclaim_of(self.job.traits)

    @property
    def job_type(self) -> JobType:
        """Its spec.jobType where the policy trusts that, else Training."""
        return self.policy.trusted(self.job.job_type)

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it: by its type, or by the finding InteractiveJob."""
        found = any(one.category is Category.INTERACTIVE_JOB and one.is_open for one in self.job.findings)
        return found or self.job_type is JobType.INTERACTIVE

    @property
    def idle_after(self) -> timedelta:
        """How long the job must be idle."""
        return idle_after(self.job.idle_after, self.job.traits, self.policy)

    @property
    def cause(self) -> Finding | None:
        """The finding that makes it reclaimable."""
        return reclaimable_cause(self.job, self.policy, self.now)

    @property
    def idle_since(self) -> datetime | None:
        """Since when all its GPUs are idle, as far as metrics can be trusted; None where they aren't, or where that is
        not known of these containers.
        """
        scanned, start = self.idleness, self.job.last_start
        if scanned.state is not IdlenessState.IDLE or scanned.pod_uids != self.job.pod_uids:
            return None
        if scanned.since is None or start is None:
            return None
        return max(scanned.since, start, self.constraints.doubted_until or start)

    @property
    def warning_stands(self) -> bool:
        """Whether the recorded warning is about these pods, this stretch of idleness, in which nobody came by, and
        about nothing milder.
        """
        record, seen = self.record, self.job.presence.last_seen
        # Who was warned of a suspension, which can be undone, is warned anew before anything is deleted.
        milder = self.settings.mode is ReclaimMode.DELETE and record.action is not ReclaimMode.DELETE
        return (
            record.has_warning
            and record.warned_at is not None
            and all(
                sign is None or later(sign, CLOCK_TOLERANCE) <= record.warned_at for sign in (self.idle_since, seen)
            )
            and record.job_uid == self.job.job_uid
            and record.pod_uids == self.job.pod_uids
            and not milder
        )

    @property
    def deadline(self) -> datetime | None:
        """When a warned job may be reclaimed at the earliest. A policy that grants more time than when the warning was
        written counts; one that grants less does not.
        """
        record = self.record
        if record.warned_at is None or record.deadline is None:
            return None
        return max(record.deadline, later(record.warned_at, self.warning_grace))

    @property
    def warning_grace(self) -> timedelta:
        """The time between the warning and the action."""
        return max(self.settings.warning_grace, self.constraints.minimum_warning_grace)

    @property
    def warning_age(self) -> timedelta:
        """How long the warning has stood for certain: by the monotonic clock where this process has recorded it; else
        by the times in its record, less what the clocks of two processes may be apart.
        """
        record = self.record
        if self.execution.warning_age is not None:
            return self.execution.warning_age
        if record.warned_at is None or record.deadline is None:
            return timedelta(0)
        # With short graces, as in tests, clocks are taken to be less apart.
        apart = min(CLOCKS_APART, (record.deadline - record.warned_at) / 2)
        return self.now - record.warned_at - apart


def idle_after(own: timedelta | None, traits: JobTraits, policy: EffectivePolicy) -> timedelta:
    """How long a job must be idle: its own wish within 10m..24h, else its class's or the policy's."""
    if own is None:
        return policy.reclaim_of(traits).idle_after
    return min(max(own, OWN_IDLE_AFTER[0]), OWN_IDLE_AFTER[1])


def reclaimable_cause(job: Candidate, policy: EffectivePolicy, now: datetime) -> Finding | None:
    """The open finding that makes the job reclaimable."""
    return next((one for one in suspects(job) if doubt(one, job, policy, now) is None), None)


def suspects(job: Candidate) -> Iterator[Finding]:
    """The open findings of causes in which nobody waits for the GPUs' work, in the order of the causes."""
    return (one for cause in RECLAIMABLE for one in job.findings if one.category is cause and one.is_open)


def doubt(finding: Finding, job: Candidate, policy: EffectivePolicy, now: datetime) -> GateHold | None:
    """Why a finding is no reason to take the GPUs. The metrics must show it: that the manifest promises an end without
    release does not mean that a job no longer works on its CPUs.
    """
    if policy.action(finding.rule, Action.WARN) is Action.OFF:
        return GateHold(trigger=Trigger.IDLE, reason=f"the policy turns {finding.rule} off")
    exemption = policy.exemption(finding.rule, job.labels, now)
    if exemption is not None:
        reason = f"exempt by policy from {finding.rule}: {exemption.reason}"
        return GateHold(trigger=Trigger.IDLE, reason=reason, until=exemption.until)
    if finding.confidence not in SURE:
        return GateHold(trigger=Trigger.IDLE, reason=f"the finding {finding.category} is only possible")
    if Source.METRICS not in finding.sources:
        return GateHold(
            trigger=Trigger.IDLE, reason=f"the finding {finding.category} rests on the manifest alone, not on metrics"
        )
    return None


def later(time: datetime, by: timedelta) -> datetime:
    """The time that comes `by` later; the last one there is where the calendar ends."""
    try:
        return time + by
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
