"""What interrupts a job's GPUs: their drops, and what its pods do meanwhile.

One judgement for all rules on drops, so that no two of them name the same time. Each kind of interruption leaves traces
of its own: a saved model goes from the GPU to the host and out at equal size, a result is small or irregular and did
not come from the GPU, data that is waited for comes in, data that is made keeps the CPUs at their limit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from stoker.diagnosis.series.coincidence import UNLIKELY, Coincidence, coincidence
from stoker.diagnosis.series.drops import EQUAL_SIZES, Drops, drops
from stoker.diagnosis.series.effort import effort, mean_of, progress, working
from stoker.diagnosis.series.examination import SATURATED_SHARE, Device, Examination, once
from stoker.diagnosis.series.traffic import Flow, both_ways, exchanged, flows, links, received, returned, sent
from stoker.findings.vocabulary import Category, Confidence, JobType
from stoker.findings.wording import count, minutes, percent, rate, size
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, MarkKind, PodSignal

LOST_SHARE = 0.10
"""Of the GPUs' time in the active stage. Under a tenth the best fix returns less than what a run varies by, and a
validation of some seconds each epoch, which is no fault, stays below.
"""
BURST_BYTES = 500e3
"""bytes/s over the level outside the drops from which traffic counts as a burst."""
LEAST_CARRIED_BYTES = 5e6
"""bytes/s over the level outside, and bytes in a drop: metrics, logs and heartbeats stay below."""
STAGED = 0.5
"""What is written is data staged on its way in, if half as much or more has been received."""
LINK_BYTES = 100e6
"""bytes/s a GPU over its links beyond the level outside."""
HITS = 0.8
"""The share of the drops' time in which the burst is seen: of short ones a scrape misses some."""
MODEL_BYTES = 100e6
"""A checkpoint of a model worth a GPU is not smaller: 25 million parameters in fp32, without an optimizer's state."""
MATCHING = (0.3, 3.0)
"""Between which ratios what left the GPUs matches what was written: optimizer state may live on the host, a copy may
be written twice, and one scrape may miss a part.
"""
CORES_A_GPU = 2.0
"""More CPU within the drops than outside of them, by so many cores a GPU, is work on data."""
THROTTLED_PERCENT = 10.0
"""Of the CFS periods: the CPU limit holds the pod up."""
MARKED = 0.5
"""The share of the drops that a log line must name, to decide: not each step may print one."""


class InterruptionKind(StrEnum):
    """What an interruption is for."""

    CHECKPOINT = "checkpoint"
    UPLOAD = "upload"
    READ = "read"
    PREPROCESSING = "preprocessing"
    EXCHANGE = "exchange"
    UNDECIDED = "undecided"


CATEGORIES = {
    InterruptionKind.CHECKPOINT: Category.MODEL_CHECKPOINTING,
    InterruptionKind.UPLOAD: Category.INTERMEDIATE_RESULT_UPLOAD,
    InterruptionKind.READ: Category.REMOTE_DATA_READ,
    InterruptionKind.PREPROCESSING: Category.DATA_PREPROCESSING,
    InterruptionKind.EXCHANGE: Category.DATA_EXCHANGE,
}
MARKS = {InterruptionKind.CHECKPOINT: MarkKind.CHECKPOINT, InterruptionKind.UPLOAD: MarkKind.UPLOAD}


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """The drops of a job and what they are for.

    devices: those that fall; the others spin in a collective until they are back. evidence: what the pods do meanwhile,
    as a clause. carried: bytes that each drop moves, the middle one; None where that isn't what it is for.
    """

    kind: InterruptionKind
    drops: Drops
    devices: tuple[Device, ...]
    confidence: Confidence
    evidence: str
    alternatives: tuple[Category, ...] = ()
    carried: float | None = None
    mark: str | None = None
    """The log line that says so."""

    @property
    def pattern(self) -> str:
        """`20 drops from 92 % to 0 %, each 3 min`."""
        found = self.drops
        rhythm = f"each {minutes(found.period)}" if found.regular else f"{minutes(found.period)} apart, irregular"
        return f"{count(found.count, 'drop')} from {percent(found.level)} to {percent(found.floor)}, {rhythm}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """A flow of a pod that rises within the drops, and what it does there (`sent`)."""

    word: str
    pod: str
    fit: Coincidence

    @property
    def words(self) -> str:
        """As a clause."""
        return f"meanwhile {rate(self.fit.inside)} {self.word} ({rate(self.fit.outside)} otherwise)"


@once
def interruption(exam: Examination) -> Interruption | None:
    """What interrupts the job's GPUs for a tenth of their active time or more; None where nothing does."""
    if exam.facts.job_type is not JobType.TRAINING or not exam.whole_gpus or not exam.sampled(exam.active):
        return None
    found = _drops(exam)
    if found is None or found[0].share < LOST_SHARE:
        return None
    judged = _judge(exam, *found)
    # What may be the level's own noise is a pattern only if something else has the same.
    return judged if found[0].clear or judged.kind is not InterruptionKind.UNDECIDED else None


