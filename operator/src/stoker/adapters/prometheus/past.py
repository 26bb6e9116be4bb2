"""What Prometheus has kept of jobs' pasts: of all jobs coarsely, of some in as fine steps as a controller looks.

Jobs come from the operator's own metrics (handlers.job_metrics), rest and work from the GPUs' series, so that jobs
which are gone count as well.
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stoker.adapters.prometheus.access import PrometheusAccess
from stoker.adapters.prometheus.connection import PrometheusConnection, aware
from stoker.adapters.prometheus.metric_profile import PLAUSIBLE, RATIO_LIMIT, Factors, Identity, Metric, profile_of
from stoker.adapters.prometheus.promql import ORIGIN, Selectors, aggregate, any_of, duration, named, union
from stoker.adapters.prometheus.screen import ENERGY_STEP, lowest_ceiling
from stoker.adapters.prometheus.series import SeriesReader
from stoker.adapters.prometheus.transport import LimitExceeded, Rows
from stoker.adapters.prometheus.usage import HOLDING, IDENTITY, job_identity, later
from stoker.api.dljob import TRAINER
from stoker.telemetry.activity import ACTIVITY_SIGNALS
from stoker.telemetry.past import BoolArray, DevicePast, Grid, JobOutline, JobPast, Outlines, PastPod
from stoker.telemetry.series import FloatArray, GpuSignal, JobFacts, JobSeries
from stoker.telemetry.usage import JobIdentity, Period

COARSE = timedelta(minutes=5)
"""The outlines' step: a rest of ten minutes, the shortest that a policy may ask for, fills one."""
WHO = timedelta(hours=1)
"""How often it is asked who a job is."""
BEFORE = timedelta(days=7)
"""Jobs that ran when the period began are followed so far back, for their start and their findings."""
SLICE = 2000
"""Coarse steps in one query, a week of them: Prometheus holds at most 50 million samples in a query."""
FINE_SLICE = 8000
"""Fine steps in one query of one job; Prometheus refuses more than 11,000."""
RESOLUTION = timedelta(seconds=60)
"""The finest step of the past: the longest scrape interval in common use."""
REACH = timedelta(seconds=90)
"""A step is told of when a sample is at most so old: scrape intervals of up to a minute fit."""
PRIMARY = (GpuSignal.UTIL, GpuSignal.GRAPHICS)
PROOF = 10
"""More than this, in a percentage's own unit, is work under every policy: the other signals are not read then."""
POD_NAME = re.compile(r"(?P<job>.+)-(?P<rank>[0-9]{1,5})-[a-z0-9]{5}")
"""What the Job controller names the pods of an Indexed Job: the Job, the index, five characters."""
SLACK = timedelta(minutes=15)
"""A pod's samples may begin before its job's phase says so, and outlast it: by a few scrapes of either."""
LEARNED_STEPS = 20
"""Steps without much utilization from which a GPU's own power at rest is learned (diagnosis.series.examination)."""
ONE_SCRAPE = 0.5
"""Seconds. Samples of one scrape have one time (see prometheus_screen)."""

PodKey = tuple[str, str]
Places = npt.NDArray[np.int_]


