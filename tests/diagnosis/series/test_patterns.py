"""States, runs and bursts in a job's series, and the words for numbers."""

from datetime import timedelta

import numpy as np
import pytest

from stoker.diagnosis.series.examination import Examination, examine
from stoker.diagnosis.series.pattern import two_states
from stoker.diagnosis.series.person import irregular_bursts
from stoker.diagnosis.series.stages import runs
from stoker.findings.wording import count, interval, minutes, percent, ranges
from tests.diagnosis.recording import START, Thresholds, from_dict, parse_series


def exam(util: str) -> Examination:
    recording = from_dict({"gpus": [{"util": util}]})
    facts, series, now = recording.at(recording.length)
    return examine(facts, series, Thresholds(), now)


def test_the_studys_checkpoint_series_has_two_states() -> None:
    """96 of 168 s at 0 (ICSE 2024, section 4.2): its median and its median deviation are both 0."""
    values = np.array(parse_series("(92.3x6 0x8)x20"))
    found = two_states(values)
    assert found is not None
    low, mean_low, mean_high = found
    assert (mean_low, mean_high) == pytest.approx((0, 92.3))
    assert low.mean() == pytest.approx(8 / 14)


@pytest.mark.parametrize("text", ["10..40x200", "30x50", "0x50", "90..99x100", "5x1"])
def test_one_noisy_level_has_one_state(text: str) -> None:
    assert two_states(np.array(parse_series(text))) is None


def test_runs_are_half_open() -> None:
    assert runs(np.array([True, False, True, True])) == [(0, 1), (2, 4)]
    assert runs(np.zeros(3, dtype=np.bool_)) == []


@pytest.mark.parametrize(
    "util, bursts",
    [
        ("(50x4 0x40)x6", 0),
        ("50x4 0x10 50x4 0x200 50x4 0x10", 3),
        ("50x4 0x10 50x4 0x200", 0),
        ("50x4 0x10 50x4 0x12 50x4 0x9 50x4 0x11", 0),
        ("50x4 0x10 50x4 0x3 50x4 0x200 50x4", 3),
        ("50x4 _x10 50x4 _x200 50x4", 0),
    ],
    ids=["regular", "irregular", "two only", "alike", "a short pause joins", "missing samples are no pause"],
)
def test_bursts_of_a_person_are_irregular(util: str, bursts: int) -> None:
    assert irregular_bursts(exam(util)) == bursts


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0 %"),
        (0.04, "under 0.1 %"),
        (0.5, "0.5 %"),
        (9.9, "9.9 %"),
        (31.4, "31 %"),
        (99.6, "99.6 %"),
        (100, "100 %"),
    ],
)
def test_percentages_never_round_to_nothing_or_all(value: float, text: str) -> None:
    assert percent(value) == text


def test_gpu_numbers_join() -> None:
    assert ranges(["3", "1", "2", "7", "GPU-abc"]) == "1-3, 7, GPU-abc"
    assert ranges([]) == ""
    assert ranges(["0", "1", "9" * 5_000]) == f"0-1, {'9' * 5_000}"  # a label, which may be anything


def test_times_have_their_date_once() -> None:
    hour = timedelta(hours=1)
    assert interval(START, START + hour) == "2026-11-21T06:00:00Z to 2026-11-21T07:00:00Z"
    assert interval(START, START + 24 * hour) == "2026-11-21T06:00:00Z to 2026-11-22T06:00:00Z"
    assert interval(START, None) == "since 2026-11-21T06:00:00Z"


def test_durations_and_counts() -> None:
    assert [minutes(value) for value in (40, 600, 7200)] == ["40 s", "10 min", "2.0 h"]
    assert [count(1, "process", "processes"), count(2, "process", "processes")] == ["1 process", "2 processes"]


@pytest.mark.parametrize(
    "nodes, odd, name",
    [
        (2, None, "GPU 0-1 of bert-0; GPU 0-1 of bert-1"),
        (64, None, "GPU 0-1 of 64 pods"),
        (6, 3, "GPU 0-1 of bert-0; GPU 0 of bert-1; GPU 0-1 of bert-2; GPU 0-1 of bert-3; 2 more pods"),
    ],
    ids=["few pods by name", "many alike by number", "many that differ, the first of them"],
)
def test_the_gpus_of_many_pods_are_said_shortly(nodes: int, odd: int | None, name: str) -> None:
    recording = from_dict({"job": {"nodes": nodes, "gpusPerNode": 2}, "gpus": [{"util": "50x4"}]})
    facts, series, now = recording.at(recording.length)
    examined = examine(facts, series, Thresholds(), now)
    assert examined.names(device for place, device in enumerate(examined.devices) if place != odd) == name
