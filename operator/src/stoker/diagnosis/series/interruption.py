"""What interrupts a job's GPUs: their drops, and what its pods do meanwhile.

One judgement for all rules on drops, so that no two of them name the same time. Each kind of interruption leaves traces
of its own: a saved model goes from the GPU to the host and out at equal size, a result is small or irregular and did
not come from the GPU, data that is waited for comes in, data that is made keeps the CPUs at their limit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stoker.diagnosis.series.coincidence import UNLIKELY, Coincidence, amounts_over, coincidence, tied
from stoker.diagnosis.series.drops import Drops, drops, variation
from stoker.diagnosis.series.effort import effort, mean_of, progress, working
from stoker.diagnosis.series.examination import SATURATED_SHARE, Device, Examination, once
from stoker.diagnosis.series.mechanisms import DROPS, Quantity, confidence, decide, weigh
from stoker.diagnosis.series.percentiles import percentile
from stoker.diagnosis.series.traffic import (
    Flow,
    both_ways,
    exchanged,
    flows,
    links,
    received,
    returned,
    sent,
    usually_sent,
)
from stoker.findings.finding import WeighedCause
from stoker.findings.vocabulary import Category, Confidence, JobType
from stoker.findings.wording import count, minutes, percent, rate, size
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal, MarkKind, PodSignal

LOST_SHARE = 0.10
"""Of the GPUs' time in the active stage. Under a tenth the best fix returns less than what a run varies by, and a
validation of some seconds each epoch, which is no fault, stays below.
"""
BURST_BYTES = 20e3
"""bytes/s over the level outside the drops from which traffic counts as a burst. Chosen because requests of 4 kB, one
after the other, at 200 ms each are as slow as that; heartbeats and logs that do not hold a program up stay below.
"""
BURST_RISE = 0.5
"""And half as much again as between the drops: what flows all the time wavers."""
STAGED = 0.5
"""What is written is data staged on its way in, if half as much or more has been received."""
MATCHING = 0.3
"""What left the GPUs makes up so much of what is written, at least, if it is that."""
LINK_BYTES = 100e6
"""bytes/s a GPU over its links beyond the level outside."""
HITS = 0.8
"""The share of the drops' time in which the burst is seen: of short ones a scrape misses some."""
MIB = 2.0**20
"""Bytes."""
LEAST_INNER_STEPS = 6
"""Steps of drops without their first and last, from which their level is taken."""
CORES_A_GPU = 2.0
"""More CPU within the drops than outside of them, by so many cores a GPU, is work on data."""
THROTTLED_PERCENT = 10.0
"""Of the CFS periods: the CPU limit holds the pod up."""
LOWEST_PERCENTILE = 10.0
"""Of a pod's traffic: its own level, where most steps share in a drop."""
MARKED = 0.5
"""The share of the drops that a log line must name, to decide: not each step may print one."""
MARKS = {
    Category.MODEL_CHECKPOINTING: MarkKind.CHECKPOINT,
    Category.INTERMEDIATE_RESULT_UPLOAD: MarkKind.UPLOAD,
}
"""The lines of logs that name a cause of drops."""


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """The drops of a job and what they are for.

    category: None where it is open. devices: those that fall; the others spin in a collective until they are back.
    evidence: what the pods do meanwhile, as a clause. weighed: every cause that was weighed, the most likely first.
    carried: bytes that each drop moves, the middle one; None where that isn't what it is for.
    """

    category: Category | None
    drops: Drops
    devices: tuple[Device, ...]
    confidence: Confidence
    evidence: str
    weighed: tuple[WeighedCause, ...] = ()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What drops leave in the series: quantities for the mechanisms, words by cause, and the burst that is written."""

    observed: dict[Quantity, float]
    words: dict[Category, str]
    written: Burst | None


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
    return judged if found[0].clear or judged.category is not None else None


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
    """What the drops are for: what the log says, else the cause whose traces they leave."""
    traces = _traces(exam, found, alone=len(devices) < len(working(exam)))
    undecided = Interruption(
        category=None,
        drops=found,
        devices=devices,
        confidence=Confidence.POSSIBLE,
        evidence="no signal shows the reason",
    )
    written = traces.written
    for category in MARKS:
        mark = _marked(exam, category, found)
        if mark is not None:
            return replace(
                undecided,
                category=category,
                confidence=Confidence.CERTAIN,
                evidence=f'the log says "{mark}"' + ("" if written is None else f"; {written.words}"),
                carried=None if written is None else written.fit.amount,
                mark=mark,
            )
    shares = weigh(DROPS, traces.observed, frozenset() if exam.facts.gpus > 1 else frozenset({Category.DATA_EXCHANGE}))
    chosen, share, standing = decide(shares)
    named = (chosen,) if chosen is not None else standing
    words = dict.fromkeys(traces.words[category] for category in named if traces.words.get(category))
    saves = chosen is Category.MODEL_CHECKPOINTING
    return replace(
        undecided,
        category=chosen,
        confidence=confidence(chosen, share, low=exam.is_low or (found.clear and chosen is Category.DATA_EXCHANGE)),
        evidence="; ".join(words) or undecided.evidence,
        weighed=tuple(
            WeighedCause(category=category, share=share, evidence=traces.words.get(category, ""))
            for category, share in shares.items()
        ),
        alternatives=standing,
        carried=_carried(traces) if saves or chosen is Category.INTERMEDIATE_RESULT_UPLOAD else None,
    )


def _carried(traces: Traces) -> float | None:
    """Bytes of one save or upload: what is written, or else what leaves the GPUs."""
    return traces.observed.get(Quantity.FROM_GPUS) if traces.written is None else traces.written.fit.amount


def _traces(exam: Examination, found: Drops, *, alone: bool) -> Traces:
    """What happens within the drops and not between them."""
    out = [("sent", [*sent(exam)]), ("written", [*flows(exam, PodSignal.DISK_WRITE)])]
    written = _strongest(exam, out, found)
    read = _strongest(exam, [("received", received(exam))], found)
    if read is not None and written is not None:  # an answer to what is sent, or data on its way to the disk
        if read.fit.amount < STAGED * written.fit.amount:
            read = None
        else:
            written = None
    if written is None and read is None:
        written = _spread_most(exam, out, found)
    over_links, cpu = _links(exam, found), _cpu(exam, found)
    seen: dict[Quantity, tuple[bool, bool]] = {
        Quantity.WRITES: (written is not None, _any(sent(exam)) or _any(flows(exam, PodSignal.DISK_WRITE))),
        Quantity.RECEIVES: (read is not None, _any(received(exam))),
        Quantity.LINKED: (over_links is not None, bool(links(exam) or both_ways(exam) or _any(exchanged(exam)))),
        Quantity.PROCESSES: (cpu is not None, _any(flows(exam, PodSignal.CPU))),
        Quantity.ALL_DROP: (not alone, True),
    }
    observed = {quantity: float(there) for quantity, (there, sampled) in seen.items() if sampled}
    observed |= {Quantity.GAP_VARIATION: found.gap_variation, Quantity.DROP_VARIATION: found.size_variation}
    left = _left(exam, found)
    if left is not None:
        observed[Quantity.LEFT] = left
    words = {Category.DATA_EXCHANGE: over_links or "", Category.DATA_PREPROCESSING: cpu or ""}
    if read is not None:
        words[Category.REMOTE_DATA_READ] = read.words
    from_gpu = _from_gpu(exam, found, *(() if written is None else (written.pod, written.fit.rising)))
    if from_gpu is not None:
        observed[Quantity.FROM_GPUS] = from_gpu
        words[Category.MODEL_CHECKPOINTING] = f"{size(from_gpu)} from the GPUs for each"
    if written is not None:
        fit = written.fit
        observed |= {Quantity.BURST: fit.amount, Quantity.BURST_VARIATION: fit.amount_variation}
        in_use = _most_memory(exam)
        if in_use:
            observed[Quantity.BURST_OF_MEMORY] = fit.amount / in_use
        said = f"{written.words}, {size(fit.amount)} each"
        words[Category.INTERMEDIATE_RESULT_UPLOAD] = words[Category.MODEL_CHECKPOINTING] = said
        share = None if from_gpu is None else from_gpu / max(fit.amount, 1.0)
        if share is not None and (share >= MATCHING or _would_show(exam, found, written)):
            observed[Quantity.BURST_FROM_GPUS] = share
        if from_gpu is not None and share is not None and share >= MATCHING:
            words[Category.MODEL_CHECKPOINTING] = f"{said}, {size(from_gpu)} from the GPUs for it"
    return Traces(observed=observed, words=words, written=written)


def _left(exam: Examination, found: Drops) -> float | None:
    """The work that goes on within the drops, as a share of the level; None where they are too short to tell."""
    inner = np.zeros(len(found.low), dtype=np.bool_)
    for first, last in found.spans:
        inner[first + 1 : last - 1] = True
    known = progress(exam)[inner & found.low]
    known = known[np.isfinite(known)]
    return float(np.median(known)) / found.level if len(known) >= LEAST_INNER_STEPS else None


def _most_memory(exam: Examination) -> float | None:
    """Bytes that the fullest GPU has in use at its peak; None without samples."""
    known = [held[np.isfinite(held)] for device in exam.devices if len(held := device.memory_mib[exam.active])]
    return max((float(held.max()) * MIB for held in known if len(held)), default=None)


def _any(found: Iterable[Flow]) -> bool:
    """Some pod has samples."""
    return any(np.isfinite(values).any() for _, values in found)


def _strongest(exam: Examination, sources: Sequence[tuple[str, Iterable[Flow]]], found: Drops) -> Burst | None:
    """The flow that rises most within the drops, where it does so in most of them and not by chance."""
    fitting = [
        Burst(word=word, pod=pod, fit=fit)
        for word, source in sources
        for pod, values in source
        if (fit := _rising(exam, values, found)) is not None
    ]
    return max(fitting, key=lambda one: one.fit.amount, default=None)


def _rising(exam: Examination, values: FloatArray, found: Drops) -> Coincidence | None:
    """A flow against the drops, where it rises over the pod's own level between them."""
    between = values[exam.training & ~found.low & np.isfinite(values)]
    floor = max(BURST_BYTES, BURST_RISE * percentile(between, 25)) if len(between) else BURST_BYTES
    fit = coincidence(values, found.pattern, floor=floor)
    return fit if fit is not None and _fits(fit, floor) else None


