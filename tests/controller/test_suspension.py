"""Jobs that Kueue manages: their pods are taken away and given back by their Workload, never by spec.suspend."""

from typing import Any

import pytest

from stoker.adapters.kubernetes.client import (
    DLJOBS,
    JOBS,
    WORKLOADS,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    Resource,
    UnavailableError,
)
from stoker.cluster.workqueue import Transient
from stoker.controller.requeue import UNANSWERED
from stoker.controller.suspension import NotSuspendableError
from tests.controller.passes import World
from tests.workload.building import JOB_UID, job, pod

NEWEST, OLDER = WORKLOADS
MARK = "stoker.dev/suspended-by"
TAKEN = {"state": "Reclaiming", "action": "Suspend", "idleSince": "2026-11-21T09:00:00Z"}


def workload(*, active: bool | None = None, by: str | None = None, **status: Any) -> dict[str, Any]:
    """What Kueue makes of the Job."""
    return {
        "metadata": {
            "name": "job-bert-1f2a3",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/job-uid": JOB_UID},
            "ownerReferences": [{"uid": JOB_UID, "controller": True}],
            "annotations": {} if by is None else {MARK: by},
        },
        "spec": {"queueName": "gpus"} | ({} if active is None else {"active": active}),
        "status": status,
    }


class Queue(World):
    """A World with Kueue."""

    def __init__(self, status: dict[str, Any] | None = None, *, served: Resource = NEWEST, **spec: Any) -> None:
        super().__init__({"jobUID": JOB_UID, **(status or {})}, **spec)
        self.served = served
        self.api.unserved = {*WORKLOADS} - {served}
        self.error: tuple[str, ApiError] | None = None
        self.api.before = self._answer

    def _answer(self, asked: str) -> None:
        if self.error is not None and asked == self.error[0]:
            raise self.error[1]

    def put_workload(self, **options: Any) -> None:
        self.api.store(self.served, "team", workload(**options))

    @property
    def workload(self) -> dict[str, Any]:
        return self.api.objects[self.served, "team", "job-bert-1f2a3"]

    @property
    def child(self) -> dict[str, Any]:
        return self.api.objects[JOBS, "team", "bert"]

    @property
    def marks(self) -> list[str | None]:
        """Of the Job and of the Workload."""
        return [one["metadata"]["annotations"].get(MARK) for one in (self.child, self.workload)]

    def kueue(self, *, suspend: bool) -> None:
        """Kueue suspends the Job, or starts it."""
        changed = {**self.child, "spec": {**self.child["spec"], "suspend": suspend}}
        self.cache.jobs.put(self.api.store(JOBS, "team", changed))


@pytest.mark.parametrize("served", WORKLOADS)
async def test_a_user_suspends_and_resumes_a_job_of_a_queue(served: Resource) -> None:
    world = Queue({"phase": "Running"}, served=served, suspend=True)
    world.put_job()
    world.put_pods(pod())
    world.put_workload()
    await world.reconcile()
    assert (world.workload["spec"]["active"], world.child["spec"]["suspend"]) == (False, False)
    assert world.marks == ["user", "user"]
    assert world.status["phase"] == "Suspended"
    world.kueue(suspend=True)
    raw = {**world.api.objects[DLJOBS, "team", "bert"]}
    raw["spec"] = {**raw["spec"], "suspend": False}
    world.cache.dljobs.put(world.api.store(DLJOBS, "team", raw))
    await world.reconcile()
    assert (world.workload["spec"]["active"], world.child["spec"]["suspend"]) == (True, True)
    assert world.marks == [None, None]
    assert world.status["phase"] == "Queued"


async def test_a_workload_that_somebody_else_deactivated_is_left_alone() -> None:
    world = Queue(suspend=True)
    world.put_job(suspend=True)
    world.put_workload(active=False)
    await world.reconcile()
    assert world.marks == [None, None]
    assert world.status["phase"] == "Queued"
    raw = {**world.api.objects[DLJOBS, "team", "bert"]}
    raw["spec"] = {**raw["spec"], "suspend": False}
    world.cache.dljobs.put(world.api.store(DLJOBS, "team", raw))
    await world.reconcile()
    assert world.workload["spec"]["active"] is False


async def test_what_a_crash_left_half_done_is_undone_once_it_is_not_wanted_any_more() -> None:
    """The Job carries the mark, the Workload was not reached, and Kueue preempts the Job: nothing by-passes it."""
    world = Queue()
    world.put_job(suspend=True, annotations={MARK: "user"})
    world.put_workload()
    await world.reconcile()
    assert world.marks == [None, None]
    assert (world.child["spec"]["suspend"], world.status["phase"]) == (True, "Queued")


async def test_a_resumption_that_a_crash_cut_off_is_finished() -> None:
    world = Queue()
    world.put_job(suspend=True, annotations={MARK: "reclaim"})
    world.put_workload(active=True)
    await world.reconcile()
    assert world.marks == [None, None]


async def test_a_reclaim_counts_when_kueue_has_suspended_the_job_and_its_pods_are_gone() -> None:
    world = Queue({"reclaim": TAKEN})
    world.put_job(annotations={MARK: "reclaim"})
    world.put_pods(pod())
    world.put_workload(active=False, by="reclaim")
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaiming")
    assert "Kueue" in world.status["reclaim"]["reason"]
    world.kueue(suspend=True)
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Reclaiming"
    world.cache.pods.remove({**pod(), "metadata": {**pod()["metadata"], "resourceVersion": "99"}})
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaimed")
    assert not [one for one in world.writes if one in {"patch jobs", "patch workloads"}]


