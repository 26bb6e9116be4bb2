"""The conditions of a reclaim, one gate each, in the order in which they are checked.

The first gate that holds a job back decides what is done (`planning.plan`); all of them together explain the job
(`explanation.explain`, which `stoker explain` prints). All that is said of a gate stands on the gate: its name, its
demand, what it reads, and what `stoker replay` assumes of it. The tables of docs/reclaim.md and docs/replay.md are
generated from here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Flag, StrEnum, auto

from stoker.api.duration import format_duration
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import Action, Category, Confidence, JobType, ReclaimMode, ReclaimState, Source
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim, JobTraits
from stoker.reclaim.candidate import UNCONSTRAINED, Candidate, Constraints, Execution, Obstruction
from stoker.reclaim.record import Record
from stoker.reclaim.resumption import resumed
from stoker.reclaim.steps import Step
from stoker.reclaim.transitions import Trigger

RECLAIMABLE = (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
"""Categories for which idle GPUs are reclaimed, as nobody waits for their work. All others are only reported."""
SURE = frozenset({Confidence.CERTAIN, Confidence.LIKELY})
OWN_IDLE_AFTER = (timedelta(minutes=10), timedelta(hours=24))
"""Shortest and longest idleAfter that a job may ask for. Chosen because a pause below ten minutes is ordinary work."""
SCAN_HOLDS = timedelta(minutes=5)
"""How long a scan's result describes the present. Chosen because ten scans (30 s apart) may fail within it."""
CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far the stamps of others (Prometheus, kubelets, the API server) may lie beside our clock: nothing that bears a
stamp this close to the warning came certainly before it.
"""
EXAMINED_WITHIN = timedelta(minutes=5)
"""How old the examination may be on which a reclaim is based. After a restart the status says what was found before,
and nobody has examined the job since; and only examinations see what its CPUs do. Chosen because an idle job is
examined every five minutes.
"""
CLOCKS_APART = timedelta(seconds=150)
"""How far the clock of a process that recorded a warning may be from this one's: both act only where Prometheus' is
within a minute of theirs (adapters.prometheus, MAX_SKEW), and the record may have taken a request's time to be written
(adapters.kubernetes, REQUEST_TIMEOUT, 30 s).
"""
CHECK_HOLDS = timedelta(seconds=20)
"""How old the fresh check may be when the Job is suspended or deleted. Chosen because behind an API server that takes
longer the owner may be back by then.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GateHold:
    """Why a gate holds a job back, `until` when if that is known, and what would change it, as advice to the reader."""

    trigger: Trigger
    reason: str
    until: datetime | None = None
    reason_names_until: bool = False
    """The reason says until when, so that text need not say it again."""
    change: str = ""
    observes: bool = False
    """Everything else would hold: the job is reported as one that would be reclaimed."""
    step: Step = Step.RECORD
    """What the controller does next."""
    is_told: bool = False
    """The record says the reason, though everything else in it is kept (Trigger.KEPT)."""


class Reads(Flag):
    """What a gate reads beyond the job's objects, their status and its metrics."""

    JOB = 0
    POLICY = auto()
    """A policy's settings, beside those by which the job is found reclaimable."""
    CLUSTER = auto()
    """What only the controller may read or look for in the cluster; what the job's objects show counts as well."""
    PROCESS = auto()
    """What the process knows that carries the reclaim out, and nobody else."""


class GateGroup(StrEnum):
    """The questions that the gates answer, in their order. The first four ask what is so (FACTS), the others what is to
    follow from it.
    """

    TOUCH = "Is it eligible?"
    IDLE = "Are all its GPUs idle?"
    LENGTH = "Idle for long enough, and not in use?"
    NEED = "Is there a cause to reclaim them?"
    CONSENT = "Does the policy allow it?"
    WARNING = "Is its owner warned?"
    DUE = "Is it due?"
    ACTION = "Is it confirmed right before the action?"


Check = Callable[[Case], GateHold | None]
FACTS = frozenset({GateGroup.TOUCH, GateGroup.IDLE, GateGroup.LENGTH, GateGroup.NEED})


def _always(_: Case) -> bool:
    return True


def _is_idle(case: Case) -> bool:
    return case.idleness.state is IdlenessState.IDLE


def _is_known(case: Case) -> bool:
    return case.idleness.state is not IdlenessState.UNKNOWN