def _spread_most(exam: Examination, sources: Sequence[tuple[str, Iterable[Flow]]], found: Drops) -> Burst | None:
    """The same where drops are a few steps apart and leave no step without them: what rises and falls with the loss."""
    loss = 100.0 - progress(exam)
    fitting = [
        Burst(word=word, pod=pod, fit=fit)
        for word, source in sources
        for pod, values in source
        if tied(loss, values, exam.training) and (fit := _spread(exam, values, found)) is not None
    ]
    return max(fitting, key=lambda one: one.fit.amount, default=None)


def _spread(exam: Examination, values: FloatArray, found: Drops) -> Coincidence | None:
    """A flow with the bytes from the start of each drop to that of the next one, over the pod's lowest level."""
    fit = coincidence(values, found.pattern, floor=BURST_BYTES)
    known = values[exam.training & np.isfinite(values)]
    level = percentile(known, LOWEST_PERCENTILE)
    starts, _ = found.pattern.edges
    amounts = amounts_over(values, level, starts[:-1], starts[1:], exam.step)
    amount = float(np.median(amounts))
    if fit is None or amount <= BURST_BYTES * found.length:
        return None
    return replace(fit, outside=level, amount=amount, amount_variation=variation(amounts))


def _fits(fit: Coincidence, floor: float) -> bool:
    return fit.hits >= HITS and fit.excess >= floor and fit.chance <= UNLIKELY


