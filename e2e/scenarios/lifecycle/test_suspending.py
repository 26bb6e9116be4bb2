"""spec.suspend takes the pods away and brings them back."""

from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import MERGE, DLJobs

GRACE = 600
"""Seconds that pods get to end: they are seen ending, however slow the machine is, until a test ends them."""


def test_suspended_means_that_the_gpus_are_free(jobs: DLJobs) -> None:
    """While pods terminate they hold their GPUs: Suspended is not true yet, and the phase says Suspended already."""
    jobs.create("bert", nodes=2, grace=GRACE)
    jobs.wait_phase("bert", "Running")
    jobs.patch("bert", {"spec": {"suspend": True}})
    ending = jobs.wait_condition("bert", "Suspended", "False", "Terminating")
    assert "still terminating" in ending["message"]
    assert jobs.pods("bert")
    jobs.end_pods("bert")
    jobs.wait_condition("bert", "Suspended", "True", "Requested")
    assert not jobs.live_pods("bert")
    status = jobs.status("bert")
    assert (status["phase"], status["ready"]) == ("Suspended", "0/2")


def test_a_resumed_rank_never_meets_its_terminating_self(jobs: DLJobs) -> None:
    jobs.create("bert", nodes=2, grace=GRACE)
    jobs.wait_phase("bert", "Running")
    old = {pod["metadata"]["uid"] for pod in jobs.pods("bert")}
    jobs.patch("bert", {"spec": {"suspend": True}})
    jobs.wait_condition("bert", "Suspended", "False", "Terminating")
    jobs.patch("bert", {"spec": {"suspend": False}})
    jobs.settled("bert")
    assert {pod["metadata"]["uid"] for pod in jobs.pods("bert")} == old
    jobs.end_pods("bert")

    def replaced() -> bool:
        pods = jobs.pods("bert")
        uids = {pod["metadata"]["uid"] for pod in pods}
        ranks = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods]
        assert len(ranks) == len(set(ranks)), "two pods of one rank"
        return len(pods) == 2 and not uids & old

    wait_for("both pods to be replaced", replaced)
    assert jobs.wait_phase("bert", "Running")["startTime"]


def test_pods_that_end_by_a_suspension_count_neither_as_failed_nor_as_succeeded(jobs: DLJobs) -> None:
    """Though no failure is allowed, and one rank leaves in good order when it is told to: it has not done its work."""
    jobs.create("bert", nodes=2, grace=GRACE, maxRestarts=0)
    jobs.wait_phase("bert", "Running")
    jobs.patch("bert", {"spec": {"suspend": True}})
    jobs.wait_condition("bert", "Suspended", "False", "Terminating")
    for pod, (phase, code) in zip(jobs.pods("bert"), (("Failed", 143), ("Succeeded", 0)), strict=True):
        ended = {"exitCode": code, "startedAt": "2026-11-21T12:00:00Z", "finishedAt": "2026-11-21T12:01:00Z"}
        trainer = {**pod["status"]["containerStatuses"][0], "ready": False, "state": {"terminated": ended}}
        status = {"phase": phase, "containerStatuses": [trainer]}
        path = f"/api/v1/namespaces/{jobs.namespace}/pods/{pod['metadata']['name']}/status"
        jobs.cluster.api("PATCH", path, {"status": status}, MERGE)
    jobs.wait_condition("bert", "Suspended", "True", "Requested")
    counted = jobs.job("bert")["status"]
    assert (counted.get("failed", 0), counted.get("succeeded", 0), counted.get("failedIndexes", "")) == (0, 0, "")
    jobs.patch("bert", {"spec": {"suspend": False}})
    jobs.wait_phase("bert", "Running")
    assert jobs.status("bert")["ready"] == "2/2"


def test_a_job_that_is_created_suspended_gets_no_job_until_it_is_resumed(jobs: DLJobs) -> None:
    jobs.create("later", suspend=True)
    jobs.wait_phase("later", "Suspended")
    jobs.wait_condition("later", "Suspended", "True", "Requested")
    assert not jobs.has("jobs", "later")
    jobs.patch("later", {"spec": {"suspend": False}})
    jobs.wait_phase("later", "Running")


def test_a_suspension_that_somebody_else_made_is_left_alone(jobs: DLJobs) -> None:
    jobs.create("theirs")
    jobs.wait_phase("theirs", "Running")
    jobs.patch_job("theirs", {"spec": {"suspend": True}})
    jobs.wait_phase("theirs", "Queued")
    jobs.settled("theirs")
    assert jobs.job("theirs")["spec"]["suspend"] is True
    jobs.patch_job("theirs", {"spec": {"suspend": False}})
    jobs.wait_phase("theirs", "Running")


def test_a_suspension_of_ours_that_somebody_lifts_is_made_again(jobs: DLJobs) -> None:
    jobs.create("held")
    jobs.wait_phase("held", "Running")
    jobs.patch("held", {"spec": {"suspend": True}})
    jobs.wait_condition("held", "Suspended", "True")
    jobs.patch_job("held", {"spec": {"suspend": False}})
    wait_for("the Job to be suspended again", lambda: jobs.job("held")["spec"]["suspend"] is True)