def _runs(case: Case) -> bool:
    return case.idleness.state in {IdlenessState.IDLE, IdlenessState.ACTIVE}


def _is_idle_since(case: Case) -> bool:
    return case.idle_since is not None


def _is_warned(case: Case) -> bool:
    return case.warning_stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One condition of a reclaim: its name, the group that it belongs to, what must be so, and the check.

    `demand` is printed behind a box that is ticked or not, with the reason behind it where it is not: a phrase that
    reads right either way ("owner warned"), never a sentence that the box would deny.

    A check is total and pure, and holds back whatever it can't judge. `asked` says of which jobs the question makes
    sense; of others an earlier gate holds, so that it is of interest only to who explains them all. `reads` says who
    can answer it, `replay` what `stoker replay` assumes where that was not recorded (empty: what was recorded decides),
    `held_back` why GPUs that were idle were left alone by it, `ended` how it ended a warning, each as a replay says it.
    """

    name: str
    group: GateGroup
    demand: str
    check: Check
    asked: Callable[[Case], bool] = _always
    reads: Reads = Reads.JOB
    replay: str
    held_back: str = ""
    ended: str = ""


_GATES: list[Gate] = []
RECORDED = ""
"""What a replay assumes of a gate whose answer was recorded: nothing."""


def _gate(
    name: str,
    group: GateGroup,
    demand: str,
    *,
    replay: str,
    asked: Callable[[Case], bool] = _always,
    reads: Reads = Reads.JOB,
    held_back: str = "",
    ended: str = "",
) -> Callable[[Check], Gate]:
    """Makes a check the next gate, under whose name others refer to it. `replay` has no default: whoever adds a gate
    says what `stoker replay` assumes where the past does not tell.
    """

    def add(check: Check) -> Gate:
        gate = Gate(
            name=name,
            group=group,
            demand=demand,
            check=check,
            asked=asked,
            reads=reads,
            replay=replay,
            held_back=held_back,
            ended=ended,
        )
        _GATES.append(gate)
        return gate

    return add


# ----------------------------------------------------------------------------------------------- may it be touched?


@_gate(
    "response-recorded",
    GateGroup.TOUCH,
    "owner's latest response recorded",
    replay="No owner responds before a job works again; who was suspended then is resumed at that moment.",
)
def _response_recorded(case: Case) -> GateHold | None:
    response = resumed(case.record, annotation=case.job.resume, unsuspended=case.job.unsuspended, now=case.now)
    if response.record == case.record:
        return None
    reason = "its owner has responded since (annotation stoker.dev/resume or spec.suspend): that is recorded first"
    return GateHold(trigger=Trigger.KEPT, reason=reason, step=Step.RETRY)


@_gate(
    "intent-settled",
    GateGroup.TOUCH,
    "outcome of an earlier attempt known",
    replay="Every reclaim succeeds at once.",
)
def _intent_settled(case: Case) -> GateHold | None:
    # The action may be done, and its answer lost.
    if case.job.unsuspendable is None or case.record.state is not ReclaimState.RECLAIMING:
        return None
    reason = f"it is unknown whether it is suspended: {case.job.unsuspendable}"
    return GateHold(trigger=Trigger.KEPT, reason=reason, is_told=True)


@_gate(
    "touchable",
    GateGroup.TOUCH,
    "running",
    replay="A job is running while its pods hold GPUs.",
    ended="ended before the deadline",
)
def _touchable(case: Case) -> GateHold | None:
    if case.job.untouchable is None:
        return None
    return GateHold(trigger=Trigger.ACTIVE, reason=case.job.untouchable)


@_gate(
    "sampled",
    GateGroup.TOUCH,
    "GPUs sampled since the controller started",
    reads=Reads.PROCESS,
    replay="The controller runs all the time.",
)
def _sampled(case: Case) -> GateHold | None:
    if case.execution.is_sampled:
        return None
    # After a restart this holds for every job for a while: a reason in the status would be two writes to each.
    return GateHold(trigger=Trigger.KEPT, reason="the controller has not sampled its GPUs since it started")


@_gate("gpus", GateGroup.TOUCH, "GPUs requested", replay=RECORDED)
def _gpus(case: Case) -> GateHold | None:
    return GateHold(trigger=Trigger.EXEMPT, reason="it requests no GPUs") if case.job.gpus == 0 else None


@_gate(
    "no-service",
    GateGroup.TOUCH,
    "a training or interactive job, not a service",
    replay="A service is known by its job type alone: no job is assumed to have ports or readiness probes.",
    held_back="services",
)
def _no_service(case: Case) -> GateHold | None:
    if case.job_type is JobType.SERVING:
        return GateHold(trigger=Trigger.EXEMPT, reason="a service is never reclaimed (spec.jobType is Serving)")
    if case.job.serves:
        return GateHold(trigger=Trigger.EXEMPT, reason="a service is never reclaimed (its program serves a model)")
    if case.job.offers is not None and case.job_type is not JobType.INTERACTIVE:
        reason = f"a service is never reclaimed (its container declares {case.job.offers})"
        return GateHold(trigger=Trigger.EXEMPT, reason=reason)
    return None


@_gate(
    "not-exempt",
    GateGroup.TOUCH,
    "not exempt by the policy",
    reads=Reads.POLICY,
    replay="Of the job's labels only owner and team were recorded: no job is assumed to have others.",
    held_back="exempt by policy",
)
def _not_exempt(case: Case) -> GateHold | None:
    exemption = case.policy.exemption("*", case.job.labels, case.now)
    if exemption is None:
        return None
    change = "" if exemption.until is None else "the exemption ends then"
    reason = f"exempt by policy: {exemption.reason}"
    return GateHold(trigger=Trigger.EXEMPT, reason=reason, until=exemption.until, change=change)


@_gate(
    "not-snoozed",
    GateGroup.TOUCH,
    "not snoozed by its owner",
    replay="No job is assumed to have been snoozed.",
)
def _not_snoozed(case: Case) -> GateHold | None:
    until = case.record.snoozed_until
    if until is None or case.now >= until:
        return None
    why = f' (reason: "{case.job.snooze_reason}")' if case.job.snooze_reason else ""
    return GateHold(
        trigger=Trigger.SNOOZED,
        reason=f"snoozed by its owner until {rfc3339(until)}{why}",
        until=until,
        reason_names_until=True,
        change="stoker snooze --cancel, or remove the annotation stoker.dev/snooze-until",
    )


# --------------------------------------------------------------------------------------------- is it idle, and sure?


@_gate(
    "metrics-known",
    GateGroup.IDLE,
    "current samples of every GPU of every pod",
    replay=RECORDED,
    held_back="unknown whether they were idle",
)
def _metrics_known(case: Case) -> GateHold | None:
    idleness = case.idleness
    if idleness.state is not IdlenessState.UNKNOWN:
        return None
    reason = f"its metrics are unknown ({idleness.reason or 'no samples'}): see the condition Idle"
    return GateHold(trigger=Trigger.UNKNOWN, reason=reason)


@_gate(
    "pods-ready",
    GateGroup.IDLE,
    "all pods ready",
    replay=RECORDED,
    asked=_is_known,
    ended="lost a pod before the deadline",
)
def _pods_ready(case: Case) -> GateHold | None:
    if case.idleness.state is not IdlenessState.WAITING:
        return None
    reason = "it waits for its pods"
    return GateHold(
        trigger=Trigger.ACTIVE, reason=f"{reason}: {case.idleness.message}" if case.idleness.message else reason
    )


@_gate(
    "all-idle",
    GateGroup.IDLE,
    "every signal of every GPU at its idle level",
    replay=RECORDED,
    asked=_runs,
    ended="worked again before the deadline",
)
def _all_idle(case: Case) -> GateHold | None:
    if case.idleness.state is not IdlenessState.ACTIVE:
        return None
    start = case.job.last_start
    # Which GPU worked, and when, changes with every scan, and idleAfter with the policy: a reason that changes is a
    # write of the status.
    reason = "a GPU was used within idleAfter"
    if start is not None and case.now < later(start, case.idle_after):
        reason = f"started at {rfc3339(start)}; it counts as idle after idleAfter at the earliest"
    return GateHold(trigger=Trigger.ACTIVE, reason=reason)


@_gate(
    "scan-fresh",
    GateGroup.IDLE,
    "metrics scanned within the last five minutes",
    replay=RECORDED,
    asked=_is_idle,
    held_back="no recent scan",
)
def _scan_fresh(case: Case) -> GateHold | None:
    # A scan from the future was stamped by a clock that has been set back since.
    age = case.now - case.idleness.observed_at
    if not _is_idle(case) or -CLOCK_TOLERANCE <= age <= SCAN_HOLDS:
        return None
    reason = f"the last scan of its metrics was at {rfc3339(case.idleness.observed_at)}"
    return GateHold(trigger=Trigger.UNKNOWN, reason=reason)


@_gate("same-pods", GateGroup.IDLE, "metrics of its current pods", replay=RECORDED, asked=_is_idle)
def _same_pods(case: Case) -> GateHold | None:
    if not _is_idle(case) or (case.idleness.pod_uids == case.job.pod_uids and case.job.pod_uids):
        return None
    return GateHold(trigger=Trigger.ACTIVE, reason="its pods have changed since the last scan of its metrics")


@_gate(
    "start-known",
    GateGroup.IDLE,
    "start time of its containers known",
    replay=RECORDED,
    asked=_is_idle,
    held_back="start unknown",
)
def _start_known(case: Case) -> GateHold | None:
    if not _is_idle(case) or (case.job.last_start is not None and case.idleness.since is not None):
        return None
    return GateHold(trigger=Trigger.UNKNOWN, reason="the start time of its containers is unknown")


@_gate(
    "idle-long-enough",
    GateGroup.LENGTH,
    "idle for idleAfter, counted after its start-up grace",
    asked=_is_idle_since,
    reads=Reads.POLICY,
    replay="No job is assumed to have set its own idleAfter.",
    held_back="within the start-up grace",
)
def _idle_long_enough(case: Case) -> GateHold | None:
    since, start = case.idle_since, case.job.last_start
    if since is None or start is None:
        return GateHold(trigger=Trigger.UNKNOWN, reason="the start of its idle time is unknown")
    # The clock starts when the last container runs, with the start-up grace on top.
    until = later(max(since, later(start, case.settings.startup_grace)), case.idle_after)
    if case.now >= until:
        return None
    # Since when it is idle stands in idleSince, which moves while its beginning is searched for.
    reason = f"it must be idle for {format_duration(case.idle_after)} (idleAfter)"
    return GateHold(trigger=Trigger.IDLE, reason=reason, until=until)


@_gate(
    "unattended",
    GateGroup.LENGTH,
    "unattended",
    asked=_is_idle_since,
    reads=Reads.CLUSTER,
    replay="No user is assumed to have worked in a job, except where its CPUs show it: sessions were not recorded.",
    held_back="in use by somebody, as their CPUs show",
    ended="used by somebody before the deadline",
)
def _unattended(case: Case) -> GateHold | None:
    presence = case.job.presence
    if presence.unknown is not None:
        return GateHold(
            trigger=Trigger.UNKNOWN, reason=f"it is unknown whether somebody works in it: {presence.unknown}"
        )
    if presence.last_seen is None or case.now - presence.last_seen >= case.idle_after:
        return None
    until = later(presence.last_seen, case.idle_after)
    reason = f"somebody works in it: {presence.how} at {rfc3339(presence.last_seen)}"
    return GateHold(trigger=Trigger.ACTIVE, reason=reason, until=until)


@_gate(
    "cooled-down",
    GateGroup.LENGTH,
    "cooldown after a resume over",
    replay=RECORDED,
    reads=Reads.POLICY,
    held_back="resumed recently",
)
def _cooled_down(case: Case) -> GateHold | None:
    resumed, cooldown = case.record.resumed_at, case.settings.cooldown_after_resume
    if resumed is None or case.now - resumed >= cooldown:
        return None
    until = later(resumed, cooldown)
    reason = f"idle; not warned before {rfc3339(until)} because it was resumed (cooldownAfterResume)"
    return GateHold(trigger=Trigger.IDLE, reason=reason, until=until, reason_names_until=True)


@_gate("not-stalled", GateGroup.NEED, "no hang found", replay=RECORDED, held_back="hanging, which is only reported")
def _not_stalled(case: Case) -> GateHold | None:
    stalled = next((one for one in case.job.findings if one.category is Category.STALLED and one.is_open), None)
    if stalled is None:
        return None
    return GateHold(
        trigger=Trigger.IDLE, reason="it hangs: hanging jobs are reported and never reclaimed", change=stalled.fix
    )


@_gate(
    "cause",
    GateGroup.NEED,
    "UnreleasedJob or InteractiveJob found, with confidence likely or higher",
    replay=RECORDED,
    held_back="no finding shows that the GPUs are not needed",
    ended="found to be needed",
)
def _cause(case: Case) -> GateHold | None:
    if case.cause is not None:
        return None
    doubts = (_doubt(one, case.job, case.policy, case.now) for one in _suspects(case.job))
    why = next((doubt for doubt in doubts if doubt is not None), None)
    why = why or GateHold(trigger=Trigger.IDLE, reason="it has no open finding UnreleasedJob or InteractiveJob")
    return replace(why, reason=f"idle, but only reported: {why.reason}") if _is_idle(case) else why


# ----------------------------------------------------------------------------------------- may something be done to it?


@_gate(
    "mode",
    GateGroup.CONSENT,
    "policy acts on jobs of its class (mode Suspend or Delete)",
    replay=RECORDED,
    reads=Reads.POLICY,
    held_back="the policy only observes",
)
def _mode(case: Case) -> GateHold | None:
    if case.settings.mode is not ReclaimMode.OBSERVE:
        return None
    found = case.policy.class_of(case.job.traits)
    whose = f"the policy's class {found.name}" if found is not None and found.mode is not None else "the policy"
    return _observed(case, f"{whose} has the mode Observe", "set reclaim.mode of the policy to Suspend")


@_gate(
    "checkpoint-grace",
    GateGroup.CONSENT,
    "enough time for its pods to save a checkpoint",
    reads=Reads.POLICY,
    replay="Every job's pods are assumed to get as much time between SIGTERM and SIGKILL as the policy requires.",
    held_back="too little time to save a checkpoint",
)
def _checkpoint_grace(case: Case) -> GateHold | None:
    least, own = case.settings.min_termination_grace, case.job.termination_grace
    if own is None:
        return _observed(case, "the termination grace period of its pods is unknown", "")
    if own >= least:
        return None
    reason = f"its pods get {format_duration(own)} to save a checkpoint; the policy requires {format_duration(least)}"
    return _observed(case, reason, "raise spec.podTemplate.spec.terminationGracePeriodSeconds of the job")


@_gate(
    "nothing-lost",
    GateGroup.CONSENT,
    "results in a volume that outlives the pods",
    reads=Reads.POLICY,
    replay="No job is assumed to write to such a volume; with --assume-volumes every job is.",
    held_back="no volume that outlives its pods",
)
def _nothing_lost(case: Case) -> GateHold | None:
    if case.job.has_persistent_volume:
        return None
    # What was typed in a session would be lost, whatever else is wrong with it; and a training that has ended and
    # sleeps may do so for its author to copy the result out of the container.
    if case.is_interactive:
        accepted, setting = case.settings.interactive_without_volume, "interactiveWithoutVolume"
    else:
        accepted, setting = case.settings.training_without_volume, "trainingWithoutVolume"
    if accepted:
        return None
    kind = "an interactive job" if case.is_interactive else "a job"
    reason = f"results may be lost: {kind} that writes to no volume that outlives its pods is only observed"
    return _observed(
        case, reason, f"mount a persistent volume in the job's trainer, or set reclaim.{setting} of the policy"
    )


@_gate(
    "suspendable",
    GateGroup.CONSENT,
    "Job can be suspended",
    reads=Reads.POLICY | Reads.CLUSTER,
    replay="Every Job is assumed to be one that can be suspended.",
)
def _suspendable(case: Case) -> GateHold | None:
    why = case.job.unsuspendable
    if why is None:
        return None
    reason = f"its Job can't be suspended: {why}"
    # What keeps it from being suspended now may pass: a warning that stands is not taken back for it.
    return (
        GateHold(trigger=Trigger.HELD, reason=f"idle; {reason}") if case.warning_stands else _observed(case, reason, "")
    )


def _observed(case: Case, reason: str, change: str) -> GateHold:
    return GateHold(trigger=Trigger.IDLE, reason=reason, change=change, observes=True)


# ---------------------------------------------------------------------------------------------- is it warned, and due?


@_gate(
    "brake-off",
    GateGroup.WARNING,
    "mass-idle brake off",
    reads=Reads.POLICY,
    replay="The brake is replayed every five minutes, by utilization; no user releases it.",
    held_back="the mass-idle brake was on",
)
def _brake_off(case: Case) -> GateHold | None:
    # A scan of metrics that may be wrong neither warns anybody nor acts; a warning that stands is not taken back.
    return _obstructed(case.constraints.brake, Trigger.HELD if case.warning_stands else Trigger.IDLE)


@_gate("warned", GateGroup.WARNING, "owner warned", replay=RECORDED)
def _warned(case: Case) -> GateHold | None:
    return None if case.warning_stands else GateHold(trigger=Trigger.WARN, reason="not yet", step=Step.WARN)


@_gate(
    "grace-over",
    GateGroup.DUE,
    "grace period of the warning over",
    replay=RECORDED,
    asked=_is_warned,
    held_back="warned, and within the grace",
)
def _grace_over(case: Case) -> GateHold | None:
    deadline = case.deadline
    if not case.warning_stands or deadline is None:
        return _warned.check(case)
    if case.now >= deadline:
        return None
    return GateHold(
        trigger=Trigger.HELD,
        reason=announced(deadline, case.settings.mode),
        until=deadline,
        reason_names_until=True,
        change="use its GPUs, run stoker snooze, or let the job end",
    )


@_gate(
    "schedule-open",
    GateGroup.DUE,
    "schedule of the policy open",
    replay=RECORDED,
    asked=_is_warned,
    reads=Reads.POLICY,
    held_back="the schedule was closed",
)
def _schedule_open(case: Case) -> GateHold | None:
    if case.settings.open_at(case.now, case.job_type):
        return None
    opens = case.settings.opens_after(case.now, case.job_type)
    when = f"opens at {rfc3339(opens)}" if opens is not None else "is closed"
    reason = f"idle and warned; the policy's schedule {when}"
    return GateHold(trigger=Trigger.HELD, reason=reason, until=opens, reason_names_until=True)


@_gate(
    "pressure",
    GateGroup.DUE,
    "GPUs wanted by other pods, if the policy asks for that",
    asked=_is_warned,
    reads=Reads.CLUSTER,
    replay="Some pod is assumed to wait for the GPUs all the time.",
    held_back="no pod waited for GPUs",
)
def _pressure(case: Case) -> GateHold | None:
    return _obstructed(case.constraints.pressure, Trigger.HELD) if case.settings.on_pressure_only else None


@_gate(
    "bounds",
    GateGroup.DUE,
    "within the policy's budget on reclaims",
    asked=_is_warned,
    reads=Reads.CLUSTER,
    replay="The cluster is assumed to have as many GPUs as were sampled within the day before.",
    held_back="the bounds were reached, or others came first",
)
def _bounds(case: Case) -> GateHold | None:
    return _obstructed(case.constraints.bounds, Trigger.HELD)


@_gate(
    "examined",
    GateGroup.DUE,
    "metrics examined within the last five minutes",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Every job is examined at the moment at which it is warned or reclaimed.",
)
def _examined(case: Case) -> GateHold | None:
    execution = case.execution
    if execution.examination_age is not None and execution.examination_age <= EXAMINED_WITHIN:
        return None
    if execution.is_examination_incomplete:
        gap = ""
        if execution.examination_gap is not None:
            start, end = map(rfc3339, execution.examination_gap)
            gap = f" (a gap from {start} to {end})"
        awaited = f"it waits until the samples of the last 10 min are complete{gap}"
    else:
        awaited = "it waits for the next examination, which must confirm the cause"
    return GateHold(trigger=Trigger.HELD, reason=f"idle and warned; {awaited}", step=Step.EXAMINE)


@_gate(
    "grace-elapsed",
    GateGroup.DUE,
    "grace period of the warning over by the monotonic clock",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Recorded times are taken as they are.",
)
def _grace_elapsed(case: Case) -> GateHold | None:
    record = case.record
    if record.warned_at is None or record.deadline is None:
        return _warned.check(case)
    left = record.deadline - record.warned_at - case.warning_age
    if left <= timedelta(0):
        return None
    reason = "idle and warned; its grace period is not over yet (monotonic clock)"
    return GateHold(trigger=Trigger.HELD, reason=reason, until=later(case.now, left))


# ------------------------------------------------------------------------- is it confirmed right before the action?


@_gate(
    "checked-again",
    GateGroup.ACTION,
    "all conditions above checked again with fresh objects and metrics",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Nothing changes between the check and the action.",
)
def _checked_again(case: Case) -> GateHold | None:
    if case.execution.check_age is not None:
        return None
    return GateHold(trigger=Trigger.DUE, reason="not yet", step=Step.CHECK_AGAIN)


@_gate(
    "slot-taken",
    GateGroup.ACTION,
    "a slot of the policy's budget reserved for it",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Of jobs that are due at the same moment the most idle one goes first.",
)
def _slot_taken(case: Case) -> GateHold | None:
    match case.execution.slot_taken:
        case True:
            return None
        case False:
            reason = (
                "idle and warned; the policy allows no further reclaim at this time, or has changed since the check"
            )
            return GateHold(trigger=Trigger.DUE, reason=reason, step=Step.STOP)
        case _:
            return GateHold(trigger=Trigger.DUE, reason="not yet", step=Step.TAKE_SLOT)


@_gate(
    "intent-recorded",
    GateGroup.ACTION,
    "intent recorded in the job's status",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Every write succeeds.",
)
def _intent_recorded(case: Case) -> GateHold | None:
    if case.execution.intent_recorded:
        return None
    return GateHold(trigger=Trigger.DUE, reason="not yet", step=Step.RECORD_INTENT)


@_gate(
    "check-recent",
    GateGroup.ACTION,
    "fresh check at most 20 s old",
    asked=_is_warned,
    reads=Reads.PROCESS,
    replay="Nothing changes between the check and the action.",
)
def _check_recent(case: Case) -> GateHold | None:
    age = case.execution.check_age
    if age is not None and age <= CHECK_HOLDS:
        return None
    old = "not known" if age is None else f"{age.total_seconds():.0f} s old"
    return GateHold(trigger=Trigger.DUE, reason=f"the fresh check is {old}", step=Step.RETRY)


def _obstructed(by: Obstruction | None, trigger: Trigger) -> GateHold | None:
    if by is None:
        return None
    until = f" (until {rfc3339(by.until)})" if by.until is not None else ""
    return GateHold(
        trigger=trigger, reason=f"idle; {by.reason}{until}", until=by.until, reason_names_until=True, change=by.change
    )


def announced(deadline: datetime, mode: ReclaimMode) -> str:
    """The reason in the status of a job whose warning's grace lasts."""
    does = "deleted for good" if mode is ReclaimMode.DELETE else "reclaimed"
    return f"idle; will be {does} at {rfc3339(deadline)} unless its GPUs are used again"