def _from_gpu(exam: Examination, found: Drops, pod: str | None = None, number: int | None = None) -> float | None:
    """Bytes that the GPUs of a pod, or of all, send to the host for each drop, or for each of so many; None without
    samples. They leave in it or in the steps that it shares; what goes there as it does between the drops is none.
    """
    near = _near(found.low) & exam.training
    speed = returned(exam, near, pod, usual_in=_between(exam, found))
    return None if speed is None else speed * float(near.sum()) * exam.step / max(number or found.count, 1)


def _between(exam: Examination, found: Drops) -> BoolArray:
    """The steps between the drops that share in none; where there is none, all between them."""
    between = exam.training & ~_near(found.low)
    return between if between.any() else exam.training & ~found.low


def _would_show(exam: Examination, found: Drops, burst: Burst) -> bool:
    """What is written would stand out in the GPUs' own traffic to the host, had it just come from there."""
    near = _near(found.low) & exam.training
    own = usually_sent(exam, near, burst.pod, _between(exam, found)) * float(near.sum()) * exam.step
    return burst.fit.amount * burst.fit.rising >= own


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
        fit = coincidence(mean_of(np.array(rows)), found.pattern, floor=LINK_BYTES)
        if fit is not None and fit.lag == 0 and _fits(fit, LINK_BYTES):  # one exporter samples both
            return Burst(word=f"a GPU {word}", pod="", fit=fit).words
    return None


def _cpu(exam: Examination, found: Drops) -> str | None:
    """How the CPUs are at their limit within the drops, in words."""
    pods = {pod.name: pod for pod in exam.pods}
    throttled = dict(flows(exam, PodSignal.CPU_THROTTLED))
    for name, values in flows(exam, PodSignal.CPU):
        pod = pods[name]
        fit = coincidence(values, found.pattern, floor=0.5)
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


def _marked(exam: Examination, category: Category, found: Drops) -> str | None:
    """A log line that names the drops, where enough of them have one."""
    times = [(float(mark.time.timestamp()), mark.text) for mark in exam.series.marks if mark.kind is MARKS[category]]
    if not times:
        return None
    places = np.searchsorted(exam.series.times, [time for time, _ in times])
    hit = [bool(((places >= first - 1) & (places <= last)).any()) for first, last in found.spans]
    return times[-1][1] if np.mean(hit) >= MARKED else None
