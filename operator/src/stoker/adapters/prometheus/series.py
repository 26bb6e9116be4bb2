"""One job's series in full: its GPUs, and its pods' CPUs, memory, network, disks and pressure."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from stoker.adapters.prometheus.connection import PrometheusConnection, aware
from stoker.adapters.prometheus.device_readings import TAKEN, DeviceReadings
from stoker.adapters.prometheus.metric_profile import RATIO_LIMIT, Aggregation, Factors, Metric, MetricProfile, Unit
from stoker.adapters.prometheus.promql import ORIGIN, Not, aggregate, any_of, duration, named, union
from stoker.adapters.prometheus.transport import LimitExceeded, Rows
from stoker.findings.vocabulary import UnknownReason
from stoker.telemetry.grid import Trace, job_series
from stoker.telemetry.readings import reading
from stoker.telemetry.screen import MetricsUnavailable
from stoker.telemetry.series import JobFacts, JobSeries, PodFacts, PodSignal

LOG = logging.getLogger(__name__)

MAX_STEPS = 11_000
"""Prometheus refuses more points a series in one answer (web/api/v1, query_range)."""
MIN_STEPS = 32
"""A refused query is asked at twice the step while the life keeps so many: fewer tell nothing of it."""
MAX_CELLS = 600_000
"""Values of all series in one answer: some 18 MB of JSON, and 10 MB of arrays."""
MAX_PARTS = 8
"""Answers that one job's GPUs are read in; beyond, the step is doubled."""
MAX_QUERIES = 40
"""Of one look at one job, with all that is asked anew."""
UNIT_PROBES = 12
"""Times at which the namespace is looked at where a job's own values leave a metric's unit open."""
REACH = 1.5
"""In resolutions: for so long a sample stands for what follows."""
RATE_SLACK = timedelta(seconds=30)
"""Added to a step to make the window of its rate: one scrape interval in common use."""
RATE_WINDOW = timedelta(minutes=2)
"""A rate needs two samples. A window longer than the step by a scrape interval has every change in it once; where that
holds fewer than two, the longer window serves intervals of up to a minute.
"""
EXPORTER = "instance"
"""The label by which Prometheus tells two exporters of one device apart."""