class PrometheusPast:
    """Reads the past. An async context manager, or `close` ends it."""

    def __init__(self, access: PrometheusAccess) -> None:
        """Raises KeyError for an unknown profile."""
        self._connection = PrometheusConnection(access, max_skew=None)
        self._select = self._connection.selector
        self._profile = profile_of(access.profile, access.metric_prefix)
        self._metrics = {metric.name: metric for metric in self._profile.metrics}
        self._factors = Factors()
        self._series = SeriesReader(self._connection, self._profile, self._factors, resolution=RESOLUTION)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, without waiting for queries that still run."""
        await self._connection.close()

    # ----------------------------------------------------------------------------------------------- all jobs, coarsely

    async def outlines(self, start: datetime, end: datetime, namespaces: Sequence[str] = ()) -> Outlines:
        """All jobs from some days before `start` until `end`, of all namespaces where none is given.

        Four queries for each week, whatever the number of jobs. Raises MetricsUnavailable.
        """
        aware(start)
        aware(end)
        step = COARSE.total_seconds()
        last = math.floor(end.timestamp() / step) * step
        size = math.ceil((last - (start - BEFORE).timestamp()) / step) + 1
        grid = Grid(start=datetime.fromtimestamp(last - (size - 1) * step, tz=UTC), step=COARSE, size=size)
        who, jobs, gpus, starts = await asyncio.gather(
            self._ask(
                _who_query(self._select), Grid(start=grid.start, step=WHO, size=math.ceil(size * COARSE / WHO) + 1)
            ),
            self._ask(_held_query(self._select, COARSE), grid),
            self._ask(self._outline_query(), grid),
            self._ask(_starts_query(self._select), grid),
        )
        return await self._connection.off_loop(
            self._outlines, Period(start=start, end=end), grid, (who, jobs, gpus, starts), frozenset(namespaces)
        )

    def _outline_query(self) -> str:
        """Of each pod: the largest utilization, the sum of its GPUs' and their number; and the number of all GPUs."""
        span = duration(COARSE)
        by = sorted({*self._profile.labels["namespace"], *self._profile.labels["pod"]})
        device = (*self._profile.labels["device"], *self._profile.labels["instance"])
        terms: list[str] = []
        for metric in self._profile.of(*PRIMARY):
            every = self._select(metric.name)
            each = aggregate("max", self._profile.grouping, f"avg_over_time({every}[{span}])")
            terms += [
                named(f"peak/{metric.name}", aggregate("max", by, f"max_over_time({every}[{span}])")),
                named(f"used/{metric.name}", aggregate("sum", by, each)),
                named(f"sampled/{metric.name}", aggregate("count", by, each)),
                named(f"all/{metric.name}", f"count({aggregate('group', device, each)})"),
            ]
        return union(terms)

    def _outlines(
        self,
        period: Period,
        grid: Grid,
        answers: "tuple[_SparseResult, _SparseResult, _SparseResult, _SparseResult]",
        wanted: frozenset[str],
    ) -> Outlines:
        who, phases, gpus, starts = answers
        self._learn(gpus)
        identities = _identities(who, wanted)
        held = {labels.get("uid", ""): np.isfinite(values) for labels, values in phases.rows("held")}
        pods = self._pods(gpus)
        started = _started(starts)
        lives = {uid: np.flatnonzero(held.get(uid, np.zeros(grid.size, dtype=np.bool_))) for uid in identities}
        by_name: dict[PodKey, list[str]] = defaultdict(list)
        for uid, identity in identities.items():
            if len(lives[uid]):
                by_name[identity.namespace, identity.name].append(uid)
        found: dict[str, dict[str, _PodBuffer]] = defaultdict(dict)
        nobodys: set[str] = set()
        for (namespace, name), pod in pods.items():
            match = POD_NAME.fullmatch(name)
            owner = None if match is None else _owner(pod, by_name.get((namespace, match["job"]), ()), lives, grid)
            if owner is not None:
                found[owner][name] = pod
            elif match is not None and (not wanted or namespace in wanted):
                nobodys.add(f"{namespace}/{match['job']}")
        totals = [origin for origin in gpus.origins if origin.startswith("all/")]
        everything = [values for origin in totals for _, values in gpus.rows(origin)]
        return Outlines(
            period=period,
            grid=grid,
            jobs=tuple(
                _outline(identity, held[uid], found[uid], grid, started)
                for uid, identity in identities.items()
                if len(lives[uid])
            ),
            cluster_gpus=np.fmax.reduce(everything) if everything else np.full(grid.size, np.nan),
            unrecorded=tuple(sorted(nobodys)),
            warnings=tuple(dict.fromkeys(warning for one in answers for warning in one.warnings)),
        )

    def _learn(self, gpus: "_SparseResult") -> None:
        """Each metric's unit, from its largest samples in the whole period."""
        for metric in self._profile.of(*PRIMARY):
            values = [np.unique(values[np.isfinite(values)]) for _, values in gpus.rows(f"peak/{metric.name}")]
            if values:
                self._factors.learn(metric, np.unique(np.concatenate(values)).tolist())

    def _pods(self, gpus: "_SparseResult") -> "dict[PodKey, _PodBuffer]":
        pods: dict[PodKey, _PodBuffer] = {}
        for metric in self._profile.of(*PRIMARY):
            factor = self._factors.of(metric)
            for what in ("peak", "used", "sampled"):
                for labels, values in gpus.rows(f"{what}/{metric.name}"):
                    key = self._profile.pod(labels)
                    if key is None:
                        continue
                    most = PLAUSIBLE[metric.unit] if what == "peak" else math.inf
                    scale = {"peak": factor, "used": factor / 100.0, "sampled": 1.0}[what]
                    pods.setdefault(key, _PodBuffer(key[1])).take(what, np.where(values < most, values, np.nan) * scale)
        return pods

    # ------------------------------------------------------------------------------------------------ some jobs, finely

    async def job(self, outline: JobOutline, start: datetime, end: datetime, step: timedelta) -> JobPast:
        """One job's GPUs in steps that end at multiples of `step` since the epoch, from `start` until `end`.

        Three queries for each `FINE_SLICE` steps. Raises MetricsUnavailable.
        """
        seconds = step.total_seconds()
        first = math.ceil(start.timestamp() / seconds) * seconds
        size = max(math.floor((end.timestamp() - first) / seconds) + 1, 1)
        grid = Grid(start=datetime.fromtimestamp(first, tz=UTC), step=step, size=size)
        names = sorted({pod.name for pod in outline.pods})
        told, gpus, shared = await asyncio.gather(
            self._ask(_job_query(self._select, outline.identity), grid, FINE_SLICE),
            self._ask(self._device_query(outline.identity.namespace, names, step), grid, FINE_SLICE),
            self._ask(self._shared_query(outline.identity.namespace, names), grid, FINE_SLICE),
        )
        return await self._connection.off_loop(self._job, outline, grid, told, gpus, shared)

    async def series(self, facts: JobFacts, start: datetime, end: datetime, step: timedelta) -> JobSeries:
        """One job's series in full, until `end`: as it was known then. Raises MetricsUnavailable."""
        return await self._series.read(facts, start, end, step)

    def _device_query(self, namespace: str, pods: Sequence[str], step: timedelta) -> str:
        """Everything that can contradict rest, of each device of these pods, and what is no value.

        A window's largest value is the largest of its steps', so that any window's screen can be made of these.
        """
        matchers, span = self._profile.selecting(pods, namespace), duration(step)
        labels = self._profile.grouping

        def largest(metric: Metric) -> str:
            chosen = " or ".join(f"max_over_time({self._select(metric.name, one)}[{span}])" for one in matchers)
            return aggregate("max", labels, chosen)

        primary = self._profile.of(*PRIMARY)
        proof = " or ".join(f"({largest(metric)} > {PROOF})" for metric in primary)
        terms = [named(metric.name, largest(metric)) for metric in primary]
        for metric in primary:
            sums = " or ".join(
                f"(clamp_max(sum_over_time({self._select(metric.name, one)}[{span}]), 0) != bool 0) > 0"
                for one in matchers
            )
            terms.append(named(f"doubt/{metric.name}", aggregate("max", labels, sums)))
        others: list[str] = []
        for metric in self._profile.of(*ACTIVITY_SIGNALS):
            if metric.signal is GpuSignal.POWER:
                others.append(named(metric.name, largest(metric)))
                continue
            lowest = lowest_ceiling(metric)
            if metric in primary or lowest is None:
                continue
            # What rests by any unit is left out. A link's rate or counter is told from its change alone.
            over = largest(metric)
            if metric.signal is not GpuSignal.NVLINK:
                over = f"clamp_min({over}, {lowest:g}) != {lowest:g}"
            others.append(named(metric.name, over))
        for metric in self._profile.totals(GpuSignal.POWER):
            chosen = (f"rate({self._select(metric.name, one)}[{duration(max(step, ENERGY_STEP))}])" for one in matchers)
            others.append(named(metric.name, aggregate("max", labels, " or ".join(chosen))))
        terms.append(f"(({union(others)}) unless on ({', '.join(labels)}) ({proof}))")
        return union(terms)

    def _shared_query(self, namespace: str, pods: Sequence[str]) -> str:
        """Devices of these pods that one scrape of the exporter gave to several pods."""
        by = ", ".join(sorted({*self._profile.labels["device"], *self._profile.labels["instance"]}))
        terms: list[str] = []
        for metric in self._profile.of(*PRIMARY):
            held = " or ".join(self._select(metric.name, one) for one in self._profile.selecting(pods, namespace))
            times = aggregate(
                "max", self._profile.grouping, f"timestamp({self._select(metric.name)}) and on ({by}) ({held})"
            )
            latest = f"({times}) >= on ({by}) group_left () (max by ({by}) ({times}) - {ONE_SCRAPE:g})"
            terms.append(named("shared", f"count by ({by}) ({latest}) > 1"))
        return " or ".join(terms)

    def _job(
        self, outline: JobOutline, grid: Grid, told: "_SparseResult", gpus: "_SparseResult", shared: "_SparseResult"
    ) -> JobPast:
        own = {pod.name for pod in outline.pods}
        devices: dict[tuple[str, str], _GpuBuffer] = {}
        for origin in gpus.origins:
            metric = self._metrics.get(origin.removeprefix("doubt/"))
            for labels, values in gpus.rows(origin):
                identity = self._profile.identity(labels)
                if identity is None or metric is None or identity.pod not in own:
                    continue
                if identity.namespace != outline.identity.namespace:
                    continue
                device = devices.setdefault((identity.pod, identity.gpu), _GpuBuffer(identity, grid.size))
                if origin.startswith("doubt/"):
                    device.doubtful |= ~np.isnan(values)
                else:
                    device.take(metric, values, self._factors.of(metric))
                    if self._factors.is_doubted(metric):
                        with np.errstate(invalid="ignore"):
                            device.doubtful |= (values > 0) & (values <= RATIO_LIMIT)
        sharing = _shared_devices(shared, self._profile.labels["device"], self._profile.labels["instance"])
        ready = _only(told.rows("ready"), grid.size)
        return JobPast(
            identity=outline.identity,
            grid=grid,
            held=np.isfinite(_only(told.rows("held"), grid.size)),
            ready=ready,
            pods=outline.pods,
            devices=tuple(
                device.past(self._profile.resting_watts(device.identity.model), sharing.get(device.identity.gpu))
                for _, device in sorted(devices.items())
            ),
            complete=not (told.warnings or gpus.warnings or shared.warnings),
        )

    # -------------------------------------------------------------------------------------------------------- questions

    async def _ask(self, query: str, grid: Grid, size: int = SLICE) -> "_SparseResult":
        first, step = grid.start.timestamp(), grid.step.total_seconds()
        times = [first + place * step for place in range(grid.size)]
        parts = await asyncio.gather(
            *(self._slice(query, grid, times[place : place + size]) for place in range(0, grid.size, size))
        )
        return _SparseResult([one for part in parts for one in part], grid.size)

    async def _slice(self, query: str, grid: Grid, times: Sequence[float]) -> "list[_Slice]":
        """The query at these times: at once, or in halves where that is more than the server allows."""
        step = grid.step.total_seconds()
        try:
            rows = await self._connection.range(query, times[0], times[-1], step)
        except LimitExceeded:
            if len(times) == 1:
                raise
            middle = len(times) // 2
            return [one for half in (times[:middle], times[middle:]) for one in await self._slice(query, grid, half)]
        return [_Slice.of(rows, grid.start.timestamp(), step)]


