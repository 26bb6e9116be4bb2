import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from stoker.controller.queue import FIRST_BACKOFF, LONGEST_BACKOFF, Transient, WorkQueue

Handler = Callable[[str], Awaitable[float | None]]


@asynccontextmanager
async def running(queue: WorkQueue[str], handle: Handler, workers: int = 1) -> AsyncIterator[None]:
    """The queue's workers; what fails in them fails the test."""
    task = asyncio.create_task(queue.run(handle, workers=workers))
    try:
        yield
    finally:
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_that_waits_is_not_added_again() -> None:
    seen: list[str] = []
    done = asyncio.Event()

    async def handle(key: str) -> None:
        seen.append(key)
        if key == "last":
            done.set()

    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "a", "b", "a", "last"):
        queue.add(key)
    assert len(queue) == 3
    async with running(queue, handle):
        await done.wait()
    assert seen == ["a", "b", "last"]


async def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_and_never_twice_at_once() -> None:
    active = 0
    passes = 0
    done = asyncio.Event()
    queue: WorkQueue[str] = WorkQueue()

    async def handle(key: str) -> None:
        nonlocal active, passes
        active += 1
        assert active == 1
        passes += 1
        if passes == 1:
            for _ in range(5):
                queue.add(key)
        await asyncio.sleep(0)
        active -= 1
        if passes == 2:
            done.set()

    async with running(queue, handle, workers=4):
        queue.add("a")
        await done.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert passes == 2


async def test_as_many_keys_at_once_as_there_are_workers() -> None:
    gate = asyncio.Event()
    started = asyncio.Semaphore(0)
    active = peak = 0

    async def handle(key: str) -> None:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        started.release()
        await gate.wait()
        active -= 1

    queue: WorkQueue[str] = WorkQueue()
    for key in "abcdef":
        queue.add(key)
    async with running(queue, handle, workers=3):
        for _ in range(3):
            await started.acquire()
        await asyncio.sleep(0)
        assert active == 3
        gate.set()
        for _ in range(3):
            await started.acquire()
    assert peak == 3


async def test_a_failing_key_comes_back_and_does_not_hold_up_the_others() -> None:
    seen: list[str] = []
    done = asyncio.Event()

    async def handle(key: str) -> None:
        seen.append(key)
        if key == "bad" and seen.count("bad") == 1:
            raise RuntimeError("broken")
        if key == "bad" and seen.count("bad") == 2:
            raise Transient("not yet")
        if key == "bad":
            done.set()

    queue: WorkQueue[str] = WorkQueue(jitter=lambda: -1.0)
    queue.add("bad")
    queue.add("good")
    async with running(queue, handle):
        await done.wait()
    assert seen[:2] == ["bad", "good"]
    assert seen.count("bad") == 3


def test_the_backoff_doubles_up_to_its_bound_and_is_spread() -> None:
    low: WorkQueue[str] = WorkQueue(jitter=lambda: 0.0)
    high: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    delays = [high._backoff("a") for _ in range(20)]
    assert delays[:3] == [FIRST_BACKOFF, 2 * FIRST_BACKOFF, 4 * FIRST_BACKOFF]
    assert delays[-1] == LONGEST_BACKOFF
    assert low._backoff("a") == FIRST_BACKOFF / 2


async def test_a_success_ends_the_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    queue._backoff("a")
    queue._backoff("a")
    done = asyncio.Event()

    async def handle(_: str) -> None:
        done.set()

    async with running(queue, handle):
        queue.add("a")
        await done.wait()
        await asyncio.sleep(0)
    assert queue._backoff("a") == FIRST_BACKOFF


async def test_a_handler_says_when_to_look_again_and_the_earliest_timer_counts() -> None:
    passes = 0
    done = asyncio.Event()
    queue: WorkQueue[str] = WorkQueue()

    async def handle(key: str) -> float | None:
        nonlocal passes
        passes += 1
        if passes == 3:
            done.set()
            return None
        queue.add_after(key, 3600)
        return 0.001

    async with running(queue, handle):
        queue.add_after("a", 0.001)
        queue.add_after("a", 3600)
        await done.wait()
    assert passes == 3
