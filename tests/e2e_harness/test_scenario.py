from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.telemetry.products import product_named
from e2e.telemetry.samples import Program, ScenarioError
from e2e.telemetry.scenario import Scenario, duration

H100 = product_named("NVIDIA-H100-80GB-HBM3")


def play(text: str, *, gpus: int = 1, rank: int = 0) -> Program:
    return Scenario(text).play(rank=rank, gpus=gpus, product=H100)


def test_a_phase_lasts_as_long_as_it_says_and_the_last_one_for_ever() -> None:
    program = play("{noise: 0, phases: [{for: 1m, util: 90}, {util: 10, memory: 70%}]}")
    assert program.gpu(0, 30, 1).util == 90
    assert program.gpu(0, 90, 1).util == 10
    assert program.gpu(0, 1e6, 1).util == 10
    assert program.gpu(0, 90, 1).memory == pytest.approx(0.7 * 81559, abs=1)


def test_before_the_start_and_without_a_scenario_the_gpu_is_at_rest() -> None:
    for sample in (play("[{util: 90}]").gpu(0, -1), play("").gpu(0, 60)):
        assert (sample.util, sample.engine, sample.memory, sample.power) == (0, 0, 0, H100.idle)


def test_memory_without_activity_means_a_context_and_its_power_at_rest() -> None:
    sample = play("[{memory: 40GiB}]").gpu(0, 60)
    assert (sample.util, sample.memory, sample.power) == (0, 40 * 1024, H100.context)


def test_idle_is_exactly_idle_whatever_the_noise() -> None:
    program = play("{noise: 20, phases: [{memory: 50%}]}")
    assert {program.gpu(0, t).util for t in range(100, 200)} == {0}


def test_noise_varies_around_the_value_and_is_the_same_each_time() -> None:
    text = "{noise: 5, phases: [{util: 60}]}"
    seen = [play(text).gpu(0, t).util for t in range(100, 1100)]
    assert seen == [play(text).gpu(0, t).util for t in range(100, 1100)]
    assert sum(seen) / len(seen) == pytest.approx(60, abs=1)
    assert (sum((value - 60) ** 2 for value in seen) / len(seen)) ** 0.5 == pytest.approx(5, rel=0.15)
    other = play("{seed: 1, noise: 5, phases: [{util: 60}]}")
    assert [other.gpu(0, t).util for t in range(100, 200)] != seen[:100]


def test_a_fast_loop_aliases_in_utilization_but_not_in_engine_activity() -> None:
    """A 3 s busy, 2 s idle loop: GPU_UTIL sees its last second, GR_ENGINE_ACTIVE the mean of its interval."""
    program = play("{noise: 0, phases: [{repeat: forever, phases: [{for: 3s, util: 100}, {for: 2s, memory: 60%}]}]}")
    assert {program.gpu(0, t).util for t in (102, 105)} == {100, 0}
    assert [program.gpu(0, t, 30).engine for t in (102, 104, 105)] == pytest.approx([0.6] * 3)


def test_the_engine_and_what_is_exported_can_be_set_apart_from_utilization() -> None:
    program = play("{noise: 0, phases: [{util: 99, engine: 0, gpus: {'1': {export: nan}}}]}", gpus=2)
    assert (program.gpu(0, 100).util, program.gpu(0, 100).engine) == (99, 0)
    assert [program.gpu(index, 100).export for index in (0, 1)] == ["values", "nan"]


def test_some_gpus_and_some_ranks_differ() -> None:
    text = """
    noise: 0
    phases:
    - util: 80
      gpus: {"4-7": {util: 0, memory: 0}}
      ranks: {"1": {util: 20, cpu: 3, gpus: {"0": {util: 5}}}}
    """
    assert [play(text, gpus=8).gpu(index, 60).util for index in range(8)] == [80] * 4 + [0] * 4
    assert [play(text, gpus=3, rank=1).gpu(index, 60).util for index in range(3)] == [5, 20, 20]
    assert play(text, rank=1).pod(60).cpu == pytest.approx(180)


def test_sizes_and_rates_have_units() -> None:
    sample = play("[{util: 50, rx: 2GiB/s, tx: 3MB/s}]").gpu(0, 60)
    assert sample.rx == pytest.approx(2 * 2**30, rel=0.1)
    assert sample.tx == pytest.approx(3e6, rel=0.1)
    assert play("[{netRx: 10kB/s}]").pod(100).net_rx == pytest.approx(1e6)


@pytest.mark.parametrize(
    "text, message",
    [
        ("[{utl: 90}]", r"phases\[0\]: unknown utl; allowed are .*util"),
        ("[{util: 190}]", r"phases\[0\].util: 190 is not a percentage"),
        ("[{util: 9}, {util: 0}]", r"phases\[0\]: only the last phase may lack `for`"),
        ("[{for: 5 minutes}]", r"phases\[0\].for: '5 minutes' is not a duration"),
        ("[{repeat: 3, phases: [{util: 1}]}]", r"needs a `for`"),
        ("[{repeat: forever, phases: [{for: 1s}]}, {util: 1}]", r"repeat: 'forever' is not a count"),
        ("[{gpus: {x: {util: 1}}}]", r"gpus: 'x' is not a set of indices"),
        ("[{ranks: {'1': {utl: 1}}}]", r"ranks\[1\]: unknown utl"),
        ("{phase: []}", "scenario: unknown phase"),
        ("phases: 3", "phases: 3 is not a list of phases"),
        ("[3]", r"phases\[0\]: 3 is not a phase"),
        ("[", "not YAML"),
        ("[{export: some}]", r"export: 'some' is not one of values, nan, nothing"),
        ("{clock: early}", r"clock: 'early' is not a duration"),
        ("[{rx: fast}]", r"rx: 'fast' is not a size"),
    ],
)
def test_mistakes_name_the_place_the_value_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario(text)


def test_durations() -> None:
    assert [duration(text) for text in ("90s", "1h30m", "250ms", 5)] == [90, 5400, 0.25, 5]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 100)), min_size=1, max_size=4),
    st.integers(1, 3),
    st.lists(st.floats(0, 1000), min_size=2, max_size=2),
)
def test_counters_are_the_exact_integral_and_never_fall(
    phases: list[tuple[int, int]], times: int, ends: list[float]
) -> None:
    body = [{"for": seconds, "util": util, "cpu": util / 10, "power": util} for seconds, util in phases]
    program = play(str({"noise": 0, "phases": [{"repeat": times, "phases": body}, *body]}))
    script = [phase for _ in range(times) for phase in phases] + phases

    def integral(until: float) -> float:
        total, at = 0.0, 0.0
        for number, (seconds, util) in enumerate(script):
            last = number == len(script) - 1
            total += util * max(0.0, min(until - at, float("inf") if last else seconds))
            at += seconds
        return total

    for end in ends:
        assert program.gpu(0, end).energy == pytest.approx(integral(end), abs=1e-6)
        assert program.pod(end).cpu == pytest.approx(integral(end) / 10, abs=1e-6)
    first, second = sorted(ends)
    assert program.gpu(0, first).energy <= program.gpu(0, second).energy + 1e-9


def test_power_rises_with_load_and_stays_below_the_limit() -> None:
    powers = [play(f"{{noise: 0, phases: [{{util: {util}}}]}}").gpu(0, 60).power for util in (0, 20, 60, 100)]
    assert powers[0] == H100.idle
    assert all(one < other for one, other in pairwise(powers))
    assert powers[-1] <= H100.limit
