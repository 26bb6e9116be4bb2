"""What is explained is what is decided, whatever the case: also of records that nobody could have written."""

import re
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.meta import LabelSelector
from stoker.api.policy import Exemption, ReclaimClass, RuleSetting, ScheduleWindow
from stoker.api.status import ReclaimStatus
from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Action, Category, Confidence, JobType, ReclaimMode, ReclaimState, Source
from stoker.policy.effective import EffectivePolicy, EffectiveReclaim, PolicyRevision
from stoker.reclaim import (
    ACTS,
    GATES,
    TRANSITIONS,
    Candidate,
    Case,
    Constraints,
    Execution,
    Obstruction,
    Presence,
    Record,
    Step,
    Trigger,
    explain,
    plan,
)
from stoker.reclaim.gate import GateGroup
from tests.reclaim.cases import BUSY, CANDIDATE, CONFIRMED, IDLE, NOW, PODS, SUSPENDS, WARNED, ago, finding

ENDS_OF_TIME = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
minutes = st.sampled_from([-10_000, -60, -1, 0, 1, 4, 14, 15, 16, 30, 59, 60, 61, 89, 90, 91, 600, 10_000])
times = minutes.map(ago) | st.sampled_from(ENDS_OF_TIME)
maybe_time = st.none() | times
pods = st.sampled_from([PODS, frozenset({"pod-0"}), frozenset[str]()])
obstructions = st.none() | st.builds(Obstruction, reason=st.just("enough"), until=maybe_time)
durations = st.sampled_from([timedelta(0), timedelta(minutes=10), timedelta(minutes=15), timedelta(hours=2)])

findings: st.SearchStrategy[Finding] = st.builds(
    lambda category, confidence, until, source: replace(finding(category, confidence, until), sources=(source,)),
    st.sampled_from([Category.UNRELEASED_JOB, Category.INTERACTIVE_JOB, Category.STALLED, Category.DATA_EXCHANGE]),
    st.sampled_from(Confidence),
    maybe_time,
    st.sampled_from([Source.METRICS, Source.SCRIPT]),
)
candidates = st.builds(
    Candidate,
    job_type=st.sampled_from(JobType),
    gpus=st.sampled_from([0, 8, 16]),
    job_uid=st.sampled_from(["job", "other"]),
    pod_uids=pods,
    last_start=maybe_time,
    labels=st.sampled_from([{}, {"team": "nlp"}]),
    priority_class=st.sampled_from([None, "low"]),
    findings=st.lists(findings, max_size=3).map(tuple),
    idle_after=st.none() | durations,
    snooze=st.none() | st.sampled_from(["", "tomorrow", "2026-11-21T13:00:00Z", "9999-12-31T23:59:59-14:00"]),
    snooze_reason=st.sampled_from([None, "a demo"]),
    has_persistent_volume=st.booleans(),
    serves=st.booleans(),
    offers=st.sampled_from([None, "port 8000"]),
    termination_grace=st.none() | durations,
    presence=st.builds(Presence, last_seen=maybe_time, how=st.just("a session"), unknown=st.sampled_from([None, "?"])),
    unsuspendable=st.sampled_from([None, "nobody may"]),
    untouchable=st.sampled_from([None, "it is being deleted"]),
)
looks = st.builds(Idleness, state=st.sampled_from(IdlenessState), observed_at=times, since=maybe_time, pod_uids=pods)
records = st.builds(
    Record,
    state=st.none() | st.sampled_from(ReclaimState),
    rule=st.sampled_from([None, finding().rule]),
    handled_snooze=st.sampled_from([None, "", "2026-11-21T13:00:00Z"]),
    idle_since=maybe_time,
    warned_at=maybe_time,
    deadline=maybe_time,
    action=st.none() | st.sampled_from(ReclaimMode),
    job_uid=st.sampled_from([None, "job", "other"]),
    pod_uids=pods,
    resumed_at=maybe_time,
    snoozed_until=maybe_time,
    policies=st.sampled_from([(), *((PolicyRevision(name="default", generation=number),) for number in (1, 2))]),
)
policies = st.builds(
    EffectivePolicy,
    rules=st.sampled_from([{}, {finding().rule: RuleSetting(action=Action.OFF)}]),
    exemptions=st.lists(
        st.builds(
            Exemption,
            job_selector=st.just(LabelSelector(match_labels={"team": "nlp"})),
            rules=st.sampled_from([(), (finding().rule,)]),
            until=maybe_time,
            reason=st.just("a campaign"),
        ),
        max_size=2,
    ).map(tuple),
    trusted_job_types=st.booleans(),
    reclaim=st.builds(
        EffectiveReclaim,
        mode=st.sampled_from(ReclaimMode),
        idle_after=durations,
        startup_grace=durations,
        warning_grace=durations,
        cooldown_after_resume=durations,
        on_pressure_only=st.booleans(),
        min_termination_grace=durations,
        interactive_without_volume=st.booleans(),
        training_without_volume=st.booleans(),
        schedule=st.sampled_from([(), (ScheduleWindow(start="18:00", end="08:00"),)]),
        classes=st.sampled_from(
            [(), (ReclaimClass(name="low", priority_classes=("low",), mode=ReclaimMode.DELETE, idle_after="30m"),)]
        ),
    ),
    revisions=st.sampled_from([(PolicyRevision(name="default", generation=number),) for number in (1, 2)]),
)
surroundings = st.builds(
    Constraints,
    minimum_warning_grace=durations,
    brake=obstructions,
    pressure=obstructions,
    bounds=obstructions,
)
ages = st.none() | st.sampled_from([timedelta(0), timedelta(seconds=20), timedelta(minutes=5), timedelta(hours=1)])
executions = st.builds(
    Execution,
    is_sampled=st.booleans(),
    warning_age=ages,
    examination_age=ages,
    is_examination_incomplete=st.booleans(),
    check_age=ages,
    slot_taken=st.sampled_from([None, True, False]),
    intent_recorded=st.booleans(),
)
wild = st.builds(
    Case,
    job=candidates,
    idleness=looks,
    policy=policies,
    record=records,
    now=st.just(NOW),
    constraints=surroundings,
    execution=executions,
)