TOUCHABLE, ALL_IDLE, NOT_STALLED, CAUSE, NOTHING_LOST = _touchable, _all_idle, _not_stalled, _cause, _nothing_lost
BRAKE_OFF, WARNED, GRACE_OVER, BOUNDS, GRACE_ELAPSED = _brake_off, _warned, _grace_over, _bounds, _grace_elapsed
"""Gates that others ask for."""
GATES: tuple[Gate, ...] = tuple(_GATES)
"""In the order in which they stand above; a job that passes all of them is suspended or deleted."""


def first_hold(case: Case) -> tuple[Gate, GateHold] | None:
    """The first gate that holds the job back; None for one that is due."""
    return next(((gate, hold) for gate in GATES if (hold := gate.check(case)) is not None), None)


# ------------------------------------------------------------------------------------------------------------ questions


def idle_after(own: timedelta | None, traits: JobTraits, policy: EffectivePolicy) -> timedelta:
    """How long a job must be idle: its own wish within 10m..24h, else its class's or the policy's."""
    if own is None:
        return policy.reclaim_of(traits).idle_after
    return min(max(own, OWN_IDLE_AFTER[0]), OWN_IDLE_AFTER[1])


def reclaimable_cause(job: Candidate, policy: EffectivePolicy, now: datetime) -> Finding | None:
    """The open finding that makes the job reclaimable."""
    return next((one for one in _suspects(job) if _doubt(one, job, policy, now) is None), None)


def _suspects(job: Candidate) -> Iterator[Finding]:
    """The open findings of causes in which nobody waits for the GPUs' work, in the order of the causes."""
    return (one for cause in RECLAIMABLE for one in job.findings if one.category is cause and one.is_open)


def _doubt(finding: Finding, job: Candidate, policy: EffectivePolicy, now: datetime) -> GateHold | None:
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
