"""What diagnosis rules look at: one job's series, read once into use, work, idleness, stages and what its pods did.

`examine` makes an `Examination` of a job's facts and series; `stoker.diagnosis.job.diagnose` hands it to every rule in
`stoker.diagnosis.rules`. What several rules compute alike is a module beside this one, kept by `once`.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from stoker.diagnosis.series.percentiles import percentile
from stoker.diagnosis.series.sampling import mean_range
from stoker.diagnosis.series.stages import StageSteps, evaluations, runs, split, stages, without_start
from stoker.findings.diagnosis import DiagnosisThresholds
from stoker.findings.finding import Problem
from stoker.findings.vocabulary import Stage
from stoker.findings.wording import count, ranges
from stoker.telemetry.activity import ACTIVITY_SIGNALS, PROFILING_SIGNALS, idle_ceiling
from stoker.telemetry.grid import BoolArray, job_lives
from stoker.telemetry.pod_limits import with_recorded_limits
from stoker.telemetry.series import FloatArray, GpuSeries, GpuSignal, JobFacts, JobSeries, MarkKind, PodFacts, PodSignal

Result = TypeVar("Result")

ALLOCATED_MIB = 64.0
"""Memory counts as allocated from this far over the device's baseline: the driver's own share swings by less."""
STUCK_UTIL_PERCENT = 5.0
"""Percent of utilization above which the graphics engine cannot truly read 0."""
STUCK_SAMPLES = 3
"""Contradicting samples in a row that prove it; two may be scraped on both sides of a change."""
STUCK_SHARE = 0.2
"""The graphics engine at exactly 0 while utilization stands over 5 % for three samples in a row, or in a fifth of all:
profiling is broken on that GPU. A mean over the whole interval misses no kernel that a look at a moment has seen.
"""
ALIASED_JUMP_POINTS = 50.0
"""Percentage points between neighbouring samples that count as a jump."""
ALIASED_SHARE = 0.25
"""Utilization without the interval means of profiling, jumping by 50 points between a quarter of neighbouring samples,
was sampled more slowly than it changes: its mean is known within a range (series/sampling.py).
"""
POD_COVERAGE = 0.5
"""A pod's mean over a stretch needs samples in half of its steps."""
LATELY_SECONDS = 600.0
"""Seconds that "lately" reaches back: the same ten minutes as `recentPercent` in the status."""
LEARNED_SAMPLES = 20
"""Steps without work from which a GPU's own context-idle power is learned (its lowest tenth)."""
LEARNED_REACH = 1.5
"""How far over its model's figure the learned one is believed: boards of one name differ by less."""
SATURATED_SHARE = 0.85
"""Of the CPU limit: the pod computes as fast as it may."""
MOST_NAMED_PODS = 4
"""A job may have hundreds: what is said of them stays readable."""
PREPARING_CORES = 2.0
"""Cores of a pod from which its CPUs count as preparing data."""
PREPARING_RECEIVED_BYTES = 1e6
"""Cores, and bytes/s received, a pod: preprocessing keeps several cores busy, and a download or pip receives more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Problem):
    """What a rule over series reports: a problem, and the GPU time that it explains.

    since: when it began; required, unlike for other problems. explains: one row a GPU of the examination, one column a
    step. stays_possible: it is only possible for a reason that no word of the job's source removes.
    """

    since: datetime
    explains: BoolArray = field(compare=False)
    stays_possible: bool = False


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU. Arrays have one element a step.

    use: percent, NaN where unknown: the graphics engine's interval mean where it can be trusted, else utilization.
    busy: some signal says that it works. idle: sampled, and none does. life: its container ran.
    memory: percent of the device, NaN where unknown. allocated: memory stands over the device's baseline.
    """

    pod: PodFacts
    series: GpuSeries
    life: BoolArray
    use: FloatArray
    busy: BoolArray
    idle: BoolArray
    memory: FloatArray
    allocated: BoolArray
    trusted: bool
    aliased: bool

    @property
    def known(self) -> BoolArray:
        """The steps in which something can be said of it."""
        return self.busy | self.idle

    @property
    def label(self) -> str:
        """Its number on the node, or its identity where the number isn't known."""
        return self.series.index if self.series.index is not None else self.series.gpu

    @property
    def place(self) -> tuple[int, str, int, str]:
        """What devices are listed by: rank, pod and number; GPU 10 comes after GPU 9."""
        return self.pod.rank, self.pod.name, len(self.label), self.label

    @property
    def capacity_mib(self) -> float | None:
        """Its memory; None where unknown."""
        used, free = self.signal(GpuSignal.MEMORY_USED), self.signal(GpuSignal.MEMORY_FREE)
        if used is None or free is None:
            return None
        total = used + free
        return float(np.nanmax(total)) if np.isfinite(total).any() else None

    @property
    def memory_mib(self) -> FloatArray:
        """Memory in use in MiB, NaN where unknown."""
        used = self.signal(GpuSignal.MEMORY_USED)
        return np.full(len(self.life), np.nan) if used is None else used

    def signal(self, signal: GpuSignal) -> FloatArray | None:
        """A signal, unless it is absent or can't be trusted."""
        if signal in PROFILING_SIGNALS and not self.trusted:
            return None
        return self.series.signals.get(signal)


