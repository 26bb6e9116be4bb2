"""plan(): every doubt means that nothing is done."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.api.meta import LabelSelector
from stoker.api.policy import Exemption, ReclaimClass, RuleSetting, ScheduleWindow
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import (
    Action,
    Category,
    Confidence,
    JobType,
    ReclaimEvent,
    ReclaimMode,
    ReclaimState,
    Source,
    UnknownReason,
)
from stoker.policy.effective import BUILT_IN, PolicyRevision
from stoker.reclaim import Constraints, Execution, NoticeReason, Obstruction, Presence, Record, Step
from stoker.reclaim.case import CLOCKS_APART
from tests.reclaim.cases import (
    BUSY,
    CANDIDATE,
    CONFIRMED,
    IDLE,
    NOW,
    PODS,
    SUSPENDS,
    UNKNOWN,
    WARNED,
    ago,
    finding,
    look,
    plan_of,
    reasons,
    with_reclaim,
)

GRACE = timedelta(minutes=15)

# ------------------------------------------------------------------------------------------------ the way to a reclaim


def test_an_idle_job_with_a_cause_is_warned_first() -> None:
    decision = look()
    record = decision.record
    assert (record.state, decision.step) == (ReclaimState.WARNED, Step.WARN)
    assert reasons(decision) == [NoticeReason.WARNED]
    assert record.warned_at is not None
    assert record.deadline is not None
    assert record.warned_at >= NOW
    assert record.deadline - record.warned_at == timedelta(minutes=15)
    assert (record.job_uid, record.pod_uids, record.rule) == ("job", PODS, "rule-of-UnreleasedJob")


def test_a_warning_that_was_written_is_acted_upon_after_its_deadline() -> None:
    assert look(record=WARNED).step is Step.SUSPEND


@pytest.mark.parametrize("minutes, step", [(0.1, Step.RECORD), (0, Step.SUSPEND)])
def test_not_a_second_before_the_deadline(minutes: float, step: Step) -> None:
    record = replace(WARNED, warned_at=ago(15 - minutes), deadline=ago(-minutes))
    assert look(record=record).step is step


def test_an_intent_without_the_action_is_decided_like_a_warning() -> None:
    intent = replace(WARNED, state=ReclaimState.RECLAIMING)
    assert look(record=intent).step is Step.SUSPEND
    assert look(record=intent, idle=replace(IDLE, state=IdlenessState.ACTIVE)).record.state is ReclaimState.ACTIVE


def test_the_same_look_twice_warns_once() -> None:
    first = look()
    again = plan_of(CANDIDATE, IDLE, SUSPENDS, first.record, NOW + timedelta(seconds=30))
    assert not again.notices
    assert (again.record.warned_at, again.record.deadline) == (first.record.warned_at, first.record.deadline)


def test_the_controllers_floor_makes_the_grace_longer_never_shorter() -> None:
    quick = with_reclaim(warning_grace=timedelta(minutes=1))
    record = look(policy=quick).record
    assert record.deadline is not None
    assert record.warned_at is not None
    assert record.deadline - record.warned_at == timedelta(minutes=5)
    lowered = look(policy=quick, constraints=Constraints(minimum_warning_grace=timedelta(0))).record
    assert lowered.deadline is not None
    assert lowered.warned_at is not None
    assert lowered.deadline - lowered.warned_at == timedelta(minutes=1)


def test_a_policy_that_grants_more_time_later_counts_and_one_that_grants_less_does_not() -> None:
    assert look(record=WARNED, policy=with_reclaim(warning_grace=timedelta(hours=1))).step is Step.RECORD
    waiting = replace(WARNED, warned_at=ago(1), deadline=ago(-14))
    assert look(record=waiting, policy=with_reclaim(warning_grace=timedelta(minutes=5))).step is Step.RECORD


def test_a_fresh_install_only_observes_and_says_so_once() -> None:
    first = look(policy=BUILT_IN)
    assert (first.record.state, first.record.action) == (ReclaimState.IDLE, ReclaimMode.OBSERVE)
    assert not first.record.has_warning
    assert reasons(first) == [NoticeReason.WOULD_RECLAIM]
    assert not look(policy=BUILT_IN, record=first.record).notices


def test_a_policy_that_turns_to_observing_ends_the_warning() -> None:
    decision = look(policy=BUILT_IN, record=WARNED)
    assert decision.step is Step.RECORD
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
        assert (decision.step, decision.record.state) == (Step.RECORD, state)


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
        assert (decision.step, decision.record.state) == (Step.RECORD, state)
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
    job = replace(CANDIDATE, findings=(finding(Category.INTERACTIVE_JOB),), has_persistent_volume=False)
    assert look(job=job, record=WARNED).record.action is ReclaimMode.OBSERVE
    kept = replace(job, has_persistent_volume=True)
    assert look(job=kept).record.state is ReclaimState.WARNED
    assert look(job=job, policy=with_reclaim(training_without_volume=True)).gate == "nothing-lost"


def test_a_training_whose_results_are_only_in_its_containers_is_only_observed() -> None:
    """A script that sleeps after the training may do so for its author to copy the result out."""
    job = replace(CANDIDATE, has_persistent_volume=False)
    held = look(job=job, record=WARNED)
    assert (held.step, held.gate, held.record.action) == (Step.RECORD, "nothing-lost", ReclaimMode.OBSERVE)
    assert "results may be lost" in held.record.reason
    assert look(job=job, policy=with_reclaim(interactive_without_volume=True)).gate == "nothing-lost"


def test_a_warning_says_what_would_be_lost() -> None:
    job = replace(CANDIDATE, has_persistent_volume=False)
    (lost,) = look(job=job, policy=with_reclaim(training_without_volume=True)).notices
    assert "all files in its containers will be lost" in lost.message
    (kept,) = look().notices
    assert "Files outside its persistent volumes will be lost" in kept.message


def test_what_declares_a_port_is_a_service_unless_it_says_that_a_person_works_in_it() -> None:
    job = replace(CANDIDATE, offers="port 8000")
    held = look(job=job, record=WARNED)
    assert (held.step, held.gate, held.record.state) == (Step.RECORD, "no-service", ReclaimState.EXEMPT)
    assert "port 8000" in held.record.reason
    assert look(job=replace(job, job_type=JobType.INTERACTIVE)).record.state is ReclaimState.WARNED


def test_a_job_that_was_resumed_is_left_alone_for_a_while() -> None:
    assert look(record=Record(resumed_at=ago(59))).record.state is ReclaimState.IDLE
    assert look(record=Record(resumed_at=ago(60))).record.state is ReclaimState.WARNED


@pytest.mark.parametrize(
    "change", [{"job_uid": "other"}, {"pod_uids": frozenset({"pod-0"})}, {"warned_at": ago(91)}, {"deadline": None}]
)
def test_a_warning_about_something_else_is_given_anew(change: dict[str, Any]) -> None:
    decision = look(record=replace(WARNED, **change))
    assert decision.step is Step.WARN
    assert reasons(decision) == [NoticeReason.WARNED]
    assert decision.record.deadline is not None
    assert decision.record.deadline > NOW


def test_activity_cancels_a_warning_and_says_so() -> None:
    decision = look(record=WARNED, idle=replace(IDLE, state=IdlenessState.ACTIVE, message="GPU 0 works"))
    assert reasons(decision) == [NoticeReason.CANCELLED]
    assert decision.record.history[-1].event is ReclaimEvent.CANCELLED
    assert not decision.record.has_warning


@pytest.mark.parametrize("source", [Source.SCRIPT, Source.MANIFEST])
def test_a_cause_that_only_the_manifest_shows_is_only_reported(source: Source) -> None:
    """`train.py; sleep 60` says nothing of a job that still works on its CPUs."""
    decision = look(job=replace(CANDIDATE, findings=(replace(finding(), sources=(source,)),)))
    assert (decision.step, decision.record.state, decision.record.has_warning) == (
        Step.RECORD,
        ReclaimState.IDLE,
        False,
    )


def test_a_rule_that_the_policy_turns_off_is_no_reason() -> None:
    off = replace(SUSPENDS, rules={finding().rule: RuleSetting(action=Action.OFF)})
    assert look(policy=off, record=WARNED).record.state is ReclaimState.IDLE


def test_a_job_that_is_exempt_from_the_rule_is_left_alone_until_the_exemption_ends() -> None:
    for until, step in ((NOW + timedelta(hours=1), Step.RECORD), (NOW, Step.SUSPEND)):
        selector = LabelSelector(match_labels={"team": "nlp"})
        exempt = Exemption(job_selector=selector, rules=(finding().rule,), until=until, reason="a campaign")
        job = replace(CANDIDATE, labels={"team": "nlp"})
        assert look(job=job, policy=replace(SUSPENDS, exemptions=(exempt,)), record=WARNED).step is step


def test_who_was_warned_of_a_suspension_is_warned_anew_before_a_deletion() -> None:
    decision = look(policy=with_reclaim(mode=ReclaimMode.DELETE), record=WARNED)
    assert (decision.step, reasons(decision)) == (Step.WARN, [NoticeReason.WARNED])
    assert decision.record.deadline is not None
    assert decision.record.deadline > NOW


def test_new_pods_are_not_idle_since_the_old_ones_were() -> None:
    decision = look(record=Record(), job=replace(CANDIDATE, pod_uids=frozenset({"new-0"})))
    assert decision.record.idle_since is None


def test_not_knowing_keeps_the_warning_and_does_nothing() -> None:
    unknown = look(record=WARNED, idle=replace(IDLE, state=IdlenessState.UNKNOWN))
    assert (unknown.step, unknown.record.state, unknown.record.has_warning) == (Step.RECORD, ReclaimState.UNKNOWN, True)
    assert look(record=unknown.record).step is Step.SUSPEND
    worked_meanwhile = look(record=unknown.record, idle=replace(IDLE, since=ago(19)), policy=with_reclaim(
        idle_after=timedelta(minutes=10)))  # fmt: skip
    assert reasons(worked_meanwhile) == [NoticeReason.WARNED]


def test_pressure_and_schedule_hold_a_warned_job() -> None:
    nobody = Constraints(pressure=Obstruction(reason="no pending pod asks for nvidia.com/gpu"))
    assert look(record=WARNED, policy=with_reclaim(on_pressure_only=True), constraints=nobody).step is Step.RECORD
    assert look(record=WARNED, policy=with_reclaim(on_pressure_only=True)).step is Step.SUSPEND
    closed = ScheduleWindow(start="18:00", end="08:00")
    assert look(record=WARNED, policy=with_reclaim(schedule=(closed,))).step is Step.RECORD
    opened = ScheduleWindow(start="08:00", end="18:00")
    assert look(record=WARNED, policy=with_reclaim(schedule=(opened,))).step is Step.SUSPEND


# ------------------------------------------------------------------------------------------------ snooze


def test_a_snooze_far_in_the_future_is_bounded_once_and_for_all() -> None:
    job = replace(CANDIDATE, snooze="2099-01-01T00:00:00Z")
    first = look(job=job)
    assert reasons(first) == [NoticeReason.SNOOZE_CLAMPED]
    assert first.record.snoozed_until == NOW + timedelta(hours=24)
    later = NOW + timedelta(hours=25)
    idle = replace(IDLE, observed_at=later)
    after = plan_of(job, idle, SUSPENDS, first.record, later)
    assert after.record.state is ReclaimState.WARNED


@pytest.mark.parametrize(
    "text", ["tomorrow", "", "2026-11-21T13:00:00", "2026-99-99T00:00:00Z", "0001-01-01T00:00:00+14:00"]
)
def test_a_snooze_that_cannot_be_read_is_told_and_does_not_count(text: str) -> None:
    decision = look(job=replace(CANDIDATE, snooze=text))
    assert reasons(decision) == [NoticeReason.SNOOZE_IGNORED, NoticeReason.WARNED]


def test_a_snooze_until_a_time_that_is_past_is_told_once_and_puts_nothing_off() -> None:
    decision = look(job=replace(CANDIDATE, snooze=rfc3339(ago(5))), record=WARNED)
    (notice,) = decision.notices
    assert (notice.reason, "is in the past" in notice.message) == (NoticeReason.SNOOZE_IGNORED, True)
    assert (decision.record.snoozes, decision.step) == (0, Step.SUSPEND)
    assert not look(job=replace(CANDIDATE, snooze=rfc3339(ago(5))), record=decision.record).notices


def test_a_slip_of_the_pen_does_not_take_an_earlier_snooze_back() -> None:
    snoozed = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")).record
    decision = look(job=replace(CANDIDATE, snooze="2026-11-21 at four"), record=snoozed)
    assert (decision.record.state, reasons(decision)) == (ReclaimState.SNOOZED, [NoticeReason.SNOOZE_IGNORED])


def test_a_snooze_that_is_taken_back_does_not_count_any_more() -> None:
    snoozed = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")).record
    decision = look(record=snoozed)
    assert decision.record.state is ReclaimState.WARNED
    assert reasons(decision) == [NoticeReason.SNOOZE_WITHDRAWN, NoticeReason.WARNED]
    over = replace(snoozed, snoozed_until=ago(1))
    assert reasons(look(record=over)) == [NoticeReason.WARNED], "of one that is over nothing is left to take back"


def test_a_snooze_cancels_a_warning() -> None:
    decision = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z"), record=WARNED)
    assert decision.record.state is ReclaimState.SNOOZED
    assert not decision.record.has_warning
    assert reasons(decision) == [NoticeReason.SNOOZED, NoticeReason.CANCELLED]


# ------------------------------------------------------------------------------------------------ meanwhile


def test_an_idle_time_that_is_lengthened_after_the_warning_ends_it() -> None:
    decision = look(record=WARNED, policy=with_reclaim(idle_after=timedelta(hours=2)))
    assert (decision.record.state, decision.record.has_warning) == (ReclaimState.IDLE, False)
    assert reasons(decision) == [NoticeReason.CANCELLED]


def test_a_container_that_was_restarted_after_the_warning_is_not_the_one_that_was_warned() -> None:
    """Though it has rested for long enough since, and nobody looked in between."""
    quick = with_reclaim(idle_after=timedelta(minutes=10), startup_grace=timedelta(0))
    decision = look(job=replace(CANDIDATE, last_start=ago(15)), record=WARNED, policy=quick)
    assert (decision.step, reasons(decision)) == (Step.WARN, [NoticeReason.WARNED])
    assert decision.record.idle_since == ago(15)


@pytest.mark.parametrize(
    "minutes, step, reason",
    [(5, Step.RECORD, NoticeReason.CANCELLED), (15, Step.WARN, NoticeReason.WARNED)],
)
def test_somebody_who_came_by_after_the_warning_is_warned_again(
    minutes: float, step: Step, reason: NoticeReason
) -> None:
    """Also where the controller was away while the visit counted."""
    quick = with_reclaim(idle_after=timedelta(minutes=10))
    visited = replace(CANDIDATE, presence=Presence(last_seen=ago(minutes), how="a session was opened"))
    decision = look(job=visited, record=WARNED, policy=quick)
    assert (decision.step, reasons(decision)) == (step, [reason])


def test_what_is_stamped_close_to_the_warning_counts_as_after_it() -> None:
    """Prometheus' clock, or the API server's, may lie behind the controller's."""
    quick = with_reclaim(idle_after=timedelta(minutes=10))
    for seconds, step in ((59, Step.WARN), (60, Step.SUSPEND)):
        since = ago(20) - timedelta(seconds=seconds)
        assert look(idle=replace(IDLE, since=since), record=WARNED, policy=quick).step is step


