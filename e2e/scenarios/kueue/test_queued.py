"""Reclaim, and a user's own suspension, of Jobs that Kueue manages, with the real Kueue and its webhooks."""

import os
import subprocess
import sys

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.kueue.queues import MARK, QUEUE, Kueue, who_set_suspend
from e2e.scenarios.reclaim.idling import Idling, happened

ON = (True, None)
"""A Workload that is active and bears no mark of Stoker's."""


def wait_switch(kueue: Kueue, jobs: Idling, name: str, switch: tuple[bool, str | None], timeout: float = 30) -> None:
    """Wait until the job's Workload is active or not, by Stoker's doing or not."""

    def probe() -> bool:
        found = kueue.switch(jobs.job(name))
        assert found == switch, found
        return True

    wait_for(f"the Workload of {name}", probe, timeout=timeout)


def test_a_users_own_suspension_goes_the_same_way_over_a_crash(jobs: Idling, kueue: Kueue) -> None:
    jobs.start("held", labels=QUEUE)
    jobs.patch("held", {"spec": {"suspend": True}})
    wait_switch(kueue, jobs, "held", (False, "user"))
    jobs.operator.kill_controller()
    jobs.patch("held", {"spec": {"suspend": False}})
    jobs.cluster.restart(CONTROLLER)
    wait_switch(kueue, jobs, "held", ON)
    jobs.wait_phase("held", "Running")
    jobs.patch("held", {"spec": {"suspend": True}})
    jobs.wait_condition("held", "Suspended", "True", "Requested")
    jobs.patch("held", {"spec": {"suspend": False}})
    jobs.wait_phase("held", "Running")


def test_while_kueue_is_down_nothing_changes_and_it_is_suspended_afterwards(jobs: Idling, kueue: Kueue) -> None:
    """Kueue's webhook has to pass each change of a Job, so that Stoker's mark on it is refused, too."""
    jobs.start("kept", labels=QUEUE)
    with kueue.down():
        jobs.patch("kept", {"spec": {"suspend": True}})
        message = jobs.wait_condition("kept", "Suspended", "False", "JobNotChanged")["message"]
        assert "the admission webhook vjob.kb.io does not answer" in message
        assert kueue.switch(jobs.job("kept")) == ON
        assert not jobs.is_suspended("kept")
    jobs.wait_condition("kept", "Suspended", "True", "Requested", timeout=60)
    assert kueue.switch(jobs.job("kept")) == (False, "user")


def test_a_workload_that_somebody_else_has_deactivated_stays_so(jobs: Idling, kueue: Kueue) -> None:
    jobs.start("theirs", labels=QUEUE)
    kueue.deactivate(jobs.job("theirs"))
    jobs.wait_phase("theirs", "Queued")
    jobs.patch("theirs", {"spec": {"suspend": True}})
    jobs.settled("theirs")
    jobs.patch("theirs", {"spec": {"suspend": False}})
    jobs.settled("theirs")
    assert kueue.switch(jobs.job("theirs")) == (False, None)


def test_missing_permission_is_said(jobs: Idling) -> None:
    """The controller may not list Workloads."""
    cluster = jobs.cluster
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/stoker-controller"
    role = cluster.api("GET", path)
    without = [rule for rule in role["rules"] if rule["apiGroups"] != ["kueue.x-k8s.io"]]
    jobs.start("other", labels=QUEUE)
    cluster.api("PATCH", path, {"rules": without}, "application/merge-patch+json")
    try:
        jobs.patch("other", {"spec": {"suspend": True}})
        message = jobs.wait_condition("other", "Suspended", "False", "NotSuspendable")["message"]
        assert "may not list Kueue's Workloads" in message
        assert not jobs.is_suspended("other")
    finally:
        cluster.api("PATCH", path, {"rules": role["rules"]}, "application/merge-patch+json")
    jobs.wait_condition("other", "Suspended", "True", "Requested")


def test_an_idle_job_is_reclaimed_by_its_workload_and_comes_back_through_its_queue(
    warned: Idling, kueue: Kueue
) -> None:
    """It takes as long as its pods take, and nothing counts before. Kueue alone stops and starts the Jobs."""
    idle = ("labelled", "unlabelled")
    for name in idle:
        wait_switch(kueue, warned, name, (False, "reclaim"), timeout=90)
    warned.wait_condition("labelled", "Suspended", "False", "Terminating")
    assert len(warned.pods("labelled")) == 2
    assert warned.record("labelled")["state"] == "Reclaiming", "no GPU is free before its pods have ended"
    warned.end_pods("labelled")
    warned.wait_state("Reclaimed", *idle)
    for name in idle:
        warned.wait_condition(name, "Suspended", "True", "Reclaimed")
        record = warned.record(name)
        assert (record["state"], bool(record["reclaimedAt"])) == ("Reclaimed", True)
        assert happened(record).count("Reclaimed") == 1
        assert warned.is_suspended(name)
        assert who_set_suspend(warned.job(name)) == {"kueue"}
        assert not warned.live_pods(name)
    assert kueue.switch(warned.job("busy")) == ON
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
        wait_switch(kueue, warned, name, ON)
        assert MARK not in warned.job(name)["metadata"].get("annotations", {})
        assert who_set_suspend(warned.job(name)) == {"kueue"}
