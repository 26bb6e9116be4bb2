"""The last look before a reclaim, and the order in which it is recorded and done."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    NAMESPACES,
    PODS,
    POLICIES,
    WORKLOADS,
    ApiError,
    ConflictError,
    ForbiddenError,
    Object,
    Resource,
)
from stoker.api.dljob import DLJob
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import Transient
from stoker.controller.assembly import Substitutes
from stoker.controller.candidates import action_effect
from stoker.controller.presence import PresenceChecker, PresenceQuery
from stoker.controller.status_findings import recorded
from stoker.findings.finding import Finding, rfc3339
from stoker.findings.vocabulary import ReclaimMode, ReclaimState, UnknownReason
from stoker.reclaim import NOBODY, ActionEffect, Execution, Presence, Record, completed
from stoker.telemetry.screen import GpuWindow, MetricsUnavailable, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi
from tests.workload.building import JOB_UID, WITH_VOLUME, dljob_object, job, pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FINDING = {
    "category": "UnreleasedJob",
    "rule": "unreleased-job",
    "severity": "Warning",
    "confidence": "Likely",
    "detail": "idle",
    "sources": ["Metrics"],
}


EXAMINED = Execution(examination_age=timedelta(0))


class StoppedClock:
    steady = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.steady


class Gauges:
    """All GPUs of one pod at one utilization."""

    def __init__(self) -> None:
        self.utils: list[float] = [0.0] * 8
        self.error: MetricsUnavailable | None = None

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        if self.error is not None:
            raise self.error
        gpus = tuple(
            GpuWindow(
                gpu=f"GPU-{index}",
                peaks={GpuSignal.UTIL: util},
                coverage_percent=100.0,
                last_sample_at=now,
                quiet_since=now - timedelta(hours=3) if util == 0 else None,
            )
            for index, util in enumerate(self.utils)
        )
        (asked,) = requests
        assert asked.detailed
        return [Screen(at=now, window=asked.window, gpus={("team", "bert-0-abcde"): gpus})]

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        raise AssertionError("the last look is the screen")


class People(PresenceChecker):
    """Whom a test wants to be there, beside those whose session the status tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.says = NOBODY
        self.asked: list[PresenceQuery] = []

    async def of(self, job: DLJob, pods: Sequence[Object], query: PresenceQuery | None = None) -> Presence:
        if query is None:
            return await super().of(job, pods)
        self.asked.append(query)
        return self.says


class World:
    """One warned job whose deadline has passed, in an API server of one's own."""

    def __init__(self, *, mode: str = "Suspend", **reclaim: Any) -> None:
        self.api, self.cache, self.metrics, self.people = FakeApi(), ClusterCache(Faults()), Gauges(), People()
        self.record: dict[str, Any] = {
            "state": "Warned",
            "action": mode,
            "idleSince": rfc3339(NOW - timedelta(hours=3)),
            "warnedAt": rfc3339(NOW - timedelta(minutes=20)),
            "deadline": rfc3339(NOW - timedelta(minutes=5)),
            "jobUID": JOB_UID,
            "podUIDs": ["pod-0"],
        }
        status = {"phase": "Running", "jobUID": JOB_UID, "findings": [FINDING], "reclaim": self.record}
        self.raw = self.api.store(DLJOBS, "team", dljob_object(status=status, podTemplate=WITH_VOLUME))
        self.api.store(JOBS, "team", {**job(), "spec": {"suspend": False}})
        self.api.store(PODS, "team", pod())
        policy = {
            "metadata": {"name": "default", "uid": "p"},
            "spec": {"reclaim": {"mode": mode, **reclaim}},
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "UtilizationPolicy",
        }
        self.cache.policies.put(self.api.store(POLICIES, None, policy))
        self.cache.namespaces.put(self.api.store(NAMESPACES, None, {"metadata": {"name": "team", "labels": {}}}))
        self.clock = StoppedClock()
        parts = Substitutes(cache=self.cache, presences=self.people)
        controller = assembled(self.api, self.clock, metrics=self.metrics, substitutes=parts)
        self.reclaimer, self.manifests = controller.reclaimer, controller.manifests

    async def reclaim(self, found: Sequence[Finding] | None = None) -> None:
        """`found` are the findings of the last examination; by default those on record."""
        stale = DLJob.model_validate(self.raw)
        await self.manifests.review(stale)
        await self.reclaimer.reclaim(stale, recorded(stale) if found is None else found, EXAMINED)

    @property
    def state(self) -> str:
        return str(self.api.objects[DLJOBS, "team", "bert"]["status"]["reclaim"]["state"])

    @property
    def is_suspended(self) -> bool:
        return bool(self.api.objects[JOBS, "team", "bert"]["spec"]["suspend"])

    def fail(self, request: str, error: ApiError) -> None:
        """Let every request of that name fail."""

        def refuse(asked: str) -> None:
            if asked == request:
                raise error

        self.api.before = refuse

    def change(self, request: str, change: Callable[[], object]) -> None:
        """Let something happen just before the first request of that name."""
        todo = [change]

        def happen(asked: str) -> None:
            if asked == request and todo:
                todo.pop()()

        self.api.before = happen

    def touch_dljob(self) -> None:
        self.api.store(DLJOBS, "team", self.api.objects[DLJOBS, "team", "bert"])

    def touch_policy(self) -> None:
        """As anybody does who writes its status."""
        self.api.store(POLICIES, None, self.api.objects[POLICIES, None, "default"])

    def touch_job(self) -> None:
        self.api.store(JOBS, "team", self.api.objects[JOBS, "team", "bert"])


