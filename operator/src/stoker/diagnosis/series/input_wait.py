"""Why GPUs that are at work get too little to do: one judgement for all rules on a low level.

Between its drops a job trains at a level. Where that is low, the GPUs wait for the CPUs, for data from elsewhere, for
copies over the host link or for one another, or they are simply given too little at a time. Each cause has a measure of
its own: how near something is to what it can carry at most, and so how much of the wait it explains. A cause that
explains enough is named; of several, the one at its ceiling; where the measures leave it open, none is.
"""

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from stoker.diagnosis.series.coincidence import tied
from stoker.diagnosis.series.effort import mean_of, progress, working
from stoker.diagnosis.series.examination import SATURATED_SHARE, Device, Examination, once
from stoker.diagnosis.series.interruption import MATCHING, STAGED, interrupted
from stoker.diagnosis.series.pattern import two_states
from stoker.diagnosis.series.traffic import (
    both_ways,
    copied,
    exchanged,
    flows,
    links,
    means,
    peak,
    received,
    returned,
    sent,
)
from stoker.findings.vocabulary import Category, Confidence, Framework, JobType
from stoker.findings.wording import percent, rate
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, PodFacts, PodSignal

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
THROTTLED_PERCENT = 25.0
"""Percent of the CFS periods in which the CPU limit stopped the pod, from which the CPUs hold it up."""
CPU_PRESSURE_PERCENT = 50.0
"""Of the CFS periods, and of the time in which some task waits for a CPU: the CPUs hold the pod up."""
IO_PRESSURE_PERCENT = 20.0
"""Of the time in which some task waits for storage."""
CORES_A_GPU = 1.0
"""Cores that a training process keeps busy by launching kernels and polling for their end."""
LOADING_CORES_A_GPU = 3.0
"""A training process keeps about one core busy; three and more are loading or transforming data."""
BUSY_CORES_A_GPU = 6.0
"""Cores for each GPU of a pod without a CPU limit; below, the CPUs are not what holds the input up."""
UNSATURATED_SHARE = 0.6
"""The same of a pod with a limit, as a share of it."""
LOADING_SHARE = 0.75
"""Of the CPUs that the GPUs' own processes leave: the workers take no more when they wait for one another."""
WRITTEN_BYTES = 500e3
"""bytes/s a pod, in half of all steps or more: metrics and logs stay below."""
MODEL_RATE = 10e6
"""bytes/s: checkpoints so frequent write more."""
ANSWERS = 0.1
"""Of what is received, acknowledgements and requests are less."""
LEAST_RECEIVED_BYTES = 1e6
"""bytes/s a pod up to which nothing but logs, metrics and heartbeats is received."""
RECEIVED_BYTES = 20e6
"""bytes/s a pod: logs and metrics stay below the first; a job that receives more than the second may wait for it,
though its pace doesn't follow.
"""
READ_BYTES = 100e6
"""bytes/s a pod from its own disks."""
PAGEABLE_BYTES = 6e9
"""bytes/s that copies from pageable memory reach at best (16 lanes of PCIe 3 carry twice as much from pinned)."""
FAST_COPY_BYTES = 8e9
"""bytes/s that they reach on the fastest hosts."""
BESIDE = 1.2
"""Copies that would take 1.2 times as long as the whole wait run beside the kernels: they do not hold them up."""
VARYING = 0.05
"""Coefficient of variation of the work from which its pace varies; chosen on the tuning seeds."""
SLOW_COPY_BYTES = 1.5e9
"""bytes/s that they reach at worst: many small ones."""
PEER_BYTES = 10e9
"""bytes/s in each direction that GPUs exchange over PCIe at best."""
OFFLOADED_BYTES = 200e6
"""bytes/s a GPU in each direction: states of hundreds of megabytes, once a second or so."""
STAGED_BYTES = 1.5e9
"""bytes/s in each direction that they exchange through host memory, where the CPUs add up, at best."""
OWN_PROCESS_CORES = 0.75
"""A GPU: what a process of its own keeps busy while it launches kernels and waits for them."""
NVLINK_BYTES = 300e9
"""bytes/s of both directions together that collectives reach on NVLink (A100: 600 GB/s by its data sheet)."""
ALONE_PERCENT = 60.0
"""Percent of use up to which one GPU stands out from others that spin at 80 % and more."""
SPINNING_PERCENT = 80.0
"""Percent of utilization from which a kernel counts as running nearly always."""
SPINNING_BYTES = 300e6
"""bytes/s that a pod exchanges at least while its collectives spin."""
SPINNING_SM_PERCENT = 50.0
"""Percent of the time with busy SMs; training that its network does not hold up has more."""
SPINNING_TENSOR_PERCENT = 15.0
"""Percent of the time with busy tensor cores, where SMs are not sampled."""
SPINNING_DRAM_PERCENT = 25.0
"""Use that is no work: a kernel runs nearly always, a pod exchanges so many bytes/s, and the SMs (or, where these are
not sampled, tensor cores and memory) are busy for less of the time than in training that its network does not hold up.
"""
NETWORK_BYTES = 1e9
"""bytes/s in each direction that TCP carries over 10 Gbit/s Ethernet; faster networks seldom show in a pod."""


