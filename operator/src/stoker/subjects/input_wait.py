"""Why GPUs that are at work get too little to do: one judgement for all rules on a low level.

Between its drops a job trains at a level. Where that is low, the GPUs wait for the CPUs, for data from elsewhere, for
copies over the host link or for one another, or they are simply given too little at a time. Each cause has a measure of
its own: how near something is to what it can carry at most, and so how much of the wait it explains. A cause that
explains enough is named; of several, the one at its ceiling; where the measures leave it open, none is.
"""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from stoker.models.series import FloatArray, GpuSignal, PodSignal
from stoker.models.vocabulary import Category, Confidence, Framework, JobType
from stoker.subjects.effort import mean_of, working
from stoker.subjects.examination import SATURATED_SHARE, Examination, once
from stoker.subjects.grid import BoolArray
from stoker.subjects.interruption import interrupted
from stoker.subjects.pattern import two_states
from stoker.subjects.traffic import both_ways, copied, exchanged, flows, links, peak, received
from stoker.subjects.wording import percent, rate

LOW_PERCENT = 50.0
"""The study's bound of low use (ICSE 2024, section 3.2); its definitions of batch size and memory have it, too."""
STARVED_PERCENT = 70.0
"""Up to here a cause at its own ceiling is named, though the level is not low: it costs a third of the GPUs' time."""
LEAST_SECONDS = 900.0
"""Fifteen minutes at the level: compilation, autotuning and warm-up are over."""
WARM_UP_SECONDS = 300.0
"""Left out at the start of a longer stage."""
DRAM_PERCENT = 50.0
"""Device memory busy for half of the time is what limits a kernel, whoever feeds it."""
EXPLAINS = 0.4
"""A transfer explains a wait from two fifths of it on: the rest is what a step does on the host anyway."""
THROTTLED_PERCENT = 10.0
CPU_PRESSURE_PERCENT = 30.0
"""Of the CFS periods, and of the time in which some task waits for a CPU: the CPUs hold the pod up."""
IO_PRESSURE_PERCENT = 20.0
"""Of the time in which some task waits for storage."""
CORES_A_GPU = 2.0
"""A training process keeps about one core busy; more than two are loading or transforming data."""
RECEIVED_BYTES = 20e6
"""bytes/s a pod: logs, metrics and gradients of a job within one pod stay below."""
READ_BYTES = 100e6
"""bytes/s a pod from its own disks."""
PAGEABLE_BYTES = 6e9
"""bytes/s that copies from pageable memory reach at best (16 lanes of PCIe 3 carry twice as much from pinned)."""
SLOW_COPY_BYTES = 1.5e9
"""bytes/s that they reach at worst: many small ones."""
PEER_BYTES = 10e9
"""bytes/s in each direction that GPUs exchange over PCIe at best."""
NVLINK_BYTES = 300e9
"""bytes/s of both directions together that collectives reach on NVLink (A100: 600 GB/s by its data sheet)."""
NETWORK_BYTES = 1.2e9
"""bytes/s in each direction of 10 Gbit/s Ethernet; faster networks seldom show in a pod's counters."""


MOST_BATCH_MEMORY_PERCENT = 50.0
FULL_MEMORY_PERCENT = 80.0
"""Of the GPUs' memory at its peak (ICSE 2024, section 4.2)."""
DROP_PERCENT = 10.0
DROP_SHARE = 0.1
"""A low state under 10 % for a tenth of the time is an interruption, not a low level."""
ORDER = (
    Category.DATA_PREPROCESSING,
    Category.DATA_EXCHANGE,
    Category.INEFFICIENT_HOST_GPU_TRANSFER,
    Category.REMOTE_DATA_READ,
)
"""Of several causes that explain the wait the first: CPUs at their ceiling hold up all that comes behind them, ranks
that wait for one another wait in every copy, and what fills the link to the GPU has been read fast enough.
"""