def interrupted(exam: Examination) -> BoolArray:
    """The steps that belong to a drop, and their neighbours, which a drop may share."""
    found = interruption(exam)
    return _near(np.zeros(len(exam.series.times), dtype=np.bool_) if found is None else found.drops.low)


def _near(low: BoolArray) -> BoolArray:
    """The steps, and their neighbours."""
    wide = low.copy()
    wide[1:] |= low[:-1]
    wide[:-1] |= low[1:]
    return wide


def _drops(exam: Examination) -> tuple[Drops, tuple[Device, ...]] | None:
    """The drops of all GPUs together; or of those that others wait for, spinning."""
    rows = working(exam)
    if not rows:
        return None
    averaged = all(exam.devices[row].signal(GpuSignal.GRAPHICS) is not None for row in rows)
    mask = exam.training
    together = drops(progress(exam), mask, exam.step, averaged=averaged)
    if together is not None and together.share >= LOST_SHARE:
        falling = tuple(exam.devices[row] for row in rows if _falls(exam.use[row], together))
        return together, falling or tuple(exam.devices[row] for row in rows)
    if len(rows) < 2:
        return None
    alone = [
        (found, exam.devices[row])
        for row in rows
        if (found := drops(effort(exam)[row], mask, exam.step, averaged=averaged)) is not None
    ]
    if not alone:
        return None
    most = max(alone, key=lambda pair: pair[0].share)[0]
    return most, tuple(device for found, device in alone if found.share >= LOST_SHARE)


def _falls(use: FloatArray, found: Drops) -> bool:
    """This GPU's own use falls with the drops; it doesn't where it spins."""
    inside, outside = use[found.low], use[~found.low & np.isfinite(use)]
    known = inside[np.isfinite(inside)]
    return bool(len(known) and len(outside) and known.mean() < np.median(outside) - 20)


def _judge(exam: Examination, found: Drops, devices: tuple[Device, ...]) -> Interruption:
    """What the drops are for: what the log says, else the traces that they leave."""
    written = _strongest(exam, [("sent", sent(exam)), ("written", flows(exam, PodSignal.DISK_WRITE))], found)
    undecided = Interruption(
        kind=InterruptionKind.UNDECIDED,
        drops=found,
        devices=devices,
        confidence=Confidence.POSSIBLE,
        evidence="no signal shows the reason",
    )
    for kind in MARKS:
        mark = _marked(exam, kind, found)
        if mark is not None:
            return replace(
                undecided,
                kind=kind,
                confidence=Confidence.CERTAIN,
                evidence=f'the log says "{mark}"' + ("" if written is None else f"; {written.words}"),
                carried=None if written is None else written.fit.amount,
                mark=mark,
            )
    decided = replace(undecided, confidence=Confidence.LIKELY)
    read = _strongest(exam, [("received", received(exam))], found)
    if read is not None and (written is None or read.fit.amount >= STAGED * written.fit.amount):
        return replace(decided, kind=InterruptionKind.READ, evidence=read.words)
    if written is not None:
        return _judge_written(exam, undecided, written)
    links = _links(exam, found)
    if links is not None and len(devices) == len(working(exam)) > 1:
        return replace(decided, kind=InterruptionKind.EXCHANGE, evidence=links)
    cpu = _cpu(exam, found)
    if cpu is not None:
        return replace(decided, kind=InterruptionKind.PREPROCESSING, evidence=cpu)
    from_gpu = _from_gpu(exam, found)
    if from_gpu is not None and from_gpu >= MODEL_BYTES and found.regular and found.equal:
        return replace(
            undecided,
            kind=InterruptionKind.CHECKPOINT,
            evidence=f"{size(from_gpu)} from the GPUs for each",
            carried=from_gpu,
            alternatives=(Category.INTERMEDIATE_RESULT_UPLOAD,),
        )
    return undecided


