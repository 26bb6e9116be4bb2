"""What Prometheus has kept of a period: every job's GPU-hours, those of deleted jobs too, in a fixed number of queries.

Jobs come from the operator's own metrics (handlers.controller_metrics), work from the GPUs' series.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection, aware
from stoker.adapters.prometheus.metric_profile import (
    FACTORS,
    PLAUSIBLE,
    Factors,
    Metric,
    MetricProfile,
    Unit,
    profile_of,
)
from stoker.adapters.prometheus.promql import ORIGIN, Not, Selectors, aggregate, any_of, duration, named, quote, union
from stoker.adapters.prometheus.transport import LimitExceeded, Rows
from stoker.findings.quantity import small_number
from stoker.findings.vocabulary import Category, Phase, Stage
from stoker.telemetry.series import GpuSignal
from stoker.telemetry.usage import SETTLES, Cause, JobIdentity, JobRecord, Period, UsageRecord

RESOLUTIONS = tuple(timedelta(seconds=seconds) for seconds in (15, 30, 60, 120, 300, 600, 1800, 3600))
MAX_STEPS = 5040
"""Of a period; the resolution follows from it: 15 s up to 21 hours, 30 s up to 42, a minute up to three days, two
minutes up to a week, ten up to a month.
"""
WIDTHS = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 10080))
"""Of a part, where one divides the period."""
MIN_PARTS, MAX_PARTS = 12, 31
SLICE = 500
"""Steps of one query over the GPUs' series. Prometheus holds at most 50 million samples in a query
(--query.max-samples): 40,000 GPUs of this many steps fit, which are counted twice.
"""
JOB_SLICE = 2000
"""The same over the jobs' series: 20,000 at a time fit."""
REACH = SETTLES
"""A GPU is sampled at a time between two samples that are both at most so far away: scrape intervals of up to a minute
fit. A pod that has ended counts to its last sample and no longer: with samples before it alone each pod would have this
time too much, and of two that follow one another both would have it.
"""
HOLDING = "|".join(sorted(phase.value for phase in (Phase.STARTING, Phase.RUNNING)))
"""The phases in which a job holds GPUs."""
JOB_POD = "(.+)-[0-9]+-[a-z0-9]{5}"
"""What the Job controller names the pods of an Indexed Job: the Job, the index, five characters."""
IDENTITY = (
    "uid",
    "namespace",
    "exported_namespace",
    "name",
    "job_type",
    "owner",
    "team",
    "gpus",
    "product",
    "priority",
)
"""Labels of stoker_dljob_info. `exported_namespace` is the job's where the scrape's target has a `namespace` itself."""
DLJOB = "stoker_dljob"
"""The label that a pod's DLJob is put into."""

Row = tuple[Mapping[str, str], Sequence[float | None]]
"""Labels, and a value or None for each part."""


