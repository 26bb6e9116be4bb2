"""What one look at the whole cluster costs: a Scanner's tick over 100, 1,000 and 10,000 jobs of eight GPUs.

    python -m benchmarks.screening [--jobs 100 1000 10000] [--ticks 4] [--timeout 6] [--all-metrics]

A real Prometheus is given 75 minutes of samples, 30 s apart, of every GPU; then a process of its own, which holds the
jobs and their pods as the operator's watches would, ticks with the real adapter. Printed are, of each tick: the
queries, the bytes on the wire and the CPU seconds that Prometheus spent on them, by its own metrics; the time that the
tick took; the CPU seconds of the process, and how many of them the examinations took; the rest, in milliseconds a job;
its peak memory.

Unless --all-metrics is given, GPUs at work export only the two metrics that the look at the whole cluster reads; the
others stand only where a closer look or an examination may read them.
"""

import argparse
import multiprocessing
import platform
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.prometheus import prometheus
from benchmarks.screening.cluster import EVERY, SCREENED, Job, Kind, Played
from benchmarks.screening.history import push
from benchmarks.screening.tick import Tick, operate
from stoker.adapters.prometheus.access import QUERY_TIMEOUT

MINUTES, STEP = 75, 30.0
SIZES = (100, 1_000, 10_000)


def fill(url: str, jobs: int, end: datetime, *, all_metrics: bool) -> tuple[int, int]:
    """Write every GPU's past; how many series and samples it has."""
    count = int(MINUTES * 60 / STEP)
    times = end.timestamp() - STEP * np.arange(count)[::-1]
    played = Played(count, STEP)
    pushed = push(
        url,
        (
            series
            for number in range(jobs)
            for job in [Job(number)]
            for series in played.series(job, SCREENED if job.kind is Kind.BUSY and not all_metrics else EVERY)
        ),
        times,
    )
    return pushed // count, pushed


# --------------------------------------------------------------------------------------------------------------- report


def measure(jobs: int, ticks: int, timeout: timedelta, *, all_metrics: bool) -> None:
    """Print a table of one size."""
    end = datetime.now(UTC).replace(microsecond=0)
    with tempfile.TemporaryDirectory() as name, prometheus(Path(name)) as url:
        started = time.monotonic()
        series, samples = fill(url, jobs, end, all_metrics=all_metrics)
        took = time.monotonic() - started
        print(
            f"\n{jobs:,} jobs, {8 * jobs:,} GPUs: {series:,} series, {samples / 1e6:.1f} million samples, "
            f"written in {took:.0f} s"
        )
        print("tick queries examined  MB wire  Prometheus' CPU s  tick s  CPU s  of it examining  CPU ms/job  peak MiB")
        here, there = multiprocessing.Pipe()
        operator = multiprocessing.get_context("spawn").Process(
            target=operate, args=(url, jobs, end, ticks, timeout, there), daemon=True
        )
        operator.start()
        there.close()
        seen: dict[str, int] = {}
        for number in range(1, ticks + 1):
            try:
                cost: Tick = here.recv()
            except EOFError:
                print("the operator's process ended")
                break
            own = cost.cpu - cost.examining_cpu
            seen = cost.states
            print(
                f"{number:4} {cost.queries:7} {cost.examined:8} {cost.megabytes:8.2f} {cost.served_cpu:17.2f} "
                f"{cost.wall:7.2f} {cost.cpu:6.2f} {cost.examining_cpu:16.2f} {1000 * own / jobs:11.3f} "
                f"{cost.peak_mib:9.0f}"
            )
        operator.join()
        print(", ".join(f"{count:,} {state}" for state, count in sorted(seen.items())))


def main() -> None:
    """Measure the sizes asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="+", default=SIZES)
    parser.add_argument("--ticks", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=QUERY_TIMEOUT.total_seconds(), help="seconds a query may take")
    parser.add_argument("--all-metrics", action="store_true", help="twelve metrics of every GPU")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {multiprocessing.cpu_count()} cores, Python {platform.python_version()}")
    for jobs in arguments.jobs:
        measure(jobs, arguments.ticks, timedelta(seconds=arguments.timeout), all_metrics=arguments.all_metrics)


if __name__ == "__main__":
    main()
