"""A controller whose clock is wrong knows that it does not know, and does nothing."""

import signal
from collections.abc import Iterator

import pytest

from e2e.clock import off_by
from e2e.conftest import StartCluster
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import Idling


@pytest.fixture(scope="module")
def punctual(start_cluster: StartCluster) -> Iterator[Operator]:
    """A cluster of its own, whose controller each test starts."""
    cluster = start_cluster("clocks")
    cluster.add_nodes(2)
    cluster.start_prometheus()
    operator = Operator(cluster)
    operator.install()
    operator.start_admission()
    yield operator
    cluster.stop()


@pytest.mark.parametrize("minutes, side", [(5, "behind"), (-5, "ahead of")])
def test_a_clock_that_is_five_minutes_off_makes_utilization_unknown(
    punctual: Operator, minutes: int, side: str
) -> None:
    cluster = punctual.cluster
    punctual.start_controller(scan_interval="1s", minimum_warning_grace="10s", environment=off_by(minutes))
    try:
        jobs = Idling(punctual, cluster, cluster.create_namespace("clocks"))
        jobs.start("job")
        jobs.policy()
        jobs.remember()
        jobs.wait_condition("job", "Idle", "Unknown", "Stale", timeout=60)
        message = jobs.condition("job", "Idle")["message"]
        assert "Prometheus' clock" in message
        assert f"s {side} ours" in message
        # What is read up to five minutes ago is right as far as it goes: 63 % over its life.
        assert jobs.condition("job", "LowUtilization")["status"] != "True"
        jobs.settled("job")
        assert "warnedAt" not in jobs.record("job")
        assert not jobs.is_suspended("job")
    finally:
        cluster.kill(CONTROLLER, signal.SIGTERM)
