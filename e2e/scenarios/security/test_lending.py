"""The operator does for a DLJob what its author could do alone, in its namespace, and nothing else."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import NAMESPACE, Operator
from e2e.scenarios.lifecycle.workload import MERGE, DLJobs
from e2e.scenarios.security.people import DLJOBS, Person
from stoker.adapters.clock import SystemClock
from stoker.adapters.kubernetes.client import Kubernetes
from stoker.controller.capacity import Capacity

CONTAINER = {"name": "trainer"}
HOST_ACCESS: dict[str, tuple[dict[str, Any], str]] = {
    "hostPath": ({"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "hostPath volumes"),
    "hostNetwork": ({"hostNetwork": True}, "hostNetwork=true"),
    "hostPID": ({"hostPID": True, "hostIPC": True}, "hostPID=true"),
    "privileged": ({"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]}, "privileged=true"),
    "capabilities": (
        {"containers": [{**CONTAINER, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
        "SYS_ADMIN",
    ),
    "hostPort": ({"containers": [{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}]}, "hostPort 80"),
    "init": (
        {"initContainers": [{"name": "init", "image": "a/b:1", "securityContext": {"privileged": True}}]},
        'container "init" must not set securityContext.privileged=true',
    ),
}


@pytest.fixture
def baseline(tenant: Person) -> Person:
    """The tenant, in a namespace that enforces the Pod Security Standard `baseline`."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    tenant.cluster.api("PATCH", f"/api/v1/namespaces/{tenant.namespace}", label, MERGE)
    return tenant


def test_pod_security_refuses_host_access_and_the_status_says_so_once(operator: Operator, baseline: Person) -> None:
    jobs = baseline.jobs
    for name, (spec, _) in HOST_ACCESS.items():
        body = jobs_body(name.lower(), podTemplate={"spec": spec})
        baseline.request("POST", DLJOBS, body)
    for name, (_, said) in HOST_ACCESS.items():
        condition = jobs.wait_condition(name.lower(), "PodsReady", "False", "PodSecurity")
        assert said in condition["message"]
        assert jobs.pods(name.lower()) == []
    for name in HOST_ACCESS:
        jobs.settled(name.lower())


def test_no_container_is_added_to_a_running_pod_by_a_template(tenant: Person) -> None:
    template = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "a/b:1"}]}}
    said = tenant.kubectl("create", "-f", "-", manifest=json.dumps(jobs_body("debug", podTemplate=template)))
    assert 'unknown field "spec.podTemplate.spec.ephemeralContainers"' in said.stderr


def test_a_job_stays_in_its_namespace_whatever_its_template_says(operator: Operator, tenant: Person) -> None:
    """The template names another namespace and another DLJob, and the operator's own account."""
    victim = operator.cluster.create_namespace("victim")
    metadata = {"namespace": victim, "name": "x", "labels": {"stoker.dev/dljob": "other"}}
    template = {"metadata": metadata, "spec": {"serviceAccountName": "stoker-controller"}}
    tenant.request("POST", DLJOBS, jobs_body("escape", podTemplate=template))
    condition = tenant.jobs.wait_condition("escape", "PodsReady", "False", "PodsNotCreated")
    assert 'serviceaccount "stoker-controller" not found' in condition["message"]
    labels = tenant.jobs.job("escape")["spec"]["template"]["metadata"]["labels"]
    assert (labels["stoker.dev/dljob"], labels["batch.kubernetes.io/job-name"]) == ("escape", "escape")
    elsewhere = DLJobs(operator.cluster, victim)
    assert not elsewhere.has("jobs", "escape")
    there = operator.cluster.api("GET", f"/api/v1/namespaces/{victim}/pods")["items"]
    assert there == []
    other = jobs_body("escape") | {"metadata": {"name": "escape", "namespace": victim}}
    assert tenant.refusal("POST", DLJOBS, other).status == 400
    assert tenant.refusal("POST", DLJOBS.format(victim), jobs_body("escape")).status == 403


