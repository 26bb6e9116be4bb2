"""decide(): every doubt means that nothing is done."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.models.diagnosis import Idleness, IdlenessState
from stoker.models.finding import Finding
from stoker.models.meta import LabelSelector
from stoker.models.policy import BUILT_IN, EffectivePolicy, EffectiveReclaim, Exemption, RuleSetting, ScheduleWindow
from stoker.models.vocabulary import (
    Action,
    Category,
    Confidence,
    JobType,
    ReclaimMode,
    ReclaimState,
    Severity,
    Source,
    UnknownReason,
)
from stoker.reclaim import Candidate, Circumstances, Decision, NoticeReason, Obstruction, Record, Step, decide

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PODS = frozenset({"pod-0", "pod-1"})


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def finding(
    category: Category = Category.UNRELEASED_JOB,
    confidence: Confidence = Confidence.LIKELY,
    until: datetime | None = None,
) -> Finding:
    return Finding(
        rule=f"rule-of-{category}",
        category=category,
        severity=Severity.WARNING,
        confidence=confidence,
        detail="idle",
        evidence="",
        fix="",
        docs="",
        sources=(Source.METRICS,),
        until=until,
    )


CANDIDATE = Candidate(
    job_type=JobType.TRAINING,
    gpus=16,
    job_uid="job",
    pod_uids=PODS,
    last_start=ago(600),
    findings=(finding(),),
    termination_grace=timedelta(seconds=30),
)
IDLE = Idleness(state=IdlenessState.IDLE, observed_at=NOW, since=ago(90), pod_uids=PODS)
SUSPENDS = EffectivePolicy(reclaim=EffectiveReclaim(mode=ReclaimMode.SUSPEND), sources=("default",))
WARNED = Record(
    state=ReclaimState.WARNED,
    warned_at=ago(20),
    deadline=ago(5),
    job_uid="job",
    pod_uids=PODS,
    action=ReclaimMode.SUSPEND,
)


def look(
    job: Candidate = CANDIDATE,
    idle: Idleness = IDLE,
    policy: EffectivePolicy = SUSPENDS,
    record: Record | None = None,
    **options: Any,
) -> Decision:
    return decide(job, idle, policy, Record() if record is None else record, NOW, **options)


def reasons(decision: Decision) -> list[NoticeReason]:
    return [notice.reason for notice in decision.notices]


def with_reclaim(**fields: Any) -> EffectivePolicy:
    return replace(SUSPENDS, reclaim=replace(SUSPENDS.reclaim, **fields))


# ------------------------------------------------------------------------------------------------ the way to a reclaim


def test_an_idle_job_with_a_cause_is_warned_first() -> None:
    decision = look()
    record = decision.record
    assert (record.state, decision.step) == (ReclaimState.WARNED, Step.NONE)
    assert reasons(decision) == [NoticeReason.WARNED]
    assert record.warned_at is not None
    assert record.deadline is not None
    assert record.warned_at >= NOW
    assert record.deadline - record.warned_at == timedelta(minutes=15)
    assert (record.job_uid, record.pod_uids, record.rule) == ("job", PODS, "rule-of-UnreleasedJob")


def test_a_warning_that_was_written_is_acted_upon_after_its_deadline() -> None:
    assert look(record=WARNED).step is Step.RECLAIM


@pytest.mark.parametrize("minutes, step", [(0.1, Step.NONE), (0, Step.RECLAIM)])
def test_not_a_second_before_the_deadline(minutes: float, step: Step) -> None:
    record = replace(WARNED, warned_at=ago(15 - minutes), deadline=ago(-minutes))
    assert look(record=record).step is step


def test_an_intent_without_the_deed_is_decided_like_a_warning() -> None:
    intent = replace(WARNED, state=ReclaimState.RECLAIMING)
    assert look(record=intent).step is Step.RECLAIM
    assert look(record=intent, idle=replace(IDLE, state=IdlenessState.ACTIVE)).record.state is ReclaimState.ACTIVE


def test_the_same_look_twice_warns_once() -> None:
    first = look()
    again = decide(CANDIDATE, IDLE, SUSPENDS, first.record, NOW + timedelta(seconds=30))
    assert not again.notices
    assert (again.record.warned_at, again.record.deadline) == (first.record.warned_at, first.record.deadline)


def test_the_controllers_floor_makes_the_grace_longer_never_shorter() -> None:
    quick = with_reclaim(warning_grace=timedelta(minutes=1))
    record = look(policy=quick).record
    assert record.deadline is not None
    assert record.warned_at is not None
    assert record.deadline - record.warned_at == timedelta(minutes=5)
    lowered = look(policy=quick, around=Circumstances(minimum_warning_grace=timedelta(0))).record
    assert lowered.deadline is not None
    assert lowered.warned_at is not None
    assert lowered.deadline - lowered.warned_at == timedelta(minutes=1)


def test_a_policy_that_grants_more_time_later_counts_and_one_that_grants_less_does_not() -> None:
    assert look(record=WARNED, policy=with_reclaim(warning_grace=timedelta(hours=1))).step is Step.NONE
    waiting = replace(WARNED, warned_at=ago(1), deadline=ago(-14))
    assert look(record=waiting, policy=with_reclaim(warning_grace=timedelta(minutes=5))).step is Step.NONE


def test_a_fresh_install_only_observes_and_says_so_once() -> None:
    first = look(policy=BUILT_IN)
    assert (first.record.state, first.record.action) == (ReclaimState.IDLE, ReclaimMode.OBSERVE)
    assert not first.record.has_warning
    assert reasons(first) == [NoticeReason.WOULD_RECLAIM]
    assert not look(policy=BUILT_IN, record=first.record).notices


def test_a_policy_that_turns_to_observing_ends_the_warning() -> None:
    decision = look(policy=BUILT_IN, record=WARNED)
    assert decision.step is Step.NONE
    assert not decision.record.has_warning


# ------------------------------------------------------------------------------------------------ doubts


@pytest.mark.parametrize(
    "idle, state",
    [
        (replace(IDLE, state=IdlenessState.ACTIVE), ReclaimState.ACTIVE),
        (replace(IDLE, state=IdlenessState.WAITING), ReclaimState.ACTIVE),
        (replace(IDLE, state=IdlenessState.UNKNOWN, reason=UnknownReason.STALE), ReclaimState.UNKNOWN),
        (replace(IDLE, pod_uids=frozenset({"pod-0"})), ReclaimState.ACTIVE),
        (replace(IDLE, pod_uids=frozenset()), ReclaimState.ACTIVE),
        (replace(IDLE, since=None), ReclaimState.UNKNOWN),
        (replace(IDLE, since=ago(59)), ReclaimState.IDLE),
    ],
)
def test_what_is_not_surely_idle_is_not_reclaimed(idle: Idleness, state: ReclaimState) -> None:
    for record in (Record(), WARNED, replace(WARNED, state=ReclaimState.RECLAIMING)):
        decision = look(idle=idle, record=record)
        assert (decision.step, decision.record.state) == (Step.NONE, state)


@pytest.mark.parametrize(
    "change, state",
    [
        ({"untouchable": "its Job is ending"}, ReclaimState.ACTIVE),
        ({"gpus": 0}, ReclaimState.EXEMPT),
        ({"job_type": JobType.SERVING}, ReclaimState.EXEMPT),
        ({"last_start": None}, ReclaimState.UNKNOWN),
        ({"last_start": ago(89)}, ReclaimState.IDLE),
        ({"pod_uids": frozenset({"pod-0", "pod-2"})}, ReclaimState.ACTIVE),
        ({"findings": ()}, ReclaimState.IDLE),
        ({"findings": (finding(confidence=Confidence.POSSIBLE),)}, ReclaimState.IDLE),
        ({"findings": (finding(until=ago(1)),)}, ReclaimState.IDLE),
        ({"findings": (finding(Category.STALLED), finding(Category.GPU_OVERSUBSCRIPTION))}, ReclaimState.IDLE),
        ({"idle_after": timedelta(hours=2)}, ReclaimState.IDLE),
        ({"snooze": "2026-11-21T13:00:00Z"}, ReclaimState.SNOOZED),
    ],
)
def test_jobs_that_are_left_alone(change: dict[str, Any], state: ReclaimState) -> None:
    for record in (Record(), WARNED):
        decision = look(job=replace(CANDIDATE, **change), record=record)
        assert (decision.step, decision.record.state) == (Step.NONE, state)
        assert not decision.record.has_warning or state is ReclaimState.UNKNOWN


def test_the_startup_grace_is_on_top_of_the_idle_time() -> None:
    never_worked = replace(IDLE, since=ago(89))
    job = replace(CANDIDATE, last_start=ago(89))
    assert look(job=job, idle=never_worked).record.state is ReclaimState.IDLE
    job = replace(CANDIDATE, last_start=ago(90))
    assert look(job=job, idle=replace(IDLE, since=ago(90))).record.state is ReclaimState.WARNED


@pytest.mark.parametrize(
    "wish, minutes, state",
    [
        (timedelta(minutes=1), 9, ReclaimState.IDLE),
        (timedelta(minutes=1), 10, ReclaimState.WARNED),
        (timedelta(hours=100), 24 * 60 - 1, ReclaimState.IDLE),
        (timedelta(hours=100), 24 * 60, ReclaimState.WARNED),
    ],
)
def test_a_jobs_own_idle_time_counts_within_bounds(wish: timedelta, minutes: int, state: ReclaimState) -> None:
    job = replace(CANDIDATE, idle_after=wish, last_start=ago(5000))
    assert look(job=job, idle=replace(IDLE, since=ago(minutes))).record.state is state


def test_where_a_jobs_word_is_not_trusted_serving_counts_as_training() -> None:
    job = replace(CANDIDATE, job_type=JobType.SERVING)
    assert look(job=job, policy=replace(SUSPENDS, trusted_job_types=False)).record.state is ReclaimState.WARNED


def test_an_exemption_from_everything_counts_for_reclaim_until_it_ends() -> None:
    exemption = Exemption(
        job_selector=LabelSelector(match_labels={"team": "nlp"}), reason="deadline week", until=ago(-1)
    )
    policy = replace(SUSPENDS, exemptions=(exemption,))
    job = replace(CANDIDATE, labels={"team": "nlp"})
    assert look(job=job, policy=policy, record=WARNED).record.state is ReclaimState.EXEMPT
    ended = replace(SUSPENDS, exemptions=(exemption.model_copy(update={"until": ago(1)}),))
    assert look(job=job, policy=ended).record.state is ReclaimState.WARNED


def test_an_interactive_job_without_a_persistent_volume_is_only_observed() -> None:
    job = replace(CANDIDATE, findings=(finding(Category.INTERACTIVE_JOB),))
    assert look(job=job, record=WARNED).record.action is ReclaimMode.OBSERVE
    kept = replace(job, has_persistent_volume=True)
    assert look(job=kept).record.state is ReclaimState.WARNED


def test_a_job_that_was_resumed_is_left_alone_for_a_while() -> None:
    assert look(record=Record(resumed_at=ago(59))).record.state is ReclaimState.IDLE
    assert look(record=Record(resumed_at=ago(60))).record.state is ReclaimState.WARNED


@pytest.mark.parametrize(
    "change", [{"job_uid": "other"}, {"pod_uids": frozenset({"pod-0"})}, {"warned_at": ago(91)}, {"deadline": None}]
)
def test_a_warning_about_something_else_is_given_anew(change: dict[str, Any]) -> None:
    decision = look(record=replace(WARNED, **change))
    assert decision.step is Step.NONE
    assert reasons(decision) == [NoticeReason.WARNED]
    assert decision.record.deadline is not None
    assert decision.record.deadline > NOW


def test_activity_cancels_a_warning_and_says_so() -> None:
    decision = look(record=WARNED, idle=replace(IDLE, state=IdlenessState.ACTIVE, message="GPU 0 works"))
    assert reasons(decision) == [NoticeReason.CANCELLED]
    assert "cancelled" in decision.record.history[-1]
    assert not decision.record.has_warning


@pytest.mark.parametrize("source", [Source.SCRIPT, Source.MANIFEST])
def test_a_cause_that_only_the_manifest_shows_is_only_reported(source: Source) -> None:
    """`train.py; sleep 60` says nothing of a job that still works on its CPUs."""
    decision = look(job=replace(CANDIDATE, findings=(replace(finding(), sources=(source,)),)))
    assert (decision.step, decision.record.state, decision.record.has_warning) == (Step.NONE, ReclaimState.IDLE, False)


def test_a_rule_that_the_policy_turns_off_is_no_reason() -> None:
    off = replace(SUSPENDS, rules={finding().rule: RuleSetting(action=Action.OFF)})
    assert look(policy=off, record=WARNED).record.state is ReclaimState.IDLE


def test_a_job_that_is_exempt_from_the_rule_is_left_alone_until_the_exemption_ends() -> None:
    for until, step in ((NOW + timedelta(hours=1), Step.NONE), (NOW, Step.RECLAIM)):
        selector = LabelSelector(match_labels={"team": "nlp"})
        exempt = Exemption(job_selector=selector, rules=(finding().rule,), until=until, reason="a campaign")
        job = replace(CANDIDATE, labels={"team": "nlp"})
        assert look(job=job, policy=replace(SUSPENDS, exemptions=(exempt,)), record=WARNED).step is step


def test_who_was_warned_of_a_suspension_is_warned_anew_before_a_deletion() -> None:
    decision = look(policy=with_reclaim(mode=ReclaimMode.DELETE), record=WARNED)
    assert (decision.step, reasons(decision)) == (Step.NONE, [NoticeReason.WARNED])
    assert decision.record.deadline is not None
    assert decision.record.deadline > NOW


def test_new_pods_are_not_idle_since_the_old_ones_were() -> None:
    decision = look(record=Record(), job=replace(CANDIDATE, pod_uids=frozenset({"new-0"})))
    assert decision.record.idle_since is None


def test_not_knowing_keeps_the_warning_and_does_nothing() -> None:
    unknown = look(record=WARNED, idle=replace(IDLE, state=IdlenessState.UNKNOWN))
    assert (unknown.step, unknown.record.state, unknown.record.has_warning) == (Step.NONE, ReclaimState.UNKNOWN, True)
    assert look(record=unknown.record).step is Step.RECLAIM
    worked_meanwhile = look(record=unknown.record, idle=replace(IDLE, since=ago(19)), policy=with_reclaim(
        idle_after=timedelta(minutes=10)))  # fmt: skip
    assert reasons(worked_meanwhile) == [NoticeReason.WARNED]


def test_pressure_and_schedule_hold_a_warned_job() -> None:
    nobody = Circumstances(pressure=Obstruction(reason="no pending pod asks for nvidia.com/gpu"))
    assert look(record=WARNED, policy=with_reclaim(on_pressure_only=True), around=nobody).step is Step.NONE
    assert look(record=WARNED, policy=with_reclaim(on_pressure_only=True)).step is Step.RECLAIM
    closed = ScheduleWindow(start="18:00", end="08:00")
    assert look(record=WARNED, policy=with_reclaim(schedule=(closed,))).step is Step.NONE
    opened = ScheduleWindow(start="08:00", end="18:00")
    assert look(record=WARNED, policy=with_reclaim(schedule=(opened,))).step is Step.RECLAIM


# ------------------------------------------------------------------------------------------------ snooze


def test_a_snooze_far_in_the_future_is_bounded_once_and_for_all() -> None:
    job = replace(CANDIDATE, snooze="2099-01-01T00:00:00Z")
    first = look(job=job)
    assert reasons(first) == [NoticeReason.SNOOZE_CLAMPED]
    assert first.record.snoozed_until == NOW + timedelta(hours=24)
    later = NOW + timedelta(hours=25)
    idle = replace(IDLE, observed_at=later)
    after = decide(job, idle, SUSPENDS, first.record, later)
    assert after.record.state is ReclaimState.WARNED


@pytest.mark.parametrize(
    "text", ["tomorrow", "", "2026-11-21T13:00:00", "2026-99-99T00:00:00Z", "0001-01-01T00:00:00+14:00"]
)
def test_a_snooze_that_cannot_be_read_is_told_and_does_not_count(text: str) -> None:
    decision = look(job=replace(CANDIDATE, snooze=text))
    assert reasons(decision) == [NoticeReason.SNOOZE_IGNORED, NoticeReason.WARNED]


def test_a_snooze_that_is_taken_back_does_not_count_any_more() -> None:
    snoozed = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")).record
    assert look(record=snoozed).record.state is ReclaimState.WARNED


def test_a_snooze_cancels_a_warning() -> None:
    decision = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z"), record=WARNED)
    assert decision.record.state is ReclaimState.SNOOZED
    assert not decision.record.has_warning
    assert reasons(decision) == [NoticeReason.SNOOZED, NoticeReason.CANCELLED]
