"""What a controller would have seen of one job at any moment of its past."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stoker.findings.vocabulary import JobType
from stoker.telemetry.activity import ACTIVITY_SIGNALS, idle_ceiling
from stoker.telemetry.past import BoolArray, DevicePast, JobPast, PastPod
from stoker.telemetry.screen import LONGEST_GAP, GpuWindow, PodKey, Screen
from stoker.telemetry.series import Attempt, FloatArray, GpuSignal, JobFacts, PodFacts

REACH = timedelta(seconds=90)
"""For so long a sample covers the time behind it (adapters.prometheus: one and a half resolutions)."""
FORGOTTEN = timedelta(minutes=5)
"""Prometheus returns no sample that is older (its look-back, five minutes by default)."""

Places = npt.NDArray[np.int_]


class Screens:
    """Facts and screens of one job, step by step; and when something about them may change."""

    def __init__(self, past: JobPast, *, idle_percent: float) -> None:
        self.past = past
        self.grid = past.grid
        self.nodes = max((pod.rank for pod in past.pods), default=0) + 1
        self.gpus_per_node = math.ceil(past.identity.gpus / self.nodes)
        self._devices = [(device, _DeviceSamples(device, past)) for device in past.devices]
        nothing = np.zeros(self.grid.size, dtype=np.bool_)
        works = [_works(device, idle_percent) for device in past.devices]
        self.works: BoolArray = np.any(works, axis=0) if works else nothing
        """The steps in which some GPU worked, by the signals that have a level in each step."""
        self._last_work = _last(self.works)
        self._seen = {pod.name: self._first_seen(pod) for pod in past.pods}
        self._ready_since = self._readiness()
        self._changes = self._changing()

    # ------------------------------------------------------------------------------------------------------ one moment

    def is_recorded(self, index: int) -> bool:
        """Whether the operator recorded the job: where it did not, none decided either."""
        return bool(np.isfinite(self.past.ready[index]))

    def facts(self, index: int) -> JobFacts:
        """The job as its pods' samples, their containers' starts and the number of ready pods show it."""
        now, identity = self.grid.time(index), self.past.identity
        latest: dict[int, PastPod] = {}
        for pod in sorted(self.past.pods, key=lambda pod: self._seen[pod.name]):
            if self._seen[pod.name] <= now:
                latest[pod.rank] = pod
        present = [pod for _, pod in sorted(latest.items())]
        names = {pod.name for pod in present}
        former = [pod for pod in self.past.pods if pod.name not in names and self._seen[pod.name] <= now]
        ready = bool(self.past.ready[index] >= self.nodes)
        return JobFacts(
            namespace=identity.namespace,
            name=identity.name,
            uid=identity.uid or "",
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            job_type=job_type(identity.job_type),
            gpu_product=identity.product or None,
            pods=tuple(self._pod(pod, index, ready=ready) for pod in present),
            former_pods=tuple(self._pod(pod, index, ready=False, ended=pod.last_seen) for pod in former),
            # Not recorded. What nobody can rule out may have hidden an upload.
            mounts_storage=True,
        )

    def _pod(self, pod: PastPod, index: int, *, ready: bool, ended: datetime | None = None) -> PodFacts:
        now = self.grid.time(index)
        starts = [start for start in pod.starts if start <= now]
        seen = self._seen[pod.name]
        risen = self._ready_since[index]
        # Of a container whose start was not recorded the latest time at which it can have started counts.
        started = starts[-1] if starts else max(seen, risen) if risen is not None and ended is None else seen
        return PodFacts(
            name=pod.name,
            uid=pod.name,
            rank=pod.rank,
            gpus=self.gpus_per_node,
            started_at=started,
            finished_at=ended,
            ready=ready,
            restarts=max(len(starts) - 1, 0),
            attempts=tuple(Attempt(started_at=one, finished_at=other) for one, other in pairwise(starts)),
        )

    def screen(self, facts: JobFacts, index: int, window: timedelta) -> Screen:
        """A detailed check of all GPUs of the job's pods over the window."""
        steps = round(window / self.grid.step)
        names = {pod.name for pod in facts.pods}
        gpus: dict[PodKey, list[GpuWindow]] = {}
        for device, samples in self._devices:
            if device.pod in names and (seen := samples.window(index, steps)) is not None:
                gpus.setdefault((facts.namespace, device.pod), []).append(seen)
        return Screen(
            at=self.grid.time(index),
            window=window,
            gpus={key: tuple(found) for key, found in gpus.items()},
            complete=self.past.complete,
        )

    # ------------------------------------------------------------------------------------------------- what comes next

    def next_idle(self, index: int, window: timedelta) -> int:
        """The first step after this one at which no GPU has worked for the window, as far as each step tells."""
        steps = round(window / self.grid.step)
        idle = np.flatnonzero(np.arange(self.grid.size)[index + 1 :] - self._last_work[index + 1 :] >= steps)
        return index + 1 + int(idle[0]) if len(idle) else self.grid.size

    def is_idle(self, index: int, window: timedelta) -> bool:
        """Whether no GPU has worked within the window, as far as each step tells."""
        return index - int(self._last_work[index]) >= round(window / self.grid.step)

    def next_change(self, index: int, window: timedelta) -> int:
        """The first step after this one at which the answer may be another."""
        behind = round((window + FORGOTTEN) / self.grid.step)
        following = np.searchsorted(self._changes, index, side="right")
        if following and self._changes[following - 1] > index - behind:
            return index + 1
        return int(self._changes[following]) if following < len(self._changes) else self.grid.size

    def next_work(self, index: int) -> int | None:
        """The first step after this one in which a GPU worked while the job held it."""
        found = np.flatnonzero((self.works & self.past.held)[index + 1 :])
        return index + 1 + int(found[0]) if len(found) else None

    def held_hours(self, first: int, last: int) -> float:
        """GPU-hours that the job held from one step up to another."""
        return float(self.past.held[first:last].sum()) * self.grid.hours * self.past.identity.gpus

    def work_hours(self, first: int, last: int) -> float:
        """GPU-hours that the job held in those of these steps in which some GPU worked."""
        return float((self.works & self.past.held)[first:last].sum()) * self.grid.hours * self.past.identity.gpus

    # --------------------------------------------------------------------------------------------------------- readings

    def _first_seen(self, pod: PastPod) -> datetime:
        """As exactly as it is known: by its first sample in these steps, unless it was there before them."""
        sampled = [device.sampled for device in self.past.devices if device.pod == pod.name]
        indices = np.flatnonzero(np.any(sampled, axis=0)) if sampled else np.empty(0, dtype=np.int64)
        first = self.grid.time(int(indices[0]) - 1) if indices.size else pod.first_seen
        return pod.first_seen if pod.first_seen < self.grid.start else first

    def _readiness(self) -> list[datetime | None]:
        """For each step since when all pods are ready, where they were seen to become it."""
        since: list[datetime | None] = []
        latest: datetime | None = None
        was = math.nan
        for index, ready in enumerate(self.past.ready.tolist()):
            if not math.isnan(ready):
                if ready >= self.nodes > was:  # never of an unknown one
                    latest = self.grid.time(index)
                was = ready
            since.append(latest)
        return since

    def _changing(self) -> Places:
        """The steps that differ from the ones before in anything but the values of work."""
        rows = [np.nan_to_num(self.past.ready, nan=-1.0), self.past.held, self.works]
        for device, samples in self._devices:
            rows += [samples.covered, device.doubtful, device.shared]
            if (link := device.peaks.get(GpuSignal.NVLINK)) is not None:
                rows.append(np.nan_to_num(link, nan=-1.0))
        changed = np.zeros(self.grid.size, dtype=np.bool_)
        for row in rows:
            changed[1:] |= row[1:] != row[:-1]
        moments = [self._seen[pod.name] for pod in self.past.pods]
        moments += [start for pod in self.past.pods for start in pod.starts]
        for moment in moments:
            if (index := self.grid.first_at(moment)) < self.grid.size:
                changed[index] = True
        return np.flatnonzero(changed)