class SeriesReader:
    """Reads jobs' series."""

    def __init__(
        self, connection: PrometheusConnection, profile: MetricProfile, factors: Factors, *, resolution: timedelta
    ) -> None:
        """`resolution` is at least the scrape interval."""
        self._connection = connection
        self._select = connection.selector
        self._profile = profile
        self._factors = factors
        self._resolution = resolution
        self._width = len({(metric.signal, metric.kind) for metric in profile.metrics}) + 1

    async def read(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Two queries for most jobs: the GPUs, and the pods' CPU, memory, network, disks and pressure; former pods are
        the job's, too. A large job is read in parts.

        The grid's steps end at multiples of `step` since the epoch, so that two looks at one time see the same; `step`
        is doubled until the server's limits and ours are kept (JobSeries.step says the result). Raises
        MetricsUnavailable.
        """
        aware(start)
        aware(end)
        pods = sorted({pod.name: pod for pod in (*facts.former_pods, *facts.pods)}.values(), key=lambda pod: pod.name)
        budget = _QueryBudget(MAX_QUERIES)
        seconds = self._step(pods, end - start, step)
        while True:
            try:
                return await self._look(facts, pods, _ends(start, end, seconds), budget)
            except LimitExceeded as error:
                if (end - start).total_seconds() < 2 * seconds * MIN_STEPS:
                    raise
                LOG.info("reading %s/%s at %d s: %s", facts.namespace, facts.name, 2 * seconds, error.message)
                seconds *= 2

    async def _look(self, facts: JobFacts, pods: Sequence[PodFacts], times: range, budget: "_QueryBudget") -> JobSeries:
        """The series at these seconds since the epoch, each of which ends a step."""
        devices = DeviceReadings(self._profile, facts.namespace)
        traces: list[Trace] = []
        partial = False

        async def ask(query: str) -> Rows:
            budget.spend()
            return await self._connection.range(query, times[0], times[-1], times.step)

        for part in self._parts(pods, len(times)) if times else ():
            names = [pod.name for pod in part]
            gpu_rows, pod_rows = await asyncio.gather(
                ask(self._gpu_query(facts.namespace, names, times.step)),
                ask(self._pod_query(facts.namespace, names, times.step)),
            )
            partial |= bool(gpu_rows.warnings or pod_rows.warnings)
            await self._connection.off_loop(devices.add, gpu_rows)
            traces += await self._connection.off_loop(_pod_traces, pod_rows)
        factors = await self._units(devices, facts.namespace, times, budget)

        def place() -> JobSeries:
            gap = 1.5 * max(times.step, REACH * self._resolution.total_seconds())
            return job_series(
                facts,
                [*devices.traces(factors, step=times.step, gap=gap, shared=facts.shares_gpus), *traces],
                start=datetime.fromtimestamp(times.start - times.step, tz=UTC),
                end=datetime.fromtimestamp(times.stop - times.step, tz=UTC),
                step=timedelta(seconds=times.step),
                complete=not partial,
            )

        return await self._connection.off_loop(place)

    # ------------------------------------------------------------------------------------------------------ size

    def _step(self, pods: Sequence[PodFacts], life: timedelta, step: timedelta) -> int:
        seconds = max(round(step.total_seconds()), 1)
        width = max(sum(pod.gpus for pod in pods), 1) * self._width
        most = min(MAX_STEPS, MAX_PARTS * MAX_CELLS / width)
        while life.total_seconds() / seconds > most and seconds < life.total_seconds():
            seconds *= 2
        return seconds

    def _parts(self, pods: Sequence[PodFacts], steps: int) -> Iterator[list[PodFacts]]:
        """Pods whose values fit into one answer together."""
        part: list[PodFacts] = []
        cells = 0
        for pod in pods:
            own = max(pod.gpus, 1) * self._width * steps
            if part and cells + own > MAX_CELLS:
                yield part
                part, cells = [], 0
            part.append(pod)
            cells += own
        if part:
            yield part

    # --------------------------------------------------------------------------------------------------- queries

    def _gpu_query(self, namespace: str, pods: Sequence[str], step: int) -> str:
        """Every metric of the pods' devices; two exporters of one device stay apart."""
        labels = (*self._profile.grouping, EXPORTER)
        matchers = self._profile.selecting(pods, namespace)
        terms: list[str] = []
        for metric in self._profile.metrics:
            chosen = [self._select(metric.name, matcher) for matcher in matchers]
            # A target that two replicas of Prometheus scrape is one exporter, whose samples lie a little apart.
            operator = "avg" if metric.kind is Aggregation.MEAN else "max"
            held = [aggregate(operator, labels, self._held(metric.kind, one, step)) for one in chosen]
            terms.append(named(metric.name, union(held)))
            if metric.kind is Aggregation.TOTAL:
                taken = [aggregate("max", labels, f"timestamp({one})") for one in chosen]
                terms.append(named(metric.name + TAKEN, union(taken)))
        return union(terms)

    def _held(self, kind: Aggregation, chosen: str, step: int) -> str:
        """What a step's samples say; in a step without one the last sample, for as long as one may be away.

        So a scrape interval longer than the step leaves no gaps, and a gap stays one.
        """
        reach = REACH * self._resolution.total_seconds()
        last = f"last_over_time({chosen}[{duration(timedelta(seconds=max(step, reach)))}])"
        if kind is Aggregation.TOTAL:
            return last
        function = "avg_over_time" if kind is Aggregation.MEAN else "max_over_time"
        own = f"{function}({chosen}[{duration(timedelta(seconds=step))}])"
        return own if step >= reach else f"{own} or {last}"

    def _pod_query(self, namespace: str, names: Sequence[str], step: int) -> str:
        """CAdvisor's series as the kubelet serves them, and the pods' CPU limits and requests by kube-state-metrics.
        `max` first: a series scraped by two jobs counts once.
        """
        pods = {"namespace": namespace, "pod": any_of(names)}
        containers = {**pods, "container": Not("")}
        own = timedelta(seconds=step)
        short, long = own + RATE_SLACK, max(own + 2 * RATE_SLACK, RATE_WINDOW)
        pod, container = ("namespace", "pod"), ("namespace", "pod", "container")

        def each(metric: str, matchers: Mapping[str, str], labels: tuple[str, ...]) -> str:
            chosen = self._select(metric, matchers)
            return aggregate("max", labels, f"rate({chosen}[{duration(short)}]) or rate({chosen}[{duration(long)}])")

        def rate(metric: str, matchers: Mapping[str, str], *parts: str) -> str:
            return aggregate("sum", pod, each(metric, matchers, (*pod, *parts)))

        def pressure(resource: str) -> str:
            # Pressure does not add up: the container that waits most says it.
            waiting = each(f"container_pressure_{resource}_waiting_seconds_total", containers, container)
            return aggregate("max", pod, f"100 * {waiting}")

        used = self._select("container_memory_working_set_bytes", containers)
        memory = aggregate("max", container, f"avg_over_time({used}[{duration(own)}])")
        throttled = each("container_cpu_cfs_throttled_periods_total", containers, container)
        periods = each("container_cpu_cfs_periods_total", containers, container)
        disk = ("container", "device")

        def cores(metric: str) -> str:
            # What kube-state-metrics has of the pods' specs. A container without the field has no series: then the
            # others' sum is not the pod's.
            chosen = self._select(metric, {**pods, "resource": "cpu"})
            known = aggregate("max", container, chosen)
            every = aggregate("max", container, self._select("kube_pod_container_info", pods))
            complete = f"{aggregate('count', pod, known)} == {aggregate('count', pod, every)}"
            return f"{aggregate('sum', pod, known)} and ({complete})"

        return union(
            [
                named(PodSignal.CPU, rate("container_cpu_usage_seconds_total", containers, "container", "cpu")),
                named(PodSignal.MEMORY, aggregate("sum", pod, memory)),
                # The network belongs to the pod's sandbox: no container label.
                named(PodSignal.NET_RX, rate("container_network_receive_bytes_total", pods, "interface")),
                named(PodSignal.NET_TX, rate("container_network_transmit_bytes_total", pods, "interface")),
                named(PodSignal.DISK_READ, rate("container_fs_reads_bytes_total", containers, *disk)),
                named(PodSignal.DISK_WRITE, rate("container_fs_writes_bytes_total", containers, *disk)),
                named(PodSignal.CPU_THROTTLED, aggregate("max", pod, f"100 * {throttled} / ({periods} > 0)")),
                named(PodSignal.CPU_PRESSURE, pressure("cpu")),
                named(PodSignal.IO_PRESSURE, pressure("io")),
                named(PodSignal.MEMORY_PRESSURE, pressure("memory")),
                named(PodSignal.CPU_LIMIT, cores("kube_pod_container_resource_limits")),
                named(PodSignal.CPU_REQUEST, cores("kube_pod_container_resource_requests")),
            ]
        )

    # ------------------------------------------------------------------------------------------------------ units

    async def _units(
        self, devices: DeviceReadings, namespace: str, times: range, budget: "_QueryBudget"
    ) -> dict[str, float]:
        """The factor of each metric; none for one whose unit can't be told.

        A mean of 0.5 may be half a percent or one half. Then the namespace's samples are looked at as they were
        written, for a percentage is written in whole numbers.
        """
        factors: dict[str, float] = {}
        undecided: dict[str, Metric] = {}
        for metric in self._profile.metrics:
            top, learned = devices.highest(metric), self._factors.learned(metric)
            if (self._factors.is_doubted(metric) and 0 < top <= RATIO_LIMIT) or devices.contradict(metric):
                LOG.info("%s in %s: its values are in two units, and are left out", metric.name, namespace)
            elif learned is not None and top <= RATIO_LIMIT:
                factors[metric.name] = learned
            elif metric.unit is Unit.PERCENT and 0 < top <= RATIO_LIMIT:
                undecided[metric.name] = metric
            else:
                factors[metric.name] = metric.factor([top])
        if not undecided:
            return factors
        budget.spend()
        every = max(len(times) // UNIT_PROBES, 1) * times.step
        matcher = {self._profile.labels["namespace"][-1]: namespace}
        terms: list[str] = []
        for name in undecided:
            chosen = self._select(name, matcher)
            whole = f"max_over_time({chosen}[{duration(timedelta(seconds=every))}])"
            terms += [named(f"{name}/whole", f"max({whole})"), named(f"{name}/part", f"max({chosen} % 1)")]
        seen: dict[str, list[float]] = defaultdict(list)
        for row in await self._connection.range(union(terms), times[0], times[-1], every):
            seen[row["metric"][ORIGIN].partition("/")[0]] += row["values"][:, 1].tolist()
        for name, metric in undecided.items():
            if metric.shows_unit(seen[name]):
                factors[name] = metric.factor(seen[name])
            else:
                LOG.info("%s in %s: a percentage or a ratio? Its values don't tell", name, namespace)
        return factors


def _ends(start: datetime, end: datetime, step: int) -> range:
    """The ends of the whole steps between two times; the first step may begin before `start`."""
    origin = math.floor(start.timestamp() / step) * step
    return range(origin + step, math.floor(end.timestamp() / step) * step + step, step)


class _QueryBudget:
    """How many queries are left."""

    def __init__(self, queries: int) -> None:
        self._left = queries

    def spend(self) -> None:
        """Raises MetricsUnavailable when none is."""
        if not self._left:
            raise MetricsUnavailable(UnknownReason.PROMETHEUS_UNAVAILABLE, f"not read within {MAX_QUERIES} queries")
        self._left -= 1


def _pod_traces(rows: Rows) -> list[Trace]:
    return [
        Trace(signal=PodSignal(row["metric"][ORIGIN]), pod=row["metric"]["pod"], points=reading(row["values"]))
        for row in rows
    ]
