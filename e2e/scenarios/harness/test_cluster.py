import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.provider import Cluster, ClusterError
from e2e.cluster.waiting import wait_for
from e2e.scenarios.harness.jobs import Jobs, ago

ROOT = Path(__file__).parents[3]


def test_a_gpu_pod_lands_on_a_tainted_gpu_node_without_asking_for_toleration(jobs: Jobs) -> None:
    jobs.create("train", pods=2, gpus=8)
    nodes = {pod["spec"]["nodeName"] for pod in jobs.running("train", 2)}
    assert len(nodes) == 2
    assert all(node.startswith("gpu-") for node in nodes)


def test_pods_run_since_their_annotated_start_with_init_containers_and_sidecars(jobs: Jobs) -> None:
    start = ago(hours=12)
    jobs.create("train", init=True, started_at=start)
    (pod,) = jobs.running("train")
    assert pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] == start
    states = {status["name"]: set(status["state"]) for status in pod["status"]["initContainerStatuses"]}
    assert states == {"fetch": {"terminated"}, "logs": {"running"}}


def test_a_pod_completes_after_its_duration(jobs: Jobs) -> None:
    jobs.create("short", duration="1s", init=True)
    wait_for("the Job to succeed", lambda: jobs.status("short").get("succeeded") == 1)


def test_a_pod_fails_with_its_exit_code(jobs: Jobs) -> None:
    jobs.create("bad", duration="1s", exit_code="127")
    wait_for("the Job to fail", lambda: jobs.status("bad").get("failed") == 1)
    (pod,) = jobs.pods("bad")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 127


def test_a_pod_waits_for_ever_with_its_reason(jobs: Jobs) -> None:
    jobs.create("pull", waiting_reason="ImagePullBackOff")

    def reason() -> bool:
        (pod,) = jobs.pods("pull")
        waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
        return bool(pod["status"]["phase"] == "Pending" and waiting["reason"] == "ImagePullBackOff")

    wait_for("ImagePullBackOff", reason)


def test_a_container_restarts_in_its_pod(jobs: Jobs) -> None:
    jobs.create("crash", restart_after="200ms")
    wait_for("a restart", lambda: jobs.pods("crash")[0]["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert "terminated" in jobs.pods("crash")[0]["status"]["containerStatuses"][0]["lastState"]


def test_suspended_pods_run_on_for_their_grace_and_only_then_free_their_gpus(jobs: Jobs) -> None:
    jobs.create("train", pods=2, grace=3)
    before = {pod["metadata"]["uid"] for pod in jobs.running("train", 2)}
    jobs.patch("train", suspend=True)
    wait_for("pods to terminate", lambda: jobs.status("train").get("terminating") == 2)
    terminating = jobs.pods("train")
    assert {pod["metadata"]["uid"] for pod in terminating} == before
    assert all(pod["status"]["phase"] == "Running" for pod in terminating)
    jobs.patch("train", suspend=False)
    # podReplacementPolicy Failed: nobody new while the old ones run
    after = wait_for(
        "new pods", lambda: [pod for pod in jobs.pods("train") if pod["metadata"]["uid"] not in before], interval=0.02
    )
    assert after
    wait_for("the old pods to be gone", lambda: not before & {pod["metadata"]["uid"] for pod in jobs.pods("train")})
    jobs.running("train", 2)


def test_a_pod_ends_before_its_grace_is_over_when_its_program_does(jobs: Jobs) -> None:
    jobs.create("train", grace=600, termination="100ms")
    jobs.running("train")
    jobs.patch("train", suspend=True)
    wait_for("the pod to be gone", lambda: not jobs.pods("train"))


def test_a_process_that_ends_at_once_is_reported_with_its_last_words(cluster: Cluster) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('port 1 is taken')"]
    with pytest.raises(ClusterError, match="port 1 is taken"):
        cluster.start_process("ends-at-once", argv, ready=lambda: False)


def test_a_killed_process_can_be_started_again_as_it_was(cluster: Cluster) -> None:
    old = cluster.start_process("sleeper", ["sleep", "600"])
    cluster.kill("sleeper")
    assert not cluster.running("sleeper")
    assert cluster.restart("sleeper") != old
    assert cluster.running("sleeper")
    cluster.kill("sleeper", signal.SIGTERM)


def test_a_service_account_may_do_what_its_roles_say(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.service_account_kubeconfig(namespace, "default")
    assert cluster.run_kubectl("auth", "whoami", kubeconfig=kubeconfig).stdout.count(f"{namespace}:default") == 1
    refused = cluster.run_kubectl("get", "pods", "--namespace", namespace, kubeconfig=kubeconfig)
    assert "Forbidden" in refused.stderr


ON_ITS_OWN = """
import sys, time
from e2e.cluster.provider import create
with create(name="abandoned") as cluster:
    cluster.start_prometheus()
    cluster.start_process("shell", ["sh", "-c", "sleep 600 & sleep 600"])
    print(cluster.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_second_cluster_runs_beside_this_one_and_nothing_is_left_of_it(cluster: Cluster, number: int) -> None:
    """Its test process is killed; every process below its supervisor must be gone, and its folder."""
    with subprocess.Popen([sys.executable, "-c", ON_ITS_OWN], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        folder = process.stdout.readline().strip()
        pids = _processes(Path(folder))
        assert len(pids) >= 8, pids
        process.send_signal(number)
        process.wait(30)
    wait_for("all of its processes to end", lambda: not [pid for pid in pids if _alive(pid)])
    assert not Path(folder).exists()
    assert cluster.api("GET", "/readyz") == "ok"


def _processes(folder: Path) -> set[int]:
    """The supervisor of the cluster in this folder, and all below it."""
    children: dict[int, list[int]] = {}
    for line in subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    found, todo = set(), [int((folder / "supervisor.pid").read_text())]
    while todo:
        found.add(pid := todo.pop())
        todo += children.get(pid, [])
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
