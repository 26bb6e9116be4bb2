"""Samples onto one regular grid: missing stays missing, and nothing from outside a container's life."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stoker.findings.quantity import small_number
from stoker.telemetry.series import (
    FloatArray,
    GpuSeries,
    GpuSignal,
    JobFacts,
    JobSeries,
    PodFacts,
    PodSeries,
    PodSignal,
)

BoolArray = npt.NDArray[np.bool_]
Signal = TypeVar("Signal", GpuSignal, PodSignal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Samples of one signal as a source delivers them, in the signal's unit: pairs of (seconds since the epoch, value),
    or an array of shape (samples, 2).

    `gpu` and what follows it are set for a GPU's signal.
    """

    signal: GpuSignal | PodSignal
    pod: str
    points: Sequence[tuple[float, float]] | FloatArray
    gpu: str | None = None
    index: str | None = None
    context_idle_watts: float | None = None
    shared: bool = False


def job_series(
    facts: JobFacts,
    traces: Iterable[Trace],
    *,
    start: datetime,
    end: datetime,
    step: timedelta,
    complete: bool = True,
) -> JobSeries:
    """Place the traces of a job's pods onto the grid of `step` that begins at `start`.

    Several samples in one step are averaged, so a value that was scraped twice counts once. Pods that the job doesn't
    have are left out. Raises ValueError for naive times or a step that isn't positive.
    """
    if start.tzinfo is None or end.tzinfo is None:
        raise ValueError("start and end need a time zone")
    if step <= timedelta(0):
        raise ValueError(f"the step must be positive, not {step}")
    seconds = step.total_seconds()
    origin = start.timestamp()
    cells = max(int((end.timestamp() - origin) / seconds + 1e-6), 0)
    times = origin + seconds * np.arange(1, cells + 1, dtype=np.float64)
    lives = job_lives(facts, times, seconds)

    devices: dict[tuple[str, str], dict[GpuSignal, FloatArray]] = {}
    identities: dict[tuple[str, str], Trace] = {}
    pods: dict[str, dict[PodSignal, FloatArray]] = {}
    for trace in traces:
        if trace.pod not in lives:
            continue
        values = np.where(lives[trace.pod], _place(trace.points, origin, seconds, cells), np.nan)
        if isinstance(trace.signal, PodSignal):
            _merge(pods.setdefault(trace.pod, {}), trace.signal, values)
        elif trace.gpu is not None:
            key = (trace.pod, trace.gpu)
            identities.setdefault(key, trace)
            _merge(devices.setdefault(key, {}), trace.signal, values)

    return JobSeries(
        times=times,
        step=seconds,
        gpus=tuple(
            GpuSeries(
                pod=pod,
                gpu=gpu,
                signals=devices[pod, gpu],
                index=identities[pod, gpu].index,
                context_idle_watts=identities[pod, gpu].context_idle_watts,
                shared=identities[pod, gpu].shared,
            )
            for pod, gpu in sorted(devices, key=lambda key: (key[0], _order(identities[key].index), key[1]))
        ),
        pods=tuple(PodSeries(pod=pod, signals=signals) for pod, signals in sorted(pods.items())),
        complete=complete,
    )


def job_lives(facts: JobFacts, times: FloatArray, step: float) -> dict[str, BoolArray]:
    """The life of each pod that the job has or had, by name.

    A former pod whose end nobody has seen lived at most until its successor had a node.
    """
    lives: dict[str, BoolArray] = {}
    following: dict[int, datetime] = {}
    for pod in (*facts.pods, *reversed(facts.former_pods)):
        alive = life(pod, times, step)
        successor = following.get(pod.rank)
        if pod.finished_at is None and successor is not None:
            alive &= times - step / 2 < successor.timestamp()
        starts = [attempt.started_at for attempt in pod.attempts]
        starts += [start for start in (pod.scheduled_at, pod.started_at) if start is not None]
        if starts:
            following[pod.rank] = min(starts)
        lives[pod.name] = alive
    return lives


def life(pod: PodFacts, times: FloatArray, step: float) -> BoolArray:
    """The steps of the grid in which the pod's container ran for at least half of the step, in any of its runs."""
    middles = times - step / 2
    alive = np.zeros(len(times), dtype=np.bool_)
    for attempt in pod.attempts:
        alive |= (middles >= attempt.started_at.timestamp()) & (middles < attempt.finished_at.timestamp())
    if pod.started_at is None:
        return alive
    latest = middles >= pod.started_at.timestamp()
    if pod.finished_at is not None:
        latest &= middles < pod.finished_at.timestamp()
    return alive | latest


def _place(points: Sequence[tuple[float, float]] | FloatArray, origin: float, step: float, cells: int) -> FloatArray:
    """The mean of each step's samples; NaN for a step without a finite one. A step holds its end, not its start."""
    if len(points) == 0:
        return np.full(cells, np.nan)
    times, values = np.array(points, dtype=np.float64).T
    places = np.ceil((times - origin) / step - 1e-6).astype(np.int64) - 1
    kept = (places >= 0) & (places < cells) & np.isfinite(values)
    counts = np.bincount(places[kept], minlength=cells)
    sums = np.bincount(places[kept], weights=values[kept], minlength=cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def _merge(signals: dict[Signal, FloatArray], signal: Signal, values: FloatArray) -> None:
    """Add a trace's steps to those the signal has: the same device under changed labels continues its own series."""
    known = signals.get(signal)
    signals[signal] = values if known is None else np.where(np.isnan(known), values, known)


def _order(index: str | None) -> tuple[int, str]:
    """GPU 10 comes after GPU 9."""
    number = small_number(index)
    return (1 << 30, index or "") if number is None else (number, "")
