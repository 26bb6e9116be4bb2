"""Worker processes: what happens in one concerns whoever asked for it, and nobody else. All processes are real."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.adapters import workers as module
from stoker.adapters.workers import TaskEnd, TaskOutcome, Workers
from tests.adapters import misbehaving

LONG = 120.0
"""Seconds by the clock that nothing here takes, however busy the machine is."""
CPU = 20.0
LITTLE = 0.3
"""Seconds of processor time."""


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    async with Workers(2, memory=128 * 1024 * 1024) as pool:
        yield pool


async def run(
    pool: Workers,
    function: Callable[..., Iterator[Any]],
    *arguments: Any,
    owner: str = "team",
    cpu: float = CPU,
    wait: float = LONG,
) -> TaskOutcome[Any]:
    deadline = asyncio.get_running_loop().time() + wait
    return await pool.run(function, *arguments, owner=owner, cpu=cpu, deadline=deadline)


async def test_the_last_result_counts(workers: Workers) -> None:
    assert await run(workers, misbehaving.answers, 42) == TaskOutcome(end=TaskEnd.DONE, result=42)
    assert workers.not_ready() is None
    assert workers.stuck() is None


async def test_what_the_function_raises_is_told_with_its_traceback_and_costs_no_process(workers: Workers) -> None:
    before = {(await run(workers, misbehaving.pid)).result for _ in range(8)}
    outcome = await run(workers, misbehaving.fails)
    assert (outcome.end, outcome.result) == (TaskEnd.RAISED, "the first result")
    assert outcome.detail.rstrip().endswith("ZeroDivisionError: on purpose")
    assert {(await run(workers, misbehaving.pid)).result for _ in range(8)} & before


async def test_a_signal_to_the_whole_process_group_leaves_the_end_to_the_parent(workers: Workers) -> None:
    before = {(await run(workers, misbehaving.pid)).result for _ in range(8)}
    for pid in before:
        assert isinstance(pid, int)
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(pid, number)
    assert {(await run(workers, misbehaving.pid)).result for _ in range(8)} & before


@pytest.mark.parametrize(
    "function, cpu, wait, end",
    [
        (misbehaving.holds_the_interpreter, LITTLE, LONG, TaskEnd.TIME),
        (misbehaving.sleeps, CPU, 2.0, TaskEnd.LATE),
        (misbehaving.takes_all_memory, CPU, LONG, TaskEnd.MEMORY),
        (misbehaving.exits, CPU, LONG, TaskEnd.DIED),
        (misbehaving.crashes, CPU, LONG, TaskEnd.DIED),
    ],
    ids=["time", "deadline", "memory", "exit", "crash"],
)
async def test_what_must_be_stopped_is_and_meanwhile_others_are_answered(
    function: Callable[..., Iterator[Any]], cpu: float, wait: float, end: TaskEnd, workers: Workers
) -> None:
    await workers.ready()
    guilty = asyncio.create_task(run(workers, function, cpu=cpu, wait=wait, owner="guilty"))
    other = await run(workers, misbehaving.answers, 1, owner="other")
    assert other == TaskOutcome(end=TaskEnd.DONE, result=1)
    outcome = await guilty
    assert (outcome.end, outcome.result) == (end, "the first result")
    # Both workers are there again, or soon.
    both = await asyncio.gather(*(run(workers, misbehaving.answers, 7, owner=f"o{n}") for n in range(4)))
    assert {one.end for one in both} == {TaskEnd.DONE}


async def test_what_nobody_can_take_counts_as_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Workers(1, memory=1024 * 1024 * 1024) as workers:
        assert (await run(workers, misbehaving.answers_too_much)).end is TaskEnd.MEMORY
        assert (await run(workers, misbehaving.answers, 2)).result == 2
        monkeypatch.setattr(module, "MAX_MESSAGE", 1000)
        assert (await run(workers, misbehaving.answers, "x" * 2000)).end is TaskEnd.MEMORY


async def test_fifty_hostile_tasks_of_one_owner_hold_up_nobody_else(workers: Workers) -> None:
    """One worker is never theirs, and the bystander's turn comes with the first of them that is free."""
    flood = [asyncio.create_task(run(workers, misbehaving.holds_the_interpreter, cpu=LITTLE)) for _ in range(50)]
    await asyncio.sleep(0)
    for number in range(5):
        outcome = await run(workers, misbehaving.answers, number, owner="bystander")
        assert outcome == TaskOutcome(end=TaskEnd.DONE, result=number)
    assert not all(one.done() for one in flood), "the bystander was answered after the flood only"
    for one in flood:
        one.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_owners_whose_tasks_had_to_be_stopped_share_what_is_not_the_last_worker(workers: Workers) -> None:
    """Who has two namespaces gets no second worker for that."""
    for owner in ("one", "two"):
        assert (await run(workers, misbehaving.holds_the_interpreter, owner=owner, cpu=0.05)).end is TaskEnd.TIME
    flood = [
        asyncio.create_task(run(workers, misbehaving.holds_the_interpreter, owner=owner, cpu=LITTLE))
        for owner in ("one", "two") * 5
    ]
    await asyncio.sleep(0)
    assert (await run(workers, misbehaving.answers, 1, owner="bystander")).result == 1
    assert not all(one.done() for one in flood)
    for one in flood:
        one.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_too_many_that_wait_and_those_whose_time_is_over_are_told_so(workers: Workers) -> None:
    assert (await run(workers, misbehaving.answers, 1)).end is TaskEnd.DONE  # a worker is there
    blocked = asyncio.create_task(run(workers, misbehaving.holds_the_interpreter, cpu=2.0))
    await asyncio.sleep(0)
    late = await run(workers, misbehaving.answers, 1, wait=0.1)
    assert late == TaskOutcome(end=TaskEnd.BUSY)
    waiting = [asyncio.create_task(run(workers, misbehaving.answers, 1)) for _ in range(module.MAX_WAITING)]
    await asyncio.sleep(0)
    assert (await run(workers, misbehaving.answers, 1)).end is TaskEnd.BUSY
    assert (await blocked).end is TaskEnd.TIME
    assert {(await one).end for one in waiting} == {TaskEnd.DONE}