MOST_BATCH_MEMORY_PERCENT = 50.0
"""Percent of memory up to which the batch may grow (ICSE 2024, section 4.2: improper batch size)."""
FULL_MEMORY_PERCENT = 80.0
"""Of the GPUs' memory at its peak (ICSE 2024, section 4.2)."""
NEARLY_EMPTY_PERCENT = 10.0
"""Up to here the batch may grow so much that it comes first among the candidates, whatever else the pods do."""
DROP_PERCENT = 10.0
"""Percent of use under which a low state is an interruption."""
DROP_SHARE = 0.1
"""A low state under 10 % for a tenth of the time is an interruption, not a low level."""


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
    rows = [row for row in working(exam) if np.isfinite(exam.use[row, mask]).any()]
    if mask.sum() * exam.step < LEAST_SECONDS or not rows or not exam.sampled(mask):
        return None
    levels = np.array([np.nanmean(exam.use[row, mask]) for row in rows])
    level = float(levels.mean())
    if level > STARVED_PERCENT and levels.min() <= ALONE_PERCENT and np.sort(levels)[1] >= SPINNING_PERCENT:
        return _alone(exam, stage, mask, exam.devices[rows[int(levels.argmin())]], float(levels.min()))
    if level >= SPINNING_PERCENT:
        return _spins(exam, stage, mask, level)
    if level > STARVED_PERCENT or (exam.device_mean(GpuSignal.DRAM, mask) or 0.0) >= DRAM_PERCENT:
        return None
    memory = [device.memory[exam.active] for device in exam.devices]
    peak_memory = float(np.nanmax(memory)) if np.isfinite(memory).any() else None
    return _decide(exam, stage, mask, level, peak_memory)


def _alone(exam: Examination, stage: BoolArray, mask: BoolArray, device: Device, level: float) -> InputWait | None:
    """One rank that saves or uploads more often than the samples show, while all others spin until it is back."""
    found = next((one for one in _saving(exam, mask) if one.weight is Weight.STRONG), None)
    if found is None:
        return None
    words = f"{found.words}; {exam.names([device])} at {percent(level)}, the others spin meanwhile"
    return InputWait(
        mask=mask,
        stage=stage,
        level=level,
        peak=None,
        category=found.category,
        confidence=Confidence.LIKELY,
        evidence=(replace(found, words=words),),
    )