def test_the_author_could_have_created_the_same_job(tenant: Person) -> None:
    """So the operator's account adds no right: neither to the Job nor to what its pods are."""
    spec = {
        "serviceAccountName": "tenant",
        "volumes": [{"name": "s", "secret": {"secretName": "theirs"}}],
        "priorityClassName": "system-node-critical",
        "nodeName": "gpu-0",
        "tolerations": [{"operator": "Exists"}],
    }
    tenant.request("POST", DLJOBS, jobs_body("same", podTemplate={"spec": spec}))
    wait_for("the Job", lambda: tenant.jobs.has("jobs", "same"))
    made = tenant.jobs.job("same")
    written = {key: value for key, value in made["spec"].items() if key != "selector"}
    template = {**written["template"], "metadata": {"labels": {"a": "b"}}}
    mine = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine"},
        "spec": {**written, "template": template},
    }
    assert tenant.request("POST", "/apis/batch/v1/namespaces/{}/jobs?dryRun=All", mine)["metadata"]["name"] == "mine"


def test_a_claims_name_leads_the_controller_to_no_other_object(operator: Operator, tenant: Person) -> None:
    """The API server takes any text as the name of a pod's claim. The controller reads claims of pods that wait."""
    cluster = operator.cluster
    victim = cluster.create_namespace("victim")
    names = [f"../../{victim}/persistentvolumeclaims/data", f"../../../namespaces/{victim}?x=", "..", "data"]
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(names)]
    container = {"name": "main", "image": "a/b:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "waits"},
        "spec": {"containers": [container], "volumes": volumes},
    }
    tenant.request("POST", "/api/v1/namespaces/{}/pods", pod)

    async def look() -> None:
        kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, "stoker-controller")
        async with await Kubernetes.connect(kubeconfig=str(kubeconfig)) as api:
            await Capacity(api, SystemClock()).waiting({"nvidia.com/gpu"})

    asyncio.run(look())
    own = f"/api/v1/namespaces/{tenant.namespace}/persistentvolumeclaims/"

    def asked() -> list[str]:
        return [uri for uri in requested(cluster) if uri.startswith(own) or victim in uri]

    wait_for("the claim to be read", lambda: f"{own}data" in asked())
    # Of a namespace itself the controller reads the labels, by a list and a watch.
    assert asked() == [f"{own}data"]


def requested(cluster: Cluster) -> Iterator[str]:
    """The addresses that the operator's accounts have asked the API server for."""
    for line in cluster.audit_log.read_text().splitlines():
        yield str(json.loads(line)["requestURI"])


def test_a_job_that_names_a_dljob_as_its_controller_is_its_authors_own(tenant: Person) -> None:
    """A Job made by hand with the DLJob's uid is taken for the DLJob's: its author could have run it without one. With
    another uid it is somebody else's.
    """
    tenant.request("POST", DLJOBS, jobs_body("mine", suspend=True))
    tenant.jobs.wait_phase("mine", "Suspended")
    uid = tenant.request("GET", f"{DLJOBS}/mine")["metadata"]["uid"]
    owner = {"apiVersion": "stoker.dev/v1alpha1", "kind": "DLJob", "name": "mine", "uid": uid, "controller": True}
    pods = {"restartPolicy": "Never", "containers": [{"name": "trainer", "image": "a/b:1"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "ownerReferences": [owner], "labels": {"stoker.dev/dljob": "mine"}},
        "spec": {"template": {"spec": pods}},
    }
    tenant.request("POST", "/apis/batch/v1/namespaces/{}/jobs", job)
    wait_for("it to be suspended as the DLJob is", lambda: tenant.jobs.job("mine")["spec"].get("suspend"))


def jobs_body(name: str, **spec: Any) -> dict[str, Any]:
    """A DLJob of one GPU."""
    return {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "DLJob",
        "metadata": {"name": name},
        "spec": {
            "gpusPerNode": 1,
            "image": "registry.example.com/nlp/bert:2026.11",
            "script": "torchrun train.py",
            **spec,
        },
    }