CONFLICT = ConflictError("write", code=409, reason="Conflict")


async def test_the_place_is_taken_then_the_intent_recorded_then_the_job_suspended() -> None:
    world = World()
    await world.reclaim()
    assert (world.is_suspended, world.state) == (True, "Reclaiming")
    writes = [one for one in world.api.requests if one.split()[0] in {"replace", "patch", "delete", "create"}]
    assert writes == ["replace utilizationpolicies", "replace dljobs", "patch jobs"]


def test_a_job_is_reclaimed_when_its_last_pod_has_ended() -> None:
    record = Record(state=ReclaimState.RECLAIMING, action=ReclaimMode.SUSPEND, idle_since=NOW)
    child = job(suspend=True, annotations={"stoker.dev/suspended-by": "reclaim"})

    def after(child: Object, pods: Sequence[Object], *, held_by_reclaim: bool = True) -> Record:
        effect: ActionEffect = action_effect(child, pods, held_by_reclaim=held_by_reclaim)
        return completed(record, effect, NOW)

    waiting = after(child, [pod()])
    assert (waiting.state, waiting.reclaimed_at) == (ReclaimState.RECLAIMING, None)
    assert "1 pod" in waiting.reason
    ending = after({**child, "status": {"terminating": 2}}, [])
    assert ending.state is ReclaimState.RECLAIMING, "the watch has told of the pods' end before the Job controller"
    done = after(child, [])
    assert (done.state, done.reclaimed_at) == (ReclaimState.RECLAIMED, NOW)
    on = {**child, "spec": {"suspend": False}}
    assert after(on, [], held_by_reclaim=False) is record, "an intent is not the action"


async def test_people_are_looked_for_afresh_before_the_action() -> None:
    world = World()
    await world.reclaim()
    (asked,) = world.people.asked
    assert (asked.window, asked.interactive, asked.afresh) == (timedelta(hours=1), False, True)
    assert world.is_suspended


@pytest.mark.parametrize(
    "presence, state",
    [
        (Presence(last_seen=NOW - timedelta(minutes=59), how="a notebook is open"), "Active"),
        (Presence(unknown="its Jupyter does not answer"), "Unknown"),
    ],
)
async def test_somebody_who_is_there_or_may_be_keeps_the_job(presence: Presence, state: str) -> None:
    world = World()
    world.people.says = presence
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, state)


