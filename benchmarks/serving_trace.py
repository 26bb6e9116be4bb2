"""What idle rules would have stopped of 143 pods that served a model for a day, and what of that was asked again.

    python -m benchmarks.serving_trace                      # downloads the trace, once
    python -m benchmarks.serving_trace --trace FILE.tar.gz  # where it was brought by other ways

The trace is `pod_gpu_duty_cycle_anon` of GenTD26 (alibaba/clusterdata, cluster-trace-v2026-GenAI), which may be used
for research and study. It is no part of this repository: a copy is kept in the user's cache and held to its hash. It
has each pod's GPU utilization, a sample every 57 s. What else the diagnosis looks at is made up at the quietest
plausible level: a model stays in GPU memory, a core is busy while the GPU is and a hundredth of one otherwise, and the
network is silent.
"""

import argparse
import asyncio
import csv
import hashlib
import io
import json
import math
import tarfile
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from stoker.findings.vocabulary import JobType, ReclaimMode
from stoker.policy.effective import BUILT_IN, EffectiveBrake, EffectivePolicy, EffectiveReclaim
from stoker.reclaim.candidate import MINIMUM_WARNING_GRACE
from stoker.replay import Assumed, JobOutcome, SeriesExaminer, SimulatedConstraints, Simulation
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.past import DevicePast, Grid, JobOutline, JobPast, Outlines, PastPod
from stoker.telemetry.series import FloatArray, GpuSignal, JobFacts, JobSeries, PodSignal
from stoker.telemetry.usage import JobIdentity, Period

URL = (
    "https://raw.githubusercontent.com/alibaba/clusterdata/7a6c496e4f4b6ce6150be8f881cb051bf2abff42/"
    "cluster-trace-v2026-GenAI/pod_gpu_duty_cycle_anon.tar.gz"
)
SHA256 = "c4070218189b2811995c30dd9fefb8a793a83a54dccebe7b41cab2d123916855"
CACHE = Path.home() / ".cache" / "stoker" / "traces" / "pod_gpu_duty_cycle_anon.tar.gz"
STEP = timedelta(seconds=57)
"""Between two samples of the trace."""
COARSE_STEPS = 5
"""Samples in a step of the outlines, some five minutes."""
LONGEST_GAP = timedelta(minutes=3)
"""Without a sample, within a rest. Three samples of the trace."""
JUDGED = timedelta(hours=4)
"""What must be left of the trace after a stop to say whether the pod was asked again."""
LENGTHS = tuple(timedelta(hours=hours) for hours in (0.5, 1, 2, 4, 8))
"""Lengths of a rest after which plain rules stop a pod."""
MODEL_MIB, FREE_MIB = 20_000.0, 28_000.0
"""MiB of GPU memory. Chosen as a diffusion model's on a card of 48 GB."""
BUSY_CORES, QUIET_CORES = 1.0, 0.01
"""CPU cores. A pod whose CPUs rest more than a server's is where the diagnosis is surest that nothing goes on."""
QUIET_BYTES = 1e3
"""bytes/s: probes and metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod of the trace: its samples in the trace's steps, in percent, NaN without one, and the first and last step
    that has one.
    """

    name: str
    util: FloatArray
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A pod that a rule stopped at a time, and when it would have worked again."""

    at: datetime
    again: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a rule does. stopped: stops; again: those of pods that worked again within the trace. judged, judged_again:
    the same of stops that have JUDGED of the trace left.
    """

    rule: str
    stopped: int
    again: int
    judged: int
    judged_again: int


def archive(path: Path | None) -> bytes:
    """The trace, from a file or from where it is published. Raises ValueError for anything else."""
    chosen = path or CACHE
    if path is None and not chosen.exists():
        chosen.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(URL, timeout=60) as answer:
            found = answer.read(64 << 20)
        _checked(found, URL)
        chosen.write_bytes(found)
    return _checked(chosen.read_bytes(), str(chosen))


def _checked(found: bytes, source: str) -> bytes:
    digest = hashlib.sha256(found).hexdigest()
    if digest != SHA256:
        raise ValueError(f"{source}: its SHA-256 is {digest}; the trace has {SHA256}")
    return found


