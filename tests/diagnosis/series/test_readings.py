"""Totals and rates, values told twice, two exporters on one device."""

import numpy as np
import pytest

from stoker.telemetry.readings import added, highest, link_rates, mean_rates, parsed, proven, reading, steadiest

GAP = 135.0


def every(step: float, *values: float) -> np.ndarray:
    """Samples each `step` seconds, the first at one step."""
    return np.array([(step * (number + 1), value) for number, value in enumerate(values)], dtype=float).reshape(-1, 2)


def pairs(one: np.ndarray) -> list[tuple[float, float]]:
    return [(float(time), float(value)) for time, value in one]


def test_a_sample_that_is_no_value_is_left_out() -> None:
    told = parsed(b'[30,"1"],[60,"NaN"],[90,"+Inf"],[120.5,"-1"],[150,"9223372036854775794"], [180, "2e+00"]')
    assert len(told) == 6
    assert pairs(reading(told, 1e5)) == [(30, 1), (180, 2)]
    assert len(reading(parsed(b""))) == 0
    assert highest([parsed(b"[]"), reading(told, 1e5)]) == 2


@pytest.mark.parametrize("text", [b'[30,"1"],[60', b'[30,"one"]', b'[30,"1"],null', b'[30,""]'])
def test_what_is_no_list_of_samples_is_not_read(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"convert|reshape"):
        parsed(text)


def power(total: np.ndarray, step: float = 30, *, late: float = 0, most: float = 1e9) -> list[tuple[float, float]]:
    """The mean rates of a total whose samples were taken so many seconds before they are looked at."""
    taken = np.column_stack((total[:, 0], total[:, 0] - late))
    return [(time, round(value, 6)) for time, value in pairs(mean_rates(total, taken, step, GAP, most))]


@pytest.mark.parametrize("late", [0, 7, 14])
def test_energy_is_the_mean_power_between_two_samples(late: float) -> None:
    """100 W, 200 W, 100 W between samples that are older than the steps' ends: each step has its own share of them."""
    found = dict(power(every(30, 0, 3_000, 9_000, 12_000), late=late))
    assert found[60.0] == pytest.approx((100 * (30 - late) + 200 * late) / 30)
    assert found[90.0] == pytest.approx((200 * (30 - late) + 100 * late) / 30)
    assert found[120.0] == 100


@pytest.mark.parametrize("told", [1, 2, 3])
def test_a_total_that_is_told_several_times_is_one_sample(told: int) -> None:
    """A GPU at 400 W, collected each 30 s and read each 30, 15 or 10 s: no step stands at 0 or at twice the power."""
    step = 30 / told
    found = power(every(step, *(12_000.0 * (number // told) for number in range(8 * told))), step)
    assert {value for _, value in found} == {400}
    # The last sample's repetitions may be the beginning of anything.
    assert found[-1][0] == pytest.approx(step * (7 * told + 1))
    assert len(found) == 7 * told


def test_a_scrape_that_comes_late_makes_no_peak() -> None:
    """100 W throughout; one sample is taken 12 s after its time, and is the latest for a step more."""
    taken = np.array([(30, 28), (60, 58), (90, 58), (120, 100), (150, 148)], dtype=float)
    total = np.column_stack((taken[:, 0], taken[:, 1] * 100))
    np.testing.assert_allclose(mean_rates(total, taken, 30, GAP)[:, 1], 100)


def test_a_late_collection_shifts_power_and_loses_none() -> None:
    assert power(every(30, 0, 3_000, 3_000, 9_000, 12_000)) == [(60, 100), (90, 100), (120, 100), (150, 100)]


def test_a_total_that_begins_anew_says_nothing_of_that_step() -> None:
    assert power(every(30, 90_000, 93_000, 500, 3_500)) == [(60, 100), (120, 100)]


def test_a_gap_in_a_total_stays_a_gap() -> None:
    samples = np.array([(30, 0), (60, 3_000), (600, 60_000), (630, 63_000)], dtype=float)
    assert power(samples) == [(60, 100), (630, 100)]


def test_a_rate_that_no_device_has_is_left_out() -> None:
    assert power(every(30, 0, 3_000, 1e12, 1e12 + 3_000), most=1e4) == [(60, 100), (120, 100)]


@pytest.mark.parametrize("values", [(), (5,), (5, 5, 5)])
def test_a_total_that_never_changes_has_no_rate(values: tuple[float, ...]) -> None:
    assert power(every(30, *values)) == []


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
