"""The gates that ask what is so: is the job one to reclaim, is it idle, for long enough, and for a cause? `stoker
diagnose` asks these alone (eligibility.py).
"""

from dataclasses import replace
from datetime import timedelta

from stoker.api.duration import format_duration
from stoker.findings.diagnosis import IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import Category, JobType, ReclaimState
from stoker.reclaim.case import CLOCK_TOLERANCE, Case, doubt, later, suspects
from stoker.reclaim.gate import RECORDED, GateGroup, GateList, Reads
from stoker.reclaim.hold import GateHold
from stoker.reclaim.resumption import resumed
from stoker.reclaim.steps import Step
from stoker.reclaim.transitions import Trigger

SCAN_HOLDS = timedelta(minutes=5)
"""How long a scan's result describes the present. Chosen because ten scans (30 s apart) may fail within it."""

_gates = GateList()


def _is_idle(case: Case) -> bool:
    return case.idleness.state is IdlenessState.IDLE


def _is_known(case: Case) -> bool:
    return case.idleness.state is not IdlenessState.UNKNOWN


def _runs(case: Case) -> bool:
    return case.idleness.state in {IdlenessState.IDLE, IdlenessState.ACTIVE}


def _is_idle_since(case: Case) -> bool:
    return case.idle_since is not None


# ----------------------------------------------------------------------------------------------- may it be touched?


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate("gpus", GateGroup.TOUCH, "GPUs requested", replay=RECORDED)
def _gpus(case: Case) -> GateHold | None:
    return GateHold(trigger=Trigger.EXEMPT, reason="it requests no GPUs") if case.job.gpus == 0 else None


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate("same-pods", GateGroup.IDLE, "metrics of its current pods", replay=RECORDED, asked=_is_idle)
def _same_pods(case: Case) -> GateHold | None:
    if not _is_idle(case) or (case.idleness.pod_uids == case.job.pod_uids and case.job.pod_uids):
        return None
    return GateHold(trigger=Trigger.ACTIVE, reason="its pods have changed since the last scan of its metrics")


@_gates.gate(
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


@_gates.gate(
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


@_gates.gate(
    "unattended",
    GateGroup.LENGTH,
    "unattended",
    asked=_is_idle_since,
    reads=Reads.CLUSTER,
    replay="No user is assumed to have worked in a job, except where its CPUs show it: sessions were not recorded. A "
    "controller would have reclaimed less, never more.",
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


@_gates.gate(
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


@_gates.gate(
    "not-stalled", GateGroup.NEED, "no hang found", replay=RECORDED, held_back="hanging, which is only reported"
)
def _not_stalled(case: Case) -> GateHold | None:
    stalled = next((one for one in case.job.findings if one.category is Category.STALLED and one.is_open), None)
    if stalled is None:
        return None
    return GateHold(
        trigger=Trigger.IDLE, reason="it hangs: hanging jobs are reported and never reclaimed", change=stalled.fix
    )


@_gates.gate(
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
    doubts = (doubt(one, case.job, case.policy, case.now) for one in suspects(case.job))
    why = next((doubt for doubt in doubts if doubt is not None), None)
    why = why or GateHold(trigger=Trigger.IDLE, reason="it has no open finding UnreleasedJob or InteractiveJob")
    return replace(why, reason=f"idle, but only reported: {why.reason}") if _is_idle(case) else why


TOUCHABLE, ALL_IDLE, NOT_STALLED, CAUSE = _touchable, _all_idle, _not_stalled, _cause
"""Gates that others ask for."""
FACT_GATES = tuple(_gates)