def _spins(exam: Examination, stage: BoolArray, mask: BoolArray, level: float) -> InputWait | None:
    """Ranks that spend their time in collectives over a slow network: a kernel spins all the time, and does no work."""
    between = peak(exam, exchanged(exam), mask)
    if between is None or between < SPINNING_BYTES:
        return None
    sm, tensor = exam.device_mean(GpuSignal.SM_ACTIVE, mask), exam.device_mean(GpuSignal.TENSOR, mask)
    dram = exam.device_mean(GpuSignal.DRAM, mask)
    if sm is not None:
        rests, words = sm <= SPINNING_SM_PERCENT, f"their SMs {percent(sm)}"
    elif tensor is not None and dram is not None:
        rests = tensor <= SPINNING_TENSOR_PERCENT and dram <= SPINNING_DRAM_PERCENT
        words = f"their tensor cores {percent(tensor)} and their memory {percent(dram)}"
    else:
        return None
    if not rests:
        return None
    said = f"{words} of the time, {rate(between)} both sent and received by each pod"
    return InputWait(
        mask=mask,
        stage=stage,
        level=level,
        peak=None,
        category=Category.DATA_EXCHANGE,
        confidence=Confidence.LIKELY,
        evidence=(Evidence(category=Category.DATA_EXCHANGE, weight=Weight.STRONG, words=said),),
    )


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
    capacity = _capacity(exam, mask, level, peak_memory)
    evidence = (
        *_saving(exam, mask),
        _offload(exam, mask, capacity),
        _cpus(exam, mask),
        _exchange(exam, mask, wait, capacity),
        _copies(exam, mask, wait),
        _remote(exam, mask, loading=_loading(exam, mask)),
    )
    category, confidence, alternatives = _verdict(exam, level, peak_memory, capacity, evidence)
    return InputWait(
        mask=mask,
        stage=stage,
        level=level,
        peak=peak_memory,
        category=category,
        confidence=confidence,
        evidence=tuple(sorted(evidence, key=lambda one: -one.weight)),
        alternatives=alternatives,
    )


CANDIDATES = (
    Category.DATA_PREPROCESSING,
    Category.INEFFICIENT_HOST_GPU_TRANSFER,
    Category.REMOTE_DATA_READ,
    Category.DATA_EXCHANGE,
    Category.MODEL_CHECKPOINTING,
    Category.INTERMEDIATE_RESULT_UPLOAD,
)
"""The order in which causes are named of which nothing is known."""
Verdict = tuple[Category | None, Confidence, tuple[Category, ...]]


def _verdict(
    exam: Examination,
    level: float,
    peak_memory: float | None,
    capacity: Category | None,
    evidence: tuple[Evidence, ...],
) -> Verdict:
    """Weigh the evidence, which stands in the order in which causes hide one another: what is written all the time is
    no symptom of anything; CPUs at their ceiling hold up all that comes behind them; ranks that wait for one another
    wait in every copy; what fills the link to the GPU has been read fast enough.
    """

    def of(weight: Weight) -> tuple[Category, ...]:
        return tuple(one.category for one in evidence if one.weight is weight)

    strong, left = of(Weight.STRONG), of(Weight.OPEN)
    unknown = tuple(category for category in CANDIDATES if category in of(Weight.UNKNOWN))
    if strong:
        return strong[0], Confidence.LIKELY, ()
    if level > LOW_PERCENT or not exam.is_low:
        return None, Confidence.POSSIBLE, ()
    sized = peak_memory is not None and capacity is None
    # Of exchange what isn't sampled goes over NVLink, where the GPUs that wait spin and do not look idle.
    excluded = sized and set(unknown) <= {Category.DATA_EXCHANGE}
    if excluded and left in ((Category.DATA_PREPROCESSING,), (Category.DATA_EXCHANGE,)):
        return left[0], Confidence.POSSIBLE, ()
    if left and capacity is Category.IMPROPER_BATCH_SIZE and (peak_memory or 0.0) <= NEARLY_EMPTY_PERCENT:
        return None, Confidence.POSSIBLE, (capacity, *left)
    if left:
        thread = (Category.DATA_PREPROCESSING,) if left == (Category.INEFFICIENT_HOST_GPU_TRANSFER,) and sized else ()
        return None, Confidence.POSSIBLE, (*left, *thread, *((capacity,) if capacity is not None else unknown))
    if capacity is not None:
        known = {Category.DATA_PREPROCESSING, Category.REMOTE_DATA_READ}.isdisjoint(unknown)
        return capacity, Confidence.LIKELY if known else Confidence.POSSIBLE, unknown
    # All that was sampled has time: what is left is the program's own thread, which makes batches, copies them piece by
    # piece or launches kernels.
    own = [Category.DATA_PREPROCESSING]
    if exam.facts.framework not in (Framework.TENSORFLOW, Framework.JAX):
        own.append(Category.INEFFICIENT_HOST_GPU_TRANSFER)
    reserves = exam.facts.framework in (Framework.TENSORFLOW, Framework.JAX)
    if peak_memory is None or peak_memory <= MOST_BATCH_MEMORY_PERCENT or reserves:
        own.append(Category.IMPROPER_BATCH_SIZE)
    return None, Confidence.POSSIBLE, tuple(dict.fromkeys((*own, *unknown)))


