"""The chart's replicas are replaced, evicted and killed on a real node: reviews go on, and one controller leads.

The figures of two minutes each are in docs/availability.md (`python -m benchmarks.availability`).
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from e2e.availability.faults import Faults, kill_container
from e2e.availability.load import Load
from e2e.cluster.waiting import wait_for
from e2e.installed import InstalledOperator
from e2e.operator import CONTROLLER, LEASE, NAMESPACE
from e2e.scenarios.lifecycle.workload import DLJobs

pytestmark = pytest.mark.long
RATE = 10.0
"""Reviews per second: what a machine bears on which much else runs. The benchmark asks for more."""
SECONDS = 30.0


@pytest.fixture(scope="module")
def faults(operator: InstalledOperator) -> Iterator[Faults]:
    load = Load(operator, operator.cluster.create_namespace("load"))
    yield Faults(operator=operator, load=load)
    operator.cluster.kubectl("delete", "utilizationpolicies", "--all")


@pytest.mark.parametrize(
    "name", ["replicas rolled", "replicas deleted", "replicas evicted", "certificates rotated", "policies edited"]
)
def test_no_review_fails_or_is_wrong(faults: Faults, name: str) -> None:
    running = (
        faults.load.on_webhook(seconds=SECONDS, rate=RATE),
        faults.load.on_api_server(seconds=SECONDS, rate=RATE / 2),
    )
    assert faults.repeat(faults.all[name], running) > 0
    for answers in (one.answers() for one in running):
        assert (answers.failed, answers.wrong) == ([], [])


def test_a_killed_replica_makes_no_answer_wrong(faults: Faults, report: Callable[[str], object]) -> None:
    running = faults.load.on_webhook(seconds=SECONDS, rate=RATE)
    faults.kill()
    answers = running.answers()
    report(f"{len(answers.failed)} failed; the Service left the replica out after {faults.gone[-1]:.1f} s")
    assert answers.wrong == []
    ended = answers.requests - len(answers.failed)
    assert ended > answers.requests / 2


@pytest.mark.parametrize("killed", [False, True], ids=["deleted", "killed"])
def test_the_other_controller_leads_and_nothing_is_done_twice(
    operator: InstalledOperator, jobs: DLJobs, killed: bool, report: Callable[[str], object]
) -> None:
    cluster = operator.cluster
    jobs.create_admitted("before", suspend=False)
    wait_for("the Job of before", lambda: jobs.has("jobs", "before"))
    [leader] = [pod for pod in _controllers(operator) if pod["metadata"]["name"] in _holder(operator)]
    began = time.monotonic()
    if killed:
        kill_container(cluster, leader)
    else:
        cluster.kubectl("delete", "pod", leader["metadata"]["name"], "-n", NAMESPACE, "--wait=false")
    jobs.patch("before", {"spec": {"suspend": True}})
    names = [f"during-{number}" for number in range(5)]
    for name in names:
        jobs.create_admitted(name)

    def another_leads() -> bool:
        return leader["metadata"]["name"] not in _holder(operator) and bool(_holder(operator))

    wait_for("another leader", another_leads, timeout=60)
    led = time.monotonic() - began
    for name in names:
        wait_for(f"the Job of {name}", partial(jobs.has, "jobs", name), timeout=60)
    wait_for("the suspension", lambda: jobs.job("before")["spec"]["suspend"], timeout=60)
    acted = time.monotonic() - began
    how = "killed with SIGKILL" if killed else "deleted"
    report(f"leader {how}: {led:.1f} s to the next leader, {acted:.1f} s until it had done what came meanwhile")
    written = _writes(operator, jobs.namespace)
    assert written == Counter({("create", name): 1 for name in ("before", *names)} | {("patch", "before"): 1})
    operator.wait()


def _controllers(operator: InstalledOperator) -> list[dict[str, Any]]:
    selector = "labelSelector=app.kubernetes.io/component=controller"
    items = operator.cluster.api("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?{selector}")["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def _holder(operator: InstalledOperator) -> str:
    return str(operator.cluster.api("GET", LEASE)["spec"].get("holderIdentity", ""))


def _writes(operator: InstalledOperator, namespace: str) -> Counter[tuple[str, str]]:
    """What the controller has written of Jobs, by the API server's audit log: the verb and the Job's name."""
    account = f"system:serviceaccount:{NAMESPACE}:{CONTROLLER}"
    found: Counter[tuple[str, str]] = Counter()
    with operator.cluster.audit_log.open() as lines:
        for event in (json.loads(line) for line in lines if account in line and line.endswith("\n")):
            about = event.get("objectRef", {})
            here = (about.get("resource"), about.get("namespace")) == ("jobs", namespace)
            changed = event["verb"] in {"create", "patch", "update", "delete"}
            if here and changed and event.get("responseStatus", {}).get("code", 500) < 400:
                found[event["verb"], about.get("name", "")] += 1
    return found
