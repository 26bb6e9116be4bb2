"""Checks of Prometheus: whether it answers, has the time, and has the GPUs' series often and fully enough."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from stoker.adapters.kubernetes.client import ApiError
from stoker.adapters.prometheus.metric_profile import MetricProfile
from stoker.adapters.prometheus.promql import ORIGIN, Selectors, aggregate, any_of, duration, named, union
from stoker.adapters.prometheus.source import RESOLUTION
from stoker.adapters.prometheus.transport import Rows
from stoker.findings.finding import rfc3339
from stoker.findings.wording import count, minutes
from stoker.inspection.doctor.check import Check, Group, NotCheckableError, Outcome, failed, names, ok, warning
from stoker.inspection.doctor.control_plane import judge_skew
from stoker.inspection.doctor.installation import Role
from stoker.inspection.doctor.scene import Metrics, Scene
from stoker.policy.checks import SCRAPES, ClusterSettings
from stoker.telemetry.series import GpuSignal

NODE_LABELS = ("Hostname", "hostname", "node", "kubernetes_node", "nodename", "host", "instance")
"""Labels in which exporters, and usual relabelings, name the node: dcgm-exporter, AMD's exporter, ServiceMonitors."""
PROFILING = (
    GpuSignal.GRAPHICS, GpuSignal.TENSOR, GpuSignal.DRAM, GpuSignal.PCIE_RX, GpuSignal.PCIE_TX
)  # fmt: skip
"""Signals of DCGM's profiling module, which a driver, another profiler or an exporter's configuration may lack."""
STALE = timedelta(minutes=1)
"""Age of the newest sample. Chosen as twice the usual scrape interval, and less than the 5 minutes after which
Prometheus itself forgets a series.
"""
RECENT = timedelta(minutes=15)
"""How far back a profiling metric is looked at. Chosen as thirty scrapes of 30 s."""
MIN_SAMPLES = 10
"""Samples within RECENT by which a value that never changes is called stuck."""
WORKING = 20.0
"""Percent: mean utilization of a GPU whose engines can't have been idle for the whole time."""
LOOKED_BACK = timedelta(minutes=10)
"""How far back single samples are read for the scrape interval."""
LATEST = 10
"""Samples of each series that count: a changed interval shows after half as many scrapes."""
DEVICES = 4
"""GPUs whose single samples are read."""
TOLERANCE = 1.5
"""A measured interval may exceed the configured one by this factor: scrapes are late when an exporter is slow."""


async def prometheus(scene: Scene) -> Outcome:
    """It answers a query."""
    await _first_answer(scene)
    return ok("Prometheus answers")


async def prometheus_clock(scene: Scene) -> Outcome:
    """Its clock is this machine's."""
    rows, received = await _first_answer(scene)
    if rows.server_time is None:
        raise NotCheckableError("Prometheus' answers have no Date")
    return judge_skew("Prometheus", rows.server_time, received)


async def _first_answer(scene: Scene) -> tuple[Rows, datetime]:
    """The answer to a query that needs no series, and when it came by this machine's clock."""

    async def ask() -> tuple[Rows, datetime]:
        return await (await scene.metrics()).connection.instant("vector(1)", scene.now), scene.now

    return await scene.once("first answer", ask)


async def gpu_samples(scene: Scene) -> Outcome:
    """The GPUs' utilization is measured now."""
    rows = await gpu_rows(scene)
    newest = max((float(row["value"][1]) for row in rows), default=None)
    at = None if newest is None else datetime.fromtimestamp(newest, tz=UTC)
    profile = (await scene.metrics()).profile
    return judge_freshness(at, len(rows), [one.name for one in profile.of(GpuSignal.UTIL)], scene.now)


def judge_freshness(newest: datetime | None, series: int, metrics: Sequence[str], now: datetime) -> Outcome:
    """`newest` is the time of the latest sample; None where there is no series of any of these metrics."""
    if newest is None:
        return failed(f"there is no series of {' or '.join(metrics)}")
    if now - newest > STALE:
        return failed(f"the newest GPU sample is of {rfc3339(newest)}, {minutes((now - newest).total_seconds())} ago")
    return ok(f"{count(series, 'series', 'series')} of GPU utilization; the newest sample is of {rfc3339(newest)}")