DUE = Case(job=CANDIDATE, idleness=IDLE, policy=SUSPENDS, record=WARNED, now=NOW, execution=CONFIRMED)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A case that is due but for a few of its fields; now and then one in which nothing fits."""
    strange = draw(wild)
    if draw(st.integers(0, 9)) == 0:
        return strange
    case = DUE
    for part in ("job", "idleness", "policy", "record", "constraints", "execution"):
        known, other = getattr(case, part), getattr(strange, part)
        taken = draw(st.sets(st.sampled_from([field.name for field in fields(known)]), max_size=2))
        case = replace(case, **{part: replace(known, **{name: getattr(other, name) for name in taken})})
    return case


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_case_is_decided_and_explained_alike(case: Case) -> None:
    decision, explanation = plan(case), explain(case)
    decisive = explanation.decisive
    assert (decisive.gate if decisive is not None else None) == decision.gate
    assert explanation.next_deadline == decision.until
    assert [result.gate for result in explanation.results] == [gate.name for gate in GATES]
    for result in explanation.results:
        assert bool(result.reason) is (result.holds is False)
    # What can't be asked, an earlier condition has answered.
    asked = [result.holds for result in explanation.results]
    if None in asked:
        assert False in asked[: asked.index(None)]
    assert (decision.step in ACTS) is (decisive is None and explanation.trigger is Trigger.DUE)
    assert decisive is not None or explanation.trigger in {Trigger.DUE, Trigger.FREED}


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_case_goes_where_the_table_says_and_leaves_a_record_that_can_be_written(case: Case) -> None:
    decision, trigger = plan(case), explain(case).trigger
    before, after = case.record.state or ReclaimState.ACTIVE, decision.record.state
    if before is ReclaimState.RECLAIMED:
        assert decision.record == case.record
        return
    if trigger is Trigger.KEPT:
        assert replace(decision.record, reason=case.record.reason) == case.record
        return
    intended = decision.step is Step.RECORD_INTENT or decision.step in ACTS
    assert after is TRANSITIONS[before][Trigger.HELD if trigger is Trigger.DUE and not intended else trigger]
    assert decision.record.has_warning or (decision.record.warned_at, decision.record.deadline) == (None, None)
    assert (
        after in {ReclaimState.WARNED, ReclaimState.UNKNOWN, ReclaimState.RECLAIMING} or not decision.record.has_warning
    )
    written = ReclaimStatus.model_validate(decision.record.to_status())
    again = plan(replace(case, record=Record.from_status(written)))
    assert again.record.state in {after, ReclaimState.WARNED}
    assert not again.notices or again.step not in ACTS


def results(case: Case) -> dict[str, bool | None]:
    return {result.gate: result.holds for result in explain(case).results}


def test_a_job_that_is_due_has_passed_every_gate() -> None:
    assert set(results(DUE).values()) == {True}


def test_of_a_job_that_works_it_is_not_asked_for_how_long_it_rests_nor_what_comes_after_a_warning() -> None:
    said = results(replace(DUE, idleness=BUSY, record=Record()))
    assert [gate for gate, holds in said.items() if holds is False] == ["all-idle", "warned"]
    assert [gate for gate, holds in said.items() if holds is None] == [
        "scan-fresh",
        "same-pods",
        "start-known",
        "idle-long-enough",
        "unattended",
        "grace-over",
        "schedule-open",
        "pressure",
        "bounds",
        "examined",
        "grace-elapsed",
        "checked-again",
        "slot-taken",
        "intent-recorded",
        "check-recent",
    ]


def test_an_explanation_hears_a_snooze_that_nobody_has_taken_yet() -> None:
    explanation = explain(replace(DUE, job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")))
    assert explanation.decisive is not None
    assert (explanation.decisive.gate, explanation.next_deadline) == ("not-snoozed", ago(-60))
    assert "snooze-until" in explanation.decisive.change


def test_a_reclaimed_job_had_passed_them_all() -> None:
    explanation = explain(replace(DUE, record=replace(WARNED, state=ReclaimState.RECLAIMED), idleness=BUSY))
    assert (explanation.decisive, explanation.trigger) == (None, Trigger.FREED)


def test_why_a_finding_is_no_cause_is_said() -> None:
    possible = replace(DUE, job=replace(CANDIDATE, findings=(finding(confidence=Confidence.POSSIBLE),)))
    off = replace(DUE, policy=replace(SUSPENDS, rules={finding().rule: RuleSetting(action=Action.OFF)}))
    exemption = Exemption(
        job_selector=LabelSelector(match_labels={}), rules=(finding().rule,), until=ago(-30), reason="x"
    )
    exempt = replace(DUE, policy=replace(SUSPENDS, exemptions=(exemption,)))
    for case, words in ((possible, "only possible"), (off, "turns rule-of-UnreleasedJob off"), (exempt, "exempt")):
        decisive = explain(case).decisive
        assert decisive is not None
        assert (decisive.gate, words in decisive.reason) == ("cause", True)
    assert explain(exempt).next_deadline == ago(-30)


def test_no_two_gates_have_one_name_and_the_stages_come_in_their_order() -> None:
    assert len({gate.name for gate in GATES}) == len(GATES)
    order = list(GateGroup)
    assert [gate.group for gate in GATES] == sorted((gate.group for gate in GATES), key=order.index)
    assert {gate.group for gate in GATES} == set(GateGroup)


def test_the_page_about_safety_names_gates_that_exist_and_every_one_of_the_last_stage() -> None:
    page = (Path(__file__).parents[2] / "docs/safety.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    named = {name for line in rows for cell in line.split("|")[3:4] for name in re.findall(r"`([a-z-]+)`", cell)}
    assert len(rows) == 14
    assert named <= {gate.name for gate in GATES}
    assert named >= {gate.name for gate in GATES if gate.group is GateGroup.ACTION}