def _judge_written(exam: Examination, undecided: Interruption, burst: Burst) -> Interruption:
    """A saved model or a result: a model is large, of equal size, and has left the GPUs just before."""
    found, fit = undecided.drops, burst.fit
    from_gpu = _from_gpu(exam, found, burst.pod, fit.rising)
    evidence = f"{burst.words}, {size(fit.amount)} each"
    matches = from_gpu is not None and MATCHING[0] <= from_gpu / max(fit.amount, 1.0) <= MATCHING[1]
    if from_gpu is not None and matches:
        evidence += f", {size(from_gpu)} from the GPUs for it"
    judged = replace(undecided, evidence=evidence, carried=fit.amount)
    large = fit.amount >= MODEL_BYTES
    alike = found.regular and (fit.amount_variation <= EQUAL_SIZES or found.equal)
    if large and (matches or alike):
        # Alike, though the GPUs' traffic was sampled and doesn't match: a state that lives on the host may not show.
        other = () if matches or from_gpu is None else (Category.INTERMEDIATE_RESULT_UPLOAD,)
        return replace(judged, kind=InterruptionKind.CHECKPOINT, confidence=Confidence.LIKELY, alternatives=other)
    sure = not large or from_gpu is not None
    return replace(
        judged,
        kind=InterruptionKind.UPLOAD,
        confidence=Confidence.LIKELY if sure else Confidence.POSSIBLE,
        alternatives=() if sure else (Category.MODEL_CHECKPOINTING,),
    )


def _strongest(exam: Examination, sources: Sequence[tuple[str, Iterable[Flow]]], found: Drops) -> Burst | None:
    """The flow that rises most within the drops, where it does so in most of them and not by chance."""
    seen = [
        Burst(word=word, pod=pod, fit=fit)
        for word, source in sources
        for pod, values in source
        if (fit := coincidence(values, found.spans, exam.training, exam.step, floor=BURST_BYTES)) is not None
    ]
    fitting = (one for one in seen if _fits(one.fit, BURST_BYTES) and one.fit.amount >= LEAST_CARRIED_BYTES)
    return max(fitting, key=lambda one: one.fit.amount, default=None)


def _fits(fit: Coincidence, floor: float) -> bool:
    return fit.hits >= HITS and fit.chance <= UNLIKELY and fit.excess >= floor


def _from_gpu(exam: Examination, found: Drops, pod: str | None = None, number: int | None = None) -> float | None:
    """Bytes that the GPUs of a pod, or of all, send to the host for each drop, or for each of so many; None without
    samples. They leave in it or in the steps that it shares; what goes there as it does between the drops is none.
    """
    near = _near(found.low) & exam.training
    between = exam.training & ~near
    if not between.any():
        between = exam.training & ~found.low
    speed = returned(exam, near, pod, over=between)
    return None if speed is None else speed * float(near.sum()) * exam.step / max(number or found.count, 1)


def _links(exam: Examination, found: Drops) -> str | None:
    """Which links between the ranks are busier within the drops, in words."""
    if exam.facts.gpus < 2:
        return None
    net = _strongest(exam, [("both sent and received", exchanged(exam))], found)
    if net is not None:
        return net.words
    for word, rows in (("over NVLink", links(exam)), ("over PCIe, both ways", both_ways(exam))):
        if not rows:
            continue
        fit = coincidence(mean_of(np.array(rows)), found.spans, exam.training, exam.step, floor=LINK_BYTES)
        if fit is not None and _fits(fit, LINK_BYTES):
            return Burst(word=f"a GPU {word}", pod="", fit=fit).words
    return None


def _cpu(exam: Examination, found: Drops) -> str | None:
    """How the CPUs are at their limit within the drops, in words."""
    pods = {pod.name: pod for pod in exam.pods}
    throttled = dict(flows(exam, PodSignal.CPU_THROTTLED))
    for name, values in flows(exam, PodSignal.CPU):
        pod = pods[name]
        fit = coincidence(values, found.spans, exam.training, exam.step, floor=0.5)
        if fit is None:
            continue
        held = throttled.get(name)
        known = np.empty(0) if held is None else held[found.low & np.isfinite(held)]
        held_up = len(known) > 0 and float(known.mean()) >= THROTTLED_PERCENT
        limited = pod.cpu_limit is not None and fit.inside >= SATURATED_SHARE * pod.cpu_limit
        rises = _fits(fit, CORES_A_GPU * max(pod.gpus, 1))
        if limited or held_up or rises:
            of = f" of {pod.cpu_limit:g}" if pod.cpu_limit is not None else ""
            return f"meanwhile {fit.inside:.1f}{of} CPU cores busy ({fit.outside:.1f} otherwise)"
    return None


def _marked(exam: Examination, kind: InterruptionKind, found: Drops) -> str | None:
    """A log line that names the drops, where enough of them have one."""
    wanted = MARKS.get(kind)
    times = [
        (float(mark.time.timestamp()), mark.text)
        for mark in exam.series.marks
        if wanted is not None and mark.kind is wanted
    ]
    if not times:
        return None
    places = np.searchsorted(exam.series.times, [time for time, _ in times])
    hit = [bool(((places >= first - 1) & (places <= last)).any()) for first, last in found.spans]
    return times[-1][1] if np.mean(hit) >= MARKED else None
