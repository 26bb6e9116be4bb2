"""The conditions of a reclaim, one gate each, in the order in which they are asked. The first gate that holds a job
back says what becomes of it; asked all at once, they explain it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoker.models.diagnosis import Idleness, IdlenessState
from stoker.models.finding import Finding, rfc3339
from stoker.models.policy import EffectivePolicy, EffectiveReclaim, JobTraits, format_duration
from stoker.models.vocabulary import Action, Category, Confidence, JobType, ReclaimMode, Source
from stoker.reclaim.candidate import CALM, Candidate, Circumstances, Obstruction
from stoker.reclaim.record import Record
from stoker.reclaim.transitions import Outcome

RECLAIMABLE = (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
"""Causes in which nobody waits for the GPUs' work; every other is only reported."""
SURE = frozenset({Confidence.CERTAIN, Confidence.LIKELY})
OWN_IDLE_AFTER = (timedelta(minutes=10), timedelta(hours=24))
"""The bounds of a job's own idleAfter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a decision is made from."""

    job: Candidate
    idleness: Idleness
    policy: EffectivePolicy
    record: Record
    now: datetime
    around: Circumstances = CALM

    @property
    def settings(self) -> EffectiveReclaim:
        """The policy's, as they hold for the job's class."""
        return self.policy.reclaim.of(self.job.traits)

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
        """Since when all its GPUs rest; None where they don't, or it is not known of these pods."""
        if self.idleness.state is not IdlenessState.IDLE or self.idleness.pod_uids != self.job.pod_uids:
            return None
        return self.idleness.since

    @property
    def warning_stands(self) -> bool:
        """Whether the recorded warning is about these pods, this stretch of idleness and nothing milder."""
        record, since = self.record, self.idle_since
        # Who was warned of a suspension, which can be undone, is warned anew before anything is deleted.
        milder = self.settings.mode is ReclaimMode.DELETE and record.action is not ReclaimMode.DELETE
        return (
            record.has_warning
            and record.warned_at is not None
            and (since is None or since <= record.warned_at)
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
        return max(record.deadline, record.warned_at + self.warning_grace)

    @property
    def warning_grace(self) -> timedelta:
        """The time between the warning and the deed."""
        return max(self.settings.warning_grace, self.around.minimum_warning_grace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a gate holds a job back, `until` when if that is known, and what would change it, as advice to the reader."""

    outcome: Outcome
    reason: str
    until: datetime | None = None
    change: str = ""
    observes: bool = False
    """Everything else would hold: the job is reported as one that would be reclaimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition of a reclaim: its name, what must be so, and the check, which is total and pure."""

    name: str
    demand: str
    check: Callable[[Case], Hold | None]


# ----------------------------------------------------------------------------------------------- may it be touched?


def _untouchable(case: Case) -> Hold | None:
    if case.job.untouchable is None:
        return None
    return Hold(outcome=Outcome.WORKS, reason=case.job.untouchable)


def _no_gpus(case: Case) -> Hold | None:
    return Hold(outcome=Outcome.EXEMPT, reason="it holds no GPUs") if case.job.gpus == 0 else None


def _service(case: Case) -> Hold | None:
    if trusted_type(case.job, case.policy) is JobType.SERVING:
        return Hold(outcome=Outcome.EXEMPT, reason="a service is never reclaimed")
    if case.job.serves:
        return Hold(outcome=Outcome.EXEMPT, reason="its program serves a model, and a service is never reclaimed")
    return None


def _exempt(case: Case) -> Hold | None:
    exemption = case.policy.exemption("*", case.job.labels, case.now)
    if exemption is None:
        return None
    change = "" if exemption.until is None else "the exemption ends then"
    reason = f"exempt by policy: {exemption.reason}"
    return Hold(outcome=Outcome.EXEMPT, reason=reason, until=exemption.until, change=change)


def _snoozed(case: Case) -> Hold | None:
    until = case.record.snoozed_until
    if until is None or case.now >= until:
        return None
    why = f" ({case.job.snooze_reason})" if case.job.snooze_reason else ""
    return Hold(
        outcome=Outcome.SNOOZED,
        reason=f"put off by its owner until {rfc3339(until)}{why}",
        until=until,
        change="remove the annotation stoker.dev/snooze-until",
    )


# --------------------------------------------------------------------------------------------- is it idle, and sure?


def _known(case: Case) -> Hold | None:
    idleness = case.idleness
    if idleness.state is not IdlenessState.UNKNOWN:
        return None
    reason = f"the metrics say nothing ({idleness.reason or 'no samples'}): see condition Idle"
    return Hold(outcome=Outcome.UNKNOWN, reason=reason, change=idleness.message)


def _ready(case: Case) -> Hold | None:
    if case.idleness.state is not IdlenessState.WAITING:
        return None
    return Hold(outcome=Outcome.WORKS, reason="not all its pods are ready: it waits", change=case.idleness.message)


def _idle(case: Case) -> Hold | None:
    if case.idleness.state is not IdlenessState.ACTIVE:
        return None
    reason = "its GPUs work, or have not been idle for long enough"
    return Hold(outcome=Outcome.WORKS, reason=reason, change=case.idleness.message)


def _same_pods(case: Case) -> Hold | None:
    if case.idleness.state is not IdlenessState.IDLE:
        return None
    if case.idleness.pod_uids == case.job.pod_uids and case.job.pod_uids:
        return None
    return Hold(outcome=Outcome.WORKS, reason="its pods have changed since the metrics were looked at")


def _started(case: Case) -> Hold | None:
    if case.idleness.state is not IdlenessState.IDLE:
        return None
    if case.job.last_start is not None and case.idleness.since is not None:
        return None
    return Hold(outcome=Outcome.UNKNOWN, reason="it is not known when its containers started")


def _long_enough(case: Case) -> Hold | None:
    since, start = case.idle_since, case.job.last_start
    if since is None or start is None:
        return None
    # The clock starts when the last container runs, with the start-up grace on top.
    until = max(since, start + case.settings.startup_grace) + case.idle_after
    if case.now >= until:
        return None
    early = f"reclaim looks at it after {format_duration(case.idle_after)}"
    return Hold(outcome=Outcome.RESTS, reason=f"idle since {rfc3339(since)}; {early}", until=until)


def _unattended(case: Case) -> Hold | None:
    presence = case.job.presence
    if presence.unknown is not None:
        return Hold(outcome=Outcome.UNKNOWN, reason=f"it is not known whether somebody works in it: {presence.unknown}")
    if presence.last_seen is None or case.now - presence.last_seen >= case.idle_after:
        return None
    until = presence.last_seen + case.idle_after
    reason = f"somebody works in it: {presence.how} at {rfc3339(presence.last_seen)}"
    return Hold(outcome=Outcome.WORKS, reason=reason, until=until)


def _not_resumed_lately(case: Case) -> Hold | None:
    resumed, cooldown = case.record.resumed_at, case.settings.cooldown_after_resume
    if resumed is None or case.now - resumed >= cooldown:
        return None
    until = resumed + cooldown
    reason = f"idle, but left alone until {rfc3339(until)} since it was resumed"
    return Hold(outcome=Outcome.RESTS, reason=reason, until=until)


def _not_stalled(case: Case) -> Hold | None:
    stalled = next((one for one in case.job.findings if one.category is Category.STALLED and one.is_open), None)
    if stalled is None:
        return None
    return Hold(outcome=Outcome.RESTS, reason="it hangs, which is reported, never reclaimed", change=stalled.fix)


def _caused(case: Case) -> Hold | None:
    if case.cause is not None:
        return None
    reason = "idle, and only reported: no finding says that nobody needs its GPUs"
    return Hold(outcome=Outcome.RESTS, reason=reason)


# ----------------------------------------------------------------------------------------- may something be done to it?


def _acting(case: Case) -> Hold | None:
    if case.settings.mode is not ReclaimMode.OBSERVE:
        return None
    found = case.policy.reclaim.class_of(case.job.traits)
    whose = f"the policy's class {found.name}" if found is not None and found.mode is not None else "the policy"
    return _observed(case, f"{whose} only observes", "set reclaim.mode of the policy to Suspend")


def _graceful(case: Case) -> Hold | None:
    least, own = case.settings.min_termination_grace, case.job.termination_grace
    if own is None or own >= least:
        return None
    reason = f"its pods get {format_duration(own)} to save a checkpoint, and the policy wants {format_duration(least)}"
    return _observed(case, reason, "raise spec.podTemplate.spec.terminationGracePeriodSeconds of the job")


def _nothing_lost(case: Case) -> Hold | None:
    cause = case.cause
    if cause is None or cause.category is not Category.INTERACTIVE_JOB:
        return None
    if case.job.has_persistent_volume or case.settings.interactive_without_volume:
        return None
    # What was typed in a session without a persistent volume would be lost.
    reason = "an interactive job without a persistent volume is only observed"
    return _observed(case, reason, "set reclaim.interactiveWithoutVolume of the policy, or give the job a volume")


def _observed(case: Case, reason: str, change: str) -> Hold:
    return Hold(outcome=Outcome.RESTS, reason=reason, change=change, observes=True)


# ---------------------------------------------------------------------------------------------- is it warned, and due?


def _brake_off(case: Case) -> Hold | None:
    # A look at metrics that may be wrong neither warns anybody nor acts; a warning that stands is not taken back.
    return _obstructed(case, case.around.brake, Outcome.HELD if case.warning_stands else Outcome.RESTS)


def _warned(case: Case) -> Hold | None:
    return None if case.warning_stands else Hold(outcome=Outcome.WARN, reason="it is warned first")


def _deadline_passed(case: Case) -> Hold | None:
    deadline = case.deadline
    if not case.warning_stands or deadline is None or case.now >= deadline:
        return None
    return Hold(
        outcome=Outcome.HELD,
        reason=f"idle; will be reclaimed at {rfc3339(deadline)} unless its GPUs work again",
        until=deadline,
        change="use its GPUs, stoker snooze, or let the job end",
    )


def _schedule_open(case: Case) -> Hold | None:
    job_type = trusted_type(case.job, case.policy)
    if case.settings.open_at(case.now, job_type):
        return None
    return Hold(outcome=Outcome.HELD, reason="idle and warned; the policy's schedule is closed now")


def _under_pressure(case: Case) -> Hold | None:
    return _obstructed(case, case.around.pressure, Outcome.HELD) if case.settings.on_pressure_only else None


def _within_bounds(case: Case) -> Hold | None:
    return _obstructed(case, case.around.bounds, Outcome.HELD)


def _obstructed(case: Case, by: Obstruction | None, outcome: Outcome) -> Hold | None:
    return None if by is None else Hold(outcome=outcome, reason=f"idle; {by.reason}", until=by.until)


GATES = (
    Gate(name="touchable", demand="nothing of it is being deleted, suspended or ended", check=_untouchable),
    Gate(name="gpus", demand="it holds GPUs", check=_no_gpus),
    Gate(name="no-service", demand="it serves nobody", check=_service),
    Gate(name="not-exempt", demand="no policy exempts it", check=_exempt),
    Gate(name="not-snoozed", demand="its owner has not put it off", check=_snoozed),
    Gate(name="metrics-known", demand="every GPU of every pod has current samples", check=_known),
    Gate(name="pods-ready", demand="all its pods are ready", check=_ready),
    Gate(name="all-idle", demand="every signal of every GPU stands at its idle level", check=_idle),
    Gate(name="same-pods", demand="the metrics are those of the pods it has", check=_same_pods),
    Gate(name="start-known", demand="it is known when its containers started", check=_started),
    Gate(name="idle-long-enough", demand="it rests for idleAfter, after its start-up grace", check=_long_enough),
    Gate(name="unattended", demand="nobody works in it", check=_unattended),
    Gate(name="cooled-down", demand="it was not resumed lately", check=_not_resumed_lately),
    Gate(name="not-stalled", demand="it does not hang", check=_not_stalled),
    Gate(name="cause", demand="UnreleasedJob or InteractiveJob is found, likely at least", check=_caused),
    Gate(name="mode", demand="the policy acts on jobs of its class", check=_acting),
    Gate(name="checkpoint-grace", demand="its pods have the time to save a checkpoint", check=_graceful),
    Gate(name="nothing-lost", demand="an interactive job has a persistent volume", check=_nothing_lost),
    Gate(name="brake-off", demand="not too much turned idle at once", check=_brake_off),
    Gate(name="warned", demand="its owner is warned", check=_warned),
    Gate(name="grace-over", demand="the warning's grace is over", check=_deadline_passed),
    Gate(name="schedule-open", demand="the policy's schedule is open", check=_schedule_open),
    Gate(name="pressure", demand="somebody waits for its GPUs, where the policy wants that", check=_under_pressure),
    Gate(name="bounds", demand="not too much was reclaimed lately", check=_within_bounds),
)
"""In this order; a job that passes all is reclaimed, after a second look."""


def holds(case: Case) -> Iterator[tuple[Gate, Hold | None]]:
    """Every gate with what it says."""
    return ((gate, gate.check(case)) for gate in GATES)


def first_hold(case: Case) -> tuple[Gate, Hold] | None:
    """The first gate that holds the job back; None for one that is due."""
    return next(_held(holds(case)), None)


def _held(answers: Iterable[tuple[Gate, Hold | None]]) -> Iterator[tuple[Gate, Hold]]:
    return ((gate, hold) for gate, hold in answers if hold is not None)


# ------------------------------------------------------------------------------------------------------------ questions


def idle_after(own: timedelta | None, traits: JobTraits, policy: EffectivePolicy) -> timedelta:
    """How long a job must be idle: its own wish within 10m..24h, else its class's or the policy's."""
    if own is None:
        return policy.reclaim.of(traits).idle_after
    return min(max(own, OWN_IDLE_AFTER[0]), OWN_IDLE_AFTER[1])


def trusted_type(job: Candidate, policy: EffectivePolicy) -> JobType:
    """What the job says it is, where its word is taken."""
    own_word = job.job_type in {JobType.SERVING, JobType.INTERACTIVE}
    return JobType.TRAINING if own_word and not policy.trusted_job_types else job.job_type


def reclaimable_cause(job: Candidate, policy: EffectivePolicy, now: datetime) -> Finding | None:
    """The open finding that makes the job reclaimable. The metrics must show it: that the manifest promises an end
    without release says nothing of a job that still works on its CPUs. A rule that the policy turns off, or exempts
    the job from, is no reason.
    """
    return next(
        (
            finding
            for category in RECLAIMABLE
            for finding in job.findings
            if finding.category is category
            and finding.is_open
            and finding.confidence in SURE
            and Source.METRICS in finding.sources
            and policy.action(finding.rule, Action.WARN) is not Action.OFF
            and policy.exemption(finding.rule, job.labels, now) is None
        ),
        None,
    )
