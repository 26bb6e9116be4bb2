"""Only one controller acts, and the next one takes over."""

import signal

from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, LEASE, Operator
from e2e.scenarios.lifecycle.workload import DLJobs


def test_a_controller_that_is_asked_to_stop_gives_its_lease_back(operator: Operator, jobs: DLJobs) -> None:
    before = wait_for("a leader", operator.leader, quiet=True)
    operator.cluster.kill(CONTROLLER, signal.SIGTERM)
    assert operator.leader() == ""
    operator.cluster.restart(CONTROLLER)
    after = wait_for("the next leader", operator.leader, timeout=5)
    assert after != before
    jobs.create("served")
    jobs.wait_phase("served", "Running")
    assert "Traceback" not in operator.cluster.log(CONTROLLER)


def test_a_leader_whose_lease_is_taken_away_exits_at_once(operator: Operator, jobs: DLJobs) -> None:
    wait_for("a leader", operator.leader, quiet=True)

    def taken() -> bool:
        """The leader renews every two seconds: a write may come too late."""
        fresh = operator.cluster.api("GET", LEASE)
        fresh["spec"]["holderIdentity"] = "somebody-else"
        operator.cluster.api("PUT", LEASE, fresh)
        return True

    wait_for("the lease to be taken", taken, quiet=True)
    wait_for("the old leader to exit", lambda: not operator.cluster.running(CONTROLLER), timeout=10)
    operator.release_lease()
    operator.cluster.restart(CONTROLLER)
    jobs.create("served")
    jobs.wait_phase("served", "Running")