async def test_a_worker_leaves_ctrl_c_to_its_parent_and_has_no_socket_of_it(workers: Workers) -> None:
    served = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with served:
        for _ in range(4):
            result = (await run(workers, misbehaving.ignores_signals_and_descriptors)).result
            assert result is not None
            ignores, sockets = result
            assert ignores
            assert len(sockets) == 1


async def test_it_says_when_there_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Workers(1)
    assert "no worker process is there yet" in str(pool.not_ready())
    assert pool.stuck() is None

    def broken() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(module, "STUCK_AFTER", -1.0)
    monkeypatch.setattr(module, "RETRY", 0.01)
    monkeypatch.setattr(pool._context.Process, "start", lambda _: broken())
    async with pool:
        while "no more processes" not in str(pool.not_ready()):
            await asyncio.sleep(0.01)
        assert "no worker process for" in str(pool.stuck())
        assert (await run(pool, misbehaving.answers, 1, wait=0.05)).end is TaskEnd.BUSY


PARENT = """
import asyncio, sys
from stoker.adapters.workers import Workers
from tests.adapters import misbehaving

async def main():
    loop = asyncio.get_running_loop()
    async with Workers(1) as pool:
        print((await pool.run(misbehaving.pid, owner="a", cpu=9, deadline=loop.time() + 99)).result, flush=True)
        await pool.run(misbehaving.sleeps, owner="a", cpu=9, deadline=loop.time() + 999)

asyncio.run(main())
"""


def test_workers_end_with_their_parent_whatever_they_do() -> None:
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "operator" / "src"), str(root)])},
    )
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    status, deadline = Path(f"/proc/{worker}/stat"), time.monotonic() + LONG
    # It is reaped by whoever adopts it.
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.05)
