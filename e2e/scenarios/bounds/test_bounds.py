"""Invariants 8 and 12 on a real API server: what is reclaimed is bounded, stops when too much is idle at once, and with
onPressureOnly happens only for a pod that waits.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.bounds.conftest import LARGEST, PRODUCT, QUIET, SIZES, Scenery
from e2e.scenarios.reclaim.idling import time_of

OTHERS = tuple(sorted(SIZES.keys() - set(LARGEST)))


def metric(scenery: Scenery, policy: str) -> float:
    """Whether reclaims are stopped under a policy, as the controller's metrics have it."""
    return scenery.operator.metric("stoker_reclaim_stopped", process=CONTROLLER, policy=policy)


SHARED = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
"""Of a volume that several nodes mount, and of the claim for it."""


def claim_shared_volume(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """A volume that pods on every node can mount, claimed and bound; as an entry of a pod's volumes."""
    volume = {"nfs": {"server": "nfs.example.com", "path": "/"}, "claimRef": {"name": "data", "namespace": namespace}}
    capacity = {"storage": "1Gi"}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "data"},
            "spec": {**SHARED, **volume, "capacity": capacity},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {**SHARED, "volumeName": "data", "resources": {"requests": capacity}},
        },
    )
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    wait_for("the claim to be bound", lambda: cluster.api("GET", path)["status"]["phase"] == "Bound")
    return {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def waiting_pod(name: str, gpus: int, *volumes: dict[str, Any]) -> dict[str, Any]:
    """A pod of somebody else, that asks for GPUs of the scarce product."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"nvidia.com/gpu.product": PRODUCT},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": volumes,
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/other/server:1",
                    "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                }
            ],
        },
    }


def test_five_jobs_that_fall_silent_at_once_stop_reclaim_before_anybody_is_warned(scenery: Scenery) -> None:
    jobs, cluster = scenery.braked, scenery.operator.cluster
    wait_for("the brake", lambda: scenery.policy("braked").get("brake"), timeout=30)
    status = scenery.policy("braked")
    assert "5 jobs with 10 of 14 active GPUs turned idle within 1h" in status["brake"]["message"]
    assert {one["job"] for one in status["recentIdle"]} == {f"{jobs.namespace}/{name}" for name in QUIET}

    def stopped() -> bool:
        conditions = scenery.policy("braked").get("conditions", ())
        found = {one["type"]: (one["status"], one["reason"]) for one in conditions}
        assert found["ReclaimStopped"] == ("True", "MassIdle"), found
        return True

    wait_for("the condition", stopped)

    def is_reported() -> bool:
        events = cluster.api("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return any((one["reason"], one["regarding"]["name"]) == ("ReclaimBraked", "braked") for one in events)

    wait_for("the event", is_reported)

    def held() -> bool:
        reasons = [jobs.record(name).get("reason", "") for name in QUIET]
        assert all(
            "the mass-idle brake has stopped reclaims under the policy braked" in reason for reason in reasons
        ), reasons
        return True

    wait_for("the jobs to say so", held, timeout=30)
    assert not any("warnedAt" in jobs.record(name) for name in QUIET)
    wait_for("the metric", lambda: metric(scenery, "braked") == 1)
    assert metric(scenery, "bounded") == 0


def test_on_pressure_only_a_due_job_waits_for_a_pod_that_would_fit(scenery: Scenery) -> None:
    jobs, cluster = scenery.pressed, scenery.operator.cluster
    path = f"/api/v1/namespaces/{jobs.namespace}/pods"
    cluster.api("POST", path, waiting_pod("too-large", 16))
    jobs.wait_warned("idle")

    def due_and_held() -> bool:
        record = jobs.record("idle")
        assert "no pending pod that requests nvidia.com/gpu would fit" in record["reason"], record
        assert record["state"] == "Warned"
        return True

    wait_for("the deadline to pass", due_and_held, timeout=90, interval=0.5)
    assert datetime.now(UTC) >= jobs.deadline("idle")
    assert not jobs.is_suspended("idle")
    cluster.api("POST", path, waiting_pod("fits", 8, claim_shared_volume(cluster, jobs.namespace)))
    jobs.wait_state("Reclaimed", "idle", timeout=45)

    def scheduled() -> bool:
        return bool(cluster.api("GET", f"{path}/fits")["spec"].get("nodeName") == "scarce-1")

    wait_for("the pod to have its GPUs", scheduled, timeout=30)


def test_of_six_idle_jobs_the_two_with_the_most_idle_gpu_hours_go_and_no_restart_or_deletion_lets_more(
    scenery: Scenery,
) -> None:
    jobs = scenery.bounded
    jobs.wait_state("Reclaimed", *LARGEST, timeout=120)
    warned_at = max(time_of(jobs.record(name)["warnedAt"]) for name in OTHERS)
    assert datetime.now(UTC) >= warned_at + timedelta(minutes=1)
    entries = scenery.policy("bounded")["recentReclaims"]
    assert {(one["job"].partition("/")[2], one["gpus"], one["resource"]) for one in entries} == {
        ("two-nodes", 16, "nvidia.com/gpu"),
        ("whole", 8, "nvidia.com/gpu"),
    }

    jobs.delete("whole")
    scenery.operator.crash()

    def held() -> bool:
        records = {name: jobs.record(name) for name in OTHERS}
        reasons = [record["reason"] for record in records.values()]
        assert all("the policy's limit is reached: 2 jobs were reclaimed within 1h" in one for one in reasons), reasons
        return True

    wait_for("the others to wait for a place", held, timeout=30)
    for name in OTHERS:
        jobs.settled(name)
    assert not any(jobs.is_suspended(name) for name in OTHERS)
    assert scenery.policy("bounded")["recentReclaims"] == entries
    said = subprocess.run(
        [sys.executable, "-m", "stoker", "explain", OTHERS[0], f"--namespace={jobs.namespace}"],
        env={**os.environ, "KUBECONFIG": str(scenery.operator.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the policy's limit is reached" in said.stdout, said.stdout + said.stderr


def test_the_brake_outlives_a_restart_and_an_annotation_releases_it(scenery: Scenery) -> None:
    """The jobs are idle indeed: from the release on they count as such, and are warned."""
    jobs, cluster = scenery.braked, scenery.operator.cluster
    since = scenery.policy("braked")["brake"]["since"]
    scenery.operator.crash()
    jobs.settled("a")
    assert scenery.policy("braked")["brake"]["since"] == since
    assert not any("warnedAt" in jobs.record(name) for name in QUIET)
    cluster.kubectl("annotate", "utilizationpolicy", "braked", "stoker.dev/release-brake=looked-at")
    jobs.wait_warned(*QUIET)
    status = scenery.policy("braked")
    assert "brake" not in status
    assert status["handledRelease"] == "looked-at"
    assert [one["released"] for one in status["recentIdle"]] == [True] * len(QUIET)
    wait_for("the metric", lambda: metric(scenery, "braked") == 0)
