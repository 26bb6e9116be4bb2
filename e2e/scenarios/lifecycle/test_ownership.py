"""What is not ours is not touched, and what was taken from us is not brought back."""

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.lifecycle.workload import DLJobs

FOREIGN = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "taken"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example.com/other:1"}],
            }
        }
    },
}


def test_a_foreign_job_of_the_same_name_is_a_conflict_and_stays_untouched(jobs: DLJobs) -> None:
    path = f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs"
    foreign = jobs.cluster.api("POST", path, FOREIGN)
    jobs.create("taken")
    conflict = jobs.wait_condition("taken", "NameConflict", "True")
    assert "Job named taken" in conflict["message"]
    assert jobs.status("taken")["phase"] == "Pending"
    jobs.delete("taken")
    wait_for("the DLJob to be gone", lambda: not jobs.has("dljobs", "taken"))
    after = jobs.job("taken")
    assert after["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert "ownerReferences" not in after["metadata"]
    assert after["spec"] == foreign["spec"]


def test_the_job_is_made_once_the_name_is_free(jobs: DLJobs) -> None:
    jobs.cluster.api("POST", f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs", FOREIGN)
    jobs.create("taken")
    jobs.wait_condition("taken", "NameConflict", "True")
    jobs.cluster.kubectl("delete", "job", "taken", "-n", jobs.namespace)
    jobs.wait_phase("taken", "Running")
    assert jobs.condition("taken", "NameConflict")["status"] == "False"


def test_a_job_with_our_label_and_no_owner_is_foreign_too(jobs: DLJobs) -> None:
    labelled = {**FOREIGN, "metadata": {"name": "taken", "labels": {"stoker.dev/dljob": "taken"}}}
    jobs.cluster.api("POST", f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs", labelled)
    jobs.create("taken")
    jobs.wait_condition("taken", "NameConflict", "True")


def test_a_job_that_is_deleted_by_hand_is_not_brought_back(jobs: DLJobs) -> None:
    jobs.create("cut")
    jobs.wait_phase("cut", "Running")
    jobs.cluster.kubectl("delete", "job", "cut", "-n", jobs.namespace)
    jobs.wait_phase("cut", "Failed")
    assert jobs.condition("cut", "Failed")["reason"] == "JobDeleted"
    jobs.settled("cut")
    assert not jobs.has("jobs", "cut")


def test_a_job_that_is_deleted_while_the_controller_is_away_is_not_brought_back(
    operator: Operator, jobs: DLJobs
) -> None:
    jobs.create("cut")
    jobs.wait_phase("cut", "Running")
    operator.kill_controller()
    jobs.cluster.kubectl("delete", "job", "cut", "-n", jobs.namespace)
    wait_for("the Job to be gone", lambda: not jobs.has("jobs", "cut"))
    operator.cluster.restart(CONTROLLER)
    jobs.wait_phase("cut", "Failed", timeout=60)
    assert jobs.condition("cut", "Failed")["reason"] == "JobDeleted"
    assert not jobs.has("jobs", "cut")


def test_a_dljob_of_the_same_name_gets_a_job_of_its_own(jobs: DLJobs) -> None:
    jobs.create("again")
    first = jobs.wait_phase("again", "Running")["jobUID"]
    jobs.delete("again")
    wait_for("the DLJob to be gone", lambda: not jobs.has("dljobs", "again"))
    jobs.create("again")
    second = jobs.wait_phase("again", "Running")["jobUID"]
    assert second != first


def test_the_template_is_never_applied_again(jobs: DLJobs) -> None:
    """Labels that others put on the Job stay, whatever happens to the DLJob."""
    jobs.create("stable")
    jobs.wait_phase("stable", "Running")
    jobs.patch_job("stable", {"metadata": {"labels": {"example.com/theirs": "yes"}}})
    jobs.patch("stable", {"metadata": {"labels": {"new": "label"}}, "spec": {"ttlSecondsAfterFinished": 60}})
    jobs.settled("stable")
    labels = jobs.job("stable")["metadata"]["labels"]
    assert labels["example.com/theirs"] == "yes"
    assert "new" not in labels


def test_a_foreign_service_of_the_same_name_is_a_conflict(jobs: DLJobs) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dlj-taken"},
        "spec": {"clusterIP": "None", "selector": {"app": "other"}},
    }
    jobs.cluster.api("POST", f"/api/v1/namespaces/{jobs.namespace}/services", service)
    jobs.create("taken", nodes=2)
    assert "a Service named dlj-taken exists" in jobs.wait_condition("taken", "NameConflict", "True")["message"]
    assert not jobs.has("jobs", "taken")


def test_an_event_that_comes_again_is_counted(jobs: DLJobs) -> None:
    """Somebody has removed the Job's uid from the status: the controller writes it again, and tells of the same Job."""
    jobs.create("again")
    jobs.wait_phase("again", "Running")
    path = f"/apis/stoker.dev/v1alpha1/namespaces/{jobs.namespace}/dljobs/again/status"
    jobs.cluster.api("PATCH", path, {"status": {"jobUID": None}}, "application/merge-patch+json")

    def counted() -> bool:
        [created] = jobs.events("again", "Created")
        return bool((created.get("series") or {}).get("count", 1) == 2)

    wait_for("the event to be counted", counted)
