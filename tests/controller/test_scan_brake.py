"""What the brake sees of each look at the metrics: who works, who rests, and of whom nothing is known."""

from collections.abc import Iterable

from stoker.findings.vocabulary import UnknownReason
from stoker.policy.effective import EffectivePolicy
from stoker.reclaim.brake import JobActivity
from stoker.telemetry.screen import MetricsUnavailable
from tests.controller.test_scan import World


class RecordingBrakes:
    """Keeps what it is shown, in place of brakes."""

    def __init__(self, world: World) -> None:
        self.scan_results: list[dict[str, JobActivity]] = []
        self._world = world
        world.scanner._brakes = self  # type: ignore[assignment]  # it has the one method that is called

    async def scanned(self, seen: Iterable[tuple[EffectivePolicy, JobActivity]]) -> None:
        assert not len(self._world.queue), "the brake is told before anything can be concluded"
        self.scan_results.append({activity.job.partition("/")[2]: activity for _, activity in seen})

    @property
    def last(self) -> dict[str, JobActivity]:
        return self.scan_results[-1]

    @property
    def states(self) -> dict[str, bool | None]:
        return {name: activity.works for name, activity in self.last.items()}


async def test_a_glance_tells_who_works_long_before_anybody_is_idle() -> None:
    world = World()
    brakes = RecordingBrakes(world)
    for name in ("works", "rests", "silent"):
        world.add(name)
    world.add("young", started="2026-11-21T11:55:00Z")
    world.add("not-ready", ready=False)
    world.metrics.summaries = {"works": 40.0, "young": 0.0, "not-ready": 0.0, "rests": 0.0}
    await world.tick()
    assert brakes.states == {"works": True, "rests": False, "silent": None, "young": False, "not-ready": None}
    assert not brakes.last["young"].worked, "it has only just begun"


async def test_services_finished_jobs_and_what_is_being_reclaimed_are_not_shown() -> None:
    world = World()
    brakes = RecordingBrakes(world)
    world.add("service", jobType="Serving")
    world.add("reclaiming", status={"reclaim": {"state": "Reclaiming"}})
    world.add("over", phase="Succeeded", status={"completionTime": "2026-11-21T11:59:00Z"})
    world.add("job")
    world.metrics.summaries = dict.fromkeys(("service", "reclaiming", "over", "job"), 30.0)
    await world.tick()
    assert brakes.states == {"job": True}


async def test_without_metrics_nothing_is_known_of_anybody_and_without_jobs_that_is_told_too() -> None:
    world = World()
    brakes = RecordingBrakes(world)
    await world.tick()
    assert brakes.scan_results == [{}]
    world.add("job")
    world.metrics.error = MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "down")
    await world.tick()
    assert brakes.states == {"job": None}


async def test_of_the_past_a_first_look_knows_what_the_metrics_and_the_status_say() -> None:
    world = World()
    brakes = RecordingBrakes(world)
    world.add("idle")
    world.add("used", status={"utilization": {"averagePercent": 70}})
    world.add("resumed", started="2026-11-21T11:30:00Z", status={"utilization": {"averagePercent": 70}})
    world.add("unused", status={"utilization": {"averagePercent": 0}})
    world.metrics.resting = {"idle"}
    world.metrics.summaries = dict.fromkeys(("used", "resumed", "unused"), 0.0)
    await world.tick()
    assert brakes.last["idle"].idle_since is not None
    worked = {name: activity.worked for name, activity in brakes.last.items()}
    assert worked == {"idle": True, "used": True, "resumed": False, "unused": False}
