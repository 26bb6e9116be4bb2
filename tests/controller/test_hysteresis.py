"""What a status says stays still while nothing has changed: counted in writes, over real passes."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from stoker.controller.hysteresis import says_the_same, steady_record
from stoker.controller.scan_results import ScanResult
from stoker.findings.diagnosis import Advice, Diagnosis, Idleness, IdlenessState, NodeUse, StageSpan, Utilization
from stoker.findings.finding import Finding
from stoker.findings.vocabulary import Category, Confidence, Severity, Source, Stage, UnknownReason
from stoker.workload.observation import SUSPENDED_BY
from tests.controller.passes import NOW, World
from tests.workload.building import JOB_UID, pod

TICK = timedelta(seconds=30)
BEGAN = NOW - timedelta(hours=7)


def finding(rule: str = "small-batch", hours: float = 30.0, confidence: Confidence = Confidence.LIKELY) -> Finding:
    return Finding(
        rule=rule,
        category=Category.IMPROPER_BATCH_SIZE,
        severity=Severity.WARNING,
        confidence=confidence,
        detail=f"The active stage uses 31 % of each GPU; {hours:.1f} GPU-hours lost.",
        evidence="",
        fix="Raise --batch-size.",
        docs="https://example.com/small-batch",
        sources=(Source.METRICS,),
        since=BEGAN,
        gpu_hours_idle=hours,
    )


def used(
    at: datetime, percent: float = 31.0, *, recent: float | None = None, nodes: Sequence[NodeUse] = ()
) -> Utilization:
    """What eight GPUs have done since seven in the morning."""
    held = 8 * (at - BEGAN).total_seconds() / 3600
    stages = (
        StageSpan(stage=Stage.INITIALIZATION, start=BEGAN, end=BEGAN + timedelta(minutes=12), average_percent=0.0),
        StageSpan(stage=Stage.ACTIVE, start=BEGAN + timedelta(minutes=12), end=None, average_percent=percent + 1),
    )
    return Utilization(
        average_percent=percent,
        recent_percent=percent if recent is None else recent,
        peak_memory_percent=38.0,
        coverage_percent=99.7,
        gpu_hours=held,
        gpu_hours_idle=held * (1 - percent / 100),
        as_of=at,
        stages=stages,
        nodes=tuple(nodes) or (NodeUse(pod="bert-0", node="gpu-0", gpu_percents=(percent,) * 8),),
    )


OPEN: dict[str, Any] = {"findings": [finding().to_status()], "findingsSummary": "1: ImproperBatchSize"}


class Watched(World):
    """A job that runs, and is examined in every tick."""

    def __init__(self) -> None:
        super().__init__(status={"jobUID": JOB_UID})
        self.put_job()
        self.put_pods(pod())

    async def look(self, diagnosis: Diagnosis, *, idleness: Idleness | None = None) -> None:
        """One tick later: a look, and the pass that follows."""
        self.clock.time += TICK
        found = diagnosis.utilization
        diagnosis = replace(diagnosis, utilization=replace(found, as_of=self.clock.time) if found else None)
        idle = idleness or Idleness(state=IdlenessState.ACTIVE, observed_at=self.clock.time)
        self.scan_results.put(self.uid, ScanResult(idleness=idle, diagnosis=diagnosis))
        await self.reconcile()

    @property
    def findings(self) -> list[tuple[str, bool]]:
        """Rule, and whether it is open."""
        return [(entry["rule"], "until" not in entry) for entry in self.status.get("findings", [])]


async def test_a_steady_job_with_noisy_figures_writes_its_status_at_most_four_times_in_sixty_ticks() -> None:
    """Half an hour of a job on a rounding edge, with a finding at its threshold and noise on every figure."""
    world, noise = Watched(), random.Random(7)
    await world.look(Diagnosis(utilization=used(NOW), findings=(finding(),)))
    before = len(world.writes)
    for _ in range(60):
        percent = 30.5 + noise.uniform(-0.6, 0.6)
        uses = tuple(percent + noise.uniform(-0.4, 0.4) for _ in range(8))
        nodes = (NodeUse(pod="bert-0", node="gpu-0", gpu_percents=uses),)
        utilization = used(world.clock.time + TICK, percent, recent=30 + noise.uniform(-4, 4), nodes=nodes)
        shown = (finding(hours=utilization.gpu_hours * 0.6),) if noise.random() < 0.7 else ()
        await world.look(Diagnosis(utilization=utilization, findings=shown))
    writes = world.writes[before:]
    assert set(writes) == {"replace dljobs"}
    assert len(writes) <= 4, "two for its figures, and when it was looked at each 15 minutes"
    assert world.findings == [("small-batch", True)]
    assert len(world.events_of("ImproperBatchSize")) == 1


async def test_that_time_has_passed_is_not_written() -> None:
    world = Watched()
    diagnosis = Diagnosis(utilization=used(NOW), findings=(finding(),))
    await world.look(diagnosis)
    before = len(world.writes)
    for _ in range(20):
        await world.look(diagnosis)
    assert len(world.writes) == before


async def test_small_moves_are_written_after_half_an_hour() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW, 31.0)))
    for _ in range(59):
        await world.look(Diagnosis(utilization=used(NOW, 32.0)))
    assert world.status["utilization"]["averagePercent"] == 31
    await world.look(Diagnosis(utilization=used(NOW, 32.0)))
    assert world.status["utilization"]["averagePercent"] == 32


async def test_small_moves_are_written_when_the_job_leaves_its_phase() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW, 31.0)))
    await world.look(Diagnosis(utilization=used(NOW, 32.0)))
    assert world.status["utilization"]["averagePercent"] == 31
    world.put_pods(pod(ready=False))
    await world.reconcile()
    assert world.status["phase"] == "Starting"
    assert world.status["utilization"]["averagePercent"] == 32


async def test_a_finding_that_stays_away_closes_and_its_end_is_kept() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW), findings=(finding(),)))
    for _ in range(9):
        await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", True)]
    await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", False)]
    assert "findingsSummary" not in world.status
    assert world.status["findings"][0]["gpuHoursIdle"] == "30.0"


async def test_a_finding_comes_at_once_and_is_told_once_also_when_it_comes_back_or_the_operator_restarts() -> None:
    world = Watched()
    diagnosis = Diagnosis(utilization=used(NOW), findings=(finding(),))
    await world.look(diagnosis)
    assert world.status["findingsSummary"] == "1: ImproperBatchSize"
    world.restart()
    await world.look(diagnosis)
    (event,) = world.events_of("ImproperBatchSize")
    assert event["type"] == "Warning"
    assert "series" not in event


async def test_a_restart_closes_nothing_sooner() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW), findings=(finding(),)))
    for _ in range(5):
        world.restart()
        for _ in range(7):
            await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", True)]


async def test_a_finding_that_has_stayed_away_for_long_closes_though_the_operator_restarts_meanwhile() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW), findings=(finding(),)))
    for _ in range(8):
        await world.look(Diagnosis(utilization=used(NOW)))
    assert "absentSince" in world.status["findings"][0]
    world.restart()
    await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", True)], "five minutes are not over"
    await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", False)]
    assert "absentSince" not in world.status["findings"][0]


async def test_a_finding_that_was_away_and_is_shown_again_begins_anew() -> None:
    world = Watched()
    diagnosis = Diagnosis(utilization=used(NOW), findings=(finding(),))
    await world.look(diagnosis)
    for _ in range(8):
        await world.look(Diagnosis(utilization=used(NOW)))
    world.restart()
    await world.look(diagnosis)
    assert "absentSince" not in world.status["findings"][0]
    for _ in range(9):
        await world.look(Diagnosis(utilization=used(NOW)))
    assert world.findings == [("small-batch", True)]


RECLAIMED = {"state": "Reclaimed", "rule": "small-batch", "action": "Suspend", "reclaimedAt": "2026-11-21T11:59:00Z"}


async def test_what_a_job_was_reclaimed_for_stays_until_it_runs_again_whatever_is_examined_of_its_end() -> None:
    world = World(status={"jobUID": JOB_UID, "phase": "Reclaimed", "reclaim": RECLAIMED, **OPEN})
    world.put_job(suspend=True, annotations={SUSPENDED_BY: "reclaim"})
    ended = replace(finding(), until=NOW)
    for shown in ((ended,), ()):
        idleness = Idleness(state=IdlenessState.WAITING, observed_at=NOW)
        world.scan_results.put(
            world.uid, ScanResult(idleness=idleness, diagnosis=Diagnosis(utilization=used(NOW), findings=shown))
        )
        await world.reconcile()
        assert world.status["findingsSummary"] == "1: ImproperBatchSize"
        assert "until" not in world.status["findings"][0]


async def test_what_is_sure_does_not_waver_with_every_look() -> None:
    world = Watched()
    for number in range(20):
        confidence = Confidence.LIKELY if number % 2 == 0 else Confidence.POSSIBLE
        await world.look(Diagnosis(utilization=used(NOW), findings=(finding(confidence=confidence),)))
        assert world.status["findings"][0]["confidence"] == "Likely"


async def test_metrics_that_are_away_close_nothing_and_take_no_figure_back() -> None:
    world = Watched()
    await world.look(Diagnosis(utilization=used(NOW), findings=(finding(),)))
    for _ in range(30):
        away = Idleness(
            state=IdlenessState.UNKNOWN,
            observed_at=world.clock.time,
            reason=UnknownReason.PROMETHEUS_UNAVAILABLE,
        )
        await world.look(Diagnosis(utilization=None, unknown=UnknownReason.NO_SAMPLES), idleness=away)
    assert world.findings == [("small-batch", True)]
    assert world.status["utilization"]["averagePercent"] == 31
    conditions = {one["type"]: (one["status"], one["reason"]) for one in world.status["conditions"]}
    assert conditions["Idle"] == conditions["LowUtilization"] == ("Unknown", "PrometheusUnavailable")


async def test_a_job_at_the_bound_of_what_is_low_keeps_its_condition() -> None:
    world, seen = Watched(), []
    for percent in (48.0, 50.4, 49.8, 50.9, 51.2, 49.6, 49.1, 50.7, 48.9):
        await world.look(Diagnosis(utilization=used(NOW, percent)))
        low = next(one for one in world.status["conditions"] if one["type"] == "LowUtilization")
        seen.append(low["status"])
    assert seen == ["True"] * 4 + ["False"] * 4 + ["True"]


async def test_advice_stands_beside_findings_and_counts_as_none() -> None:
    world = Watched()
    advice = Advice(rule="headroom", detail="Peak memory is 38 %.", fix="Try a larger batch.", docs="https://e.com")
    await world.look(Diagnosis(utilization=used(NOW, 84.0), advice=(advice,)))
    assert [one["rule"] for one in world.status["advice"]] == ["headroom"]
    assert "findingsSummary" not in world.status
    await world.look(Diagnosis(utilization=used(NOW, 84.0)))
    assert "advice" not in world.status


async def test_a_range_stands_where_the_number_is_not_known() -> None:
    world = Watched()
    partly = replace(used(NOW), average_percent=None, average_percent_range=(20.2, 61.7), coverage_percent=58.9)
    await world.look(Diagnosis(utilization=partly))
    written = world.status["utilization"]
    assert "averagePercent" not in written
    assert written["averagePercentRange"] == [20, 62]
    low = next(one for one in world.status["conditions"] if one["type"] == "LowUtilization")
    assert (low["status"], low["reason"]) == ("Unknown", "Partial")


# ------------------------------------------------------------------------------------------ what counts as moved


def status_with(**utilization: Any) -> dict[str, Any]:
    return {"utilization": {"asOf": "2026-11-21T11:59:00Z", "averagePercent": 31, **utilization}}


def node(pod: str, *percents: int | None, on: str = "n") -> dict[str, Any]:
    """An entry of `status.utilization.nodes`."""
    return {"pod": pod, "node": on, "gpuPercents": [list(percents)]}


def stage(name: str, percent: int, **times: str) -> dict[str, Any]:
    """An entry of `status.utilization.stages`."""
    return {"stage": name, "start": "2026-11-21T05:52:00Z", "averagePercent": percent, **times}


MANY = [node(f"b-{rank}", 31) for rank in range(10, 41)]
"""All entries but one of a job with more pods than entries."""


@pytest.mark.parametrize(
    "before, after, same",
    [
        ({"averagePercent": 31}, {"averagePercent": 33}, True),
        ({"averagePercent": 31}, {"averagePercent": 34}, False),
        ({"averagePercent": 31}, {"averagePercent": None, "averagePercentRange": [20, 40]}, False),
        ({"averagePercentRange": [20, 40]}, {"averagePercentRange": [21, 42]}, True),
        ({"averagePercentRange": [20, 40]}, {"averagePercentRange": [20, 46]}, False),
        ({"recentPercent": 30}, {"recentPercent": 40}, True),
        ({"recentPercent": 30}, {"recentPercent": 41}, False),
        ({"gpuHours": "64.0"}, {"gpuHours": "70.0"}, True),
        ({"gpuHours": "64.0"}, {"gpuHours": "71.0"}, False),
        ({"gpuHours": "0.1"}, {"gpuHours": "0.5"}, True),
        ({"stages": [stage("Active", 33)]}, {"stages": [stage("Active", 34, start="2026-11-21T05:53:00Z")]}, True),
        ({"stages": [stage("Active", 33)]}, {"stages": [stage("Active", 36)]}, False),
        ({"stages": [stage("Active", 33)]}, {"stages": [stage("Training", 33)]}, False),
        ({"stages": [stage("Active", 33)]}, {"stages": [stage("Active", 33), stage("Tail", 0)]}, False),
        ({"nodes": [node("b-0", 31, 30)]}, {"nodes": [node("b-0", 32, 29)]}, True),
        ({"nodes": [node("b-0", 31, 30)]}, {"nodes": [node("b-0", 31, 0)]}, False),
        ({"nodes": [node("b-0", 31, 30)]}, {"nodes": [node("b-0", 31, None)]}, False),
        ({"nodes": [node("b-0", 31, on="gpu-1")]}, {"nodes": [node("b-0", 31, on="gpu-2")]}, False),
        ({"nodes": [node("b-0", 31), node("b-1", 32)]}, {"nodes": [node("b-1", 31), node("b-0", 32)]}, True),
        ({"nodes": [node("b-0", 31), node("b-1", 32)]}, {"nodes": [node("b-0", 31), node("b-2", 31)]}, False),
        ({"nodes": [*MANY, node("b-1", 32)]}, {"nodes": [*MANY, node("b-2", 31)]}, True),
        ({"nodes": [*MANY, node("b-1", 32)]}, {"nodes": [node("b-2", 4), *MANY]}, False),
        ({"nodes": [node("b-0", 2), *MANY]}, {"nodes": [*MANY, node("b-1", 32)]}, False),
    ],
)
def test_figures_follow_when_they_have_moved(before: dict[str, Any], after: dict[str, Any], same: bool) -> None:
    new = status_with(**after)
    new["utilization"] = {key: value for key, value in new["utilization"].items() if value is not None}
    assert says_the_same(status_with(**before), new, NOW) is same


RESTS = {
    "state": "Idle",
    "idleSince": "2026-11-21T10:00:00Z",
    "reason": "idle, and only reported",
}


@pytest.mark.parametrize(
    "change, same",
    [
        ({"idleSince": "2026-11-21T10:05:00Z"}, True),
        ({"idleSince": "2026-11-21T10:35:00Z"}, False),
        ({"idleSince": "2026-11-21T10:05:00Z", "reason": "snoozed"}, False),
        ({"idleSince": "2026-11-21T10:05:00Z", "reason": RESTS["reason"], "deadline": "2026-11-21T12:00:00Z"}, False),
        ({"state": "Active"}, False),
    ],
)
def test_that_the_idle_time_began_a_little_earlier_or_later_is_no_news(change: dict[str, str], same: bool) -> None:
    after = {**RESTS, **change}
    assert steady_record(dict(RESTS), after) == (RESTS if same else after)
