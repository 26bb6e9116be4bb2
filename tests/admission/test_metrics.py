from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.adapters.http.metrics_server import MetricsServer, MetricsSettings
from stoker.admission.admission_review import AdmissionRequest, AdmissionResponse, Operation
from stoker.admission.job_review import JobReviewer
from stoker.admission.metrics import AdmissionMetrics
from stoker.admission.response_cache import ResponseCache
from stoker.admission.server import Reviewer
from stoker.cluster.view import ClusterView
from tests.adapters import misbehaving
from tests.controller.cluster import FakeApi
from tests.inline_workers import InlineWorkers

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOO_FEW = "torchrun --nproc_per_node=4 train.py\n"


class World:
    def __init__(self, pool: InlineWorkers) -> None:
        self.view = ClusterView()
        self.view.namespaces.put({"metadata": {"name": "team", "resourceVersion": "1"}})
        cache = ResponseCache()
        self.metrics = AdmissionMetrics(self.view.in_force, cache)
        self.review: Reviewer = self.metrics.counting("DLJob", JobReviewer(self.view, pool, lambda: NOW, cache))

    async def submit(self, script: str, **spec: Any) -> AdmissionResponse:
        body = {
            "apiVersion": "stoker.dev/v1alpha1",
            "kind": "DLJob",
            "metadata": {"name": "bert"},
            "spec": {"gpusPerNode": 8, "image": "registry.example.com/bert:1", "script": script, **spec},
        }
        return await self.review(request(body))

    def policy(self, version: int, **spec: Any) -> None:
        metadata = {"name": "default", "uid": "u", "generation": version, "resourceVersion": str(version)}
        self.view.policies.put({"metadata": metadata, "spec": spec})

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def request(body: dict[str, Any]) -> AdmissionRequest:
    return AdmissionRequest(
        uid="1",
        operation=Operation.CREATE,
        group="stoker.dev",
        kind="DLJob",
        resource="dljobs",
        subresource="",
        name="bert",
        namespace="team",
        new_object=body,
        old_object=None,
        dry_run=False,
    )


@pytest.fixture
def world() -> World:
    return World(InlineWorkers())


def test_what_may_be_counted_is_there_before_it_is(world: World) -> None:
    """Otherwise increase(), and with it an alert, would not see the first one."""
    assert world.value("stoker_admission_reviews_total", kind="DLJob", verdict="error") == 0
    assert world.value("stoker_admission_not_analysed_total", reason="OverBudget") == 0


async def test_reviews_are_counted_by_how_they_ended_and_timed(world: World) -> None:
    await world.submit("torchrun train.py")
    await world.submit(TOO_FEW)
    await world.submit(TOO_FEW)
    await world.submit("torchrun train.py", image="registry.example.com/bert:latest")
    await world.submit("torchrun train.py", gpusPerNode=-1)
    counted = {end: world.value("stoker_admission_reviews_total", kind="DLJob", verdict=end) for end in ENDS}
    assert counted == {"allow": 1, "deny": 3, "warn": 1}
    assert world.value("stoker_admission_review_seconds_count", kind="DLJob") == 5


ENDS = ("allow", "deny", "warn")


@pytest.mark.parametrize("action", ["Deny", "Warn", "Audit"])
async def test_findings_are_counted_by_rule_and_action_the_audited_too(action: str, world: World) -> None:
    world.policy(1, rules={"launcher-too-few": {"action": action}})
    answer = await world.submit(TOO_FEW)
    assert world.value("stoker_admission_findings_total", rule="launcher-too-few", action=action) == 1
    if action == "Audit":
        assert (answer.allowed, answer.warnings, answer.message) == (True, (), "")


async def test_what_could_not_be_analysed_is_counted_by_its_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit("f(){ f|f& };f")
    assert world.value("stoker_admission_not_analysed_total", reason="OverBudget") == 1
    monkeypatch.setattr("stoker.admission.job_review.judge", misbehaving.fails)
    answer = await world.submit("torchrun train.py")
    assert answer.allowed
    assert world.value("stoker_admission_not_analysed_total", reason="Fault") == 1


async def test_remembered_responses_are_counted_with_their_findings(world: World) -> None:
    for _ in range(3):
        await world.submit(TOO_FEW)
    assert world.value("stoker_admission_cache_lookups_total", result="hit") == 2
    assert world.value("stoker_admission_cache_lookups_total", result="miss") == 1
    assert 0 < (world.value("stoker_admission_cache_bytes") or 0) < 10_000
    assert world.value("stoker_admission_findings_total", rule="launcher-too-few", action="Deny") == 3


async def test_a_reviewer_that_fails_is_counted_and_fails(world: World) -> None:
    async def failing(_: AdmissionRequest) -> AdmissionResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await world.metrics.counting("UtilizationPolicy", failing)(request({}))
    assert world.value("stoker_admission_reviews_total", kind="UtilizationPolicy", verdict="error") == 1


async def test_policies_are_counted_as_they_come(world: World) -> None:
    world.policy(1)
    world.policy(2, thresholds={"lowPercent": 400})
    assert world.value("stoker_policy_reloads_total", result="taken") == 1
    assert world.value("stoker_policy_reloads_total", result="invalid") == 1
    assert world.value("stoker_policies_invalid") == 1
    world.policy(3)
    assert world.value("stoker_policies_invalid") == 0


@pytest.fixture
async def page(world: World) -> AsyncIterator[str]:
    await world.submit(TOO_FEW)
    settings = MetricsSettings(address="127.0.0.1", port=0, authentication=False)
    server = MetricsServer(world.metrics.page, settings, FakeApi())
    async with server, aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{server.port}/metrics") as got:
        assert got.status == 200
        yield await got.text()


async def test_the_page_is_in_prometheus_own_format(page: str) -> None:
    families = {family.name: family for family in text_string_to_metric_families(page)}
    (finding,) = (one for one in families["stoker_admission_findings"].samples if one.name.endswith("_total"))
    assert finding.labels == {"rule": "launcher-too-few", "action": "Deny"}
    assert "process_resident_memory_bytes" in families
