"""Phase and conditions from a Job and its pods."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stoker.findings.vocabulary import ConditionType, Phase
from stoker.workload import JobObservation, observe
from stoker.workload.conditions import Fact, written
from stoker.workload.observation import creation_obstacle, is_ending
from stoker.workload.pods import Obstacle
from tests.workload.building import dljob, job, pod

UNSCHEDULABLE = [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available"}
]


def fact(seen: JobObservation, kind: ConditionType) -> Fact:
    return next(one for one in seen.facts if one.type is kind)


def pods_ready(seen: JobObservation) -> tuple[str, str]:
    found = fact(seen, ConditionType.PODS_READY)
    return found.status, found.reason


def test_no_job_yet() -> None:
    seen = observe(dljob(), None, [])
    assert (seen.phase, seen.ready, pods_ready(seen)) == (Phase.PENDING, "0/1", ("False", "Pending"))


def test_created_suspended() -> None:
    seen = observe(dljob(suspend=True), None, [])
    assert (seen.phase, fact(seen, ConditionType.SUSPENDED).status) == (Phase.SUSPENDED, "True")


@pytest.mark.parametrize(
    "pods, phase, ready, reason",
    [
        ([], Phase.PENDING, "0/2", "Pending"),
        ([pod(0, node=None, ready=False, phase="Pending", started=None, conditions=UNSCHEDULABLE)] * 2,
         Phase.PENDING, "0/2", "Unschedulable"),
        ([pod(0, ready=False, started=None), pod(1, ready=False, started=None)], Phase.STARTING, "0/2", "Starting"),
        ([pod(0), pod(1, ready=False)], Phase.STARTING, "1/2", "WaitingForPods"),
        ([pod(0), pod(1, node=None, ready=False, started=None, conditions=UNSCHEDULABLE)],
         Phase.STARTING, "1/2", "WaitingForPods"),
        ([pod(0), pod(1)], Phase.RUNNING, "2/2", "PodsReady"),
        ([pod(0), pod(1, terminating=True)], Phase.STARTING, "1/2", "WaitingForPods"),
    ],
)  # fmt: skip
def test_on_the_way_to_running(pods: list[dict[str, Any]], phase: Phase, ready: str, reason: str) -> None:
    seen = observe(dljob(nodes=2), job(nodes=2), pods)
    assert (seen.phase, seen.ready, pods_ready(seen)[1]) == (phase, ready, reason)


def test_a_job_that_has_run_does_not_start_again_because_its_node_is_not_ready_for_a_moment() -> None:
    lost = pod(1, ready=False)
    lost["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T06:00:00Z"
    seen = observe(dljob(nodes=2), job(nodes=2), [pod(0), lost])
    assert (seen.phase, seen.ready, pods_ready(seen)) == (Phase.RUNNING, "1/2", ("False", "PodsNotReady"))
    assert "bert-1-abcde no longer is" in fact(seen, ConditionType.PODS_READY).message
    assert "node gpu-0 is not ready" in fact(seen, ConditionType.PODS_READY).message


def test_a_pod_that_was_never_ready_starts() -> None:
    slow = pod(0, ready=False)
    slow["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T04:59:00Z"
    assert observe(dljob(), job(), [slow]).phase is Phase.STARTING


def test_who_waits_for_the_others_is_told_why_they_do_not_come() -> None:
    pods = [pod(0), pod(1, node=None, ready=False, started=None, conditions=UNSCHEDULABLE)]
    message = fact(observe(dljob(nodes=2), job(nodes=2), pods), ConditionType.PODS_READY).message
    assert "1 of 2 pods are ready" in message
    assert "0/4 nodes are available" in message


@pytest.mark.parametrize(
    "waiting, reason", [("ImagePullBackOff", "ImagePull"), ("CreateContainerConfigError", "ContainerConfig")]
)
def test_a_container_that_cannot_start(waiting: str, reason: str) -> None:
    state = {"waiting": {"reason": waiting, "message": "with TOKEN=s3cr3t"}}
    seen = observe(dljob(), job(), [pod(ready=False, state=state)])
    assert pods_ready(seen) == ("False", reason)
    assert "s3cr3t" not in fact(seen, ConditionType.PODS_READY).message


def test_a_pod_that_has_succeeded_is_not_missed() -> None:
    pods = [pod(0, phase="Succeeded", ready=False), pod(1)]
    seen = observe(dljob(nodes=2), job(nodes=2, succeeded=1), pods)
    assert (seen.phase, seen.ready, pods_ready(seen)[0]) == (Phase.RUNNING, "1/2", "True")


def test_suspended_by_us_is_true_only_once_no_pod_is_left() -> None:
    child = job(suspend=True)
    ending = observe(dljob(suspend=True), child, [pod(terminating=True)], held=True)
    assert ending.phase is Phase.SUSPENDED
    assert fact(ending, ConditionType.SUSPENDED).reason == "Terminating"
    counted = observe(dljob(suspend=True), job(suspend=True, terminating=1), [], held=True)
    assert fact(counted, ConditionType.SUSPENDED).reason == "Terminating", "the Job controller has not seen it yet"
    ended = observe(dljob(suspend=True), child, [], held=True)
    assert (fact(ended, ConditionType.SUSPENDED).status, ended.ready) == ("True", "0/1")


def test_suspended_by_somebody_else_is_queued() -> None:
    seen = observe(dljob(), job(suspend=True), [])
    assert (seen.phase, pods_ready(seen)) == (Phase.QUEUED, ("False", "Queued"))
    assert fact(seen, ConditionType.SUSPENDED).status == "False"


def test_a_job_whose_manager_has_not_suspended_it_yet_counts_as_suspended_once_its_pods_are_gone() -> None:
    seen = observe(dljob(suspend=True), job(), [pod()], held=True)
    assert (seen.phase, fact(seen, ConditionType.SUSPENDED).reason) == (Phase.SUSPENDED, "Terminating")
    between = observe(dljob(suspend=True), job(), [], held=True)
    assert fact(between, ConditionType.SUSPENDED).status == "False", "more pods may come"


def test_a_job_that_cannot_be_suspended_runs_and_that_is_said() -> None:
    seen = observe(dljob(suspend=True), job(), [pod()], unsuspendable="its queue says so")
    suspended = fact(seen, ConditionType.SUSPENDED)
    assert (seen.phase, suspended.reason) == (Phase.RUNNING, "NotSuspendable")
    assert "its queue says so" in suspended.message


def test_reclaimed() -> None:
    seen = observe(dljob(), job(suspend=True), [], reclaimed=True, held=True)
    assert (seen.phase, fact(seen, ConditionType.SUSPENDED).reason) == (Phase.RECLAIMED, "Reclaimed")


def ended(kind: str, reason: str) -> list[dict[str, Any]]:
    return [{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": "2026-11-21T09:00:00Z"}]


def test_success() -> None:
    seen = observe(dljob(), job(conditions=ended("Complete", "CompletionsReached")), [])
    assert (seen.phase, seen.completion_time) == (Phase.SUCCEEDED, datetime(2026, 11, 21, 9, tzinfo=UTC))
    assert fact(seen, ConditionType.COMPLETE).status == "True"


def test_failure_names_how_the_pods_ended() -> None:
    died = pod(phase="Failed", ready=False, state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})
    seen = observe(dljob(), job(conditions=ended("Failed", "MaxFailedIndexesExceeded")), [died])
    failed = fact(seen, ConditionType.FAILED)
    assert (seen.phase, failed.status, failed.reason) == (Phase.FAILED, "True", "MaxFailedIndexesExceeded")
    assert "exit code 137 (OOMKilled)" in failed.message


@pytest.mark.parametrize("kind", ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"])
def test_a_job_that_is_decided_is_ending(kind: str) -> None:
    assert is_ending(job(conditions=ended(kind, "X")))


@pytest.mark.parametrize(
    "failed, indexes, restarts", [(0, "", 0), (3, "", 3), (4, "0,1", 2), (9, "0,2-4", 5), (1, "0", 0)]
)
def test_restarts_are_the_failures_that_were_made_good(failed: int, indexes: str, restarts: int) -> None:
    assert observe(dljob(), job(failed=failed, failedIndexes=indexes), []).restarts == restarts


def test_the_start_is_the_first_containers_and_stays() -> None:
    earlier = dljob(nodes=2, status={"startTime": "2026-11-20T00:00:00Z"})
    assert observe(earlier, job(nodes=2), [pod()]).start_time == datetime(2026, 11, 20, tzinfo=UTC)
    assert observe(dljob(), job(), [pod(started=None, ready=False)]).start_time is None


@pytest.mark.parametrize(
    "message, reason, quoted",
    [
        ('Error creating: pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used: 0',
         "QuotaExceeded", "requested: requests.nvidia.com/gpu=8"),
        ('Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation',
         "PodSecurity", "restricted:latest"),
        ('Error creating: admission webhook denied: {"env":[{"name":"TOKEN","value":"s3cr3t"}]}',
         "PodsNotCreated", "kubectl describe job bert"),
        ('Error creating: admission webhook "mpod.kb.io" denied the request: {"env":[{"value":"s3cr3t"}]}',
         "PodsNotCreated", "the admission webhook mpod.kb.io refuses them"),
        ('Error creating: Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post',
         "PodsNotCreated", "the admission webhook mpod.kb.io does not answer"),
        ('Error creating: pods "x" is forbidden: error looking up service account t/me: serviceaccount "me" not found',
         "PodsNotCreated", 'serviceaccount "me" not found'),
    ],
)  # fmt: skip
def test_what_kept_pods_from_being_made_is_quoted_only_in_known_forms(message: str, reason: str, quoted: str) -> None:
    found = creation_obstacle(message, "bert")
    assert found.reason == reason
    assert quoted in found.message
    assert "s3cr3t" not in found.message


def test_an_obstacle_of_the_job_controller_comes_first() -> None:
    seen = observe(dljob(), job(), [], obstacle=Obstacle(reason="QuotaExceeded", message="m"))
    assert (seen.phase, pods_ready(seen)) == (Phase.PENDING, ("False", "QuotaExceeded"))


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_transitions_time_is_kept_while_the_status_stays_and_the_generation_is_always_new() -> None:
    before = [
        {"type": "PodsReady", "status": "True", "reason": "A", "lastTransitionTime": "t0", "observedGeneration": 1},
        {"type": "Idle", "status": "True", "reason": "B", "lastTransitionTime": "t0", "observedGeneration": 1},
    ]
    same = Fact(type=ConditionType.PODS_READY, status="True", reason="C", message="two\nlines")
    (ready, idle) = written([same], before, generation=2, now=NOW)
    assert (ready["lastTransitionTime"], ready["reason"], ready["message"]) == ("t0", "C", "two lines")
    assert (idle["reason"], idle["observedGeneration"]) == ("B", 2)
    flipped = Fact(type=ConditionType.PODS_READY, status="False", reason="C")
    assert written([flipped], before, generation=2, now=NOW)[0]["lastTransitionTime"] == "2026-11-21T12:00:00Z"


def test_no_message_is_too_long_for_a_status() -> None:
    (one,) = written(
        [Fact(type=ConditionType.IDLE, status="True", reason="A", message="x" * 5000)], [], generation=1, now=NOW
    )
    assert len(one["message"]) <= 1024
