"""Whether a job works at this moment, as a summary at its pods shows it, long before it counts as idle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from stoker.diagnosis.idleness import has_worked, works
from stoker.telemetry.screen import PodSummary, Screen
from stoker.telemetry.series import GpuSignal
from tests.diagnosis.test_idleness import NOW, WINDOW, gpu, job, screen

WORK: Mapping[GpuSignal, float] = {GpuSignal.UTIL: 3.0}
REST: Mapping[GpuSignal, float] = {GpuSignal.UTIL: 0.0, GpuSignal.GRAPHICS: 0.0}
SILENT: Mapping[GpuSignal, float] = {}


def summary(*pods: Mapping[GpuSignal, float] | None, complete: bool = True) -> Screen:
    summaries = {
        ("team", f"bert-{rank}"): PodSummary(averages=averages)
        for rank, averages in enumerate(pods)
        if averages is not None
    }
    return Screen(at=NOW, window=WINDOW, summaries=summaries, complete=complete)


@pytest.mark.parametrize(
    "pods, says",
    [
        ([WORK, WORK], True),
        ([REST, WORK], True),
        ([None, WORK], True),
        ([REST, REST], False),
        ([REST, SILENT], None),
        ([REST, None], None),
        ([None, None], None),
        ([REST, {GpuSignal.UTIL: 0.0, GpuSignal.GRAPHICS: 40.0}], True),
    ],
)
def test_one_pod_at_work_is_a_job_at_work_and_rest_must_be_seen_of_all(
    pods: Sequence[Mapping[GpuSignal, float] | None], says: bool | None
) -> None:
    assert works(job(), summary(*pods)) is says


def test_a_partial_answer_or_a_pod_that_is_not_ready_shows_no_rest() -> None:
    facts = job()
    assert works(facts, summary(REST, REST, complete=False)) is None
    assert works(facts, summary(REST, WORK, complete=False)) is True
    starting = replace(facts, pods=(facts.pods[0], replace(facts.pods[1], ready=False)))
    assert works(starting, summary(REST, REST)) is None
    assert works(replace(facts, pods=()), summary()) is None


def test_what_the_policy_calls_idle_is_no_work() -> None:
    assert works(job(), summary(WORK, REST), idle_percent=5) is False


def test_a_close_look_shows_work_earlier_in_its_window() -> None:
    facts = job(started=timedelta(hours=5))
    assert not has_worked(facts, screen(facts))
    assert has_worked(facts, screen(facts, {(1, 2): gpu(12, peaks={GpuSignal.UTIL: 80.0})}))
    assert not has_worked(facts, summary(WORK, WORK)), "nothing was checked in detail"
