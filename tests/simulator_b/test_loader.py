import numpy as np
import pytest

from simulator_b.loader import waits

COUNT = 400
RNG = np.random.default_rng(3)


def test_without_workers_the_training_waits_for_all_of_each_batch() -> None:
    make = RNG.uniform(0.1, 1.0, COUNT)

    assert waits(make, np.full(COUNT, 0.5), 0, 2).tolist() == make.tolist()


def test_fast_workers_are_waited_for_once_at_the_start() -> None:
    waited = waits(np.full(COUNT, 0.3), np.full(COUNT, 0.2), workers=4, ahead=2)

    assert waited[0] == pytest.approx(0.3)
    assert waited[1:].sum() == pytest.approx(0.0)


def test_slow_workers_set_the_pace() -> None:
    """Four workers of 2 s a batch make two batches a second at most, whatever the GPU could use."""
    make, use = RNG.gamma(10, 0.2, COUNT), np.full(COUNT, 0.1)

    elapsed = float((waits(make, use, workers=4, ahead=2) + use).sum())

    assert elapsed >= make.sum() / 4
    assert elapsed == pytest.approx(make.sum() / 4, rel=0.1)


def test_no_more_batches_lie_ready_than_the_buffers_hold() -> None:
    """After one long step only the buffered batches are there at once, and then the workers' pace counts again."""
    use = np.full(40, 0.01)
    use[20] = 1_000.0

    waited = waits(np.full(40, 1.0), use, workers=2, ahead=2)

    assert waited[21:24].tolist() == pytest.approx([0.0, 0.0, 0.0])
    assert waited[25:].sum() > 0
