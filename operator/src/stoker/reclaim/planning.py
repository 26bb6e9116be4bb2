"""The plan for a job: whether its idle GPUs are taken back, and what the controller does next about it.

controller/reclaimer.py carries plans out, `stoker replay` makes them of the past, and tests/reclaim holds them against
the truth. Stopping a healthy job is the worst that this program can do, so every doubt here means: do nothing.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import ReclaimEvent, ReclaimMode, ReclaimState
from stoker.findings.wording import all_gpus, count
from stoker.reclaim.action_gates import announced
from stoker.reclaim.candidate import Candidate
from stoker.reclaim.case import Case, later
from stoker.reclaim.gate import GateGroup
from stoker.reclaim.gates import first_hold
from stoker.reclaim.hold import GateHold
from stoker.reclaim.notices import Notice, NoticeReason
from stoker.reclaim.record import Record
from stoker.reclaim.snoozing import snoozed
from stoker.reclaim.steps import CONFIRMED, Step
from stoker.reclaim.transitions import Trigger, after

CONCERNED = frozenset({ReclaimState.IDLE, ReclaimState.WARNED, ReclaimState.RECLAIMING})
"""States in which the status names the policies. In the others it does not, or every change of a policy would be a
write to every job.
"""


NOTIFIED = frozenset({ReclaimState.IDLE, ReclaimState.UNKNOWN})
"""States of a job whose owner was notified that it would be reclaimed. Unknown is one: it may pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What becomes of a job: the record to write with its notices, and the step to take then.

    `gate` is the one that holds the job back, in the group `group`, for the reason `reason`; `until` when, as far as
    that is known, and `change` what would change it. All are empty for a job that passes every gate.
    """

    record: Record
    step: Step = Step.RECORD
    notices: tuple[Notice, ...] = ()
    gate: str | None = None
    group: GateGroup | None = None
    reason: str = ""
    until: datetime | None = None
    change: str = ""

    @property
    def is_confirmed(self) -> bool:
        """Whether every condition of a reclaim holds, but for those of the group ACTION."""
        return self.step in CONFIRMED


def plan(case: Case) -> Plan:
    """Say what becomes of a job. Pure and total; nothing becomes of a job that is reclaimed, until it is resumed.

    A controller takes the plan's step and plans again with what that has brought, until a plan says RECORD, RETRY or
    STOP, or it has suspended or deleted the Job. A warning counts from when its record was written.
    """
    if case.record.state is ReclaimState.RECLAIMED:
        return Plan(record=case.record)
    original = case.record
    case, notices = with_snooze(case)
    held = first_hold(case)
    if held is None:
        act = Step.DELETE if case.settings.mode is ReclaimMode.DELETE else Step.SUSPEND
        return Plan(record=_intent(case), step=act, notices=notices)
    gate, hold = held
    match hold.trigger:
        case Trigger.KEPT:
            next_plan, notices = Plan(record=_kept(original, hold)), ()
        case Trigger.UNKNOWN:
            next_plan = _unknown(case, hold)
        case Trigger.WARN:
            next_plan = _warn(case)
        case Trigger.HELD:
            next_plan = _held(case, hold)
        case Trigger.DUE:
            is_intent = hold.step is Step.RECORD_INTENT
            next_plan = Plan(record=_intent(case) if is_intent else _due(case))
        case _:
            next_plan = _left_alone(case, hold)
    return replace(
        next_plan,
        step=hold.step,
        notices=(*notices, *next_plan.notices),
        gate=gate.name,
        group=gate.group,
        reason=hold.reason,
        until=hold.until,
        change=hold.change,
    )


def with_snooze(case: Case) -> tuple[Case, tuple[Notice, ...]]:
    """The case with the owner's snooze in the record, and without the fields of a warning that is not in force."""
    record, notices = snoozed(case.job, case.policy, case.record, case.now)
    if not record.has_warning and (record.warned_at is not None or record.deadline is not None):
        record = record.without_warning()
    return replace(case, record=record), notices


def _kept(record: Record, hold: GateHold) -> Record:
    """The record as it is, with the reason where the gate says so."""
    return replace(record, reason=hold.reason) if hold.is_told else record


def _intent(case: Case) -> Record:
    """The record that says what is about to be done."""
    record = _due(case)
    return replace(record, state=after(record.state, Trigger.DUE))


def _due(case: Case) -> Record:
    """The record of a job that every condition holds for, but for those of the group ACTION."""
    record = _under_policy(case, _in_force(case))
    assert record.idle_since is not None  # a gate has asked
    assert record.warned_at is not None
    since, warned_at = rfc3339(record.idle_since), rfc3339(record.warned_at)
    reason = f"idle since {since}, warned at {warned_at}, the deadline has passed"
    return replace(record, reason=reason)


def _held(case: Case, hold: GateHold) -> Plan:
    return Plan(record=_under_policy(case, replace(_in_force(case), reason=hold.reason)))


def _in_force(case: Case) -> Record:
    """The record of a warning in force. It is about one stretch of idleness and keeps its beginning: a scan that knows
    less of the past would say a later one.
    """
    cause = case.cause
    known = [since for since in (case.record.idle_since, case.idle_since) if since is not None]
    return replace(
        case.record,
        state=after(case.record.state, Trigger.HELD),
        rule=cause.rule if cause is not None else case.record.rule,
        idle_since=min(known, default=None),
        deadline=case.deadline,
        action=case.settings.mode,
    )


def _unknown(case: Case, hold: GateHold) -> Plan:
    """Not knowing keeps a warning as it is."""
    return Plan(record=replace(case.record, state=after(case.record.state, hold.trigger), reason=hold.reason))


