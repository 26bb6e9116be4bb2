"""The controller's metrics page: one set of series for each DLJob, gone with it, and the controller's own work."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client.parser import text_string_to_metric_families

from stoker.adapters.kubernetes.client import DLJOBS, ConflictError
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.job_metrics import IDENTITY, JOB_METRICS
from stoker.controller.metrics import ControllerMetrics
from stoker.controller.scan_results import ScanResult, ScanResults
from stoker.findings.diagnosis import Diagnosis, Idleness, IdlenessState, StageSpan, Utilization
from stoker.findings.vocabulary import Stage
from tests.controller.cluster import HeldClock, failing
from tests.controller.passes import World
from tests.workload import building
from tests.workload.building import JOB_UID, UID, dljob_object

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
STATUS: dict[str, Any] = {
    "phase": "Running",
    "ready": "2/2",
    "readyPods": 2,
    "utilization": {"gpuHours": "64.0", "gpuHoursIdle": "44.0", "coveragePercent": 100},
    "findings": [
        {"rule": "small-batch", "category": "ImproperBatchSize", "gpuHoursIdle": "38.1"},
        {"rule": "trailing-sleep", "category": "UnreleasedJob"},
    ],
    "conditions": [
        {"type": "Idle", "status": "False", "reason": "Active"},
        {"type": "PodsReady", "status": "True", "reason": "PodsReady"},
    ],
    "reclaim": {"state": "Active"},
}
WHO = {"uid": UID, "namespace": "team", "name": "bert"}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Page:
    """A controller's page over one store."""

    def __init__(self, status: dict[str, Any] | None = None, *, leads: bool = True, **spec: Any) -> None:
        self.cache, self.scan_results, self.metrics = ClusterCache(Faults()), ScanResults(), ControllerMetrics()
        labels = {"stoker.dev/owner": "ada", "stoker.dev/team": "nlp"}
        self.raw = dljob_object(status=status or STATUS, labels=labels, **spec)
        self.cache.dljobs.put(self.raw)
        if leads:
            self.metrics.lead(self.cache, self.scan_results, lambda: 3, HeldClock(NOW), Faults())

    async def read(self) -> Series:
        response = await self.metrics.page(make_mocked_request("GET", "/metrics"))
        assert isinstance(response.body, bytes)
        text = response.body.decode()
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}

    async def value(self, metric: str, /, **labels: str) -> float | None:
        return (await self.read()).get((metric, frozenset(labels.items())))


async def test_a_job_is_told_with_who_it_is_and_how_it_stands() -> None:
    page = Page(nodes=2, gpuProduct="NVIDIA-H100", podTemplate={"spec": {"priorityClassName": "low"}})
    info = {
        "job_type": "Training",
        "owner": "ada",
        "team": "nlp",
        "gpus": "16",
        "product": "NVIDIA-H100",
        "priority": "low",
    }
    assert await page.value("stoker_dljob_info", **WHO, **info) == 1
    assert await page.value("stoker_dljob_phase", **WHO, phase="Running") == 1
    assert await page.value("stoker_dljob_ready", **WHO) == 2
    assert await page.value("stoker_dljob_gpu_hours", **WHO, state="used") == 20
    assert await page.value("stoker_dljob_gpu_hours", **WHO, state="idle") == 44
    claim = {"category": "ImproperBatchSize", "rule": "small-batch"}
    assert await page.value("stoker_dljob_finding_idle_gpu_hours", **WHO, **claim) == 38.1
    idle = {"condition": "Idle", "status": "False", "reason": "Active"}
    assert await page.value("stoker_dljob_condition", **WHO, **idle) == 1
    assert await page.value("stoker_dljobs", phase="Running") == 1
    assert await page.value("stoker_dljobs_reclaim", state="Active") == 1
    assert await page.value("stoker_queue_length") == 3


async def test_a_job_has_one_set_of_series_and_no_more() -> None:
    page = Page()
    own = [name for name, labels in await page.read() if ("uid", UID) in labels]
    assert sorted(own) == sorted(
        [
            "stoker_dljob_info",
            "stoker_dljob_phase",
            "stoker_dljob_ready",
            "stoker_dljob_gpus_held",
            *["stoker_dljob_gpu_hours"] * 3,
            "stoker_dljob_finding_idle_gpu_hours",
            "stoker_dljob_condition",
        ]
    )


