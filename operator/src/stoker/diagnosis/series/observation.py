"""What is measured of a level of use: the quantities that mechanisms are held against, and their words.

`observe` reads an examination within a mask; `mechanisms.py` says what each cause would show of it.
"""

import numpy as np

from stoker.diagnosis.series.coincidence import tied
from stoker.diagnosis.series.effort import mean_of, progress, working
from stoker.diagnosis.series.examination import SATURATED_SHARE, Examination
from stoker.diagnosis.series.mechanisms import Observation, Quantity
from stoker.diagnosis.series.traffic import (
    Flow,
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
from stoker.findings.vocabulary import Category
from stoker.findings.wording import percent, rate
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, PodFacts, PodSignal

STAGED = 0.5
"""What is written is data on its way in, if half as much or more is received."""
ANSWERS = 0.1
"""Acknowledgements and requests are a smaller share of what goes the other way."""
HELD_UP = 0.1
"""The share of the time from which the words say that the CPUs are held up."""
LEAST_RECEIVED = 100e3
"""bytes/s from which the words name what is received: heartbeats and logs are less."""
PRESSED = 0.1
"""The share of the time from which the words say that tasks wait for storage."""
NVLINKED = ("SXM", "HBM3")
"""Parts of the names of GPUs that come on boards with NVLink."""
LEAST_WAIT = 0.05
"""The least share of the time that a transfer may be held against."""
LEAST_LEVEL = 0.05
"""Mean use, as a share, under which and over one minus which the swing of samples says nothing."""
LEAST_VARIATION = 0.1
"""Of the pace, by its mean: less is the noise of sampling, which no transfer follows."""
LEAST_SAMPLES = 20
"""Samples from which a variation is taken."""


def observe(exam: Examination, mask: BoolArray, level: float, peak_memory: float | None) -> Observation:
    """The quantities of a level: percent of `level` and `peak_memory`, None where the latter is unknown."""
    wait = max(1 - level / 100, LEAST_WAIT)
    found: dict[Quantity, float | None] = {
        Quantity.WAIT: wait,
        Quantity.MEMORY: None if peak_memory is None else peak_memory / 100,
        Quantity.PAUSING: pausing(exam, mask),
        Quantity.PACE_VARIATION: _pace_variation(exam, mask),
    }
    found |= _over_links(exam, mask, wait)
    found |= _of_cpus(exam, mask)
    found |= _of_storage(exam, mask)
    found |= _written(exam, mask)
    return {quantity: value for quantity, value in found.items() if value is not None}


def pausing(exam: Examination, mask: BoolArray) -> float | None:
    """How far the samples of the last second swing around the interval means (or their own mean), as a share of the
    swing of samples that are either 0 or 100 %: the mean over the GPUs that have work. None without enough samples.
    """
    shares: list[float] = []
    for row in working(exam):
        device = exam.devices[row]
        looks = device.signal(GpuSignal.UTIL)
        if looks is None:
            continue
        interval = device.signal(GpuSignal.GRAPHICS)
        known = mask & device.life & np.isfinite(looks)
        if interval is not None:
            known &= np.isfinite(interval)
        if known.sum() < LEAST_SAMPLES:
            continue
        mean = float(looks[known].mean()) / 100
        if not LEAST_LEVEL <= mean <= 1 - LEAST_LEVEL:
            continue
        around = looks[known] / 100 - (mean if interval is None else interval[known] / 100)
        shares.append(float(around.var()) / (mean * (1 - mean)))
    return float(np.mean(shares)) if shares else None


def _pace_variation(exam: Examination, mask: BoolArray) -> float | None:
    """How much the work varies from step to step; None where it is sampled in moments, which vary by themselves."""
    if not all(exam.devices[row].signal(GpuSignal.GRAPHICS) is not None for row in working(exam)):
        return None
    return _variation(progress(exam)[mask])


def _variation(values: FloatArray) -> float | None:
    """The deviation of neighbours, by the mean: a level that only shifts once hardly varies."""
    known = values[np.isfinite(values)]
    if len(known) < LEAST_SAMPLES or known.mean() <= 0:
        return None
    return float(np.sqrt(np.mean(np.diff(known) ** 2) / 2) / known.mean())


# ---------------------------------------------------------------------------------------------------------- the links


def _over_links(exam: Examination, mask: BoolArray, wait: float) -> dict[Quantity, float | None]:
    copies = [
        float(known.mean())
        for device in exam.devices
        if (values := copied(device)) is not None and len(known := _known(values, mask & device.life))
    ]
    to_gpu = float(np.mean(copies)) if copies else None
    between = peak(exam, exchanged(exam), mask)
    alike = _mean(both_ways(exam), mask)
    if exam.facts.nodes > 1:  # what crosses the host link may be on its way to the network
        alike = None
    linked = _mean(links(exam), mask)
    return {
        Quantity.COPIED: to_gpu,
        Quantity.COPY_SPEED: None if to_gpu is None else to_gpu / wait,
        Quantity.STAGED_SPEED: None if alike is None else alike / wait,
        Quantity.NVLINK_SPEED: None if linked is None else linked / wait,
        Quantity.NVLINKED: float(any(word in (exam.facts.gpu_product or "") for word in NVLINKED) or bool(linked)),
        Quantity.EXCHANGE_SPEED: None if between is None else between / wait,
    }


# ----------------------------------------------------------------------------------------------------------- the CPUs


def _of_cpus(exam: Examination, mask: BoolArray) -> dict[Quantity, float | None]:
    """Of the pod whose CPUs are busiest for each GPU."""
    busiest = _busiest(exam, mask)
    if busiest is None:
        return {}
    pod, known = busiest
    busy, pace = _variation(known), _pace_variation(exam, mask)
    held = [
        means(exam, flows(exam, signal), mask).get(pod.name)
        for signal in (PodSignal.CPU_THROTTLED, PodSignal.CPU_PRESSURE)
    ]
    return {
        Quantity.CORES: float(known.mean()) / max(pod.gpus, 1),
        Quantity.LOAD: _load(float(known.mean()), pod),
        Quantity.CPU_STEADINESS: None if busy is None or not pace else busy / pace,
        Quantity.HELD_UP: max((one / 100 for one in held if one is not None), default=None),
    }


def _busiest(exam: Examination, mask: BoolArray) -> tuple[PodFacts, FloatArray] | None:
    """The pod that keeps most cores busy for each GPU, and its samples; None without samples."""
    pods = {pod.name: pod for pod in exam.pods}
    found = [
        (pods[name], known)
        for name, values in flows(exam, PodSignal.CPU)
        if name in pods and len(known := _known(values, mask & exam.lives.get(name, mask)))
    ]
    return max(found, key=lambda pair: float(pair[1].mean()) / max(pair[0].gpus, 1), default=None)


def _load(cores: float, pod: PodFacts) -> float | None:
    """Busy cores as a share of the limit, or, beside one for each GPU's process, of what is left for loading. Without
    a limit, what a pod requested is what a full node leaves it, if it has just that; None where nothing is known.
    """
    if pod.cpu_limit is None:
        requested = pod.cpu_request or 0.0
        just = SATURATED_SHARE * requested <= cores <= requested / SATURATED_SHARE
        return min(cores / requested, 1.0) if requested and just else None
    whole = cores / pod.cpu_limit
    left = pod.cpu_limit - pod.gpus
    return max(whole, (cores - pod.gpus) / left) if left >= pod.gpus else whole


# ------------------------------------------------------------------------------------------- storage and the network


def _of_storage(exam: Examination, mask: BoolArray) -> dict[Quantity, float | None]:
    incoming, outgoing = peak(exam, received(exam), mask), peak(exam, sent(exam), mask)
    if incoming is not None and incoming < ANSWERS * (outgoing or 0.0):
        incoming = 0.0
    pressure = peak(exam, flows(exam, PodSignal.IO_PRESSURE), mask)
    work = progress(exam)
    follows = pauses = None
    if incoming:
        follows = float(any(tied(work, values, mask) for _, values in received(exam)))
        if not follows and _even(exam, mask):
            follows = None
        pauses = float(any(tied(100.0 - work, values, mask) for _, values in received(exam)))
    return {
        Quantity.RECEIVED_IN_PAUSES: pauses,
        Quantity.RECEIVED: incoming,
        Quantity.FOLLOWS: follows,
        Quantity.READ: peak(exam, flows(exam, PodSignal.DISK_READ), mask),
        Quantity.IO_PRESSURE: None if pressure is None else pressure / 100,
    }


def _even(exam: Examination, mask: BoolArray) -> bool:
    """The pace hardly varies, so that nothing could follow it."""
    pace = _pace_variation(exam, mask)
    return pace is not None and pace < LEAST_VARIATION


def _written(exam: Examination, mask: BoolArray) -> dict[Quantity, float | None]:
    """Of the pod that writes or sends most all the time."""
    incoming = peak(exam, received(exam), mask) or 0.0
    steady: tuple[float, str, FloatArray] | None = None
    for pod, values in _leaving(exam, incoming, mask):
        known = _known(values, mask & exam.lives.get(pod, mask))
        if len(known) and (steady is None or float(np.median(known)) > steady[0]):
            steady = float(np.median(known)), pod, values
    if steady is None:
        return {}
    speed, pod, values = steady
    speed = speed if speed >= ANSWERS * incoming else 0.0
    from_gpu = returned(exam, mask, pod)
    return {
        Quantity.WRITTEN: speed,
        Quantity.WRITTEN_FOLLOWS: float(tied(100.0 - progress(exam), values, mask)),
        Quantity.WRITTEN_FROM_GPUS: None if from_gpu is None or not speed else from_gpu / speed,
    }


def _leaving(exam: Examination, incoming: float, mask: BoolArray) -> list[Flow]:
    """What pods send, and what they write that is not data on its way in."""
    written = [
        (pod, values)
        for pod, values in flows(exam, PodSignal.DISK_WRITE)
        if not (len(known := _known(values, mask)) and incoming >= STAGED * float(known.mean()) > 0)
    ]
    return [*sent(exam), *written]


# ---------------------------------------------------------------------------------------------------------- in words


def words(exam: Examination, mask: BoolArray, observed: Observation, category: Category) -> str:
    """What was measured of a cause, as a clause; empty where nothing was."""
    wait = observed[Quantity.WAIT]

    def measured(quantity: Quantity, text: str, by: float = 1.0) -> str:
        return f"{rate(observed[quantity] * by)} {text}" if quantity in observed else ""

    if category is Category.DATA_PREPROCESSING:
        return _cpu_words(exam, mask, observed)
    if category is Category.REMOTE_DATA_READ:
        notable = observed.get(Quantity.RECEIVED, 0.0) >= LEAST_RECEIVED
        return _read_words(
            observed, measured(Quantity.RECEIVED, "received") if notable else _cpu_words(exam, mask, observed)
        )
    if category is Category.INEFFICIENT_HOST_GPU_TRANSFER:
        return measured(Quantity.COPIED, "copied to each GPU")
    if category is Category.INSUFFICIENT_GPU_MEMORY:
        return measured(Quantity.STAGED_SPEED, "from each GPU to the host and back", wait)
    if category is Category.DATA_EXCHANGE:
        if Quantity.EXCHANGE_SPEED in observed:
            return measured(Quantity.EXCHANGE_SPEED, "both sent and received by each pod", wait)
        if observed.get(Quantity.NVLINK_SPEED, 0.0) > observed.get(Quantity.STAGED_SPEED, 0.0):
            return measured(Quantity.NVLINK_SPEED, "a GPU over NVLink", wait)
        return measured(Quantity.STAGED_SPEED, "a GPU over PCIe in both directions", wait)
    if category in (Category.MODEL_CHECKPOINTING, Category.INTERMEDIATE_RESULT_UPLOAD):
        written = measured(Quantity.WRITTEN, "written or sent all the time")
        share = observed.get(Quantity.WRITTEN_FROM_GPUS)
        if category is Category.MODEL_CHECKPOINTING and share is not None:
            return f"{written}, {rate(share * observed[Quantity.WRITTEN])} from the GPUs"
        return written
    return ""


def _cpu_words(exam: Examination, mask: BoolArray, observed: Observation) -> str:
    busiest = _busiest(exam, mask)
    if busiest is None:
        return ""
    pod, known = busiest
    of = "" if pod.cpu_limit is None else f" of {pod.cpu_limit:g}"
    said = f"{known.mean():.1f}{of} CPU cores busy"
    held = observed.get(Quantity.HELD_UP, 0.0)
    return f"{said}, held up in {percent(100 * held)} of the time" if held >= HELD_UP else said


def _read_words(observed: Observation, received_words: str) -> str:
    said = [received_words] if received_words else []
    if observed.get(Quantity.FOLLOWS):
        said.append("GPU use rises with it")
    pressed = observed.get(Quantity.IO_PRESSURE, 0.0)
    if pressed >= PRESSED:
        said.append(f"a task waits for storage {percent(100 * pressed)} of the time")
    return ", and ".join(said)


def _mean(rows: list[FloatArray], mask: BoolArray) -> float | None:
    known = _known(mean_of(np.array(rows)), mask) if rows else np.empty(0)
    return float(known.mean()) if len(known) else None


def _known(values: FloatArray, mask: BoolArray) -> FloatArray:
    return values[mask & np.isfinite(values)]
