"""Places among the reclaims that a policy allows, whose turn it is, and who waits for GPUs, as a controller finds them
out and writes them down.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    ApiError,
    ConflictError,
    ForbiddenError,
    Object,
    Resource,
    UnavailableError,
)
from stoker.api.dljob import DLJob
from stoker.cluster.cache import Key
from stoker.controller.capacity import CLAIMS, VOLUMES
from stoker.controller.constraints import KEPT_FREE
from stoker.findings.finding import parse_time, rfc3339
from stoker.reclaim import Constraints, Obstruction, Record
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi, HeldClock
from tests.workload.building import dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"
WINDOW = timedelta(hours=1)


class Cluster(FakeApi):
    """An API server that others get a word in at, and that knows the field selectors of pods."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._chance = random.Random(seed)

    async def _pause(self) -> None:
        for _ in range(self._chance.randrange(4)):
            await asyncio.sleep(0)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        await self._pause()
        return await super().get(resource, namespace, name)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str | None = None, fields: str | None = None
    ) -> tuple[list[Object], str]:
        await self._pause()
        self._ask(f"list {resource.plural} {fields}" if fields else f"list {resource.plural}")
        found = [obj for (kind, _, _), obj in self.objects.items() if kind == resource]
        field, _, value = (fields or "").partition("=")
        read = {
            "status.phase": lambda pod: pod["status"]["phase"],
            "spec.nodeName": lambda pod: pod["spec"].get("nodeName"),
        }
        return [obj for obj in found if not field or read[field](obj) == value], "1"

    async def replace(self, resource: Resource, *args: Any, **options: Any) -> Object:
        await self._pause()
        answer = await super().replace(resource, *args, **options)
        await self._pause()
        return answer


class Controller:
    """One process' view of the cluster."""

    def __init__(self, api: Cluster, clock: HeldClock) -> None:
        controller = assembled(api, clock)
        self.cache, self.policies = controller.cache, controller.policies
        self.brakes, self.reader = controller.brakes, controller.constraints
        for (resource, _, _), obj in api.objects.items():
            if resource in self.cache.resources:
                self.cache.collection(resource).put(obj)


class World:
    """Jobs that are due under one policy in a cluster of 160 GPUs, and a controller."""

    def __init__(self, *, seed: int = 0, nodes: int = 20, **reclaim: Any) -> None:
        self.api, self.clock = Cluster(seed), HeldClock(NOW)
        self.api.store(
            POLICIES,
            None,
            {
                "apiVersion": "stoker.dev/v1alpha1",
                "kind": "UtilizationPolicy",
                "metadata": {"name": "default"},
                "spec": {"reclaim": {"mode": "Suspend", **reclaim}},
            },
        )
        self.api.store(NAMESPACES, None, {"metadata": {"name": "team"}})
        for number in range(nodes):
            self.api.store(NODES, None, node(f"gpu-{number}"))
        self.here = Controller(self.api, self.clock)

    def restart(self) -> None:
        self.here = Controller(self.api, self.clock)

    def warn(self, name: str, gpus: int = 8, *, idle: float = 3, state: str = "Warned", **spec: Any) -> None:
        """A job that has been idle for so many hours and was warned 20 minutes ago."""
        record = {
            "state": state,
            "idleSince": rfc3339(self.clock.time - timedelta(hours=idle)),
            "warnedAt": rfc3339(self.clock.time - timedelta(minutes=20)),
            "deadline": rfc3339(self.clock.time - timedelta(minutes=5)),
        }
        nodes, each = (gpus // 8, 8) if gpus > 8 else (1, gpus)
        status = {"phase": "Running", "jobUID": f"job-of-{name}", "reclaim": record}
        raw = dljob_object(name, status=status, gpusPerNode=each, nodes=nodes, **spec)
        raw["metadata"]["uid"] = f"uid-of-{name}"
        self.here.cache.dljobs.put(self.api.store(DLJOBS, "team", raw))

    def delete(self, name: str) -> None:
        self.here.cache.dljobs.remove(self.api.objects.pop((DLJOBS, "team", name)))

    async def constraints(self, name: str, at: Controller | None = None) -> Constraints:
        job = self.job(name)
        here = at or self.here
        assert job.status is not None
        record = Record.from_status(job.status.reclaim)
        return await here.reader.of(job, [], here.policies.of("team"), record)

    async def bounds(self, name: str) -> Obstruction | None:
        return (await self.constraints(name)).bounds

    async def reclaim(self, name: str, at: Controller | None = None) -> bool:
        """Ask, and take a slot if nothing speaks against it, as the reclaimer does."""
        here = at or self.here
        if (await self.constraints(name, here)) != Constraints():
            return False
        return await here.reader.take_slot(self.job(name), here.policies.of("team"), self.clock.now())

    def job(self, name: str) -> DLJob:
        return DLJob.model_validate(self.api.objects[DLJOBS, "team", name])

    @property
    def taken(self) -> list[str]:
        """The jobs that hold a slot in the policy's status."""
        status = self.api.objects[POLICIES, None, "default"].get("status", {})
        return [one["job"].partition("/")[2] for one in status.get("recentReclaims", ())]


def node(name: str, gpus: int = 8) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "H100"}},
        "spec": {},
        "status": {"allocatable": {GPU: str(gpus), "cpu": "64", "pods": "110"}},
    }


