"""Between which samples each pod of a job lies: its life, where nothing else tells it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from stoker.telemetry.series import JobFacts, JobSeries, PodFacts

SILENCE = timedelta(minutes=10)
"""A pod without samples for this long has ended, where nobody says that it still runs. Exporters restart sooner."""

Extent = tuple[datetime, datetime]
"""The first sample's step's beginning, and the last sample's step's end."""


def extents(series: JobSeries) -> Mapping[str, Extent]:
    """By pod, from its first to its last sample of any GPU; pods without samples are left out."""
    found: dict[str, Extent] = {}
    for gpu in series.gpus:
        known = np.zeros(len(series.times), dtype=np.bool_)
        for values in gpu.signals.values():
            known |= np.isfinite(values)
        places = np.flatnonzero(known)
        if len(places):
            first = datetime.fromtimestamp(float(series.times[places[0]]) - series.step, tz=UTC)
            last = datetime.fromtimestamp(float(series.times[places[-1]]), tz=UTC)
            before = found.get(gpu.pod, (first, last))
            found[gpu.pod] = (min(first, before[0]), max(last, before[1]))
    return found


def lived(facts: JobFacts, seen: Mapping[str, Extent], now: datetime, *, starts: bool, ends: bool) -> JobFacts:
    """The facts with each pod's start, or end, or both, taken from its samples. A pod without samples keeps the job's
    first start; one that was sampled lately still runs.
    """
    first = min((start for start, _ in seen.values()), default=None)
    last = max((end for _, end in seen.values()), default=None)

    def placed(pod: PodFacts) -> PodFacts:
        start, end = seen.get(pod.name, (first, last))
        if starts:
            pod = replace(pod, started_at=start)
        if ends:
            over = end is not None and now - end > SILENCE
            pod = replace(pod, finished_at=end if over else None, ready=not over)
        return pod

    pods = sorted((placed(pod) for pod in (*facts.former_pods, *facts.pods)), key=lambda pod: _order(pod, now))
    latest = {pod.rank: pod for pod in pods}
    return replace(
        facts,
        pods=tuple(pod for _, pod in sorted(latest.items())),
        former_pods=tuple(pod for pod in pods if pod is not latest[pod.rank]),
    )


def _order(pod: PodFacts, now: datetime) -> tuple[datetime, datetime]:
    return pod.started_at or now, pod.finished_at or now


__all__ = ["Extent", "extents", "lived"]