def _capacity(exam: Examination, mask: BoolArray, level: float, peak_memory: float | None) -> Category | None:
    """The study's two definitions by memory, for frameworks that take only the memory that they use."""
    framework = exam.facts.framework
    if level > LOW_PERCENT or not exam.is_low:
        return None
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
    throttling = means(exam, flows(exam, PodSignal.CPU_THROTTLED), mask)
    pressures = means(exam, flows(exam, PodSignal.CPU_PRESSURE), mask)
    best = Evidence(category=category, weight=Weight.UNKNOWN)
    for name, values in flows(exam, PodSignal.CPU):
        known = values[mask & exam.lives.get(name, mask) & np.isfinite(values)]
        if not len(known) or name not in pods:
            continue
        pod, cores = pods[name], float(known.mean())
        throttled, pressure = throttling.get(name), pressures.get(name)
        a_gpu = cores / max(pod.gpus, 1)
        of = "" if pod.cpu_limit is None else f" of {pod.cpu_limit:g}"
        words = f"{cores:.1f}{of} CPU cores busy"
        # Many threads run into a quota now and then, long before it sets their pace.
        much = a_gpu >= CORES_A_GPU and (pod.cpu_limit is None or cores >= UNSATURATED_SHARE * pod.cpu_limit)
        if _at_limit(cores, pod):
            weight = Weight.STRONG
        elif throttled is not None and throttled >= THROTTLED_PERCENT and much:
            weight, words = Weight.STRONG, f"{words}, throttled in {percent(throttled)} of the periods"
        elif pressure is not None and pressure >= CPU_PRESSURE_PERCENT and much:
            weight, words = Weight.STRONG, f"{words}, a task waits for a CPU {percent(pressure)} of the time"
        elif a_gpu >= LOADING_CORES_A_GPU:
            weight = Weight.OPEN
        else:
            weight = Weight.REFUTED
        if best.weight is Weight.UNKNOWN or weight > best.weight:
            best = Evidence(category=category, weight=weight, words=words)
    return best


def _loading(exam: Examination, mask: BoolArray) -> bool:
    """Some pod's CPUs are so busy that they may set the pace."""
    pods = {pod.name: pod for pod in exam.pods}
    for name, values in flows(exam, PodSignal.CPU):
        known = _known(values, mask & exam.lives.get(name, mask))
        if len(known) and name in pods:
            limit = pods[name].cpu_limit
            ceiling = BUSY_CORES_A_GPU * max(pods[name].gpus, 1) if limit is None else UNSATURATED_SHARE * limit
            if float(known.mean()) >= ceiling:
                return True
    return False


def _at_limit(cores: float, pod: PodFacts) -> bool:
    """All CPUs are busy, or, beside one for each GPU's process, most of those that are left for loading. Without a
    limit, what a pod requested is what a full node leaves it: it has several cores and is just there.
    """
    if pod.cpu_limit is None:
        requested = pod.cpu_request or 0.0
        several = cores >= LOADING_CORES_A_GPU * max(pod.gpus, 1)
        return several and SATURATED_SHARE * requested <= cores <= requested / SATURATED_SHARE
    left = pod.cpu_limit - pod.gpus
    loading = left >= pod.gpus and cores - pod.gpus >= LOADING_SHARE * left
    return cores >= SATURATED_SHARE * pod.cpu_limit or loading


