"""Drops, what coincides with them, and what GPUs get done while they look busy."""

import numpy as np
import pytest

from stoker.diagnosis.series.coincidence import UNLIKELY, coincidence, tied
from stoker.diagnosis.series.drops import Drops, drops, variation
from stoker.diagnosis.series.effort import effort, progress
from stoker.diagnosis.series.examination import examine
from stoker.diagnosis.series.pattern import Pattern
from tests.diagnosis.recording import Thresholds, from_dict, parse_series

STEP = 30.0


def found(text: str, *, averaged: bool = True) -> Drops | None:
    values = np.array(parse_series(text))
    return drops(values, np.ones(len(values), dtype=np.bool_), STEP, averaged=averaged)


def test_drops_of_more_than_half_of_the_time_are_measured_from_the_high_state() -> None:
    """96 of 168 s at 0 (ICSE 2024, section 4.2), on a grid of 12 s."""
    values = np.array(parse_series("(92.3x6 0x8)x20"))
    seen = drops(values, np.ones(len(values), dtype=np.bool_), 12.0)
    assert seen is not None
    assert seen.level == pytest.approx(92.3)
    assert (seen.floor, seen.count) == (0, 19)
    assert (seen.period, seen.length) == (168, 96)
    assert seen.regular
    assert seen.equal
    assert seen.clear


def test_a_drop_shorter_than_a_step_costs_its_part_of_the_step() -> None:
    seen = found("(90x9 45x1)x10 90x5")
    assert seen is not None
    assert seen.length == pytest.approx(STEP / 2)
    assert seen.share == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize(
    "text",
    ["30..40x100", "85..95x100", "(90x20 80x1)x5", "0x20 90x80", "90x80 0x20", "90x40 0x5 90x40", "_x100"],
    ids=["level", "noise", "shallow", "late start", "tail", "once", "no samples"],
)
def test_what_does_not_fall_and_recover_three_times_is_no_pattern(text: str) -> None:
    assert found(text) is None


def test_samples_of_a_moment_need_to_stay_low() -> None:
    """GPU_UTIL alone, each 30 s: a loop of 3 s of work and 2 s of waiting reads high or low by chance."""
    rng = np.random.default_rng(3)
    chance = " ".join(f"{value}x1" for value in rng.choice([95, 0], 200))
    assert found(chance, averaged=False) is None
    assert found("(95x6 0x4)x12", averaged=False) is not None


def test_variation_overlooks_one_that_was_missed() -> None:
    assert variation([168, 168, 180, 168, 336, 168]) < 0.1
    assert variation([20, 300, 60, 700, 5]) > 0.9


def test_a_burst_in_each_drop_is_no_chance_even_if_it_lags() -> None:
    seen = found("(90x9 0x3)x12")
    assert seen is not None
    for text in ("(1e5x9 2e8x3)x12", "1e5x1 (1e5x9 2e8x3)x11 1e5x11"):
        fit = coincidence(np.array(parse_series(text)), seen.pattern, floor=1e6)
        assert fit is not None
        assert fit.chance <= UNLIKELY
        assert fit.hits >= 0.9
        assert fit.amount == pytest.approx(3 * 2e8 * STEP, rel=0.01)


def test_bursts_between_the_drops_are_no_part_of_them() -> None:
    seen = found("(90x9 0x3)x12")
    assert seen is not None
    fit = coincidence(np.array(parse_series("(1e5x4 2e8x1 1e5x7)x12")), seen.pattern, floor=1e6)
    assert fit is not None
    assert fit.hits == 0
    assert fit.excess == 0


def test_bursts_at_other_times_of_their_own_are_chance() -> None:
    seen = found("(90x9 0x3)x12")
    assert seen is not None
    busy = np.where(np.random.default_rng(5).random(144) < 0.3, 2e8, 1e5)
    fit = coincidence(busy, seen.pattern, floor=1e6)
    assert fit is not None
    assert fit.chance > UNLIKELY


def test_a_signal_without_samples_coincides_with_nothing() -> None:
    seen = found("(90x9 0x3)x12")
    assert seen is not None
    assert coincidence(np.full(144, np.nan), seen.pattern, floor=1e6) is None


def test_two_series_are_tied_only_where_they_vary_together() -> None:
    rng = np.random.default_rng(11)
    pace, everywhere = rng.normal(40, 5, 200), np.ones(200, dtype=np.bool_)
    follows = np.convolve(pace, [0.5, 0.5])[:200] * 1e6
    assert tied(pace, follows, everywhere)
    assert tied(pace, np.roll(follows, 1), everywhere)
    assert not tied(pace, rng.normal(4e7, 5e6, 200), everywhere)
    assert not tied(pace, np.full(200, 4e7), everywhere)
    assert not tied(pace[:30], follows[:30], everywhere[:30])


def test_a_rank_that_spins_gets_nothing_done() -> None:
    recording = from_dict(
        {
            "job": {"gpusPerNode": 2},
            "gpus": [
                {
                    "of": "0",
                    "util": "95x60 0x20",
                    "graphics": "95x60 0x20",
                    "tensor": "40x60 0x20",
                    "dram": "40x60 0x20",
                },
                {
                    "of": "1",
                    "util": "95x60 100x20",
                    "graphics": "95x60 99x20",
                    "tensor": "40x60 0x20",
                    "dram": "40x60 2x20",
                },
            ],
        }
    )
    facts, series, now = recording.at(80)
    exam = examine(facts, series, Thresholds(), now)
    assert effort(exam)[1, 70] < 10
    assert progress(exam)[30] == pytest.approx(95)
    assert progress(exam)[70] < 5


def test_without_work_signals_effort_is_use() -> None:
    recording = from_dict({"gpus": [{"util": "30..40x40"}]})
    facts, series, now = recording.at(40)
    exam = examine(facts, series, Thresholds(), now)
    np.testing.assert_array_equal(effort(exam), exam.use)


def test_sums_under_a_shifted_pattern_are_exact_at_any_length() -> None:
    """The transform is longer than the series; what does not fit at the end goes on at its start."""
    rng = np.random.default_rng(2)
    for length in (7, 24, 101):
        pattern = Pattern(spans=((1, 3), (5, 6)), within=np.ones(length, dtype=np.bool_), step=STEP)
        values = np.round(2 * rng.normal(0, 50, length)) / 2
        shifted = [values[np.roll(pattern.mask, shift)].sum() for shift in range(length)]
        assert pattern.shifted_sums(values).tolist() == shifted


def test_a_step_between_two_stretches_belongs_to_one_of_them_at_most() -> None:
    pattern = Pattern(spans=((0, 2), (3, 5), (12, 13)), within=np.ones(20, dtype=np.bool_), step=STEP)
    assert pattern.widened.T.tolist() == [[0, 2], [2, 7], [10, 15]]