class Weight(IntEnum):
    """What the series say of one cause."""

    REFUTED = 0
    UNKNOWN = 1
    OPEN = 2
    """Something of it is there, though not enough to name it."""
    STRONG = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The weight of one cause, and its measure as a clause; empty where there is nothing to say."""

    category: Category
    weight: Weight
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class InputWait:
    """A low level and its cause.

    mask: the steps at that level, stage: these with the warm-up. level: the GPUs' mean use there, peak: the largest
    share of memory in use, in percent (None where unknown). category: None where it is open. evidence: of every cause
    that was weighed, the strongest first.
    """

    mask: BoolArray = field(compare=False)
    stage: BoolArray = field(compare=False)
    level: float
    peak: float | None
    category: Category | None
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    alternatives: tuple[Category, ...] = ()

    def words(self, category: Category) -> str:
        """The measure of one cause."""
        return next((one.words for one in self.evidence if one.category is category), "")


@once
def input_wait(exam: Examination) -> InputWait | None:
    """The job's low level, where it has one; None where it has none, or it can't be measured."""
    if exam.facts.job_type is not JobType.TRAINING or not exam.whole_gpus:
        return None
    stage = exam.training & ~interrupted(exam)
    mask = _warm(stage, exam.step)
    there = {row for row, device in enumerate(exam.devices) if (device.life & mask).any()}
    if mask.sum() * exam.step < LEAST_SECONDS or not there <= set(working(exam)) or not exam.sampled(mask):
        return None
    level = float(np.nanmean(exam.use[:, mask]))
    if level > STARVED_PERCENT or (exam.device_mean(GpuSignal.DRAM, mask) or 0.0) >= DRAM_PERCENT:
        return None
    memory = [device.memory[exam.active] for device in exam.devices]
    peak_memory = float(np.nanmax(memory)) if np.isfinite(memory).any() else None
    return _decide(exam, stage, mask, level, peak_memory)


def _warm(stage: BoolArray, step: float) -> BoolArray:
    """A stage without its warm-up, where it is long enough to have more than that."""
    begun = np.flatnonzero(stage)
    if len(begun) * step < LEAST_SECONDS + WARM_UP_SECONDS:
        return stage
    mask = stage.copy()
    mask[begun[0] : begun[0] + int(WARM_UP_SECONDS / step)] = False
    return mask


def _decide(exam: Examination, stage: BoolArray, mask: BoolArray, level: float, peak_memory: float | None) -> InputWait:
    wait = 1 - level / 100
    evidence = sorted(
        (_cpus(exam, mask), _remote(exam, mask), _copies(exam, mask, wait), _exchange(exam, mask, wait)),
        key=lambda one: -one.weight,
    )
    strong = [one for one in evidence if one.weight is Weight.STRONG]
    open_ = tuple(one.category for one in evidence if one.weight in (Weight.OPEN, Weight.STRONG))
    unknown = tuple(one.category for one in evidence if one.weight is Weight.UNKNOWN)

    def judged(category: Category | None, confidence: Confidence, alternatives: tuple[Category, ...] = ()) -> InputWait:
        return InputWait(
            mask=mask,
            stage=stage,
            level=level,
            peak=peak_memory,
            category=category,
            confidence=confidence,
            evidence=tuple(evidence),
            alternatives=tuple(one for one in alternatives if one is not category),
        )

    if strong:
        first = min(strong, key=lambda one: ORDER.index(one.category))
        return judged(first.category, Confidence.LIKELY)
    if level > LOW_PERCENT or not exam.is_low:
        return judged(None, Confidence.POSSIBLE)
    capacity = _capacity(exam, mask, peak_memory)
    if len(open_) == 1 and capacity is None and peak_memory is not None and not unknown:
        return judged(open_[0], Confidence.POSSIBLE)  # all else is refuted
    if open_:
        return judged(None, Confidence.POSSIBLE, (*open_, *((capacity,) if capacity else ())))
    if capacity is not None:
        known = {Category.DATA_PREPROCESSING, Category.REMOTE_DATA_READ}.isdisjoint(unknown)
        return judged(capacity, Confidence.LIKELY if known else Confidence.POSSIBLE, unknown)
    if peak_memory is None:
        unknown = (*unknown, Category.IMPROPER_BATCH_SIZE)
    return judged(None, Confidence.POSSIBLE, unknown)


def _capacity(exam: Examination, mask: BoolArray, peak_memory: float | None) -> Category | None:
    """The study's two definitions by memory, for frameworks that take only the memory that they use."""
    framework = exam.facts.framework
    if peak_memory is None or framework in (Framework.TENSORFLOW, Framework.JAX) or not _steady(exam.use[:, mask]):
        return None
    if peak_memory <= MOST_BATCH_MEMORY_PERCENT:
        return Category.IMPROPER_BATCH_SIZE
    if peak_memory > FULL_MEMORY_PERCENT:
        return Category.INSUFFICIENT_GPU_MEMORY
    return None


def _steady(use: FloatArray) -> bool:
    """No GPU's use falls to next to nothing and recovers for a tenth of the time."""
    for row in use:
        known = row[np.isfinite(row)]
        states = two_states(known)
        if states is not None and states[1] <= DROP_PERCENT and float(states[0].mean()) >= DROP_SHARE:
            return False
        if float((known <= DROP_PERCENT / 2).mean()) >= DROP_SHARE and float(known.mean()) > DROP_PERCENT:
            return False
    return True


# --------------------------------------------------------------------------------------------------------- the causes


