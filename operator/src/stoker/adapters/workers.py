"""Runs functions in processes of their own, which are killed and replaced when they take too much time or memory.

A thread that computes can't be stopped, and where it holds the interpreter it stops the event loop, too. A process can
be killed, and what it did to itself concerns whoever asked for it, and nobody else.

Time is given in two ways. `cpu` is processor time: a busy machine does not shorten it, and when it is over the kernel
ends the worker (SIGPROF), whatever it is doing. `deadline` is a time of the loop's clock, until which somebody waits
for the answer.
"""

import asyncio
import contextlib
import fcntl
import logging
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")

MEMORY = 256 * 1024 * 1024
"""Bytes that a worker may take beyond what it has when it is ready."""
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes of what a worker is given, and of what it answers."""
MAX_WAITING = 64
"""Of one owner's tasks so many may wait for a worker."""
COSTLY_FOR = 60.0
"""Seconds for which an owner is counted among the costly ones after a task that had to be stopped."""
START_TIMEOUT = 60.0
"""Seconds that a worker may take to import the rules, on a loaded node."""
RETRY = 1.0
"""Seconds until another try to start a worker."""
STUCK_AFTER = 120.0
"""Seconds without any worker after which only a restart of the process may help."""

_HEADER = struct.Struct("!BI")