def pods(found: bytes) -> tuple[Grid, list[Pod]]:
    """The grid of the trace, and its pods in the order of their names."""
    with tarfile.open(fileobj=io.BytesIO(found), mode="r:gz") as packed:
        member = next(one for one in packed if one.name.endswith(".csv"))
        text = packed.extractfile(member)
        assert text is not None  # a regular file
        rows = list(csv.DictReader(io.TextIOWrapper(text, "utf-8")))
    samples: dict[str, dict[int, float]] = defaultdict(dict)
    origin = min(float(row["timestamp_anon"]) for row in rows)
    for row in rows:
        place = round((float(row["timestamp_anon"]) - origin) / STEP.total_seconds())
        samples[row["container_ip"]][place] = float(row["value"])
    size = max(max(one) for one in samples.values()) + 1
    grid = Grid(start=datetime.fromtimestamp(origin, UTC), step=STEP, size=size)
    return grid, [_pod(name, one, size) for name, one in sorted(samples.items())]


def _pod(name: str, samples: Mapping[int, float], size: int) -> Pod:
    util = np.full(size, np.nan)
    util[list(samples)] = list(samples.values())
    return Pod(name=f"pod-{name[:12]}", util=util, first=min(samples), last=max(samples))


def rests(pod: Pod) -> Iterator[tuple[int, int, bool]]:
    """The first step of each rest after work, the step after it, and whether it ended in work. A long gap ends a rest,
    too: what happened there is not known.
    """
    most = int(LONGEST_GAP / STEP)
    known = np.flatnonzero(np.isfinite(pod.util))
    begin: int | None = None
    worked = False
    for before, place in zip(np.concatenate(([known[0]], known[:-1])), known, strict=True):
        if begin is not None and place - before > most:
            yield begin, int(before) + 1, False
            begin = None
        if pod.util[place] > 0:
            if begin is not None:
                yield begin, int(place), True
            begin, worked = None, True
        elif begin is None and worked:
            begin = int(place)
    if begin is not None:
        yield begin, int(known[-1]) + 1, False


def plain(grid: Grid, every: Sequence[Pod], length: timedelta) -> list[Stop]:
    """What a rule stops that looks at utilization alone."""
    steps = math.ceil(length / STEP)
    return [
        Stop(at=grid.time(first + steps), again=grid.time(last) if again else None)
        for pod in every
        for first, last, again in rests(pod)
        if last - first >= steps
    ]


class _Recorded:
    """The pods' series, as Prometheus would have had them."""

    def __init__(self, grid: Grid, every: Iterable[Pod]) -> None:
        self._grid = grid
        self._pods = {pod.name: pod for pod in every}

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """As SeriesSource."""
        traces = [trace for pod in facts.pods for trace in self._traces(self._pods[pod.name])]
        return job_series(facts, traces, start=start, end=end, step=max(step, STEP))

    def _traces(self, pod: Pod) -> Iterator[Trace]:
        places = np.flatnonzero(np.isfinite(pod.util))
        times = self._grid.start.timestamp() + places * STEP.total_seconds()
        util = pod.util[places]

        def points(values: FloatArray | float) -> FloatArray:
            return np.column_stack((times, np.broadcast_to(values, times.shape)))

        for signal, values in (
            (GpuSignal.UTIL, util),
            (GpuSignal.MEMORY_USED, MODEL_MIB),
            (GpuSignal.MEMORY_FREE, FREE_MIB),
        ):
            yield Trace(signal=signal, pod=pod.name, gpu="0", index="0", points=points(values))
        cores = np.where(util > 0, BUSY_CORES, QUIET_CORES)
        for pod_signal, values in (
            (PodSignal.CPU, cores),
            (PodSignal.NET_RX, QUIET_BYTES),
            (PodSignal.NET_TX, QUIET_BYTES),
        ):
            yield Trace(signal=pod_signal, pod=pod.name, points=points(values))


async def replayed(grid: Grid, every: Sequence[Pod], policy: EffectivePolicy, job_type: JobType) -> list[JobOutcome]:
    """What a policy would have done, had each pod been a job of that type."""
    outlines = _outlines(grid, every, job_type)
    constraints = SimulatedConstraints(
        outlines, {job.key: policy for job in outlines.jobs}, minimum_warning_grace=MINIMUM_WARNING_GRACE
    )
    examiner = SeriesExaminer(_Recorded(grid, every))
    simulation = Simulation(outlines.period, constraints, examiner, assumed=Assumed(has_persistent_volume=True))
    for pod in every:
        simulation.add(_past(grid, pod, job_type), policy)
    return list(await simulation.run())


def _identity(pod: Pod, job_type: JobType) -> JobIdentity:
    return JobIdentity(uid=pod.name, namespace="serving", name=pod.name, job_type=job_type.value, gpus=1)


