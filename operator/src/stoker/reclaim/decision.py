"""The decision whether an idle job's GPUs are taken back. Stopping a healthy job is the worst that this program can do,
so every doubt here means: do nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from stoker.models.diagnosis import Idleness, IdlenessState
from stoker.models.finding import Finding, parse_time, rfc3339
from stoker.models.policy import EffectivePolicy, format_duration
from stoker.models.vocabulary import Action, Category, Confidence, JobType, ReclaimMode, ReclaimState, Source
from stoker.reclaim.record import Record

RECLAIMABLE = (Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB)
"""Causes in which nobody waits for the GPUs' work; every other is only reported."""
SURE = frozenset({Confidence.CERTAIN, Confidence.LIKELY})
OWN_IDLE_AFTER = (timedelta(minutes=10), timedelta(hours=24))
"""The bounds of a job's own idleAfter."""
MINIMUM_WARNING_GRACE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What must be known of a running job.

    `job_uid` and `pod_uids` are its Job and all its pods, `last_start` the latest start of a trainer. `snooze` is the
    annotation's text. `untouchable` says why nothing may be done to it now, whatever the numbers say (something is
    being deleted, is ending, is not ours).
    """

    job_type: JobType
    gpus: int
    job_uid: str
    pod_uids: frozenset[str]
    last_start: datetime | None
    labels: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    idle_after: timedelta | None = None
    snooze: str | None = None
    has_persistent_volume: bool = False
    untouchable: str | None = None


class Step(StrEnum):
    """What is to be done once the record is written."""

    NONE = "None"
    RECLAIM = "Reclaim"
    """Look at everything afresh and decide again; if that says the same, reclaim."""


class NoticeReason(StrEnum):
    """Reasons of the events about reclaim."""

    WARNED = "ReclaimWarning"
    CANCELLED = "ReclaimCancelled"
    WOULD_RECLAIM = "WouldReclaim"
    RECLAIMED = "Reclaimed"
    RESUMED = "Resumed"
    SNOOZE_CLAMPED = "SnoozeClamped"
    SNOOZE_IGNORED = "SnoozeIgnored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something to tell the job's owner by an event, after the record is written. `episode` tells one occasion from the
    next.
    """

    reason: NoticeReason
    message: str
    episode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The record to write, what to tell, and what to do then."""

    record: Record
    step: Step = Step.NONE
    notices: tuple[Notice, ...] = ()


def decide(
    job: Candidate,
    idleness: Idleness,
    policy: EffectivePolicy,
    history: Record,
    now: datetime,
    *,
    minimum_warning_grace: timedelta = MINIMUM_WARNING_GRACE,
) -> Decision:
    """Say what becomes of a job that runs. Pure; a job that is reclaimed already is not asked about.

    A warning counts from when its record was written, so the caller acts on RECLAIM only, and only after a record with
    a warning was written in an earlier call.
    """
    record, notices = _snooze(job, policy, history, now)
    verdict = state_left_alone(job, idleness, policy, record, now)
    if verdict is not None:
        state, reason = verdict
        return _without_action(record, state, reason, idleness, notices, now)

    cause = reclaimable_cause(job, policy, now)
    assert cause is not None  # state_left_alone has asked
    since = _idle_since(idleness)
    mode = _mode(job, cause, policy)
    # Who was warned of a suspension, which can be undone, is warned anew before anything is deleted.
    milder = mode is ReclaimMode.DELETE and record.action is not ReclaimMode.DELETE
    record = replace(record, idle_since=since, action=mode, rule=cause.rule)
    if mode is ReclaimMode.OBSERVE:
        return _observed(record, cause, policy, notices, now)
    if milder or not _warning_stands(record, job, since):
        return _warned(record, job, cause, policy, mode, notices, now, minimum_warning_grace)
    warned_at, deadline = record.warned_at, record.deadline
    assert warned_at is not None  # _warning_stands has asked
    assert deadline is not None
    # A policy that grants more time than when the warning was written counts; one that grants less does not.
    deadline = max(deadline, warned_at + max(policy.reclaim.warning_grace, minimum_warning_grace))
    record = replace(record, state=ReclaimState.WARNED, deadline=deadline)
    hold = _hold(job, policy, deadline, now)
    if hold is not None:
        return Decision(record=replace(record, reason=hold), notices=notices)
    reason = f"idle since {rfc3339(since)}, warned at {rfc3339(warned_at)}, the deadline has passed"
    return Decision(record=replace(record, reason=reason), step=Step.RECLAIM, notices=notices)


def state_left_alone(
    job: Candidate, idleness: Idleness, policy: EffectivePolicy, record: Record, now: datetime
) -> tuple[ReclaimState, str] | None:
    """The state of a job that nothing is done to, and why; None for one that is reclaimable."""
    if job.untouchable is not None:
        return ReclaimState.ACTIVE, job.untouchable
    if job.gpus == 0:
        return ReclaimState.EXEMPT, "it holds no GPUs"
    if _type(job, policy) is JobType.SERVING:
        return ReclaimState.EXEMPT, "a service is never reclaimed"
    exemption = policy.exemption("*", job.labels, now)
    if exemption is not None:
        return ReclaimState.EXEMPT, f"exempt by policy: {exemption.reason}"
    if record.snoozed_until is not None and now < record.snoozed_until:
        return ReclaimState.SNOOZED, f"put off by its owner until {rfc3339(record.snoozed_until)}"
    match idleness.state:
        case IdlenessState.UNKNOWN:
            return (
                ReclaimState.UNKNOWN,
                f"the metrics say nothing ({idleness.reason or 'no samples'}): see condition Idle",
            )
        case IdlenessState.ACTIVE:
            return ReclaimState.ACTIVE, "its GPUs work, or have not been idle for long enough"
        case IdlenessState.WAITING:
            return ReclaimState.ACTIVE, "not all its pods are ready: it waits"
        case IdlenessState.IDLE if idleness.pod_uids != job.pod_uids or not job.pod_uids:
            return ReclaimState.ACTIVE, "its pods have changed since the metrics were looked at"
        case IdlenessState.IDLE:
            return _too_early(job, idleness, policy, record, now)


def _too_early(
    job: Candidate, idleness: Idleness, policy: EffectivePolicy, record: Record, now: datetime
) -> tuple[ReclaimState, str] | None:
    """Why an idle job is left alone; None when it is reclaimable."""
    if job.last_start is None or idleness.since is None:
        return ReclaimState.UNKNOWN, "it is not known when its containers started"
    # The clock starts when the last container runs, with the start-up grace on top.
    counted_from = max(idleness.since, job.last_start + policy.reclaim.startup_grace)
    after = idle_after(job.idle_after, policy)
    if now - counted_from < after:
        early = f"reclaim looks at it after {format_duration(after)}"
        return ReclaimState.IDLE, f"idle since {rfc3339(idleness.since)}; {early}"
    if record.resumed_at is not None and now - record.resumed_at < policy.reclaim.cooldown_after_resume:
        until = record.resumed_at + policy.reclaim.cooldown_after_resume
        return ReclaimState.IDLE, f"idle, but left alone until {rfc3339(until)} since it was resumed"
    if reclaimable_cause(job, policy, now) is None:
        return ReclaimState.IDLE, "idle, and only reported: no finding says that nobody needs its GPUs"
    return None


def idle_after(own: timedelta | None, policy: EffectivePolicy) -> timedelta:
    """How long a job must be idle: its own wish within 10m..24h, else the policy's."""
    if own is None:
        return policy.reclaim.idle_after
    return min(max(own, OWN_IDLE_AFTER[0]), OWN_IDLE_AFTER[1])


