"""What is said of a job that its queue holds back. The conditions are those that Kueue writes."""

from typing import Any

import pytest

from stoker.adapters.kubernetes.client import DLJOBS, JOBS, WORKLOADS, ForbiddenError
from stoker.controller.pending_workloads import EACH, waits_for
from tests.controller.passes import World
from tests.workload.building import JOB_UID, job, pod

QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}


def workload(*conditions: dict[str, str], active: bool | None = None) -> dict[str, Any]:
    owner = {"uid": JOB_UID, "controller": True}
    labels = {"kueue.x-k8s.io/job-uid": JOB_UID}
    return {
        "metadata": {"name": "job-bert-1f2a3", "labels": labels, "ownerReferences": [owner], "annotations": {}},
        "spec": {} if active is None else {"active": active},
        "status": {"conditions": list(conditions)},
    }


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


NO_QUOTA = condition(
    "QuotaReserved",
    "False",
    "Pending",
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu",
)
NO_QUEUE = condition("QuotaReserved", "False", "Inadmissible", "LocalQueue nowhere doesn't exist")
RESERVED = condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue gpus")
PREEMPTED = condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload (UID: x) due to priority")
TOO_LONG = condition(
    "Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded", "exceeding the maximum execution"
)


@pytest.mark.parametrize(
    "workloads, reason, words",
    [
        ([workload(NO_QUOTA)], "Queued", "Kueue keeps it in its queue: couldn't assign flavors"),
        ([workload(NO_QUEUE)], "Queued", "LocalQueue nowhere doesn't exist"),
        ([workload()], "Queued", "it has not reported on it yet"),
        ([workload(RESERVED)], "Queued", "waits for an admission check"),
        ([workload(NO_QUOTA, PREEMPTED)], "Preempted", "due to priority; it waits again: couldn't assign"),
        (
            [workload(TOO_LONG, active=False)],
            "QueueInactive",
            "job-bert-1f2a3 is inactive (exceeding the maximum execution",
        ),
        ([workload(active=False)], "QueueInactive", "once spec.active of it is true"),
        ([], "Queued", "(queue gpus): check that Kueue is running"),
    ],
)
def test_it_is_said_what_it_waits_for(workloads: list[Any], reason: str, words: str) -> None:
    child = {"metadata": {"labels": QUEUE}}
    why = waits_for(child, workloads)
    assert (why.reason, words in why.message) == (reason, True), why.message


def test_of_a_job_without_a_queue_it_is_said_that_somebody_must_start_it() -> None:
    assert "whoever suspended it must resume it" in waits_for({"metadata": {}}, []).message


def test_kueues_words_are_one_bounded_printable_line() -> None:
    hostile = condition("QuotaReserved", "False", "Pending", "x\x1b[31m\n" * 5000)
    message = waits_for({"metadata": {"labels": QUEUE}}, [workload(hostile)]).message
    assert message.isprintable()
    assert len(message) < 400


def waiting() -> World:
    world = World(status={"jobUID": JOB_UID, "phase": "Queued"})
    child = job(suspend=True)
    child["metadata"]["labels"] |= QUEUE
    world.cache.jobs.put(world.api.store(JOBS, "team", child))
    return world


def ready(world: World) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in world.status["conditions"] if one["type"] == "PodsReady")
    return found


async def test_a_waiting_job_says_what_kueue_says_and_follows_it() -> None:
    world = waiting()
    for one, words in (
        (workload(NO_QUEUE), "LocalQueue nowhere doesn't exist"),
        (workload(NO_QUOTA), "insufficient quota"),
    ):
        world.api.store(WORKLOADS[0], "team", one)
        await world.controller.pending_workloads.once()
        await world.reconcile()
        assert words in ready(world)["message"]
    world.api.store(WORKLOADS[0], "team", workload(NO_QUOTA, active=False))
    await world.controller.pending_workloads.once()
    await world.reconcile()
    assert ready(world)["reason"] == "QueueInactive"
    assert len(world.events_of("QueueInactive")) == 1


async def test_a_preempted_job_whose_pods_still_end_says_that_they_hold_their_gpus() -> None:
    world = waiting()
    world.put_pods(pod())
    world.api.store(WORKLOADS[0], "team", workload(NO_QUOTA, PREEMPTED))
    await world.controller.pending_workloads.once()
    await world.reconcile()
    assert ready(world)["reason"] == "Preempted"
    assert ready(world)["message"].endswith("1 pod of its last run still terminating and holding GPUs")


async def test_without_the_permission_to_read_workloads_that_is_said() -> None:
    world = waiting()

    def refuse(asked: str) -> None:
        if asked == "list workloads":
            raise ForbiddenError("list", code=403, reason="Forbidden")

    world.api.before = refuse
    await world.controller.pending_workloads.once()
    await world.reconcile()
    assert "may not list Kueue's Workloads" in ready(world)["message"]


async def test_however_many_wait_a_look_asks_for_a_few_and_all_have_their_turn() -> None:
    world = waiting()
    raw, child = world.api.objects[DLJOBS, "team", "bert"], world.api.objects[JOBS, "team", "bert"]
    for number in range(3 * EACH):
        name, uid = f"job-{number}", f"uid-{number}"
        world.cache.dljobs.put(world.api.store(DLJOBS, "team", {**raw, "metadata": {**raw["metadata"], "name": name}}))
        made = {**child, "metadata": {**child["metadata"], "name": name, "uid": uid}}
        world.cache.jobs.put(world.api.store(JOBS, "team", made))
    world.api.requests.clear()
    await world.controller.pending_workloads.once()
    assert world.api.requests == ["list workloads"] * EACH
    for _ in range(3):
        await world.controller.pending_workloads.once()
    assert all(
        world.controller.pending_workloads.why({"metadata": {"uid": f"uid-{number}"}}) for number in range(3 * EACH)
    )
