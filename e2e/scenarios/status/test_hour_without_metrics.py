"""An hour without Prometheus: as many scans as an hour has, and a clock that passes every deadline meanwhile."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from e2e.clock import SteppedClock, require_libfaketime
from e2e.cluster.waiting import wait_for
from e2e.operator import CONTROLLER, Operator
from e2e.scenarios.reclaim.idling import IDLE, RESTS, TRAINS, Idling
from e2e.scenarios.status.conftest import empty

pytestmark = pytest.mark.long

HOUR = 3600
SCANS = 120
"""Scans of an hour at the default interval of 30 seconds."""
WARM = 20
"""Scans after which memory is measured first."""
GROWTH = 8 * 2**20
"""Bytes that memory may grow by in the other hundred scans: 80 kB a scan would be 200 MB a day."""
SOON = ({**TRAINS, "for": "95m"}, RESTS)
"""Idle for 25 of the 30 minutes after which a job is warned."""


@pytest.fixture
def clock(operator: Operator) -> Iterator[SteppedClock]:
    """The clock of a controller that sees Prometheus through the proxy; afterwards both are as before."""
    require_libfaketime()
    clock = SteppedClock(operator.cluster.folder / "clock")
    proxy = operator.cluster.start_prometheus_proxy()
    operator.crash(scan_interval="1s", prometheus_url=proxy, environment=clock.environment())
    yield clock
    operator.cluster.set_prometheus_fault("none")
    empty(operator.cluster)
    operator.crash(scan_interval="1s")


def scans(operator: Operator) -> float:
    return operator.metric("stoker_scan_ticks_total", process=CONTROLLER, result="done")


def memory(operator: Operator) -> float:
    return operator.metric("process_resident_memory_bytes", process=CONTROLLER)


def test_in_an_hour_without_prometheus_nothing_is_warned_or_reclaimed_and_memory_stays(
    operator: Operator, clock: SteppedClock
) -> None:
    jobs = Idling(operator, operator.cluster, operator.cluster.create_namespace("hour"))
    for name, phases in (("warned", IDLE), ("soon", SOON)):
        jobs.begin(name, phases)
        jobs.wait_phase(name, "Running", timeout=60)
    jobs.remember()
    jobs.policy(warningGrace="5m")
    jobs.wait_warned("warned")
    deadline = jobs.deadline("warned")
    assert not jobs.events("soon", "ReclaimWarning")

    operator.cluster.set_prometheus_fault("reset")
    for name in ("warned", "soon"):
        jobs.wait_condition(name, "Idle", "Unknown", "PrometheusUnavailable", timeout=60)
    began = scans(operator)
    clock.step(HOUR)
    wait_for(f"{WARM} scans", lambda: scans(operator) >= began + WARM, timeout=120)
    before = memory(operator)
    wait_for(f"{SCANS} scans", lambda: scans(operator) >= began + SCANS, timeout=600, interval=1)
    assert memory(operator) - before <= GROWTH
    assert datetime.now(UTC) + timedelta(seconds=HOUR) > deadline, "by the controller's clock it is over"
    for name in ("warned", "soon"):
        assert jobs.condition(name, "Idle")["reason"] == "PrometheusUnavailable"
        assert not jobs.is_suspended(name)
    assert not jobs.events("soon", "ReclaimWarning")
    assert "Traceback" not in operator.cluster.log(CONTROLLER)

    clock.step(0)
    operator.cluster.set_prometheus_fault("none")

    def seen() -> bool:
        return all(jobs.condition(name, "Idle")["status"] != "Unknown" for name in ("warned", "soon"))

    wait_for("both to be seen", seen)
    assert not jobs.is_suspended("warned")
    assert not jobs.is_suspended("soon")