async def test_a_jobs_series_have_the_labels_that_the_reference_names() -> None:
    for name, labels in await Page().read():
        if ("uid", UID) in labels:
            metric = JOB_METRICS[name.removeprefix("stoker_dljob_")]
            assert {label for label, _ in labels} == {*IDENTITY, *metric.labels}


async def test_what_may_be_counted_is_there_before_it_is() -> None:
    """Otherwise increase(), and with it an alert, would not see the first one."""
    page = Page(leads=False)
    assert await page.value("stoker_object_faults_total", place="reconcile") == 0
    assert await page.value("stoker_status_writes_total", result="failed") == 0
    assert await page.value("stoker_notifications_total", event="Warned", result="failed") == 0


async def test_pods_hold_gpus_from_their_node_on_and_until_they_end() -> None:
    page = Page({**STATUS, "jobUID": JOB_UID}, nodes=2)
    held: list[float | None] = []

    async def update_pods(version: int, *pods: dict[str, Any]) -> None:
        for pod in pods:
            pod["metadata"]["resourceVersion"] = str(version)
            page.cache.pods.put(pod)
        held.append(await page.value("stoker_dljob_gpus_held", **WHO))

    await update_pods(1)
    await update_pods(2, building.pod(0, node=None), building.pod(1, node=None))
    await update_pods(3, building.pod(0, ready=False))
    await update_pods(4, building.pod(1, terminating=True))
    await update_pods(5, building.pod(0, phase="Succeeded"))
    assert held == [0, 0, 8, 16, 8]


async def test_the_gpus_model_is_the_one_that_the_pods_chose() -> None:
    page = Page({**STATUS, "jobUID": JOB_UID})
    pod = building.pod()
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    page.cache.pods.put(pod)
    (info,) = (dict(labels) for name, labels in await page.read() if name == "stoker_dljob_info")
    assert info["product"] == "NVIDIA-H100-80GB-HBM3"


async def test_the_series_go_with_the_job() -> None:
    page = Page()
    page.cache.dljobs.remove({**page.raw, "metadata": {**page.raw["metadata"], "resourceVersion": "99"}})
    assert not [name for name, labels in await page.read() if ("uid", UID) in labels]


async def test_a_job_that_is_over_is_told_for_a_day() -> None:
    over = {**STATUS, "phase": "Succeeded"}
    lately = Page({**over, "completionTime": "2026-11-20T12:00:01Z"})
    assert await lately.value("stoker_dljob_phase", **WHO, phase="Succeeded") == 1
    long_ago = Page({**over, "completionTime": "2026-11-20T12:00:00Z"})
    assert await long_ago.value("stoker_dljob_phase", **WHO, phase="Succeeded") is None
    assert await long_ago.value("stoker_dljobs", phase="Succeeded") == 1


async def test_hours_are_those_of_the_last_examination_though_the_status_has_older_ones() -> None:
    page = Page()
    start = NOW - timedelta(hours=8)
    stages = (
        StageSpan(stage=Stage.INITIALIZATION, start=start, end=start + timedelta(hours=2), average_percent=0.0),
        StageSpan(stage=Stage.ACTIVE, start=start + timedelta(hours=2), end=None, average_percent=40.0),
    )
    used = Utilization(
        average_percent=30.0,
        coverage_percent=100.0,
        gpu_hours=64.0,
        gpu_hours_idle=45.0,
        as_of=NOW,
        stages=stages,
    )
    idle = Idleness(state=IdlenessState.ACTIVE, observed_at=NOW)
    page.scan_results.put(UID, ScanResult(idleness=idle, diagnosis=Diagnosis(utilization=used)))
    assert await page.value("stoker_dljob_gpu_hours", **WHO, state="idle") == 45
    assert await page.value("stoker_dljob_stage_idle_gpu_hours", **WHO, stage="Initialization") == 16
    assert await page.value("stoker_dljob_stage_idle_gpu_hours", **WHO, stage="Active") == pytest.approx(6 * 8 * 0.6)


async def test_a_job_that_nothing_is_known_of_has_no_hours_instead_of_0() -> None:
    page = Page({"phase": "Pending"})
    assert not [name for name, _ in await page.read() if name == "stoker_dljob_gpu_hours"]


async def test_only_the_leader_tells_of_jobs() -> None:
    page = Page(leads=False)
    read = await page.read()
    assert read["stoker_controller_leading", frozenset()] == 0
    assert not [name for name, _ in read if name.startswith("stoker_dljob")]


