"""The gates that ask what is to follow from the facts: does the policy allow it, is the owner warned, is the job due,
and is all of it confirmed right before the action?
"""

from datetime import datetime, timedelta

from stoker.api.duration import format_duration
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimMode
from stoker.reclaim.candidate import Obstruction
from stoker.reclaim.case import Case, later
from stoker.reclaim.gate import RECORDED, GateGroup, GateList, Reads
from stoker.reclaim.hold import GateHold
from stoker.reclaim.steps import Step
from stoker.reclaim.transitions import Trigger

EXAMINED_WITHIN = timedelta(minutes=5)
"""How old the examination may be on which a reclaim is based. After a restart the status says what was found before,
and nobody has examined the job since; and only examinations see what its CPUs do. Chosen because an idle job is
examined every five minutes.
"""
CHECK_HOLDS = timedelta(seconds=20)
"""How old the fresh check may be when the Job is suspended or deleted. Chosen because behind an API server that takes
longer the owner may be back by then.
"""

_gates = GateList()


def _is_warned(case: Case) -> bool:
    return case.warning_stands


# ----------------------------------------------------------------------------------------- may something be done to it?


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate("warned", GateGroup.WARNING, "owner warned", replay=RECORDED)
def _warned(case: Case) -> GateHold | None:
    return None if case.warning_stands else GateHold(trigger=Trigger.WARN, reason="not yet", step=Step.WARN)


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


NOTHING_LOST, BRAKE_OFF, WARNED = _nothing_lost, _brake_off, _warned
GRACE_OVER, BOUNDS, GRACE_ELAPSED = _grace_over, _bounds, _grace_elapsed
"""Gates that others ask for."""
ACTION_GATES = tuple(_gates)