def _past(grid: Grid, pod: Pod, job_type: JobType) -> JobPast:
    steps = np.arange(grid.size)
    held = (steps > pod.first) & (steps <= pod.last)
    known = np.isfinite(pod.util)
    return JobPast(
        identity=_identity(pod, job_type),
        grid=grid,
        held=held,
        ready=np.where(held, 1.0, np.nan),
        pods=(
            PastPod(
                name=pod.name,
                rank=0,
                first_seen=grid.time(pod.first),
                last_seen=grid.time(pod.last),
                starts=(grid.time(pod.first),),
            ),
        ),
        devices=(
            DevicePast(
                pod=pod.name,
                gpu="0",
                index="0",
                peaks={GpuSignal.UTIL: pod.util},
                sampled=known,
                doubtful=np.zeros(grid.size, dtype=np.bool_),
                shared=np.zeros(grid.size, dtype=np.bool_),
            ),
        ),
    )


def _outlines(grid: Grid, every: Sequence[Pod], job_type: JobType) -> Outlines:
    coarse = Grid(start=grid.start, step=COARSE_STEPS * STEP, size=grid.size // COARSE_STEPS)
    jobs = tuple(_outline(coarse, pod, job_type) for pod in every)
    return Outlines(
        period=Period(start=grid.start, end=grid.time(grid.size - 1)),
        grid=coarse,
        jobs=jobs,
        cluster_gpus=np.full(coarse.size, float(len(every))),
    )


def _outline(coarse: Grid, pod: Pod, job_type: JobType) -> JobOutline:
    blocks = pod.util[: coarse.size * COARSE_STEPS].reshape(coarse.size, COARSE_STEPS)
    known = np.isfinite(blocks).any(axis=1)
    peak = np.where(known, np.max(np.nan_to_num(blocks, nan=-np.inf), axis=1), np.nan)
    steps = np.arange(coarse.size) * COARSE_STEPS
    return JobOutline(
        identity=_identity(pod, job_type),
        held=(steps >= pod.first) & (steps <= pod.last),
        peak=peak,
        used=peak / 100,
        sampled=np.where(known, 1.0, np.nan),
    )


def stops(outcomes: Iterable[JobOutcome]) -> list[Stop]:
    """What a policy has stopped."""
    return [Stop(at=one.at, again=one.returned_at) for outcome in outcomes for one in outcome.reclaims]


def result(rule: str, grid: Grid, found: Sequence[Stop]) -> Result:
    """Count."""
    end = grid.time(grid.size - 1)
    judged = [one for one in found if end - one.at >= JUDGED]
    return Result(
        rule=rule,
        stopped=len(found),
        again=sum(one.again is not None for one in found),
        judged=len(judged),
        judged_again=sum(one.again is not None for one in judged),
    )


def results(grid: Grid, every: Sequence[Pod]) -> Iterator[Result]:
    """Of plain rules, and of Stoker in several ways."""
    for length in LENGTHS:
        hours = f"{length / timedelta(hours=1):g} h"
        yield result(f"any rest of {hours}", grid, plain(grid, every, length))
    suspend = replace(BUILT_IN.reclaim, mode=ReclaimMode.SUSPEND)
    unbounded = replace(
        suspend,
        max_jobs_per_window=len(every),
        max_gpu_percent_per_window=100,
        mass_idle_brake=EffectiveBrake(min_jobs=len(every) + 1),
    )

    def run(rule: str, reclaim: EffectiveReclaim, job_type: JobType) -> Result:
        policy = replace(BUILT_IN, reclaim=reclaim, sources=("benchmark",))
        outcomes = asyncio.run(replayed(grid, every, policy, job_type))
        return result(rule, grid, stops(outcomes))

    yield run("Stoker, as Training, without bounds and brake", unbounded, JobType.TRAINING)
    yield run("Stoker, as Training, built-in bounds and brake", suspend, JobType.TRAINING)
    yield run("Stoker, as Serving", unbounded, JobType.SERVING)


def main() -> None:
    """Replay, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="the archive, instead of downloading it")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    options = parser.parse_args()
    try:
        grid, every = pods(archive(options.trace))
    except (OSError, urllib.error.URLError, ValueError) as error:
        parser.exit(2, f"the trace can't be read: {error}\n")
    found = list(results(grid, every))
    if options.format == "json":
        print(json.dumps([asdict(one) for one in found], indent=2))
        return
    print("| rule | stopped | of these asked again | stopped with 4 h left | of these asked again |")
    print("|---" * len(asdict(found[0])) + "|")
    for one in found:
        print(f"| {one.rule} | {one.stopped} | {one.again} | {one.judged} | {one.judged_again} |")


if __name__ == "__main__":
    main()