# -------------------------------------------------------------------------------------------------------------- queries


def _who_query(selector: Selectors) -> str:
    info = f"last_over_time({selector('stoker_dljob_info')}[{duration(WHO)}])"
    return named("info", aggregate("max", IDENTITY, info))


def _held(selector: Selectors, matchers: Mapping[str, str], span: timedelta) -> str:
    phase = selector("stoker_dljob_phase", {**matchers, "phase": any_of(HOLDING.split("|"))})
    return named("held", aggregate("max", ("uid",), f"last_over_time({phase}[{duration(span)}])"))


def _held_query(selector: Selectors, span: timedelta) -> str:
    return _held(selector, {}, span)


def _job_query(selector: Selectors, identity: JobIdentity) -> str:
    """Whether the job held its GPUs, and how many of its pods were ready."""
    uid = {"uid": identity.uid or ""}
    ready = f"last_over_time({selector('stoker_dljob_ready', uid)}[{duration(REACH)}])"
    return union([_held(selector, uid, REACH), named("ready", aggregate("max", ("uid",), ready))])


def _starts_query(selector: Selectors) -> str:
    """When trainer containers started, as cAdvisor tells it."""
    chosen = selector("container_start_time_seconds", {"container": TRAINER})
    return named("start", aggregate("max", ("namespace", "pod"), f"max_over_time({chosen}[{duration(COARSE)}])"))