def _left_alone(case: Case, hold: GateHold) -> Plan:
    """A job that nothing is done to; a warning ends."""
    state = after(case.record.state, hold.trigger)
    # A scan of pods that are gone (the state is Active then) does not say how long the present ones have been idle.
    since = case.idle_since if state is not ReclaimState.ACTIVE else None
    was_notified = case.record.state in NOTIFIED and case.record.action is ReclaimMode.OBSERVE
    cause = case.cause
    same = cause is not None and case.record.rule == cause.rule
    record = replace(
        case.record.without_warning(),
        state=state,
        reason=hold.reason,
        idle_since=since,
        action=ReclaimMode.OBSERVE if hold.observes else None,
        rule=cause.rule if hold.observes and cause is not None else None,
    )
    notices: tuple[Notice, ...] = ()
    warned_at = case.record.warned_at
    if case.record.has_warning and warned_at is not None:
        record = record.remembering(case.now, ReclaimEvent.CANCELLED, hold.reason, policies=case.policy.revisions)
        message = f"The warning is cancelled: {hold.reason}."
        # The record has no warning any more, and the audit must still tell which one it was.
        notices = (_notice(case, NoticeReason.CANCELLED, message, rfc3339(case.now), warnedAt=rfc3339(warned_at)),)
    if hold.observes and cause is not None and since is not None:
        record = replace(
            # Since when it is idle stands in idleSince, which moves while its beginning is searched for.
            record,
            reason=f"would be reclaimed ({cause.category}); {hold.reason}",
        )
        message = (
            f"{all_gpus(case.job.gpus)} been idle since {rfc3339(since)} ({cause.category})."
            f" It would be warned and then reclaimed; {hold.reason}."
        )
        if not (was_notified and same) or case.record.has_warning:
            notices = (*notices, _notice(case, NoticeReason.WOULD_RECLAIM, message, rfc3339(since)))
    return Plan(record=_under_policy(case, record), notices=notices)


def _warn(case: Case) -> Plan:
    cause, since, job = case.cause, case.idle_since, case.job
    assert cause is not None  # gates have asked
    assert since is not None
    # Whole seconds, as status holds them; the deadline is rounded up, so that writing it never shortens the grace.
    warned_at = case.now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    deadline = later(warned_at, case.warning_grace)
    mode = case.settings.mode
    does = "suspended (stoker resume brings it back)" if mode is ReclaimMode.SUSPEND else "deleted for good"
    record = replace(
        case.record,
        state=after(case.record.state, Trigger.WARN),
        reason=announced(deadline, mode),
        rule=cause.rule,
        idle_since=since,
        warned_at=warned_at,
        deadline=deadline,
        action=mode,
        job_uid=job.job_uid,
        pod_uids=job.pod_uids,
        policies=case.policy.revisions,
    )
    grounds = f"{_grounds(case)}, deadline {rfc3339(deadline)}"
    record = record.remembering(case.now, ReclaimEvent.WARNED, grounds, policies=case.policy.revisions)
    message = (
        f"{all_gpus(job.gpus)} been idle since {rfc3339(since)} ({cause.category})."
        f" Unless a GPU is used again, it will be {does} at {rfc3339(deadline)}."
        f" {_lost(job)} To postpone this: stoker snooze."
    )
    notice = _notice(case, NoticeReason.WARNED, message, rfc3339(warned_at), deadline=rfc3339(deadline))
    return Plan(record=record, notices=(notice,))


def _lost(job: Candidate) -> str:
    """What is lost with the pods, as the warning says it."""
    if job.has_persistent_volume:
        return "Files outside its persistent volumes will be lost."
    return "It writes to no volume that outlives its pods: all files in its containers will be lost."


def _under_policy(case: Case, record: Record) -> Record:
    """The record with the policies that it was decided under; that they have changed is noted in a job that is
    concerned.
    """
    if record.state not in CONCERNED:
        return replace(record, policies=())
    revisions, known = case.policy.revisions, case.record.policies
    if known and known != revisions:
        was = ", ".join(map(str, known))
        record = record.remembering(
            case.now,
            ReclaimEvent.POLICY_CHANGED,
            f"{case.policy.revision} in place of {was}: {record.reason}",
            policies=revisions,
            replaces_same=True,
        )
    return replace(record, policies=revisions)


def _grounds(case: Case) -> str:
    """What a decision was based on, for the job's history."""
    cause, since = case.cause, case.idle_since
    named = f"{cause.category} ({cause.confidence.lower()})" if cause is not None else "no cause"
    idle = f"{count(case.job.gpus, 'GPU')} idle since {rfc3339(since)}" if since is not None else "not idle"
    covered = f", {case.idleness.coverage_percent} % of samples" if case.idleness.coverage_percent is not None else ""
    return f"{named}, {idle}{covered}"


def _notice(case: Case, reason: NoticeReason, message: str, episode: str, **more: str) -> Notice:
    cause, since = case.cause, case.idle_since
    numbers: dict[str, str | int | float] = {"gpus": case.job.gpus, **more}
    if cause is not None:
        numbers |= {"cause": cause.category.value, "rule": cause.rule, "confidence": cause.confidence.value}
    if since is not None:
        numbers |= {"idleSince": rfc3339(since), "idleSeconds": round((case.now - since).total_seconds())}
    if case.idleness.coverage_percent is not None:
        numbers["coveragePercent"] = case.idleness.coverage_percent
    return Notice(reason=reason, message=message, episode=episode, numbers=numbers, policies=case.policy.revisions)
