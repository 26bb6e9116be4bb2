import numpy as np
import pytest

from simulator_b.track import Block, Track

TRACK = Track.of(
    [
        Block(np.array([2.0, 4.0]), {"rx": np.array([10.0, 0.0]), "memory": 5.0}),
        Block(np.array([4.0]), {"rx": 3.0, "memory": 7.0}),
    ],
    ("rx",),
    ("memory",),
)


def test_what_flows_is_the_sum_over_all_stretches() -> None:
    assert TRACK.end == 10.0
    assert TRACK.total("rx", np.array([10.0]))[0] == pytest.approx(2 * 10 + 4 * 3)


def test_intervals_that_follow_one_another_add_up_to_the_whole_however_they_are_cut() -> None:
    cuts = np.sort(np.concatenate(([0.0, 10.0], np.random.default_rng(1).uniform(0, 10, 50))))

    means = TRACK.mean("rx", cuts[:-1], cuts[1:])

    assert float((means * np.diff(cuts)).sum()) == pytest.approx(32.0)


def test_a_level_holds_from_its_stretch_to_the_next() -> None:
    assert TRACK.level("memory", np.array([0.0, 5.9, 6.1, 12.0])).tolist() == [5.0, 5.0, 7.0, 7.0]
