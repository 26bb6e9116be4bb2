"""Workloads that Stoker did not create: found by their pods, told of in a GPUWorkload, and left alone."""

import json
from typing import Any

import pytest

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER
from e2e.scenarios.harness.jobs import Jobs, ago
from e2e.scenarios.workloads.owners import CHAINS, Owners, template
from e2e.scenarios.workloads.watched import MERGE, Watched, policy

BUSY = "phases: [{util: 91, memory: 70%, cpu: 6}]"
FEW = "phases: [{util: 0, cpu: 5, gpus: {'0-3': {util: 83, memory: 60%}}}]"
"""Four of eight GPUs are never used."""


def deployment(name: str, *, replicas: int, gpus: int) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template(gpus=gpus, labels=labels)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_a_job_is_told_of_with_its_use_and_its_findings(watched: Watched) -> None:
    jobs = Jobs(watched.cluster, watched.namespace)
    jobs.create("few", gpus=8, scenario=FEW, started_at=ago(hours=4))
    jobs.running("few")
    watched.cluster.backfill(watched.namespace)

    def diagnosed() -> dict[str, Any]:
        status = watched.status("job-few")
        assert "utilization" in status, status
        assert any(one["rule"] == "gpus-unused" for one in status.get("findings", ())), status
        return status

    status = wait_for("the finding", diagnosed, timeout=60)
    assert status["phase"] == "Running"
    assert (status["gpus"], status["ready"]) == (8, "1/1")
    assert 38 <= status["utilization"]["averagePercent"] <= 44
    (made,) = watched.wait_names("job-few").values()
    owner = watched.cluster.api("GET", f"/apis/batch/v1/namespaces/{watched.namespace}/jobs/few")
    assert made["spec"]["owner"]["uid"] == owner["metadata"]["uid"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert owner["spec"].get("suspend") is False

    def event_written() -> bool:
        events = watched.cluster.api("GET", f"/apis/events.k8s.io/v1/namespaces/{watched.namespace}/events")["items"]
        assert any(
            one["regarding"]["kind"] == "Job" and one["reportingController"] == "stoker.dev/controller"
            for one in events
        ), [(one["regarding"]["kind"], one["reason"]) for one in events]
        return True

    wait_for("an event about the Job", event_written)
    table = watched.cluster.kubectl("get", "gpuw", "-n", watched.namespace)
    header, line = table.splitlines()
    assert header.split()[:4] == ["NAME", "KIND", "OF", "PHASE"]
    assert line.split()[:6] == ["job-few", "Job", "few", "Running", "1/1", "8"]
    watched.cluster.kubectl("delete", "job", "few", "-n", watched.namespace)
    watched.wait_names()


def test_the_topmost_owner_counts_whatever_its_kind(watched: Watched) -> None:
    owners = Owners(watched.cluster, watched.namespace)
    names = {f"{kind.lower()}-{owners.pod_of(kind, BUSY)}": kind for kind in CHAINS}
    found = watched.wait_names(*names)
    for name, kind in names.items():
        owner = found[name]["spec"]["owner"]
        assert (owner["apiVersion"], owner["kind"]) == CHAINS[kind][0][:2]
        assert watched.wait_phase(name, "Running")["gpus"] == 1


def test_only_pods_with_gpus_are_read_and_of_a_template_one_without(watched: Watched) -> None:
    watched.create("apis/apps/v1/deployments", deployment("web", replicas=8, gpus=0))
    watched.create("apis/apps/v1/deployments", deployment("llm", replicas=2, gpus=1))
    status = watched.wait_phase("deployment-llm", "Running")
    assert (status["gpus"], status["ready"]) == (2, "2/2")
    watched.wait_names("deployment-llm")

    def asked() -> set[str]:
        with watched.cluster.audit_log.open() as lines:
            events = [json.loads(line) for line in lines if line.endswith("\n")]
        return {
            event["objectRef"]["name"]
            for event in events
            if event["verb"] == "get"
            and event["user"]["username"].endswith(":stoker-controller")
            and event.get("objectRef", {}).get("resource") == "pods"
            and event["objectRef"]["namespace"] == watched.namespace
        }

    read = asked()
    assert len({name for name in read if name.startswith("llm-")}) == 2
    assert 1 <= len({name for name in read if name.startswith("web-")}) <= 4  # as many as are read at the same time


def test_scaled_to_nothing_and_back_it_stays_one_workload(watched: Watched) -> None:
    watched.create("apis/apps/v1/deployments", deployment("llm", replicas=1, gpus=1))
    watched.wait_phase("deployment-llm", "Running")
    path = f"/apis/apps/v1/namespaces/{watched.namespace}/deployments/llm"
    watched.cluster.api("PATCH", path, {"spec": {"replicas": 0}}, MERGE)
    status = watched.wait_phase("deployment-llm", "Pending")
    assert status["conditions"][0]["reason"] == "NoPods"
    watched.cluster.api("PATCH", path, {"spec": {"replicas": 1}}, MERGE)
    status = watched.wait_phase("deployment-llm", "Running")
    assert len(status["pods"]) == 2
    assert "until" in status["pods"][0]


def test_a_pod_without_an_owner_is_a_workload(watched: Watched) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": template()["spec"]}
    watched.create("api/v1/pods", body)
    watched.wait_phase("pod-alone", "Running")
    watched.cluster.kubectl("delete", "pod", "alone", "-n", watched.namespace)
    watched.wait_names()


@pytest.mark.parametrize("kinds", [["Deployment"], []])
def test_what_no_policy_names_is_not_watched(watched: Watched, kinds: list[str]) -> None:
    jobs = Jobs(watched.cluster, watched.namespace)
    jobs.create("train", scenario=BUSY)
    watched.create("apis/apps/v1/deployments", deployment("llm", replicas=1, gpus=1))
    watched.wait_names("job-train", "deployment-llm")
    watched.cluster.apply(policy(watched.namespace, kinds))
    watched.wait_names(*(["deployment-llm"] if kinds else []))
    jobs.running("train")
    watched.cluster.apply(policy(watched.namespace, ["*"]))
    watched.wait_names("job-train", "deployment-llm")


def test_a_controller_that_starts_again_goes_on_with_what_is_there(watched: Watched) -> None:
    watched.create("apis/apps/v1/deployments", deployment("llm", replicas=1, gpus=1))
    before = watched.wait_phase("deployment-llm", "Running")
    (made,) = watched.all().values()
    watched.operator.crash()
    assert watched.cluster.running(CONTROLLER)
    looked = before.get("lookedAt")

    def scanned_again() -> bool:
        (now,) = watched.all().values()
        assert now["metadata"]["uid"] == made["metadata"]["uid"]
        assert [one["name"] for one in now["status"]["pods"]] == [one["name"] for one in before["pods"]]
        assert now["status"]["phase"] == "Running"
        return True

    assert looked is None or looked
    wait_for("the controller to go on", scanned_again)
    watched.create("apis/apps/v1/deployments", deployment("second", replicas=1, gpus=1))
    watched.wait_phase("deployment-second", "Running")
    watched.wait_names("deployment-llm", "deployment-second")