def pod(name: str, *, on: str | None = None, gpus: int = 8, owner: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that runs on a node, or that was found unschedulable."""
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    metadata: dict[str, Any] = {"name": name, "namespace": "other", "creationTimestamp": "2026-11-21T11:00:00Z"}
    if owner is not None:
        metadata |= {
            "namespace": "team",
            "ownerReferences": [{"uid": f"job-of-{owner}", "controller": True}],
            "labels": {"stoker.dev/dljob": owner},
        }
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}, "requests": {"cpu": "500m"}}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": "Running" if on else "Pending", "conditions": [] if on else waits},
    }


# --------------------------------------------------------------------------------------------------- bounds and order


@pytest.mark.parametrize("seed", range(20))
async def test_of_six_due_jobs_asked_at_once_the_two_with_the_most_idle_gpu_hours_go(seed: int) -> None:
    world = World(seed=seed, maxJobsPerWindow=2, maxGPUPercentPerWindow=100)
    sizes = {"a": 8, "b": 1, "c": 16, "d": 4, "e": 2, "f": 1}
    for name, gpus in sizes.items():
        world.warn(name, gpus)
    names = list(sizes)
    random.Random(seed).shuffle(names)
    answers = dict(zip(names, await asyncio.gather(*map(world.reclaim, names)), strict=True))
    assert {name for name, done in answers.items() if done} == {"a", "c"} == set(world.taken)
    obstruction = await world.bounds("d")
    assert obstruction is not None
    assert obstruction.until == NOW + WINDOW
    assert world.api.objects[POLICIES, None, "default"]["status"]["recentReclaims"][0]["resource"] == GPU


@pytest.mark.parametrize("seed", range(20))
async def test_two_controllers_do_not_exceed_the_bound_together(seed: int) -> None:
    """Neither knows of the other but by the policy's resource version."""
    world = World(seed=seed, maxJobsPerWindow=3, maxGPUPercentPerWindow=100)
    for number in range(8):
        world.warn(f"job-{number}")
    other = Controller(world.api, world.clock)
    names = [f"job-{number}" for number in range(8)]

    async def reclaim(name: str, at: Controller) -> bool:
        try:
            return await at.reader.take_slot(world.job(name), at.policies.of("team"), NOW)
        except ConflictError:
            return False

    asked = [reclaim(name, at) for at in (world.here, other) for name in names]
    await asyncio.gather(*asked)
    assert len(world.taken) == len(set(world.taken)) == 3


async def test_neither_a_restart_nor_a_deleted_job_resets_the_count_and_what_is_old_leaves_it() -> None:
    world = World(maxJobsPerWindow=1)
    world.warn("first")
    assert await world.reclaim("first")
    world.delete("first")
    world.restart()
    world.warn("second")
    assert not await world.reclaim("second")
    assert (await world.bounds("second")) is not None
    world.clock.time += WINDOW
    assert await world.reclaim("second")
    assert world.taken == ["second"], "what is older than the window is pruned"


async def test_the_same_warning_takes_no_second_place_and_another_one_does() -> None:
    world = World(maxJobsPerWindow=2, maxGPUPercentPerWindow=100)
    world.warn("job")
    assert await world.reclaim("job")
    world.restart()
    assert await world.reclaim("job"), "the attempt that was cut off goes on"
    assert world.taken == ["job"]
    world.clock.time += timedelta(minutes=30)
    world.warn("job")
    assert await world.reclaim("job"), "it was resumed, and idle again"
    assert world.taken == ["job", "job"]
    world.clock.time += timedelta(minutes=25)
    world.warn("job")
    assert not await world.reclaim("job")


async def test_the_share_of_the_clusters_gpus_bounds_as_well() -> None:
    world = World(nodes=20)
    for name in ("a", "b", "c"):
        world.warn(name)
    assert [await world.reclaim(name) for name in ("a", "b", "c")] == [True, True, False]
    obstruction = await world.bounds("c")
    assert obstruction is not None
    assert "10 % of the cluster's 160" in obstruction.reason


@pytest.mark.parametrize(
    "error",
    [ForbiddenError("list nodes", code=403, reason="Forbidden"), UnavailableError("x", code=None, reason="late")],
)
async def test_where_nodes_can_not_be_read_one_job_a_window_is_reclaimed(error: ApiError) -> None:
    world = World()

    def refuse(asked: str) -> None:
        if asked == "list nodes":
            raise error

    world.api.before = refuse
    world.warn("a", 1)
    world.warn("b", 1)
    assert await world.reclaim("a")
    assert not await world.reclaim("b")
    obstruction = await world.bounds("b")
    assert obstruction is not None
    assert error.reason in obstruction.reason


async def test_a_write_of_others_in_between_is_no_failure_and_is_kept() -> None:
    world = World()
    world.warn("job")
    meddled: list[str] = []

    def meddle(asked: str) -> None:
        if asked == "replace utilizationpolicies" and not meddled:
            meddled.append(asked)
            raw = world.api.objects[POLICIES, None, "default"]
            world.api.store(POLICIES, None, {**raw, "status": {"overlaps": ["another's"]}})

    world.api.before = meddle
    assert await world.reclaim("job")
    assert world.api.objects[POLICIES, None, "default"]["status"]["overlaps"] == ["another's"]
    assert world.taken == ["job"]


async def test_a_brake_that_another_controller_put_on_is_seen_at_the_last_moment() -> None:
    world = World()
    world.warn("job")
    raw = world.api.objects[POLICIES, None, "default"]
    world.api.store(POLICIES, None, {**raw, "status": {"brake": {"since": rfc3339(NOW), "message": "outage"}}})
    assert (await world.constraints("job")).brake is None, "the watch has not told of it"
    assert not await world.reclaim("job")
    world.restart()
    brake = (await world.constraints("job")).brake
    assert brake is not None
    assert "outage" in brake.reason
    assert "stoker.dev/release-brake" in brake.change


async def test_a_job_that_its_schedule_or_its_policy_holds_back_holds_nobody_up() -> None:
    closed = [{"jobTypes": ["Interactive"], "start": "19:00", "end": "07:00"}]
    observed = [{"name": "vip", "jobSelector": {"matchLabels": {"vip": "yes"}}, "mode": "Observe"}]
    world = World(maxJobsPerWindow=1, schedule=closed, classes=observed)
    world.warn("notebook", 64, jobType="Interactive")
    world.warn("vip", 64, labels={"vip": "yes"})
    world.warn("unknown", 64, state="Unknown")
    world.warn("small", 1)
    assert await world.bounds("small") is None
    assert await world.reclaim("small")


async def test_a_place_that_the_first_in_line_does_not_take_is_not_kept_for_good() -> None:
    world = World(maxJobsPerWindow=1)
    world.warn("stuck", 8)
    world.warn("small", 1)
    waits = await world.bounds("small")
    assert waits is not None
    assert "team/stuck" in waits.reason
    world.clock.time += timedelta(seconds=KEPT_FREE)
    assert await world.bounds("small") is not None
    world.clock.time += timedelta(seconds=1)
    assert await world.bounds("small") is None
    assert await world.reclaim("small")
    world.delete("small")
    world.clock.time += WINDOW
    world.warn("next", 1)
    assert await world.bounds("next") is None, "nobody waits for it a second time"
    assert await world.bounds("stuck") is None, "though it may go at any time"
    raw = world.api.objects[DLJOBS, "team", "stuck"]
    world.here.cache.dljobs.remove(world.api.store(DLJOBS, "team", raw))
    world.warn("stuck", 8)
    assert await world.bounds("next") is not None, "until it is warned anew"


async def test_a_large_job_that_waits_for_room_keeps_its_turn_for_as_long_as_that_takes() -> None:
    world = World()
    world.warn("first", 1, idle=100)
    assert await world.reclaim("first")
    world.warn("large", 64)
    world.warn("small", 1)
    for _ in range(11):
        assert await world.bounds("small") is not None
        world.clock.time += timedelta(seconds=KEPT_FREE)
    world.clock.time += timedelta(seconds=KEPT_FREE)
    assert await world.reclaim("large")


async def test_of_a_job_that_is_not_due_only_the_brake_is_asked() -> None:
    world = World(onPressureOnly=True)
    world.warn("job")
    record = Record.from_status(world.job("job").status.reclaim)  # type: ignore[union-attr]  # `warn` has written it
    policy = world.here.policies.of("team")
    before = list(world.api.requests)
    world.clock.time -= timedelta(minutes=6)
    assert await world.here.reader.of(world.job("job"), [], policy, record) == Constraints()
    assert await world.here.reader.of(world.job("job"), [], policy, Record()) == Constraints()
    assert world.api.requests == before


class Crash(Exception):  # noqa: N818 - nothing is wrong with it
    """The process ends here."""


@settings(max_examples=60, deadline=None)
@example(jobs=1, story=[(0, 0, False, False), (35, 0, True, False), (30, 0, False, False)], seed=0)
@example(jobs=1, story=[(35, 0, True, False), (30, 0, False, False)], seed=0)
@given(
    jobs=st.integers(1, 4),
    story=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans(), st.booleans()),
        min_size=1,
        max_size=25,
    ),
    seed=st.integers(0, 9),
)
def test_no_story_of_crashes_errors_and_deletions_lets_more_jobs_go_than_the_bound(
    jobs: int, story: Sequence[tuple[int, int, bool, bool]], seed: int
) -> None:
    """In each step a job asks for its slot, crashes at some request, and may ask again much later or be deleted."""

    async def play() -> None:
        world = World(seed=seed, maxJobsPerWindow=jobs, maxGPUPercentPerWindow=100)
        done: list[datetime] = []
        for number, (minutes, crash, again, deleted) in enumerate(story):
            name = f"job-{number}"
            world.clock.time += timedelta(minutes=minutes)
            world.warn(name, 4)
            left = [crash]

            def step(asked: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] == 0:
                    raise Crash(asked)

            world.api.before = step
            reclaimed = False
            with suppress(Crash):
                reclaimed = await world.reclaim(name)
            world.api.before = lambda _: None
            if again:  # it crashed before the action, whether or not it had its slot
                world.restart()
                world.clock.time += timedelta(minutes=minutes)
                reclaimed = await world.reclaim(name)
            if reclaimed:
                done.append(world.clock.time)
            if deleted:
                world.delete(name)
            entries = world.api.objects[POLICIES, None, "default"].get("status", {}).get("recentReclaims", [])
            times = [time for one in entries if (time := parse_time(one["time"])) is not None]
            assert sum(world.clock.time - time < WINDOW for time in times) <= jobs
        for last in done:
            assert sum(timedelta(0) <= last - time < WINDOW for time in done) <= jobs

    asyncio.run(play())


