"""Compact recordings of jobs: what the tests and the fixtures of diagnosis rules feed to `diagnose`.

A series is written as value x samples, such as `"95x20 0x40"`; `_` is a missing sample, `10..40x60` wanders between two
values (the same way each time), and a parenthesis repeats: `"(90x3 0x1)x15"`. Shorter series end in missing samples.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from stoker.api.duration import parse_duration
from stoker.findings.vocabulary import Framework, JobType
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.series import (
    Attempt,
    BatchSize,
    GpuSignal,
    JobFacts,
    JobSeries,
    LogMark,
    MarkKind,
    PodFacts,
    PodSignal,
)

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
Value = TypeVar("Value")
ITEM = re.compile(r"\((?P<group>[^()]*)\)x(?P<times>\d+)|(?P<value>[^\sx]+)x(?P<samples>\d+)")


@dataclass(frozen=True)
class Thresholds:
    """The built-in thresholds."""

    low_percent: float = 50
    idle_percent: float = 0
    min_coverage_percent: float = 90


def parse_series(text: str) -> list[float]:
    """Samples of a compact series; a missing one is NaN. Raises ValueError for what is none."""
    samples: list[float] = []
    end = 0
    for match in ITEM.finditer(text):
        if text[end : match.start()].strip():
            raise ValueError(f"{text[end : match.start()]!r} in {text!r}")
        end = match.end()
        if match["group"] is not None:
            samples += parse_series(match["group"]) * int(match["times"])
        else:
            samples += _values(match["value"], int(match["samples"]))
    if text[end:].strip() or not samples:
        raise ValueError(f"{text[end:]!r} in {text!r}")
    return samples


def _values(value: str, samples: int) -> list[float]:
    if value == "_":
        return [float("nan")] * samples
    if ".." in value:
        low, high = map(float, value.split(".."))
        return list(np.random.default_rng(7).uniform(low, high, samples))
    return [float(value)] * samples


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A job with the samples of its whole recorded life."""

    facts: JobFacts
    step: timedelta
    gpus: tuple[Mapping[GpuSignal, list[float]], ...]
    pods: tuple[Mapping[PodSignal, list[float]], ...] = ()
    marks: tuple[LogMark, ...] = ()
    context_idle_watts: float | None = None
    steps: int = 0
    """How long it is where there are no samples."""
    fires: int | None = None
    """The number of steps after which the rule speaks first."""
    finished: bool = False

    @property
    def length(self) -> int:
        """Steps of the recording."""
        recorded = [samples for signals in self.gpus for samples in signals.values()]
        recorded += [samples for signals in self.pods for samples in signals.values()]
        return max(map(len, recorded), default=self.steps)

    def at(self, steps: int) -> tuple[JobFacts, JobSeries, datetime]:
        """The job's facts, its series and the time after so many steps."""
        now = START + steps * self.step
        ended = now if self.finished and steps == self.length else None
        facts = replace(
            self.facts,
            pods=tuple(_pod_at(pod, now, ended) for pod in self.facts.pods),
        )
        whole = self._whole
        return (
            facts,
            replace(
                whole,
                times=whole.times[:steps],
                gpus=tuple(
                    replace(gpu, signals={signal: values[:steps] for signal, values in gpu.signals.items()})
                    for gpu in whole.gpus
                ),
                pods=tuple(
                    replace(pod, signals={signal: values[:steps] for signal, values in pod.signals.items()})
                    for pod in whole.pods
                ),
                marks=tuple(mark for mark in self.marks if mark.time <= now),
            ),
            now,
        )

    @cached_property
    def _whole(self) -> JobSeries:
        end = START + self.length * self.step
        return job_series(self.facts, self._traces(), start=START, end=end, step=self.step)

    def _traces(self) -> Iterator[Trace]:
        seconds = self.step.total_seconds()

        def points(samples: list[float]) -> list[tuple[float, float]]:
            return [
                (START.timestamp() + (k + 1) * seconds, value) for k, value in enumerate(samples) if not np.isnan(value)
            ]

        per_node = self.facts.gpus_per_node
        for number, signals in enumerate(self.gpus):
            for signal, samples in signals.items():
                yield Trace(
                    signal=signal,
                    pod=self.facts.pods[number // per_node].name,
                    gpu=f"GPU-{number}",
                    index=str(number % per_node),
                    context_idle_watts=self.context_idle_watts,
                    points=points(samples),
                )
        for number, pod_signals in enumerate(self.pods):
            for pod_signal, samples in pod_signals.items():
                yield Trace(signal=pod_signal, pod=self.facts.pods[number].name, points=points(samples))


def _pod_at(pod: PodFacts, now: datetime, ended: datetime | None) -> PodFacts:
    """What its status says at a time: a container that starts later waits until then, one that starts anew runs on."""
    if pod.started_at is not None and pod.started_at > now and pod.attempts:
        pod = replace(pod, started_at=pod.attempts[0].started_at, attempts=())
    if pod.started_at is None or pod.started_at > now:
        return replace(pod, started_at=None, finished_at=None, ready=False)
    finished = pod.finished_at if pod.finished_at is not None and pod.finished_at <= now else ended
    return replace(pod, finished_at=finished, ready=finished is None, waiting_for=None)


def from_dict(raw: Mapping[str, Any]) -> Recording:
    """Build a recording; the keys of `job` are those of a DLJob's spec and of JobFacts, in camel case.

    `gpus` is a list of entries with the numbers that each stands for (`of: 0-3`; all by default); `pods` likewise.
    `podFacts` says of some pods when they were scheduled, started, restarted and finished, after the recording's start
    (`-10m` is before; `started: never`), and what they wait for until they start. `marks` are lines of logs.
    """
    job = dict(raw.get("job", {}))
    nodes, per_node = int(job.get("nodes", 1)), int(job.get("gpusPerNode", 1))
    cpu_limit = job.get("cpuLimit")
    about = _spread(raw.get("podFacts", []), nodes, lambda value: value)
    facts = JobFacts(
        namespace="team",
        name="bert",
        uid="job-uid",
        nodes=nodes,
        gpus_per_node=per_node,
        gpu_resource=job.get("gpuResource", "nvidia.com/gpu"),
        job_type=JobType(job.get("jobType", "Training")),
        framework=Framework(job["framework"]) if "framework" in job else None,
        interactive_entry=bool(job.get("interactiveEntry", False)),
        starts_server=bool(job.get("startsServer", False)),
        offers=job.get("offers"),
        processes_per_node=job.get("processesPerNode"),
        batch_size=BatchSize(**job["batchSize"]) if "batchSize" in job else None,
        mounts_storage=bool(job.get("mountsStorage", False)),
        pods=tuple(
            PodFacts(
                name=f"bert-{rank}-x7k2p",
                uid=f"pod-{rank}",
                rank=rank,
                node=f"gpu-{rank + 1}",
                gpus=per_node,
                started_at=_after(about[rank].get("restarted", about[rank].get("started", "0s"))),
                attempts=_attempts(about[rank]),
                finished_at=_after(about[rank].get("finished")),
                scheduled_at=_after(about[rank].get("scheduled")),
                waiting_for=about[rank].get("waitingFor"),
                ready=True,
                cpu_limit=None if cpu_limit is None else float(cpu_limit),
                host_network=bool(job.get("hostNetwork", False)),
            )
            for rank in range(nodes)
        ),
    )
    return Recording(
        facts=facts,
        step=parse_duration(raw.get("step", "30s")),
        gpus=tuple(
            {GpuSignal(key): samples for key, samples in signals.items()}
            for signals in _spread(raw.get("gpus", []), nodes * per_node, parse_series)
        ),
        pods=tuple(
            {PodSignal(key): samples for key, samples in signals.items()}
            for signals in _spread(raw.get("pods", []), nodes, parse_series)
        ),
        marks=tuple(
            LogMark(
                time=_after(mark["at"]) or START,
                pod=f"bert-{mark.get('rank', 0)}-x7k2p",
                kind=MarkKind(mark["kind"]),
                text=mark["text"],
            )
            for mark in raw.get("marks", [])
        ),
        steps=raw.get("steps", 0),
        context_idle_watts=job.get("contextIdleWatts"),
        fires=raw.get("fires"),
        finished=bool(job.get("finished", False)),
    )


def _attempts(about: Mapping[str, Any]) -> tuple[Attempt, ...]:
    """The run before the restart, where there is one."""
    started, restarted = _after(about.get("started", "0s")), _after(about.get("restarted"))
    if started is None or restarted is None:
        return ()
    return (Attempt(started_at=started, finished_at=restarted),)


def _after(text: str | None) -> datetime | None:
    """A time after the recording's start; None where there is none, or it never comes."""
    if text is None or text == "never":
        return None
    return START - parse_duration(text[1:]) if text.startswith("-") else START + parse_duration(text)


def _spread(entries: list[Mapping[str, Any]], number: int, read: Callable[[Any], Value]) -> list[dict[str, Value]]:
    """What belongs to each member, from entries that stand for several."""
    members: list[dict[str, Value]] = [{} for _ in range(number)]
    for entry in entries:
        first, _, last = str(entry.get("of", f"0-{number - 1}")).partition("-")
        for member in members[int(first) : int(last or first) + 1]:
            member.update({key: read(value) for key, value in entry.items() if key != "of"})
    return members