def _cpus(exam: Examination, mask: BoolArray) -> Evidence:
    """Preprocessing: the CPUs at their limit, or held up by it. Workers that are too few leave the CPUs time, and only
    show as several busy cores.
    """
    category = Category.DATA_PREPROCESSING
    pods = {pod.name: pod for pod in exam.pods}
    throttled = peak(exam, flows(exam, PodSignal.CPU_THROTTLED), mask)
    pressure = peak(exam, flows(exam, PodSignal.CPU_PRESSURE), mask)
    best = Evidence(category=category, weight=Weight.UNKNOWN)
    for name, values in flows(exam, PodSignal.CPU):
        known = values[mask & exam.lives.get(name, mask) & np.isfinite(values)]
        if not len(known) or name not in pods:
            continue
        pod, cores = pods[name], float(known.mean())
        share = None if pod.cpu_limit is None else cores / pod.cpu_limit
        a_gpu = cores / max(pod.gpus, 1)
        of = "" if pod.cpu_limit is None else f" of {pod.cpu_limit:g}"
        words = f"{cores:.1f}{of} CPU cores busy"
        if share is not None and share >= SATURATED_SHARE:
            weight = Weight.STRONG
        elif throttled is not None and throttled >= THROTTLED_PERCENT and a_gpu >= 1:
            weight, words = Weight.STRONG, f"{words}, throttled in {percent(throttled)} of the periods"
        elif pressure is not None and pressure >= CPU_PRESSURE_PERCENT and a_gpu >= 1:
            weight, words = Weight.STRONG, f"{words}, a task waits for a CPU {percent(pressure)} of the time"
        elif a_gpu > CORES_A_GPU:
            weight = Weight.OPEN
        else:
            weight = Weight.REFUTED
        if best.weight is Weight.UNKNOWN or weight > best.weight:
            best = Evidence(category=category, weight=weight, words=words)
    return best


def _remote(exam: Examination, mask: BoolArray) -> Evidence:
    """Reading from elsewhere: data comes in all the time, and the CPUs have time."""
    category = Category.REMOTE_DATA_READ
    incoming = peak(exam, received(exam), mask)
    stored = peak(exam, flows(exam, PodSignal.DISK_READ), mask)
    waits = peak(exam, flows(exam, PodSignal.IO_PRESSURE), mask)
    if incoming is None and stored is None:
        return Evidence(category=category, weight=Weight.UNKNOWN)
    words = f"{rate(incoming)} received" if incoming is not None else ""
    pressed = waits is not None and waits >= IO_PRESSURE_PERCENT
    if pressed:
        words = f"{words}, a task waits for storage {percent(waits or 0.0)} of the time".removeprefix(", ")
    if incoming is not None and incoming >= RECEIVED_BYTES:
        return Evidence(category=category, weight=Weight.STRONG, words=words)
    if pressed or (stored is not None and stored >= READ_BYTES):
        return Evidence(category=category, weight=Weight.OPEN, words=words)
    return Evidence(category=category, weight=Weight.UNKNOWN if incoming is None else Weight.REFUTED, words=words)


def _copies(exam: Examination, mask: BoolArray, wait: float) -> Evidence:
    """Copies to the GPU: how much of the wait they take, at the speed of pageable memory."""
    category = Category.INEFFICIENT_HOST_GPU_TRANSFER
    if exam.facts.framework in (Framework.TENSORFLOW, Framework.JAX):
        return Evidence(category=category, weight=Weight.REFUTED)
    speeds = [
        float(np.mean(known))
        for device in exam.devices
        if (values := copied(device, several=exam.facts.gpus > 1)) is not None
        and len(known := _known(values, mask & device.life))
    ]
    if not speeds:
        return Evidence(category=category, weight=Weight.UNKNOWN)
    speed = float(np.mean(speeds))
    words = f"{rate(speed)} copied to each GPU"
    return Evidence(category=category, weight=_weighed(speed, PAGEABLE_BYTES, SLOW_COPY_BYTES, wait), words=words)


def _exchange(exam: Examination, mask: BoolArray, wait: float) -> Evidence:
    """Exchange among the ranks: how much of the wait it takes, at the speed of the link that carries it."""
    category = Category.DATA_EXCHANGE
    if exam.facts.gpus < 2:
        return Evidence(category=category, weight=Weight.REFUTED)
    found: list[Evidence] = []
    between = peak(exam, exchanged(exam), mask)
    if between is not None:
        words = f"{rate(between)} both sent and received by each pod"
        weight = _weighed(between, NETWORK_BYTES, NETWORK_BYTES / 4, wait)
        found.append(Evidence(category=category, weight=weight, words=words))
    for words, rows, speed in (
        ("over NVLink", links(exam), NVLINK_BYTES),
        ("over PCIe in both directions", both_ways(exam), PEER_BYTES),
    ):
        known = _known(mean_of(np.array(rows)), mask) if rows else np.empty(0)
        if len(known):
            mean = float(known.mean())
            weight = _weighed(mean, speed, speed / 4, wait)
            found.append(Evidence(category=category, weight=weight, words=f"{rate(mean)} a GPU {words}"))
    return max(found, key=lambda one: one.weight, default=Evidence(category=category, weight=Weight.UNKNOWN))


def _weighed(speed: float, at_best: float, at_worst: float, wait: float) -> Weight:
    """Whether a transfer explains a wait: surely, if it does at the best speed of what carries it; never, if it doesn't
    at the worst.
    """
    if speed / at_best >= EXPLAINS * wait:
        return Weight.STRONG
    return Weight.REFUTED if speed / at_worst < EXPLAINS * wait else Weight.OPEN


def _known(values: FloatArray, mask: BoolArray) -> FloatArray:
    return values[mask & np.isfinite(values)]
