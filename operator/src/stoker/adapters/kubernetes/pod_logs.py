"""Reads the logs of jobs' trainer containers piece by piece for marks, such as the start of an epoch.

Used by the scan and by `stoker diagnose`. A log never delays or ends a diagnosis: reads are few, small and short. A
failed read leaves the marks that are known.
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
"""Bytes of one read: some thousand lines."""
PODS = 4
"""Pods of one job that are read, the lowest ranks first. The other ranks log the same."""
READS = 60
"""Reads a minute for all jobs together."""
TIMEOUT = 3.0
"""Seconds that one read may take."""
PATIENCE = 5.0
"""Seconds that the reads of one job may take together."""
REMEMBERED = 2_000
"""Pods whose marks are kept in memory."""
MARKS = 100_000
"""Marks of all pods together that are kept: about 40 MB if all have the greatest length."""
BEHIND = timedelta(minutes=10)
"""Distance from the log's end from which a reader skips to the last minutes. A verbose program may log faster than the
reads follow.
"""
REFUSED_FOR = timedelta(minutes=10)
"""Time without any read after the API server has refused one as forbidden."""


class LogApi(Protocol):
    """The part of the API client that reads logs; see `Kubernetes.log`."""

    async def log(
        self, namespace: str, pod: str, *, container: str, since: datetime | None, limit: int, timeout: float
    ) -> bytes:
        """Read at most `limit` bytes of a log from the time `since`. Raises ApiError."""
        ...


@dataclass(slots=True)
class _LogReading:
    """The progress in one pod's log and the marks found so far. until: the time of the last line read. is_behind: the
    last piece did not reach the log's end. is_over: the pod has ended and its log was read to the end.
    """

    marks: tuple[LogMark, ...] = ()
    until: datetime | None = None
    is_behind: bool = False
    is_over: bool = False


class PodLogs:
    """Reads the marks of jobs' logs. Each call continues where the previous one stopped."""

    def __init__(
        self, api: LogApi, clock: Clock, *, reads: int = READS, pieces: int = 1, patience: float = PATIENCE
    ) -> None:
        """reads: reads a minute. pieces: reads of one pod in one call. patience: seconds for one job in one call."""
        self._api = api
        self._clock = clock
        self._allowed = reads
        self._pieces = pieces
        self._patience = patience
        self._reads: deque[float] = deque()
        self._refused_at: float | None = None
        self._readings: OrderedDict[str, _LogReading] = OrderedDict()

    async def marks(self, facts: JobFacts, container: str = TRAINER) -> tuple[LogMark, ...]:
        """The marks in the logs of the job's first pods, as far as these were read. Raises nothing when the API server
        refuses, is slow or is unavailable.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await self._read_all(facts, container)
        known = [self._readings[pod.uid] for pod in (*facts.former_pods, *facts.pods) if pod.uid in self._readings]
        return bounded(mark for reading in known for mark in reading.marks)

    async def _read_all(self, facts: JobFacts, container: str) -> None:
        for pod in sorted(facts.pods, key=lambda one: one.rank)[:PODS]:
            if pod.started_at is None or not pod.uid:
                continue  # a pod that only the status has no longer has a log
            for left in reversed(range(self._pieces)):
                if not await self._read_on(facts.namespace, pod, container, is_last=not left):
                    break

    async def _read_on(self, namespace: str, pod: PodFacts, container: str, *, is_last: bool) -> bool:
        """Read one piece; True if the log has more."""
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
            del lines[-1:]  # the last line may be incomplete
        last = next((read for line in reversed(lines) if (read := read_line(line)) is not None), None)
        reading.until = reading.until if last is None else last[0]
        reading.marks = bounded((*reading.marks, *log_marks(lines, pod.name)))
        reading.is_over = pod.finished_at is not None and not reading.is_behind
        return reading.is_behind

    def _forget(self) -> None:
        """Drop the least recently read pods beyond REMEMBERED pods and MARKS marks."""
        kept = sum(len(one.marks) for one in self._readings.values())
        while len(self._readings) > 1 and (len(self._readings) > REMEMBERED or kept > MARKS):
            _, oldest = self._readings.popitem(last=False)
            kept -= len(oldest.marks)

    def _may_read(self) -> bool:
        """Whether no recent refusal and no limit of reads a minute forbids a read. If so, it is counted."""
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
