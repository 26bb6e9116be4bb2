"""What a DLJob's owner reads while the API server does not take its Job, or a change of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster.waiting import wait_for
from e2e.scenarios.lifecycle.workload import DLJobs

JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}


@contextmanager
def webhook_that_is_down(jobs: DLJobs, operation: str) -> Iterator[None]:
    """A webhook on the namespace's Jobs that nobody answers, as while Kueue is away."""
    kind = "validatingwebhookconfiguration"
    jobs.cluster.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "absent"},
            "webhooks": [
                {
                    "name": "jobs.absent.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:9/jobs"},
                    "rules": [
                        {
                            "apiGroups": ["batch"],
                            "apiVersions": ["v1"],
                            "operations": [operation],
                            "resources": ["jobs"],
                        }
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": jobs.namespace}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "failurePolicy": "Fail",
                    "timeoutSeconds": 2,
                }
            ],
        }
    )
    try:
        yield
    finally:
        jobs.cluster.kubectl("delete", kind, "absent")


def reason(jobs: DLJobs, name: str, kind: str, reason: str) -> str:
    """Wait for a condition's reason, and return its message."""

    def stands() -> str:
        found = jobs.condition(name, kind)
        assert found["reason"] == reason, found
        return str(found["message"])

    return wait_for(f"{kind} of {name} to be {reason}", stands)


def test_why_a_job_is_invalid_is_said_in_the_api_servers_words(jobs: DLJobs) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    jobs.create("typo", pod_template={"containers": [{"name": "trainer", "volumeMounts": mounts}]})
    message = reason(jobs, "typo", "Failed", "JobInvalid")
    assert "spec.podTemplate.spec.containers[trainer].volumeMounts[" in message
    assert 'Not found: "data"' in message
    wait_for("the event", lambda: jobs.events("typo", "Failed"))
    assert jobs.status("typo")["observedGeneration"] == 1


def test_which_quota_forbids_a_job_is_said(jobs: DLJobs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": jobs.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    jobs.cluster.apply(quota)

    def in_force() -> bool:
        found = jobs.cluster.api("GET", f"/api/v1/namespaces/{jobs.namespace}/resourcequotas/none")
        return bool(found.get("status", {}).get("hard"))

    wait_for("the quota to be in force", in_force)
    jobs.create("many")
    assert "exceeded quota none" in reason(jobs, "many", "PodsReady", "JobForbidden")


def test_while_a_webhook_on_jobs_does_not_answer_a_job_says_so_and_goes_on_after_it(jobs: DLJobs) -> None:
    with webhook_that_is_down(jobs, "CREATE"):
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        probe = {"metadata": {"name": "probe"}, "spec": {"template": {"spec": pod}}}

        def in_force() -> bool:
            try:
                jobs.cluster.api("POST", f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs?dryRun=All", probe)
            except Exception:
                return True
            return False

        wait_for("the webhook to be in force", in_force)
        jobs.create("held")
        message = reason(jobs, "held", "PodsReady", "JobNotCreated")
        assert "the admission webhook jobs.absent.example.com does not answer" in message
        assert jobs.status("held")["phase"] == "Pending"
        wait_for("the event", lambda: jobs.events("held", "JobNotCreated"))
    jobs.wait_phase("held", "Running")
    wait_for("the events of its life", lambda: jobs.events("held", "Created") and jobs.events("held", "Started"))


def test_a_suspension_that_can_not_be_written_is_said_and_made_good(jobs: DLJobs) -> None:
    jobs.create("runs")
    jobs.wait_phase("runs", "Running")
    with webhook_that_is_down(jobs, "UPDATE"):
        path = f"/apis/batch/v1/namespaces/{jobs.namespace}/jobs/runs?dryRun=All"

        def in_force() -> bool:
            try:
                jobs.cluster.api("PATCH", path, {"metadata": {"labels": {"x": "y"}}}, "application/merge-patch+json")
            except Exception:
                return True
            return False

        wait_for("the webhook to be in force", in_force)
        jobs.patch("runs", {"spec": {"suspend": True}})
        message = reason(jobs, "runs", "Suspended", "JobNotChanged")
        assert "spec.suspend is true, but its Job can't be suspended" in message
        assert "jobs.absent.example.com" in message
        assert jobs.status("runs")["observedGeneration"] == 2
    jobs.wait_phase("runs", "Suspended")
    wait_for("the event", lambda: jobs.events("runs", "Suspended"))


def test_what_the_api_server_warns_of_is_kept(jobs: DLJobs) -> None:
    jobs.cluster.kubectl("label", "namespace", jobs.namespace, "pod-security.kubernetes.io/warn=restricted")
    jobs.create("open")
    jobs.wait_phase("open", "Running")
    assert 'would violate PodSecurity "restricted' in jobs.condition("open", "CreatedWithWarnings")["message"]
    wait_for("the event", lambda: jobs.events("open", "APIServerWarned"))