class TaskEnd(Enum):
    """How a task ended."""

    DONE = "done"
    RAISED = "raised"  # the function raised
    TIME = "time"  # its processor time was over
    MEMORY = "memory"  # it took more memory than a worker may
    LATE = "late"  # the deadline came while it was running
    BUSY = "busy"  # the deadline came before a worker was free, or too many were waiting
    DIED = "died"  # the worker died otherwise: a crash in a library


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome(Generic[T]):
    """How a task ended, and the last result that there was by then; `detail` is a traceback, or how the worker died."""

    end: TaskEnd
    result: T | None = None
    detail: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class _Task:
    """A function with its arguments, which waits or runs."""

    work: bytes
    owner: str
    deadline: float
    outcome: asyncio.Future[TaskOutcome[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    process: ForkServerProcess
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Workers:
    """Some processes that run functions for many owners. An asynchronous context manager.

    No owner gets all of them: of several workers one at least is left to the others, and the same holds for those
    owners together whose tasks had to be stopped lately. Beyond that owners take turns.

    `warm_up` is called in each worker before its first task. `modules` are imported once, in the process that the
    workers are forked from, so that a new one is there within some hundredths of a second.
    """

    def __init__(
        self,
        count: int,
        *,
        warm_up: Callable[[], None] | None = None,
        modules: Sequence[str] = (),
        memory: int = MEMORY,
    ) -> None:
        self._count = count
        self._warm_up = warm_up
        self._memory = memory
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["__main__", __name__, *modules])
        self._starting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._waiting: dict[str, deque[_Task]] = {}
        """By owner, who comes next first."""
        self._running: list[str] = []
        """The owners of the tasks that run."""
        self._costly: dict[str, float] = {}
        """Until when an owner counts as costly."""
        self._slots: list[asyncio.Task[None]] = []
        self._first = asyncio.Event()
        self._alive = 0
        self._alive_at = 0.0
        self._problem: str | None = None

    async def __aenter__(self) -> Self:
        self._alive_at = asyncio.get_running_loop().time()
        self._slots = [asyncio.create_task(self._serve(), name=f"worker {number}") for number in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.cancel()
        await asyncio.gather(*self._slots, return_exceptions=True)
        for tasks in self._waiting.values():
            for task in tasks:
                _settle(task, TaskOutcome(end=TaskEnd.BUSY))
        self._waiting.clear()

    async def ready(self) -> None:
        """Wait until a worker is there."""
        await self._first.wait()

    def not_ready(self) -> str | None:
        """Why nothing can be run now, or None."""
        return None if self._alive else self._problem or "no worker process is there yet"

    def stuck(self) -> str | None:
        """Says so when there has been no worker for so long that only a restart may help, or None."""
        if self._alive or not self._slots:
            return None
        without = asyncio.get_running_loop().time() - self._alive_at
        return f"no worker process for {without:.0f} s: {self.not_ready()}" if without > STUCK_AFTER else None

    async def run(
        self, function: Callable[..., Iterator[T]], *arguments: Any, owner: str, cpu: float, deadline: float
    ) -> TaskOutcome[T]:
        """Run a function of a module's top level, whose results each replace the one before.

        `cpu` are seconds of processor time, `deadline` is a time of the running loop. Arguments and results are
        pickled. Raises nothing of what happens in the worker.
        """
        work = pickle.dumps((function, arguments, cpu), protocol=pickle.HIGHEST_PROTOCOL)
        if len(work) > MAX_MESSAGE:
            return TaskOutcome(end=TaskEnd.MEMORY, detail=f"its arguments take more than {MAX_MESSAGE} bytes")
        tasks = self._waiting.setdefault(owner, deque())
        if len(tasks) >= MAX_WAITING:
            return TaskOutcome(end=TaskEnd.BUSY, detail=f"{MAX_WAITING} others of {owner} are waiting")
        loop = asyncio.get_running_loop()
        task = _Task(work=work, owner=owner, deadline=deadline, outcome=loop.create_future())
        tasks.append(task)
        self._changed.set()
        expiry = loop.call_at(deadline, self._expire, task)
        try:
            return await task.outcome
        finally:
            expiry.cancel()
            self._forget(task)

    # ------------------------------------------------------------------------------------------------ who comes next

    def _expire(self, task: _Task) -> None:
        """The end of a task that no worker has taken; of one that runs its worker's slot sees to it."""
        if self._forget(task):
            _settle(task, TaskOutcome(end=TaskEnd.BUSY))

    def _forget(self, task: _Task) -> bool:
        """Take a task out of the queue; whether it was in it."""
        tasks = self._waiting.get(task.owner)
        if tasks is None or task not in tasks:
            return False
        tasks.remove(task)
        if not tasks:
            del self._waiting[task.owner]
        return True

    async def _next(self) -> _Task:
        while (task := self._take()) is None:
            self._changed.clear()
            await self._changed.wait()
        return task

    def _take(self) -> _Task | None:
        """The first task of the owner whose turn it is; who has had his goes to the end."""
        now = asyncio.get_running_loop().time()
        self._costly = {owner: until for owner, until in self._costly.items() if until > now}
        for owner, tasks in self._waiting.items():
            if self._may_run(owner):
                task = tasks.popleft()
                del self._waiting[owner]
                if tasks:
                    self._waiting[owner] = tasks
                return task
        return None

    def _may_run(self, owner: str) -> bool:
        most = max(self._count - 1, 1)
        if owner in self._costly and sum(one in self._costly for one in self._running) >= most:
            return False
        return self._running.count(owner) < most

    # ------------------------------------------------------------------------------------------------ one worker's life

    async def _serve(self) -> None:
        """Keep one worker running, and give it tasks."""
        while True:
            worker = await self._start()
            self._alive += 1
            self._first.set()
            try:
                while await self._work_with(worker, await self._next()):
                    pass
            finally:
                self._alive -= 1
                self._alive_at = asyncio.get_running_loop().time()
                await self._end(worker)

    async def _start(self) -> _Worker:
        while True:
            try:
                async with self._starting:
                    return await self._started()
            except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError) as error:
                self._problem = f"no worker process can be started: {error}"
                logger.error("No worker process can be started: %r", error)  # noqa: TRY400 - its traceback says no more
                await asyncio.sleep(RETRY)

    async def _started(self) -> _Worker:
        ours, theirs = socket.socketpair()
        process = self._context.Process(
            target=_main, args=(theirs, self._warm_up, self._memory), name="stoker worker", daemon=True
        )
        try:
            # It waits for the process that the workers are forked from, which imports everything the first time.
            await asyncio.to_thread(process.start)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        worker = _Worker(process=process, reader=reader, writer=writer)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await _receive(reader)
        except BaseException:
            await self._end(worker)
            raise
        return worker

    async def _work_with(self, worker: _Worker, task: _Task) -> bool:
        """Have a worker do a task; whether it can be given another one."""
        self._running.append(task.owner)
        result: Any = None
        try:
            async with asyncio.timeout_at(task.deadline):
                worker.writer.write(_HEADER.pack(0, len(task.work)) + task.work)
                await worker.writer.drain()
                while True:
                    kind, answer = await _receive(worker.reader)
                    if kind is not _Kind.RESULT:
                        break
                    result = answer
            end = {_Kind.DONE: TaskEnd.DONE, _Kind.RAISED: TaskEnd.RAISED, _Kind.MEMORY: TaskEnd.MEMORY}[kind]
            detail = answer if kind is _Kind.RAISED else ""
        except TimeoutError:
            end, detail = TaskEnd.LATE, ""
        except (OSError, EOFError, asyncio.IncompleteReadError):
            end, detail = await self._death(worker)
        except asyncio.CancelledError:
            _settle(task, TaskOutcome(end=TaskEnd.BUSY))
            raise
        finally:
            self._running.remove(task.owner)
            self._changed.set()
        if end in {TaskEnd.TIME, TaskEnd.MEMORY, TaskEnd.LATE, TaskEnd.DIED}:
            self._costly[task.owner] = asyncio.get_running_loop().time() + COSTLY_FOR
        _settle(task, TaskOutcome(end=end, result=result, detail=detail))
        return end in {TaskEnd.DONE, TaskEnd.RAISED}

    async def _death(self, worker: _Worker) -> tuple[TaskEnd, str]:
        """Why a worker has died by itself."""
        await asyncio.to_thread(worker.process.join, 5.0)
        code = worker.process.exitcode
        ended = {
            -signal.SIGPROF: TaskEnd.TIME,
            -signal.SIGABRT: TaskEnd.MEMORY,  # of a library that could not get any
            -signal.SIGKILL: TaskEnd.MEMORY,  # by the kernel, in want of it
        }.get(code if code is not None else 0, TaskEnd.DIED)
        return ended, f"its worker ended with the exit code {code}"

    async def _end(self, worker: _Worker) -> None:
        """Make sure that a worker is gone."""
        worker.writer.close()
        if worker.process.exitcode is None:
            worker.process.kill()
        await asyncio.to_thread(worker.process.join, 5.0)
        with contextlib.suppress(ValueError):  # it is still there: a kill that takes longer, as in a core dump
            worker.process.close()


def _settle(task: _Task, outcome: TaskOutcome[Any]) -> None:
    if not task.outcome.done():
        task.outcome.set_result(outcome)


class _Kind(Enum):
    """What a worker says."""

    READY = 0
    RESULT = 1
    DONE = 2
    RAISED = 3
    MEMORY = 4


async def _receive(reader: asyncio.StreamReader) -> tuple[_Kind, Any]:
    kind, size = _HEADER.unpack(await reader.readexactly(_HEADER.size))
    if size > MAX_MESSAGE:
        raise EOFError(f"an answer of {size} bytes")
    body = await reader.readexactly(size)
    return _Kind(kind), pickle.loads(body)  # noqa: S301 - from our own process


# ---------------------------------------------------------------------------------------------------- in the worker


def _main(connection: socket.socket, warm_up: Callable[[], None] | None, memory: int) -> None:
    """The worker: does one task after the other for as long as there is somebody to give it any."""
    # Whoever stops the whole process group stops the parent, which still answers for a while and then ends its workers.
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.SIG_IGN)
    for ending in (signal.SIGPROF, signal.SIGIO):
        signal.signal(ending, signal.SIG_DFL)
    _die_with_parent()
    if warm_up is not None:
        warm_up()
    _limit_memory(memory)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody is there any more
        _work(connection)


