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


SAVED = {
    Quantity.WRITES: 1.0,
    Quantity.RECEIVES: 0.0,
    Quantity.GAP_VARIATION: 0.1,
    Quantity.BURST: 3e9,
    Quantity.BURST_OF_MEMORY: 0.08,
    Quantity.BURST_VARIATION: 0.05,
    Quantity.BURST_FROM_GPUS: 1.0,
    Quantity.LEFT: 0.0,
}
"""A model of 3 GB, saved at regular intervals."""


def test_bytes_that_change_from_burst_to_burst_are_results_though_the_gpus_made_them() -> None:
    assert decide(weigh(DROPS, SAVED))[0] is Category.MODEL_CHECKPOINTING
    varied = SAVED | {Quantity.BURST_VARIATION: 0.7}
    assert decide(weigh(DROPS, varied))[0] is Category.INTERMEDIATE_RESULT_UPLOAD


def test_bytes_that_did_not_come_from_the_gpus_are_no_model() -> None:
    shares = weigh(DROPS, SAVED | {Quantity.BURST_FROM_GPUS: 0.02})
    assert next(iter(shares)) is Category.INTERMEDIATE_RESULT_UPLOAD


def test_a_reduced_pace_at_equal_intervals_is_an_evaluation_with_small_batches_and_no_save() -> None:
    drops = {
        Quantity.WRITES: 0.0,
        Quantity.RECEIVES: 0.0,
        Quantity.PROCESSES: 0.0,
        Quantity.ALL_DROP: 1.0,
        Quantity.GAP_VARIATION: 0.05,
        Quantity.DROP_VARIATION: 0.05,
    }
    assert decide(weigh(DROPS, drops | {Quantity.LEFT: 0.35}))[0] is Category.IMPROPER_BATCH_SIZE
    assert weigh(DROPS, drops | {Quantity.LEFT: 0.0})[Category.IMPROPER_BATCH_SIZE] < 0.1


SMALL_STEPS = {
    Quantity.COPIED: 2e6,
    Quantity.COPY_SPEED: 3e6,
    Quantity.CORES: 1.0,
    Quantity.PAUSING: 0.001,
    Quantity.PACE_VARIATION: 0.02,
    Quantity.RECEIVED: 2e3,
    Quantity.WRITTEN: 0.0,
}
"""Steps of milliseconds; memory is left out, as of a framework that reserves it."""


def test_small_steps_tell_a_small_batch_where_memory_is_reserved() -> None:
    shares = weigh(LEVEL, SMALL_STEPS)
    assert next(iter(shares)) is Category.IMPROPER_BATCH_SIZE
    assert shares[Category.IMPROPER_BATCH_SIZE] >= 0.5


@pytest.mark.parametrize("speed, named", [(1e9, Category.IMPROPER_BATCH_SIZE), (8e9, Category.DATA_EXCHANGE)])
def test_gradients_explain_a_wait_only_at_the_speed_of_the_link(speed: float, named: Category) -> None:
    shares = weigh(LEVEL, SMALL_STEPS | {Quantity.MEMORY: 0.1, Quantity.STAGED_SPEED: speed, Quantity.NVLINKED: 0.0})
    assert next(iter(shares)) is named


def test_tasks_that_wait_for_storage_while_the_pods_disks_rest_read_from_a_volume_of_the_node() -> None:
    waits = {
        Quantity.RECEIVED: 2e3,
        Quantity.READ: 0.0,
        Quantity.CORES: 0.8,
        Quantity.LOAD: 0.1,
        Quantity.WRITTEN: 0.0,
        Quantity.PACE_VARIATION: 0.15,
    }
    assert decide(weigh(LEVEL, waits | {Quantity.IO_PRESSURE: 0.9}))[0] is Category.REMOTE_DATA_READ
    assert weigh(LEVEL, waits | {Quantity.IO_PRESSURE: 0.0})[Category.REMOTE_DATA_READ] < 0.1
