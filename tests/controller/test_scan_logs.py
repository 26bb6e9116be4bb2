"""The scan reads logs where the policy of the namespace asks for it, and nowhere else."""

from datetime import timedelta
from typing import Any

import pytest

from stoker.adapters.kubernetes.pod_logs import PodLogs
from stoker.telemetry.series import JobFacts, JobSeries, LogMark, MarkKind
from tests.controller.test_scan import NOW, World

MARK = LogMark(time=NOW - timedelta(hours=1), pod="bert-0", kind=MarkKind.EPOCH, text="Epoch 1/90")


class Logs(PodLogs):
    """Logs in memory; it remembers whose were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def marks(self, facts: JobFacts, container: str = "trainer") -> tuple[LogMark, ...]:
        self.asked.append(facts.name)
        return (MARK,)


@pytest.fixture
def diagnosed(monkeypatch: pytest.MonkeyPatch) -> list[JobSeries]:
    """The series that were diagnosed."""
    seen: list[JobSeries] = []

    def diagnose(facts: JobFacts, series: JobSeries, *rest: Any, **options: Any) -> None:
        seen.append(series)

    monkeypatch.setattr("stoker.controller.scan.diagnose", diagnose)
    return seen


async def test_logs_are_read_only_where_the_policy_says_so(diagnosed: list[JobSeries]) -> None:
    world, logs = World(), Logs()
    world.scanner._logs = logs
    world.add("bert")
    await world.scanner.tick()
    assert (logs.asked, [series.marks for series in diagnosed]) == ([], [()])
    policy = {
        "apiVersion": "stoker.dev/v1alpha1",
        "kind": "UtilizationPolicy",
        "metadata": {"name": "default", "uid": "p", "resourceVersion": "99999"},
        "spec": {"analysis": {"readLogs": True}},
    }
    world.cache.policies.put(policy)
    await world.scanner.tick()
    assert (logs.asked, diagnosed[-1].marks) == (["bert"], (MARK,))
