"""A release that is restricted to some namespaces (`watchNamespaces`), on a real API server: its accounts have Roles
there, and DLJobs elsewhere are stored and nothing more.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import yaml

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.conftest import StartCluster
from e2e.operator import CHART, CONTROLLER, NAMESPACE, Operator
from e2e.scenarios.admission.submitting import TOO_FEW, Submitter, dljob
from e2e.scenarios.lifecycle.workload import DLJobs
from e2e.scenarios.reclaim.idling import Idling

WATCHED = ("team-a", "team-b")


@pytest.fixture(scope="module")
def operator(start_cluster: StartCluster) -> Iterator[Operator]:
    """The chart with two namespaces, and both processes under the accounts that it makes."""
    cluster = start_cluster("namespaces")
    cluster.add_nodes(3)
    cluster.start_prometheus()
    for name in (*WATCHED, "elsewhere"):
        cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    operator = Operator(cluster, values={"watchNamespaces": list(WATCHED)})
    operator.install()
    operator.start_admission()
    idle = Idling(operator, cluster, "team-a")
    idle.policy(onPressureOnly=True)
    idle.begin("idle")
    operator.start_controller(scan_interval="2s", options=[f"--watch-namespace={name}" for name in WATCHED])
    idle.wait_phase("idle", "Running")
    operator.kill_controller()
    idle.remember()
    cluster.restart(CONTROLLER)
    yield operator
    cluster.stop()


def may(cluster: Cluster, verb: str, resource: str, namespace: str) -> bool:
    user = f"--as=system:serviceaccount:{NAMESPACE}:stoker-controller"
    done = cluster.run_kubectl("auth", "can-i", verb, resource, user, f"--namespace={namespace}")
    return done.stdout.strip() == "yes"


@pytest.mark.parametrize("namespace", WATCHED)
def test_a_job_in_a_watched_namespace_runs_to_its_end(operator: Operator, namespace: str) -> None:
    jobs = DLJobs(operator.cluster, namespace)
    jobs.create("bert", ttlSecondsAfterFinished=0, play={"duration": "200ms"})
    wait_for("the job to end and its time to be over", lambda: not jobs.has("dljobs", "bert"), timeout=60)


def test_a_job_elsewhere_is_stored_and_nothing_more(operator: Operator) -> None:
    jobs = DLJobs(operator.cluster, "elsewhere")
    jobs.create("bert")
    watched = DLJobs(operator.cluster, "team-a")
    watched.create("later")
    watched.wait_phase("later", "Running")
    assert jobs.status("bert") == {}
    assert not jobs.has("jobs", "bert")


def test_the_webhook_reviews_watched_namespaces_alone(operator: Operator) -> None:
    wrong = dljob("wrong", TOO_FEW)
    assert "launcher-too-few" in Submitter(operator.cluster, "team-b").create(wrong, "--dry-run=server").stderr
    for namespace in ("elsewhere", NAMESPACE, "kube-system"):
        created = Submitter(operator.cluster, namespace).create(wrong, "--dry-run=server")
        assert created.returncode == 0, created.stderr


@pytest.mark.parametrize(
    "verb, resource",
    [
        ("list", "dljobs.stoker.dev"),
        ("create", "jobs.batch"),
        ("list", "pods"),
        ("create", "services"),
        ("get", "persistentvolumeclaims"),
    ],
)
def test_the_controllers_rights_end_at_its_namespaces(operator: Operator, verb: str, resource: str) -> None:
    assert may(operator.cluster, verb, resource, "team-a") is not (resource == "persistentvolumeclaims")
    assert not may(operator.cluster, verb, resource, "elsewhere")


def test_a_namespace_that_is_made_again_is_watched_again(operator: Operator) -> None:
    """The Role went with it; once it is back, the controller needs no restart."""
    cluster = operator.cluster
    cluster.kubectl("delete", "namespace", "team-b", "--timeout=60s")
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": "team-b"}})
    documents = yaml.safe_load_all(cluster.helm_template(CHART, namespace=NAMESPACE, values=operator.values))
    cluster.apply(*(one for one in documents if one and one["metadata"].get("namespace") == "team-b"))
    jobs = DLJobs(cluster, "team-b")
    jobs.create_admitted("again")
    jobs.wait_phase("again", "Running")
    assert cluster.running(CONTROLLER)


def test_with_on_pressure_only_an_idle_job_stays_and_its_condition_says_why(operator: Operator) -> None:
    """Whether a pending pod would fit depends on pods in all namespaces, which such a release may not list. The job
    is idle since the beginning of this module, and a pod waits for more GPUs than there are beside it.
    """
    cluster = operator.cluster
    idle = Idling(operator, cluster, "team-a")
    container = {"name": "main", "image": "registry.example.com/other/server:1"}
    pod = {
        "metadata": {"name": "waits"},
        "spec": {"containers": [{**container, "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
    }
    cluster.api("POST", "/api/v1/namespaces/team-a/pods", pod)
    idle.wait_warned("idle")

    def is_due_and_held() -> bool:
        pending = idle.condition("idle", "ReclaimPending")
        assert "pending pods can't be read: GET /api/v1/pods: 403 Forbidden" in pending["message"], pending
        return True

    wait_for("the deadline to pass", is_due_and_held, timeout=120, interval=0.5)
    assert datetime.now(UTC) >= idle.deadline("idle")
    assert not idle.is_suspended("idle")
