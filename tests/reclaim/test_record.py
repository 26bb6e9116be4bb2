from datetime import UTC, datetime, timedelta

import pytest

from stoker.api.status import ReclaimStatus
from stoker.findings.vocabulary import NotificationEvent, NotificationResult, ReclaimEvent, ReclaimMode, ReclaimState
from stoker.policy.effective import BUILT_IN_REVISION, PolicyRevision
from stoker.reclaim import HistoryEntry, NoticeReason, NotificationRecord, Record, resumed

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
RECLAIMED = Record(state=ReclaimState.RECLAIMED, action=ReclaimMode.SUSPEND, warned_at=NOW, deadline=NOW)


def test_a_record_survives_its_being_written() -> None:
    record = Record(
        state=ReclaimState.WARNED,
        reason="idle",
        rule="unreleased-job",
        handled_resume="a",
        handled_snooze="b",
        idle_since=NOW,
        warned_at=NOW,
        deadline=NOW,
        action=ReclaimMode.DELETE,
        job_uid="j",
        pod_uids=frozenset({"p", "q"}),
        reclaimed_at=NOW,
        resumed_at=NOW,
        snoozed_until=NOW,
        policies=(PolicyRevision(name="default", generation=3), PolicyRevision(name="research", generation=7)),
        notified=(
            NotificationRecord(
                event=NotificationEvent.WARNED, event_time=NOW, result=NotificationResult.SENT, time=NOW
            ),
        ),
        history=(
            HistoryEntry(time=NOW, event=ReclaimEvent.WARNED, reason="idle", policy=BUILT_IN_REVISION),
            HistoryEntry(time=NOW, event=ReclaimEvent.RESUMED),
        ),
    )
    assert Record.from_status(ReclaimStatus.model_validate(record.to_status())) == record


def test_an_empty_word_of_the_owners_is_taken_once() -> None:
    record = Record(handled_resume="", handled_snooze="")
    assert Record.from_status(ReclaimStatus.model_validate(record.to_status())) == record


def test_times_beyond_the_calendar_of_utc_are_moved_into_it() -> None:
    written = {"warnedAt": "9999-12-31T23:59:59-05:00", "resumedAt": "0001-01-01T00:00:00+05:00"}
    record = Record.from_status(ReclaimStatus.model_validate(written))
    assert record.to_status() == {"warnedAt": "9999-12-31T23:59:59Z", "resumedAt": "0001-01-01T00:00:00Z"}


def test_history_keeps_the_last_ten_events() -> None:
    record = Record()
    for number in range(12):
        record = record.remembering(NOW, ReclaimEvent.RESUMED, f"reason {number}\nbroken")
    assert len(record.history) == 10
    assert record.history[-1].reason == "reason 11 broken"


def test_a_record_of_an_older_version_is_read_without_what_it_had_as_text() -> None:
    good = {"event": "Warned", "eventTime": "2026-11-21T12:00:00Z", "result": "Sent", "time": "2026-11-21T12:00:05Z"}
    written = {
        "state": "Warned",
        "warnedAt": "2026-11-21T12:00:00Z",
        "deadline": "soon",
        "policies": "default@3",
        "history": ["2026-11-21T12:00:00Z warned: idle"],
        "notified": ["Warned 2026-11-21T12:00:00Z sent 2026-11-21T12:00:00Z", good, {"event": "Warned"}],
    }
    record = Record.of({"status": {"reclaim": written}})
    assert record.to_status() == {"state": "Warned", "warnedAt": "2026-11-21T12:00:00Z", "notified": [good]}
    assert Record.of({"status": {"reclaim": "idle"}}) == Record.of({"status": None}) == Record.of({}) == Record()


@pytest.mark.parametrize(
    "state", [ReclaimState.WARNED, ReclaimState.RECLAIMING, ReclaimState.RECLAIMED, ReclaimState.UNKNOWN]
)
@pytest.mark.parametrize("annotation, observed", [("new", False), (None, True)])
def test_the_owners_word_brings_a_job_back(state: ReclaimState, annotation: str | None, observed: bool) -> None:
    record = Record(state=state, action=ReclaimMode.SUSPEND, warned_at=NOW, deadline=NOW, handled_resume="old")
    word = resumed(record, annotation=annotation, unsuspended=observed is True, now=NOW)
    assert (word.record.state, word.record.resumed_at, word.record.has_warning) == (ReclaimState.ACTIVE, NOW, False)
    assert [notice.reason for notice in word.notices] == [NoticeReason.RESUMED]


@pytest.mark.parametrize(
    "annotation, suspend, observed",
    [("old", False, False), (None, False, None), (None, True, True), (None, True, False), (None, False, False)],
)
def test_what_is_no_new_word_changes_nothing(annotation: str | None, suspend: bool, observed: bool | None) -> None:
    record = Record(state=ReclaimState.RECLAIMED, handled_resume="old")
    word = resumed(record, annotation=annotation, unsuspended=observed is True and not suspend, now=NOW)
    assert word.record == record
    assert not word.notices


def test_a_word_is_taken_once() -> None:
    first = resumed(RECLAIMED, annotation="again", unsuspended=False, now=NOW)
    reclaimed_again = Record(state=ReclaimState.RECLAIMED, handled_resume=first.record.handled_resume)
    word = resumed(reclaimed_again, annotation="again", unsuspended=False, now=NOW)
    assert word.record.state is ReclaimState.RECLAIMED


def test_a_word_to_a_job_that_is_not_warned_any_more_starts_the_cooldown_all_the_same() -> None:
    active = Record(state=ReclaimState.ACTIVE)
    word = resumed(active, annotation="late", unsuspended=False, now=NOW)
    assert (word.record.handled_resume, word.record.resumed_at, word.notices) == ("late", NOW, ())
    again = resumed(word.record, annotation="late", unsuspended=False, now=NOW + timedelta(hours=1))
    assert again.record == word.record, "taken once"
    edge = resumed(active, annotation=None, unsuspended=True, now=NOW)
    assert edge.record == active, "its owner had suspended it"


def test_a_job_whose_job_was_deleted_is_not_resumable() -> None:
    gone = Record(state=ReclaimState.RECLAIMED, action=ReclaimMode.DELETE)
    word = resumed(gone, annotation="please", unsuspended=True, now=NOW)
    assert word.record.state is ReclaimState.RECLAIMED


@pytest.mark.parametrize("deleted, state", [(True, ReclaimState.RECLAIMING), (False, ReclaimState.ACTIVE)])
def test_a_deletion_can_be_called_off_until_it_is_done(deleted: bool, state: ReclaimState) -> None:
    intent = Record(state=ReclaimState.RECLAIMING, action=ReclaimMode.DELETE, warned_at=NOW, deadline=NOW)
    word = resumed(intent, annotation="stop", unsuspended=False, now=NOW, deleted=deleted)
    assert (word.record.state, bool(word.notices)) == (state, not deleted)
    assert word.record.handled_resume == "stop"