async def scrape_interval(scene: Scene) -> Outcome:
    """The GPUs are scraped as often as the controller was told."""
    metrics = await scene.metrics()
    rows = await gpu_rows(scene)
    times = [
        row["values"][:, 0].tolist() for query in _sample_queries(metrics, rows) for row in await scene.query(query)
    ]
    try:
        settings = (await scene.component(Role.CONTROLLER)).settings
    except (NotCheckableError, ApiError):
        settings = None
    return judge_interval(measured_interval(times), settings)


def measured_interval(series: Iterable[Sequence[float]]) -> timedelta | None:
    """The median time between two of the latest samples of each series (seconds since the epoch); None with too few.

    A series that ended, of a pod that is gone, tells how often its GPU was scraped then: it does not count.
    """
    sampled = [times[-LATEST:] for times in series if len(times)]
    newest = max((times[-1] for times in sampled), default=0.0)
    gaps = [
        later - earlier
        for times in sampled
        if newest - times[-1] <= STALE.total_seconds()
        for earlier, later in pairwise(times)
    ]
    return timedelta(seconds=median(gaps)) if len(gaps) >= SCRAPES else None


def judge_interval(measured: timedelta | None, settings: ClusterSettings | None) -> Outcome:
    """`settings` are the controller's; None where they are not known."""
    if measured is None:
        raise NotCheckableError("there are too few samples yet: try again after a few scrapes")
    seconds = f"{measured.total_seconds():.0f} s"
    if measured > RESOLUTION * TOLERANCE:
        return failed(
            f"the GPUs are scraped every {seconds}; with more than {RESOLUTION.total_seconds():.0f} s no job counts as"
            " idle, since its samples leave gaps"
        )
    if settings is not None and measured > settings.scrape_interval * TOLERANCE:
        told = settings.scrape_interval.total_seconds()
        return warning(f"the GPUs are scraped every {seconds}, but the controller was told {told:g} s")
    return ok(f"the GPUs are scraped every {seconds}")


async def profiling(scene: Scene) -> Outcome:
    """The engines' activity is measured, and moves."""
    metrics = await scene.metrics()
    wanted = [signal for signal in PROFILING if metrics.profile.of(signal)]
    if not wanted:
        return ok(f"the profile {metrics.profile.name} has no profiling metrics")
    select = metrics.connection.selector
    present = await scene.query(union(named(one, f"count({_any(select, metrics.profile, one)})") for one in wanted))
    absent = [one.value for one in wanted if one.value not in {row["metric"].get(ORIGIN) for row in present}]
    stuck = await scene.query(stuck_query(select, metrics.profile)) if GpuSignal.GRAPHICS in wanted else []
    return judge_profiling(absent, [metrics.profile.device(row["metric"]) for row in stuck], len(wanted))


def judge_profiling(absent: Sequence[str], stuck: Sequence[str], wanted: int) -> Outcome:
    """`absent` are the signals without any series; `stuck` the devices whose activity contradicts their utilization."""
    if stuck:
        return failed(
            f"the activity of {count(len(stuck), 'GPU')} does not move while the GPU works, or stays at one value:"
            f" {names(list(stuck))}",
            "Restart the exporter on their nodes; of several profilers on a GPU only one gets values (DCGM, Nsight).",
        )
    if len(absent) == wanted:
        return warning("there are no profiling metrics: causes are told by utilization alone, and fewer are found")
    if absent:
        return warning(f"some profiling metrics are missing: {names(list(absent))}")
    return ok("all profiling metrics are there, and move")


