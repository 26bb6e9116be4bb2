"""What the operator does while the API server refuses its requests with 429. The refusals are the API server's own: by
API Priority and Fairness, a priority level with one seat rejects what a FlowSchema leads to it while the seat is taken.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.cluster.api import ApiClient, ApiError
from e2e.cluster.provider import Cluster
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, NAMESPACE, Operator
from e2e.scenarios.lifecycle.requests import Request, created, creations
from e2e.scenarios.lifecycle.workload import DLJobs

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
ONE_SEAT = "one-seat"
ACCOUNT = "stoker-controller"
RETRY_AFTER = 1.0
"""Seconds: the least that the API server says in the header Retry-After."""
REFUSALS = 3


@contextmanager
def throttled(cluster: Cluster, namespace: str) -> Iterator[None]:
    """The API server answers the controller's creations of Jobs with 429 meanwhile."""
    level = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": ONE_SEAT},
        "spec": {
            "type": "Limited",
            "limited": {
                # of 0 seats the API server gives one, where nobody has it
                "nominalConcurrencyShares": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": ACCOUNT, "namespace": NAMESPACE}}
    rule = {"verbs": ["create"], "apiGroups": ["batch"], "resources": ["jobs"], "namespaces": [namespace]}
    flow: dict[str, Any] = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": ONE_SEAT},
        "spec": {
            "priorityLevelConfiguration": {"name": ONE_SEAT},
            "matchingPrecedence": 2,
            "rules": [{"subjects": [subject], "resourceRules": [rule]}],
        },
    }
    controller = cluster.client(cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api("POST", f"{FLOW_CONTROL}/prioritylevelconfigurations", level)
    cluster.api("POST", f"{FLOW_CONTROL}/flowschemas", flow)
    try:
        wait_for("the FlowSchema to be in force", lambda: in_force(cluster))
        with controller.unfinished(path):
            wait_for("the seat to be taken", lambda: refused(controller, path))
            yield
    finally:
        cluster.api("DELETE", f"{FLOW_CONTROL}/flowschemas/{ONE_SEAT}")
        cluster.api("DELETE", f"{FLOW_CONTROL}/prioritylevelconfigurations/{ONE_SEAT}")


def refused(client: ApiClient, path: str) -> bool:
    """Whether the API server answers a creation with 429."""
    try:
        client.request("POST", f"{path}?dryRun=All", {})
    except ApiError as error:
        return error.status == 429
    return False


def in_force(cluster: Cluster) -> bool:
    """Whether the API server has read the FlowSchema: it says then that its priority level exists."""
    status = cluster.api("GET", f"{FLOW_CONTROL}/flowschemas/{ONE_SEAT}").get("status", {})
    return any(one["type"] == "Dangling" and one["status"] == "False" for one in status.get("conditions", []))


def assert_patient(asked: list[Request]) -> None:
    """No request came before the Retry-After of the refusal before it was over."""
    for refused, following in itertools.pairwise(asked):
        if refused.code == 429:
            assert (following.received - refused.answered).total_seconds() >= RETRY_AFTER, asked


def test_a_refused_creation_is_repeated_after_its_retry_after_and_happens_once(
    operator: Operator, jobs: DLJobs
) -> None:
    def refusals() -> int:
        return len([one for one in creations(jobs.cluster, jobs.namespace) if one.code == 429])

    with throttled(jobs.cluster, jobs.namespace):
        jobs.create("patient")
        wait_for("some refusals", lambda: refusals() >= REFUSALS, timeout=60)
    jobs.wait_phase("patient", "Running", timeout=60)
    assert_patient(creations(jobs.cluster, jobs.namespace))
    assert created(jobs.cluster, jobs.namespace) == ["patient"]
    assert "Traceback" not in operator.cluster.log(CONTROLLER)
