"""The operator installed by the chart on a real node, and what DLJobs' programs see there."""

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.provider import CommandError
from e2e.cluster.waiting import wait_for
from e2e.installed import DEPLOYMENTS, InstalledOperator
from e2e.node.settings import GPU, NODE_NAME
from e2e.operator import ADMISSION, NAMESPACE
from e2e.scenarios.lifecycle.workload import DLJobs
from e2e.scenarios.node.programs import is_phase, log_of, run


def test_every_pod_of_the_chart_is_ready_and_has_never_been_restarted(operator: InstalledOperator) -> None:
    pods = operator.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    statuses = [status for pod in pods for status in pod["status"]["containerStatuses"]]
    assert {pod["spec"]["nodeName"] for pod in pods} == {NODE_NAME}
    assert len(statuses) == 5
    assert all(status["ready"] and status["restartCount"] == 0 for status in statuses), statuses


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_no_process_of_the_chart_logs_an_error(operator: InstalledOperator, deployment: str) -> None:
    log = operator.cluster.kubectl("logs", "-n", NAMESPACE, f"deployment/{deployment}", "--all-pods")
    assert " INFO " in log
    assert "Traceback" not in log
    assert " ERROR " not in log


def test_the_test_of_the_release_passes_and_fails_with_the_webhook(operator: InstalledOperator, jobs: DLJobs) -> None:
    """`helm test`, with the account that the chart gives it; its pod leaves no rights behind."""
    operator.install(values={"tests": {"namespace": jobs.namespace}})
    told = operator.test()
    assert "ok: deployments: all replicas are ready" in told
    assert f"in {jobs.namespace} a right DLJob is admitted and a wrong one refused" in told
    roles = operator.cluster.kubectl("get", "roles,rolebindings,serviceaccounts", "-A", "-o", "name")
    assert "stoker-test" not in roles
    scale = ("scale", f"deployment/{ADMISSION}", "-n", NAMESPACE)
    operator.cluster.kubectl(*scale, "--replicas=0")

    def failed() -> bool:
        try:
            operator.test()
        except CommandError as failure:
            return "webhook-reviews: the API server can't call the webhook" in failure.stdout
        return False

    wait_for("the test to fail with the webhook", failed)
    operator.cluster.kubectl(*scale, "--replicas=2")
    operator.install()


def test_the_webhook_refuses_a_wrong_job_with_the_certificate_that_it_made_itself(jobs: DLJobs) -> None:
    with pytest.raises(ApiError, match="launcher-too-few") as refusal:
        jobs.create("wrong", script="torchrun --standalone --nproc_per_node=4 train.py")
    assert refusal.value.status == 422


def test_a_program_runs_to_its_end_on_the_gpu_that_it_was_given(jobs: DLJobs) -> None:
    run(jobs, "small", 'import os; print("sees", os.environ["NVIDIA_VISIBLE_DEVICES"])')
    wait_for("the job to succeed", lambda: is_phase(jobs, "small", "Succeeded"), timeout=60)
    assert "sees GPU-" in log_of(jobs, "small")


def test_a_program_that_fails_fails_its_job(jobs: DLJobs) -> None:
    run(jobs, "failing", 'raise SystemExit("the data is missing")', maxRestarts=0)
    wait_for("the job to fail", lambda: is_phase(jobs, "failing", "Failed"), timeout=60)
    assert "the data is missing" in log_of(jobs, "failing")


def test_the_pods_of_two_nodes_find_each_other_by_name(jobs: DLJobs) -> None:
    """The first one listens, the second one connects to MASTER_ADDR, before either is ready."""
    program = """\
        import os, socket, time
        address = os.environ["MASTER_ADDR"], 29400
        if os.environ["STOKER_NODE_RANK"] == "0":
            with socket.create_server(("", 29400)) as server:
                connection, peer = server.accept()
                print("heard", connection.recv(100).decode())
        else:
            while True:
                try:
                    with socket.create_connection(address) as connection:
                        connection.sendall(b"rank 1")
                    break
                except OSError:
                    time.sleep(0.1)
        """
    run(jobs, "pair", program, nodes=2)
    wait_for("both nodes to succeed", lambda: is_phase(jobs, "pair", "Succeeded"), timeout=90)
    assert "heard rank 1" in log_of(jobs, "pair")


def test_a_suspended_job_gets_sigterm_and_time_to_save(jobs: DLJobs) -> None:
    program = """\
        import signal, sys
        def save(*_):
            print("saved", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("training", flush=True)
        while True:
            signal.pause()
        """
    run(jobs, "saving", program)
    wait_for("the program to run", lambda: "training" in log_of(jobs, "saving"), timeout=60, quiet=True)
    pod = jobs.pods("saving")[0]["metadata"]["name"]
    jobs.cluster.start_process(
        "follower",
        [jobs.cluster.programs["kubectl"], "logs", "--follow", pod, "-n", jobs.namespace],
        env={"KUBECONFIG": str(jobs.cluster.kubeconfig)},
    )
    wait_for("the log to be followed", lambda: "training" in jobs.cluster.log("follower"))
    jobs.patch("saving", {"spec": {"suspend": True}})
    wait_for("the program to save", lambda: "saved" in jobs.cluster.log("follower"), timeout=60)
    wait_for("the job to be suspended", lambda: is_phase(jobs, "saving", "Suspended"))


def test_kubelet_comes_back_with_its_pods_and_gpus(operator: InstalledOperator) -> None:
    """Killed with -9: containers run on, and the device plugin registers again."""
    cluster = operator.cluster
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=admission"
    before = {pod["metadata"]["uid"] for pod in cluster.api("GET", path)["items"]}
    registered = cluster.log("device-plugin").count("registered")
    cluster.restart("kubelet")
    wait_for("another registration", lambda: cluster.log("device-plugin").count("registered") > registered, timeout=60)
    wait_for("the GPUs to be counted again", lambda: _gpus(operator) == "8", timeout=60)
    operator.wait()
    assert {pod["metadata"]["uid"] for pod in cluster.api("GET", path)["items"]} == before
    version = ("exec", "-n", NAMESPACE, f"deployment/{ADMISSION}", "--", "stoker", "--version")
    # a new kubelet learns its pods one after the other
    wait_for("a command in a pod", lambda: cluster.run_kubectl(*version).returncode == 0, timeout=60, quiet=True)


def _gpus(operator: InstalledOperator) -> str:
    return str(operator.cluster.api("GET", f"/api/v1/nodes/{NODE_NAME}")["status"]["allocatable"].get(GPU))
