"""Life utilization by the study's definition, its coverage, stages and words."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.api.status import UtilizationStatus
from stoker.diagnosis.job import diagnose
from stoker.diagnosis.words import stage_lines, to_status, whole_percent
from stoker.findings.diagnosis import Diagnosis, StageSpan, Utilization
from stoker.findings.vocabulary import Category, Stage, UnknownReason
from stoker.telemetry.series import GpuSignal
from tests.diagnosis.recording import START, Thresholds, from_dict


def examine(raw: dict[str, Any], steps: int | None = None) -> Diagnosis:
    recording = from_dict(raw)
    facts, series, now = recording.at(recording.length if steps is None else steps)
    return diagnose(facts, series, (), Thresholds(), now)


def utilization(raw: dict[str, Any]) -> Utilization:
    found = examine(raw).utilization
    assert found is not None
    return found


def test_utilization_is_the_mean_over_time_and_all_gpus() -> None:
    used = utilization(
        {"job": {"gpusPerNode": 2}, "gpus": [{"of": "0", "util": "80x30 0x10"}, {"of": "1", "util": "40x40"}]}
    )
    assert used.average_percent == pytest.approx((60 + 40) / 2)
    assert used.coverage_percent == 100
    assert used.gpu_hours == pytest.approx(2 * 20 / 60)
    assert used.gpu_hours_idle == pytest.approx(used.gpu_hours * 0.5)


def test_a_gpu_without_samples_is_unknown_and_not_zero() -> None:
    """Half of the GPUs unseen: U lies anywhere between half of what is known and half more."""
    found = examine({"job": {"gpusPerNode": 2}, "gpus": [{"of": "0", "util": "60x40"}]})
    assert found.unknown is UnknownReason.NO_SAMPLES
    used = found.utilization
    assert used is not None
    assert used.average_percent is None
    assert used.average_percent_range == pytest.approx((30, 80))
    assert used.coverage_percent == 50


def test_coverage_at_the_bound_gives_a_number() -> None:
    assert utilization({"gpus": [{"util": "60x36 _x4"}]}).average_percent == pytest.approx(60)
    assert utilization({"gpus": [{"util": "60x35 _x5"}]}).average_percent is None


def test_the_graphics_engines_mean_is_preferred() -> None:
    used = utilization({"gpus": [{"util": "99x40", "graphics": "62x40"}]})
    assert used.average_percent == pytest.approx(62)


def test_a_stuck_graphics_engine_is_not_believed() -> None:
    used = utilization({"gpus": [{"util": "99x40", "graphics": "0x40", "dram": "0x40"}]})
    assert used.average_percent == pytest.approx(99)


def test_two_contradictions_in_a_row_are_chance() -> None:
    """A kernel that ended between the two readings."""
    used = utilization({"gpus": [{"util": "99x2 0x38", "graphics": "0x40"}]})
    assert used.average_percent == 0


def test_utilization_that_aliases_is_an_interval() -> None:
    """Sampled each 30 s, a loop of 3 s of work and 2 s of waiting reads 0 or 100 by chance."""
    used = utilization({"gpus": [{"util": "(100x1 0x1 100x2 0x2 100x1 0x3)x8"}]})
    assert used.average_percent is None
    assert used.average_percent_range == pytest.approx((0, 100))


def test_many_samples_without_a_rhythm_leave_no_doubt_that_a_job_is_low() -> None:
    """480 looks at a loop of 0 and 95: the mean of 29 % is off by its sampling error."""
    looks = np.where(np.random.default_rng(3).uniform(size=480) < 0.305, 95, 0)
    used = utilization({"gpus": [{"util": " ".join(f"{value}x1" for value in looks)}]})
    assert used.average_percent is None
    assert used.average_percent_range is not None
    low, high = used.average_percent_range
    assert low < looks.mean() < high
    assert high < 40
    assert used.is_low(50)


def test_samples_locked_to_a_loop_tell_only_their_extremes() -> None:
    """A loop of a minute, looked at each 30 s: always the same two moments of it are seen, however often."""
    used = utilization({"gpus": [{"util": "(95x1 0x1)x240"}]})
    assert used.average_percent_range == pytest.approx((0, 95))
    assert used.is_low(50) is None


def test_looks_at_long_phases_count_as_few() -> None:
    """Neighbouring samples that are alike tell less: phases of some minutes are only seen so often."""
    rng = np.random.default_rng(5)
    phases = [(int(rng.integers(1, 8)), 95 * (k % 2)) for k in range(60)]
    alike = utilization({"gpus": [{"util": " ".join(f"{level}x{length}" for length, level in phases)}]})
    assert alike.average_percent_range is not None
    low, high = alike.average_percent_range
    assert high - low > 2 * 3 * 47 / sum(length for length, _ in phases) ** 0.5


def test_no_sample_at_all_is_unknown_with_full_range() -> None:
    found = examine({"gpus": [{"util": "_x40"}]})
    assert found.unknown is UnknownReason.NO_SAMPLES
    assert found.utilization is not None
    assert found.utilization.average_percent is None
    assert found.utilization.gpu_hours_idle is None
    assert found.utilization.stages == ()
    assert found.utilization.average_percent_range == (0, 100)


def test_an_old_gap_leaves_the_present_known() -> None:
    """A fifth of the life unseen: U is an interval, and what the tail shows stands."""
    found = examine({"gpus": [{"util": "90x20 _x40 90x60 0x80"}], "pods": [{"cpu": "0x200"}]})
    assert found.unknown is None
    assert found.utilization is not None
    assert found.utilization.average_percent is None
    assert [finding.category for finding in found.findings] == [Category.UNRELEASED_JOB]


@pytest.mark.parametrize(
    "util, reason",
    [("90x40 _x20", UnknownReason.STALE), ("90x40 0x10 _x3 0x7", UnknownReason.PARTIAL), ("90x40 0x18 _x2", None)],
)
def test_samples_that_lack_lately_leave_the_present_unknown(util: str, reason: UnknownReason | None) -> None:
    assert examine({"gpus": [{"util": util}]}).unknown is reason


def test_a_gap_of_late_has_its_beginning_and_its_end() -> None:
    found = examine({"gpus": [{"util": "90x40 0x10 _x3 0x7"}]})
    assert found.gap is not None
    start, end = found.gap
    assert end - start == timedelta(minutes=1.5)
    assert examine({"gpus": [{"util": "90x20 _x40 90x60 0x80"}]}).gap is None


def test_a_partial_answer_is_no_ground_for_a_finding() -> None:
    recording = from_dict({"gpus": [{"util": "90x40 0x60"}], "pods": [{"cpu": "0x100"}]})
    facts, series, now = recording.at(100)
    assert diagnose(facts, series, (), Thresholds(), now).findings
    found = diagnose(facts, replace(series, complete=False), (), Thresholds(), now)
    assert (found.unknown, found.findings) == (UnknownReason.PARTIAL, ())


def test_a_job_that_has_not_started_has_no_utilization() -> None:
    recording = from_dict({"gpus": [{"util": "0x4"}]})
    facts, series, now = recording.at(4)
    waiting = replace(facts, pods=tuple(replace(pod, started_at=None) for pod in facts.pods))
    assert diagnose(waiting, series, (), Thresholds(), now).utilization is None


def test_stages_end_with_the_first_memory_and_the_last_work() -> None:
    used = utilization(
        {"gpus": [{"util": "0x20 90x60 0x20", "memoryUsed": "4x10 9000x90", "memoryFree": "32000x10 23000x90"}]}
    )
    assert [(span.stage, span.start, span.end) for span in used.stages] == [
        (Stage.INITIALIZATION, START, START + timedelta(minutes=5)),
        (Stage.ACTIVE, START + timedelta(minutes=5), START + timedelta(minutes=40)),
        (Stage.TAIL, START + timedelta(minutes=40), None),
    ]
    assert [whole_percent(span.average_percent) for span in used.stages] == [0, 77, 0]


def test_a_short_pause_at_the_end_is_no_tail() -> None:
    used = utilization({"gpus": [{"util": "90x60 0x9"}]})
    assert [span.stage for span in used.stages] == [Stage.ACTIVE]


def test_peak_memory_is_of_used_and_free() -> None:
    used = utilization({"gpus": [{"util": "90x4", "memoryUsed": "1000x2 8000x2", "memoryFree": "31000x2 24000x2"}]})
    assert used.peak_memory_percent == pytest.approx(25)


def test_recent_utilization_is_that_of_the_last_ten_minutes() -> None:
    assert utilization({"gpus": [{"util": "90x40 10x20"}]}).recent_percent == pytest.approx(10)
    assert utilization({"gpus": [{"util": "90x40 _x20"}]}).recent_percent is None
    assert utilization({"job": {"finished": True}, "gpus": [{"util": "90x40"}]}).recent_percent is None


def test_nodes_name_the_worst_first_and_what_is_unknown() -> None:
    used = utilization(
        {
            "job": {"nodes": 3, "gpusPerNode": 2},
            "gpus": [{"of": "0-1", "util": "90x40"}, {"of": "2-3", "util": "30.4x40"}, {"of": "4", "util": "50x40"}],
        }
    )
    assert [(one["pod"], one["node"], one["gpuPercents"]) for one in to_status(used)["nodes"]] == [
        ("bert-2", "gpu-3", [[50, None]]),
        ("bert-1", "gpu-2", [[30, 30]]),
        ("bert-0", "gpu-1", [[90, 90]]),
    ]


def test_status_has_whole_percents_and_is_what_the_schema_says() -> None:
    status = to_status(
        utilization({"gpus": [{"util": "0x24 92x96", "memoryUsed": "4x24 9000x96", "memoryFree": "32000x24 23000x96"}]})
    )
    assert status == {
        "averagePercent": 74,
        "recentPercent": 92,
        "peakMemoryPercent": 28,
        "coveragePercent": 100,
        "gpuHours": "1.0",
        "gpuHoursIdle": "0.3",
        "asOf": "2026-11-21T07:00:00Z",
        "stages": [
            {
                "stage": "Initialization",
                "start": "2026-11-21T06:00:00Z",
                "end": "2026-11-21T06:12:00Z",
                "averagePercent": 0,
            },
            {"stage": "Active", "start": "2026-11-21T06:12:00Z", "averagePercent": 92},
        ],
        "nodes": [{"pod": "bert-0", "node": "gpu-1", "gpuPercents": [[74]]}],
    }
    assert UtilizationStatus.model_validate(status).average_percent == 74


def test_status_gives_an_interval_that_contains_the_truth() -> None:
    status = to_status(utilization({"job": {"gpusPerNode": 2}, "gpus": [{"of": "0", "util": "60.5x40"}]}))
    assert "averagePercent" not in status
    assert status["averagePercentRange"] == [30, 81]


def test_percents_are_clamped_and_unknown_stays_unknown() -> None:
    assert [whole_percent(value) for value in (-0.2, 0.4, 0.5, 99.5, 104, None, float("nan"))] == [
        0,
        0,
        1,
        100,
        100,
        None,
        None,
    ]


def test_stages_are_shown_with_their_start_and_length() -> None:
    spans = [
        StageSpan(stage=Stage.INITIALIZATION, start=START - timedelta(days=1), end=START, average_percent=0),
        StageSpan(stage=Stage.ACTIVE, start=START, end=None, average_percent=None),
    ]
    assert stage_lines(spans) == (
        "Initialization  2026-11-20T06:00:00Z  24.0 h   0 %",
        "Active          2026-11-21T06:00:00Z           ? %",
    )


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 30.0, 100.0, float("nan")]), min_size=1, max_size=60), st.integers(1, 3))
def test_the_interval_holds_whatever_the_missing_samples_were(samples: list[float], gpus: int) -> None:
    """Fill the gaps with anything: the true mean lies within the bounds. (Graphics means do not alias.)"""
    recording = from_dict({"job": {"gpusPerNode": gpus}, "gpus": [{"of": "0", "graphics": "0x1"}]})
    recording = replace(recording, gpus=({GpuSignal.GRAPHICS: samples}, *({} for _ in range(gpus - 1))))
    facts, series, now = recording.at(len(samples))
    found = diagnose(facts, series, (), Thresholds(), now).utilization
    assert found is not None
    low, high = found.average_percent_range or (found.average_percent, found.average_percent)
    assert low is not None
    assert high is not None
    filled = [np.nan_to_num(np.array(samples), nan=fill) for fill in (0.0, 100.0)]
    if found.average_percent_range is not None:
        assert low <= filled[0].mean() / gpus + 1e-6
        assert high >= (filled[1].mean() + 100 * (gpus - 1)) / gpus - 1e-6


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_missing_samples_never_make_a_job_unreleased(data: st.DataObject) -> None:
    """Take more than any tenth of the tail's samples of one GPU away: what is still called unreleased is a stretch
    after the gap that has its samples.
    """
    tail = 40
    gone = data.draw(st.lists(st.integers(0, tail - 1), min_size=tail // 10 + 1, max_size=tail, unique=True))
    samples = [90.0] * 40 + [float("nan") if k in gone else 0.0 for k in range(tail)]
    recording = from_dict({"job": {"gpusPerNode": 2}, "gpus": [{"util": "90x40 0x40"}], "pods": [{"cpu": "0x80"}]})
    recording = replace(recording, gpus=(recording.gpus[0], {GpuSignal.UTIL: samples}))
    facts, series, now = recording.at(80)
    for finding in diagnose(facts, series, (), Thresholds(), now).findings:
        if finding.category is Category.UNRELEASED_JOB:
            assert finding.since is not None
            claimed = int((now - finding.since).total_seconds() / series.step)
            missing = [k for k in gone if k >= tail - claimed]
            assert len(missing) <= claimed / 10


def test_each_gpu_has_its_own_line_in_the_order_of_its_number() -> None:
    recording = from_dict(
        {
            "job": {"gpusPerNode": 12},
            "gpus": [
                {"of": "0-9", "util": "80x20", "memoryUsed": "8000x20", "memoryFree": "24000x20"},
                {"of": "10-11", "util": "20x10 _x10"},
            ],
        }
    )
    facts, series, now = recording.at(recording.length)
    used = diagnose(facts, series, (), Thresholds(), now).utilization
    assert used is not None
    assert [gpu.gpu for gpu in used.gpus] == [str(number) for number in range(12)]
    assert [gpu.average_percent for gpu in used.gpus] == [80.0] * 10 + [20.0] * 2
    assert [gpu.peak_memory_percent for gpu in used.gpus] == [25.0] * 10 + [None] * 2
    assert [gpu.coverage_percent for gpu in used.gpus] == [100.0] * 10 + [50.0] * 2
