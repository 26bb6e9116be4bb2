"""Prometheus as the controller meets it: the screens that adapters.prometheus_screen would make of its answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.reclaim.truth import DELAY, SCRAPE, Gaps
from benchmarks.reclaim.virtual_time import VirtualTimeLoop, moment, seconds
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.screen import GpuWindow, MetricsUnavailable, PodKey, PodSummary, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal, JobFacts, JobSeries

if TYPE_CHECKING:
    from benchmarks.reclaim.jobs import SimulatedJob

MAX_SKEW = 60.0
"""Seconds by which the asker's clock may be off Prometheus': the adapter asks no further (its MAX_SKEW)."""
SUMMARY_WINDOW = 600.0
LOOKBACK = 24 * 3600.0
AT_WORK: Mapping[GpuSignal, float] = {
    GpuSignal.UTIL: 87.0,
    GpuSignal.GRAPHICS: 80.0,
    GpuSignal.SM_ACTIVE: 40.0,
    GpuSignal.PCIE_RX: 2e9,
    GpuSignal.NVLINK: 9e9,
    GpuSignal.POWER: 310.0,
    GpuSignal.ENCODER: 30.0,
}
"""What a signal says of a GPU that works."""
AT_FULL_WORK = PodSummary(averages={GpuSignal.UTIL: 87.0, GpuSignal.GRAPHICS: 80.0})
CONTEXT_WATTS = 70.0
GAP = 540.0
"""The shortest gap that adapters.prometheus_screen may call one (LONGEST_GAP, less a step)."""


@dataclass(slots=True)
class Faults:
    """What is wrong with the metrics at this moment."""

    down: bool = False
    slow: bool = False
    partial: bool = False
    nan: bool = False
    zeros: bool = False
    """The exporters write 0 for whatever the GPUs do; what power says is `power_speaks`."""
    power_speaks: bool = False


@dataclass(slots=True)
class Prometheus:
    """One server for one cluster. `offset` is its clock's, in seconds."""

    loop: VirtualTimeLoop
    offset: float
    faults: Faults = field(default_factory=Faults)
    gaps: Gaps = field(default_factory=Gaps)
    """Without samples of any GPU."""
    zeros: Gaps = field(default_factory=Gaps)
    """Samples that are there, and wrong."""
    nans: Gaps = field(default_factory=Gaps)
    pods: dict[PodKey, "SimulatedJob"] = field(default_factory=dict)
    answered: int = 0

    def asked_by(self) -> "Source":
        """What one controller asks through."""
        return Source(self)


class Source:
    """A MetricsSource."""

    def __init__(self, server: Prometheus) -> None:
        self._server = server

    async def screen(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        """As adapters.prometheus_screen answers."""
        server = self._server
        if server.faults.slow:
            await asyncio.sleep(35.0)
        if server.faults.down:
            raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, "no answer")
        asked = now.timestamp()
        if abs(server.loop.at + server.offset - asked) > MAX_SKEW:
            raise MetricsUnavailable(UnknownReason.STALE, "another clock")
        server.answered += 1
        # In true time: what is asked about reaches as far as the asker's clock, and as far as there are samples.
        end = min(asked - server.offset, server.loop.at - DELAY)
        shortest = min((seconds(request.window) for request in requests), default=SUMMARY_WINDOW)
        return [
            self._screen(request, now, asked - server.offset, end, min(SUMMARY_WINDOW, shortest))
            for request in requests
        ]

    def _screen(self, request: ScreenRequest, now: datetime, until: float, end: float, span: float) -> Screen:
        server = self._server
        summaries = {
            key: summary for key in request.pods if (summary := self._summary(key, until - span, end)) is not None
        }
        works = any(value > 0 for summary in summaries.values() for value in summary.averages.values())
        gpus: dict[PodKey, tuple[GpuWindow, ...]] = {}
        if request.detailed and not works:
            gpus = {key: self._windows(key, until, end, seconds(request.window)) for key in request.pods}
        partial = server.faults.partial
        return Screen(
            at=now,
            window=request.window,
            summaries=summaries,
            gpus=gpus,
            complete=not partial,
            message="a store is away" if partial else "",
        )

    def _summary(self, key: PodKey, start: float, end: float) -> PodSummary | None:
        job = self._server.pods.get(key)
        if job is None or self._server.gaps.within(start, end) >= end - start - SCRAPE:
            return None
        if job.activity.is_at_full_work(start) and not self._server.zeros.spans and not job.zeros.spans:
            return AT_FULL_WORK
        util = graphics = 0.0
        for gpu in job.gpus_of(key):
            for last, stretch in job.activity.shown(gpu, end, partial(self._blind, job)):
                if last <= start:
                    break
                share = (last - max(stretch.start, start)) / (end - start)
                if stretch.signal is GpuSignal.UTIL:
                    util += 87.0 * max(share, 0.01)
                elif stretch.signal is GpuSignal.GRAPHICS:
                    graphics += 80.0 * max(share, 0.01)
        held = max(len(job.gpus_of(key)), 1)
        return PodSummary(averages={GpuSignal.UTIL: util / held, GpuSignal.GRAPHICS: graphics / held})

    def _windows(self, key: PodKey, until: float, end: float, window: float) -> tuple[GpuWindow, ...]:
        job = self._server.pods.get(key)
        return () if job is None else tuple(self._window(job, gpu, until, end, window) for gpu in job.gpus_of(key))

    def _window(self, job: "SimulatedJob", gpu: int, until: float, end: float, window: float) -> GpuWindow:
        server, start = self._server, until - window
        began = max(start, job.began)
        missing = server.gaps.within(began, end) + job.gaps.within(began, end) + began - start
        last = job.activity.sample_by(end)
        while last > began and (server.gaps.has(last) or job.gaps.has(last)):
            last -= SCRAPE
        peaks = {GpuSignal.UTIL: 0.0, GpuSignal.GRAPHICS: 0.0}
        busy = job.began
        # The latest work that shows; only what another signal shows may hide behind it.
        for shown, stretch in job.activity.shown(gpu, end, partial(self._hides_work, job)):
            busy = max(busy, shown)
            if shown > start:
                signal = GpuSignal.POWER if server.zeros.has(shown) else stretch.signal
                peaks[signal] = AT_WORK[signal]
            break
        quiet = max(busy, server.gaps.last(end), job.gaps.last(end), end - LOOKBACK)
        return GpuWindow(
            gpu=f"GPU-{job.name}-{gpu}",
            index=str(gpu),
            model="NVIDIA A100-SXM4-80GB",
            peaks=peaks,
            coverage_percent=max(0.0, 100.0 * (1.0 - missing / window)),
            last_sample_at=moment(last + server.offset) if last > began else None,
            quiet_since=moment(min(quiet, start) + server.offset) if quiet < start else None,
            context_idle_watts=CONTEXT_WATTS,
            shared=job.is_shared,
            doubtful=server.nans.within(start, end) > 0,
            has_gap=max(one.longest(began, end) for one in (server.gaps, job.gaps)) > GAP,
        )

    def _blind(self, job: "SimulatedJob", at: float) -> bool:
        """Whether utilization says nothing of that moment."""
        return self._server.gaps.has(at) or self._server.zeros.has(at) or job.zeros.has(at)

    def _hides_work(self, job: "SimulatedJob", at: float) -> bool:
        """Whether no signal at all says that a GPU worked."""
        zeros = not self._server.faults.power_speaks and self._server.zeros.has(at)
        return zeros or self._server.gaps.has(at) or job.zeros.has(at)

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Never asked: the simulation diagnoses by itself."""
        raise NotImplementedError
