"""What the operator misses while its watches are down, and how it catches up. The proxy in between is ours; the API
server, its watch cache and the etcd that is compacted are real.
"""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.api_proxy import ApiProxy
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, NAMESPACE, Operator
from e2e.scenarios.lifecycle.requests import created
from e2e.scenarios.lifecycle.workload import DLJobs

WATCHED = 5
"""Watches of the controller: DLJobs, Jobs, pods, policies, namespaces."""


@pytest.fixture
def proxy(operator: Operator) -> Iterator[ApiProxy]:
    """The controller's way to the API server, with all watches open; afterwards it goes straight again. It elects no
    leader: a controller that is restarted because its lease ran out begins new watches, which miss nothing.
    """
    operator.ensure_controller()
    proxy = ApiProxy(operator.cluster)
    direct = operator.cluster.service_account_kubeconfig(NAMESPACE, "stoker-controller")
    try:
        operator.crash(
            scan_interval="1h", options=["--no-leader-elect"], environment={"KUBECONFIG": str(proxy.kubeconfig(direct))}
        )
        wait_for("the watches", lambda: all_open(proxy))
        yield proxy
    finally:
        operator.crash(scan_interval="1h")
        proxy.stop()


def all_open(proxy: ApiProxy) -> bool:
    counts = proxy.watches()
    assert counts["open"] == WATCHED, counts
    return True


def compact(operator: Operator) -> None:
    """Have etcd forget all versions but the present ones, as an API server has it do every five minutes."""
    url = operator.cluster.etcd_url

    def ask(path: str, body: dict[str, Any]) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(f"{url}/v3/kv/{path}", data=json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as response:
            answer: dict[str, dict[str, str]] = json.load(response)
        return answer

    revision = ask("range", {"key": "AA=="})["header"]["revision"]
    ask("compaction", {"revision": revision, "physical": True})


def generation(jobs: DLJobs, name: str) -> tuple[str, int]:
    """Which Job it is, and how often its spec was written."""
    metadata = jobs.job(name)["metadata"]
    return metadata["uid"], metadata["generation"]


def test_what_happened_before_a_410_is_neither_lost_nor_done_twice(
    operator: Operator, proxy: ApiProxy, jobs: DLJobs
) -> None:
    """The watches are cut and etcd is compacted. An API server that starts after that has no event of the time between,
    so it answers the watches' resource versions with 410 Gone.
    """
    for name in ("kept", "deleted", "ended"):
        jobs.create(name, nodes=1)
    for name in ("kept", "deleted", "ended"):
        jobs.wait_phase(name, "Running")
        jobs.settled(name)
    kept = generation(jobs, "kept")
    proxy.set_fault("cut")
    jobs.create("created")
    jobs.delete("deleted", propagation="Foreground")
    jobs.cluster.kubectl("delete", "job", "ended", "-n", jobs.namespace)
    compact(operator)
    operator.cluster.restart("kube-apiserver")
    proxy.set_fault("none")
    wait_for("the watches to be told 410", lambda: proxy.watches()["gone"] > 0, timeout=60)
    jobs.wait_phase("created", "Running")
    jobs.wait_phase("ended", "Failed")
    assert generation(jobs, "kept") == kept
    assert sorted(created(jobs.cluster, jobs.namespace)) == ["created", "deleted", "ended", "kept"], "each once"
    wait_for("the deleted one to be gone", lambda: not jobs.has("jobs", "deleted"))
    assert "Traceback" not in operator.cluster.log(CONTROLLER)


@pytest.mark.long
def test_a_watch_that_falls_silent_is_replaced_and_misses_nothing(
    operator: Operator, proxy: ApiProxy, jobs: DLJobs
) -> None:
    """A firewall has forgotten the connections: they are open and nothing arrives, not even a bookmark, which an API
    server sends every minute. After 70 seconds the watches are begun once more.
    """
    jobs.create("before")
    jobs.wait_phase("before", "Running")
    jobs.settled("before")
    before = generation(jobs, "before")
    begun = proxy.watches()["begun"]
    proxy.set_fault("silent")
    jobs.create("unheard")
    wait_for("the watches to lose something", lambda: proxy.watches()["swallowed"] > 0)
    jobs.wait_phase("unheard", "Running", timeout=150)
    assert proxy.watches()["begun"] > begun
    assert generation(jobs, "before") == before
    assert created(jobs.cluster, jobs.namespace) == ["before", "unheard"]
    assert operator.cluster.running(CONTROLLER), "not by a restart"
