"""The measured process: an operator that holds the jobs, and ticks."""

import asyncio
import logging
import re
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.prometheus import served
from benchmarks.screening.cluster import store
from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.source import PrometheusSource
from stoker.controller.assembly import Substitutes
from stoker.controller.scan import Scanner
from tests.controller.assembled import assembled
from tests.controller.cluster import FakeApi


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick cost."""

    queries: int
    megabytes: float
    served_cpu: float
    wall: float
    cpu: float
    examining_cpu: float
    examined: int
    peak_mib: float
    states: dict[str, int]


class PausedClock:
    """Time goes on from a given moment: the history's end stays the present while it is being written."""

    def __init__(self, start: datetime) -> None:
        self._offset = start - datetime.now(UTC)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def monotonic(self) -> float:
        return time.monotonic()


class CountingScanner(Scanner):
    """Knows what the examinations cost, which have a budget of their own."""

    examining_cpu = 0.0

    async def _examine(self, *arguments: object) -> None:
        before = time.process_time()
        await super()._examine(*arguments)  # type: ignore[arg-type]  # handed on as they came
        self.examining_cpu += time.process_time() - before


async def tick(url: str, jobs: int, end: datetime, ticks: int, timeout: timedelta, answer: Connection) -> None:
    """Be the operator for some ticks, and send what each has cost."""
    held = store(jobs, end)
    clock = PausedClock(end)
    async with PrometheusSource(PrometheusAccess(url=url, timeout=timeout), max_skew=None) as source:
        parts = Substitutes(cache=held, scanner=CountingScanner)
        controller = assembled(FakeApi(), clock, metrics=source, substitutes=parts)
        scanner, scan_results = controller.scanner, controller.scan_results
        assert isinstance(scanner, CountingScanner)
        for _ in range(ticks):
            asked = served(url)
            wall, cpu, examining = time.monotonic(), time.process_time(), scanner.examining_cpu
            await scanner.tick()
            cpu, wall = time.process_time() - cpu, time.monotonic() - wall
            now = served(url)
            seen = [scan_results.get(f"00000000-0000-4000-8000-{number:012}") for number in range(jobs)]
            states = Counter("not looked at" if look is None else str(look.idleness.state) for look in seen)
            ranged = now[1] - asked[1]
            answer.send(
                Tick(
                    queries=now[0] - asked[0],
                    megabytes=(now[2] - asked[2]) / 1e6,
                    served_cpu=now[3] - asked[3],
                    wall=wall,
                    cpu=cpu,
                    examining_cpu=scanner.examining_cpu - examining,
                    examined=ranged // 2,
                    peak_mib=peak(),
                    states=states,
                )
            )


def peak() -> float:
    """The process's largest memory in MiB. Not ru_maxrss, which a child has from its parent."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found is not None else float("nan")


def operate(url: str, jobs: int, end: datetime, ticks: int, timeout: timedelta, answer: Connection) -> None:
    """The measured process."""
    logging.basicConfig()
    asyncio.run(tick(url, jobs, end, ticks, timeout, answer))
