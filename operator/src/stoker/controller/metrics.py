"""What Prometheus is told of the controller: its own work, and each DLJob, whose past is then known when it is gone.

Bounded: a job has at most 8 series and one for each finding and each kind of stage, while it exists, and once it is
over for a day; a namespace has one for each cause and state, a policy one for each event. What users choose among the
labels' values (a job's name, owner, team, GPU product and priority class, and the names of namespaces and policies) has
at most 253 characters: of a job's in job_metrics.py, of names by the API server.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from stoker.adapters.clock import Clock
from stoker.cluster.cache import ClusterCache
from stoker.cluster.faults import Faults
from stoker.controller.gpu_time import GpuTime
from stoker.controller.job_metrics import JobMetrics
from stoker.controller.scan_results import ScanResults
from stoker.findings.vocabulary import FINAL_PHASES, NotificationEvent, NotificationResult, Phase, ReclaimState
from stoker.reclaim.notices import NoticeReason

QUERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
FAULT_PLACES = (
    "scan",
    "request",
    "screen",
    "turn",
    "examination",
    "brake",
    "reconcile",
    "watch",
    "notification",
    "digest",
    "order",
    "policy",
    "metrics",
    "queue",
)
"""The components that skip an object which causes an internal error; see `Faults.caught`."""
TICK_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)


class ControllerMetrics:
    """The metrics of one process: a Meter and a QueryObserver. Jobs and GPU-hours come with `lead`: of several
    controllers only the leader tells of them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._ticks = Counter(
            "stoker_scan_ticks",
            "Scans of the metrics, by result: done or failed.",
            ["result"],
            registry=self.registry,
        )
        self._tick_seconds = Histogram(
            "stoker_scan_tick_seconds",
            "Duration of a scan of the metrics.",
            buckets=TICK_SECONDS,
            registry=self.registry,
        )
        self._faults = Counter(
            "stoker_object_faults",
            f"Objects skipped because they cause an internal error in Stoker, by component: {', '.join(FAULT_PLACES)}.",
            ["place"],
            registry=self.registry,
        )
        self._last_success: Gauge | None = None
        self._examinations = Counter(
            "stoker_examinations",
            "Jobs whose series were to be read in full, by result: done, unavailable (the metrics), failed (a fault of"
            " Stoker's).",
            ["result"],
            registry=self.registry,
        )
        self._query_seconds = Histogram(
            "stoker_prometheus_query_seconds",
            "Duration of a Prometheus query, by purpose: screen or examination.",
            ["kind"],
            buckets=QUERY_SECONDS,
            registry=self.registry,
        )
        self._query_failures = Counter(
            "stoker_prometheus_query_failures",
            "Prometheus queries that failed, by purpose and reason.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self._writes = Counter(
            "stoker_status_writes",
            "Writes of a DLJob's status, by result: done, conflict (the DLJob had changed), failed.",
            ["result"],
            registry=self.registry,
        )
        self._events = Counter(
            "stoker_reclaim_events",
            "Reclaim events, by reason and effective policy.",
            ["event", "policy"],
            registry=self.registry,
        )
        self._freed = Counter(
            "stoker_reclaimed_gpus",
            "GPUs freed by reclaims, counted when the last pod that held them has ended.",
            ["policy"],
            registry=self.registry,
        )
        self._notifications = Counter(
            "stoker_notifications",
            "Notifications, by event and result: sent, failed, digest"
            " (put off to it), nobody (no address for the job).",
            ["event", "result"],
            registry=self.registry,
        )
        self._leading = Gauge(
            "stoker_controller_leading", "1 if this process is the leader, else 0.", registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        self._begin_at_zero()
        self._jobs: JobMetrics | None = None
        self._policies: Iterable[Mapping[str, Any]] = ()
        self._page = asyncio.Lock()

    def _begin_at_zero(self) -> None:
        """Show what may be counted before it is: increase() does not see a counter's first value."""
        for place in FAULT_PLACES:
            self._faults.labels(place)
        for counter, results in (
            (self._ticks, ("done", "failed")),
            (self._examinations, ("done", "unavailable", "failed")),
            (self._writes, ("done", "conflict", "failed")),
        ):
            for result in results:
                counter.labels(result)
        for event in NotificationEvent:
            for outcome in NotificationResult:
                self._notifications.labels(event.value, outcome.value.lower())

    def lead(
        self,
        cache: ClusterCache,
        scan_results: ScanResults,
        queue_length: Callable[[], int],
        clock: Clock,
        faults: Faults,
    ) -> None:
        """From now on tell of the jobs."""
        self._leading.set(1)
        self._policies = cache.policies
        self._jobs = JobMetrics(cache, scan_results, clock, faults)
        self._last_success = Gauge(
            "stoker_scan_last_success_timestamp_seconds",
            "Time of the last successful scan, or of the start of leadership, in seconds since 1970.",
            registry=self.registry,
        )
        self._last_success.set(clock.now().timestamp())
        self.registry.register(_DLJobCollector(cache))
        self.registry.register(_BrakeCollector(cache))
        self.registry.register(_GpuHoursCollector(GpuTime(cache.dljobs, cache.namespaces)))
        waiting = Gauge("stoker_queue_length", "DLJobs that wait in the workqueue.", registry=self.registry)
        waiting.set_function(queue_length)

    def ticked(self, seconds: float, *, failed: bool) -> None:
        self._ticks.labels("failed" if failed else "done").inc()
        self._tick_seconds.observe(seconds)
        if not failed and self._last_success is not None:
            self._last_success.set_to_current_time()

    def faulted(self, place: str) -> None:
        self._faults.labels(place).inc()

    def examined(self, result: str) -> None:
        self._examinations.labels(result).inc()

    def wrote(self, result: str) -> None:
        self._writes.labels(result).inc()

    def noticed(self, event: str, policy: str) -> None:
        self._events.labels(event, policy).inc()

    def freed(self, gpus: int, policy: str) -> None:
        self._freed.labels(policy).inc(gpus)

    def notified(self, event: str, result: str) -> None:
        self._notifications.labels(event, result).inc()

    def queried(self, kind: str, seconds: float, failure: str | None) -> None:
        self._query_seconds.labels(kind).observe(seconds)
        if failure is not None:
            self._query_failures.labels(kind, failure).inc()

    async def page(self, _: web.Request) -> web.Response:
        """All of it, in Prometheus' text format. It is written in a thread: thousands of jobs take a while."""
        async with self._page:
            text = await asyncio.to_thread(self._written)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _written(self) -> bytes:
        for raw in list(self._policies):  # at zero before the first reclaim under it, as `_begin_at_zero` says
            name = raw["metadata"]["name"]
            self._freed.labels(name)
            for event in NoticeReason:
                self._events.labels(event.value, name)
        jobs = self._jobs.text().encode() if self._jobs is not None else b""
        return generate_latest(self.registry) + jobs


class _GpuHoursCollector(Collector):
    """GPU-hours by namespace, state and cause."""

    def __init__(self, time: GpuTime) -> None:
        self._time = time

    def collect(self) -> Iterator[Metric]:
        hours: Any = CounterMetricFamily(
            "stoker_gpu_hours",
            "GPU-hours that DLJobs have held, by use: used, idle, or unknown (no samples). Of idle"
            " ones the category of the finding that claims them, or Unexplained.",
            labels=["namespace", "state", "category"],
        )
        for namespace, (state, category), amount in self._time:
            hours.add_metric([namespace, state.value, category], amount)
        yield hours


class _BrakeCollector(Collector):
    """Says at each scrape whether the brake stops reclaims, for each policy."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        stopped: Any = GaugeMetricFamily(
            "stoker_reclaim_stopped",
            "1 while the mass-idle brake stops reclaims under the policy, else 0.",
            labels=["policy"],
        )
        for raw in list(self._cache.policies):
            stopped.add_metric([raw["metadata"]["name"]], "brake" in (raw.get("status") or {}))
        yield stopped


class _DLJobCollector(Collector):
    """DLJobs by phase and by reclaim state."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        phases, states, gpus = dict.fromkeys(Phase, 0), dict.fromkeys(ReclaimState, 0), dict.fromkeys(ReclaimState, 0)
        for raw in list(self._cache.dljobs.objects.values()):
            status = raw.get("status", {})
            if (phase := status.get("phase")) in phases:
                phases[Phase(phase)] += 1
            if phase not in FINAL_PHASES and (state := status.get("reclaim", {}).get("state")) in states:
                states[ReclaimState(state)] += 1
                gpus[ReclaimState(state)] += status.get("gpus") or 0
        counts: Any = GaugeMetricFamily("stoker_dljobs", "DLJobs by phase.", labels=["phase"])
        reclaims: Any = GaugeMetricFamily(
            "stoker_dljobs_reclaim", "DLJobs that have not ended, by reclaim state.", labels=["state"]
        )
        held: Any = GaugeMetricFamily(
            "stoker_dljobs_reclaim_gpus",
            "GPUs of DLJobs that have not ended, by reclaim state; for Reclaimed the GPUs that were freed.",
            labels=["state"],
        )
        for one, number in phases.items():
            counts.add_metric([one.value], number)
        for other, number in states.items():
            reclaims.add_metric([other.value], number)
            held.add_metric([other.value], gpus[other])
        yield from (counts, reclaims, held)
