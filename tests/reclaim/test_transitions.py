"""The table of transitions says what the code does: every state meets every trigger, also those that can't happen."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stoker.api.meta import LabelSelector
from stoker.api.policy import Exemption
from stoker.findings.vocabulary import ReclaimMode, ReclaimState
from stoker.reclaim import (
    TRANSITIONS,
    ActionEffect,
    Case,
    Constraints,
    Obstruction,
    Record,
    Step,
    Trigger,
    after,
    completed,
    explain,
    plan,
    resumed,
)
from stoker.reclaim.transitions import WARNABLE
from tests.reclaim.cases import BUSY, CANDIDATE, CONFIRMED, IDLE, NOW, SUSPENDS, UNKNOWN, WARNED, ago

LOOKED_AT = Case(job=CANDIDATE, idleness=IDLE, policy=SUSPENDS, record=Record(), now=NOW, execution=CONFIRMED)
EXEMPTION = Exemption(job_selector=LabelSelector(match_labels={}), reason="a campaign", until=ago(-60))
LOOKS: dict[Trigger, Case] = {
    Trigger.KEPT: replace(LOOKED_AT, execution=replace(CONFIRMED, is_sampled=False)),
    Trigger.UNKNOWN: replace(LOOKED_AT, idleness=UNKNOWN),
    Trigger.ACTIVE: replace(LOOKED_AT, idleness=BUSY),
    Trigger.IDLE: replace(LOOKED_AT, job=replace(CANDIDATE, findings=())),
    Trigger.EXEMPT: replace(LOOKED_AT, policy=replace(SUSPENDS, exemptions=(EXEMPTION,))),
    Trigger.SNOOZED: replace(LOOKED_AT, job=replace(CANDIDATE, snooze="2026-11-21T13:00:00Z")),
    Trigger.WARN: replace(LOOKED_AT, job=replace(CANDIDATE, job_uid="another")),
    Trigger.HELD: replace(LOOKED_AT, constraints=Constraints(bounds=Obstruction(reason="enough for now"))),
    Trigger.DUE: LOOKED_AT,
}
"""What a job must look like for each trigger of a look, given a warning where there can be one."""


def looked_at(record: Record, case: Case) -> tuple[Record, Step]:
    planned = plan(replace(case, record=record))
    return planned.record, planned.step


def made_free(record: Record) -> tuple[Record, Step]:
    gone = ActionEffect(is_gone=True, is_deleted=True)
    return completed(replace(record, action=ReclaimMode.DELETE), gone, NOW), Step.RECORD


def brought_back(record: Record) -> tuple[Record, Step]:
    word = resumed(record, annotation="please", unsuspended=False, now=NOW)
    return replace(word.record, handled_resume=None), Step.RECORD


def drive(trigger: Trigger) -> Callable[[Record], tuple[Record, Step]]:
    match trigger:
        case Trigger.FREED:
            return made_free
        case Trigger.RESUMED:
            return brought_back
        case _:
            return lambda record: looked_at(record, LOOKS[trigger])


EVERYTHING = [(state, trigger) for state in ReclaimState for trigger in Trigger]
POSSIBLE = [(state, trigger) for state, trigger in EVERYTHING if trigger in TRANSITIONS[state]]
IMPOSSIBLE = [pair for pair in EVERYTHING if pair not in POSSIBLE]


@pytest.mark.parametrize("state, trigger", POSSIBLE)
def test_an_outcome_leads_where_the_table_says(state: ReclaimState, trigger: Trigger) -> None:
    before = replace(WARNED, state=state) if state in WARNABLE else Record(state=state, action=ReclaimMode.SUSPEND)
    record, step = drive(trigger)(before)
    assert record.state is TRANSITIONS[state][trigger]
    assert (step is Step.SUSPEND) is (trigger is Trigger.DUE)
    if trigger in LOOKS:
        assert explain(replace(LOOKS[trigger], record=before)).trigger is trigger


@pytest.mark.parametrize("state, trigger", IMPOSSIBLE)
def test_an_outcome_that_cannot_be_is_none_whatever_marks_the_record_bears(
    state: ReclaimState, trigger: Trigger
) -> None:
    before = replace(WARNED, state=state)
    record, step = drive(trigger)(before)
    assert step in {Step.RECORD, Step.WARN}
    assert after(state, trigger) is state
    assert record.state in {state, *TRANSITIONS[state].values()} - {ReclaimState.RECLAIMING}
    assert record.state is not ReclaimState.RECLAIMED or state is ReclaimState.RECLAIMED


@pytest.mark.parametrize("trigger", [Trigger.HELD, Trigger.DUE])
def test_a_job_of_which_nothing_is_known_is_due_only_by_a_warning_that_it_got(trigger: Trigger) -> None:
    record, step = drive(trigger)(Record(state=ReclaimState.UNKNOWN))
    assert (record.state, step) == (ReclaimState.WARNED, Step.WARN)
    assert record.deadline is not None
    assert record.deadline > NOW


def test_a_job_that_was_never_looked_at_is_taken_for_active() -> None:
    for trigger, case in LOOKS.items():
        if trigger is Trigger.KEPT:
            continue
        never, step = looked_at(Record(), case)
        active, same = looked_at(Record(state=ReclaimState.ACTIVE), case)
        assert (never, step) == (active, same), trigger


def test_the_table_has_every_state_and_every_outcome() -> None:
    assert set(TRANSITIONS) == set(ReclaimState)
    assert {trigger for ways in TRANSITIONS.values() for trigger in ways} == set(Trigger)
