import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from stoker.handlers import review_pool
from stoker.handlers.review_pool import ReviewPool

LONG = timedelta(seconds=20)


@pytest.fixture
def pool() -> Iterator[ReviewPool]:
    pool = ReviewPool(2)
    yield pool
    pool.close()


async def test_the_result_or_the_exception_is_the_reviews_own(pool: ReviewPool) -> None:
    assert await pool.run(lambda: 42, LONG) == 42
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0, LONG)


async def test_what_exceeds_its_budget_is_given_up_while_others_go_on(pool: ReviewPool) -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        await pool.run(lambda: release.wait(20), timedelta(milliseconds=10))
    assert await pool.run(lambda: "other", LONG) == "other"
    release.set()


async def test_what_waits_longer_than_its_budget_is_never_started() -> None:
    pool, release, started = ReviewPool(1), threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        await pool.run(lambda: release.wait(20), timedelta(milliseconds=10))
    with pytest.raises(TimeoutError):
        await pool.run(started.set, timedelta(milliseconds=10))
    release.set()
    assert await pool.run(lambda: "next", LONG) == "next"
    assert not started.is_set()
    pool.close()


async def test_a_review_that_never_ends_is_reported(pool: ReviewPool, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    assert pool.stuck() is None
    with pytest.raises(TimeoutError):
        await pool.run(lambda: release.wait(20), timedelta(milliseconds=10))
    assert pool.stuck() is None
    monkeypatch.setattr(review_pool, "STUCK_AFTER", 0.0)
    assert "a review has been running for" in str(pool.stuck())
    release.set()