# -------------------------------------------------------------------------------------------------------------- answers


_Name = tuple[str, frozenset[tuple[str, str]]]
"""A series of an answer: the term of the query that it comes from, and its labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeriesPart:
    """A series' values from the step `first` on: NaN where there is none, infinity where the value is none."""

    first: int
    values: FloatArray

    @classmethod
    def of(cls, row: Mapping[str, Any], start: float, step: float) -> Self:
        told = row["values"]
        places = np.rint((told[:, 0] - start) / step).astype(np.int64)
        values = np.full(int(places[-1] - places[0]) + 1, np.nan)
        values[places - places[0]] = np.where(np.isnan(told[:, 1]), np.inf, told[:, 1])
        return cls(first=int(places[0]), values=values)

    def into(self, row: FloatArray) -> None:
        """Write it to its place in a row of all steps."""
        row[self.first : self.first + len(self.values)] = self.values


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """What one query has told, in arrays: as it came over the wire it takes twenty times the room."""

    pieces: Sequence[tuple[_Name, _SeriesPart]]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, rows: Rows, start: float, step: float) -> Self:
        pieces: list[tuple[_Name, _SeriesPart]] = []
        for row in rows:
            labels: dict[str, str] = dict(row["metric"])
            origin = labels.pop(ORIGIN)
            pieces.append(((origin, frozenset(labels.items())), _SeriesPart.of(row, start, step)))
        return cls(pieces=pieces, warnings=rows.warnings)


