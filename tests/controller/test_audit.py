"""One line of JSON and one count for each thing that reclaim said or did."""

import json
import logging
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, ConflictError
from stoker.cluster.recorder import NO_RECORDER
from stoker.controller.audit import Audit
from stoker.findings.vocabulary import ReclaimMode, ReclaimState
from stoker.policy.effective import PolicyRevision
from stoker.reclaim import Notice, NoticeReason, Record, resumed
from stoker.reclaim.record import Record as Written
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock, failing
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
BEFORE = datetime(2026, 11, 21, 10, tzinfo=UTC)
REVISIONS = (PolicyRevision(name="default", generation=3), PolicyRevision(name="research", generation=7))
POLICIES = [{"name": "default", "generation": 3}, {"name": "research", "generation": 7}]
WARNED = Record(
    state=ReclaimState.WARNED,
    idle_since=BEFORE,
    warned_at=BEFORE,
    deadline=NOW,
    action=ReclaimMode.SUSPEND,
    rule="unreleased-job",
    policies=REVISIONS,
)


class Counts:
    """A Meter that remembers what reclaim said."""

    def __init__(self) -> None:
        self.events: Counter[tuple[str, str]] = Counter()
        self.gpus: Counter[str] = Counter()

    def noticed(self, event: str, policy: str) -> None:
        self.events[event, policy] += 1

    def freed(self, gpus: int, policy: str) -> None:
        self.gpus[policy] += gpus

    def __getattr__(self, name: str) -> Any:
        return getattr(NO_RECORDER, name)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The audit's lines so far, read as JSON, also in a process in which `stoker run` was tried."""
    monkeypatch.setattr(logging.getLogger("stoker.audit"), "propagate", True)
    caplog.set_level(logging.INFO, logger="stoker.audit")
    return lambda: [json.loads(one.getMessage()) for one in caplog.records if one.name == "stoker.audit"]


def written(record: Written) -> dict[str, Any]:
    labels = {"stoker.dev/owner": "ada", "stoker.dev/team": "nlp"}
    return dljob_object(status={"gpus": 8, "reclaim": record.to_status()}, labels=labels)


def test_a_warning_is_told_with_all_that_it_rested_on(lines: Any) -> None:
    counts = Counts()
    numbers: dict[str, str | int | float] = {
        "gpus": 8,
        "cause": "UnreleasedJob",
        "coveragePercent": 100,
    }
    notice = Notice(
        reason=NoticeReason.WARNED,
        message="All 8 GPUs are idle.",
        episode="1",
        numbers=numbers,
        policies=REVISIONS,
    )
    Audit(HeldClock(NOW), counts).of_job(written(WARNED), notice)
    (line,) = lines()
    assert line == {
        "time": "2026-11-21T12:00:00Z",
        "event": "ReclaimWarning",
        "namespace": "team",
        "job": "bert",
        "uid": line["uid"],
        "owner": "ada",
        "team": "nlp",
        "gpus": 8,
        "decision": f"{line['uid']}.2026-11-21T10:00:00Z",
        "policy": "research",
        "policies": POLICIES,
        "idleSince": "2026-11-21T10:00:00Z",
        "warnedAt": "2026-11-21T10:00:00Z",
        "deadline": "2026-11-21T12:00:00Z",
        "action": "Suspend",
        "rule": "unreleased-job",
        "cause": "UnreleasedJob",
        "coveragePercent": 100,
        "message": "All 8 GPUs are idle.",
    }
    assert counts.events == {("ReclaimWarning", "research"): 1}
    assert not counts.gpus


def test_gpus_are_counted_as_given_back_when_the_job_is_reclaimed(lines: Any) -> None:
    counts = Counts()
    notice = Notice(reason=NoticeReason.RECLAIMED, message="", episode="1", numbers={"gpus": 8})
    Audit(HeldClock(NOW), counts).of_job(written(WARNED), notice)
    assert counts.gpus == {"research": 8}
    assert lines()[0]["event"] == "Reclaimed"


def test_a_resumption_says_what_it_undid(lines: Any) -> None:
    word = resumed(WARNED, annotation="back", unsuspended=False, now=NOW)
    Audit(HeldClock(NOW)).of_job(written(word.record), word.notices[0])
    (line,) = lines()
    assert line["event"] == "Resumed"
    assert (line["was"], line["how"]) == ("Warned", "annotation stoker.dev/resume")
    assert (line["idleSince"], line["deadline"]) == ("2026-11-21T10:00:00Z", "2026-11-21T12:00:00Z")
    assert (line["policy"], line["policies"]) == ("research", POLICIES)


def test_what_a_user_writes_stays_within_its_field_and_its_line(lines: Any, caplog: pytest.LogCaptureFixture) -> None:
    why = 'busy"}\n{"event": "Reclaimed"'
    notice = Notice(reason=NoticeReason.SNOOZED, message=f"Put off: {why}", episode="1", numbers={"why": why})
    Audit(HeldClock(NOW)).of_job(written(WARNED), notice)
    assert "\n" not in caplog.records[-1].getMessage()
    assert lines()[0]["why"] == why


def test_the_brake_is_told_of_its_policy(lines: Any) -> None:
    counts = Counts()
    audit = Audit(HeldClock(NOW), counts)
    audit.of_policy("default", NoticeReason.BRAKED, "7 jobs turned idle at once", {"jobs": 7, "gpus": 56})
    assert lines() == [
        {
            "time": "2026-11-21T12:00:00Z",
            "event": "ReclaimBraked",
            "policy": "default",
            "jobs": 7,
            "gpus": 56,
            "message": "7 jobs turned idle at once",
        }
    ]
    assert counts.events == {("ReclaimBraked", "default"): 1}


async def test_what_could_not_be_written_is_not_told(lines: Any) -> None:
    api, counts = FakeApi(), Counts()
    status_writer = assembled(api, HeldClock(NOW), recorder=counts).status_writer
    raw = api.store(DLJOBS, "team", dljob_object())
    notice = Notice(reason=NoticeReason.WARNED, message="", episode="1")
    api.before = failing(ConflictError("replace", code=409, reason="Conflict"))
    with pytest.raises(ConflictError):
        await status_writer.announce(await status_writer.write(raw, {"gpus": 8}), [notice])
    assert lines() == []
    assert not counts.events
