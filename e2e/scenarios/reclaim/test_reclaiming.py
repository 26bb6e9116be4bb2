"""One job's way from its warning to its GPUs' return, with everything that may go wrong on it."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.reclaim.idling import ONE_BUSY, ONE_RANK_BUSY, Idling, time_of


def stoker(idling: Idling, *args: str) -> str:
    """What `stoker ARGS` prints."""
    answer = subprocess.run(
        [sys.executable, "-m", "stoker", *args, f"--namespace={idling.namespace}"],
        env={**os.environ, "KUBECONFIG": str(idling.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_an_idle_job_is_warned_then_suspended_through_crashes_and_outages_and_resumed_by_one_command(
    idling: Idling,
) -> None:
    """Killed between warning and reclaim, and without metrics when the deadline passes, the controller acts neither
    early nor twice, and does not forget. Jobs with one busy GPU or one busy rank, and a snoozed one, are never touched.
    """
    cluster = idling.cluster
    idling.start("idle", nodes=2, grace=3)
    idling.start("one-busy", ONE_BUSY)
    idling.start("one-rank-busy", ONE_RANK_BUSY, nodes=2)
    later = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    idling.start("snoozed", annotations={"stoker.dev/snooze-until": later})
    idling.remember()
    idling.policy()

    idling.wait_warned("idle")
    warning = idling.record("idle")
    deadline = time_of(warning["deadline"])
    assert deadline - time_of(warning["warnedAt"]) >= timedelta(minutes=1)
    pending = idling.wait_condition("idle", "ReclaimPending", "True")
    assert warning["deadline"] in pending["message"]
    wait_for("the event", lambda: idling.events("idle", "ReclaimWarning"))

    cluster.kill(CONTROLLER)
    cluster.set_prometheus_fault("error", status=503)
    cluster.restart(CONTROLLER)
    idling.wait_condition("idle", "Idle", "Unknown", "PrometheusUnavailable", timeout=45)

    def past_the_deadline() -> bool:
        before = datetime.now(UTC) < deadline + timedelta(seconds=3)
        assert not idling.is_suspended("idle"), "acted without metrics, or too early"
        return not before

    wait_for("the deadline to pass", past_the_deadline, timeout=90, interval=0.5)
    assert idling.record("idle")["warnedAt"] == warning["warnedAt"], "the warning is remembered"

    cluster.set_prometheus_fault("none")
    wait_for("the reclaim", lambda: idling.is_suspended("idle"), timeout=30)
    assert idling.job("idle")["metadata"]["annotations"]["stoker.dev/suspended-by"] == "reclaim"
    idling.wait_phase("idle", "Reclaimed")
    idling.wait_condition("idle", "Suspended", "True", "Reclaimed")
    assert not idling.pods("idle")
    record = idling.record("idle")
    assert record["state"] == "Reclaimed"
    assert time_of(record["reclaimedAt"]) >= deadline
    assert sum("reclaimed" in line for line in record["history"]) == 1
    wait_for("the event", lambda: idling.events("idle", "Reclaimed"))
    assert [event.get("series") for event in idling.events("idle", "Reclaimed")] == [None]
    policy = cluster.api("GET", "/apis/stoker.dev/v1alpha1/utilizationpolicies/default")
    assert [entry["job"] for entry in policy["status"]["recentReclaims"]] == [f"{idling.namespace}/idle"]

    for name in ("one-busy", "one-rank-busy"):
        assert not idling.is_suspended(name)
        assert idling.record(name)["state"] == "Active"
        assert not idling.events(name, "ReclaimWarning")
    assert idling.record("snoozed")["state"] == "Snoozed"
    assert not idling.is_suspended("snoozed")

    # A manifest that is applied again does not resume what reclaim suspended.
    idling.patch("idle", {"spec": {"suspend": False}, "metadata": {"labels": {"applied": "again"}}})
    idling.settled("idle")
    assert idling.is_suspended("idle")

    assert "resumes" in stoker(idling, "resume", "idle")
    idling.wait_phase("idle", "Running")
    wait_for("the record", lambda: idling.record("idle").get("resumedAt"))
    idling.settled("idle")
    assert not idling.is_suspended("idle")
    assert "deadline" not in idling.record("idle")


def test_a_crash_between_the_intent_and_the_deed_is_made_good_once(idling: Idling) -> None:
    """The status says Reclaiming; of one job the deed is still to be done, of the other it is done and not recorded. A
    job in a namespace whose policy deletes is ended for good at the same time, and stays as the record.
    """
    cluster = idling.cluster
    ending = idling.beside({"reclaim": "delete"})
    for name in ("intended", "done"):
        idling.start(name)
    idling.start("woken")
    ending.start("ended")
    cluster.backfill()
    ending.policy("Delete", name="deleting", selector={"reclaim": "delete"})
    idling.policy()
    idling.wait_warned("intended", "done", "woken")
    ending.wait_warned("ended")
    cluster.kill(CONTROLLER)
    for name in ("intended", "done", "woken"):
        job = idling.get(name)
        job["status"]["reclaim"]["state"] = "Reclaiming"
        if name == "woken":
            # Its pods are not those of the decision.
            job["status"]["reclaim"]["podUIDs"] = ["00000000-0000-0000-0000-000000000000"]
        path = f"/apis/stoker.dev/v1alpha1/namespaces/{idling.namespace}/dljobs/{name}/status"
        cluster.api("PUT", path, job)
    idling.patch_job(
        "done", {"metadata": {"annotations": {"stoker.dev/suspended-by": "reclaim"}}, "spec": {"suspend": True}}
    )
    deadline = max(time_of(idling.record(name)["deadline"]) for name in ("intended", "done"))
    cluster.restart(CONTROLLER)
    idling.wait_phase("done", "Reclaimed", timeout=45)
    assert idling.record("done")["state"] == "Reclaimed"

    wait_for("the reclaim", lambda: idling.is_suspended("intended"), timeout=120)
    assert datetime.now(UTC) >= deadline - timedelta(seconds=1)
    idling.wait_phase("intended", "Reclaimed")
    for name in ("intended", "done"):
        assert sum("reclaimed" in line for line in idling.record(name)["history"]) == 1
    assert not idling.is_suspended("woken")
    again = idling.record("woken")
    assert again["state"] == "Warned", "it is warned anew, about the pods that it has"
    assert time_of(again["deadline"]) > deadline

    wait_for("the Job to be deleted", lambda: not ending.has("jobs", "ended"))
    ending.wait_phase("ended", "Reclaimed")
    wait_for("the pods to go", lambda: not ending.pods("ended"))
    ending.annotate("ended", resume="please")
    ending.settled("ended")
    assert not ending.has("jobs", "ended")
    status = ending.status("ended")
    assert (status["phase"], status["reclaim"]["state"]) == ("Reclaimed", "Reclaimed")


def test_a_warning_ends_when_the_owner_snoozes(idling: Idling) -> None:
    idling.start("idle")
    idling.remember()
    idling.policy()
    idling.wait_warned("idle")
    assert "not reclaimed before" in stoker(idling, "snooze", "idle", "--for", "200h")
    wait_for("the snooze", lambda: idling.record("idle").get("state") == "Snoozed")
    record = idling.record("idle")
    assert "deadline" not in record
    assert time_of(record["snoozedUntil"]) <= datetime.now(UTC) + timedelta(hours=24), "the policy's bound"
    wait_for("the events", lambda: idling.events("idle", "SnoozeClamped") and idling.events("idle", "ReclaimCancelled"))
    idling.wait_condition("idle", "ReclaimPending", "False", "Snoozed")