async def test_label_values_of_users_cannot_break_the_page() -> None:
    product = 'a"b\\c\nd'
    page = Page()
    page.raw["spec"]["gpuProduct"] = product
    found = [dict(labels) for name, labels in await page.read() if name == "stoker_dljob_info"]
    assert [labels["product"] for labels in found] == [product]


async def test_the_controllers_work_is_counted() -> None:
    page = Page()
    page.metrics.ticked(0.3, failed=False)
    page.metrics.examined("unavailable")
    page.metrics.noticed("Reclaimed", "research")
    page.metrics.freed(8, "research")
    page.metrics.queried("screen", 0.2, None)
    page.metrics.queried("screen", 6.0, "PrometheusUnavailable")
    assert await page.value("stoker_scan_ticks_total", result="done") == 1
    assert await page.value("stoker_scan_tick_seconds_sum") == 0.3
    assert await page.value("stoker_examinations_total", result="unavailable") == 1
    assert await page.value("stoker_reclaim_events_total", event="Reclaimed", policy="research") == 1
    assert await page.value("stoker_reclaimed_gpus_total", policy="research") == 8
    assert await page.value("stoker_prometheus_query_seconds_count", kind="screen") == 2
    failure = {"kind": "screen", "reason": "PrometheusUnavailable"}
    assert await page.value("stoker_prometheus_query_failures_total", **failure) == 1


async def test_writes_of_a_status_are_counted_by_how_they_ended() -> None:
    page = Page()
    world = World(recorder=page.metrics)
    await world.reconcile()
    assert await page.value("stoker_status_writes_total", result="done") == 1
    world.api.before = failing(ConflictError("put", code=409, reason="Conflict"))
    with pytest.raises(ConflictError):
        await world.controller.status_writer.write(world.api.objects[DLJOBS, "team", "bert"], {"phase": "Running"})
    assert await page.value("stoker_status_writes_total", result="conflict") == 1


async def test_a_policy_whose_brake_is_on_is_told() -> None:
    page = Page()
    for name, status in (("default", {}), ("research", {"brake": {"since": "2026-11-21T11:00:00Z", "message": "so"}})):
        page.cache.policies.put({"metadata": {"name": name, "resourceVersion": "1"}, "status": status})
    assert await page.value("stoker_reclaim_stopped", policy="default") == 0
    assert await page.value("stoker_reclaim_stopped", policy="research") == 1


HOSTILE = (
    "x" * 1_000_000,
    'a"} 1\nstoker_controller_leading 7 #',
    "a\\",
    "UPPER",
    "a\r\nb",
    "\ud800",
    {"a": 1},
    7,
)


@pytest.mark.parametrize("priority", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_priority_class_that_is_none_neither_grows_nor_forges_the_page(priority: object) -> None:
    page = Page(podTemplate={"spec": {"priorityClassName": priority}})
    response = await page.metrics.page(make_mocked_request("GET", "/metrics"))
    assert isinstance(response.body, bytes)
    assert len(response.body) < 50_000
    [info] = [labels for name, labels in await page.read() if name == "stoker_dljob_info"]
    assert dict(info)["priority"] == ""
    assert await page.value("stoker_controller_leading") == 1


@pytest.mark.parametrize("value", ["x" * 1_000_000, 'a"} 1\nstoker_controller_leading 7 #', "a\\", "a\r\nb", "\ud800"])
async def test_whatever_a_label_holds_the_page_stays_short_and_readable(value: str) -> None:
    status = {**STATUS, "phase": value, "conditions": [{"type": "Idle", "status": value, "reason": value}]}
    page = Page(status, gpuProduct=value, jobType=value)
    page.raw["metadata"]["labels"] = {"stoker.dev/owner": value, "stoker.dev/team": value}
    series = await page.read()
    assert all(len(text) <= 253 for _, labels in series for _, text in labels)
    assert await page.value("stoker_controller_leading") == 1
    assert [name for name, labels in series if name == "stoker_dljob_info"]


async def test_a_policys_counters_are_there_before_its_first_reclaim() -> None:
    page = Page()
    page.cache.policies.put({"metadata": {"name": "research", "resourceVersion": "1"}})
    assert await page.value("stoker_reclaimed_gpus_total", policy="research") == 0
    assert await page.value("stoker_reclaim_events_total", event="Reclaimed", policy="research") == 0
    page.metrics.freed(8, "research")
    assert await page.value("stoker_reclaimed_gpus_total", policy="research") == 8
