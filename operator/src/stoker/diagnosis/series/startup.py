"""What a job's pods do between the start of their containers and the first use of a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from stoker.diagnosis.series.examination import (
    PREPARING_CORES,
    PREPARING_RECEIVED_BYTES,
    SATURATED_SHARE,
    Claim,
    Examination,
    once,
)
from stoker.diagnosis.series.gaps import long_gaps
from stoker.findings.vocabulary import Category, Confidence, JobType, Source
from stoker.findings.wording import count, gpu_hours, interval, minutes
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, LogMark, MarkKind, PodSignal

CONTEXT_MIB = 1024.0
"""A GPU that holds more than a CUDA context takes has been given the model: the program has started."""
WORK_SECONDS = 120.0
"""Seconds of work that make the first use of a GPU."""
WORK_WITHIN_SECONDS = 300.0
"""The first use of a GPU is two busy minutes within five: a check that the devices are there is shorter."""
SMOOTHING_SECONDS = 120.0
"""An installer downloads, unpacks and compiles by turns: what it does shows over two minutes."""
SHORT_SECONDS = 120.0
"""A shorter stretch between two others belongs to what came before."""
QUIET_CORES = 0.1
"""Cores of a pod under which it waits."""
QUIET_BYTES = 500e3
"""Cores, and bytes/s received or written, a pod: below, it waits."""
STREAM_BYTES = 1e6
"""bytes/s that a download receives at least."""
STREAM_CORES = 0.3
"""Cores that the downloading program itself takes."""
STREAM_BYTES_A_CORE = 50e6
"""A download receives 1 MB/s at least, and takes little of a CPU: a third of a core for its program, and a core for
each 50 MB/s of decryption, checksums and writing.
"""
SMALL_FILES_SHARE = 0.04
"""Sent against received: acknowledgements alone take 1-2 %; to look up, open and close each of thousands of small files
takes more. Libraries are such files, data and models are not.
"""
INSTALLING_CORES = 0.2
"""Cores that an installer keeps busy at least."""
INSTALLING_BYTES = 500e3
"""bytes/s that an installer writes at least."""
FETCHED_BYTES = 100e3
"""Cores, and bytes/s written: what unpacks packages or compiles them does at least so much, and writes more than it
receives; and it has received something before.
"""
READING_BYTES = 1e6
"""bytes/s: data that is prepared is read from somewhere. Compilers that follow an installer read less."""
THROTTLED_PERCENT = 10.0
"""The CPU limit stopped the pod in a tenth of the scheduler's periods: it computes as fast as it may."""


class Doing(StrEnum):
    """What pods do before the GPUs are first used."""

    INSTALLING = "installing"
    DOWNLOADING = "downloading"
    PREPARING = "preparing data"
    UNCLEAR = "unclear work"
    WAITING = "waiting"


