"""A DLJob becomes an Indexed Job, once, and its end is the DLJob's."""

from datetime import datetime, timedelta

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.lifecycle.workload import DLJobs


def test_a_dljob_becomes_an_indexed_job_and_a_headless_service(jobs: DLJobs) -> None:
    jobs.create("bert", nodes=2, labels={"team": "nlp", "stoker.dev/owner": "ann"})
    status = jobs.wait_phase("bert", "Running")
    assert (status["ready"], status["gpus"], status["restarts"]) == ("2/2", 16, 0)
    job = jobs.job("bert")
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (0, 0)
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["suspend"] is False
    assert "ttlSecondsAfterFinished" not in spec
    assert job["metadata"]["labels"] == {"team": "nlp", "stoker.dev/dljob": "bert"}
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("DLJob", True)
    for index, pod in enumerate(jobs.pods("bert")):
        assert pod["spec"]["hostname"] == f"bert-{index}"
        assert pod["spec"]["subdomain"] == "dlj-bert"
        assert pod["metadata"]["labels"]["team"] == "nlp"
        (trainer,) = pod["spec"]["containers"]
        assert trainer["resources"]["requests"] == trainer["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    service = jobs.cluster.api("GET", f"/api/v1/namespaces/{jobs.namespace}/services/dlj-bert")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_a_name_may_begin_with_a_digit(jobs: DLJobs) -> None:
    jobs.create("7b-sft", nodes=2)
    jobs.wait_phase("7b-sft", "Running")
    assert [pod["spec"]["subdomain"] for pod in jobs.pods("7b-sft")] == ["dlj-7b-sft"] * 2
    assert jobs.has("services", "dlj-7b-sft")


def test_one_node_needs_no_service(jobs: DLJobs) -> None:
    jobs.create("solo")
    jobs.wait_phase("solo", "Running")
    assert not jobs.has("services", "dlj-solo")
    assert jobs.job("solo")["spec"]["backoffLimitPerIndex"] == 3


def test_the_pods_carry_the_injected_environment(jobs: DLJobs) -> None:
    jobs.create("bert", nodes=2)
    jobs.wait_phase("bert", "Running")
    (trainer,) = jobs.pods("bert")[1]["spec"]["containers"]
    environment = {variable["name"]: variable for variable in trainer["env"]}
    assert environment["PET_NNODES"]["value"] == "2"
    assert environment["PET_NPROC_PER_NODE"]["value"] == "8"
    rank = environment["PET_NODE_RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert rank == "metadata.labels['batch.kubernetes.io/job-completion-index']"
    assert jobs.pods("bert")[1]["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    assert environment["MASTER_ADDR"]["value"].startswith("bert-0.dlj-bert.")


def test_a_script_with_every_kind_of_dollar_is_stored_so_that_the_kubelet_gives_it_back(jobs: DLJobs) -> None:
    script = 'echo $HOME $(hostname) $$ "${X:-$(pwd)}"\ntorchrun train.py\n'
    jobs.create("dollar", script=script)
    jobs.wait_phase("dollar", "Running")
    (trainer,) = jobs.pods("dollar")[0]["spec"]["containers"]
    assert trainer["command"][-1].replace("$$", "$") == script
    assert trainer["command"][-1].count("$") == 2 * script.count("$")


def test_a_job_that_succeeds_is_succeeded_for_good(jobs: DLJobs) -> None:
    jobs.create("short", nodes=2, play={"duration": "300ms"})
    status = jobs.wait_phase("short", "Succeeded")
    assert status["completionTime"] >= status["startTime"]
    jobs.wait_condition("short", "Complete", "True")
    jobs.cluster.api("DELETE", f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs/short")
    wait_for("the Job to be gone", lambda: not jobs.has("jobs", "short"))
    jobs.settled("short")
    assert jobs.status("short")["phase"] == "Succeeded"
    assert not jobs.has("jobs", "short")


def test_restarts_are_counted_for_each_pod(jobs: DLJobs) -> None:
    """Two pods that may each restart once: four failures, and the job fails naming how."""
    jobs.create("crash", nodes=2, maxRestarts=1, play={"duration": "200ms", "exit_code": "1"})
    status = jobs.wait_phase("crash", "Failed", timeout=60)
    failed = jobs.condition("crash", "Failed")
    assert failed["reason"] == "MaxFailedIndexesExceeded"
    assert "exit code 1" in failed["message"]
    assert status["restarts"] >= 1


def test_a_command_that_does_not_exist_fails_at_once(jobs: DLJobs) -> None:
    jobs.create("typo", maxRestarts=5, play={"duration": "200ms", "exit_code": "127"})
    status = jobs.wait_phase("typo", "Failed")
    failed = jobs.condition("typo", "Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert "127" in failed["message"]
    assert status["restarts"] == 0 or jobs.job("typo")["status"]["failed"] == 1


def test_success_of_the_leader_ends_the_others(jobs: DLJobs) -> None:
    jobs.create("leader", nodes=2, successPolicy="Leader")
    jobs.wait_phase("leader", "Running")
    path = f"/api/v1/namespaces/{jobs.namespace}/pods/{jobs.pods('leader')[0]['metadata']['name']}/status"
    pod = jobs.cluster.api("GET", path)
    pod["status"]["phase"] = "Succeeded"
    jobs.cluster.api("PUT", path, pod)
    jobs.wait_phase("leader", "Succeeded")
    wait_for("the other pod to end", lambda: len(jobs.pods("leader")) == 1)


def test_a_deadline_that_is_set_while_the_job_runs_counts(jobs: DLJobs) -> None:
    jobs.create("late")
    jobs.wait_phase("late", "Running")
    jobs.patch("late", {"spec": {"activeDeadlineSeconds": 1}})
    jobs.wait_phase("late", "Failed")
    assert jobs.condition("late", "Failed")["reason"] == "DeadlineExceeded"


def test_the_start_is_the_containers_not_the_pods(jobs: DLJobs) -> None:
    jobs.create("old", play={"started_at": "2026-01-02T03:04:05Z"})
    assert jobs.wait_phase("old", "Running")["startTime"] == "2026-01-02T03:04:05Z"


def test_every_condition_follows_the_generation(jobs: DLJobs) -> None:
    """Or `kubectl wait --for=condition=...` hangs."""
    jobs.create("gen")
    jobs.wait_phase("gen", "Running")
    generation = jobs.patch("gen", {"spec": {"ttlSecondsAfterFinished": 600}})["metadata"]["generation"]

    def follow() -> bool:
        status = jobs.status("gen")
        assert status["observedGeneration"] == generation
        assert {condition["observedGeneration"] for condition in status["conditions"]} == {generation}
        return True

    wait_for("all conditions to follow", follow)
    jobs.cluster.kubectl("wait", "--for=condition=PodsReady", "dljob/gen", f"-n={jobs.namespace}", "--timeout=10s")


def test_status_is_written_only_when_it_changes(jobs: DLJobs) -> None:
    jobs.create("calm")
    jobs.wait_phase("calm", "Running")
    jobs.settled("calm")
    before = jobs.get("calm")
    # An event about a child that changes nothing for the DLJob.
    jobs.patch_job("calm", {"metadata": {"annotations": {"example.com/touched": "yes"}}})
    jobs.settled("calm")
    assert jobs.get("calm") == before


def test_a_finished_dljob_lives_as_long_as_it_says(jobs: DLJobs) -> None:
    jobs.create("gone", ttlSecondsAfterFinished=2, play={"duration": "200ms"})
    status = jobs.wait_phase("gone", "Succeeded")
    wait_for("the DLJob to be deleted", lambda: not jobs.has("dljobs", "gone"))
    assert datetime.now().astimezone() >= datetime.fromisoformat(status["completionTime"]) + timedelta(seconds=2)
    wait_for("its Job to be collected", lambda: not jobs.has("jobs", "gone"))
    wait_for("its pods to be collected", lambda: not jobs.pods("gone"))


def test_deleting_a_dljob_takes_everything_with_it(jobs: DLJobs) -> None:
    jobs.create("all", nodes=2)
    jobs.wait_phase("all", "Running")
    jobs.delete("all")
    wait_for("the Job to be collected", lambda: not jobs.has("jobs", "all"))
    wait_for("the Service to be collected", lambda: not jobs.has("services", "all"))
    wait_for("pods to be collected", lambda: not jobs.pods("all"))


def test_the_controller_carries_on_after_a_crash(operator: Operator, jobs: DLJobs) -> None:
    jobs.create("crossing", nodes=2)
    jobs.wait_phase("crossing", "Running")
    uid = jobs.job("crossing")["metadata"]["uid"]
    operator.cluster.kill(CONTROLLER)
    jobs.create("meanwhile")
    operator.cluster.restart(CONTROLLER)
    jobs.wait_phase("meanwhile", "Running", timeout=60)
    assert jobs.job("crossing")["metadata"]["uid"] == uid
    assert jobs.status("crossing")["phase"] == "Running"
