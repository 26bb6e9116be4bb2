"""Why a job does not run: the true reason, in PodsReady."""

from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import DLJobs
from e2e.scenarios.versions import require_newest


def test_no_node_has_the_product(jobs: DLJobs) -> None:
    jobs.create("b200", gpuProduct="NVIDIA-B200")
    condition = jobs.wait_condition("b200", "PodsReady", "False", "Unschedulable")
    assert "0/4 nodes are available" in condition["message"]
    assert jobs.status("b200")["phase"] == "Pending"


def test_six_pods_on_four_nodes_wait_for_one_another(jobs: DLJobs) -> None:
    """Four run, two have no node, nobody works: waiting, never idle."""
    jobs.create("six", nodes=6)
    wait_for("four ready pods", lambda: jobs.status("six").get("ready") == "4/6")
    condition = jobs.wait_condition("six", "PodsReady", "False", "WaitingForPods")
    assert "Unschedulable" in condition["message"]
    assert jobs.status("six")["phase"] == "Starting"
    assert jobs.condition("six", "Idle")["status"] != "True"


def test_an_image_that_cannot_be_pulled(jobs: DLJobs) -> None:
    jobs.create("pull", play={"waiting_reason": "ImagePullBackOff"})
    condition = jobs.wait_condition("pull", "PodsReady", "False", "ImagePull")
    assert "registry.example.com/nlp/bert:2026.11" in condition["message"]
    assert jobs.status("pull")["phase"] == "Starting"


def test_a_quota_that_is_used_up_and_then_raised(jobs: DLJobs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": jobs.namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    }
    jobs.cluster.apply(quota)
    jobs.create("big", env=[{"name": "TOKEN", "value": "s3cr3t-value"}])
    condition = jobs.wait_condition("big", "PodsReady", "False", "QuotaExceeded")
    assert "requests.nvidia.com/gpu=8" in condition["message"]
    assert "s3cr3t" not in str(jobs.get("big")["status"])
    assert all("s3cr3t" not in str(event) for event in jobs.events("big"))
    quota["spec"] = {"hard": {"requests.nvidia.com/gpu": "8"}}
    jobs.cluster.apply(quota)
    # The Job controller tries again by itself, ever more rarely.
    jobs.wait_phase("big", "Running", timeout=60)


def test_pod_security_forbids_the_pods(jobs: DLJobs) -> None:
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    jobs.cluster.api("PATCH", f"/api/v1/namespaces/{jobs.namespace}", label, "application/merge-patch+json")
    jobs.create("root")
    condition = jobs.wait_condition("root", "PodsReady", "False", "PodSecurity")
    assert 'violates PodSecurity "restricted' in condition["message"]


def test_a_queue_holds_the_job_and_starts_it(jobs: DLJobs) -> None:
    """Kueue by its contract: it suspends the Job at creation, then starts it and adds to its template. The label is
    passed on, and nothing that Kueue did is undone: not its suspension, not its start, not its toleration.
    """
    require_newest(jobs.cluster, "it has no MutatingAdmissionPolicy v1, which stands in for Kueue's webhook")
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "queue-suspends"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
                ]
            },
            "matchConditions": [
                {"name": "queued", "expression": "'kueue.x-k8s.io/queue-name' in object.metadata.labels"}
            ],
            "reinvocationPolicy": "Never",
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{spec: Object.spec{suspend: true}}"},
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "queue-suspends"},
        "spec": {"policyName": "queue-suspends"},
    }
    jobs.cluster.apply(policy, binding)
    try:

        def created_suspended() -> bool:
            """A policy takes a moment to be in force."""
            if jobs.has("dljobs", "queued"):
                jobs.delete("queued")
                wait_for(
                    "the last one to go", lambda: not jobs.has("dljobs", "queued") and not jobs.has("jobs", "queued")
                )
            jobs.create("queued", labels={"kueue.x-k8s.io/queue-name": "team-nlp"})
            wait_for("the Job", lambda: jobs.has("jobs", "queued"))
            return bool(jobs.job("queued")["spec"]["suspend"])

        wait_for("the policy to be in force", created_suspended)
    finally:
        for kind in ("mutatingadmissionpolicybinding", "mutatingadmissionpolicy"):
            jobs.cluster.kubectl("delete", kind, "queue-suspends")
    jobs.wait_phase("queued", "Queued")
    assert jobs.job("queued")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-nlp"
    jobs.settled("queued")
    assert jobs.job("queued")["spec"]["suspend"] is True
    toleration = {"key": "example.com/reserved", "operator": "Exists", "effect": "NoSchedule"}
    own = jobs.job("queued")["spec"]["template"]["spec"].get("tolerations", [])
    started = {"suspend": False, "template": {"spec": {"tolerations": [*own, toleration]}}}
    jobs.patch_job("queued", {"spec": started})
    jobs.wait_phase("queued", "Running")
    assert "kueue.x-k8s.io/queue-name" not in jobs.pods("queued")[0]["metadata"]["labels"]
    jobs.patch("queued", {"metadata": {"labels": {"touched": "yes"}}})
    jobs.settled("queued")
    job = jobs.job("queued")
    assert toleration in job["spec"]["template"]["spec"]["tolerations"]
    assert job["spec"]["suspend"] is False