class PrometheusUsage:
    """Reads periods. An async context manager, or `close` ends it."""

    def __init__(self, access: PrometheusAccess) -> None:
        """Raises KeyError for an unknown profile."""
        self._connection = PrometheusConnection(access, max_skew=None)
        self._select = self._connection.selector
        self._profile = profile_of(access.profile, access.metric_prefix)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, without waiting for queries that still run."""
        await self._connection.close()

    async def read(self, start: datetime, end: datetime, namespaces: Sequence[str] = ()) -> UsageRecord:
        """The period from start to end and as long a one before it; of all namespaces where none is given.

        Both times are moved by at most a few steps of the resolution, so that the period divides into parts. How many
        queries it takes depends on the period's length alone: 36 for a week, 18 for a day. Raises
        MetricsUnavailable.
        """
        aware(start)
        aware(end)
        cut = _cut(start, end)
        probed = await self._ask(self._probe(), cut, slice_parts=len(cut.parts))
        scheme = _scheme(self._profile, probed)
        jobs, gpus, held = await asyncio.gather(
            self._ask(_jobs_query(self._select, cut), cut, slice_parts=len(cut.parts) + 1, from_start=True),
            self._ask(_gpu_query(self._select, self._profile, scheme, namespaces, cut), cut),
            self._ask(_held_query(self._select, cut), cut, slice_parts=max(JOB_SLICE // cut.steps, 1)),
        )
        return await self._connection.off_loop(_record, cut, scheme, (jobs, gpus, held), frozenset(namespaces))

    def _probe(self) -> str:
        """The largest value of each metric, for its unit; and whether pods stand under the exporter's own labels."""
        terms = [named(metric.name, f"max({self._select(metric.name)})") for metric in _utilizations(self._profile)]
        pod = self._profile.labels["pod"][0]
        exported = " or ".join(
            f"count({self._select(metric.name, {pod: Not('')})})" for metric in _utilizations(self._profile)
        )
        return union([*terms, named("exported", f"max({exported})")])

    async def _ask(
        self, query: str, cut: "_Cut", *, slice_parts: int | None = None, from_start: bool = False
    ) -> "_SlicedResult":
        """The query at the end of each part, and before that where the first one begins if asked for, in slices."""
        size = slice_parts or max(SLICE // cut.steps, 1)
        ends = [part.end.timestamp() for part in cut.parts]
        if from_start:
            ends.insert(0, cut.parts[0].start.timestamp())
        step = cut.width.total_seconds()
        # A second later, so that a part's first step is not counted to the one before as well: whether a window holds
        # its left edge differs between Prometheus 2 and 3.
        times = [end + 1 for end in ends]
        answers = await asyncio.gather(
            *(self._slice(query, times[first : first + size], step) for first in range(0, len(times), size))
        )
        rows = [one for answer in answers for one in answer]
        return await self._connection.off_loop(_SlicedResult.of, rows, times[0], step, len(times))

    async def _slice(self, query: str, times: Sequence[float], step: float) -> list[Rows]:
        """The query at these times: at once, or in halves where that is more than the server allows."""
        try:
            return [await self._connection.range(query, times[0], times[-1], step)]
        except LimitExceeded:
            if len(times) == 1:
                raise
            middle = len(times) // 2
            return [rows for half in (times[:middle], times[middle:]) for rows in await self._slice(query, half, step)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """How time is divided: parts of both periods, each of so many steps."""

    period: Period
    parts: tuple[Period, ...]
    width: timedelta
    resolution: timedelta

    @property
    def steps(self) -> int:
        """Steps of one part."""
        return self.width // self.resolution

    @property
    def hours(self) -> float:
        """Hours of one step."""
        return self.resolution.total_seconds() / 3600


def _cut(start: datetime, end: datetime) -> _Cut:
    length = end - start
    resolution = next((one for one in RESOLUTIONS if length / one <= MAX_STEPS), RESOLUTIONS[-1])
    length = max(round(length / resolution), MIN_PARTS) * resolution
    fitting = (one for one in WIDTHS if one % resolution == timedelta(0) and length % one == timedelta(0))
    width = next((one for one in fitting if length / one <= MAX_PARTS), None)
    number = (
        round(length / width)
        if width is not None
        else min(
            range(MAX_PARTS, MIN_PARTS - 1, -1),
            key=lambda parts: abs(length - parts * _width(length, parts, resolution)),
        )
    )
    width = width or _width(length, number, resolution)
    seconds = resolution.total_seconds()
    last = datetime.fromtimestamp(math.floor(end.timestamp() / seconds) * seconds, tz=UTC)
    period = Period(start=last - number * width, end=last)
    return _Cut(
        period=period,
        parts=(*period.before.split(number), *period.split(number)),
        width=width,
        resolution=resolution,
    )


def _width(length: timedelta, parts: int, resolution: timedelta) -> timedelta:
    return max(round(length / parts / resolution), 1) * resolution


# -------------------------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheme:
    """Under which labels this Prometheus has a GPU's pod, and what turns each metric it has into a share 0..1."""

    namespace: str
    pod: str
    shares: Mapping[Metric, float]


def _utilizations(profile: MetricProfile) -> tuple[Metric, ...]:
    """The metrics that say whether a GPU works, the one to be believed first; a MIG instance has only the second."""
    return (*profile.of(GpuSignal.UTIL), *profile.of(GpuSignal.GRAPHICS))


def _scheme(profile: MetricProfile, probed: "_SlicedResult") -> _Scheme:
    factors = Factors()
    shares: dict[Metric, float] = {}
    for metric in _utilizations(profile):
        values = [value for _, found in probed.rows(metric.name) for value in found if value is not None]
        if values:
            factors.learn(metric, values)
            shares[metric] = factors.of(metric) / FACTORS[Unit.RATIO]
    # An exporter whose labels are kept under `exported_*` has its own pod in the plain ones, idle GPUs included.
    place = 0 if probed.rows("exported") else -1
    return _Scheme(namespace=profile.labels["namespace"][place], pod=profile.labels["pod"][place], shares=shares)


def _gpu_query(
    selector: Selectors, profile: MetricProfile, scheme: _Scheme, namespaces: Sequence[str], cut: _Cut
) -> str:
    """Steps with a sample, summed utilization, by namespace and job; and the steps in which any GPU was sampled."""
    if not scheme.shares:
        return "vector(0) < 0"
    reach, window = duration(max(REACH, cut.resolution)), f"{duration(cut.width)}:{duration(cut.resolution)}"
    matchers: dict[str, str] = {scheme.pod: Not("")}
    if namespaces:
        matchers[scheme.namespace] = any_of(namespaces)
    devices = " or ".join(
        f"clamp_max({aggregate('max', profile.grouping, _mean(selector, metric, matchers, reach))} * {share:g}, 1) "
        f"and {aggregate('group', profile.grouping, _ahead(selector, metric, matchers))}"
        for metric, share in scheme.shares.items()
    )
    owned = f"label_replace({devices}, {quote(DLJOB)}, {quote('$1')}, {quote(scheme.pod)}, {quote(JOB_POD)})"
    by = (scheme.namespace, DLJOB)
    anything = " or ".join(f"group(present_over_time({selector(metric.name)}[{reach}]))" for metric in scheme.shares)
    return union(
        [
            named("used", f"sum_over_time(({aggregate('sum', by, owned)})[{window}])"),
            named("sampled", f"sum_over_time(({aggregate('count', by, owned)})[{window}])"),
            named("watched", f"count_over_time((group({anything}))[{window}])"),
        ]
    )


def _mean(selector: Selectors, metric: Metric, matchers: Mapping[str, str], reach: str) -> str:
    """The mean of a step; none where an exporter's way of saying that it has no value is in it."""
    return f"avg_over_time({selector(metric.name, matchers)}[{reach}]) <= {PLAUSIBLE[metric.unit]:g}"


def _ahead(selector: Selectors, metric: Metric, matchers: Mapping[str, str]) -> str:
    """Whether there is a sample soon after a step."""
    reach = duration(REACH)
    return f"present_over_time({selector(metric.name, matchers)}[{reach}] offset -{reach})"


def _held_query(selector: Selectors, cut: _Cut) -> str:
    """The GPUs that each job's pods held, by its uid, summed over the steps; and the steps in which an operator told of
    jobs: it said that it led, or there are jobs. A Prometheus may have been given the jobs' metrics alone.
    """
    window = f"{duration(cut.width)}:{duration(cut.resolution)}"
    holding = aggregate("max", ("uid",), selector("stoker_dljob_gpus_held"))
    told = f"group({selector('stoker_controller_leading')} == 1 or {selector('stoker_dljob_gpus_held')})"
    return union(
        [
            named("held", f"sum_over_time(({holding})[{window}])"),
            named("recorded", f"count_over_time(({told})[{window}])"),
        ]
    )


def _jobs_query(selector: Selectors, cut: _Cut) -> str:
    """Who each job was, and its running sums, as last seen in each part."""

    def last(metric: str, labels: Iterable[str]) -> str:
        return aggregate("max", labels, f"last_over_time({selector(metric)}[{duration(cut.width)}])")

    return union(
        [
            named("info", last("stoker_dljob_info", IDENTITY)),
            named("cause", last("stoker_dljob_finding_idle_gpu_hours", ("uid", "category", "rule"))),
            named("stage", last("stoker_dljob_stage_idle_gpu_hours", ("uid", "stage"))),
        ]
    )


# -------------------------------------------------------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _SlicedResult:
    """The rows of all slices of one query by their origin: labels, and a value or None for each part."""

    found: Mapping[str, Sequence[Row]]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, slices: Sequence[Rows], first: float, step: float, size: int) -> Self:
        """`first` is the time of the first part's value, `step` the seconds to the next; there are `size`."""
        gathered: dict[str, dict[frozenset[tuple[str, str]], list[float | None]]] = defaultdict(dict)
        for rows in slices:
            for row in rows:
                labels: dict[str, str] = dict(row["metric"])
                origin = labels.pop(ORIGIN)
                values = gathered[origin].setdefault(frozenset(labels.items()), [None] * size)
                for time, value in row["values"].tolist():
                    if math.isfinite(value):
                        values[round((time - first) / step)] = value
        return cls(
            found={origin: [(dict(key), values) for key, values in rows.items()] for origin, rows in gathered.items()},
            warnings=tuple(warning for rows in slices for warning in rows.warnings),
        )

    def rows(self, origin: str) -> Sequence[Row]:
        """The rows of one term of the query."""
        return self.found.get(origin, ())

    def sums(self, origin: str, size: int) -> list[float]:
        """The values of a term that has one row; 0 where it has none."""
        rows = self.rows(origin)
        return [value or 0.0 for value in rows[0][1]] if rows else [0.0] * size


@dataclass(slots=True)
class _Job:
    """What is gathered of a job."""

    identity: JobIdentity
    first_seen: int | None
    held: list[float]
    sampled: list[float]
    used: list[float]
    causes: dict[Cause, tuple[float | None, ...]] = field(default_factory=dict)
    stages: dict[Stage, tuple[float | None, ...]] = field(default_factory=dict)


def _record(
    cut: _Cut, scheme: _Scheme, answers: tuple[_SlicedResult, _SlicedResult, _SlicedResult], namespaces: frozenset[str]
) -> UsageRecord:
    jobs, gpus, holding = answers
    size = len(cut.parts)
    known = _known_jobs(jobs, size, namespaces)
    for labels, values in holding.rows("held"):
        job = known.get(labels.get("uid", ""))
        if job is not None:
            job.held = [(summed or 0.0) * cut.hours for summed in values]
    for labels, values in jobs.rows("cause"):
        job, cause = known.get(labels.get("uid", "")), _cause(labels)
        if job is not None and cause is not None:
            job.causes[cause] = tuple(values)
    for labels, values in jobs.rows("stage"):
        job = known.get(labels.get("uid", ""))
        if job is not None and labels.get("stage") in set(Stage):
            job.stages[Stage(labels["stage"])] = tuple(values)
    foreign = _share_out(gpus, scheme, known.values(), cut)
    warnings = dict.fromkeys(warning for answer in answers for warning in answer.warnings)
    return UsageRecord(
        period=cut.period,
        parts=cut.parts,
        jobs=tuple(
            JobRecord(
                identity=job.identity,
                held=tuple(job.held),
                sampled=tuple(job.sampled),
                used=tuple(job.used),
                causes=job.causes,
                stages=job.stages,
                first_seen=job.first_seen,
            )
            for job in (*known.values(), *foreign)
        ),
        watched=tuple(min(steps / cut.steps, 1.0) for steps in gpus.sums("watched", size)),
        recorded=tuple(min(steps / cut.steps, 1.0) for steps in holding.sums("recorded", size)),
        resolution=cut.resolution,
        warnings=tuple(warnings),
    )


def _known_jobs(jobs: _SlicedResult, size: int, namespaces: frozenset[str]) -> dict[str, _Job]:
    """The jobs that the operator told of, by uid, each as it was last told of."""
    latest: dict[str, tuple[int, JobIdentity]] = {}
    first: dict[str, int] = {}
    for labels, values in jobs.rows("info"):
        # What was seen where the first part begins was there in it.
        seen = [max(place - 1, 0) for place, value in enumerate(values) if value is not None]
        identity = job_identity(labels)
        if not seen or not identity.uid or (namespaces and identity.namespace not in namespaces):
            continue
        first[identity.uid] = min(seen[0], first.get(identity.uid, size))
        latest[identity.uid] = later(latest.get(identity.uid), (seen[-1], identity))
    return {
        uid: _Job(identity, first[uid], [0.0] * size, [0.0] * size, [0.0] * size)
        for uid, (_, identity) in latest.items()
    }


def later(known: tuple[int, JobIdentity] | None, seen: tuple[int, JobIdentity]) -> tuple[int, JobIdentity]:
    """Who a job is, of two identities, each with when it was last told: the later, with the GPUs' model from either.
    A job without pods may not know its own.
    """
    if known is None:
        return seen
    first, last = sorted((known, seen), key=lambda one: one[0])
    return last[0], replace(last[1], product=last[1].product or first[1].product)


def job_identity(labels: Mapping[str, str]) -> JobIdentity:
    """Who a job is, by the labels of its stoker_dljob_info."""
    gpus = labels.get("gpus", "")
    return JobIdentity(
        uid=labels.get("uid") or None,
        namespace=labels.get("exported_namespace") or labels.get("namespace", ""),
        name=labels.get("name", ""),
        job_type=labels.get("job_type", ""),
        owner=labels.get("owner", ""),
        team=labels.get("team", ""),
        product=labels.get("product", ""),
        priority=labels.get("priority", ""),
        gpus=small_number(gpus) or 0,
    )


def _cause(labels: Mapping[str, str]) -> Cause | None:
    """None for a category that this version does not know."""
    category = labels.get("category")
    return Cause(category=Category(category), rule=labels.get("rule", "")) if category in set(Category) else None


def _share_out(gpus: _SlicedResult, scheme: _Scheme, known: Iterable[_Job], cut: _Cut) -> list[_Job]:
    """Give each job what was sampled of the pods with its name; the answer is what belongs to no known job.

    Of jobs that had one name after another each has the parts in which it was on record; time before is the next one's,
    time after the last one's.
    """
    by_name: dict[tuple[str, str], list[_Job]] = defaultdict(list)
    for job in known:
        by_name[job.identity.namespace, job.identity.name].append(job)
    size = len(cut.parts)
    foreign: dict[tuple[str, str], _Job] = {}
    for origin in ("sampled", "used"):
        for labels, values in gpus.rows(origin):
            key = labels.get(scheme.namespace, ""), labels.get(DLJOB, "")
            jobs = by_name.get(key)
            if jobs is None:
                nobodys = JobIdentity(uid=None, namespace=key[0], name=key[1])
                blank = _Job(nobodys, None, [0.0] * size, [0.0] * size, [0.0] * size)
                jobs = [foreign.setdefault(key, blank)]
            for part, steps in enumerate(values):
                for job, share in _shares(jobs, part):
                    figures = job.sampled if origin == "sampled" else job.used
                    figures[part] += share * (steps or 0.0) * cut.hours
    return list(foreign.values())


def _shares(jobs: Sequence[_Job], part: int) -> Iterable[tuple[_Job, float]]:
    """Who of the jobs of one name had the part, and how much of it."""
    if len(jobs) == 1:
        return ((jobs[0], 1.0),)
    held = sum(job.held[part] for job in jobs)
    if held > 0:
        return tuple((job, job.held[part] / held) for job in jobs if job.held[part] > 0)
    in_turn = sorted(jobs, key=lambda job: job.first_seen or 0)
    return ((next((job for job in in_turn if (job.first_seen or 0) >= part), in_turn[-1]), 1.0),)


__all__ = ["HOLDING", "IDENTITY", "PrometheusUsage", "job_identity", "later"]