def _remote(exam: Examination, mask: BoolArray, *, loading: bool) -> Evidence:
    """Reading from elsewhere: data comes in all the time, and the CPUs have time. Where they are `loading`, the pace of
    what comes in may follow theirs.
    """
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
    work = progress(exam)
    if incoming is not None and incoming >= LEAST_RECEIVED_BYTES:
        follows = any(tied(work, values, mask) for _, values in received(exam))
        if follows and not pressed:
            words = f"{words}, and GPU use rises with it"
        if pressed or (follows and not loading):
            return Evidence(category=category, weight=Weight.STRONG, words=words)
        if follows or incoming >= RECEIVED_BYTES:
            return Evidence(category=category, weight=Weight.OPEN, words=words)
    read = stored is not None and stored >= READ_BYTES
    if pressed or (read and any(tied(work, values, mask) for _, values in flows(exam, PodSignal.DISK_READ))):
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
        if (values := copied(device)) is not None and len(known := _known(values, mask & device.life))
    ]
    if not speeds:
        return Evidence(category=category, weight=Weight.UNKNOWN)
    speed = float(np.mean(speeds))
    words = f"{rate(speed)} copied to each GPU"
    # Copies that hold up the program take no more than the wait: what takes longer runs beside the kernels. And each
    # step's take as long as the last one's: a pace that varies may have its reason elsewhere.
    work = progress(exam)[mask]
    varies = float(np.nanstd(work)) > VARYING * float(np.nanmean(work))
    beside = speed / FAST_COPY_BYTES > BESIDE * wait
    weight = Weight.REFUTED if beside else _weighed(speed, PAGEABLE_BYTES, SLOW_COPY_BYTES, wait)
    weight = min(weight, Weight.OPEN) if varies else weight
    return Evidence(category=category, weight=weight, words=words)


def _offload(exam: Examination, mask: BoolArray, capacity: Category | None) -> Evidence:
    """States that live in host memory, for want of the GPUs': they go there and back, and the CPUs work on them."""
    category = Category.INSUFFICIENT_GPU_MEMORY
    if capacity is not category:
        return Evidence(category=category, weight=Weight.REFUTED)
    cores = _cores_a_gpu(exam, mask)
    rows = both_ways(exam)
    moved = _known(mean_of(np.array(rows)), mask) if rows else np.empty(0)
    if cores is None or not len(moved) or cores < LOADING_CORES_A_GPU or float(moved.mean()) < OFFLOADED_BYTES:
        return Evidence(category=category, weight=Weight.REFUTED)
    words = f"{rate(float(moved.mean()))} from each GPU to the host and back, {cores:.1f} CPU cores a GPU"
    return Evidence(category=category, weight=Weight.STRONG, words=words)


def _cores_a_gpu(exam: Examination, mask: BoolArray) -> float | None:
    """The busy cores a GPU of the pod that has most; None without samples."""
    gpus = {pod.name: max(pod.gpus, 1) for pod in exam.pods}
    return max(
        (
            float(known.mean()) / gpus[name]
            for name, values in flows(exam, PodSignal.CPU)
            if name in gpus and len(known := _known(values, mask))
        ),
        default=None,
    )


