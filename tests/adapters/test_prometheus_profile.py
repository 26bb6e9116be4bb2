"""Names, units and PromQL text."""

import math
from datetime import timedelta

import pytest

from stoker.adapters.prometheus.metric_profile import LOOKS_TO_CHANGE, Factors, Metric, Unit, profiles
from stoker.adapters.prometheus.promql import Selectors, any_of, duration, quote, union
from stoker.telemetry.activity import ACTIVITY_SIGNALS
from stoker.telemetry.series import GpuSignal

NVIDIA = profiles()["nvidia"]
LABELS = {"UUID": "GPU-1", "gpu": "3", "namespace": "team", "pod": "bert-0", "modelName": "NVIDIA A100-SXM4-80GB"}


def metric(name: str) -> Metric:
    return next(metric for metric in NVIDIA.metrics if metric.name == name)


def test_every_signal_of_activity_has_a_metric() -> None:
    assert {metric.signal for metric in NVIDIA.metrics} >= set(ACTIVITY_SIGNALS)


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("DCGM_FI_DEV_GPU_UTIL", 37, 37),
        ("DCGM_FI_DEV_GPU_UTIL", 0.37, 37),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.37, 37),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 37, 37),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.37, 37),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 37, 37),
        ("DCGM_FI_DEV_FB_USED", 1024, 1024),
        ("DCGM_FI_DEV_FB_USED_BYTES", 1024**3, 1024),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 5, 5e6),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 0.5, 0.5),
    ],
)
def test_units_are_those_of_the_signals_told_by_value_where_platforms_rescale(
    name: str, value: float, expected: float
) -> None:
    found = metric(name)
    assert value * found.factor([0, value]) == pytest.approx(expected)


def test_one_percent_is_not_a_whole() -> None:
    """A utilization of 0 and 1 is what a percentage reads on an idle cluster."""
    assert metric("DCGM_FI_DEV_GPU_UTIL").factor([0, 1, 0]) == 1


def test_the_mean_of_whole_percents_is_not_a_ratio() -> None:
    assert metric("DCGM_FI_DEV_GPU_UTIL").factor([0, 0.5, 1], averaged=True) == 1


UTIL, GRAPHICS = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@pytest.mark.parametrize(
    "name, values", [(GRAPHICS, [0.08, 35.0]), (GRAPHICS, [0, 0.9, 1.7]), (UTIL, [0.4, 87]), (UTIL, [0, 0.4, 2])]
)
def test_values_on_both_sides_of_the_units_border_are_a_doubt(name: str, values: list[float]) -> None:
    factors, found = Factors(), metric(name)
    factors.learn(found, [0.5] if name == GRAPHICS else [50])
    unit = factors.of(found)
    factors.learn(found, values)
    assert factors.is_doubted(found)
    assert factors.of(found) == unit


@pytest.mark.parametrize("name, values", [(UTIL, [0, 1, 87]), (GRAPHICS, [0, 0.3, 1.0]), (UTIL, [0, 0.4, 1.0])])
def test_values_of_one_unit_are_no_doubt(name: str, values: list[float]) -> None:
    factors, found = Factors(), metric(name)
    factors.learn(found, values)
    assert not factors.is_doubted(found)
    assert factors.learned(found) is not None


def test_one_value_does_not_change_what_all_others_mean() -> None:
    """One exporter that writes 35 where all others write ratios: 0.08 stays 8 %, and is in doubt meanwhile."""
    factors, graphics = Factors(), metric(GRAPHICS)
    factors.learn(graphics, [0.2, 0.9])
    factors.learn(graphics, [35.0])
    assert (factors.of(graphics), factors.is_doubted(graphics)) == (100, True)
    factors.learn(graphics, [0.08])
    assert (factors.of(graphics), factors.is_doubted(graphics)) == (100, False)


def test_a_unit_that_all_values_of_many_looks_have_is_the_new_one() -> None:
    factors, graphics = Factors(), metric(GRAPHICS)
    factors.learn(graphics, [0.2, 0.9])
    for _ in range(LOOKS_TO_CHANGE - 1):
        factors.learn(graphics, [20.0, 90.0])
        assert (factors.of(graphics), factors.is_doubted(graphics)) == (100, True)
    factors.learn(graphics, [20.0, 90.0])
    assert (factors.of(graphics), factors.is_doubted(graphics)) == (1, False)


@pytest.mark.parametrize(
    "model, watts",
    [
        ("NVIDIA H100 80GB HBM3", 122),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA L40S", 102),
        ("NVIDIA H200", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA A10", None),
        ("NVIDIA L40", None),
        ("NVIDIA L4", None),
        (None, None),
    ],
)
def test_a_models_figure_is_not_another_models(model: str | None, watts: float | None) -> None:
    assert NVIDIA.resting_watts(model) == watts


def test_blanks_are_no_values() -> None:
    util = metric("DCGM_FI_DEV_GPU_UTIL")
    assert not any(map(util.plausible, (9223372036854775794, 140737488355328, math.nan, math.inf, -1)))
    assert util.factor([0.4, 9223372036854775794]) == 100


def test_an_exporters_own_pod_is_not_the_workload() -> None:
    found = NVIDIA.identity(
        LABELS | {"exported_namespace": "team", "exported_pod": "bert-1", "namespace": "gpu-operator"}
    )
    assert found is not None
    assert (found.namespace, found.pod) == ("team", "bert-1")


def test_a_device_is_its_uuid_and_slice() -> None:
    found = NVIDIA.identity(LABELS | {"GPU_I_ID": "7"})
    assert found is not None
    assert (found.gpu, found.index, found.shared) == ("GPU-1/7", "3", False)
    virtual = NVIDIA.identity(LABELS | {"vgpu": "2"})
    assert virtual is not None
    assert virtual.shared


@pytest.mark.parametrize("missing", ["UUID", "pod", "namespace"])
def test_a_sample_without_a_pod_or_a_device_is_nobodys(missing: str) -> None:
    assert NVIDIA.identity(LABELS | {missing: ""}) is None


def test_context_idle_power_is_known_by_model() -> None:
    assert NVIDIA.resting_watts("NVIDIA A100-SXM4-80GB") == 80
    assert NVIDIA.resting_watts("NVIDIA H100 80GB HBM3") == 122
    assert NVIDIA.resting_watts("Tesla V100-SXM2-32GB") is None
    assert NVIDIA.resting_watts(None) is None


def test_amd_has_its_own_names() -> None:
    amd = profiles()["amd"]
    found = amd.identity({"gpu_uuid": "u", "gpu_id": "2", "gpu_partition_id": "0", "namespace": "team", "pod": "p"})
    assert found is not None
    assert (found.gpu, found.index) == ("u/0", "2")
    assert amd.of(GpuSignal.UTIL)[0].unit is Unit.PERCENT


def test_values_can_not_leave_their_quotes() -> None:
    assert quote('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'
    assert Selectors()("up", {"pod": 'x"} or vector(1) #'}) == 'up{pod="x\\"} or vector(1) #"}'


def test_alternatives_are_literal() -> None:
    assert Selectors()("up", {"pod": any_of(["a.b", "c|d"])}) == 'up{pod=~"a\\\\.b|c\\\\|d"}'


def test_a_union_is_a_balanced_tree() -> None:
    assert union(["a"]) == "a"
    assert union("abcde") == "(((a or b) or (c or d)) or e)"


def test_durations_are_exact() -> None:
    assert duration(timedelta(minutes=1)) == "60s"
    assert duration(timedelta(seconds=1.5)) == "1500ms"
