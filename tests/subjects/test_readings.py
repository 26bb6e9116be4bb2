"""Totals and rates, values told twice, two exporters on one device."""

import numpy as np
import pytest

from stoker.subjects.readings import added, highest, link_rates, mean_rates, proven, reading, steadiest

GAP = 135.0


def every(step: float, *values: float) -> np.ndarray:
    """Samples each `step` seconds, the first at one step."""
    return np.array([(step * (number + 1), value) for number, value in enumerate(values)], dtype=float).reshape(-1, 2)


def pairs(one: np.ndarray) -> list[tuple[float, float]]:
    return [(float(time), float(value)) for time, value in one]


def test_a_sample_that_is_no_value_is_left_out() -> None:
    told = [(30.0, "1"), (60.0, "NaN"), (90.0, "+Inf"), (120.0, "-1"), (150.0, "9223372036854775794"), (180.0, "2")]
    assert pairs(reading(told, 1e5)) == [(30, 1), (180, 2)]
    assert len(reading([])) == 0
    assert highest([reading([]), reading(told, 1e5)]) == 2


def test_energy_is_the_mean_power_between_two_samples() -> None:
    assert pairs(mean_rates(every(30, 0, 3_000, 9_000), GAP)) == [(60, 100), (90, 200)]


@pytest.mark.parametrize("told", [1, 2, 3])
def test_a_total_that_is_told_several_times_is_one_sample(told: int) -> None:
    """A GPU at 400 W, collected each 30 s and read each 15 s, or 10: no step stands at 0 or at twice the power."""
    step = 30 / told
    values = [12_000.0 * (number // told) for number in range(8 * told)]
    rates = mean_rates(every(step, *values), GAP)
    np.testing.assert_allclose(rates[:, 1], 400)
    assert rates[0, 0] == step * 2 or told > 1
    # The last sample's repetitions may be the beginning of anything.
    assert rates[-1, 0] == step * (7 * told + 1)


def test_a_late_collection_shifts_power_and_loses_none() -> None:
    rates = mean_rates(every(30, 0, 3_000, 3_000, 9_000, 12_000), GAP)
    assert pairs(rates) == [(60, 100), (90, 100), (120, 100), (150, 100)]


def test_a_total_that_begins_anew_says_nothing_of_that_step() -> None:
    assert pairs(mean_rates(every(30, 90_000, 93_000, 500, 3_500), GAP)) == [(60, 100), (120, 100)]


def test_a_gap_in_a_total_stays_a_gap() -> None:
    samples = np.array([(30, 0), (60, 3_000), (600, 60_000), (630, 63_000)], dtype=float)
    assert pairs(mean_rates(samples, GAP)) == [(60, 100), (630, 100)]


def test_a_rate_that_no_device_has_is_left_out() -> None:
    assert pairs(mean_rates(every(30, 0, 3_000, 1e12, 1e12 + 3_000), GAP, most=1e4)) == [(60, 100), (120, 100)]


@pytest.mark.parametrize("values", [(), (5,), (5, 5, 5)])
def test_a_total_that_never_changes_has_no_rate(values: tuple[float, ...]) -> None:
    assert len(mean_rates(every(30, *values), GAP)) == 0


def test_link_traffic_that_falls_as_often_as_it_rises_is_a_rate() -> None:
    rate = every(30, *(5e9 + 1e8 * (number % 3) for number in range(40)))
    [same] = link_rates([rate], GAP)
    np.testing.assert_array_equal(same, rate)


def test_link_traffic_that_only_grows_is_a_total_whatever_one_device_shows() -> None:
    growing = every(30, *(3e9 * number for number in range(40)))
    resting = every(30, *[7e9] * 40)
    first, second = link_rates([growing, resting], GAP)
    np.testing.assert_allclose(first[:, 1], 1e8)
    np.testing.assert_array_equal(second[:, 1], 0)


def test_a_total_of_link_traffic_that_begins_anew_is_one_still() -> None:
    values = [3e9 * (number % 60) for number in range(120)]
    [rates] = link_rates([every(30, *values)], GAP)
    np.testing.assert_allclose(rates[:, 1], 1e8)
    assert len(rates) == 118


def test_link_traffic_that_never_changes_is_none() -> None:
    assert highest(link_rates([every(30, *[7e9] * 40)], GAP)) == 0


def test_of_two_exporters_the_steadier_leads_and_of_two_alike_the_one_that_sees_more() -> None:
    steady, gappy = every(30, 10, 20, 30), every(30, 90, 90)
    assert [len(one) for one in steadiest([gappy, steady])] == [3, 2]
    blind, seeing = every(30, 0, 0), every(30, 40, 50)
    assert steadiest([blind, seeing])[0] is seeing


def test_a_sum_stands_only_where_all_its_parts_do() -> None:
    transmitted, received = every(30, 1, 2, 3), every(30, 10, 20, 30)[1:]
    assert pairs(added([transmitted, received])) == [(60, 22), (90, 33)]


def test_a_zero_that_nothing_backs_is_unknown() -> None:
    use, memory = every(30, 0, 0, 40), every(30, 0, 500, 0)
    assert pairs(proven(use, memory)) == [(60, 0), (90, 40)]
    assert pairs(proven(use, None)) == [(90, 40)]