@pytest.mark.parametrize("minutes, step", [(6, Step.RECORD), (5, Step.SUSPEND), (-1, Step.SUSPEND), (-2, Step.RECORD)])
def test_an_old_look_says_nothing_and_neither_does_one_from_the_future(minutes: float, step: Step) -> None:
    decision = look(idle=replace(IDLE, observed_at=ago(minutes)), record=WARNED)
    assert decision.step is step
    assert decision.record.has_warning


def test_a_clock_that_is_set_back_makes_the_grace_longer() -> None:
    record = replace(WARNED, warned_at=ago(-60), deadline=ago(-75))
    assert look(record=record).step is Step.RECORD


@pytest.mark.parametrize("state", [None, ReclaimState.ACTIVE, ReclaimState.IDLE, ReclaimState.SNOOZED])
def test_the_marks_of_a_warning_in_a_state_that_has_none_are_nobodys(state: ReclaimState | None) -> None:
    stray = replace(WARNED, state=state)
    assert reasons(look(record=stray)) == [NoticeReason.WARNED]
    gap = look(idle=UNKNOWN, record=stray).record
    assert (gap.state, gap.warned_at, look(record=gap).step) == (ReclaimState.UNKNOWN, None, Step.WARN)


def test_times_at_the_ends_of_the_calendar_hold_and_break_nothing() -> None:
    for end in (datetime.max.replace(tzinfo=NOW.tzinfo), datetime.min.replace(tzinfo=NOW.tzinfo)):
        record = replace(WARNED, warned_at=end, deadline=end, resumed_at=end, snoozed_until=end)
        visited = replace(CANDIDATE, last_start=end, presence=Presence(last_seen=end, how="a clock gone mad"))
        assert look(job=visited, record=record).step in {Step.RECORD, Step.WARN}


