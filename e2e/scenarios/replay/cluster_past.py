"""Days of a small cluster whose truth is known: jobs that were forgotten, that came back, that only look idle."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from e2e.scenarios.metrics.recorded import History, Track, Value

HOUR = 3600.0
STEP = 30.0
Share = Callable[[float], float | None]
"""Percent as a function of the hours before the history's end; None: no sample."""


@dataclass(frozen=True, kw_only=True)
class PastJob:
    """A job of one pod that held its GPUs from `start` until `end` hours before the history's end."""

    name: str
    gpus: int
    start: float
    end: float
    utilization: Share
    namespace: str = "research"
    job_type: str = "Training"
    owner: str = "mina"
    sends: float = 0.0
    """bytes/s"""
    also: tuple[tuple[str, Share], ...] = ()
    """Other metrics of its GPUs, by the exporter's names."""
    lends: bool = False
    """Another pod, of no DLJob, holds its first GPU as well."""
    pods: tuple[tuple[str, float], ...] = ()
    """Its pods and since when each was there, the oldest first; one from the start on, where it is empty."""

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def lives(self) -> list[tuple[str, float, float]]:
        """Each pod with its first and its last hour."""
        pods = self.pods or ((f"{self.name}-0-x7k2p", self.start),)
        ends = [since for _, since in pods[1:]] + [self.end]
        return [(name, since, end) for (name, since), end in zip(pods, ends, strict=True)]


def always(value: float) -> Share:
    """The same all the time."""
    return lambda _: value


def busy(job: PastJob) -> Share:
    """The CPU cores of a job that computes while its GPUs do, and at rest takes well below what may hide an upload."""
    return lambda age: 4.0 if (job.utilization(age) or 0) > 0 else 0.01


def work_until(hour: float) -> Share:
    """At work until so many hours before the end, at rest since."""
    return lambda age: 90.0 if age > hour else 0.0


def pause(first: float, last: float) -> Share:
    """At work but between these hours before the end."""
    return lambda age: 0.0 if last < age <= first else 90.0


def record(
    end: datetime, jobs: Iterable[PastJob], *, hours: float, operator_away: tuple[float, float] = (0, 0)
) -> History:
    """The history of these jobs. The operator told nothing between the hours in which it was away."""
    story = History(end=end, seconds=hours * HOUR, step=STEP)

    def between(first: float, last: float, value: Share) -> Value:
        return lambda age: value(age / HOUR) if last < age / HOUR <= first else None

    for job in jobs:
        who = {"uid": job.uid, "namespace": job.namespace, "name": job.name}
        for metric, more in (
            (
                "stoker_dljob_info",
                {
                    "job_type": job.job_type,
                    "owner": job.owner,
                    "team": "",
                    "gpus": str(job.gpus),
                    "product": "",
                    "priority": "",
                },
            ),
            ("stoker_dljob_phase", {"phase": "Running"}),
            ("stoker_dljob_ready", {}),
        ):
            there = between(job.start, job.end, lambda _: 1.0)

            def recorded(age: float, there: Value = there) -> float | None:
                away, back = operator_away
                return None if back < age / HOUR <= away else there(age)

            story.tracks.append(Track(metric=metric, labels={**who, **more}, value=recorded))
        for pod, first, last in job.lives:
            own = {"namespace": job.namespace, "pod": pod}
            for index in range(job.gpus):
                device = {"UUID": f"GPU-{job.name}-{index}", "gpu": str(index), "modelName": "NVIDIA H100 80GB HBM3"}
                value = between(first, last, job.utilization)
                story.tracks.append(Track(metric="DCGM_FI_DEV_GPU_UTIL", labels={**own, **device}, value=value))
                story.tracks += [
                    Track(metric=metric, labels={**own, **device}, value=between(first, last, share))
                    for metric, share in job.also
                ]
                if job.lends and index == 0:
                    guest = {**device, "namespace": "elsewhere", "pod": "guest"}
                    story.tracks.append(Track(metric="DCGM_FI_DEV_GPU_UTIL", labels=guest, value=value))
            container = {**own, "container": "trainer"}
            cores = between(first, last, busy(job))
            sent = between(first, last, always(job.sends))
            story.tracks += [
                Track(metric="container_cpu_usage_seconds_total", labels=container, value=cores, counter=True),
                Track(
                    metric="container_network_transmit_bytes_total",
                    labels={**own, "interface": "eth0"},
                    value=sent,
                    counter=True,
                ),
                Track(
                    metric="container_start_time_seconds",
                    labels=container,
                    value=between(first, last, always(end.timestamp() - first * HOUR)),
                ),
            ]
    return story
