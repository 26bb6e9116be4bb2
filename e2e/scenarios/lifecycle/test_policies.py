"""What a policy's status says, and what a policy makes of the status of the jobs that are there."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import slowness, wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.admission.submitting import Webhook, policy
from e2e.scenarios.lifecycle.workload import DLJobs

pytestmark = pytest.mark.e2e

RULE = "launcher-too-few"
TOO_FEW = "torchrun --nproc_per_node=4 train.py"
WASTEFUL = """\
pip install flash-attn
mpirun -np 4 python train.py
mpirun -np 4 python evaluate.py
python notify.py
sleep infinity
"""
"""Says at least five things; two of them by one rule."""


def here(jobs: DLJobs) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": jobs.namespace}}


def status_of(cluster: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.api("GET", f"/apis/stoker.dev/v1alpha1/utilizationpolicies/{name}")
    status: dict[str, Any] = found.get("status", {})
    return status


def wait_condition(cluster: Cluster, name: str, kind: str, reason: str) -> Mapping[str, Any]:
    def probe() -> Mapping[str, Any]:
        status = status_of(cluster, name)
        found = next((one for one in status.get("conditions", ()) if one["type"] == kind), None)
        assert found is not None, status
        assert found["reason"] == reason, status
        return dict(found)

    return wait_for(f"{kind} {reason} of {name}", probe, timeout=30.0)


def found(jobs: DLJobs, name: str) -> list[str]:
    """The findings in a job's status, each as its rule and `field:line`."""
    return [f"{one['rule']} {_written(one['location'])}" for one in jobs.status(name).get("findings", ())]


def _written(location: dict[str, Any]) -> str:
    return ":".join(str(location[part]) for part in ("fieldPath", "line") if part in location)


def test_a_policy_says_whether_it_is_in_force_and_what_others_take_over(jobs: DLJobs) -> None:
    cluster = jobs.cluster
    cluster.apply(policy("team", namespaceSelector=here(jobs), priority=5))
    cluster.apply(policy("everyone", namespaceSelector={}))
    cluster.apply(policy("nobody", namespaceSelector={"matchLabels": {"e2e.stoker.dev/tier": "none"}}))
    wait_condition(cluster, "team", "Ready", "InForce")
    everyone = wait_condition(cluster, "everyone", "Ready", "InForce")
    assert everyone["status"] == "True"
    assert wait_condition(cluster, "nobody", "Ready", "SelectsNothing")["status"] == "False"
    lines = {f"{jobs.namespace}: also selected by {other}; team applies" for other in ("team", "everyone")}
    assert {status_of(cluster, name)["overlaps"][0] for name in ("team", "everyone")} == lines
    cluster.apply(policy("everyone", namespaceSelector={}, priority=9))
    wait_condition(cluster, "team", "Ready", "Overridden")
    cluster.kubectl("wait", "--for=condition=Ready", "utilizationpolicy/everyone", "--timeout=30s")
    columns = cluster.kubectl("get", "utilizationpolicies").splitlines()
    assert columns[0].split() == ["NAME", "PRIORITY", "RECLAIM", "READY", "ATTENTION", "AGE"]


def test_a_policy_that_became_invalid_past_the_webhook_says_which_generation_counts(
    operator: Operator, jobs: DLJobs
) -> None:
    """What reclaim has noted meanwhile is still there."""
    cluster = jobs.cluster
    cluster.apply(policy(rules={RULE: {"action": "Audit"}}))
    wait_condition(cluster, "default", "Ready", "InForce")
    noted = {"jobUID": "u", "job": "team/bert", "time": "2026-11-21T12:00:00Z", "gpus": 8}
    patch = json.dumps({"status": {"recentReclaims": [noted]}})
    path = ("utilizationpolicy", "default", "--subresource=status", "--type=merge", f"--patch={patch}")
    cluster.kubectl("patch", *path)
    invalid = policy(reclaim={"schedule": [{"start": "18:00", "end": "08:00", "timeZone": "Mars/Olympus"}]})

    def passed() -> bool:
        cluster.apply(invalid)
        return True

    with Webhook.of(cluster).removed():
        wait_for("the policy to pass", passed, quiet=True)
    condition = wait_condition(cluster, "default", "Ready", "Invalid")
    assert condition["status"] == "False"
    assert condition["message"].startswith("generation 1 stays in force: spec.reclaim.schedule[0].timeZone: ")
    assert condition["observedGeneration"] == 2
    assert status_of(cluster, "default")["recentReclaims"] == [noted]
    jobs.create_admitted("bert", script=TOO_FEW)
    wait_for("the verdict", lambda: found(jobs, "bert") == [f"{RULE} spec.script:1"])
    assert "Traceback" not in operator.cluster.log(CONTROLLER)


def test_an_exemption_that_ends_is_told_of_before_and_after_and_ends_for_the_jobs_that_run(jobs: DLJobs) -> None:
    until = (datetime.now(UTC) + timedelta(seconds=12 * slowness())).strftime("%Y-%m-%dT%H:%M:%SZ")
    exempt = {"jobSelector": {"matchLabels": {"trial": "yes"}}, "rules": [RULE], "until": until, "reason": "on trial"}
    jobs.cluster.apply(policy(exemptions=[exempt]))
    wait_condition(jobs.cluster, "default", "NeedsAttention", "ExemptionExpiring")

    jobs.create_admitted("bert", script=TOO_FEW, labels={"trial": "yes"})
    jobs.wait_phase("bert", "Running")
    wait_for("the end of the exemption", lambda: found(jobs, "bert") == [f"{RULE} spec.script:1"])
    wait_condition(jobs.cluster, "default", "NeedsAttention", "ExemptionExpired")
    assert jobs.status("bert")["phase"] == "Running", "what runs is not stopped for it"


def test_the_status_has_every_finding_of_admission_with_its_line(jobs: DLJobs) -> None:
    jobs.cluster.apply(policy(rules={"image-unpinned": {"action": "Audit"}}))
    wait_condition(jobs.cluster, "default", "Ready", "InForce")
    jobs.create("bert", script=WASTEFUL, image="registry.example.com/nlp/bert:latest")
    jobs.wait_phase("bert", "Running")
    status = jobs.status("bert")
    shown = found(jobs, "bert")
    assert "image-unpinned spec.image" in shown, "audited, and not shown at admission"
    assert "endless-tail spec.script:5" in shown
    assert len(shown) > 3, "three are shown at admission"
    assert status["findingsSummary"].startswith(f"{len(shown)}: ")
    assert {source for one in status["findings"] for source in one["sources"]} == {"Manifest", "Script"}


def test_actions_change_the_status_of_running_jobs_at_once(jobs: DLJobs) -> None:
    jobs.cluster.apply(policy(rules={RULE: {"action": "Audit"}}))
    wait_condition(jobs.cluster, "default", "Ready", "InForce")
    jobs.create_admitted("bert", script=TOO_FEW)
    jobs.wait_phase("bert", "Running")
    wait_for("the finding", lambda: found(jobs, "bert") == [f"{RULE} spec.script:1"])
    jobs.cluster.apply(policy(rules={RULE: {"action": "Off"}}))
    wait_for("the finding to go", lambda: found(jobs, "bert") == [])
    jobs.cluster.apply(policy(rules={RULE: {"action": "Deny"}}))
    wait_for("the finding to come", lambda: found(jobs, "bert") == [f"{RULE} spec.script:1"])
    jobs.settled("bert")
    assert jobs.status("bert")["phase"] == "Running", "a policy made stricter stops nothing"
