import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from stoker.cluster.faults import Faults
from stoker.cluster.workqueue import Backoff, Requeue, Transient, WorkQueue

Handler = Callable[[str], Awaitable[Requeue]]


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

    queue: WorkQueue[str] = WorkQueue(faults=Faults())
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
    queue: WorkQueue[str] = WorkQueue(faults=Faults())

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

    queue: WorkQueue[str] = WorkQueue(faults=Faults())
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

    queue: WorkQueue[str] = WorkQueue(jitter=lambda: -1.0, faults=Faults())
    queue.add("bad")
    queue.add("good")
    async with running(queue, handle):
        await done.wait()
    assert seen[:2] == ["bad", "good"]
    assert seen.count("bad") == 3


def test_the_backoff_doubles_up_to_its_bound_and_is_spread() -> None:
    low: WorkQueue[str] = WorkQueue(jitter=lambda: 0.0, faults=Faults())
    high: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0, faults=Faults())
    backoff = Backoff(first=5.0, longest=300.0)
    delays = [high._pause("a", backoff) for _ in range(20)]
    assert delays[:3] == [5.0, 10.0, 20.0]
    assert delays[-1] == 300.0
    assert low._pause("a", backoff) == 2.5


async def passes_over(queue: WorkQueue[str], answers: list[Requeue | Exception]) -> int:
    """How often a key was worked on that is added once, and then each time that the queue has nothing to do, as often
    as there are answers.
    """
    seen = 0

    async def handle(_: str) -> Requeue:
        nonlocal seen
        seen += 1
        answer = answers[seen - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with running(queue, handle):
        for _ in range(len(answers)):
            queue.add("a")
            for _ in range(5):
                await asyncio.sleep(0)
    return seen


async def test_what_is_backed_off_is_not_worked_on_because_somebody_asks_for_it() -> None:
    """The scan and the lists add a job again and again; that must neither try it sooner nor double its delay."""
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0, faults=Faults())
    assert await passes_over(queue, [Backoff(first=60.0, longest=300.0)] * 5) == 1
    assert queue._pause("a", Backoff(first=60.0, longest=300.0)) == 120.0


async def test_what_fails_is_not_worked_on_because_somebody_asks_for_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert await passes_over(WorkQueue(jitter=lambda: 1.0, faults=Faults()), [Transient("later")] * 5) == 1
    assert await passes_over(WorkQueue(jitter=lambda: 1.0, faults=Faults()), [RuntimeError("broken")] * 5) == 1


async def test_what_has_changed_is_worked_on_at_once_and_its_backoff_begins_anew() -> None:
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0, faults=Faults())
    refused = Backoff(first=60.0, longest=300.0)
    seen = 0

    async def handle(_: str) -> Requeue:
        nonlocal seen
        seen += 1
        if seen == 2:
            queue.add("a", changed=True)  # while it is worked on
        return refused

    async with running(queue, handle):
        for _ in range(2):
            queue.add("a", changed=True)
            for _ in range(5):
                await asyncio.sleep(0)
    assert seen == 3
    assert queue._pause("a", refused) == 120.0


async def test_a_success_ends_the_backoff() -> None:
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0, faults=Faults())
    queue._pause("a", Backoff(first=5.0, longest=300.0))
    assert await passes_over(queue, [None]) == 1
    assert queue._pause("a", Backoff(first=5.0, longest=300.0)) == 5.0


async def test_groups_take_turns_and_none_has_all_workers() -> None:
    """A thousand keys of one group, all of whose handlers hang: the keys of two others are worked on all the same."""
    queue: WorkQueue[tuple[str, int]] = WorkQueue(group=lambda key: key[0], faults=Faults())
    hang, others = asyncio.Event(), asyncio.Semaphore(0)
    hanging = 0

    async def handle(key: tuple[str, int]) -> None:
        nonlocal hanging
        if key[0] == "crowd":
            hanging += 1
            await hang.wait()
        else:
            others.release()

    for number in range(1000):
        queue.add(("crowd", number))
    task = asyncio.create_task(queue.run(handle, workers=16))
    for number in range(20):
        queue.add(("one", number))
        queue.add(("two", number))
    for _ in range(40):
        await others.acquire()
    assert hanging == 8
    hang.set()
    while len(queue):
        await asyncio.sleep(0)
    assert hanging == 1000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_key_behind_a_thousand_of_another_group_is_second() -> None:
    queue: WorkQueue[tuple[str, int]] = WorkQueue(group=lambda key: key[0], faults=Faults())
    for number in range(1000):
        queue.add(("crowd", number))
    queue.add(("one", 0))
    queue._free = 1
    assert [queue.pick() for _ in range(3)] == [("crowd", 0), ("one", 0), ("crowd", 1)]


async def test_a_handler_says_when_to_look_again_and_the_earliest_timer_counts() -> None:
    passes = 0
    done = asyncio.Event()
    queue: WorkQueue[str] = WorkQueue(faults=Faults())

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