@dataclass(frozen=True, kw_only=True)
class Examination:
    """A job's facts and series, with what every rule asks of them.

    Everything lies on one grid of time. A *mask* is a boolean array with one element a step; an array with "one row a
    device" has the shape (devices, steps) in the order of `devices`. A step without a sample is NaN, and neither busy
    nor idle: `busy | idle` is what is known. All that is derived is computed on first use and kept. What there is, by
    question:

    ==================================== ==============================================================================
    How long did the job run?            `life` (mask), `life_seconds`, `attempts` (masks, cut at restarts), `running`
    What did the GPUs do?                `use` (percent), `busy`, `idle`, `alive` (one row a device), `any_busy`,
                                         `all_idle` (masks), `bursts` (ranges of steps)
    Which GPUs?                          `devices` (former pods' too), `present` (of the latest pods), `names` (as text)
    Is enough known to conclude?         `sampled(mask)`, `covered`, `covered_idle(mask)`, `every_gpu_seen`,
                                         `whole_gpus`, `known_at_all`
    What was it doing when?              `stages`, `stage(...)`, `active`, `training`, `evaluating`, `lately` (masks)
    How busy was it overall?             `average`, `bounds` (percent), `coverage_percent`, `is_low`, `is_not_low`
    What did pods and devices measure?   `pod_means`, `pod_peak`, `device_mean` of a signal within a mask; None where
                                         too little of it was sampled
    Which GPU time does a cause explain? `explains(mask, devices)` for a `Claim`, `idle_hours` of it, `steps`, `span`,
                                         `time`, `until` for its interval
    ==================================== ==============================================================================

    A rule yields a `Claim` and nothing where it can't decide:

        mask = exam.training & exam.lately
        if not exam.sampled(mask):
            return
        since, until = exam.span(mask)
        yield Claim(detail="...", explains=exam.explains(mask), since=since, until=until, ...)
    """

    facts: JobFacts
    series: JobSeries
    thresholds: DiagnosisThresholds
    now: datetime
    devices: tuple[Device, ...]
    """Those of former pods, too: what they did is the job's."""
    lives: Mapping[str, BoolArray]
    """The steps in which each pod's container ran, former pods' too."""
    computed: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What `once` has computed of it."""

    # ------------------------------------------------------------------------------------------------------ time

    @property
    def step(self) -> float:
        """Seconds a step."""
        return self.series.step

    @cached_property
    def life(self) -> BoolArray:
        """The steps in which any of the job's containers ran."""
        alive = np.zeros(len(self.series.times), dtype=np.bool_)
        for one in self.lives.values():
            alive |= one
        return alive

    @property
    def pods(self) -> tuple[PodFacts, ...]:
        """All pods that the job has or had."""
        return (*self.facts.pods, *self.facts.former_pods)

    @cached_property
    def attempts(self) -> tuple[BoolArray, ...]:
        """The job's life cut where it was down as a whole, or where its first rank's container started anew."""
        cuts = {
            int(np.searchsorted(self.series.times - self.step / 2, start.timestamp()))
            for pod in self.pods
            if pod.rank == 0
            for start in (*(attempt.started_at for attempt in pod.attempts), pod.started_at)
            if start is not None
        }
        found: list[BoolArray] = []
        for first, last in runs(self.life):
            edges = [first, *sorted(cut for cut in cuts if first < cut < last), last]
            found += [self.steps(*pair) for pair in pairwise(edges)]
        return tuple(found)

    @cached_property
    def running(self) -> bool:
        """A container of the job still runs."""
        return any(pod.started_at is not None and pod.finished_at is None for pod in self.facts.pods)

    def time(self, boundary: int) -> datetime:
        """The start of a step; the length of the grid gives its end."""
        return datetime.fromtimestamp(float(self.series.times[0]) + (boundary - 1) * self.step, tz=UTC)

    def until(self, boundary: int) -> datetime | None:
        """The end of a stretch that ends before this step; None while it lasts: it reaches the end of a job that still
        runs.
        """
        alive = np.flatnonzero(self.life)
        if self.running and len(alive) and boundary > alive[-1]:
            return None
        return self.time(boundary)

    @cached_property
    def life_seconds(self) -> float:
        """How long the job has run."""
        return float(self.life.sum()) * self.step

    # ------------------------------------------------------------------------------------------------------ GPUs

    @cached_property
    def use(self) -> FloatArray:
        """Percent, one row a device."""
        return np.array([device.use for device in self.devices], dtype=np.float64).reshape(self._shape)

    @cached_property
    def busy(self) -> BoolArray:
        """One row a device."""
        return self._rows(device.busy for device in self.devices)

    @cached_property
    def idle(self) -> BoolArray:
        """One row a device."""
        return self._rows(device.idle for device in self.devices)

    @cached_property
    def any_busy(self) -> BoolArray:
        """The steps in which any GPU works."""
        return np.asarray(self.busy.any(axis=0), dtype=np.bool_)

    @cached_property
    def all_idle(self) -> BoolArray:
        """The steps in which every GPU that the job requested is sampled and idle."""
        if not self.every_gpu_seen:
            return np.zeros(len(self.series.times), dtype=np.bool_)
        doubtful = (self.alive & ~self.idle).any(axis=0)
        return np.asarray((self.idle.sum(axis=0) >= self.facts.gpus) & ~doubtful, dtype=np.bool_)

    @property
    def present(self) -> tuple[Device, ...]:
        """The GPUs of the job's latest pods, without those that former pods gave back."""
        names = {pod.name for pod in self.facts.pods}
        return tuple(device for device in self.devices if device.pod.name in names)

    @property
    def every_gpu_seen(self) -> bool:
        """Each GPU that the job requested, and each that a former pod had, has samples."""
        seen = Counter(device.pod.name for device in self.devices)
        former = all(seen[pod.name] >= pod.gpus for pod in self.facts.former_pods if self.lives[pod.name].any())
        uncounted = any(pod.uncounted_gpus is not None for pod in self.facts.pods)
        return 0 < self.facts.gpus <= len(self.present) and former and not uncounted

    @property
    def whole_gpus(self) -> bool:
        """The job has its GPUs to itself: none is a slice of a device or shared with other pods, whose traffic, power
        and profiling would be mixed up with its own.
        """
        return "mig-" not in self.facts.gpu_resource and not any(device.series.shared for device in self.devices)

    @cached_property
    def alive(self) -> BoolArray:
        """The steps in which its container ran, one row a device."""
        return self._rows(device.life for device in self.devices)

    @property
    def known_at_all(self) -> bool:
        """Any GPU has any sample."""
        return bool(self.busy.any() or self.idle.any())

    @cached_property
    def lately(self) -> BoolArray:
        """The last ten minutes of a job that still runs; nothing of one that has ended."""
        if not self.running:
            return np.zeros(len(self.series.times), dtype=np.bool_)
        return self.life & (self.series.times > self.now.timestamp() - LATELY_SECONDS)

    @cached_property
    def covered(self) -> bool:
        """Every GPU that the job requested has its share of samples over its life: enough to say of one that it never
        worked.
        """
        return self.sampled(self.life)

    def sampled(self, mask: BoolArray) -> bool:
        """Every GPU that the job requested has its share of samples in the part of the mask in which its container
        ran.
        """
        share = self.thresholds.min_coverage_percent / 100
        there = (self.alive & mask).sum(axis=1)
        known = ((self.busy | self.idle) & mask).sum(axis=1)
        ranks = {device.pod.rank for device, steps in zip(self.devices, there, strict=True) if steps}
        return (
            self.every_gpu_seen
            and len(ranks) >= len({pod.rank for pod in self.facts.pods})
            and bool((known >= share * there).all())
        )

    def covered_idle(self, mask: BoolArray) -> bool:
        """Every GPU that the job requested idles throughout the mask: none works, and each has its share of samples."""
        return bool(mask.any()) and not self.any_busy[mask].any() and self.sampled(mask)

    # ------------------------------------------------------------------------------------------------ the study's U

    @cached_property
    def expected_steps(self) -> int:
        """GPU steps that the job's life holds, over all GPUs requested, also those without a pod or a sample."""
        return self.expected(self.life)

    def expected(self, mask: BoolArray) -> int:
        """GPU steps that the job holds within the mask, over all GPUs requested."""
        total = sum(int((self.lives[pod.name] & mask).sum()) * pod.gpus for pod in self.pods)
        unseen = self.facts.gpus - sum(pod.gpus for pod in self.facts.pods)
        return total + max(unseen, 0) * int((self.life & mask).sum())

    @cached_property
    def coverage_percent(self) -> float:
        """Share of the expected GPU steps that hold a value of use."""
        if not self.expected_steps:
            return 0.0
        return min(100.0 * float(np.isfinite(self.use).sum()) / self.expected_steps, 100.0)

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Between which percentages the life utilization lies: what is unknown may have been anything. GPUs of one job
        work together, so their sampling errors add up.
        """
        if not self.expected_steps:
            return (0.0, 100.0)
        low = high = 0.0
        for device in self.devices:
            known = device.use[np.isfinite(device.use)]
            if not len(known):
                continue
            lowest, highest = mean_range(known) if device.aliased else (float(known.mean()),) * 2
            low += lowest * len(known)
            high += highest * len(known)
        missing = max(self.expected_steps - int(np.isfinite(self.use).sum()), 0)
        return (low / self.expected_steps, min((high + 100.0 * missing) / self.expected_steps, 100.0))

    @cached_property
    def average(self) -> float | None:
        """Life utilization U in percent, time-weighted over all GPUs requested; None where it can only be bounded.

        With coverage at the policy's bound or over it, the steps without a sample are taken to be like the others.
        """
        if self.coverage_percent < self.thresholds.min_coverage_percent or any(
            device.aliased for device in self.devices
        ):
            return None
        return float(np.nanmean(self.use))

    @cached_property
    def is_not_low(self) -> bool:
        """Life utilization is over the policy's bound, whatever the unknown was."""
        lowest = self.bounds[0] if self.average is None else self.average
        return lowest > self.thresholds.low_percent

    @cached_property
    def is_low(self) -> bool:
        """Life utilization is at or under the policy's bound, as the study has it, whatever the unknown was."""
        highest = self.bounds[1] if self.average is None else self.average
        return highest <= self.thresholds.low_percent

    # ---------------------------------------------------------------------------------------------------- stages

    @cached_property
    def stages(self) -> tuple[StageSteps, ...]:
        """The stages of the job's life in order, as far as the series prove them; each attempt has its own."""
        return tuple(part for span in self._spans for part in split(span, self.evaluating))

    def stage(self, stage: Stage) -> StageSteps | None:
        """The first span of that stage, if the job has it."""
        return next((span for span in self.stages if span.stage is stage), None)

    @cached_property
    def active(self) -> BoolArray:
        """The steps of all active stages, training and evaluation alike."""
        return self._within(Stage.ACTIVE)

    @cached_property
    def evaluating(self) -> BoolArray:
        """The steps of the active stages that are evaluation, where that can be told."""
        active = self._within(Stage.ACTIVE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of a step without samples is unknown
            mean = np.nanmean(self.use, axis=0) if len(self.devices) else np.full(len(active), np.nan)
        return evaluations(mean, active, self.step)

    @cached_property
    def training(self) -> BoolArray:
        """The steps of the active stages that aren't known to be evaluation."""
        return self.active & ~self.evaluating

    @cached_property
    def _spans(self) -> list[StageSteps]:
        """The stages before training and evaluation are told apart."""
        allocated = np.asarray(self._rows(device.allocated for device in self.devices).any(axis=0), dtype=np.bool_)
        found: list[StageSteps] = []
        for attempt in self.attempts:
            spans = stages(attempt, allocated, self.any_busy, self._preparing, self.step)
            found += without_start(spans) if self.began_before and attempt[0] else spans
        ends = [span for span in found if span.stage is Stage.TAIL]
        # A tail before a restart was no end: the program stood still, and then began anew.
        return [replace(span, stage=Stage.ACTIVE) if span in ends and span is not found[-1] else span for span in found]

    @property
    def began_before(self) -> bool:
        """The job began before what is looked at of it: its start is out of sight."""
        starts = [pod.started_at for pod in self.pods] + [run.started_at for pod in self.pods for run in pod.attempts]
        sight = float(self.series.times[0]) - 2 * self.step if len(self.series.times) else 0.0
        return any(start is not None and start.timestamp() < sight for start in starts)

    def _within(self, stage: Stage) -> BoolArray:
        mask = np.zeros(len(self.series.times), dtype=np.bool_)
        for span in self._spans:
            if span.stage is stage:
                mask[span.first : span.last] = True
        return mask & self.life

    @cached_property
    def _preparing(self) -> BoolArray:
        """The steps in which some pod's CPUs work as those of preprocessing do: several cores, or all that it may use,
        with next to nothing received; and no log line says that it installs or downloads.
        """
        found = np.zeros(len(self.series.times), dtype=np.bool_)
        limits = {pod.name: pod.cpu_limit for pod in self.pods}
        for pod in self.series.pods:
            cpu, received = pod.signals.get(PodSignal.CPU), pod.signals.get(PodSignal.NET_RX)
            if cpu is None or received is None or pod.pod not in limits:
                continue
            limit = limits[pod.pod]
            floor = PREPARING_CORES if limit is None else min(PREPARING_CORES, SATURATED_SHARE * limit)
            with np.errstate(invalid="ignore"):
                found |= (cpu >= floor) & (received < PREPARING_RECEIVED_BYTES)
        for mark in self.series.marks:
            if mark.kind in (MarkKind.INSTALL, MarkKind.DOWNLOAD):
                found[: int(np.searchsorted(self.series.times, mark.time.timestamp())) + 1] = False
        return found

    @cached_property
    def bursts(self) -> list[tuple[int, int]]:
        """Stretches of work, as half-open ranges of steps, where only idle steps count as a pause."""
        joined: list[tuple[int, int]] = []
        for first, last in runs(self.any_busy):
            if joined and not self.all_idle[joined[-1][1] : first].any():
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        return joined

    # ------------------------------------------------------------------------------------------------------ pods

    def pod_means(self, signal: PodSignal, mask: BoolArray) -> Mapping[str, float] | None:
        """Each pod's mean of a signal over the steps of the mask in which it ran; None unless every one of them has
        enough samples.

        The network of a pod on the host's network is the node's, and no evidence.
        """
        means: dict[str, float] = {}
        recorded = {pod.pod: pod.signals for pod in self.series.pods}
        for pod in self.pods:
            steps = mask & self.lives[pod.name]
            values = recorded.get(pod.name, {}).get(signal)
            if not steps.any():
                continue
            if values is None or (pod.host_network and signal in (PodSignal.NET_RX, PodSignal.NET_TX)):
                return None
            known = values[steps & np.isfinite(values)]
            if len(known) < POD_COVERAGE * steps.sum():
                return None
            means[pod.name] = float(known.mean())
        return means or None

    def pod_peak(self, signal: PodSignal, mask: BoolArray) -> float | None:
        """The largest of the pods' means; None where not every pod has enough samples."""
        means = self.pod_means(signal, mask)
        return None if means is None else max(means.values())

    def device_mean(self, signal: GpuSignal, mask: BoolArray) -> float | None:
        """The mean of a GPU signal over the devices and the steps of the mask; None where none has samples."""
        values = [
            found[mask & device.life & np.isfinite(found)]
            for device in self.devices
            if (found := device.signal(signal)) is not None
        ]
        joined = np.concatenate(values) if values else np.empty(0)
        return float(joined.mean()) if len(joined) else None

    # ---------------------------------------------------------------------------------------------------- claims

    def steps(self, first: int, last: int) -> BoolArray:
        """A mask of the steps `first` up to, not including, `last`."""
        mask = np.zeros(len(self.series.times), dtype=np.bool_)
        mask[first:last] = True
        return mask

    def span(self, mask: BoolArray) -> tuple[datetime, datetime | None]:
        """From the first step of a mask to its last; the end None while it lasts."""
        places = np.flatnonzero(mask)
        return self.time(int(places[0])), self.until(int(places[-1]) + 1)

    def explains(self, mask: BoolArray, devices: Iterable[Device] | None = None) -> BoolArray:
        """The GPU time of the given devices (all by default) within the steps of the mask."""
        chosen = {id(device) for device in (self.devices if devices is None else devices)}
        return self._rows(mask & device.life & (id(device) in chosen) for device in self.devices)

    def idle_hours(self, claimed: BoolArray) -> float:
        """The idle GPU-hours within claimed GPU time: the sum of (1 - u) dt over the steps where u is known."""
        return float(self._unused[claimed].sum()) * self.step / 3600

    @cached_property
    def _unused(self) -> FloatArray:
        """1 - u where u is known, else 0; one row a device."""
        return np.nan_to_num(1 - np.clip(self.use, 0, 100) / 100)

    def names(self, devices: Iterable[Device]) -> str:
        """The devices as people say them: `GPU 4-7`, or per pod where the job has several."""
        by_pod: dict[str, list[str]] = {}
        for device in devices:
            by_pod.setdefault(device.pod.name, []).append(device.label)
        if self.facts.nodes == 1:
            return "; ".join(f"GPU {ranges(labels)}" for labels in by_pod.values())
        pods = {pod.name: pod for pod in self.pods}
        ordered = sorted(by_pod.items(), key=lambda item: pods[item[0]].rank)
        if len(ordered) > MOST_NAMED_PODS and len({ranges(labels) for _, labels in ordered}) == 1:
            return f"GPU {ranges(ordered[0][1])} of {len(ordered)} pods"
        named = [f"GPU {ranges(labels)} of {self.facts.host_of(pods[pod])}" for pod, labels in ordered]
        more = len(named) - MOST_NAMED_PODS
        return "; ".join(named if more <= 0 else [*named[:MOST_NAMED_PODS], count(more, "more pod")])

    @property
    def _shape(self) -> tuple[int, int]:
        return (len(self.devices), len(self.series.times))

    def _rows(self, rows: Iterable[BoolArray]) -> BoolArray:
        return np.array(list(rows), dtype=np.bool_).reshape(self._shape)


def once(read: Callable[[Examination], Result]) -> Callable[[Examination], Result]:
    """Keep a function's answer with the examination: several rules ask for the same."""
    name = f"{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def kept(exam: Examination) -> Result:
        if name not in exam.computed:
            exam.computed[name] = read(exam)
        return cast(Result, exam.computed[name])

    return kept


def examine(facts: JobFacts, series: JobSeries, thresholds: DiagnosisThresholds, now: datetime) -> Examination:
    """Read a job's series."""
    facts = with_recorded_limits(facts, series)
    pods = {pod.name: pod for pod in (*facts.pods, *facts.former_pods)}
    lives = job_lives(facts, series.times, series.step)
    devices = tuple(
        _device(pods[gpu.pod], gpu, series, lives[gpu.pod], thresholds.idle_percent)
        for gpu in series.gpus
        if gpu.pod in pods
    )
    return Examination(facts=facts, series=series, thresholds=thresholds, now=now, devices=devices, lives=lives)


def _device(pod: PodFacts, gpu: GpuSeries, series: JobSeries, alive: BoolArray, idle_percent: float) -> Device:
    empty = np.full(len(series.times), np.nan)
    util = gpu.signals.get(GpuSignal.UTIL, empty)
    graphics = gpu.signals.get(GpuSignal.GRAPHICS, empty)
    trusted = not _stuck(util, graphics)
    use = np.where(np.isfinite(graphics), graphics, util) if trusted else util
    memory, allocated = _memory(gpu, empty)
    watts = _context_idle_watts(gpu, util, allocated)
    busy = np.zeros(len(series.times), dtype=np.bool_)
    for signal in ACTIVITY_SIGNALS:
        if signal in PROFILING_SIGNALS and not trusted:
            continue
        ceiling = idle_ceiling(signal, idle_percent, watts)
        values = gpu.signals.get(signal)
        if ceiling is not None and values is not None:
            with np.errstate(invalid="ignore"):
                busy |= values > ceiling
    return Device(
        pod=pod,
        series=gpu,
        life=alive,
        use=np.where(alive, np.clip(use, 0, 100), np.nan),
        busy=busy & alive,
        idle=np.isfinite(use) & ~busy & alive,
        memory=memory,
        allocated=allocated & alive,
        trusted=trusted,
        aliased=not np.isfinite(graphics).any() and _aliased(util),
    )


def _stuck(util: FloatArray, graphics: FloatArray) -> bool:
    """The graphics engine reads 0 while utilization stands high, too often to be chance."""
    with np.errstate(invalid="ignore"):
        contradiction = (util > STUCK_UTIL_PERCENT) & (graphics == 0)
    often = contradiction.sum() >= max(STUCK_SAMPLES, STUCK_SHARE * np.isfinite(graphics).sum())
    return bool(often) or any(last - first >= STUCK_SAMPLES for first, last in runs(contradiction))


def _aliased(util: FloatArray) -> bool:
    known = util[np.isfinite(util)]
    if len(known) < 4:
        return False
    return float((np.abs(np.diff(known)) >= ALIASED_JUMP_POINTS).mean()) >= ALIASED_SHARE


def _memory(gpu: GpuSeries, empty: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Percent of the device's memory in use, and where it stands over the device's own baseline."""
    used = gpu.signals.get(GpuSignal.MEMORY_USED, empty)
    free = gpu.signals.get(GpuSignal.MEMORY_FREE, empty)
    total = used + free
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = np.where(total > 0, 100 * used / total, np.nan)
        return percent, used >= np.fmin.reduce(used, initial=np.inf) + ALLOCATED_MIB


def _context_idle_watts(gpu: GpuSeries, util: FloatArray, allocated: BoolArray) -> float | None:
    """What the GPU draws with a context and no work: its own lowest tenth at rest, within reach of its model's
    figure.
    """
    known = gpu.context_idle_watts
    power = gpu.signals.get(GpuSignal.POWER)
    if power is None:
        return known
    resting = power[(util == 0) & allocated & np.isfinite(power)]
    if len(resting) < LEARNED_SAMPLES:
        return known
    learned = percentile(resting, 10)
    # A utilization stuck at 0 must not teach that full power is rest.
    return learned if known is None else min(max(learned, known), LEARNED_REACH * known)
