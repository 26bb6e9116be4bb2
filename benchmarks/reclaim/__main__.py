"""At least a million job-hours with everything going wrong: wrong reclaims, and how much of what is idle comes back.

    python -m benchmarks.reclaim [--job-hours 1e6] [--seed 1] [--hours 400] [--faults-every 30] [--processes 1]
        [--minutes 60] [--calm]

Small clusters, each with a seed of its own, are simulated one after the other until there are enough job-hours, or the
minutes are over. Exit code 1 when any reclaim was wrong, when less than 95 % of the reclaimable idle GPU-hours came
back in time, or when the controller logged a fault of its own. docs/safety.md says what counts as what.
"""

import argparse
import math
import multiprocessing
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import count, islice

from benchmarks.reclaim.cluster import FAULTS, Result, Scenario, live

ENOUGH_PERCENT = 95.0
SHOWN = 20
"""Wrong reclaims, faults and late stretches that are printed."""


def scenarios(seed: int, hours: float, faults_every: float, *, calm: bool = False) -> Iterator[Scenario]:
    """One cluster after the other; every fifth deletes where the others suspend."""
    for number in count():
        mode = "Delete" if number % 5 == 4 else "Suspend"
        yield Scenario(
            seed=seed * 1_000_003 + number,
            hours=hours,
            faults=not calm,
            faults_every=faults_every,
            reclaim={"mode": mode, "maxGPUPercentPerWindow": 60},
        )


def simulate(clusters: Iterator[Scenario], wanted: float, seconds: float, processes: int) -> Result:
    """Clusters until there are enough job-hours: the same ones for the same seed, however many processes there are."""
    total, done, started = Result(), 0, time.monotonic()
    ahead = islice(clusters, int(wanted))
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        waiting = deque(pool.apply_async(live, (one,)) for one in islice(ahead, 2 * processes))
        while waiting:
            total.add(waiting.popleft().get())
            waiting.extend(pool.apply_async(live, (one,)) for one in islice(ahead, 1))
            done += 1
            taken = time.monotonic() - started
            if done % 10 == 0:
                at = f"{total.job_hours:,.0f} job-hours, {total.actions} reclaims, {len(total.wrong)} wrong"
                back = f"{total.returned_percent:.2f} % returned in time"
                print(f"  {done} clusters in {taken:.0f} s: {at}, {back}", file=sys.stderr, flush=True)
            if total.job_hours >= wanted or taken > seconds:
                break
    return total


def report(result: Result, taken: float) -> bool:
    """Print what came of it; whether all is well."""
    enough = result.returned_percent >= ENOUGH_PERCENT
    counts = result.counts
    rows = [
        ("job-hours", f"{result.job_hours:,.0f}"),
        ("looks at the metrics", f"{counts['ticks']:,}"),
        ("warnings", f"{counts['warnings recorded']:,}"),
        ("warnings cancelled", f"{counts['event ReclaimCancelled']:,}"),
        ("reclaims", f"{result.actions:,}"),
        ("wrong reclaims", f"{len(result.wrong):,}"),
        ("unavoidable races", f"{result.races:,}"),
        *((f"after {how}", f"{number:,}") for how, number in sorted(result.hidden.items())),
        ("reclaimable GPU-hours", f"{result.returned + result.held:,.0f}"),
        ("  returned", f"{result.returned:,.0f}"),
        ("  held by a fault or a rule", f"{result.excused:,.0f}"),
        ("left to caution", f"{result.forgone:,.0f}"),
        ("  of all reclaimable", f"{result.forgone_percent:.2f} %"),
        ("returned in time", f"{result.returned_percent:.2f} %"),
        ("  of all, faults and rules included", f"{result.returned_of_all_percent:.2f} %"),
        ("faults that the controller logged", f"{len(result.errors):,}"),
        ("seconds", f"{taken:,.0f}"),
        ("peak memory of one process, MiB", f"{_peak():,.0f}"),
    ]
    for name, value in rows:
        print(f"{name:40} {value:>14}")
    print("\nwhat was injected")
    for name, number in sorted(counts.items()):
        if name in FAULTS or not name.startswith(("event ", "ticks", "warnings", "reclaims")):
            print(f"  {name:38} {number:>14,}")
    late = sorted(result.late, key=lambda line: -float(line.partition(" ")[0]))
    for title, lines in (("wrong", result.wrong), ("faults", result.errors), ("held longest", late)):
        if lines:
            print(f"\n{title}", *map(str, lines[:SHOWN]), sep="\n  ")
    return enough and not result.wrong and not result.errors


def _peak() -> float:
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024


def main() -> int:
    """Simulate and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--job-hours", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hours", type=float, default=400, help="of each cluster")
    parser.add_argument("--faults-every", type=float, default=30, help="hours, on average, in each cluster")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no other cluster after so many")
    parser.add_argument("--calm", action="store_true", help="nothing goes wrong")
    options = parser.parse_args()
    started = time.monotonic()
    clusters = scenarios(options.seed, options.hours, options.faults_every, calm=options.calm)
    result = simulate(clusters, options.job_hours, 60 * options.minutes, options.processes)
    return 0 if report(result, time.monotonic() - started) else 1


if __name__ == "__main__":
    sys.exit(main())