class _SparseResult:
    """The rows of all slices of one query by their origin. Most jobs are short beside the period: what is kept of a row
    is the part that has values.
    """

    def __init__(self, slices: Sequence[_Slice], size: int) -> None:
        self._size = size
        self._found: dict[str, dict[frozenset[tuple[str, str]], list[_SeriesPart]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for one in slices:
            for (origin, labels), piece in one.pieces:
                self._found[origin][labels].append(piece)
        self.warnings = tuple(warning for one in slices for warning in one.warnings)

    def rows(self, origin: str) -> Iterator[tuple[Mapping[str, str], FloatArray]]:
        """The rows of one term of the query: labels, and a value for each step."""
        for labels, pieces in self._found.get(origin, {}).items():
            values = np.full(self._size, np.nan)
            for piece in pieces:
                piece.into(values)
            yield dict(labels), values

    @property
    def origins(self) -> Sequence[str]:
        """The terms that have rows."""
        return tuple(self._found)


class _PodBuffer:
    """What is gathered of a pod in coarse steps: peak, used and sampled as in an outline."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._told: dict[str, _SeriesPart] = {}

    def take(self, what: str, values: FloatArray) -> None:
        """Keep these, or of utilization and the graphics engine the one that says more."""
        more = np.fmax(self.row(what, len(values)), values)
        places = np.flatnonzero(~np.isnan(more))
        if len(places):
            self._told[what] = _SeriesPart(first=int(places[0]), values=more[places[0] : places[-1] + 1].copy())

    def row(self, what: str, size: int) -> FloatArray:
        """What is known of all steps."""
        values, known = np.full(size, np.nan), self._told.get(what)
        if known is not None:
            known.into(values)
        return values

    @property
    def extent(self) -> tuple[int, int]:
        """The first and the last step with a sample."""
        known = self._told.get("sampled")
        return (known.first, known.first + len(known.values) - 1) if known is not None else (0, 0)


@dataclass(slots=True)
class _GpuBuffer:
    """What is gathered of a device in fine steps."""

    identity: Identity
    size: int
    peaks: dict[GpuSignal, FloatArray] = field(default_factory=dict)
    sampled: BoolArray = field(init=False)
    doubtful: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        self.sampled = np.zeros(self.size, dtype=np.bool_)
        self.doubtful = np.zeros(self.size, dtype=np.bool_)

    def take(self, metric: Metric, values: FloatArray, factor: float) -> None:
        """Keep the larger of these and what is known; a value that is none is kept as doubt."""
        there = ~np.isnan(values)
        plausible = there & (values >= 0) & (values <= PLAUSIBLE[metric.unit])
        if metric.signal in PRIMARY:
            self.sampled |= there
        self.doubtful |= there & ~plausible
        scaled = np.where(plausible, values * factor, np.nan)
        known = self.peaks.get(metric.signal)
        self.peaks[metric.signal] = scaled if known is None else np.fmax(known, scaled)

    def past(self, resting_watts: float | None, shared: BoolArray | None) -> DevicePast:
        """The device as it is handed on."""
        identity = self.identity
        everywhere = np.full(self.size, identity.shared)
        return DevicePast(
            pod=identity.pod,
            gpu=identity.gpu,
            index=identity.index,
            model=identity.model,
            context_idle_watts=self._learned_watts() if resting_watts is None else resting_watts,
            peaks=self.peaks,
            sampled=self.sampled,
            doubtful=self.doubtful,
            shared=everywhere if shared is None else everywhere | shared,
        )

    def _learned_watts(self) -> float | None:
        """What the GPU draws without work: the lowest tenth of its steps; None where too few are known."""
        power = self.peaks.get(GpuSignal.POWER)
        known = np.empty(0) if power is None else power[np.isfinite(power)]
        return float(np.percentile(known, 10)) if len(known) >= LEARNED_STEPS else None


def _identities(who: _SparseResult, wanted: frozenset[str]) -> dict[str, JobIdentity]:
    """The jobs that the operator told of, by uid, each as it was last told of."""
    latest: dict[str, tuple[int, JobIdentity]] = {}
    for labels, values in who.rows("info"):
        places, identity = np.flatnonzero(~np.isnan(values)), job_identity(labels)
        if not len(places) or not identity.uid or (wanted and identity.namespace not in wanted):
            continue
        latest[identity.uid] = later(latest.get(identity.uid), (int(places[-1]), identity))
    return {uid: identity for uid, (_, identity) in latest.items()}


def _started(starts: _SparseResult) -> dict[PodKey, tuple[datetime, ...]]:
    """Of each pod every time at which its container was said to have started."""
    found: dict[PodKey, set[float]] = defaultdict(set)
    for labels, values in starts.rows("start"):
        known = values[np.isfinite(values) & (values > 0)]
        found[labels.get("namespace", ""), labels.get("pod", "")].update(np.unique(known).tolist())
    return {
        key: tuple(datetime.fromtimestamp(start, tz=UTC) for start in sorted(times)) for key, times in found.items()
    }


def _owner(pod: _PodBuffer, uids: Iterable[str], lives: Mapping[str, Places], grid: Grid) -> str | None:
    """Whose pod it is, of several jobs that had the name one after the other: whose time it was first seen in."""
    first, last = pod.extent
    slack = SLACK / grid.step
    own = [uid for uid in uids if lives[uid][0] - slack <= last and first <= lives[uid][-1] + slack]
    return min(
        own, key=lambda uid: (not lives[uid][0] <= first <= lives[uid][-1], abs(lives[uid][0] - first)), default=None
    )


def _outline(
    identity: JobIdentity,
    held: BoolArray,
    pods: Mapping[str, _PodBuffer],
    grid: Grid,
    started: Mapping[PodKey, tuple[datetime, ...]],
) -> JobOutline:
    nothing = np.full(grid.size, np.nan)

    def total(what: str) -> FloatArray:
        rows = [pod.row(what, grid.size) for pod in pods.values()]
        known = np.any([~np.isnan(row) for row in rows], axis=0) if rows else np.zeros(grid.size, dtype=np.bool_)
        return np.where(known, np.nansum(rows, axis=0), np.nan) if rows else nothing

    ordered: list[PastPod] = []
    for name, pod in pods.items():
        match = POD_NAME.fullmatch(name)
        assert match is not None  # only such are given to a job
        first, last = pod.extent
        ordered.append(
            PastPod(
                name=name,
                rank=int(match["rank"]),
                first_seen=grid.time(first - 1),
                last_seen=grid.time(last),
                starts=started.get((identity.namespace, name), ()),
            )
        )
    return JobOutline(
        identity=identity,
        held=held,
        peak=np.fmax.reduce([pod.row("peak", grid.size) for pod in pods.values()]) if pods else nothing,
        used=total("used"),
        sampled=total("sampled"),
        pods=tuple(sorted(ordered, key=lambda pod: (pod.first_seen, pod.rank))),
    )


def _shared_devices(shared: _SparseResult, device: Sequence[str], instance: Sequence[str]) -> dict[str, BoolArray]:
    """By the device's identity, the steps in which several pods held it."""
    found: dict[str, BoolArray] = {}
    for labels, values in shared.rows("shared"):
        uuid = next((labels[name] for name in device if labels.get(name)), "")
        part = next((labels[name] for name in instance if labels.get(name)), "")
        gpu = f"{uuid}/{part}" if part else uuid
        there = ~np.isnan(values)
        found[gpu] = found[gpu] | there if gpu in found else there
    return found


def _only(rows: Iterator[tuple[Mapping[str, str], FloatArray]], size: int) -> FloatArray:
    return next((values for _, values in rows), np.full(size, np.nan))


__all__ = ["PrometheusPast"]
