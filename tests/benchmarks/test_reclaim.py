"""The simulation of reclaim on small clusters: nothing wrong is done with everything going wrong, and the judge sees it
when something is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.reclaim import cluster
from benchmarks.reclaim.cluster import FAULTS, Result, Scenario, live
from stoker.api.dljob import DLJob
from stoker.controller.brake import Brakes
from stoker.controller.reclaimer import Reclaimer
from stoker.diagnosis import idleness as idle
from stoker.findings.diagnosis import Idleness
from stoker.findings.vocabulary import Confidence
from stoker.reclaim import Plan, case, gates

RECLAIM = {"mode": "Suspend", "maxGPUPercentPerWindow": 60}
HASTY = {**RECLAIM, "idleAfter": "30m", "startupGrace": "10m", "cooldownAfterResume": "10m"}
"""More reclaims in less time."""


def whys(result: Result) -> str:
    return "; ".join(one.why for one in result.wrong)


def test_with_everything_going_wrong_nothing_wrong_is_done() -> None:
    total = Result()
    for seed in (1, 3):
        total.add(live(Scenario(seed=seed, hours=110, faults_every=3, reclaim=RECLAIM)))
    assert total.wrong == []
    assert total.errors == []
    assert total.job_hours > 1_900
    assert total.actions > 0
    assert total.returned_percent > 95
    assert sum(total.counts[name] for name in FAULTS) > 30


def test_where_nothing_goes_wrong_all_that_is_idle_comes_back() -> None:
    calm = live(Scenario(seed=3, hours=60, faults=False, reclaim=HASTY))
    assert (calm.wrong, calm.errors) == ([], [])
    assert calm.actions > 0
    assert calm.returned_of_all_percent > 99


def test_whatever_goes_wrong_in_a_cluster_without_jobs_ends() -> None:
    empty = live(Scenario(seed=1, hours=400, jobs=0, faults_every=2, reclaim=RECLAIM))
    assert (empty.wrong, empty.errors) == ([], [])
    assert sum(empty.counts[name] for name in FAULTS) > 100


def test_a_seed_always_gives_the_same() -> None:
    one, other = (live(Scenario(seed=4, hours=30, faults_every=2, reclaim=HASTY)) for _ in range(2))
    assert (one.counts, one.job_hours, one.returned) == (other.counts, other.job_hours, other.returned)


def without_gate(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    kept = tuple(gate for gate in gates.GATES if gate.name not in names)
    assert len(kept) == len(gates.GATES) - len(names)
    return lambda patch: patch.setattr(gates, "GATES", kept)


def with_unknown_taken_for_idle(patch: pytest.MonkeyPatch) -> None:
    def blind(facts: Any, screen: Any, **options: Any) -> Idleness:
        windows = {
            key: tuple(replace(gpu, coverage_percent=100.0, last_sample_at=screen.at) for gpu in gpus)
            for key, gpus in screen.gpus.items()
        }
        return judged(facts, replace(screen, gpus=windows), **options)

    judged = idle.idleness
    for module in ("stoker.controller.scan", "stoker.controller.reclaimer"):
        patch.setattr(f"{module}.idleness", blind)


def with_gaps_overlooked(patch: pytest.MonkeyPatch) -> None:
    def blind(facts: Any, screen: Any, **options: Any) -> Idleness:
        windows = {
            key: tuple(replace(gpu, has_gap=False, coverage_percent=100.0) for gpu in gpus)
            for key, gpus in screen.gpus.items()
        }
        return judged(facts, replace(screen, gpus=windows), **options)

    judged = idle.idleness
    for module in ("stoker.controller.scan", "stoker.controller.reclaimer"):
        patch.setattr(f"{module}.idleness", blind)


def with_uncounted_gpus_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stoker.workload.facts.uncounted_gpus", lambda *_: None)


def with_possible_causes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(case, "SURE", frozenset(Confidence))


def without_brake(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Brakes, "obstruction", lambda *_: None)
    patch.setattr("stoker.controller.constraints._is_stopped", lambda *_: False)


def without_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Brakes, "doubted_until", lambda *_: None)


def without_second_look(patch: pytest.MonkeyPatch) -> None:
    """The scan's last look has to do, which is minutes old where looks are rare."""
    scan_results: dict[str, Idleness] = {}
    plan = Reclaimer.plan

    async def remembering(
        self: Reclaimer,
        job: DLJob,
        child: Any,
        pods: Any,
        findings: Any,
        idle: Idleness | None,
        *more: Any,
        **kinds: Any,
    ) -> Plan:
        if idle is not None:
            scan_results[job.uid] = idle
        return await plan(self, job, child, pods, findings, idle, *more, **kinds)

    async def last(_: Reclaimer, job: DLJob, *__: Any) -> Idleness:
        return scan_results[job.uid]

    patch.setattr(Reclaimer, "plan", remembering)
    patch.setattr(Reclaimer, "_fresh_idleness", last)
    patch.setattr(cluster, "TICK", 240.0)


@pytest.mark.long
@pytest.mark.parametrize(
    "mutation, scenario, said",
    [
        pytest.param(
            with_unknown_taken_for_idle,
            {"only": ("exporters out", "one job without samples"), "faults_every": 1},
            "samples",
            id="unknown-is-idle",
        ),
        pytest.param(without_gate("grace-over", "grace-elapsed"), {}, "granted were", id="no-grace"),
        pytest.param(
            without_gate("bounds", "slot-taken"),
            {"reclaim": {**HASTY, "maxJobsPerWindow": 1}},
            "beyond the bound",
            id="no-bounds",
        ),
        pytest.param(without_gate("intent-recorded"), {}, "no intent", id="no-intent"),
        pytest.param(without_brake, {"only": ("zeros for all",), "faults_every": 4}, "worked at", id="no-brake"),
        pytest.param(without_doubt, {"only": ("zeros for all",), "faults_every": 4}, "worked at", id="no-doubt"),
        pytest.param(
            without_second_look,
            {"last_seconds": (-200.0, -40.0), "returning": 0.7},
            "worked at",
            id="no-second-look",
        ),
        pytest.param(without_gate("not-snoozed"), {}, "snoozed", id="no-snooze"),
        pytest.param(without_gate("no-service"), {}, "a service", id="services-too"),
        pytest.param(without_gate("no-service"), {}, "as its port says", id="ports-overlooked"),
        pytest.param(without_gate("nothing-lost"), {}, "only in its containers", id="results-lost"),
        pytest.param(with_uncounted_gpus_overlooked, {}, "not counted", id="uncounted-gpus-overlooked"),
        pytest.param(with_possible_causes, {}, "uploading its results", id="possible-is-enough"),
        pytest.param(
            with_gaps_overlooked,
            {"only": ("exporters out", "one job without samples"), "faults_every": 1},
            "in a row have no samples",
            id="gaps-overlooked",
        ),
        pytest.param(
            without_gate("cooled-down"),
            {"reclaim": {**HASTY, "cooldownAfterResume": "4h"}},
            "resumed",
            id="no-cooldown",
        ),
    ],
)
def test_the_judge_sees_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, mutation: Callable[[pytest.MonkeyPatch], None], scenario: dict[str, Any], said: str
) -> None:
    options: dict[str, Any] = {"hours": 120, "reclaim": HASTY, **scenario}
    mutation(monkeypatch)
    for seed in range(10, 20):
        result = live(Scenario(seed=seed, **options))
        if said in whys(result):
            return
    pytest.fail(f"not seen; what was seen: {whys(result) or 'nothing'}")