def test_a_brake_holds_a_warning_and_gives_none() -> None:
    brake = Constraints(brake=Obstruction(reason="40 of 60 GPUs turned idle at once"))
    assert look(constraints=brake).record.state is ReclaimState.IDLE
    held = look(constraints=brake, record=WARNED)
    assert (held.step, held.record.state, held.record.deadline) == (Step.RECORD, ReclaimState.WARNED, WARNED.deadline)


def test_a_job_that_hangs_is_left_alone_beside_whatever_else_is_found() -> None:
    stalled = finding(Category.STALLED, Confidence.POSSIBLE)
    decision = look(job=replace(CANDIDATE, findings=(finding(), stalled)), record=WARNED)
    assert (decision.gate, decision.record.has_warning) == ("not-stalled", False)


def test_a_snooze_reaches_an_intent_whose_action_is_not_done() -> None:
    intent = replace(WARNED, state=ReclaimState.RECLAIMING)
    decision = look(job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z"), record=intent)
    assert (decision.step, decision.record.state) == (Step.RECORD, ReclaimState.SNOOZED)


def test_a_session_without_a_volume_is_kept_whatever_else_is_found_of_it() -> None:
    unreleased, interactive = finding(), finding(Category.INTERACTIVE_JOB, Confidence.POSSIBLE)
    without = replace(CANDIDATE, has_persistent_volume=False)
    assert look(job=replace(without, findings=(unreleased, interactive))).gate == "nothing-lost"
    assert look(job=replace(without, job_type=JobType.INTERACTIVE)).gate == "nothing-lost"
    allowed = with_reclaim(interactive_without_volume=True)
    assert look(job=replace(without, job_type=JobType.INTERACTIVE), policy=allowed).gate == "warned"


@pytest.mark.parametrize("grace", [None, timedelta(seconds=29)])
def test_pods_that_may_have_no_time_for_a_checkpoint_are_only_observed(grace: timedelta | None) -> None:
    decision = look(job=replace(CANDIDATE, termination_grace=grace), record=WARNED)
    assert (decision.gate, decision.record.action) == ("checkpoint-grace", ReclaimMode.OBSERVE)


def test_a_gap_in_the_metrics_is_no_reason_to_say_again_what_would_be_reclaimed() -> None:
    observed = look(policy=BUILT_IN).record
    gap = look(policy=BUILT_IN, record=observed, idle=UNKNOWN).record
    assert not look(policy=BUILT_IN, record=gap).notices


# ------------------------------------------------------------------------------------------------ policy


PATIENT = ReclaimClass(name="notebooks", job_types=(JobType.INTERACTIVE,), idle_after="12h")
URGENT = ReclaimClass(name="h100", gpu_products=("NVIDIA-H100",), idle_after="30m", mode=ReclaimMode.DELETE)
CLASSES = with_reclaim(classes=(PATIENT, URGENT))


def test_the_first_class_that_a_job_belongs_to_counts() -> None:
    both = replace(CANDIDATE, job_type=JobType.INTERACTIVE, gpu_product="NVIDIA-H100", has_persistent_volume=True)
    assert look(job=both, policy=CLASSES).gate == "idle-long-enough"
    assert look(job=replace(both, job_type=JobType.TRAINING), policy=CLASSES).record.action is ReclaimMode.DELETE
    assert look(policy=CLASSES).record.action is ReclaimMode.SUSPEND


@pytest.mark.parametrize(
    "selects",
    [
        {"priority_classes": ("low",)},
        {"job_selector": LabelSelector(match_labels={"team": "nlp"})},
        {"gpu_products": ("NVIDIA-H100",)},
        {"job_types": (JobType.EVALUATION,)},
    ],
)
def test_a_class_is_chosen_by_any_trait(selects: dict[str, Any]) -> None:
    policy = with_reclaim(classes=(ReclaimClass(name="one", mode=ReclaimMode.OBSERVE, **selects),))
    inside = replace(
        CANDIDATE,
        job_type=JobType.EVALUATION,
        priority_class="low",
        gpu_product="NVIDIA-H100",
        labels={"team": "nlp"},
    )
    assert look(job=inside, policy=policy).gate == "mode"
    assert look(policy=policy).gate == "warned"


def test_a_job_whose_word_is_not_taken_is_not_in_the_class_of_its_word() -> None:
    says = replace(CANDIDATE, job_type=JobType.INTERACTIVE, has_persistent_volume=True)
    assert look(job=says, policy=CLASSES).gate == "idle-long-enough"
    assert look(job=says, policy=replace(CLASSES, trusted_job_types=False)).gate == "warned"


def test_a_class_that_only_observes_from_now_on_ends_the_warning() -> None:
    policy = with_reclaim(classes=(ReclaimClass(name="all", job_selector=LabelSelector(match_labels={}),
                                                mode=ReclaimMode.OBSERVE),))  # fmt: skip
    decision = look(policy=policy, record=WARNED)
    assert (decision.record.has_warning, "class all" in decision.record.reason) == (False, True)


def test_a_closed_schedule_says_when_it_opens() -> None:
    closed = with_reclaim(schedule=(ScheduleWindow(start="18:00", end="08:00", time_zone="Europe/Berlin"),))
    decision = look(record=WARNED, policy=closed)
    assert (decision.gate, decision.until) == ("schedule-open", NOW.replace(hour=17))
    assert "2026-11-21T17:00:00Z" in decision.record.reason


def test_a_change_of_the_policy_is_noted_in_jobs_that_it_concerns() -> None:
    revised = replace(SUSPENDS, revisions=(PolicyRevision(name="default", generation=2),))
    warned = look(policy=replace(SUSPENDS, revisions=(PolicyRevision(name="default", generation=1),))).record
    noted = look(policy=revised, record=warned).record
    assert noted.history[-1].event is ReclaimEvent.POLICY_CHANGED
    assert noted.history[-1].policy == PolicyRevision(name="default", generation=2)
    assert noted.policies == revised.revisions


def test_of_many_changes_of_the_policy_the_history_keeps_the_last() -> None:
    record = look(policy=replace(SUSPENDS, revisions=(PolicyRevision(name="default", generation=1),))).record
    for generation in range(2, 30):
        record = look(
            policy=replace(SUSPENDS, revisions=(PolicyRevision(name="default", generation=generation),)), record=record
        ).record
    assert [(entry.event, entry.policy) for entry in record.history] == [
        (ReclaimEvent.WARNED, PolicyRevision(name="default", generation=1)),
        (ReclaimEvent.POLICY_CHANGED, PolicyRevision(name="default", generation=29)),
    ]


@pytest.mark.parametrize(
    "idle, job",
    [
        (BUSY, CANDIDATE),
        (UNKNOWN, CANDIDATE),
        (IDLE, replace(CANDIDATE, job_type=JobType.SERVING)),
        (IDLE, replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")),
    ],
)
def test_ten_thousand_jobs_that_are_not_concerned_are_not_written_to_when_a_policy_changes(
    idle: Idleness, job: Any
) -> None:
    """Their record is the same to the letter, and a status that is the same is not written."""
    record = look(
        job=job, idle=idle, policy=replace(SUSPENDS, revisions=(PolicyRevision(name="default", generation=1),))
    ).record
    for generation in range(2, 5):
        changed = with_reclaim(idle_after=timedelta(minutes=10 * generation))
        after = look(
            job=job,
            idle=idle,
            policy=replace(changed, revisions=(PolicyRevision(name="default", generation=generation),)),
            record=record,
        )
        assert (after.record, after.notices) == (record, ())


def test_rest_counts_from_when_metrics_are_to_be_trusted_again() -> None:
    assert look().step is Step.WARN
    assert look().record.state is ReclaimState.WARNED
    ended = Constraints(doubted_until=NOW - timedelta(minutes=59))
    early = look(constraints=ended)
    assert early.record.state is ReclaimState.IDLE
    assert early.until == NOW + timedelta(minutes=1)
    assert look(constraints=ended, record=WARNED).record.state is ReclaimState.IDLE, "a warning rested on those metrics"
    older = Constraints(doubted_until=NOW - timedelta(minutes=60))
    assert look(constraints=older).record.state is ReclaimState.WARNED


def test_a_warned_stretch_keeps_the_beginning_that_was_told() -> None:
    told = replace(WARNED, idle_since=ago(95))
    assert look(record=told, idle=replace(IDLE, since=ago(80))).record.idle_since == ago(95)
    assert look(record=told, idle=replace(IDLE, since=ago(99))).record.idle_since == ago(99)


# ------------------------------------------------------------------------------- what only the deciding process knows


def test_a_process_that_has_observed_nothing_yet_holds_every_reclaim_back() -> None:
    planned = look(record=WARNED, execution=Execution())
    assert (planned.gate, planned.step, planned.record.state) == ("examined", Step.EXAMINE, ReclaimState.WARNED)
    assert "waits for the next examination" in planned.record.reason


@pytest.mark.parametrize("minutes, gate", [(5, "checked-again"), (5.1, "examined")])
def test_the_cause_must_have_been_examined_within_five_minutes(minutes: float, gate: str) -> None:
    execution = Execution(warning_age=GRACE, examination_age=timedelta(minutes=minutes))
    assert look(record=WARNED, execution=execution).gate == gate


def test_samples_that_an_examination_lacked_are_named() -> None:
    execution = Execution(is_examination_incomplete=True, examination_gap=(ago(12), ago(4)))
    assert (
        "(a gap from 2026-11-21T11:48:00Z to 2026-11-21T11:56:00Z)"
        in look(record=WARNED, execution=execution).record.reason
    )


def test_the_grace_of_a_warning_that_this_process_recorded_counts_by_the_monotonic_clock() -> None:
    """Whatever the times in the status say."""
    execution = replace(CONFIRMED, warning_age=timedelta(minutes=14))
    held = look(record=WARNED, execution=execution)
    assert (held.gate, held.step, held.record.state) == ("grace-elapsed", Step.RECORD, ReclaimState.WARNED)
    assert held.until == NOW + timedelta(minutes=1)
    assert look(record=WARNED, execution=replace(execution, warning_age=GRACE)).step is Step.SUSPEND


def test_a_warning_of_another_process_stands_until_no_clock_can_doubt_it() -> None:
    execution = replace(CONFIRMED, warning_age=None)
    over = replace(WARNED, deadline=NOW, warned_at=NOW - GRACE)
    held = look(record=over, execution=execution)
    assert (held.gate, held.until) == ("grace-elapsed", NOW + CLOCKS_APART)
    earlier = replace(over, deadline=NOW - CLOCKS_APART, warned_at=NOW - GRACE - CLOCKS_APART)
    assert look(record=earlier, execution=execution).step is Step.SUSPEND


def test_the_steps_to_an_action_come_in_their_order_and_each_opens_its_gate() -> None:
    execution = Execution(warning_age=GRACE, examination_age=timedelta(0))
    taken: list[Step] = []
    for opened in (
        {"check_age": timedelta(0)},
        {"slot_taken": True},
        {"intent_recorded": True},
    ):
        planned = look(record=WARNED, execution=execution)
        taken.append(planned.step)
        execution = replace(execution, **opened)
    done = look(record=WARNED, execution=execution)
    assert [*taken, done.step] == [Step.CHECK_AGAIN, Step.TAKE_SLOT, Step.RECORD_INTENT, Step.SUSPEND]
    assert planned.record == done.record
    assert done.record.state is ReclaimState.RECLAIMING
    deletes = look(record=replace(WARNED, action=ReclaimMode.DELETE), policy=with_reclaim(mode=ReclaimMode.DELETE))
    assert deletes.step is Step.DELETE


def test_without_a_slot_nothing_is_written() -> None:
    assert look(record=WARNED, execution=replace(CONFIRMED, slot_taken=False)).step is Step.STOP


@pytest.mark.parametrize("seconds, step", [(20, Step.SUSPEND), (25, Step.RETRY)])
def test_an_old_check_carries_no_action(seconds: float, step: Step) -> None:
    planned = look(record=WARNED, execution=replace(CONFIRMED, check_age=timedelta(seconds=seconds)))
    assert planned.step is step
    assert step is Step.SUSPEND or planned.reason == "the fresh check is 25 s old"


def test_an_owners_response_is_recorded_before_anything_else() -> None:
    for job in (replace(CANDIDATE, resume="please"), replace(CANDIDATE, unsuspended=True)):
        planned = look(job=job, record=WARNED)
        assert (planned.gate, planned.step, planned.record) == ("response-recorded", Step.RETRY, WARNED)
    assert look(job=replace(CANDIDATE, resume="old"), record=replace(WARNED, handled_resume="old")).step is Step.SUSPEND


def test_an_intent_stands_while_nobody_knows_whether_its_action_was_done() -> None:
    intent = replace(WARNED, state=ReclaimState.RECLAIMING)
    planned = look(job=replace(CANDIDATE, unsuspendable="Kueue can't be read"), record=intent)
    assert (planned.gate, planned.record.state) == ("intent-settled", ReclaimState.RECLAIMING)
    assert planned.record.reason == "it is unknown whether it is suspended: Kueue can't be read"


def test_before_the_first_scan_after_a_restart_the_record_stays() -> None:
    execution = replace(CONFIRMED, is_sampled=False)
    snoozed = replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")
    planned = look(job=snoozed, record=WARNED, execution=execution)
    assert (planned.gate, planned.record, planned.notices) == ("sampled", WARNED, ())
    ended = look(job=replace(CANDIDATE, untouchable="it is suspended"), record=WARNED, execution=execution)
    assert (ended.gate, ended.record.state) == ("touchable", ReclaimState.ACTIVE)