def _exchange(exam: Examination, mask: BoolArray, wait: float, capacity: Category | None) -> Evidence:
    """Exchange among the ranks: how much of the wait it takes, at the speed of the link that carries it. Over PCIe that
    is the speed of peers where a small batch would explain the wait as well, else that of sums in host memory.
    """
    category = Category.DATA_EXCHANGE
    if exam.facts.gpus < 2:
        return Evidence(category=category, weight=Weight.REFUTED)
    found: list[Evidence] = []
    between = peak(exam, exchanged(exam), mask)
    if between is not None:
        words = f"{rate(between)} both sent and received by each pod"
        weight = _weighed(between, NETWORK_BYTES, NETWORK_BYTES / 4, wait)
        found.append(Evidence(category=category, weight=weight, words=words))
    over_pcie = PEER_BYTES if capacity is Category.IMPROPER_BATCH_SIZE else STAGED_BYTES
    # Collectives over NVLink spin on the GPUs: of an idle GPU only copies that fill the links explain the wait. Those
    # are one process's for several GPUs; where each has its own, what goes over the links goes while the GPUs work.
    cores = _cores_a_gpu(exam, mask)
    most = Weight.STRONG if cores is not None and cores < OWN_PROCESS_CORES else Weight.OPEN
    ways = [("over NVLink", links(exam), NVLINK_BYTES, NVLINK_BYTES, most)]
    if exam.facts.nodes == 1:  # of several, what crosses the host link may be on its way to the network
        ways.append(("over PCIe in both directions", both_ways(exam), over_pcie, STAGED_BYTES / 2, Weight.STRONG))
    elsewhere = exam.facts.gpus_per_node > 1 and not ways[0][1]
    for words, rows, speed, worst, most in ways:
        known = _known(mean_of(np.array(rows)), mask) if rows else np.empty(0)
        if len(known):
            mean = float(known.mean())
            weight = min(most, _weighed(mean, speed, worst, wait))
            found.append(Evidence(category=category, weight=weight, words=f"{rate(mean)} a GPU {words}"))
    if elsewhere:  # NVLink may be there, and isn't sampled
        found.append(Evidence(category=category, weight=Weight.UNKNOWN))
    return max(found, key=lambda one: one.weight, default=Evidence(category=category, weight=Weight.UNKNOWN))


def _saving(exam: Examination, mask: BoolArray) -> tuple[Evidence, Evidence]:
    """Checkpoints and uploads more frequent than the samples: something is written in nearly every step. What the GPUs
    send to the host at the same rate is a model.
    """

    def both(checkpoint: Weight, upload: Weight, words: str = "") -> tuple[Evidence, Evidence]:
        return (
            Evidence(category=Category.MODEL_CHECKPOINTING, weight=checkpoint, words=words),
            Evidence(category=Category.INTERMEDIATE_RESULT_UPLOAD, weight=upload, words=words),
        )

    incoming = peak(exam, received(exam), mask) or 0.0
    loss = 100.0 - progress(exam)
    steady: tuple[float, str, FloatArray] | None = None
    staging = (
        pod_values for pod_values in flows(exam, PodSignal.DISK_WRITE) if not _stages(pod_values[1], incoming, mask)
    )
    for pod, values in (*sent(exam), *staging):
        known = _known(values, mask & exam.lives.get(pod, mask))
        if len(known) and (steady is None or float(np.median(known)) > steady[0]):
            steady = float(np.median(known)), pod, values
    if steady is None:
        return both(Weight.UNKNOWN, Weight.UNKNOWN)
    speed, pod, values = steady
    if speed < max(WRITTEN_BYTES, ANSWERS * incoming):
        return both(Weight.REFUTED, Weight.REFUTED)
    words = f"{rate(speed)} written or sent all the time"
    large, follows, from_gpu = speed >= MODEL_RATE, tied(loss, values, mask), returned(exam, mask, pod)
    if from_gpu is None:
        upload = Weight.OPEN if large or not follows else Weight.STRONG
        return both(Weight.OPEN if large else Weight.REFUTED, upload, words)
    if large and MATCHING[0] <= from_gpu / speed <= MATCHING[1]:
        return both(Weight.STRONG, Weight.REFUTED, f"{words}, {rate(from_gpu)} from the GPUs")
    return both(Weight.REFUTED, Weight.STRONG if follows else Weight.OPEN, words)


def _stages(written: FloatArray, incoming: float, mask: BoolArray) -> bool:
    """What is written is data on its way in: as much, or half as much, is received."""
    known = _known(written, mask)
    return bool(len(known)) and incoming >= STAGED * float(known.mean()) > 0


def _weighed(speed: float, at_best: float, at_worst: float, wait: float) -> Weight:
    """Whether a transfer explains a wait: surely, if it does at the best speed of what carries it; never, if it doesn't
    at the worst.
    """
    if speed / at_best >= EXPLAINS * wait:
        return Weight.STRONG
    return Weight.REFUTED if speed / at_worst < EXPLAINS * wait else Weight.OPEN


def _known(values: FloatArray, mask: BoolArray) -> FloatArray:
    return values[mask & np.isfinite(values)]
