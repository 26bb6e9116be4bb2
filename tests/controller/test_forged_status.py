"""Whatever somebody else writes into a DLJob's status, the controller's next pass states what it sees itself."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp.test_utils import make_mocked_request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stoker.adapters.kubernetes.client import JOBS
from stoker.api.dljob import DLJobStatus
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import Transient
from stoker.controller.gpu_time import LONGEST_HOLD, GpuTime, gpus_of
from stoker.controller.metrics import ControllerMetrics
from stoker.controller.scan_results import ScanResults
from tests.controller.cluster import HeldClock
from tests.controller.passes import NOW, World
from tests.workload.building import JOB_UID, dljob_object, pod

CRD = yaml.safe_load((Path(__file__).parents[2] / "crds" / "dljobs.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
TEXTS = st.sampled_from(
    ["", "x", "nan", "inf", "-inf", "1e308", "-5", "64.0", "a" * 5000, '"} 1\nstoker_up 0', "\x1b[2J", JOB_UID]
)
TIMES = st.sampled_from(["0001-01-01T00:00:00Z", "2026-11-21T05:00:00Z", "9999-12-31T23:59:59Z"])


def values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """What the API server takes for a schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object":
            fields = {name: values(child) for name, child in schema["properties"].items()}
            required = {name: fields.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(required, optional=fields)
        case "array":
            return st.lists(values(schema["items"]), max_size=min(2, schema.get("maxItems", 2)))
        case "integer":
            return st.sampled_from([0, 1, 100, 2**31 - 1]) | st.just(schema.get("minimum", -(2**31)))
        case "boolean":
            return st.booleans()
        case _:
            return TIMES if schema.get("format") == "date-time" else TEXTS


FORGED = values(SCHEMA)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(forged=FORGED)
async def test_the_next_passes_state_what_is_so(forged: dict[str, Any]) -> None:
    """The Job runs and its pod is ready. The next test forges the record of reclaim, the controller's memory."""
    world = World(status={**forged, "jobUID": JOB_UID, "reclaim": {}})
    world.put_job()
    world.put_pods(pod())
    for _ in range(3):
        await world.reconcile()
    status = world.status
    said = (status["phase"], status["gpus"], status["jobUID"], status["ready"], status.get("completionTime"))
    assert said == ("Running", 8, JOB_UID, "1/1", None)
    DLJobStatus.model_validate(status)
    assert "\x1b" not in str(status)
    assert not {one["type"] for one in status["conditions"] if one["status"] == "True"} & {"Complete", "Failed"}


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(forged=FORGED)
async def test_no_record_of_reclaim_suspends_a_job_or_ends_the_controllers_pass(forged: dict[str, Any]) -> None:
    """Nothing is known of the GPUs, so whatever the record says of a warning, nothing is taken."""
    world = World(status={**forged, "jobUID": JOB_UID})
    world.put_job()
    world.put_pods(pod())
    for _ in range(3):
        try:
            await world.reconcile()
        except Transient:
            continue
    assert not world.api.objects[JOBS, "team", "bert"]["spec"].get("suspend")
    assert not [one for one in world.writes if one.startswith("delete")]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(forged=FORGED)
async def test_the_metrics_stay_numbers(forged: dict[str, Any]) -> None:
    cache, metrics = ClusterCache(Faults()), ControllerMetrics()
    metrics.lead(cache, ScanResults(), lambda: 0, HeldClock(NOW), Faults())
    raw = dljob_object()
    cache.dljobs.put(raw)
    version = str(int(raw["metadata"]["resourceVersion"]) + 1)
    cache.dljobs.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": version}, "status": forged})
    response = await metrics.page(make_mocked_request("GET", "/metrics"))
    assert isinstance(response.body, bytes)
    text = response.body.decode()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    hours = [sample.value for sample in found if "gpu_hours" in sample.name]
    most = gpus_of(raw) * LONGEST_HOLD
    assert len(hours) > 3
    assert [one for one in hours if not 0 <= one <= most] == []
    assert "stoker_up" not in {sample.name for sample in found}
    assert max(len(text) for sample in found for text in sample.labels.values()) <= 253


@pytest.mark.parametrize("written", ["inf", "1e308", "nan", "x", "-5"])
def test_one_figure_leaves_the_sums_of_its_namespace_finite(written: str) -> None:
    cache = ClusterCache(Faults())
    time = GpuTime(cache.dljobs, cache.namespaces)
    raw = dljob_object()
    for version, hours in enumerate(["0.0", "4.0", written, "8.0"], start=10):
        status = {"utilization": {"gpuHours": hours}}
        metadata = {**raw["metadata"], "resourceVersion": str(version)}
        cache.dljobs.put({**raw, "metadata": metadata, "status": status})
    counted = [hours for _, _, hours in time]
    assert all(map(math.isfinite, counted))
    assert sum(counted) >= 8