async def test_where_something_else_speaks_for_the_job_nobody_is_looked_for() -> None:
    works, uncaused = World(), World()
    works.metrics.utils[5] = 60.0
    await works.reclaim()
    await uncaused.reclaim(found=())
    assert (works.people.asked, uncaused.people.asked) == ([], [])


async def test_a_session_that_is_noted_at_the_last_moment_keeps_the_job() -> None:
    """Before the last look it is read; after it the record of the intent meets another version."""
    early, late = World(), World()
    for world, request in ((early, "get dljobs"), (late, "replace dljobs")):
        stored = world.api.objects[DLJOBS, "team", "bert"]
        noted = {**stored, "status": {**stored["status"], "lastSession": rfc3339(NOW - timedelta(seconds=1))}}
        world.change(request, partial(world.api.store, DLJOBS, "team", noted))
    await early.reclaim()
    assert (early.is_suspended, early.state) == (False, "Active")
    assert early.api.objects[DLJOBS, "team", "bert"]["status"]["lastSession"] == "2026-11-21T11:59:59Z"
    with pytest.raises(ConflictError):
        await late.reclaim()
    assert not late.is_suspended


async def test_a_program_that_stoker_fails_to_read_may_be_a_service_and_keeps_its_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fault(*_: object, **__: object) -> None:
        raise AssertionError("a fault of ours")

    monkeypatch.setattr(sys.modules["stoker.lint.review"], "read_job", fault)
    world = World()
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Active")


async def test_delete_mode_deletes_the_job() -> None:
    world = World(mode="Delete")
    await world.reclaim()
    assert (JOBS, "team", "bert") not in world.api.objects
    assert world.state == "Reclaiming"


async def test_one_gpu_that_works_again_stops_it() -> None:
    world = World()
    world.metrics.utils[5] = 60.0
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Active")


@pytest.mark.parametrize("reason", [UnknownReason.PROMETHEUS_UNAVAILABLE, UnknownReason.PARTIAL])
async def test_without_metrics_nothing_is_done_and_the_warning_stays(reason: UnknownReason) -> None:
    world = World()
    world.metrics.error = MetricsUnavailable(reason, "down")
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Unknown")
    assert world.api.objects[DLJOBS, "team", "bert"]["status"]["reclaim"]["deadline"] == world.record["deadline"]


async def test_an_owner_who_asks_for_it_before_the_last_look_keeps_it() -> None:
    """Though the watch has not told of it yet: the last look reads the DLJob afresh."""
    world = World()
    raw = world.api.objects[DLJOBS, "team", "bert"]
    raw["metadata"].setdefault("annotations", {})["stoker.dev/resume"] = "please"
    with pytest.raises(Transient):
        await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")


async def test_a_replaced_pod_stops_it() -> None:
    world = World()
    world.api.store(PODS, "team", pod(uid="another"))
    await world.reclaim()
    assert not world.is_suspended
    assert world.state == "Warned"
    assert world.api.objects[DLJOBS, "team", "bert"]["status"]["reclaim"]["podUIDs"] == ["another"]


async def test_a_status_that_is_no_longer_warned_stops_it() -> None:
    world = World()
    raw = world.api.objects[DLJOBS, "team", "bert"]
    del raw["status"]["reclaim"]["deadline"]
    await world.reclaim()
    assert not world.is_suspended


@pytest.mark.parametrize("resource", [DLJOBS, JOBS])
async def test_what_is_being_deleted_is_left_alone(resource: Resource) -> None:
    world = World()
    world.api.objects[resource, "team", "bert"]["metadata"]["deletionTimestamp"] = "2026-11-21T11:59:00Z"
    with suppress(Transient):
        await world.reclaim()
    assert not world.is_suspended


async def test_without_the_intents_record_nothing_is_done() -> None:
    world = World()
    world.fail("replace dljobs", CONFLICT)
    with pytest.raises(ConflictError):
        await world.reclaim()
    assert not world.is_suspended


async def test_without_a_place_in_the_policys_count_nothing_is_done() -> None:
    world = World()
    world.fail("replace utilizationpolicies", CONFLICT)
    with pytest.raises(ConflictError):
        await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")


