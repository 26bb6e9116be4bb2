"""GPU-hours by namespace: nothing twice, nothing lost, and no counter that falls."""

from typing import Any

import pytest

from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.gpu_time import SHARES, UNEXPLAINED, GpuState, GpuTime, split_hours, written_hours

SPEC = {"gpusPerNode": 8}
USED, IDLE, UNKNOWN = GpuState.USED, GpuState.IDLE, GpuState.UNKNOWN


def status(held: float, idle: float | None = None, coverage: int = 100, **claims: float) -> dict[str, Any]:
    """`claims`: idle hours by category."""
    utilization: dict[str, Any] = {"gpuHours": str(held), "coveragePercent": coverage}
    if idle is not None:
        utilization["gpuHoursIdle"] = str(idle)
    findings = [
        {"category": category, "rule": category, "gpuHoursIdle": str(hours)} for category, hours in claims.items()
    ]
    return {"utilization": utilization, "findings": findings}


class Cluster:
    def __init__(self) -> None:
        self.cache = ClusterCache(Faults())
        self._version = 0

    def put(self, name: str, status: dict[str, Any] | None = None, uid: str = "") -> None:
        self._version += 1
        metadata = {"namespace": "team", "name": name, "uid": uid or name, "resourceVersion": str(self._version)}
        self.cache.dljobs.put({"metadata": metadata, "spec": SPEC, "status": status or {}})

    def remove(self, name: str) -> None:
        self._version += 1
        metadata = {"namespace": "team", "name": name, "resourceVersion": str(self._version)}
        self.cache.dljobs.remove({"metadata": metadata})

    def start(self) -> GpuTime:
        return GpuTime(self.cache.dljobs, self.cache.namespaces)


def counted(time: GpuTime) -> dict[tuple[str, str], float]:
    """What is not 0 in the namespace."""
    return {(state.value, category): hours for _, (state, category), hours in time if hours}


@pytest.mark.parametrize(
    "held, idle, coverage, expected",
    [
        (10.0, 4.0, 100.0, {USED: 6.0, IDLE: 4.0, UNKNOWN: 0.0}),
        (10.0, 4.0, 80.0, {USED: 4.0, IDLE: 4.0, UNKNOWN: 2.0}),
        (10.0, None, 0.0, {UNKNOWN: 10.0}),
        # Rounded figures may contradict one another.
        (10.0, 10.1, 99.0, {USED: 0.0, IDLE: 10.0, UNKNOWN: 0.0}),
    ],
)
def test_hours_are_used_idle_or_unknown(
    held: float, idle: float | None, coverage: float, expected: dict[GpuState, float]
) -> None:
    assert split_hours(held, idle, coverage) == pytest.approx(expected)


def test_idle_hours_are_their_causes_and_what_no_finding_claims() -> None:
    shares = written_hours({"spec": SPEC, "status": status(10, 4, ImproperBatchSize=1, UnreleasedJob=2)})
    assert shares[IDLE, "ImproperBatchSize"] == 1
    assert shares[IDLE, "UnreleasedJob"] == 2
    assert shares[IDLE, UNEXPLAINED] == 1
    assert sum(shares.values()) == 10


def test_findings_never_claim_more_than_was_idle() -> None:
    shares = written_hours({"spec": SPEC, "status": status(10, 4, ImproperBatchSize=4, UnreleasedJob=4)})
    assert sum(hours for (state, _), hours in shares.items() if state is IDLE) == pytest.approx(4)


def test_what_a_status_adds_is_counted_and_a_deleted_job_stays_counted() -> None:
    cluster = Cluster()
    time = cluster.start()
    cluster.put("bert")
    cluster.put("bert", status(8, 2))
    cluster.put("gpt", status(0))
    cluster.put("gpt", status(4, 1))
    cluster.remove("bert")
    assert counted(time) == {("used", ""): 9, ("idle", UNEXPLAINED): 3}


def test_after_a_restart_only_what_is_new_counts() -> None:
    cluster = Cluster()
    cluster.put("bert", status(8, 2))
    time = cluster.start()
    assert counted(time) == {}
    cluster.put("bert", status(10, 3))
    assert counted(time) == {("used", ""): 1, ("idle", UNEXPLAINED): 1}


def test_no_counter_falls_when_hours_turn_out_to_have_another_cause() -> None:
    cluster = Cluster()
    time = cluster.start()
    cluster.put("bert")
    cluster.put("bert", status(8, 4, ImproperBatchSize=4))
    cluster.put("bert", status(8, 4, UnreleasedJob=4))
    assert counted(time)["idle", "ImproperBatchSize"] == 4
    cluster.put("other")
    cluster.put("other", status(8, 4, ImproperBatchSize=3))
    assert counted(time)["idle", "ImproperBatchSize"] == 4, "its own sum has not come up to it yet"


def test_a_job_made_anew_under_its_name_is_another_job() -> None:
    cluster = Cluster()
    time = cluster.start()
    cluster.put("bert", uid="one")
    cluster.put("bert", status(8, 2), uid="one")
    cluster.put("bert", uid="two")
    cluster.put("bert", status(1, 1), uid="two")
    assert counted(time) == {("used", ""): 6, ("idle", UNEXPLAINED): 3}


def test_a_namespace_starts_with_every_share_at_0_and_goes_with_its_counters() -> None:
    cluster = Cluster()
    time = cluster.start()
    cluster.put("bert")
    assert {share for _, share, _ in time} == set(SHARES)
    cluster.cache.namespaces.put({"metadata": {"name": "team", "resourceVersion": "1"}})
    cluster.cache.namespaces.remove({"metadata": {"name": "team", "resourceVersion": "2"}})
    assert list(time) == []