# ----------------------------------------------------------------------------------------------------------- pressure


def running(world: World, name: str, *on: str) -> None:
    """The job's pods, in the cluster and in the store."""
    for rank, where in enumerate(on):
        raw = world.api.store(PODS, "team", pod(f"{name}-{rank}", on=where, owner=name))
        world.here.cache.pods.put(raw)


async def test_on_pressure_nobody_goes_until_a_pod_waits_that_would_fit() -> None:
    world = World(nodes=1, onPressureOnly=True)
    world.warn("job")
    running(world, "job", "gpu-0")
    pressure = (await world.constraints("job")).pressure
    assert pressure is not None
    assert "no pending pod that requests nvidia.com/gpu would fit" in pressure.reason
    world.api.store(PODS, "other", pod("too-large", gpus=16))
    world.api.store(PODS, "other", pod("elsewhere", nodeSelector={"nvidia.com/gpu.product": "A100"}))
    world.clock.time += timedelta(seconds=10)
    assert (await world.constraints("job")).pressure is not None
    world.api.store(PODS, "other", pod("fits", nodeSelector={"nvidia.com/gpu.product": "H100"}))
    assert (await world.constraints("job")).pressure is not None, "known since a few seconds"
    world.clock.time += timedelta(seconds=10)
    assert await world.constraints("job") == Constraints()
    assert await world.reclaim("job")


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}}},
        {"resourceClaims": [{"name": "gpu"}]},
        {"containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"limits": {GPU: "8"}}}]},
    ],
)
async def test_what_can_not_be_judged_does_not_press(spec: dict[str, Any]) -> None:
    world = World(nodes=1, onPressureOnly=True)
    world.warn("job")
    running(world, "job", "gpu-0")
    world.api.store(PODS, "other", pod("waits", **spec))
    assert (await world.constraints("job")).pressure is not None


