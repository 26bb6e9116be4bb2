"""A job's utilization over time in so many columns, for pictures."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import Examination, examine
from stoker.findings.diagnosis import DiagnosisThresholds
from stoker.telemetry.series import JobFacts, JobSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """One GPU of one pod. `cells` hold its mean use in percent, None without a sample; `alive` says in which columns
    its container ran. `average_percent` is over its whole life, None without a sample.
    """

    pod: str
    rank: int
    gpu: str
    average_percent: float | None
    cells: tuple[float | None, ...]
    alive: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The strips of a job's GPUs, by rank and number, over one stretch of time."""

    start: datetime
    end: datetime
    columns: int
    strips: tuple[Strip, ...]

    def column(self, time: datetime) -> float:
        """Where a time stands, within 0..columns."""
        share = (time - self.start) / (self.end - self.start)
        return min(max(share, 0.0), 1.0) * self.columns


def timeline(
    facts: JobFacts, series: JobSeries, thresholds: DiagnosisThresholds, now: datetime, columns: int
) -> Timeline | None:
    """Cut a job's series into `columns` equal pieces of time, from its first to its last step of life; None without
    any life.

    A column that is shorter than a step shows the step that it lies in.
    """
    exam = examine(facts, series, thresholds, now)
    alive = np.flatnonzero(exam.life)
    if not len(alive):
        return None
    first, last = int(alive[0]), int(alive[-1]) + 1
    edges = [first + (last - first) * column / columns for column in range(columns + 1)]
    pieces = [slice(int(left), max(int(np.ceil(right)), int(left) + 1)) for left, right in pairwise(edges)]
    return Timeline(
        start=exam.time(first),
        end=exam.time(last),
        columns=columns,
        strips=tuple(_strips(exam, pieces)),
    )


def _strips(exam: Examination, pieces: list[slice]) -> Iterator[Strip]:
    for device in sorted(exam.devices, key=lambda device: device.place):
        known = np.isfinite(device.use)
        yield Strip(
            pod=device.pod.name,
            rank=device.pod.rank,
            gpu=device.label,
            average_percent=float(device.use[known].mean()) if known.any() else None,
            cells=tuple(float(np.nanmean(device.use[piece])) if known[piece].any() else None for piece in pieces),
            alive=tuple(bool(device.life[piece].any()) for piece in pieces),
        )


__all__ = ["Strip", "Timeline", "timeline"]