async def test_a_job_that_changes_after_the_look_is_not_suspended() -> None:
    world = World()
    world.change("replace dljobs", world.touch_job)
    with pytest.raises(ConflictError):
        await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Reclaiming")
    await world.reclaim()  # the next pass looks again, and finds nothing changed
    assert (world.is_suspended, world.state) == (True, "Reclaiming")


async def test_a_look_that_is_old_by_the_time_of_the_action_carries_none() -> None:
    world = World()
    world.change("replace dljobs", lambda: setattr(world.clock, "steady", 25.0))
    with pytest.raises(Transient, match="25 s old"):
        await world.reclaim()
    assert not world.is_suspended


async def test_a_warning_that_this_process_recorded_stands_for_its_grace_by_the_steady_clock() -> None:
    world = World()
    warned_at, deadline = NOW - timedelta(minutes=20), NOW - timedelta(minutes=5)
    record = Record(state=ReclaimState.WARNED, warned_at=warned_at, deadline=deadline)
    world.reclaimer.wrote(DLJob.model_validate(world.raw).uid, Record(), record)
    world.clock.steady = 14 * 60.0
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")
    status = world.api.objects[DLJOBS, "team", "bert"]["status"]
    assert "its grace period is not over yet (monotonic clock)" in status["reclaim"]["reason"]
    world.clock.steady = 15 * 60.0
    await world.reclaim()
    assert world.is_suspended


async def test_a_dljob_that_changes_after_the_look_is_not_reclaimed() -> None:
    world = World()
    world.change("replace utilizationpolicies", world.touch_dljob)
    with pytest.raises(ConflictError):
        await world.reclaim()
    assert not world.is_suspended


async def test_no_more_jobs_than_the_policy_allows_in_its_window() -> None:
    world = World(maxJobsPerWindow=1)
    recent = [{"jobUID": "other", "job": "team/other", "time": rfc3339(NOW - timedelta(minutes=59)), "gpus": 8}]
    policy = world.api.objects[POLICIES, None, "default"]
    policy["status"] = {"recentReclaims": recent}
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")
    recent[0]["time"] = rfc3339(NOW - timedelta(minutes=61))
    await world.reclaim()
    assert world.is_suspended
    assert [one["job"] for one in world.api.objects[POLICIES, None, "default"]["status"]["recentReclaims"]] == [
        "team/bert"
    ]


def observing(name: str, selector: dict[str, str] | None = None) -> dict[str, Any]:
    """A policy that lets nothing be done, for the namespaces with these labels."""
    return {
        "metadata": {"name": name, "generation": 2},
        "spec": {
            "reclaim": {"mode": "Observe"},
            **({"namespaceSelector": {"matchLabels": selector}} if selector is not None else {}),
        },
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
    }


@pytest.mark.parametrize("when", ["list utilizationpolicies", "replace utilizationpolicies"])
@pytest.mark.parametrize("what", ["the policy", "another policy", "the namespace"])
async def test_a_policy_of_which_the_watch_has_not_told_yet_holds_at_the_action(what: str, when: str) -> None:
    """Whether the policy is edited, another one is made, or the namespace gets a label by which another one holds; also
    while the place is being taken.
    """
    world = World()
    held = observing("held", {"team": "held"})
    world.cache.policies.put(world.api.store(POLICIES, None, held))

    def change() -> None:
        world.touch_policy()
        match what:
            case "the policy":
                edited = {**world.api.objects[POLICIES, None, "default"], **observing("default")}
                world.api.store(POLICIES, None, edited)
            case "another policy":
                world.api.store(POLICIES, None, observing("new", {"kubernetes.io/metadata.name": "team"}))
            case "the namespace":
                world.api.store(NAMESPACES, None, {"metadata": {"name": "team", "labels": {"team": "held"}}})

    world.change(when, change)
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")


async def test_under_a_policy_that_is_no_more_nothing_is_done() -> None:
    world = World()
    world.change("list utilizationpolicies", lambda: world.api.objects.pop((POLICIES, None, "default")))
    await world.reclaim()
    assert (world.is_suspended, world.state) == (False, "Warned")


