"""The controller asks once more before it makes a Job: what came past admission does not run."""

from typing import Any

from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import DLJobs


def lenient(namespace: str) -> dict[str, Any]:
    """A policy that only warns in one namespace."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": "lenient"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": {"launcher-too-few": {"action": "Warn"}},
        },
    }


def test_a_job_that_would_be_denied_by_now_is_refused_for_good(jobs: DLJobs) -> None:
    """Admitted suspended while the policy only warned, resumed under one that denies."""
    jobs.cluster.apply(lenient(jobs.namespace))
    jobs.create_admitted("few", script="torchrun --nproc_per_node=4 train.py", suspend=True)
    jobs.wait_phase("few", "Suspended")
    jobs.cluster.kubectl("delete", "utilizationpolicy", "lenient")
    jobs.patch("few", {"spec": {"suspend": False}})
    status = jobs.wait_phase("few", "Failed")
    failed = jobs.condition("few", "Failed")
    assert failed["reason"] == "Refused"
    assert "launcher-too-few" in failed["message"]
    assert "spec.script" in failed["message"]
    assert [finding["rule"] for finding in status["findings"]] == ["launcher-too-few"]
    assert not jobs.has("jobs", "few")
    wait_for("the event", lambda: jobs.events("few", "Refused"))
    jobs.cluster.apply(lenient(jobs.namespace))
    jobs.patch("few", {"metadata": {"labels": {"touched": "yes"}}})
    jobs.settled("few")
    jobs.cluster.kubectl("delete", "utilizationpolicy", "lenient")
    assert jobs.status("few")["phase"] == "Failed"
    assert not jobs.has("jobs", "few")