LOGGED = {MarkKind.INSTALL: Doing.INSTALLING, MarkKind.DOWNLOAD: Doing.DOWNLOADING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The start of one attempt of a job, steps `first` up to, not including, `last`.

    masks: in which steps the pods did what; every step of the start is in one of them. logged: the lines of the log
    that say so, where there are any. used: a GPU has been used since. memory_known: the GPUs' memory was seen to be
    untouched.
    """

    first: int
    last: int
    masks: Mapping[Doing, BoolArray]
    logged: Mapping[Doing, LogMark]
    used: bool
    memory_known: bool

    def __len__(self) -> int:
        return self.last - self.first

    def seconds(self, doing: Doing, step: float) -> float:
        """How long the pods did that."""
        return float(self.masks[doing].sum()) * step

    def breakdown(self, step: float) -> str:
        """`installing 9 min, waiting 3 min`: the longest first."""
        parts = sorted(((self.seconds(doing, step), doing) for doing in Doing), key=lambda part: -part[0])
        return ", ".join(f"{doing} {minutes(seconds)}" for seconds, doing in parts if seconds)


@once
def startups(exam: Examination) -> list[Startup]:
    """The starts of a job's attempts in which its GPUs were all sampled and unused; none for services and for jobs
    that say to be interactive, whose start waits for somebody. A start that is out of sight is none.
    """
    if exam.facts.is_service or exam.facts.job_type is JobType.INTERACTIVE or exam.facts.interactive_entry:
        return []
    seen = [attempt for attempt in exam.attempts if not (attempt[0] and exam.began_before)]
    found = [_startup(exam, attempt) for attempt in seen]
    return [startup for startup in found if startup is not None]


def start_claim(
    exam: Examination, startup: Startup, doing: Doing, what: str, alternatives: tuple[Category, ...]
) -> Claim:
    """The GPU time that the pods' doing takes at the start. `what` completes `4 GPUs idle for 12 min of the start ...`.

    The log makes it certain. Without samples of the GPUs' memory the model may be there already, and what looks like
    preparing data may be compiling its kernels; and what neither reads nor writes may be compiling a library: that is
    only possible then.
    """
    mask = startup.masks[doing]
    places = np.flatnonzero(mask)
    since, until = exam.time(int(places[0])), exam.until(int(places[-1]) + 1)
    logged = startup.logged.get(doing)
    explains = exam.explains(mask)
    gpus, whole = count(exam.facts.gpus, "GPU"), len(places) == len(startup)
    share = "the first " if whole else ""
    of = "" if whole else f" of the {minutes(len(startup) * exam.step)} before the first use"
    read, written = (_usual(exam, startup, mask, signal) for signal in (PodSignal.DISK_READ, PodSignal.DISK_WRITE))
    unread = read is None or read < READING_BYTES
    computes = read is not None and unread and written is not None and written < READING_BYTES
    doubtful = doing is Doing.PREPARING and (computes or (unread and not startup.memory_known))
    return Claim(
        detail=(
            f"{gpus} idle for {share}{minutes(len(places) * exam.step)}{of} {what}; "
            f"{gpu_hours(exam.idle_hours(explains))} lost."
        ),
        evidence="; ".join(
            part
            for part in (
                f"{interval(since, until)}, {gpus}",
                f"meanwhile {activity(exam, mask)}",
                "" if whole else startup.breakdown(exam.step),
                "" if not doubtful else "no data read or written" if computes else "no samples of the GPUs' memory",
                "" if logged is None else f"log: {logged.text}",
            )
            if part
        ),
        confidence=Confidence.CERTAIN if logged else Confidence.POSSIBLE if doubtful else Confidence.LIKELY,
        sources=(Source.METRICS,) if logged is None else (Source.METRICS, Source.LOGS),
        since=since,
        until=until,
        alternatives=alternatives if logged is None else (),
        explains=explains,
    )


def activity(exam: Examination, mask: BoolArray) -> str:
    """The means of what the pods did in the steps of the mask: `CPU 1.1 cores, 4 MB/s received`."""
    cpu, received = exam.pod_peak(PodSignal.CPU, mask), exam.pod_peak(PodSignal.NET_RX, mask)
    written = exam.pod_peak(PodSignal.DISK_WRITE, mask)
    parts = (
        None if cpu is None else f"CPU {cpu:.1f} cores",
        None if received is None else f"{received / 1e6:.0f} MB/s received",
        None if written is None else f"{written / 1e6:.0f} MB/s written",
    )
    return ", ".join(part for part in parts if part)


def _usual(exam: Examination, startup: Startup, mask: BoolArray, signal: PodSignal) -> float | None:
    """The median of what the busiest pod does in the steps of the mask: the program's own import is a short burst."""
    values = _highest(exam, signal, startup.first, startup.last)[mask[startup.first : startup.last]]
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _startup(exam: Examination, attempt: BoolArray) -> Startup | None:
    alive = np.flatnonzero(attempt)
    first, end = int(alive[0]), int(alive[-1]) + 1
    used = _first_use(exam, first, end)
    last = end if used is None else used
    # What was before a gap stands.
    last = next((start for start, _ in long_gaps(exam, first, last)), last)
    mask = exam.steps(first, last)
    if last == first or not exam.sampled(mask):
        return None
    memory = np.array([device.memory_mib[mask] for device in exam.devices])
    marks = [mark for mark in exam.series.marks if mask[_place(exam, mark)]]
    return Startup(
        first=first,
        last=last,
        masks=_masks(exam, first, last, marks),
        logged={doing: mark for mark in reversed(marks) if (doing := LOGGED.get(mark.kind)) is not None},
        used=used is not None,
        memory_known=bool(np.isfinite(memory).any(axis=1).all()),
    )


def _first_use(exam: Examination, first: int, end: int) -> int | None:
    """The step in which a GPU is first put to work or given a model; None where that never happens."""
    busy = exam.any_busy[first:end]
    window, least = int(WORK_WITHIN_SECONDS / exam.step), WORK_SECONDS / exam.step
    worked = np.convolve(busy, np.ones(max(window, 1)))[max(window, 1) - 1 :][: len(busy)]
    begun = np.flatnonzero(busy & (worked >= least))
    held = np.zeros(end - first, dtype=np.bool_)
    for device in exam.devices:
        held |= np.nan_to_num(device.memory_mib[first:end]) > CONTEXT_MIB
    places = [int(found[0]) for found in (begun, np.flatnonzero(held)) if len(found)]
    return first + min(places) if places else None


def _masks(exam: Examination, first: int, last: int, marks: list[LogMark]) -> dict[Doing, BoolArray]:
    kinds = list(Doing)
    codes = _joined(_codes(exam, first, last), int(SHORT_SECONDS / exam.step))
    for mark, following in pairwise(marks):
        doing = LOGGED.get(mark.kind)
        if doing is not None:
            codes[_place(exam, mark) - first : _place(exam, following) - first] = kinds.index(doing)
    masks = {doing: np.zeros(len(exam.series.times), dtype=np.bool_) for doing in Doing}
    for code, doing in enumerate(kinds):
        masks[doing][first:last] = codes == code
    return masks


def _place(exam: Examination, mark: LogMark) -> int:
    """The step of a log line; the last one for a line after the grid's end."""
    return min(int(np.searchsorted(exam.series.times, mark.time.timestamp())), len(exam.series.times) - 1)


def _codes(exam: Examination, first: int, last: int) -> FloatArray:
    """What the busiest pod does in each step, as an index of Doing."""
    cpu, received, sent, written, read = (
        _smoothed(_highest(exam, signal, first, last), exam.step)
        for signal in (
            PodSignal.CPU,
            PodSignal.NET_RX,
            PodSignal.NET_TX,
            PodSignal.DISK_WRITE,
            PodSignal.DISK_READ,
        )
    )
    saturated = _saturated(exam, first, last)
    kinds = list(Doing)
    codes = np.full(last - first, kinds.index(Doing.UNCLEAR))
    with np.errstate(invalid="ignore"):
        stream = (received >= STREAM_BYTES) & (cpu <= STREAM_CORES + received / STREAM_BYTES_A_CORE)
        files = stream & (sent >= SMALL_FILES_SHARE * received) & (written >= received / 2)
        unpacks = (written >= INSTALLING_BYTES) & (written >= received) & (cpu >= INSTALLING_CORES) & ~stream
        unpacks &= np.fmax.accumulate(received) >= FETCHED_BYTES
        prepares = (cpu >= PREPARING_CORES) & (saturated | (received < PREPARING_RECEIVED_BYTES))
        follows = np.fmax.accumulate(unpacks) & (written >= INSTALLING_BYTES)
        compiles = prepares & follows & (read < READING_BYTES) & (received < PREPARING_RECEIVED_BYTES)
        quiet = (cpu < QUIET_CORES) & ~(received >= QUIET_BYTES) & ~(written >= QUIET_BYTES)
    known = np.isfinite(cpu) & np.isfinite(received)
    for mask, doing in (
        (unpacks & known, Doing.INSTALLING),
        (prepares & known, Doing.PREPARING),
        (compiles & known, Doing.INSTALLING),
        (stream & known, Doing.DOWNLOADING),
        (files & known, Doing.INSTALLING),
        (quiet, Doing.WAITING),
    ):
        codes[mask] = kinds.index(doing)
    return codes


def _highest(exam: Examination, signal: PodSignal, first: int, last: int) -> FloatArray:
    """The largest value of any pod in each step, NaN where none is known; a node's network is no pod's."""
    hosts = {pod.name for pod in exam.pods if pod.host_network}
    rows = [
        values[first:last]
        for pod in exam.series.pods
        if (values := pod.signals.get(signal)) is not None
        and not (signal in (PodSignal.NET_RX, PodSignal.NET_TX) and pod.pod in hosts)
    ]
    return np.fmax.reduce(rows) if rows else np.full(last - first, np.nan)


def _saturated(exam: Examination, first: int, last: int) -> BoolArray:
    """The steps in which some pod computes as fast as it may."""
    found = np.zeros(last - first, dtype=np.bool_)
    limits = {pod.name: pod.cpu_limit for pod in exam.pods}
    for pod in exam.series.pods:
        cpu, throttled = pod.signals.get(PodSignal.CPU), pod.signals.get(PodSignal.CPU_THROTTLED)
        limit = limits.get(pod.pod)
        with np.errstate(invalid="ignore"):
            if cpu is not None and limit is not None:
                found |= _smoothed(cpu[first:last], exam.step) >= SATURATED_SHARE * limit
            if throttled is not None:
                found |= _smoothed(throttled[first:last], exam.step) >= THROTTLED_PERCENT
    return found


def _smoothed(values: FloatArray, step: float) -> FloatArray:
    """The running mean of what is known; NaN where nothing near is."""
    width = max(int(SMOOTHING_SECONDS / step) // 2 * 2 + 1, 1)
    if len(values) < width:
        width = max((len(values) - 1) // 2 * 2 + 1, 1)
    known = np.isfinite(values)
    window = np.ones(width)
    total, number = (np.convolve(part, window, mode="same") for part in (np.where(known, values, 0.0), known))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(number > 0, total / number, np.nan)


def _joined(codes: FloatArray, shortest: int) -> FloatArray:
    """Short stretches become part of the one before them."""
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    joined = codes.copy()
    for start, stop in pairwise(edges):
        if start and stop - start < shortest:
            joined[start:stop] = joined[start - 1]
    return joined
