"""Reads, a piece at a time, the logs of jobs' trainers for what they say that their programs do.

Nothing here may hold up or end a diagnosis: reads are few, small and short, and one that fails leaves what is known.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes.client import ApiError, ForbiddenError
from stoker.api.dljob import TRAINER
from stoker.telemetry.log_marks import bounded, log_marks, read_line
from stoker.telemetry.series import JobFacts, LogMark, PodFacts

logger = logging.getLogger(__name__)

BYTES = 256 * 1024
"""Of one read: some thousand lines."""
PODS = 4
"""Of one job, by rank: what the others log says the same."""
READS = 60
"""A minute, of all jobs together."""
TIMEOUT = 3.0
"""Seconds that one read may take."""
PATIENCE = 5.0
"""Seconds that the reads of one job may take together."""
REMEMBERED = 2_000
"""Pods whose marks are kept."""
MARKS = 100_000
"""Marks that are kept of all of them together: some 40 MB at their longest."""
BEHIND = timedelta(minutes=10)
"""A reader that a chatty program has left further behind goes on with the last minutes."""
REFUSED_FOR = timedelta(minutes=10)
"""After a refusal nothing is asked for so long."""


class LogApi(Protocol):
    """What is asked of the API server; see `Kubernetes.log`."""

    async def log(
        self, namespace: str, pod: str, *, container: str, since: datetime | None, limit: int, timeout: float
    ) -> bytes:
        """A piece of a log. Raises ApiError."""
        ...


@dataclass(slots=True)
class _LogReading:
    """How far a pod's log has been read, and what it said. `is_behind`: the last piece did not reach its end."""

    marks: tuple[LogMark, ...] = ()
    until: datetime | None = None
    is_behind: bool = False
    is_over: bool = False


class PodLogs:
    """The marks of jobs' logs. It remembers what it has read, so that each look reads on from there."""

    def __init__(
        self, api: LogApi, clock: Clock, *, reads: int = READS, pieces: int = 1, patience: float = PATIENCE
    ) -> None:
        """`reads` are those of a minute, `pieces` those of one pod in one look; `patience` is in seconds, a job."""
        self._api = api
        self._clock = clock
        self._allowed = reads
        self._pieces = pieces
        self._patience = patience
        self._reads: deque[float] = deque()
        self._refused_at: float | None = None
        self._readings: OrderedDict[str, _LogReading] = OrderedDict()

    async def marks(self, facts: JobFacts, container: str = TRAINER) -> tuple[LogMark, ...]:
        """What the logs of the job's first pods say, as far as they could be read. Never raises for an API server that
        refuses, is slow or is away.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._read_all(facts, container)
        known = [self._readings[pod.uid] for pod in (*facts.former_pods, *facts.pods) if pod.uid in self._readings]
        return bounded(mark for reading in known for mark in reading.marks)

    async def _read_all(self, facts: JobFacts, container: str) -> None:
        for pod in sorted(facts.pods, key=lambda one: one.rank)[:PODS]:
            if pod.started_at is None or not pod.uid:
                continue  # of a pod that only the status remembers there is no log any more
            for left in reversed(range(self._pieces)):
                if not await self._read_on(facts.namespace, pod, container, is_last=not left):
                    break

    async def _read_on(self, namespace: str, pod: PodFacts, container: str, *, is_last: bool) -> bool:
        """Read a piece; whether there is more."""
        reading = self._readings.setdefault(pod.uid, _LogReading())
        self._readings.move_to_end(pod.uid)
        self._forget()
        if reading.is_over or not self._may_read():
            return False
        end = pod.finished_at or self._clock.now()
        since = reading.until
        if is_last and reading.is_behind and since is not None and end - since > BEHIND:
            since = end - BEHIND
        try:
            piece = await self._api.log(
                namespace, pod.name, container=container, since=since, limit=BYTES, timeout=min(TIMEOUT, self._patience)
            )
        except ForbiddenError:
            self._refused_at = self._clock.monotonic()
            logger.warning("logs may not be read: `get` on pods/log is not granted (the chart's controller.readLogs)")
            return False
        except ApiError as error:
            logger.debug("%s/%s: its log was not read: %s", namespace, pod.name, error)
            return False
        reading.is_behind = len(piece) >= BYTES
        lines = piece.decode("utf-8", "replace").splitlines()
        if reading.is_behind:
            del lines[-1:]  # it may be cut
        last = next((read for line in reversed(lines) if (read := read_line(line)) is not None), None)
        reading.until = reading.until if last is None else last[0]
        reading.marks = bounded((*reading.marks, *log_marks(lines, pod.name)))
        reading.is_over = pod.finished_at is not None and not reading.is_behind
        return reading.is_behind

    def _forget(self) -> None:
        """Forget who was read least lately, beyond REMEMBERED pods and MARKS marks."""
        kept = sum(len(one.marks) for one in self._readings.values())
        while len(self._readings) > 1 and (len(self._readings) > REMEMBERED or kept > MARKS):
            _, oldest = self._readings.popitem(last=False)
            kept -= len(oldest.marks)

    def _may_read(self) -> bool:
        """Whether the account and the budget allow another read; counts it."""
        now = self._clock.monotonic()
        if self._refused_at is not None:
            if now - self._refused_at < REFUSED_FOR.total_seconds():
                return False
            self._refused_at = None
        while self._reads and now - self._reads[0] >= 60:
            self._reads.popleft()
        if len(self._reads) >= self._allowed:
            return False
        self._reads.append(now)
        return True


__all__ = ["LogApi", "PodLogs"]
