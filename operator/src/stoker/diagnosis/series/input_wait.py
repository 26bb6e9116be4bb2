"""Why GPUs that are at work get too little to do: one judgement for all rules on a low level.

Between its drops a job trains at a level. Where that is low, the GPUs wait for the CPUs, for data from elsewhere, for
copies over the host link or for one another, or they are simply given too little at a time. `observation.py` measures
what each of these would show, `mechanisms.py` weighs it; a cause is named where its share leaves no other one standing.
"""

from dataclasses import dataclass, field

import numpy as np

from stoker.diagnosis.series.effort import LEAST_USUAL_PERCENT, usual_height, working
from stoker.diagnosis.series.examination import Device, Examination, once
from stoker.diagnosis.series.interruption import interrupted
from stoker.diagnosis.series.mechanisms import LEVEL, LIKELY, NAMED, confidence, decide, weigh
from stoker.diagnosis.series.observation import observe, words
from stoker.diagnosis.series.traffic import exchanged, peak
from stoker.findings.finding import WeighedCause
from stoker.findings.vocabulary import Category, Confidence, Framework, JobType
from stoker.findings.wording import percent, rate
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import GpuSignal

LOW_PERCENT = 50.0
"""The study's bound of low use (ICSE 2024, section 3.2); its definitions of batch size and memory have it, too."""
STARVED_PERCENT = 70.0
"""Up to here a cause is named if it is likely, though the level is not low: it costs a third of the GPUs' time."""
LEAST_SECONDS = 900.0
"""Fifteen minutes at the level: compilation, autotuning and warm-up are over."""
WARM_UP_SECONDS = 300.0
"""Left out at the start of a longer stage."""
DRAM_PERCENT = 50.0
"""Device memory busy for half of the time is what limits a kernel, whoever feeds it."""
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
"""Percent of the time with busy device memory, where SMs are not sampled."""
RESERVED_PERCENT = 50.0
"""Percent of memory over which TensorFlow and JAX may have reserved it whether they need it or not."""
MOST_BATCH_MEMORY_PERCENT = 50.0
"""Percent of memory up to which the batch may grow (ICSE 2024, section 4.2: improper batch size)."""
FULL_MEMORY_PERCENT = 80.0
"""Percent of memory, at its peak, over which it is full (ICSE 2024, section 4.2)."""
SAVING = (Category.MODEL_CHECKPOINTING, Category.INTERMEDIATE_RESULT_UPLOAD)
"""What one rank may do alone while the others wait for it."""


@dataclass(frozen=True, kw_only=True)
class InputWait:
    """A low level and its cause.

    mask: the steps at that level, stage: these with the warm-up. level: the GPUs' mean use there, peak: the largest
    share of memory in use, in percent (None where unknown). category: None where it is open. weighed: every
    cause that was weighed, the most likely first.
    """

    mask: BoolArray = field(compare=False)
    stage: BoolArray = field(compare=False)
    level: float
    peak: float | None
    category: Category | None
    confidence: Confidence
    weighed: tuple[WeighedCause, ...]
    alternatives: tuple[Category, ...] = ()


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
    observed = observe(exam, mask, level, None)
    shares = weigh([one for one in LEVEL if one.category in SAVING], observed)
    category, share = next(iter(shares.items()))
    if share < LIKELY:
        return None
    said = f"{words(exam, mask, observed, category)}; {exam.names([device])} at {percent(level)}"
    return InputWait(
        mask=mask,
        stage=stage,
        level=level,
        peak=None,
        category=category,
        confidence=Confidence.LIKELY,
        weighed=(WeighedCause(category=category, share=share, evidence=f"{said}, the others spin meanwhile"),),
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
    elif tensor is not None and dram is not None and _tensor_tells(exam):
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
        weighed=(WeighedCause(category=Category.DATA_EXCHANGE, share=LIKELY, evidence=said),),
    )


def _tensor_tells(exam: Examination) -> bool:
    """Some GPU's tensor cores have worked: in single precision they never do, and their rest is no wait."""
    usual = (usual_height(device.signal(GpuSignal.TENSOR)) for device in exam.devices)
    return max(usual, default=0.0) >= LEAST_USUAL_PERCENT


def _warm(stage: BoolArray, step: float) -> BoolArray:
    """A stage without its warm-up, where it is long enough to have more than that."""
    begun = np.flatnonzero(stage)
    if len(begun) * step < LEAST_SECONDS + WARM_UP_SECONDS:
        return stage
    mask = stage.copy()
    mask[begun[0] : begun[0] + int(WARM_UP_SECONDS / step)] = False
    return mask


def _decide(exam: Examination, stage: BoolArray, mask: BoolArray, level: float, peak_memory: float | None) -> InputWait:
    observed = observe(exam, mask, level, None if _reserved(exam, peak_memory) else peak_memory)
    shares = weigh(LEVEL, observed, _excluded(exam, level, peak_memory))
    low = level <= LOW_PERCENT and exam.is_low
    category, share, standing = decide(shares, NAMED if low else LIKELY)
    return InputWait(
        mask=mask,
        stage=stage,
        level=level,
        peak=peak_memory,
        category=category,
        confidence=confidence(category, share, low=low or category is not Category.DATA_PREPROCESSING),
        weighed=tuple(
            WeighedCause(category=one, share=share, evidence=words(exam, mask, observed, one))
            for one, share in shares.items()
        ),
        alternatives=standing if low else (),
    )


def _reserved(exam: Examination, peak_memory: float | None) -> bool:
    """The framework has reserved memory that it may not need, so that its use says nothing."""
    reserves = exam.facts.framework in (Framework.TENSORFLOW, Framework.JAX)
    return reserves and peak_memory is not None and peak_memory > RESERVED_PERCENT


def _excluded(exam: Examination, level: float, peak_memory: float | None) -> frozenset[Category]:
    """The causes that the job cannot have, or that the study's definitions rule out."""
    found: set[Category] = set()
    if exam.facts.gpus < 2:
        found.add(Category.DATA_EXCHANGE)
    known = None if _reserved(exam, peak_memory) else peak_memory
    low = level <= LOW_PERCENT and exam.is_low
    if not low or known is None or known <= FULL_MEMORY_PERCENT:
        found.add(Category.INSUFFICIENT_GPU_MEMORY)
    if not low or (known is not None and known > MOST_BATCH_MEMORY_PERCENT):
        found.add(Category.IMPROPER_BATCH_SIZE)
    return frozenset(found)
