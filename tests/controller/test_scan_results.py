"""What is kept of looks: one beginning of an idle stretch, as precise as it is known."""

from datetime import timedelta

import pytest

from stoker.controller.scan_results import ScanResult, ScanResults, idle_fact
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState
from tests.controller.passes import NOW
from tests.controller.test_hysteresis import used

COARSE, EXACT = NOW - timedelta(minutes=60), NOW - timedelta(minutes=64)
IDLE = Idleness(state=IdlenessState.IDLE, observed_at=NOW, since=COARSE, message="8 GPUs idle")


def kept(idleness: Idleness, diagnosis: Diagnosis | None) -> Idleness:
    scan_results = ScanResults()
    scan_results.put("uid", ScanResult(idleness=idleness, diagnosis=diagnosis))
    found = scan_results.get("uid")
    assert found is not None
    return found.idleness


def test_an_idle_stretch_begins_where_the_examination_says_it_does() -> None:
    seen = kept(IDLE, Diagnosis(utilization=used(NOW - timedelta(minutes=2)), idle_since=EXACT))
    assert seen.since == EXACT
    assert idle_fact(seen).message == "8 GPUs idle since 2026-11-21T10:56:00Z"


@pytest.mark.parametrize(
    "idleness, diagnosis",
    [
        (IDLE, None),
        (IDLE, Diagnosis(utilization=used(NOW), idle_since=None)),
        (IDLE, Diagnosis(utilization=None, idle_since=EXACT)),
        # What was examined before the stretch began: something has worked in between.
        (IDLE, Diagnosis(utilization=used(COARSE - timedelta(seconds=1)), idle_since=EXACT)),
        (IDLE, Diagnosis(utilization=used(NOW), idle_since=COARSE + timedelta(minutes=1))),
    ],
)
def test_an_examination_that_does_not_tell_changes_nothing(idleness: Idleness, diagnosis: Diagnosis | None) -> None:
    assert kept(idleness, diagnosis) is idleness or kept(idleness, diagnosis).since == COARSE


def test_of_a_job_that_works_no_beginning_is_made_up() -> None:
    busy = Idleness(state=IdlenessState.ACTIVE, observed_at=NOW)
    assert kept(busy, Diagnosis(utilization=used(NOW), idle_since=EXACT)).since is None
