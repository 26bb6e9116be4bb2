"""Reclaim, and a user's own suspension, of Jobs that Kueue manages, on a real API server and Job controller."""

import os
import subprocess
import sys
from functools import partial

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.kueue.queue import QUEUE, VERSIONS, Kueue
from e2e.scenarios.reclaim.idling import Idling, happened

MARK = "stoker.dev/suspended-by"


def workload(kueue: Kueue, jobs: Idling, name: str) -> tuple[bool, str | None]:
    """Whether the job's Workload is active, and who had Stoker deactivate it."""
    found = kueue.workload(jobs.job(name))
    assert found is not None
    return found["spec"].get("active", True), found["metadata"].get("annotations", {}).get(MARK)


def is_active(kueue: Kueue, jobs: Idling, name: str) -> bool:
    """Whether the job's Workload is active, and bears no mark of Stoker's."""
    return workload(kueue, jobs, name) == (True, None)


def test_a_users_own_suspension_goes_the_same_way_over_a_crash(jobs: Idling, kueue: Kueue) -> None:
    jobs.start("held", labels=QUEUE)
    kueue.resting.add(jobs.namespace)
    jobs.patch("held", {"spec": {"suspend": True}})
    wait_for("the Workload", lambda: workload(kueue, jobs, "held") == (False, "user"))
    jobs.operator.kill_controller()
    jobs.patch("held", {"spec": {"suspend": False}})
    jobs.cluster.restart(CONTROLLER)
    wait_for("the Workload to be active again", partial(is_active, kueue, jobs, "held"))
    kueue.resting.remove(jobs.namespace)
    jobs.settled("held")
    jobs.wait_phase("held", "Running")
    jobs.patch("held", {"spec": {"suspend": True}})
    jobs.wait_condition("held", "Suspended", "True", "Requested")
    jobs.patch("held", {"spec": {"suspend": False}})
    jobs.wait_phase("held", "Running")


def test_a_workload_that_somebody_else_has_deactivated_stays_so(jobs: Idling, kueue: Kueue) -> None:
    jobs.start("theirs", labels=QUEUE)
    found = kueue.workload(jobs.job("theirs"))
    assert found is not None
    jobs.cluster.kubectl(
        "patch",
        "workloads",
        found["metadata"]["name"],
        "-n",
        jobs.namespace,
        "--type=merge",
        '-p={"spec":{"active":false}}',
    )
    jobs.wait_phase("theirs", "Queued")
    jobs.patch("theirs", {"spec": {"suspend": True}})
    jobs.settled("theirs")
    jobs.patch("theirs", {"spec": {"suspend": False}})
    jobs.settled("theirs")
    assert workload(kueue, jobs, "theirs") == (False, None)


def test_an_older_kueue_and_missing_permission(jobs: Idling, kueue: Kueue) -> None:
    """Only the older version is served; then the controller may not list Workloads, and says so."""
    jobs.start("old", labels=QUEUE)
    kueue.serve("v1beta1")
    jobs.patch("old", {"spec": {"suspend": True}})
    jobs.wait_condition("old", "Suspended", "True", "Requested")
    assert workload(kueue, jobs, "old") == (False, "user")
    cluster = jobs.cluster
    role = cluster.api("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/stoker-controller")
    without = [rule for rule in role["rules"] if rule["apiGroups"] != ["kueue.x-k8s.io"]]
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stoker-controller"
    cluster.api("PATCH", path, {"rules": without}, "application/merge-patch+json")
    try:
        jobs.start("other", labels=QUEUE)
        jobs.patch("other", {"spec": {"suspend": True}})
        message = jobs.wait_condition("other", "Suspended", "False", "NotSuspendable")["message"]
        assert "may not list Kueue's Workloads" in message
        assert not jobs.is_suspended("other")
    finally:
        cluster.api("PATCH", path, {"rules": role["rules"]}, "application/merge-patch+json")
        kueue.serve(*VERSIONS)
    jobs.wait_condition("other", "Suspended", "True", "Requested")


def test_an_idle_job_is_reclaimed_by_its_workload_and_comes_back_through_its_queue(
    warned: Idling, kueue: Kueue
) -> None:
    """It takes as long as Kueue takes, and nothing counts before."""
    idle = ("labelled", "unlabelled")

    def deactivated() -> bool:
        found = {name: workload(kueue, warned, name) for name in idle}
        assert set(found.values()) == {(False, "reclaim")}, found
        return True

    wait_for("both Workloads to be deactivated", deactivated, timeout=90)
    assert len(warned.pods("labelled")) == 2
    warned.wait_condition("labelled", "Suspended", "False", "Terminating")
    assert warned.record("labelled")["state"] == "Reclaiming", "no GPU is free before Kueue has acted"
    kueue.resting.remove(warned.namespace)
    warned.wait_state("Reclaimed", *idle)
    for name in idle:
        warned.wait_condition(name, "Suspended", "True", "Reclaimed")
        record = warned.record(name)
        assert (record["state"], bool(record["reclaimedAt"])) == ("Reclaimed", True)
        assert happened(record).count("Reclaimed") == 1
        assert warned.is_suspended(name)
        assert not warned.pods(name)
    assert workload(kueue, warned, "busy") == (True, None)
    warned.wait_phase("busy", "Running")

    answer = subprocess.run(
        [sys.executable, "-m", "stoker", "resume", *idle, f"--namespace={warned.namespace}"],
        env={**os.environ, "KUBECONFIG": str(warned.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "dljob labelled goes back to its queue gpus" in answer.stdout
    assert "dljob unlabelled resumes" in answer.stdout
    for name in idle:
        warned.wait_phase(name, "Running")
        wait_for(f"the Workload of {name}", partial(is_active, kueue, warned, name))
        assert MARK not in warned.job(name)["metadata"].get("annotations", {})
