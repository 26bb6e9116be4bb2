"""What a screen makes of rows: the largest value counts, and a value that is none leaves a doubt."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoker.adapters.prometheus import PrometheusSource
from stoker.adapters.prometheus_connection import Connection
from stoker.adapters.prometheus_transport import Rows
from stoker.adapters.promql import ORIGIN
from stoker.models.prometheus_access import PrometheusAccess
from stoker.models.screen import GpuWindow
from stoker.models.series import GpuSignal

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UTIL, GRAPHICS, SM = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
POWER, MEMORY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"
BLANK = "9223372036854775794"


def row(origin: str, value: str, **labels: str) -> dict[str, Any]:
    identity = {"UUID": "GPU-1", "gpu": "0", "namespace": "team", "pod": "bert-0", "modelName": "NVIDIA H100", **labels}
    return {"metric": {ORIGIN: origin, **identity}, "value": [NOW.timestamp(), value]}


async def screened(
    monkeypatch: pytest.MonkeyPatch, first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> GpuWindow:
    """One GPU, by the answers to a screen's first and second query; each row has a label set of its own."""
    answers = [
        Rows([row(origin, value, gpu_id=str(number)) for number, (origin, value) in enumerate(told)], (), NOW)
        for told in ([("coverage", "60"), ("last", str(NOW.timestamp())), *first], second)
    ]

    async def instant(*_: object) -> Rows:
        return answers.pop(0)

    async def no_range(*_: object) -> Rows:
        return Rows([], (), NOW)

    monkeypatch.setattr(Connection, "instant", instant)
    monkeypatch.setattr(Connection, "range", no_range)
    async with PrometheusSource(PrometheusAccess(url="http://127.0.0.1:9")) as source:
        ((gpu,),) = (await source.screen(timedelta(hours=1), NOW)).gpus.values()
    return gpu


@pytest.mark.parametrize("values", [("0.9", "0"), ("0", "0.9")])
async def test_of_two_label_sets_of_a_device_the_larger_value_counts(
    monkeypatch: pytest.MonkeyPatch, values: tuple[str, str]
) -> None:
    gpu = await screened(monkeypatch, [(UTIL, "0")], [(SM, value) for value in values])
    assert gpu.peaks[GpuSignal.SM_ACTIVE] == pytest.approx(90)
    assert not gpu.doubtful


@pytest.mark.parametrize("none", ["NaN", BLANK])
@pytest.mark.parametrize("turned", [False, True])
async def test_a_value_that_is_none_hides_no_other_and_leaves_a_doubt(
    monkeypatch: pytest.MonkeyPatch, none: str, turned: bool
) -> None:
    first = [(UTIL, none), (UTIL, "5")]
    gpu = await screened(monkeypatch, first[::-1] if turned else first, [])
    assert gpu.peaks == {GpuSignal.UTIL: 5}
    assert gpu.doubtful
    second = [(SM, none), (SM, "0.5")]
    gpu = await screened(monkeypatch, [(UTIL, "0")], second[::-1] if turned else second)
    assert gpu.peaks == {GpuSignal.UTIL: 0, GpuSignal.SM_ACTIVE: 50}
    assert gpu.doubtful


@pytest.mark.parametrize("none", ["NaN", "+Inf", "-1", BLANK])
@pytest.mark.parametrize("metric", [UTIL, SM, POWER])
async def test_a_signal_without_a_plausible_peak_leaves_a_doubt_beside_one_that_rests(
    monkeypatch: pytest.MonkeyPatch, none: str, metric: str
) -> None:
    first, second = ([(UTIL, none)], []) if metric == UTIL else ([], [(metric, none)])
    gpu = await screened(monkeypatch, [(GRAPHICS, "0"), *first], second)
    assert gpu.peaks == {GpuSignal.GRAPHICS: 0}
    assert gpu.doubtful


async def test_samples_that_are_not_numbers_leave_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await screened(monkeypatch, [(UTIL, "0"), ("doubt", "1")], [])).doubtful


async def test_memory_shows_no_activity_and_leaves_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (await screened(monkeypatch, [(UTIL, "0")], [(MEMORY, BLANK)])).doubtful