def _type(job: Candidate, policy: EffectivePolicy) -> JobType:
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


def _because(cause: Finding) -> str:
    """The cause, to stand in brackets."""
    return f"{cause.category}: {cause.detail.rstrip('.')}"


def _idle_since(idleness: Idleness) -> datetime:
    assert idleness.since is not None  # _too_early has asked
    return idleness.since


def _mode(job: Candidate, cause: Finding, policy: EffectivePolicy) -> ReclaimMode:
    if cause.category is Category.INTERACTIVE_JOB and not job.has_persistent_volume:
        # What was typed in a session without a persistent volume would be lost.
        return ReclaimMode.OBSERVE
    return policy.reclaim.mode


def _warning_stands(record: Record, job: Candidate, since: datetime) -> bool:
    """Whether the recorded warning is about these pods and this stretch of idleness."""
    return (
        record.has_warning
        and record.warned_at is not None
        and since <= record.warned_at
        and record.job_uid == job.job_uid
        and record.pod_uids == job.pod_uids
    )


def _hold(job: Candidate, policy: EffectivePolicy, deadline: datetime, now: datetime) -> str | None:
    """Why a warned job is not reclaimed yet."""
    if now < deadline:
        return f"idle; will be reclaimed at {rfc3339(deadline)} unless its GPUs work again"
    if policy.reclaim.on_pressure_only:
        return "idle and warned; the policy reclaims only while a pending job would then fit"
    if not policy.reclaim.open_at(now, _type(job, policy)):
        return "idle and warned; the policy's schedule is closed now"
    return None