async def test_an_attempt_that_was_cut_off_does_not_take_a_second_place() -> None:
    world = World(maxJobsPerWindow=1)
    world.fail("patch jobs", CONFLICT)
    with pytest.raises(ConflictError):
        await world.reclaim()
    world.api.before = lambda _: None
    await world.reclaim()
    assert world.is_suspended


async def test_nothing_is_taken_back_for_a_finding_that_the_last_examination_does_not_show() -> None:
    """It may stand in the status for a while, and warnings rest on it; the action does not."""
    world = World()
    await world.reclaim(found=())
    assert (world.state, world.is_suspended) == ("Idle", False)


# ------------------------------------------------------------------------------------------- Jobs that Kueue manages

WORKLOAD: dict[str, Any] = {
    "metadata": {
        "name": "job-bert-1f2a3",
        "namespace": "team",
        "labels": {"kueue.x-k8s.io/job-uid": JOB_UID},
        "ownerReferences": [{"uid": JOB_UID, "controller": True}],
        "annotations": {},
    },
    "spec": {"queueName": "gpus"},
}


async def test_a_job_that_kueue_manages_is_reclaimed_through_its_workload() -> None:
    """The Job is marked first, under the version that was read with its pods; then the Workload is deactivated."""
    world = World()
    world.api.store(WORKLOADS[0], "team", WORKLOAD)
    await world.reclaim()
    found = world.api.objects[WORKLOADS[0], "team", "job-bert-1f2a3"]
    assert (found["spec"], found["metadata"]["annotations"]) == (
        {"queueName": "gpus", "active": False},
        {"stoker.dev/suspended-by": "reclaim"},
    )
    assert (world.is_suspended, world.state) == (False, "Reclaiming")
    assert [one for one in world.api.requests if one.startswith("patch")] == ["patch jobs", "patch workloads"]


@pytest.mark.parametrize("changed", ["job", "workload"])
async def test_a_managed_job_that_changes_after_the_look_is_not_reclaimed(changed: str) -> None:
    world = World()
    world.api.store(WORKLOADS[0], "team", WORKLOAD)

    def touch() -> None:
        if changed == "job":
            world.touch_job()
        else:
            world.api.store(WORKLOADS[0], "team", WORKLOAD)

    world.change("replace dljobs", touch)
    with pytest.raises(ConflictError):
        await world.reclaim()
    assert "active" not in world.api.objects[WORKLOADS[0], "team", "job-bert-1f2a3"]["spec"]


async def test_another_jobs_workload_with_a_copied_label_is_left_alone() -> None:
    world = World()
    owner = {"ownerReferences": [{"uid": "another", "controller": True}]}
    world.api.store(WORKLOADS[0], "team", {**WORKLOAD, "metadata": {**WORKLOAD["metadata"], **owner}})
    await world.reclaim()
    assert "active" not in world.api.objects[WORKLOADS[0], "team", "job-bert-1f2a3"]["spec"]
    assert (world.is_suspended, world.state) == (False, "Warned")


async def test_a_workload_that_somebody_else_has_just_deactivated_is_not_claimed() -> None:
    world = World()
    world.api.store(WORKLOADS[0], "team", {**WORKLOAD, "spec": {"active": False}})
    await world.reclaim()
    found = world.api.objects[WORKLOADS[0], "team", "job-bert-1f2a3"]
    assert (found["metadata"]["annotations"], world.state) == ({}, "Active")


async def test_a_job_whose_manager_cannot_be_told_is_only_reported_and_its_warning_stays() -> None:
    world = World()
    world.fail("list workloads", ForbiddenError("list", code=403, reason="Forbidden"))
    await world.reclaim()
    record = world.api.objects[DLJOBS, "team", "bert"]["status"]["reclaim"]
    assert (world.is_suspended, record["state"]) == (False, "Warned")
    assert "may not list Kueue's Workloads" in record["reason"]
    assert record["deadline"] == world.record["deadline"]
