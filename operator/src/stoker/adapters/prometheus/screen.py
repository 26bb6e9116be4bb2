"""Who may be idle, whether really, and since when: all jobs in a handful of queries."""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from stoker.adapters.prometheus.connection import PrometheusConnection, aware, number
from stoker.adapters.prometheus.metric_profile import RATIO_LIMIT, Aggregation, Factors, Identity, Metric, MetricProfile
from stoker.adapters.prometheus.promql import ORIGIN, aggregate, any_of, duration, named, union
from stoker.adapters.prometheus.transport import Rows
from stoker.telemetry.activity import ACTIVITY_SIGNALS, idle_ceiling
from stoker.telemetry.screen import (
    LONGEST_GAP,
    GpuWindow,
    MetricsUnavailable,
    PodKey,
    PodSummary,
    Screen,
    ScreenRequest,
)
from stoker.telemetry.series import GpuSignal

LOG = logging.getLogger(__name__)

PRIMARY = (GpuSignal.UTIL, GpuSignal.GRAPHICS)
"""What coverage is counted on: without either, the silence of the others proves nothing."""
SUMMARY_WINDOW = timedelta(minutes=10)
"""A summary goes back so far, or as far as the shortest window asked for: who has worked in it has worked in all."""
NAMED_PODS = 200
"""Up to so many pods are named in a query. The longest names, some times for each metric, make up a megabyte, which is
as much as proxies commonly pass.
"""
CLOSE_QUERIES = 3
"""Queries for what is looked at detailed: NAMED_PODS pods each."""
WINDOWS = 4
"""Idle windows in one screen. Questions with another one are answered over the next longer: the job counts as idle
later, never earlier.
"""
COVERAGE_STEPS = 240
"""Into so many steps a window is cut at most to see which share of it holds samples."""
JOINED_DEVICES = 500
"""Of so many devices that a second exporter tells of as well its values are read; the others are in doubt."""
GAP_STEP = timedelta(minutes=2)
"""At least so often a window is looked at for gaps: one of LONGEST_GAP less this may count as one already."""
QUIET_LOOKBACK = timedelta(hours=24)
"""How far back the beginning of an idle stretch is looked for."""
QUIET_STEP = timedelta(minutes=5)
"""How far back, and how finely, the beginning of an idle stretch is looked for."""
QUIET_PODS = 40
"""Of so many pods a screen: a day of their samples is read once."""
PROVEN_PERCENT = 90.0
"""A window with less coverage does not carry an idle stretch on."""
ONE_SCRAPE = timedelta(seconds=0.5)
"""Samples of one scrape have one time, and Prometheus does not scrape a target more than once a second."""
ENERGY_STEP = timedelta(minutes=5)
"""An energy counter tells the mean power of so long a time, and so of kernels between two samples of utilization."""
CONTEXT_REACH = 3.0
"""A context with no work draws up to three times what a GPU without one does (H100: 72 and 122 W, A100: 54 and 80 W,
L40S: 36 and 102 W): what lies over that is work, however even it is.
"""
AHEAD = timedelta(minutes=10)
"""Prometheus takes no samples from further in the future (tsdb, out of bounds)."""
SAMPLE, COVERAGE, LAST, DOUBT, GAPLESS, LOW = "sample", "coverage", "last", "doubt", "gapless", "low"
"""What rows say that hold neither a mean nor a largest value: a part of their origin."""


DeviceKey = tuple[str, str, str]
"""Namespace, pod, device."""


@dataclass(slots=True)
class _GpuReading:
    """What the detailed check has gathered of one GPU."""

    identity: Identity
    values: dict[str, float] = field(default_factory=dict)
    """The largest plausible one by the metric's name, unscaled."""
    least_watts: float | None = None
    """The least power within the window."""
    doubtful: bool = False
    has_gap: bool = True
    """Until every step of the window is known to have a sample near enough."""
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
    """An idle stretch of a device: since when, and when it was last seen to go on, at or under which percentage. While
    its beginning has not been looked for it may lie further back.
    """

    since: datetime
    proven_at: datetime
    idle_percent: float
    is_sought: bool = False