def stuck_query(select: Selectors, profile: MetricProfile) -> str:
    """The devices whose engine was at 0 while the GPU worked, or whose activity has not changed at all.

    An engine that is all idle or all busy may rightly stay at 0 or 1 (100 where an exporter writes percent).
    """
    labels = (*profile.labels["device"], *profile.labels["instance"])

    def over(function: str, signal: GpuSignal) -> str:
        window = duration(RECENT)
        terms = (f"{function}({select(metric.name)}[{window}])" for metric in profile.of(signal))
        return aggregate("max", labels, " or ".join(terms))

    engine = GpuSignal.GRAPHICS
    busy = " or ".join(
        f"{aggregate('max', labels, f'avg_over_time({select(metric.name)}[{duration(RECENT)}])')}"
        f" > {WORKING / metric.factor(()):g}"
        for metric in profile.of(GpuSignal.UTIL)
    )
    known = f"{over('count_over_time', engine)} >= {MIN_SAMPLES}"
    dead = f"({over('max_over_time', engine)} == 0) and ({busy}) and ({known})"
    level = over("max_over_time", engine)
    frozen = f"({over('changes', engine)} == 0) and ({level} > 0) and ({level} != 1) and ({level} != 100) and ({known})"
    return f"({dead}) or ({frozen})"


async def gpu_rows(scene: Scene) -> Sequence[Mapping[str, Any]]:
    """A row for each series of GPU utilization: its labels, and the time of its newest sample as the value."""
    metrics = await scene.metrics()
    labels = sorted({*metrics.profile.grouping, *NODE_LABELS})
    select = metrics.connection.selector
    terms = " or ".join(f"timestamp({select(metric.name)})" for metric in metrics.profile.of(GpuSignal.UTIL))
    return await scene.query(aggregate("max", labels, terms))


def _any(select: Selectors, profile: MetricProfile, signal: GpuSignal) -> str:
    return " or ".join(select(metric.name) for metric in profile.of(signal))


def _sample_queries(metrics: Metrics, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The single samples of a few devices, for each name that the utilization may have."""
    for label in metrics.profile.labels["device"]:
        devices = sorted({str(row["metric"][label]) for row in rows if row["metric"].get(label)})[:DEVICES]
        if devices:
            select = metrics.connection.selector
            back = duration(LOOKED_BACK)
            return [
                f"{select(one.name, {label: any_of(devices)})}[{back}]" for one in metrics.profile.of(GpuSignal.UTIL)
            ]
    raise NotCheckableError("there is no series of a GPU")


CHECKS = (
    Check(
        name="prometheus",
        group=Group.METRICS,
        what="Prometheus answers a query.",
        advice="Check --prometheus and its credentials, and prometheus.url of the chart (docs/prometheus.md).",
        look=prometheus,
    ),
    Check(
        name="prometheus-clock",
        group=Group.METRICS,
        what="Prometheus' clock and this machine's differ by at most 10 s.",
        advice="Synchronize the clocks (NTP): the controller takes no metrics of a clock that is a minute off.",
        look=prometheus_clock,
        needs=("prometheus",),
    ),
    Check(
        name="gpu-samples",
        group=Group.METRICS,
        what=f"There are samples of GPU utilization that are at most {STALE.total_seconds():.0f} s old.",
        advice="Check that Prometheus scrapes the exporter (/targets), and the chart's prometheus.profile, metricPrefix"
        " and matchers.",
        look=gpu_samples,
        needs=("prometheus",),
    ),
    Check(
        name="scrape-interval",
        group=Group.METRICS,
        what=f"The GPUs are scraped at least every {RESOLUTION.total_seconds():.0f} s, and as often as the controller's"
        " --scrape-interval says.",
        advice="Set the exporter's scrape interval to 30 s or less, and controller.scrapeInterval to the same value.",
        look=scrape_interval,
        needs=("gpu-samples",),
    ),
    Check(
        name="profiling",
        group=Group.METRICS,
        what="The profiling metrics (engine, SM, tensor cores, memory, PCIe) exist, and none stays at one value.",
        advice="Enable the DCGM_FI_PROF_* fields in the exporter's list of metrics (docs/prometheus.md).",
        look=profiling,
        needs=("gpu-samples",),
    ),
)

__all__ = [
    "CHECKS",
    "NODE_LABELS",
    "gpu_rows",
    "judge_freshness",
    "judge_interval",
    "judge_profiling",
    "measured_interval",
    "stuck_query",
]
