"""docs/status.md names every condition, reason and metric that there is."""

import re
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request
from prometheus_client.parser import text_string_to_metric_families

from stoker.api.dljob import DLJobStatus, UtilizationStatus
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.metrics import ControllerMetrics
from stoker.controller.scan_results import ScanResults
from stoker.findings.vocabulary import ConditionType, Phase, UnknownReason
from stoker.reclaim import NoticeReason
from tests.controller.cluster import HeldClock
from tests.controller.test_metrics import NOW

PAGE = (Path(__file__).parents[2] / "docs" / "status.md").read_text()
SELF_EXPLAINED = {"conditions", "observedGeneration", "observedSuspend", "jobUID", "utilization"}


@pytest.mark.parametrize("word", [*ConditionType, *UnknownReason, *NoticeReason, *Phase])
def test_every_condition_reason_and_phase_is_explained(word: str) -> None:
    assert re.search(rf"\b{word}\b", PAGE)


def test_every_field_is_explained() -> None:
    fields = [*DLJobStatus.model_fields.values(), *UtilizationStatus.model_fields.values()]
    names = {str(field.alias) for field in fields} - SELF_EXPLAINED
    assert {name for name in names if not re.search(rf"`(utilization\.)?{name}`", PAGE)} == set()


async def test_the_metrics_of_the_page_are_those_of_the_table() -> None:
    metrics = ControllerMetrics()
    metrics.lead(ClusterCache(Faults()), ScanResults(), lambda: 0, HeldClock(NOW), Faults())
    response = await metrics.page(make_mocked_request("GET", "/metrics"))
    assert isinstance(response.body, bytes)
    families = text_string_to_metric_families(response.body.decode())
    there = {family.name for family in families if family.name.startswith("stoker_")}
    there = {name for name in there if not name.endswith("_created")}
    rows = re.findall(r"^\| `(stoker_\w+)` \|", PAGE, re.MULTILINE)
    assert {name.removesuffix("_total") for name in rows} == there
