"""What the operator does while parts of the control plane are gone: nothing, and nothing twice afterwards."""

import signal
import time
from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.lifecycle.requests import created
from e2e.scenarios.lifecycle.workload import DLJobs

STANDBY = "stoker-controller-standby"


@pytest.fixture
def standby(operator: Operator) -> Iterator[str]:
    """A second controller, which does not lead; afterwards the first one is alone again."""
    wait_for("a leader", operator.leader, quiet=True)
    operator.start_controller(scan_interval="1h", process=STANDBY)
    yield STANDBY
    operator.cluster.kill(STANDBY)
    operator.crash()


MINUTE = 60.0
"""Seconds that etcd is down: longer than a lease and a leader's patience together."""


def came_back(operator: Operator) -> None:
    """A leader that can't renew its lease exits; a kubelet starts it again, and here the test does."""
    if not operator.cluster.running(CONTROLLER):
        operator.cluster.restart(CONTROLLER)


def assert_untouched(jobs: DLJobs, name: str, before: dict[str, object]) -> None:
    """The Job is the same one, and its spec was not written."""
    after = jobs.job(name)["metadata"]
    assert (after["uid"], after["generation"]) == (before["uid"], before["generation"])


def test_a_standby_takes_over_from_a_killed_leader_and_does_nothing_twice(
    operator: Operator, jobs: DLJobs, standby: str
) -> None:
    jobs.create("before")
    jobs.wait_phase("before", "Running")
    before, leader = jobs.job("before")["metadata"], operator.leader()
    operator.cluster.kill(CONTROLLER, signal.SIGKILL)
    jobs.create("during")
    # The lease runs out after 15 seconds.
    wait_for("the standby to lead", lambda: operator.leader() not in {"", leader}, timeout=60)
    jobs.wait_phase("during", "Running")
    assert_untouched(jobs, "before", before)
    assert "Traceback" not in operator.cluster.log(standby)


def test_jobs_outlast_a_restart_of_the_api_server(operator: Operator, jobs: DLJobs) -> None:
    jobs.create("before")
    jobs.wait_phase("before", "Running")
    before = jobs.job("before")["metadata"]
    operator.cluster.restart("kube-apiserver")
    came_back(operator)
    # Admission answers as well: without it the API server would refuse the job.
    jobs.create_admitted("after")
    jobs.wait_phase("after", "Running")
    assert_untouched(jobs, "before", before)
    assert "Traceback" not in operator.cluster.log(CONTROLLER)


def test_a_leader_gives_up_while_etcd_does_not_answer_and_goes_on_afterwards(operator: Operator, jobs: DLJobs) -> None:
    """The etcd stands still until the leader gives up, after 10 seconds without a renewed lease, and not for a minute:
    a longer outage finds no leader at all.
    """
    jobs.create("before")
    jobs.wait_phase("before", "Running")
    before = jobs.job("before")["metadata"]
    operator.cluster.kill("etcd", signal.SIGSTOP)
    try:
        wait_for("the leader to give up", lambda: not operator.cluster.running(CONTROLLER), timeout=60)
    finally:
        operator.cluster.kill("etcd", signal.SIGCONT)
    wait_for("the API server to answer", lambda: bool(jobs.get("before")), timeout=60, quiet=True)
    came_back(operator)
    jobs.create_admitted("after")
    jobs.wait_phase("after", "Running")
    assert_untouched(jobs, "before", before)


@pytest.mark.long
def test_a_minute_without_etcd_leaves_one_leader_and_everything_done_once(
    operator: Operator, jobs: DLJobs, standby: str
) -> None:
    """A DLJob that was created just before has no Job yet, or has: in neither case it gets a second one."""
    jobs.create("before")
    jobs.wait_phase("before", "Running")
    before = jobs.job("before")["metadata"]
    jobs.create("caught")
    operator.cluster.kill("etcd", signal.SIGKILL)
    down = time.monotonic()
    try:
        wait_for("the leader to give up", lambda: not operator.cluster.running(CONTROLLER), timeout=60)
        wait_for("the minute to pass", lambda: time.monotonic() - down >= MINUTE, timeout=2 * MINUTE, interval=1)
        assert operator.cluster.running(standby), "a candidate goes on trying"
    finally:
        operator.cluster.restart("etcd")
    wait_for("the API server to answer", lambda: bool(jobs.get("before")), timeout=60, quiet=True)
    came_back(operator)
    wait_for("a leader", operator.leader, timeout=60, quiet=True)
    jobs.create_admitted("after")
    for name in ("caught", "after"):
        jobs.wait_phase(name, "Running", timeout=60)
    assert_untouched(jobs, "before", before)
    assert created(jobs.cluster, jobs.namespace) == ["before", "caught", "after"]
    assert "Traceback" not in operator.cluster.log(standby)
