"""One job's series in full: its GPUs, and its pods' CPUs, memory, network and disks."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from stoker.adapters.metric_profile import Factors, Identity, MetricProfile
from stoker.adapters.prometheus_connection import Connection, aware, points
from stoker.adapters.prometheus_transport import Rows
from stoker.adapters.promql import ORIGIN, Not, aggregate, any_of, duration, named, selector, union
from stoker.models.series import JobFacts, JobSeries, PodSignal
from stoker.subjects.grid import Trace, job_series

RATE_WINDOW = timedelta(minutes=2)
"""Counters need two samples: two minutes hold them at scrape intervals of up to a minute."""
MAX_STEPS = 11_000
"""Prometheus refuses more points a series in one answer (web/api/v1, query_range)."""
MAX_CELLS = 1_500_000
"""Values of all series of one job together: some 45 MB of JSON."""


class SeriesReader:
    """Reads jobs' series."""

    def __init__(
        self, connection: Connection, profile: MetricProfile, factors: Factors, *, resolution: timedelta
    ) -> None:
        """`resolution` is at least the scrape interval."""
        self._connection = connection
        self._profile = profile
        self._factors = factors
        self._resolution = resolution

    async def read(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """Two queries: the job's GPUs, and its pods' CPU, memory, network and disks.

        The grid's steps end at multiples of `step` since the epoch, so that two looks at one time see the same; `step`
        is doubled until Prometheus' limits and ours are kept (JobSeries.step says the result). Raises
        MetricsUnavailable.
        """
        aware(start)
        aware(end)
        seconds = self._step(facts, end - start, step)
        origin = math.floor(start.timestamp() / seconds) * seconds
        last = math.floor(end.timestamp() / seconds) * seconds
        gpu_rows = pod_rows = Rows([], (), None)
        if last > origin and facts.pods:
            gpu_rows, pod_rows = await asyncio.gather(
                self._connection.range(self._gpu_query(facts, seconds), origin + seconds, last, seconds),
                self._connection.range(self._pod_query(facts, seconds), origin + seconds, last, seconds),
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

        return await self._connection.off_loop(place)

    def _step(self, facts: JobFacts, life: timedelta, step: timedelta) -> int:
        seconds = max(round(step.total_seconds()), 1)
        width = max(facts.gpus, 1) * len({metric.signal for metric in self._profile.metrics})
        while life.total_seconds() / seconds > min(MAX_STEPS, MAX_CELLS / width):
            seconds *= 2
        return seconds

    def _gpu_query(self, facts: JobFacts, step: int) -> str:
        labels = self._profile.grouping
        matchers = self._profile.selecting([pod.name for pod in facts.pods], facts.namespace)
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
                by_metric[row["metric"][ORIGIN]].append((identity, points(row)))
        for metric in self._profile.metrics:
            found = by_metric[metric.name]
            factor = self._factors.of(metric, (value for _, samples in found for _, value in samples))
            for identity, samples in found:
                yield Trace(
                    signal=metric.signal,
                    pod=identity.pod,
                    gpu=identity.gpu,
                    index=identity.index,
                    context_idle_watts=self._profile.resting_watts(identity.model),
                    points=[(time, value * factor) for time, value in samples if metric.plausible(value)],
                )


def _pod_traces(rows: Rows) -> Iterator[Trace]:
    for row in rows:
        labels = row["metric"]
        yield Trace(signal=PodSignal(labels[ORIGIN]), pod=labels["pod"], points=points(row))