class _DeviceSamples:
    """One device's samples, ready to be read over any window."""

    def __init__(self, device: DevicePast, past: JobPast) -> None:
        self._device = device
        self._grid = past.grid
        reach = max(int(REACH / past.grid.step), 1)
        last_sample = _last(device.sampled)
        index = np.arange(past.grid.size)
        self.covered: BoolArray = (last_sample >= 0) & (index - last_sample < reach)
        self._last_sample = last_sample
        self._last_doubt = _last(device.doubtful)
        self._loud = _last(_works(device, 0.0) | device.doubtful | ~self.covered)

    def window(self, index: int, steps: int) -> GpuWindow | None:
        """The device over so many steps up to this one; None where nothing tells of it."""
        device, grid = self._device, self._grid
        chosen = slice(max(index - steps + 1, 0), index + 1)
        if not self.covered[chosen].any():
            return None
        peaks = dict(_peaks(device.peaks, chosen))
        latest = int(self._last_sample[index])
        # The beginning of its step: it may have been taken then.
        at = grid.time(latest) - grid.step if latest >= 0 else None
        return GpuWindow(
            gpu=device.gpu,
            index=device.index,
            model=device.model,
            peaks=peaks,
            coverage_percent=100.0 * float(self.covered[chosen].sum()) / steps,
            last_sample_at=at if at is not None and grid.time(index) - at <= FORGOTTEN else None,
            quiet_since=grid.time(int(self._loud[index])),
            context_idle_watts=device.context_idle_watts,
            shared=bool(device.shared[index]),
            doubtful=bool(index - self._last_doubt[index] < steps),
            has_gap=self._has_gap(index, steps),
        )

    def _has_gap(self, index: int, steps: int) -> bool:
        """Whether no sample was taken for longer than LONGEST_GAP within so many steps up to this one."""
        chosen = np.arange(max(index - steps + 1, 0), index + 1)
        # Since the last sample, or since the window began where that is later.
        missing = np.minimum(chosen - self._last_sample[chosen], chosen - chosen[0] + 1)
        return bool(missing.max() * self._grid.step > LONGEST_GAP)