def _without_action(
    record: Record, state: ReclaimState, reason: str, idleness: Idleness, notices: tuple[Notice, ...], now: datetime
) -> Decision:
    """A job that nothing is done to. Not knowing keeps a warning as it is; everything else ends it."""
    # An answer about pods that are gone (the state is Active then) says nothing of how long these have been idle.
    since = idleness.since if idleness.state is IdlenessState.IDLE and state is not ReclaimState.ACTIVE else None
    if state is ReclaimState.UNKNOWN:
        return Decision(record=replace(record, state=state, reason=reason), notices=notices)
    cancelled = record.has_warning
    record = replace(record.without_warning(), state=state, reason=reason, idle_since=since, action=None)
    if cancelled:
        record = record.remembering(now, f"warning cancelled: {reason}")
        message = f"The job is not reclaimed: {reason}."
        notices = (*notices, Notice(reason=NoticeReason.CANCELLED, message=message, episode=rfc3339(now)))
    return Decision(record=record, notices=notices)


def _observed(
    record: Record, cause: Finding, policy: EffectivePolicy, notices: tuple[Notice, ...], now: datetime
) -> Decision:
    assert record.idle_since is not None
    since = rfc3339(record.idle_since)
    had_warning = record.has_warning
    told = record.state is ReclaimState.IDLE and record.action is ReclaimMode.OBSERVE and record.rule == cause.rule
    record = replace(
        record.without_warning(),
        state=ReclaimState.IDLE,
        rule=cause.rule,
        reason=f"would be reclaimed ({cause.category}, idle since {since}); the policy only observes",
    )
    if had_warning:
        record = record.remembering(now, "warning cancelled: the policy only observes")
    message = (
        f"All GPUs of the job are idle since {since} ({_because(cause)})."
        " It would be warned and then reclaimed; the policy only observes."
    )
    notice = Notice(reason=NoticeReason.WOULD_RECLAIM, message=message, episode=since)
    return Decision(record=record, notices=notices if told and not had_warning else (*notices, notice))


def _warned(
    record: Record,
    job: Candidate,
    cause: Finding,
    policy: EffectivePolicy,
    mode: ReclaimMode,
    notices: tuple[Notice, ...],
    now: datetime,
    minimum: timedelta,
) -> Decision:
    # Whole seconds, as status holds them; the deadline is rounded up, so that writing it never shortens the grace.
    warned_at = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    deadline = warned_at + max(policy.reclaim.warning_grace, minimum)
    assert record.idle_since is not None
    since = rfc3339(record.idle_since)
    does = "suspended (stoker resume brings it back)" if mode is ReclaimMode.SUSPEND else "ended for good"
    record = replace(
        record,
        state=ReclaimState.WARNED,
        reason=f"idle since {since}; will be reclaimed at {rfc3339(deadline)} unless its GPUs work again",
        warned_at=warned_at,
        deadline=deadline,
        job_uid=job.job_uid,
        pod_uids=job.pod_uids,
    ).remembering(now, f"warned: {cause.category}, idle since {since}, deadline {rfc3339(deadline)}")
    message = (
        f"All {job.gpus} GPUs of the job are idle since {since} ({_because(cause)})."
        f" Unless they work again it will be {does} at {rfc3339(deadline)}."
        " To keep it: stoker snooze, or let the job end."
    )
    notice = Notice(reason=NoticeReason.WARNED, message=message, episode=rfc3339(warned_at))
    return Decision(record=record, notices=(*notices, notice))


def _snooze(
    job: Candidate, policy: EffectivePolicy, record: Record, now: datetime
) -> tuple[Record, tuple[Notice, ...]]:
    """Take a new value of the snooze annotation into the record, within the policy's bound; each value is taken once,
    or an annotation far in the future would be bounded anew with every look.
    """
    if job.snooze == record.handled_snooze:
        return record, ()
    if job.snooze is None:
        return replace(record, handled_snooze=None, snoozed_until=None), ()
    try:
        until = parse_time(job.snooze)
        if until is None or until.tzinfo is None:
            raise ValueError("no time zone")  # noqa: TRY301 - one reason among those that parse_time has
        until = until.astimezone(UTC)  # a year outside 1..9999 in UTC overflows
    except (ValueError, OverflowError):
        message = f"stoker.dev/snooze-until {job.snooze[:64]!r} is ignored: write a time such as 2026-11-21T18:00:00Z."
        notice = Notice(reason=NoticeReason.SNOOZE_IGNORED, message=message, episode=job.snooze)
        return replace(record, handled_snooze=job.snooze, snoozed_until=None), (notice,)
    longest = now.astimezone(UTC).replace(microsecond=0) + policy.reclaim.max_snooze
    record = replace(record, handled_snooze=job.snooze, snoozed_until=min(until, longest))
    if until <= longest:
        return record, ()
    message = (
        f"stoker.dev/snooze-until is shortened to {rfc3339(longest)}:"
        f" the policy allows {format_duration(policy.reclaim.max_snooze)} at a time."
    )
    return record, (Notice(reason=NoticeReason.SNOOZE_CLAMPED, message=message, episode=job.snooze),)
