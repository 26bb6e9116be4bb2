"""The weighing of causes: each statement counts as much as it should, and what was not measured does not count."""

import math

import pytest

from stoker.diagnosis.series.mechanisms import (
    DROPS,
    LEVEL,
    MOST_SURE,
    Mechanism,
    Quantity,
    confidence,
    decide,
    expect,
    sign,
    weigh,
)
from stoker.findings.vocabulary import Category, Confidence

COPIES = {Quantity.COPY_SPEED: 2e9, Quantity.CORES: 1.1, Quantity.PACE_VARIATION: 0.02}


def test_a_statement_that_holds_counts_by_how_rare_it_is_otherwise() -> None:
    assert expect(Quantity.CORES, high=2.0, chance=0.5).weight(1.0) == pytest.approx(math.log(2))


def test_a_statement_that_is_missed_counts_less_the_farther_it_is_missed_and_never_more_than_most() -> None:
    one = expect(Quantity.CORES, high=2.0, factor=1.5, chance=0.5)
    assert one.weight(2.0) > one.weight(3.0) > one.weight(4.0) > one.weight(400.0) == -MOST_SURE


def test_a_sign_counts_both_ways() -> None:
    one = sign(Quantity.FOLLOWS, often=0.8, chance=0.2)
    assert one.weight(1.0) == pytest.approx(math.log(4)) == -one.weight(0.0)


def test_nothing_speaks_for_a_mechanism_whose_first_quantity_was_not_measured() -> None:
    one = Mechanism(
        category=Category.DATA_EXCHANGE,
        name="links",
        expects=(expect(Quantity.EXCHANGE_SPEED, low=1e9, chance=0.1), expect(Quantity.CORES, high=2.0, chance=0.5)),
    )
    assert one.likelihood({Quantity.CORES: 1.0}) == one.prior
    assert one.likelihood({Quantity.CORES: 100.0}) < one.prior


def test_shares_leave_something_for_other_reasons_and_the_likeliest_comes_first() -> None:
    shares = weigh(LEVEL, COPIES)
    assert next(iter(shares)) is Category.INEFFICIENT_HOST_GPU_TRANSFER
    assert sum(shares.values()) < 1
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_an_excluded_cause_has_no_share() -> None:
    assert Category.DATA_EXCHANGE not in weigh(LEVEL, COPIES, frozenset({Category.DATA_EXCHANGE}))


def test_the_bytes_of_a_burst_tell_a_model_from_results_and_not_their_rate() -> None:
    burst = {Quantity.WRITES: 1.0, Quantity.GAP_VARIATION: 0.05, Quantity.RECEIVES: 0.0}
    model = weigh(DROPS, burst | {Quantity.BURST: 4e8, Quantity.BURST_VARIATION: 0.03})
    results = weigh(DROPS, burst | {Quantity.BURST: 5e6, Quantity.BURST_VARIATION: 0.9})
    assert decide(model)[0] is Category.MODEL_CHECKPOINTING
    assert decide(results)[0] is Category.INTERMEDIATE_RESULT_UPLOAD


def test_an_alternative_that_stands_keeps_a_cause_from_being_named() -> None:
    shares = {Category.DATA_PREPROCESSING: 0.7, Category.REMOTE_DATA_READ: 0.2}
    assert decide(shares) == (None, 0.0, (Category.DATA_PREPROCESSING, Category.REMOTE_DATA_READ))
    assert decide({Category.DATA_PREPROCESSING: 0.7, Category.REMOTE_DATA_READ: 0.1})[0] is Category.DATA_PREPROCESSING


def test_a_named_cause_is_only_possible_below_three_of_four() -> None:
    assert confidence(Category.REMOTE_DATA_READ, 0.8, low=True) is Confidence.LIKELY
    assert confidence(Category.REMOTE_DATA_READ, 0.6, low=True) is Confidence.POSSIBLE


def test_busy_cpus_may_be_a_phase_of_the_algorithm_where_the_use_is_not_low() -> None:
    assert confidence(Category.DATA_PREPROCESSING, 0.99, low=True) is Confidence.LIKELY
    assert confidence(Category.DATA_PREPROCESSING, 0.99, low=False) is Confidence.POSSIBLE