def job_type(word: str) -> JobType:
    """What a job said that it is; Training where it said nothing that is known."""
    return JobType(word) if word in set(JobType) else JobType.TRAINING


def _peaks(signals: Mapping[GpuSignal, FloatArray], chosen: slice) -> Iterator[tuple[GpuSignal, float]]:
    for signal, values in signals.items():
        part = values[chosen]
        known = part[np.isfinite(part)]
        if len(known):
            lowest = float(known.min()) if signal is GpuSignal.NVLINK else 0.0
            yield signal, float(known.max()) - lowest


def _works(device: DevicePast, idle_percent: float) -> BoolArray:
    """The steps in which a signal stands over its idle level. NVLink has one over a window only."""
    found = np.zeros(len(device.sampled), dtype=np.bool_)
    for signal in ACTIVITY_SIGNALS:
        values = device.peaks.get(signal)
        ceiling = idle_ceiling(signal, idle_percent, device.context_idle_watts)
        if values is None or ceiling is None or signal is GpuSignal.NVLINK:
            continue
        with np.errstate(invalid="ignore"):
            found |= values > ceiling
    return found


def _last(happened: BoolArray) -> Places:
    """For each step the last one up to it in which it happened, -1 where it has not yet."""
    return np.maximum.accumulate(np.where(happened, np.arange(len(happened)), -1))


__all__ = ["Screens", "job_type"]