def _work(connection: socket.socket) -> None:
    stream = connection.makefile("rwb")

    def say(kind: _Kind, content: Any = None) -> None:
        body = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
        if len(body) > MAX_MESSAGE:
            raise MemoryError
        stream.write(_HEADER.pack(kind.value, len(body)) + body)
        stream.flush()

    say(_Kind.READY)
    while len(header := stream.read(_HEADER.size)) == _HEADER.size:
        work = stream.read(_HEADER.unpack(header)[1])
        arguments = None
        try:
            function, arguments, cpu = pickle.loads(work)  # noqa: S301 - from our parent
            signal.setitimer(signal.ITIMER_PROF, cpu)
            for result in function(*arguments):
                say(_Kind.RESULT, result)
        except MemoryError:
            signal.setitimer(signal.ITIMER_PROF, 0)
            say(_Kind.MEMORY)
            return  # whatever it still holds goes with it
        except Exception:
            signal.setitimer(signal.ITIMER_PROF, 0)
            say(_Kind.RAISED, traceback.format_exc())
        else:
            signal.setitimer(signal.ITIMER_PROF, 0)
            say(_Kind.DONE)
        del work, arguments


def _die_with_parent() -> None:
    """Have the kernel end this process (SIGIO) when the one that asked for it ends, which closes a pipe that both have.

    The parent by descent is the fork server, which itself waits for its children.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_memory(more: int) -> None:
    """Let this process take so many bytes more than it has now."""
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


__all__ = ["TaskEnd", "TaskOutcome", "Workers"]
