"""The whole cluster's GPUs at once: who may be idle, whether really, and since when."""

import logging
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stoker.adapters.metric_profile import Factors, Identity, Metric, MetricProfile
from stoker.adapters.prometheus_connection import Connection, aware, number
from stoker.adapters.prometheus_transport import Rows
from stoker.adapters.promql import ORIGIN, aggregate, duration, named, selector, union
from stoker.models.screen import GpuWindow, MetricsUnavailable, PodKey, Screen
from stoker.models.series import GpuSignal
from stoker.subjects.activity import ACTIVITY_SIGNALS, idle_ceiling

LOG = logging.getLogger(__name__)

PRIMARY = (GpuSignal.UTIL, GpuSignal.GRAPHICS)
"""What coverage is counted on: without either, the silence of the others proves nothing."""
CANDIDATE_PERCENT = 10.0
"""Only GPUs at or under this are looked at more closely: the largest `idlePercent` that a policy may have."""
CANDIDATE_PODS = 300
"""Up to so many pods are named in a query; beyond, the whole cluster is asked for, and the query stays short."""
QUIET_LOOKBACK = timedelta(hours=24)
QUIET_STEP = timedelta(minutes=5)
"""How far back, and how finely, the beginning of an idle stretch is looked for."""
QUIET_PODS = 40
"""Of so many pods a screen: a day of their samples is read once."""
ONE_SCRAPE = timedelta(seconds=0.5)
"""Samples of one scrape have one time, and Prometheus does not scrape a target more than once a second."""


DeviceKey = tuple[str, str, str]
"""Namespace, pod, device."""


@dataclass(slots=True)
class _Device:
    """What the screen has gathered of one GPU."""

    identity: Identity
    values: dict[str, float]
    """The largest plausible one by the metric's name, unscaled."""
    doubtful: bool = False
    coverage_percent: float = 0.0
    last_sample_at: datetime | None = None

    def take(self, metric: Metric, value: float) -> None:
        """Keep the larger of this and what is known; a value that is none is kept as doubt, where it could be work."""
        if metric.plausible(value):
            self.values[metric.name] = max(value, self.values.get(metric.name, value))
        elif metric.signal in ACTIVITY_SIGNALS:
            self.doubtful = True


@dataclass(slots=True)
class _Stretch:
    """An idle stretch of a device: since when, and when it was last seen to go on."""

    since: datetime
    proven_at: datetime