async def test_a_pod_with_a_volume_that_all_nodes_share_presses() -> None:
    world = World(nodes=1, onPressureOnly=True)
    world.warn("job")
    running(world, "job", "gpu-0")
    world.api.store(PODS, "other", pod("waits", volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]))
    claim = {"spec": {"volumeName": "nfs", "accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    world.api.store(CLAIMS, "other", {"metadata": {"name": "data"}, **claim})
    assert (await world.constraints("job")).pressure is not None, "its volume can't be read"
    world.api.store(VOLUMES, None, {"metadata": {"name": "nfs"}, "spec": {"nfs": {}}})
    world.clock.time += timedelta(minutes=1)
    assert await world.constraints("job") == Constraints()
    asked = world.api.requests.count("get persistentvolumeclaims")
    world.clock.time += timedelta(seconds=10)
    assert await world.constraints("job") == Constraints()
    assert world.api.requests.count("get persistentvolumeclaims") == asked, "it is remembered for a while"


async def test_one_that_waits_takes_one_job_and_while_that_ends_no_other() -> None:
    world = World(nodes=2, onPressureOnly=True, maxGPUPercentPerWindow=100)
    for name, where, idle in (("longest", "gpu-0", 9.0), ("other", "gpu-1", 3.0)):
        world.warn(name, idle=idle)
        running(world, name, where)
    world.api.store(PODS, "other", pod("waits"))
    assert (await world.constraints("other")).pressure is not None
    assert await world.reclaim("longest")
    raw = world.api.objects[DLJOBS, "team", "longest"]
    raw["status"]["reclaim"]["state"] = "Reclaiming"
    world.here.cache.dljobs.put(world.api.store(DLJOBS, "team", raw))
    world.clock.time += timedelta(seconds=10)
    assert (await world.constraints("other")).pressure is not None, "what it holds is as good as free"
    world.api.objects[PODS, "team", "longest-0"]["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    world.clock.time += timedelta(seconds=10)
    assert (await world.constraints("other")).pressure is not None


async def test_a_type_whose_word_is_not_taken_chooses_no_class_that_goes_without_pressure() -> None:
    """Else the class of its word would say that pressure need not be looked for, and its own that there is some."""
    by_type = [{"name": "notebooks", "jobTypes": ["Interactive"], "onPressureOnly": False}]
    world = World(onPressureOnly=True, classes=by_type)
    policy = world.api.objects[POLICIES, None, "default"]
    policy["spec"]["trustedJobTypes"] = {"namespaceSelector": {"matchLabels": {"trusted": "yes"}}}
    world.restart()
    world.warn("claims", jobType="Interactive")
    assert (await world.constraints("claims")).pressure is not None


async def test_a_job_without_pressure_holds_nobody_up() -> None:
    by_class = [{"name": "pressed", "jobSelector": {"matchLabels": {"on": "pressure"}}, "onPressureOnly": True}]
    world = World(nodes=20, maxJobsPerWindow=1, classes=by_class)
    world.warn("pressed", 64, labels={"on": "pressure"})
    world.warn("small", 1)
    assert await world.bounds("small") is None


async def test_while_pods_or_nodes_can_not_be_read_there_is_no_pressure() -> None:
    world = World(nodes=1, onPressureOnly=True)
    world.warn("job")
    running(world, "job", "gpu-0")
    world.api.store(PODS, "other", pod("fits"))

    def refuse(asked: str) -> None:
        if asked.startswith("list pods spec.nodeName"):
            raise ForbiddenError(asked, code=403, reason="Forbidden")

    world.api.before = refuse
    pressure = (await world.constraints("job")).pressure
    assert pressure is not None
    assert "can't be read" in pressure.reason


async def test_ten_due_jobs_asked_at_once_read_pods_and_nodes_once() -> None:
    world = World(nodes=20, onPressureOnly=True)
    for number in range(10):
        world.warn(f"job-{number}")
        running(world, f"job-{number}", f"gpu-{number}")
    world.api.store(PODS, "other", pod("fits"))
    await asyncio.gather(*(world.constraints(f"job-{number}") for number in range(10)))
    assert world.api.requests.count("list nodes") == 1
    assert world.api.requests.count("list pods status.phase=Pending") == 1
    assert sum(one.startswith("list pods spec.nodeName") for one in world.api.requests) == 20


async def test_a_job_that_works_again_holds_nobody_up() -> None:
    """Of a job that is no longer warned nothing is remembered."""
    world = World(maxJobsPerWindow=1)
    world.warn("large", 64)
    world.warn("small", 1)
    assert await world.bounds("small") is not None
    raw = world.api.objects[DLJOBS, "team", "large"]
    raw["status"]["reclaim"] = {"state": "Active"}
    world.here.cache.dljobs.put(world.api.store(DLJOBS, "team", raw))
    assert Key("team", "large") in world.here.cache.dljobs.objects
    assert await world.bounds("small") is None