async def test_an_intent_whose_workload_was_not_reached_is_no_action() -> None:
    world = Queue({"reclaim": TAKEN})
    world.put_job(annotations={MARK: "reclaim"})
    world.put_workload()
    await world.reconcile()
    assert world.status["reclaim"]["state"] == "Reclaiming"
    assert world.workload["spec"].get("active") is not False


async def test_nothing_is_decided_while_nobody_knows_whether_the_action_is_done() -> None:
    world = Queue({"phase": "Running", "reclaim": {**TAKEN, "deadline": "2026-11-21T11:00:00Z"}})
    world.put_job(suspend=True, annotations={MARK: "reclaim"})
    world.put_workload(active=False, by="reclaim")
    world.error = "list workloads", UnavailableError("list", code=500, reason="InternalError")
    assert await world.reconcile() == UNANSWERED
    assert world.status["reclaim"]["state"] == "Reclaiming"
    assert "it is unknown whether" in world.status["reclaim"]["reason"]
    world.error = None
    await world.reconcile()
    assert (world.status["phase"], world.status["reclaim"]["state"]) == ("Reclaimed", "Reclaimed")


async def test_a_reclaimed_workload_that_somebody_activates_is_resumed_not_deactivated_again() -> None:
    world = Queue({"reclaim": {**TAKEN, "state": "Reclaimed"}})
    world.put_job(suspend=True, annotations={MARK: "reclaim"})
    world.put_workload(active=True, by="reclaim")
    await world.reconcile()
    assert world.workload["spec"]["active"] is True
    assert (world.status["reclaim"]["state"], world.status["phase"]) == ("Active", "Queued")


@pytest.mark.parametrize("write", ["patch jobs", "patch workloads"])
async def test_a_write_that_was_refused_is_made_anew(write: str) -> None:
    world = Queue(suspend=True)
    world.put_job()
    world.put_workload()
    world.error = write, ConflictError("patch", code=409, reason="Conflict")
    with pytest.raises(Transient):
        await world.reconcile()
    assert world.workload["spec"].get("active") is not False
    world.error = None
    world.restart()
    await world.reconcile()
    assert (world.workload["spec"]["active"], world.marks) == (False, ["user", "user"])


@pytest.mark.parametrize(
    "error, word",
    [
        (ForbiddenError("list", code=403, reason="Forbidden"), "may not list"),
        (UnavailableError("list", code=500, reason="InternalError"), "can't be read"),
    ],
)
async def test_a_job_whose_workload_cannot_be_read_is_not_suspended_and_that_is_said(
    error: ApiError, word: str
) -> None:
    world = Queue(suspend=True)
    world.put_job()
    world.put_pods(pod())
    world.put_workload()
    world.error = "list workloads", error
    assert await world.reconcile() == UNANSWERED
    (suspended,) = (one for one in world.status["conditions"] if one["type"] == "Suspended")
    assert (suspended["status"], suspended["reason"]) == ("False", "NotSuspendable")
    assert word in suspended["message"]
    assert world.child["spec"]["suspend"] is False


@pytest.mark.parametrize("count", [0, 2])
async def test_a_job_in_a_queue_without_exactly_one_workload_is_not_touched(count: int) -> None:
    world = Queue(suspend=True)
    labelled = job()
    labelled["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpus"
    world.cache.jobs.put(world.api.store(JOBS, "team", labelled))
    world.put_pods(pod())
    for number in range(count):
        body = workload()
        body["metadata"]["name"] += str(number)
        world.api.store(NEWEST, "team", body)
    assert await world.reconcile() == UNANSWERED
    assert world.child["spec"]["suspend"] is False
    assert "patch jobs" not in world.writes


async def test_of_workloads_that_followed_one_another_the_one_that_is_not_over_counts() -> None:
    world = Queue(suspend=True)
    world.put_job()
    done = workload(conditions=[{"type": "Finished", "status": "True"}])
    done["metadata"]["name"] = "earlier"
    world.api.store(NEWEST, "team", done)
    world.put_workload()
    await world.reconcile()
    assert world.workload["spec"]["active"] is False


async def test_without_kueue_the_job_is_suspended_and_kueue_is_not_asked_for_again_and_again() -> None:
    world = Queue(suspend=True)
    world.put_job()
    world.error = "list workloads", NotFoundError("list", code=404, reason="no reason given")
    for _ in range(3):
        await world.reconcile()
    assert world.child["spec"]["suspend"] is True
    assert world.api.requests.count("list workloads") == len(WORKLOADS), "once for each version"


async def test_what_manages_a_job_is_not_asked_while_nothing_is_to_be_done() -> None:
    world = Queue({"phase": "Running"})
    world.put_job()
    world.put_workload()
    await world.reconcile()
    assert "list workloads" not in world.api.requests


async def test_a_kueue_that_comes_later_is_found_by_a_look_that_must_be_right() -> None:
    world = Queue()
    world.put_job()
    world.put_workload()
    suspension = world.controller.children.suspension
    world.error = "list workloads", NotFoundError("list", code=404, reason="no reason given")
    assert (await suspension.mechanism_of(world.child)).resource == JOBS
    world.error = None
    assert (await suspension.mechanism_of(world.child)).resource == JOBS
    assert (await suspension.mechanism_of(world.child, afresh=True)).resource == NEWEST
    world.error = "list workloads", ForbiddenError("list", code=403, reason="Forbidden")
    with pytest.raises(NotSuspendableError):
        await suspension.mechanism_of(world.child)