class Screening:
    """Reads screens. It remembers since when GPUs are idle from one to the next."""

    def __init__(
        self, connection: Connection, profile: MetricProfile, factors: Factors, *, resolution: timedelta
    ) -> None:
        """`factors` are learned here, for whoever shares them; `resolution` is at least the scrape interval."""
        self._connection = connection
        self._profile = profile
        self._factors = factors
        self._metrics = {metric.name: metric for metric in profile.metrics}
        self._resolution = resolution
        self._stretches: dict[DeviceKey, _Stretch] = {}

    async def read(self, window: timedelta, now: datetime) -> Screen:
        """Two or three queries, however many jobs there are: who may be idle; whether really; since when.

        Raises MetricsUnavailable when Prometheus can't be asked or its clock is another.
        """
        aware(now)
        rows = await self._connection.instant(self._activity_query(window), now)
        warnings = list(rows.warnings)
        # Thousands of rows: off the loop, which has watches to serve.
        devices, candidates = await self._connection.off_loop(self._gather, rows, window)
        if candidates:
            rows = await self._connection.instant(self._contradiction_query(window, candidates), now)
            warnings += rows.warnings
            await self._connection.off_loop(self._add, rows, devices)
        windows = await self._connection.off_loop(self._windows, devices, candidates)
        quiet = {key: candidates[key] for key, gpus in windows.items() if key in candidates and all(map(_quiet, gpus))}
        since = await self._quiet_since(quiet, window, now)
        for (namespace, pod), gpus in windows.items():
            if (namespace, pod) in quiet:
                windows[namespace, pod] = tuple(
                    replace(gpu, quiet_since=since.get((namespace, pod, gpu.gpu))) for gpu in gpus
                )
        return Screen(at=now, window=window, gpus=windows, complete=not warnings, message="; ".join(warnings)[:500])

    def _activity_query(self, window: timedelta) -> str:
        labels = self._profile.grouping
        metrics = self._profile.of(*PRIMARY)
        span = duration(window)
        reach, step = duration(1.5 * self._resolution), duration(self._resolution)
        present = " or ".join(
            aggregate("max", labels, f"present_over_time({metric.name}[{reach}])") for metric in metrics
        )
        last = " or ".join(aggregate("max", labels, f"timestamp({metric.name})") for metric in metrics)
        # max_over_time skips NaN and coverage counts it; a sum is NaN as soon as one sample is, and then not >= 0.
        doubt = " or ".join(
            f"present_over_time({metric.name}[{span}]) unless sum_over_time({metric.name}[{span}]) >= 0"
            for metric in metrics
        )
        return union(
            [
                *(
                    named(metric.name, aggregate("max", labels, f"max_over_time({metric.name}[{span}])"))
                    for metric in metrics
                ),
                named("coverage", f"count_over_time(({present})[{span}:{step}])"),
                named("last", last),
                named("doubt", aggregate("max", labels, doubt)),
            ]
        )

    def _contradiction_query(self, window: timedelta, candidates: Mapping[PodKey, Sequence[_Device]]) -> str:
        labels = self._profile.grouping
        span = duration(window)
        matchers = self._matchers(candidates)
        terms = []
        for metric in self._profile.of(*(signal for signal in ACTIVITY_SIGNALS if signal not in PRIMARY)):
            chosen = " or ".join(self._extent(selector(metric.name, matcher), metric, span) for matcher in matchers)
            terms.append(named(metric.name, aggregate("max", labels, chosen)))
        return union(terms)

    @staticmethod
    def _extent(chosen: str, metric: Metric, span: str) -> str:
        """The largest value; of NVLink, a rate or a counter under one name, the largest change."""
        highest = f"max_over_time({chosen}[{span}])"
        return f"{highest} - min_over_time({chosen}[{span}])" if metric.signal is GpuSignal.NVLINK else highest

    def _matchers(self, keys: Iterable[PodKey]) -> list[dict[str, str]]:
        """Matchers that together select these pods; one that selects everything beyond the limit."""
        names = sorted({pod for _, pod in keys})
        return self._profile.selecting(names) if len(names) <= CANDIDATE_PODS else [{}]

    def _gather(self, rows: Rows, window: timedelta) -> tuple[dict[DeviceKey, _Device], dict[PodKey, list[_Device]]]:
        """Every device that a pod holds, and the pods whose devices may all be idle."""
        devices: dict[DeviceKey, _Device] = {}
        steps = max(math.floor(window / self._resolution), 1)
        for row in rows:
            identity = self._profile.identity(row["metric"])
            if identity is None:
                continue
            device = devices.setdefault((identity.namespace, identity.pod, identity.gpu), _Device(identity, {}))
            if identity.shared and not device.identity.shared:
                device.identity = identity
            origin, value = row["metric"][ORIGIN], number(row["value"][1])
            if origin == "coverage":
                device.coverage_percent = max(device.coverage_percent, min(100.0 * value / steps, 100.0))
            elif origin == "last":
                last = datetime.fromtimestamp(value, tz=UTC)
                device.last_sample_at = last if device.last_sample_at is None else max(last, device.last_sample_at)
            elif origin == "doubt":
                device.doubtful = True
            else:
                device.take(self._metrics[origin], value)
        self._learn(devices.values())
        return devices, {key: found for key, found in _by_pod(devices).items() if self._may_be_idle(found)}

    def _add(self, rows: Rows, devices: Mapping[DeviceKey, _Device]) -> None:
        """The candidates' other signals."""
        for row in rows:
            key = self._device_key(row)
            if key is not None and key in devices:
                devices[key].take(self._metrics[row["metric"][ORIGIN]], number(row["value"][1]))
        self._learn(devices.values())

    def _windows(
        self, devices: Mapping[DeviceKey, _Device], candidates: Container[PodKey]
    ) -> dict[PodKey, tuple[GpuWindow, ...]]:
        shared = _shared(devices)
        return {
            key: tuple(
                sorted(
                    (self._window(device, device.identity.gpu in shared, key in candidates) for device in found),
                    key=lambda gpu: (len(gpu.index or ""), gpu.index or "", gpu.gpu),
                )
            )
            for key, found in _by_pod(devices).items()
        }

    def _may_be_idle(self, devices: Iterable[_Device]) -> bool:
        return all(
            value * self._factors.of(metric) <= CANDIDATE_PERCENT
            for device in devices
            for metric in self._profile.of(*PRIMARY)
            if (value := device.values.get(metric.name)) is not None
        )

    def _learn(self, devices: Iterable[_Device]) -> None:
        """Each metric's factor, from its values in the whole cluster."""
        values: dict[str, list[float]] = defaultdict(list)
        for device in devices:
            for name, value in device.values.items():
                values[name].append(value)
        for metric in self._profile.metrics:
            if values[metric.name]:
                self._factors.learn(metric, values[metric.name])

    def _window(self, device: _Device, shared: bool, examined: bool) -> GpuWindow:
        peaks: dict[GpuSignal, float] = {}
        for metric in self._profile.metrics:
            value = device.values.get(metric.name)
            if value is not None:
                scaled = value * self._factors.of(metric)
                peaks[metric.signal] = max(scaled, peaks.get(metric.signal, 0.0))
        return GpuWindow(
            gpu=device.identity.gpu,
            index=device.identity.index,
            model=device.identity.model,
            peaks=peaks,
            coverage_percent=device.coverage_percent,
            last_sample_at=device.last_sample_at,
            context_idle_watts=self._profile.resting_watts(device.identity.model),
            shared=shared or device.identity.shared,
            examined=examined,
            doubtful=device.doubtful,
        )

    # --------------------------------------------------------------------------------------------- idle since when

    async def _quiet_since(
        self, pods: Mapping[PodKey, Sequence[_Device]], window: timedelta, now: datetime
    ) -> dict[DeviceKey, datetime]:
        """For devices of quiet pods the start of their idle stretch, as far as it is known.

        It is looked up for a few pods a screen, and remembered: a device that was quiet one window ago and is quiet
        now has not worked meanwhile.
        """
        self._stretches = {
            key: stretch for key, stretch in self._stretches.items() if now - stretch.proven_at <= QUIET_LOOKBACK
        }
        unknown: dict[PodKey, Sequence[_Device]] = {}
        since: dict[DeviceKey, datetime] = {}
        for (namespace, pod), devices in pods.items():
            for device in devices:
                key = (namespace, pod, device.identity.gpu)
                stretch = self._stretches.get(key)
                if stretch is None or now - stretch.proven_at > window:
                    unknown[namespace, pod] = devices
                else:
                    stretch.proven_at = max(stretch.proven_at, now)
                    since[key] = stretch.since
        if unknown:
            asked = dict(sorted(unknown.items())[:QUIET_PODS])
            try:
                found = await self._look_back(asked, now)
            except MetricsUnavailable as error:
                # The window is known to be idle; since when is only good to know.
                LOG.warning("not known since when GPUs are idle: %s", error.message)
                return since
            for key, start in found.items():
                self._stretches[key] = _Stretch(since=start, proven_at=now)
            since |= found
        return since

    async def _look_back(self, pods: Mapping[PodKey, Sequence[_Device]], now: datetime) -> dict[DeviceKey, datetime]:
        """The end of each device's last step with work or without samples; nothing from a partial answer."""
        seconds = QUIET_STEP.total_seconds()
        end = math.floor(now.timestamp() / seconds) * seconds
        start = end - QUIET_LOOKBACK.total_seconds()
        rows = await self._connection.range(self._quiet_query(pods), start, end, seconds)
        since: dict[DeviceKey, datetime] = {}
        if rows.warnings:
            return since
        for row in rows:
            key = self._device_key(row)
            if key is None:
                continue
            idle = {round(float(time)) for time, value in row["values"] if number(value) == 0}
            first = end
            while first - seconds >= start and round(first) in idle:
                first -= seconds
            if first < end:
                since[key] = datetime.fromtimestamp(first, tz=UTC)
        return since

    def _quiet_query(self, pods: Mapping[PodKey, Sequence[_Device]]) -> str:
        """1 for a step in which a device worked, 0 for one in which it did not; nothing without utilization samples."""
        labels = self._profile.grouping
        span = duration(QUIET_STEP)
        matchers = self._matchers(pods)
        models = {device.identity.model for devices in pods.values() for device in devices}
        terms: list[str] = []
        for metric in self._profile.of(*ACTIVITY_SIGNALS):
            for place, matcher in enumerate(matchers):
                for label, model, ceiling in self._ceilings(metric, models):
                    chosen = selector(metric.name, {**matcher, label: model} if label else matcher)
                    worked = aggregate("max", labels, f"{self._extent(chosen, metric, span)} > bool {ceiling:g}")
                    terms.append(named(f"{metric.name}/{place}/{model}", worked))
        present = " or ".join(
            aggregate("max", labels, f"present_over_time({selector(metric.name, matcher)}[{span}])")
            for metric in self._profile.of(*PRIMARY)
            for matcher in matchers
        )
        return f"{aggregate('max', labels, union(terms))} and ({present})"

    def _ceilings(self, metric: Metric, models: Iterable[str | None]) -> Iterator[tuple[str, str, float]]:
        """What idles under what, in the metric's own unit: of power one ceiling for each known model."""
        if metric.signal is not GpuSignal.POWER:
            ceiling = idle_ceiling(metric.signal, 0.0, None)
            if ceiling is not None:
                yield "", "", ceiling / self._factors.of(metric)
            return
        for model in sorted(model for model in models if model is not None):
            watts = self._profile.resting_watts(model)
            ceiling = idle_ceiling(metric.signal, 0.0, watts)
            if ceiling is not None:
                for label in self._profile.labels["model"]:
                    yield label, model, ceiling

    def _device_key(self, row: Mapping[str, Any]) -> DeviceKey | None:
        identity = self._profile.identity(row["metric"])
        return None if identity is None else (identity.namespace, identity.pod, identity.gpu)


def _by_pod(devices: Mapping[DeviceKey, _Device]) -> dict[PodKey, list[_Device]]:
    pods: dict[PodKey, list[_Device]] = defaultdict(list)
    for (namespace, pod, _), device in devices.items():
        pods[namespace, pod].append(device)
    return pods


def _shared(devices: Mapping[DeviceKey, _Device]) -> set[str]:
    """The devices that several pods hold now: one scrape of the exporter had them all.

    A pod that held the device before another has an older last sample.
    """
    newest: dict[str, list[datetime]] = defaultdict(list)
    for (_, _, gpu), device in devices.items():
        if device.last_sample_at is not None:
            newest[gpu].append(device.last_sample_at)
    return {gpu for gpu, times in newest.items() if sum(time > max(times) - ONE_SCRAPE for time in times) > 1}


def _quiet(gpu: GpuWindow) -> bool:
    """No signal stands over its idle level, and none may hide that it did."""
    if gpu.doubtful:
        return False
    for signal, peak in gpu.peaks.items():
        ceiling = idle_ceiling(signal, 0.0, gpu.context_idle_watts)
        if ceiling is not None and peak > ceiling:
            return False
    return True