class Screening:
    """Reads screens. It remembers since when GPUs are idle from one to the next."""

    def __init__(
        self,
        connection: PrometheusConnection,
        profile: MetricProfile,
        factors: Factors,
        *,
        resolution: timedelta,
        max_skew: timedelta | None = None,
    ) -> None:
        """`factors` are learned here, for whoever shares them; `resolution` is at least the scrape interval.

        Samples that lie further ahead than `max_skew` are another clock's; with None, the screen may be of the past.
        """
        self._connection = connection
        self._select = connection.selector
        self._profile = profile
        self._factors = factors
        self._metrics = {metric.name: metric for metric in profile.metrics}
        self._resolution = resolution
        self._max_skew = max_skew
        self._stretches: dict[DeviceKey, _Stretch] = {}
        self._least_watts: dict[str, float] = {}
        """The least power that a GPU of the model was seen at."""

    async def read(self, requests: Sequence[ScreenRequest], now: datetime) -> list[Screen]:
        """A summary at all pods, aggregated by Prometheus; a detailed check at those that may be idle, in up to
        CLOSE_QUERIES queries; for some that are, since when; and one more where a second exporter tells of the same
        GPUs: six queries at most.

        Raises MetricsUnavailable when Prometheus can't be asked or its clock is another.
        """
        aware(now)
        if not requests:
            return []
        off_loop = self._connection.off_loop
        rows = await self._connection.instant(self._summary_query(requests), now)
        warnings = list(rows.warnings)
        # Thousands of rows: off the loop, which has watches to serve.
        summaries = await off_loop(self._summaries, rows)
        windows = _chosen(Counter(request.window for request in requests))
        over = [next(window for window in windows if window >= request.window) for request in requests]
        close, deferred = _to_look_at(requests, summaries)
        asked = {key: over[place] for place in close for key in requests[place].pods}
        devices: dict[DeviceKey, _GpuReading] = {}
        holders: dict[str, dict[PodKey, datetime]] = defaultdict(dict)
        elsewhere: set[str] = set()
        ordered = sorted(asked, key=lambda key: (asked[key], key))
        # A single job may have more pods than a screen names: they share its queries all the same.
        size = max(NAMED_PODS, math.ceil(len(ordered) / CLOSE_QUERIES))
        for first in range(0, len(ordered), size):
            chosen = {key: asked[key] for key in ordered[first : first + size]}
            rows = await self._connection.instant(self._close_query(chosen), now)
            warnings += rows.warnings
            await off_loop(self._gather, rows, chosen, devices, holders, elsewhere)
        warnings += await self._join(devices, elsewhere, asked, now)
        gpus = await off_loop(self._windows, devices, holders)
        ceilings = {key: requests[place].idle_percent for place in close for key in requests[place].pods}
        gpus = await self._with_quiet_since(gpus, asked, ceilings, now)
        looked_at = frozenset(close)
        return [
            Screen(
                at=now,
                window=over[place],
                summaries=summaries,
                gpus={key: gpus.get(key, ()) for key in request.pods} if place in looked_at else {},
                deferred=place in deferred,
                complete=not warnings,
                message="; ".join(warnings)[:500],
            )
            for place, request in enumerate(requests)
        ]

    # ---------------------------------------------------------------------------------------------------- at a summary

    def _summary_query(self, requests: Sequence[ScreenRequest]) -> str:
        """Of each pod the mean of its GPUs' utilization, by metric: two rows a pod, and one function over a short time
        a GPU, because this is what grows with the cluster.

        A mean tells less than a largest value: of a brief spike it may say rest, and then the detailed check sees it.
        """
        labels = sorted({*self._profile.labels["namespace"], *self._profile.labels["pod"]})
        span = duration(min(SUMMARY_WINDOW, *(request.window for request in requests)))
        names = sorted({pod for request in requests for _, pod in request.pods})
        matchers = self._profile.selecting(names) if len(names) <= NAMED_PODS else [{}]
        terms: list[str] = []
        for metric in self._profile.of(*PRIMARY):
            means = " or ".join(f"avg_over_time({self._select(metric.name, matcher)}[{span}])" for matcher in matchers)
            terms.append(named(metric.name, aggregate("avg", labels, means)))
            if self._factors.learned(metric) is None:
                every = self._select(metric.name)
                # Of means it can't be said whether they are ratios. Of samples it can: by those under 1, or well over.
                terms += [named(f"{metric.name}/{SAMPLE}", f"max({every})")]
                terms += [named(f"{metric.name}/{SAMPLE}/1", f"max({every} < 1)")]
        return union(terms)

    def _summaries(self, rows: Rows) -> dict[PodKey, PodSummary]:
        """The pods that any row speaks of."""
        origins = {metric.name: metric for metric in self._profile.of(*PRIMARY)}
        pods: dict[PodKey, dict[str, float]] = {}
        samples: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            labels = row["metric"]
            name, value = labels[ORIGIN], number(row["value"][1])
            metric = origins.get(name)
            if metric is None:
                samples[name.partition("/")[0]].append(value)
            elif (key := self._profile.pod(labels)) is not None:
                means = pods.setdefault(key, {})
                if metric.plausible(value):
                    means[name] = max(value, means.get(name, value))
                    if value > RATIO_LIMIT:
                        samples[name].append(value)
        for name, found in samples.items():
            self._factors.learn(origins[name], found)
        signals = {name: (metric.signal, self._factors.of(metric)) for name, metric in origins.items()}
        summaries: dict[PodKey, PodSummary] = {}
        for key, means in pods.items():
            averages: dict[GpuSignal, float] = {}
            for name, mean in means.items():
                signal, factor = signals[name]
                averages[signal] = max(mean * factor, averages.get(signal, 0.0))
            summaries[key] = PodSummary(averages=averages)
        return summaries

    # -------------------------------------------------------------------------------------------------------- closely

    def _close_query(self, windows: Mapping[PodKey, timedelta]) -> str:
        """Everything that can contradict rest, of each device of these pods, each over its own window."""
        pods_of: dict[timedelta, list[str]] = defaultdict(list)
        for (_, pod), window in windows.items():
            pods_of[window].append(pod)
        primary = self._profile.of(*PRIMARY)
        apart = (*PRIMARY, GpuSignal.POWER)
        others = self._profile.of(*(signal for signal in ACTIVITY_SIGNALS if signal not in apart))
        terms = [self._last(metric, [pod for _, pod in windows]) for metric in primary]
        for window, pods in pods_of.items():
            matchers = self._profile.selecting(sorted(set(pods)))
            seconds = f"{window.total_seconds():g}"
            terms.append(named(f"{COVERAGE}/{seconds}", self._coverage(matchers, window)))
            terms.append(named(f"{GAPLESS}/{seconds}", self._gapless(matchers, window)))
            for metric in primary:
                terms.append(named(f"{metric.name}/{seconds}", self._extents(metric, matchers, window)))
                terms.append(named(f"{DOUBT}/{seconds}/{metric.name}", self._doubt(metric, matchers, window)))
            terms += self._power(matchers, window, seconds)
            for metric in others:
                if (lowest := lowest_ceiling(metric)) is not None:
                    # What rests by any unit is left out; a value that is none (NaN, a blank) is neither lifted to the
                    # ceiling nor equal to it.
                    extents = f"clamp_min({self._extents(metric, matchers, window)}, {lowest:g}) != {lowest:g}"
                    terms.append(named(f"{metric.name}/{seconds}", extents))
        return union(terms)

    def _power(self, matchers: Sequence[Mapping[str, str]], window: timedelta, seconds: str) -> Iterator[str]:
        """The most and the least power of each device: what rest draws is known of some models only, and learned of the
        others.
        """
        step, inner = duration(ENERGY_STEP), duration(max(window - ENERGY_STEP, ENERGY_STEP))
        for metric in (*self._profile.of(GpuSignal.POWER), *self._profile.totals(GpuSignal.POWER)):
            chosen = [self._select(metric.name, matcher) for matcher in matchers]
            if metric.kind is Aggregation.TOTAL:
                spans = [f"rate({one}[{step}])[{inner}:{step}]" for one in chosen]
            else:
                spans = [f"{one}[{duration(window)}]" for one in chosen]
            for function, origin in (("max", f"{metric.name}/{seconds}"), ("min", f"{LOW}/{seconds}/{metric.name}")):
                extents = " or ".join(f"{function}_over_time({span})" for span in spans)
                yield named(origin, aggregate(function, self._profile.grouping, extents))

    def _last(self, metric: Metric, pods: Iterable[str]) -> str:
        """When each device of these pods was sampled last: by all who hold it, as it may be shared with any pod."""
        devices = ", ".join(sorted({*self._profile.labels["device"], *self._profile.labels["instance"]}))
        held = " or ".join(self._select(metric.name, matcher) for matcher in self._profile.selecting(sorted(set(pods))))
        times = f"timestamp({self._select(metric.name)}) and on ({devices}) ({held})"
        return named(f"{LAST}/{metric.name}", aggregate("max", self._profile.grouping, times))

    def _coverage(self, matchers: Sequence[Mapping[str, str]], window: timedelta) -> str:
        """Percent of the window's steps at which a sample was at most one and a half resolutions old."""
        present = self._present(matchers, 1.5 * self._resolution)
        step = max(self._resolution, window / COVERAGE_STEPS)
        steps = max(math.floor(window / step), 1)
        return f"100 / {steps} * count_over_time(({present})[{duration(window)}:{duration(step)}])"

    def _gapless(self, matchers: Sequence[Mapping[str, str]], window: timedelta) -> str:
        """A row for each device of whose window every step has a sample near enough that no gap is longer than
        LONGEST_GAP.
        """
        step = min(max(self._resolution, window / COVERAGE_STEPS), GAP_STEP)
        present = self._present(matchers, LONGEST_GAP - step)
        return f"count_over_time(({present})[{duration(window)}:{duration(step)}]) >= {math.floor(window / step)}"

    def _present(self, matchers: Sequence[Mapping[str, str]], reach: timedelta) -> str:
        """The devices that have a sample which is at most so old."""
        chosen = (self._select(metric.name, one) for metric in self._profile.of(*PRIMARY) for one in matchers)
        spans = (f"present_over_time({one}[{duration(reach)}])" for one in chosen)
        return " or ".join(aggregate("max", self._profile.grouping, span) for span in spans)

    def _extents(self, metric: Metric, matchers: Sequence[Mapping[str, str]], window: timedelta) -> str:
        chosen = " or ".join(
            self._extent(self._select(metric.name, matcher), metric, duration(window)) for matcher in matchers
        )
        return aggregate("max", self._profile.grouping, chosen)

    @staticmethod
    def _extent(chosen: str, metric: Metric, span: str) -> str:
        """The largest value; of NVLink, a rate or a counter under one name, the largest change."""
        highest = f"max_over_time({chosen}[{span}])"
        return f"{highest} - min_over_time({chosen}[{span}])" if metric.signal is GpuSignal.NVLINK else highest

    def _doubt(self, metric: Metric, matchers: Sequence[Mapping[str, str]], window: timedelta) -> str:
        # max_over_time skips NaN and coverage counts it; a sum is NaN as soon as one sample is, and that is not 0.
        chosen = (f"{self._select(metric.name, matcher)}[{duration(window)}]" for matcher in matchers)
        doubt = " or ".join(f"clamp_max(sum_over_time({one}), 0) != 0" for one in chosen)
        if self._max_skew is not None:
            # An agent whose clock is ahead stamps the latest samples with times that nobody asks for yet.
            ahead = f"[{duration(AHEAD - self._max_skew)}] offset -{duration(AHEAD)}"
            doubt += "".join(f" or present_over_time({self._select(metric.name, one)}{ahead})" for one in matchers)
        return aggregate("max", self._profile.grouping, doubt)

    def _gather(
        self,
        rows: Rows,
        windows: Mapping[PodKey, timedelta],
        devices: dict[DeviceKey, _GpuReading],
        holders: dict[str, dict[PodKey, datetime]],
        elsewhere: set[str],
    ) -> None:
        """Add the pods' devices, who holds them, and which of them are told of under other names as well."""
        own = {key: f"{window.total_seconds():g}" for key, window in windows.items()}
        for row in rows:
            identity = self._profile.identity(row["metric"])
            what, _, rest = row["metric"][ORIGIN].partition("/")
            if what == LAST and (identity is None or (identity.namespace, identity.pod) not in own):
                elsewhere.add(self._profile.device(row["metric"]))
            if identity is None:
                continue
            pod = (identity.namespace, identity.pod)
            value = number(row["value"][1])
            at = _time(value) if what == LAST else None
            if what == LAST:
                if at is None:
                    continue
                held = holders[identity.gpu]
                held[pod] = max(at, held.get(pod, at))
            elif own.get(pod) != rest.partition("/")[0]:
                continue  # of the same name in another namespace
            if pod not in own:
                continue
            device = devices.setdefault((*pod, identity.gpu), _GpuReading(identity))
            if identity.shared and not device.identity.shared:
                device.identity = identity
            if at is not None:
                # Of a part of a device the whole one's samples don't say that its own still come.
                if self._profile.attributable(self._metrics[rest].signal, partition=identity.partition, shared=False):
                    device.last_sample_at = max(at, device.last_sample_at or at)
            elif what == COVERAGE:
                device.coverage_percent = max(device.coverage_percent, min(value, 100.0))
            elif what == LOW:
                metric = self._metrics[rest.partition("/")[2]]
                if metric.plausible(value):
                    watts = value * self._factors.of(metric)
                    device.least_watts = min(watts, device.least_watts if device.least_watts is not None else watts)
            elif what == GAPLESS:
                device.has_gap = False
            elif what == DOUBT:
                device.doubtful = True
            else:
                device.take(self._metrics[what], value)

    async def _join(
        self,
        devices: Mapping[DeviceKey, _GpuReading],
        elsewhere: set[str],
        windows: Mapping[PodKey, timedelta],
        now: datetime,
    ) -> tuple[str, ...]:
        """Take what other series say of devices that are told of under the pods' names and under others, or none: by a
        second exporter that knows no pods, when the first one's values are stuck. Returns the answer's warnings.
        """
        twice = [key for key in devices if key[2] in elsewhere]
        for key in twice[JOINED_DEVICES:]:
            devices[key].doubtful = True
        if not twice:
            return ()
        by_window: dict[timedelta, list[str]] = defaultdict(list)
        for namespace, pod, gpu in twice[:JOINED_DEVICES]:
            by_window[windows[namespace, pod]].append(gpu)
        rows = await self._connection.instant(self._elsewhere_query(by_window), now)
        for row in rows:
            name, _, seconds = row["metric"][ORIGIN].partition("/")
            told = self._profile.device(row["metric"])
            for namespace, pod, gpu in twice:
                if gpu == told and f"{windows[namespace, pod].total_seconds():g}" == seconds:
                    devices[namespace, pod, gpu].take(self._metrics[name], number(row["value"][1]))
        return rows.warnings

    def _elsewhere_query(self, windows: Mapping[timedelta, Sequence[str]]) -> str:
        """The largest value of each signal of these devices, whoever tells it."""
        apart = (GpuSignal.POWER, GpuSignal.NVLINK)
        labels = sorted({*self._profile.labels["device"], *self._profile.labels["instance"]})
        terms: list[str] = []
        for window, gpus in windows.items():
            devices = any_of(sorted({gpu.partition("/")[0] for gpu in gpus}))
            for metric in self._profile.of(*(signal for signal in ACTIVITY_SIGNALS if signal not in apart)):
                chosen = (self._select(metric.name, {label: devices}) for label in self._profile.labels["device"])
                extents = " or ".join(f"max_over_time({one}[{duration(window)}])" for one in chosen)
                terms.append(named(f"{metric.name}/{window.total_seconds():g}", aggregate("max", labels, extents)))
        return union(terms)

    def _windows(
        self, devices: Mapping[DeviceKey, _GpuReading], holders: Mapping[str, Mapping[PodKey, datetime]]
    ) -> dict[PodKey, tuple[GpuWindow, ...]]:
        self._learn(device.values for device in devices.values())
        for device in devices.values():
            if device.least_watts is not None and (model := device.identity.model):
                self._least_watts[model] = min(device.least_watts, self._least_watts.get(model, device.least_watts))
        pods: dict[PodKey, list[GpuWindow]] = defaultdict(list)
        for (namespace, pod, gpu), device in devices.items():
            pods[namespace, pod].append(self._window(device, _is_shared(holders.get(gpu, {}).values())))
        return {
            key: tuple(sorted(found, key=lambda gpu: (len(gpu.index or ""), gpu.index or "", gpu.gpu)))
            for key, found in pods.items()
        }

    def _learn(self, values_of: Iterable[Mapping[str, float]]) -> None:
        """Each metric's factor, from all its values in sight."""
        values: dict[str, list[float]] = defaultdict(list)
        for one in values_of:
            for name, value in one.items():
                values[name].append(value)
        for name, found in values.items():
            self._factors.learn(self._metrics[name], found)

    def _window(self, device: _GpuReading, shared: bool) -> GpuWindow:
        peaks: dict[GpuSignal, float] = {}
        doubtful = device.doubtful
        for name, value in device.values.items():
            metric = self._metrics[name]
            doubtful |= self._factors.is_doubted(metric) and 0 < value <= RATIO_LIMIT
            peaks[metric.signal] = max(value * self._factors.of(metric), peaks.get(metric.signal, 0.0))
        return GpuWindow(
            gpu=device.identity.gpu,
            index=device.identity.index,
            model=device.identity.model,
            peaks=peaks,
            coverage_percent=device.coverage_percent,
            last_sample_at=device.last_sample_at,
            context_idle_watts=self._resting_watts(device),
            shared=shared or device.identity.shared,
            partition=device.identity.partition,
            doubtful=doubtful,
            has_gap=device.has_gap,
        )

    def _resting_watts(self, device: _GpuReading) -> float | None:
        """What it draws without work: its model's figure where there is one, else its own least, as far as that is
        within reach of what other GPUs of its model draw at least; None where its power is not known.
        """
        model, least = device.identity.model, device.least_watts
        known = self._profile.resting_watts(model)
        if known is not None or least is None:
            return known
        # Power that is high throughout must not teach that work is rest.
        return min(least, CONTEXT_REACH * self._least_watts.get(model or "", least))

    # --------------------------------------------------------------------------------------------- idle since when

    async def _with_quiet_since(
        self,
        gpus: Mapping[PodKey, tuple[GpuWindow, ...]],
        windows: Mapping[PodKey, timedelta],
        idle_percents: Mapping[PodKey, float],
        now: datetime,
    ) -> dict[PodKey, tuple[GpuWindow, ...]]:
        """The pods, and of those that rest the start of each device's idle stretch, as far as it is known.

        It is looked up for a few pods a screen, and remembered: a device that was quiet one window ago and is quiet
        now has not worked meanwhile.
        """
        self._stretches = {
            key: stretch for key, stretch in self._stretches.items() if now - stretch.proven_at <= QUIET_LOOKBACK
        }
        for pod_key, found in gpus.items():
            for gpu in found:
                if gpu.has_gap:
                    self._stretches.pop((*pod_key, gpu.gpu), None)
        quiet = {
            key: found for key, found in gpus.items() if found and all(_quiet(gpu, idle_percents[key]) for gpu in found)
        }
        unknown: dict[PodKey, tuple[GpuWindow, ...]] = {}
        for (namespace, pod), found in quiet.items():
            for gpu in found:
                key, window, percent = (namespace, pod, gpu.gpu), windows[namespace, pod], idle_percents[namespace, pod]
                stretch = self._stretches.get(key)
                if stretch is None or now - stretch.proven_at > window or stretch.idle_percent > percent:
                    # The window itself is known: the detailed check has seen it.
                    stretch = _Stretch(since=now - window, proven_at=now, idle_percent=percent)
                    self._stretches[key] = stretch
                stretch.proven_at = max(stretch.proven_at, now)
                if not stretch.is_sought:
                    unknown[namespace, pod] = found
        if unknown:
            asked = dict(sorted(unknown.items())[:QUIET_PODS])
            try:
                await self._look_back(asked, now)
            except MetricsUnavailable as error:
                # The window is known to be idle; since when is only good to know.
                LOG.warning("not known since when GPUs are idle: %s", error.message)
        return {
            key: tuple(replace(gpu, quiet_since=self._stretches[*key, gpu.gpu].since) for gpu in found)
            if key in quiet
            else found
            for key, found in gpus.items()
        }

    async def _look_back(self, pods: Mapping[PodKey, Sequence[GpuWindow]], now: datetime) -> None:
        """Learn the end of each device's last step with work, a gap or a value that is none; nothing from a partial
        answer.
        """
        seconds = QUIET_STEP.total_seconds()
        end = math.floor(now.timestamp() / seconds) * seconds
        start = end - QUIET_LOOKBACK.total_seconds()
        rows = await self._connection.range(self._quiet_query(pods), start, end, seconds)
        if rows.warnings:
            return
        found: dict[DeviceKey, datetime] = {}
        for row in rows:
            identity = self._profile.identity(row["metric"])
            if identity is None:
                continue
            idle = {round(time) for time, value in row["values"].tolist() if value == 0}
            first = end
            while first - seconds >= start and round(first) in idle:
                first -= seconds
            found[identity.namespace, identity.pod, identity.gpu] = datetime.fromtimestamp(first, tz=UTC)
        for key in ((*pod, gpu.gpu) for pod, gpus in pods.items() for gpu in gpus):
            stretch = self._stretches[key]
            stretch.since, stretch.is_sought = min(found.get(key, stretch.since), stretch.since), True

    def _quiet_query(self, pods: Mapping[PodKey, Sequence[GpuWindow]]) -> str:
        """1 for a step in which a device worked or may have, 0 for one in which it did not; nothing for a step that
        its utilization's samples do not cover.
        """
        labels = self._profile.grouping
        span = duration(QUIET_STEP)
        matchers = self._profile.selecting(sorted({pod for _, pod in pods}))
        models: dict[str, float] = {}
        for gpu in (gpu for gpus in pods.values() for gpu in gpus):
            if gpu.model is not None and gpu.context_idle_watts is not None:
                models[gpu.model] = max(gpu.context_idle_watts, models.get(gpu.model, 0.0))
        terms: list[str] = []
        for metric in self._profile.of(*ACTIVITY_SIGNALS):
            for place, matcher in enumerate(matchers):
                for label, model, ceiling in self._ceilings(metric, models):
                    chosen = self._select(metric.name, {**matcher, label: model} if label else matcher)
                    rests = f"({self._extent(chosen, metric, span)} <= bool {ceiling:g})"
                    # Neither a largest value nor a comparison shows that some samples are NaN; a sum does.
                    worked = f"1 - {rests} * (sum_over_time({chosen}[{span}]) >= bool 0)"
                    terms.append(named(f"{metric.name}/{place}/{model}", aggregate("max", labels, worked)))
        steps = math.floor(QUIET_STEP / self._resolution)
        present = self._present(matchers, 1.5 * self._resolution)
        covered = f"count_over_time(({present})[{span}:{duration(self._resolution)}]) >= {steps}"
        return f"{aggregate('max', labels, union(terms))} and ({covered})"

    def _ceilings(self, metric: Metric, models: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
        """What idles under what, in the metric's own unit: of power one ceiling for each known model."""
        if metric.signal is not GpuSignal.POWER:
            ceiling = idle_ceiling(metric.signal, 0.0, None)
            if ceiling is not None:
                yield "", "", ceiling / self._factors.of(metric)
            return
        for model, watts in sorted(models.items()):
            ceiling = idle_ceiling(metric.signal, 0.0, watts)
            if ceiling is not None:
                for label in self._profile.labels["model"]:
                    yield label, model, ceiling


def lowest_ceiling(metric: Metric) -> float | None:
    """What is idle whichever unit the metric comes in; None where that hangs on more, as with power."""
    ceiling = idle_ceiling(metric.signal, 0.0, None)
    return None if ceiling is None else ceiling / metric.largest_factor


def _to_look_at(
    requests: Sequence[ScreenRequest], summaries: Mapping[PodKey, PodSummary]
) -> tuple[list[int], frozenset[int]]:
    """The places of the requests that a detailed check can answer, as many as one screen takes, and of those put off.

    Pods that rest come before those without samples: of these the detailed check only says since when they are silent.
    """
    resting: list[int] = []
    silent: list[int] = []
    for place, request in enumerate(requests):
        if not request.detailed or not request.pods:
            continue
        seen = [summaries.get(key) for key in request.pods]
        if any(summary is not None and _works(summary, request.idle_percent) for summary in seen):
            continue
        (silent if any(summary is None or not summary.averages for summary in seen) else resting).append(place)
    close: list[int] = []
    left = NAMED_PODS * CLOSE_QUERIES
    # Where nobody speaks there is nothing to look at.
    for place in (*resting, *(silent if summaries else ())):
        wanted = len(requests[place].pods)
        if wanted <= left or not close:
            close.append(place)
            left -= wanted
    return close, frozenset(resting) - frozenset(close)


def _works(summary: PodSummary, idle_percent: float) -> bool:
    for signal, mean in summary.averages.items():
        ceiling = idle_ceiling(signal, idle_percent, None)
        if ceiling is not None and mean > ceiling:
            return True
    return False


def _chosen(wanted: Counter[timedelta]) -> list[timedelta]:
    """At most WINDOWS of the wanted windows: the longest, those of many requests, so that a few with windows of their
    own make nobody else's longer, and others spread evenly.
    """
    ordered = sorted(wanted)
    if len(ordered) <= WINDOWS:
        return ordered
    chosen = {ordered[-1], *(window for window, number in wanted.items() if number * WINDOWS > wanted.total())}
    left = WINDOWS - len(chosen)
    return sorted(chosen | {ordered[-1 - (place * len(ordered)) // (left + 1)] for place in range(1, left + 1)})


def _time(seconds: float) -> datetime | None:
    """A sample's time; None for what is none: whoever may write into the Prometheus may write any number."""
    try:
        return datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _is_shared(times: Iterable[datetime]) -> bool:
    """Whether several pods hold a device now: one scrape of the exporter had them all.

    A pod that held the device before another has an older last sample.
    """
    newest = sorted(times)[-2:]
    return len(newest) == 2 and newest[0] > newest[1] - ONE_SCRAPE


def _quiet(gpu: GpuWindow, idle_percent: float) -> bool:
    """No signal stands over its idle level, and neither a gap nor a value that is none may hide that one did."""
    if gpu.doubtful or gpu.has_gap or not gpu.coverage_percent >= PROVEN_PERCENT:
        return False
    for signal, peak in gpu.peaks.items():
        ceiling = idle_ceiling(signal, idle_percent, gpu.context_idle_watts)
        if ceiling is not None and peak > ceiling:
            return False
    return True
