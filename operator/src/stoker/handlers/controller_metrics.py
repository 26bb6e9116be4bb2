"""What Prometheus is told of the controller: its own work, and each DLJob, whose past is then known when it is gone.

Bounded: a job has at most 8 series and one for each finding and each kind of stage, while it exists, and once it is
over for a day; a namespace has one for each cause and state. No other label has a value that a user chooses.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from stoker.adapters.clock import Clock
from stoker.adapters.kubernetes import Object
from stoker.controller.gpu_time import GpuState, GpuTime, split_hours, written_hours
from stoker.controller.looks import Looks
from stoker.controller.store import Store
from stoker.models.diagnosis import Utilization
from stoker.models.finding import parse_time
from stoker.models.meta import OWNER_LABEL, TEAM_LABEL
from stoker.models.vocabulary import ConditionType, JobType, Phase, ReclaimState, Stage

QUERY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TICK_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
SHOWN_AFTER_END = timedelta(days=1)
"""A job that is over stays visible for so long, though its object may stay for ever."""
IDENTITY = ("uid", "namespace", "name")


class ControllerMetrics:
    """The metrics of one process: a Meter and a QueryObserver. Jobs and GPU-hours come with `lead`: of several
    controllers only the leader tells of them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._ticks = Counter(
            "stoker_scan_ticks",
            "Looks at the metrics, by how they ended: done or failed.",
            ["result"],
            registry=self.registry,
        )
        self._tick_seconds = Histogram(
            "stoker_scan_tick_seconds",
            "How long a look at the metrics took.",
            buckets=TICK_SECONDS,
            registry=self.registry,
        )
        self._examinations = Counter(
            "stoker_examinations",
            "Jobs whose series were to be read in full, by result: done, unavailable (the metrics), failed (a fault of"
            " Stoker's).",
            ["result"],
            registry=self.registry,
        )
        self._query_seconds = Histogram(
            "stoker_prometheus_query_seconds",
            "How long a query took, by what it was for: screen or examination.",
            ["kind"],
            buckets=QUERY_SECONDS,
            registry=self.registry,
        )
        self._query_failures = Counter(
            "stoker_prometheus_query_failures",
            "Queries without an answer, by what they were for and why.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self._writes = Counter(
            "stoker_status_writes",
            "Writes of a DLJob's status, by result: done, conflict (it had changed meanwhile), failed.",
            ["result"],
            registry=self.registry,
        )
        self._notices = Counter(
            "stoker_reclaim_notices",
            "What reclaim had to tell, by the event's reason.",
            ["reason"],
            registry=self.registry,
        )
        self._leading = Gauge(
            "stoker_controller_leading", "Whether this process is the one that acts.", registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def lead(self, store: Store, looks: Looks, queue_length: Callable[[], int], clock: Clock) -> None:
        """From now on tell of the jobs."""
        self._leading.set(1)
        self.registry.register(_Jobs(store, looks, clock))
        self.registry.register(_GpuHours(GpuTime(store.dljobs, store.namespaces)))
        waiting = Gauge("stoker_queue_length", "DLJobs that wait to be looked at.", registry=self.registry)
        waiting.set_function(queue_length)

    def ticked(self, seconds: float, *, failed: bool) -> None:
        self._ticks.labels("failed" if failed else "done").inc()
        self._tick_seconds.observe(seconds)

    def examined(self, result: str) -> None:
        self._examinations.labels(result).inc()

    def wrote(self, result: str) -> None:
        self._writes.labels(result).inc()

    def noticed(self, reason: str) -> None:
        self._notices.labels(reason).inc()

    def queried(self, kind: str, seconds: float, failure: str | None) -> None:
        self._query_seconds.labels(kind).observe(seconds)
        if failure is not None:
            self._query_failures.labels(kind, failure).inc()

    async def page(self, _: web.Request) -> web.Response:
        """All of it, in Prometheus' text format. It is written in a thread: thousands of jobs take a while."""
        text = await asyncio.to_thread(generate_latest, self.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


class _GpuHours(Collector):
    """GPU-hours by namespace, state and cause."""

    def __init__(self, time: GpuTime) -> None:
        self._time = time

    def collect(self) -> Iterator[Metric]:
        hours: Any = CounterMetricFamily(
            "stoker_gpu_hours",
            "GPU-hours that DLJobs have held, by what they were: used, idle, or unknown for want of samples. Of idle"
            " ones the category of the finding that claims them, or Unexplained.",
            labels=["namespace", "state", "category"],
        )
        for namespace, (state, category), amount in self._time:
            hours.add_metric([namespace, state.value, category], amount)
        yield hours


class _Jobs(Collector):
    """Reads off at each scrape how the DLJobs stand."""

    def __init__(self, store: Store, looks: Looks, clock: Clock) -> None:
        self._store = store
        self._looks = looks
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        info: Any = GaugeMetricFamily(
            "stoker_dljob_info",
            "One for each DLJob, with who it is. Owner and team are its labels stoker.dev/owner and stoker.dev/team.",
            labels=[*IDENTITY, "job_type", "owner", "team", "gpus", "product", "priority"],
        )
        phase: Any = GaugeMetricFamily(
            "stoker_dljob_phase", "One for the phase that each DLJob is in.", labels=[*IDENTITY, "phase"]
        )
        ready: Any = GaugeMetricFamily("stoker_dljob_ready", "Pods of each DLJob that are ready.", labels=IDENTITY)
        hours: Any = GaugeMetricFamily(
            "stoker_dljob_gpu_hours",
            "GPU-hours that each DLJob has held so far, by what they were: used, idle, or unknown for want of samples.",
            labels=[*IDENTITY, "state"],
        )
        findings: Any = GaugeMetricFamily(
            "stoker_dljob_finding_idle_gpu_hours",
            "Idle GPU-hours that each finding of a DLJob claims so far, closed findings included.",
            labels=[*IDENTITY, "category", "rule"],
        )
        stages: Any = GaugeMetricFamily(
            "stoker_dljob_stage_idle_gpu_hours",
            "Idle GPU-hours of each stage of a DLJob's life so far, where its samples cover it.",
            labels=[*IDENTITY, "stage"],
        )
        conditions: Any = GaugeMetricFamily(
            "stoker_dljob_condition",
            "One for the status (True, False, Unknown) that the conditions Idle and LowUtilization of each DLJob have.",
            labels=[*IDENTITY, "condition", "status", "reason"],
        )
        phases, states = dict.fromkeys(Phase, 0), dict.fromkeys(ReclaimState, 0)
        for raw in list(self._store.dljobs.objects.values()):
            status = raw.get("status", {})
            if status.get("phase") in phases:
                phases[Phase(status["phase"])] += 1
            if (state := status.get("reclaim", {}).get("state")) in states:
                states[ReclaimState(state)] += 1
            if not _is_shown(status, self._clock.now()):
                continue
            metadata = raw["metadata"]
            identity = (metadata["uid"], metadata["namespace"], metadata["name"])
            info.add_metric([*identity, *_info(raw)], 1)
            phase.add_metric([*identity, status.get("phase", "")], 1)
            ready.add_metric(identity, int(status.get("ready", "0").partition("/")[0] or 0))
            for kind, amount in self._hours(metadata["uid"], status).items():
                hours.add_metric([*identity, kind.value], amount)
            for stage, amount in self._stages(raw).items():
                stages.add_metric([*identity, stage.value], amount)
            for (category, rule), amount in _claims(status).items():
                findings.add_metric([*identity, category, rule], amount)
            for one in status.get("conditions", ()):
                if one["type"] in _TOLD:
                    conditions.add_metric([*identity, one["type"], one["status"], one["reason"]], 1)
        counts: Any = GaugeMetricFamily("stoker_dljobs", "DLJobs by phase.", labels=["phase"])
        reclaims: Any = GaugeMetricFamily("stoker_dljobs_reclaim", "DLJobs by reclaim state.", labels=["state"])
        for one, number in phases.items():
            counts.add_metric([one.value], number)
        for other, number in states.items():
            reclaims.add_metric([other.value], number)
        yield from (info, phase, ready, hours, stages, findings, conditions, counts, reclaims)

    def _utilization(self, uid: str) -> Utilization | None:
        """As the last examination knows it; the status follows in steps."""
        look = self._looks.get(uid)
        return look.diagnosis.utilization if look is not None and look.diagnosis is not None else None

    def _stages(self, raw: Object) -> Mapping[Stage, float]:
        used = self._utilization(raw["metadata"]["uid"])
        hours: dict[Stage, float] = {}
        if used is None:
            return hours
        for span in used.stages:
            if span.average_percent is not None:
                held = _gpus(raw) * ((span.end or used.as_of) - span.start) / timedelta(hours=1)
                hours[span.stage] = hours.get(span.stage, 0.0) + held * (1 - span.average_percent / 100)
        return hours

    def _hours(self, uid: str, status: Mapping[str, Any]) -> Mapping[GpuState, float]:
        used = self._utilization(uid)
        if used is not None:
            return split_hours(used.gpu_hours, used.gpu_hours_idle, used.coverage_percent)
        hours: dict[GpuState, float] = {}
        for (state, _), amount in written_hours(status).items():
            hours[state] = hours.get(state, 0.0) + amount
        return hours


_TOLD = frozenset({ConditionType.IDLE.value, ConditionType.LOW_UTILIZATION.value})


def _is_shown(status: Mapping[str, Any], now: datetime) -> bool:
    ended = parse_time(status.get("completionTime"))
    return ended is None or now - ended < SHOWN_AFTER_END


def _gpus(raw: Object) -> int:
    return int(raw["spec"].get("nodes", 1) * raw["spec"]["gpusPerNode"])


def _info(raw: Object) -> tuple[str, ...]:
    spec, labels = raw["spec"], raw["metadata"].get("labels") or {}
    template = (spec.get("podTemplate") or {}).get("spec") or {}
    return (
        spec.get("jobType") or JobType.TRAINING.value,
        labels.get(OWNER_LABEL, ""),
        labels.get(TEAM_LABEL, ""),
        str(_gpus(raw)),
        spec.get("gpuProduct", ""),
        str(template.get("priorityClassName") or ""),
    )


def _claims(status: Mapping[str, Any]) -> Mapping[tuple[str, str], float]:
    """Of each rule that measures GPU-hours; what the manifest alone says measures none."""
    claims: dict[tuple[str, str], float] = {}
    for finding in status.get("findings", ()):
        if "gpuHoursIdle" in finding:
            key = finding["category"], finding["rule"]
            claims[key] = claims.get(key, 0.0) + float(finding["gpuHoursIdle"])
    return claims
