"""GPU metrics out of Prometheus: the whole cluster at once, or one job in full."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from prometheus_api_client import PrometheusConnect

from stoker.adapters.metric_profile import Identity, Metric, MetricProfile, profiles
from stoker.adapters.prometheus_transport import Rows, Transport
from stoker.adapters.promql import (
    ORIGIN,
    Not,
    aggregate,
    any_of,
    duration,
    named,
    selector,
    union,
)
from stoker.models.screen import GpuWindow, MetricsUnavailable, PodKey, Screen
from stoker.models.series import GpuSignal, JobFacts, JobSeries, PodSignal
from stoker.models.vocabulary import UnknownReason
from stoker.subjects.activity import ACTIVITY_SIGNALS, idle_ceiling
from stoker.subjects.grid import Trace, job_series

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")

PRIMARY = (GpuSignal.UTIL, GpuSignal.GRAPHICS)
"""What coverage is counted on: without either, the silence of the others proves nothing."""
RESOLUTION = timedelta(seconds=60)
"""The window is cut into steps of this; a step counts as covered when a sample is at most one and a half of them old.

Counting steps instead of samples makes coverage independent of how often Prometheus scrapes and of how often each
value is scraped twice. Scrape intervals of up to a minute fit.
"""
CANDIDATE_PERCENT = 10.0
"""Only GPUs at or under this are looked at more closely: the largest `idlePercent` that a policy may have."""
CANDIDATE_PODS = 300
"""Up to so many pods are named in a query; beyond, the whole cluster is asked for, and the query stays short."""
QUIET_LOOKBACK = timedelta(hours=24)
QUIET_STEP = timedelta(minutes=5)
"""How far back, and how finely, the beginning of an idle stretch is looked for."""
QUIET_PODS = 40
"""Of so many pods a screen: a day of their samples is read once."""
RATE_WINDOW = timedelta(minutes=2)
"""Counters need two samples: two minutes hold them at scrape intervals of up to a minute."""
MAX_STEPS = 11_000
"""Prometheus refuses more points a series in one answer (web/api/v1, query_range)."""
MAX_CELLS = 1_500_000
"""Values of all series of one job together: some 45 MB of JSON."""
ONE_SCRAPE = timedelta(seconds=0.5)
"""Samples of one scrape have one time, and Prometheus does not scrape a target more than once a second."""
MAX_SKEW = timedelta(minutes=1)
"""Between Prometheus' clock and ours: with more, "the last hour" isn't the last hour."""
QUERY_TIMEOUT = timedelta(seconds=6)
"""Of one query; a screen asks three."""
THREADS = 4


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


class PrometheusSource:
    """A MetricsSource on the HTTP API of Prometheus, or of what speaks it (Thanos, Mimir, VictoriaMetrics).

    prometheus-api-client does the talking in a small thread pool, so that the event loop never waits for a socket.
    `close` ends it.
    """

    def __init__(
        self,
        url: str,
        *,
        profile: str = "nvidia",
        timeout: timedelta = QUERY_TIMEOUT,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        resolution: timedelta = RESOLUTION,
        max_skew: timedelta | None = MAX_SKEW,
    ) -> None:
        """`profile` names the exporter's metrics (metric_profiles.toml), `timeout` bounds each query.

        `resolution` must be at least the scrape interval. `max_skew` None allows questions about the past.
        Raises KeyError for an unknown profile.
        """
        self._profile: MetricProfile = profiles()[profile]
        self._metrics = {metric.name: metric for metric in self._profile.metrics}
        self._resolution = resolution
        self._max_skew = max_skew
        transport = Transport(timeout=timeout.total_seconds(), token_file=token_file, ca_file=ca_file)
        self._client = PrometheusConnect(
            url=url.rstrip("/"), session=transport, timeout=timeout.total_seconds(), method="POST"
        )
        self._transport = transport
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="prometheus")
        self._factors: dict[str, float] = {}
        self._stretches: dict[DeviceKey, _Stretch] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let running queries end and close the connections."""
        await asyncio.get_running_loop().run_in_executor(None, partial(self._pool.shutdown, wait=True))
        self._transport.close()

    # ---------------------------------------------------------------------------------------------------- screen

    async def screen(self, window: timedelta, now: datetime) -> Screen:
        """Two or three queries, however many jobs there are: who may be idle; whether really; since when.

        Raises MetricsUnavailable when Prometheus can't be asked or its clock is another.
        """
        _aware(now)
        rows = await self._instant(self._activity_query(window), now)
        warnings = list(rows.warnings)
        # Thousands of rows: off the loop, which has watches to serve.
        devices, candidates = await self._off_loop(self._gather, rows, window)
        if candidates:
            rows = await self._instant(self._contradiction_query(window, candidates), now)
            warnings += rows.warnings
            await self._off_loop(self._add, rows, devices)
        windows = await self._off_loop(self._windows, devices, candidates)
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
        matchers = self._pod_matchers(candidates)
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

    def _pod_matchers(self, keys: Iterable[PodKey]) -> list[dict[str, str]]:
        """Matchers that together select these pods, by whichever label holds the name; one that selects all beyond the
        limit.
        """
        names = sorted({pod for _, pod in keys})
        if len(names) > CANDIDATE_PODS:
            return [{}]
        # A pod's name stands in the first label that isn't empty, and the exporter's own in the next.
        labels = self._profile.labels["pod"]
        return [{**dict.fromkeys(labels[:place], ""), label: any_of(names)} for place, label in enumerate(labels)]

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
            origin, value = row["metric"][ORIGIN], _number(row["value"][1])
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
                devices[key].take(self._metrics[row["metric"][ORIGIN]], _number(row["value"][1]))
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
            value * self._factors[metric.name] <= CANDIDATE_PERCENT
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
                self._factors[metric.name] = metric.factor(values[metric.name])

    def _window(self, device: _Device, shared: bool, examined: bool) -> GpuWindow:
        peaks: dict[GpuSignal, float] = {}
        for metric in self._profile.metrics:
            value = device.values.get(metric.name)
            if value is not None:
                scaled = value * self._factors[metric.name]
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
        rows = await self._range(self._quiet_query(pods), start, end, seconds)
        since: dict[DeviceKey, datetime] = {}
        if rows.warnings:
            return since
        for row in rows:
            key = self._device_key(row)
            if key is None:
                continue
            idle = {round(float(time)) for time, value in row["values"] if _number(value) == 0}
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
        matchers = self._pod_matchers(pods)
        models = {device.identity.model for devices in pods.values() for device in devices}
        terms: list[str] = []
        for metric in self._profile.of(*ACTIVITY_SIGNALS):
            for number, matcher in enumerate(matchers):
                for label, model, ceiling in self._ceilings(metric, models):
                    chosen = selector(metric.name, {**matcher, label: model} if label else matcher)
                    worked = aggregate("max", labels, f"{self._extent(chosen, metric, span)} > bool {ceiling:g}")
                    terms.append(named(f"{metric.name}/{number}/{model}", worked))
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
                yield "", "", ceiling / self._factors.get(metric.name, metric.factor(()))
            return
        for model in sorted(model for model in models if model is not None):
            watts = self._profile.resting_watts(model)
            ceiling = idle_ceiling(metric.signal, 0.0, watts)
            if ceiling is not None:
                for label in self._profile.labels["model"]:
                    yield label, model, ceiling

    # ---------------------------------------------------------------------------------------------------- series

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Two queries: the job's GPUs, and its pods' CPU, memory, network and disks.

        The grid's steps end at multiples of `step` since the epoch, so that two looks at one time see the same; `step`
        is doubled until Prometheus' limits and ours are kept (JobSeries.step says the result). Raises
        MetricsUnavailable.
        """
        _aware(start)
        _aware(end)
        seconds = self._step(facts, end - start, step)
        origin = math.floor(start.timestamp() / seconds) * seconds
        last = math.floor(end.timestamp() / seconds) * seconds
        gpu_rows = pod_rows = Rows([], (), None)
        if last > origin and facts.pods:
            gpu_rows, pod_rows = await asyncio.gather(
                self._range(self._gpu_query(facts, seconds), origin + seconds, last, seconds),
                self._range(self._pod_query(facts, seconds), origin + seconds, last, seconds),
            )

        def place() -> JobSeries:
            return job_series(
                facts,
                [*self._gpu_traces(facts, gpu_rows), *_pod_traces(pod_rows)],
                start=datetime.fromtimestamp(origin, tz=UTC),
                end=datetime.fromtimestamp(max(last, origin), tz=UTC),
                step=timedelta(seconds=seconds),
                complete=not gpu_rows.warnings and not pod_rows.warnings,
            )

        return await self._off_loop(place)

    def _step(self, facts: JobFacts, life: timedelta, step: timedelta) -> int:
        seconds = max(round(step.total_seconds()), 1)
        width = max(facts.gpus, 1) * len({metric.signal for metric in self._profile.metrics})
        while life.total_seconds() / seconds > min(MAX_STEPS, MAX_CELLS / width):
            seconds *= 2
        return seconds

    def _gpu_query(self, facts: JobFacts, step: int) -> str:
        labels = self._profile.grouping
        matchers = [
            {**matcher, self._namespace_label(place): facts.namespace}
            for place, matcher in enumerate(self._pod_matchers((facts.namespace, pod.name) for pod in facts.pods))
        ]
        return union(
            named(
                metric.name,
                " or ".join(
                    aggregate("max", labels, self._held(selector(metric.name, matcher), step)) for matcher in matchers
                ),
            )
            for metric in self._profile.metrics
        )

    def _held(self, chosen: str, step: int) -> str:
        """The mean of a step's samples; in a step without one the last sample, for as long as one may be away.

        So a scrape interval longer than the step leaves no gaps, and a gap stays one.
        """
        mean = f"avg_over_time({chosen}[{duration(timedelta(seconds=step))}])"
        reach = 1.5 * self._resolution
        return mean if step >= reach.total_seconds() else f"{mean} or last_over_time({chosen}[{duration(reach)}])"

    def _namespace_label(self, place: int) -> str:
        return self._profile.labels["namespace"][place]

    def _pod_query(self, facts: JobFacts, step: int) -> str:
        """CAdvisor's series as the kubelet serves them. `max` first: a series scraped by two jobs counts once."""
        pods = {"namespace": facts.namespace, "pod": any_of(pod.name for pod in facts.pods)}
        containers = {**pods, "container": Not("")}
        span = duration(max(timedelta(seconds=step), RATE_WINDOW))
        own = duration(timedelta(seconds=step))

        def rate(metric: str, matchers: Mapping[str, str], *parts: str) -> str:
            each = aggregate("max", ("namespace", "pod", *parts), f"rate({selector(metric, matchers)}[{span}])")
            return aggregate("sum", ("namespace", "pod"), each)

        used = selector("container_memory_working_set_bytes", containers)
        memory = aggregate("max", ("namespace", "pod", "container"), f"avg_over_time({used}[{own}])")
        disk = ("container", "device")
        return union(
            [
                named(PodSignal.CPU, rate("container_cpu_usage_seconds_total", containers, "container", "cpu")),
                named(PodSignal.MEMORY, aggregate("sum", ("namespace", "pod"), memory)),
                # The network belongs to the pod's sandbox: no container label.
                named(PodSignal.NET_RX, rate("container_network_receive_bytes_total", pods, "interface")),
                named(PodSignal.NET_TX, rate("container_network_transmit_bytes_total", pods, "interface")),
                named(PodSignal.DISK_READ, rate("container_fs_reads_bytes_total", containers, *disk)),
                named(PodSignal.DISK_WRITE, rate("container_fs_writes_bytes_total", containers, *disk)),
            ]
        )

    def _gpu_traces(self, facts: JobFacts, rows: Rows) -> Iterator[Trace]:
        by_metric: dict[str, list[tuple[Identity, list[tuple[float, float]]]]] = defaultdict(list)
        for row in rows:
            identity = self._profile.identity(row["metric"])
            if identity is not None and identity.namespace == facts.namespace:
                by_metric[row["metric"][ORIGIN]].append((identity, _points(row)))
        for metric in self._profile.metrics:
            found = by_metric[metric.name]
            own = metric.factor((value for _, points in found for _, value in points), averaged=True)
            factor = self._factors.get(metric.name, own)
            for identity, points in found:
                yield Trace(
                    signal=metric.signal,
                    pod=identity.pod,
                    gpu=identity.gpu,
                    index=identity.index,
                    context_idle_watts=self._profile.resting_watts(identity.model),
                    points=[(time, value * factor) for time, value in points if metric.plausible(value)],
                )

    # ------------------------------------------------------------------------------------------------------ wire

    def _device_key(self, row: Mapping[str, Any]) -> DeviceKey | None:
        identity = self._profile.identity(row["metric"])
        return None if identity is None else (identity.namespace, identity.pod, identity.gpu)

    async def _instant(self, query: str, now: datetime) -> Rows:
        rows = await self._ask(partial(self._client.custom_query, query, params={"time": f"{now.timestamp():.3f}"}))
        if self._max_skew is not None and rows.server_time is not None:
            skew = rows.server_time - now
            if abs(skew) > self._max_skew:
                side = "ahead of" if skew > timedelta(0) else "behind"
                message = f"Prometheus' clock is {abs(skew).total_seconds():.0f} s {side} ours"
                raise MetricsUnavailable(UnknownReason.STALE, message)
        return rows

    async def _range(self, query: str, start: float, end: float, step: float) -> Rows:
        return await self._ask(
            partial(
                self._client.custom_query_range,
                query,
                start_time=datetime.fromtimestamp(start, tz=UTC),
                end_time=datetime.fromtimestamp(end, tz=UTC),
                step=f"{step:g}",
            )
        )

    async def _off_loop(self, work: Callable[..., Result], *args: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args))

    async def _ask(self, question: partial[Any]) -> Rows:
        rows: object = await self._off_loop(question)
        if not isinstance(rows, Rows):
            raise TypeError("prometheus-api-client did not pass the answer's rows through")
        for warning in rows.warnings:
            LOG.warning("Prometheus answered in part: %s", warning)
        return rows


def _pod_traces(rows: Rows) -> Iterator[Trace]:
    for row in rows:
        labels = row["metric"]
        yield Trace(signal=PodSignal(labels[ORIGIN]), pod=labels["pod"], points=_points(row))


def _points(row: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [(float(time), _number(value)) for time, value in row["values"]]


def _number(text: str) -> float:
    """A sample as Prometheus writes it: `NaN` and `+Inf` are numbers here, and no evidence later."""
    return float(text)


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


def _aware(time: datetime) -> None:
    if time.tzinfo is None:
        raise ValueError("a time without its zone is ambiguous")
