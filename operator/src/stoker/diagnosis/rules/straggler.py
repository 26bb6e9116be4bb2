"""One rank is slower, and all others wait for it.

## What it flags

The rule flags a GPU in a job whose ranks are in step, if for four fifths of the training or more

- its processor clock is below 85 % of its peers': it is throttled, for heat or power; or
- it never waits: its tensor cores (or, where these are not sampled, its processors or its power) do more than those
  of its peers, which are alike. It has more work than they, or needs longer for the same; or
- it does the same work as its peers in less of the time, while they are never idle: its link to the host or its data
  loader delays it between kernels, and the others poll until it comes.

The evidence names driver errors (XID) and PCIe replays on that GPU.

## Why it costs GPU time

Ranks exchange gradients in each step, so all are as slow as the slowest. Their utilization does not show it, because
a waiting rank polls in a kernel. One hot GPU of 64 costs as much as many idle ones.

## When it stays silent

- The job has one GPU. With two, the work done is not compared: the rule cannot know which of them is odd.
- Several ranks differ from one another: the work is divided unevenly by design (stages of a pipeline).
- Neither clocks nor the work of the GPUs are sampled on all of them.
- The job has trained for less than fifteen minutes, or the GPUs are MIG slices or shared.
- The job is an evaluation, serving or interactive job.

## Change

A throttled GPU is a fault of the node: have its cooling and power limit checked, and keep the job off the node until
then. For a rank with more work: divide the samples by their length instead of their number, and load and log on all
ranks alike.

From a trace of the ranks' operations, `stoker diagnose --trace FILE` tells a slow worker, unequal pipeline stages and
unequal sequences apart, and what each costs (docs/traces.md).

## References

- NVIDIA Data Center GPU Manager, field identifiers: https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/
- NVIDIA, XID errors: https://docs.nvidia.com/deploy/xid-errors/
"""

from collections.abc import Iterator

import numpy as np

from stoker.diagnosis.series.examination import Claim, Device, Examination
from stoker.diagnosis.series.interruption import interrupted
from stoker.findings.finding import Recoverable
from stoker.findings.rule import Rule
from stoker.findings.vocabulary import Category, Confidence, JobType, Severity, Source
from stoker.findings.wording import gpu_hours, interval, percent
from stoker.telemetry.grid import BoolArray
from stoker.telemetry.series import FloatArray, GpuSignal

LEAST_SECONDS = 900.0
"""Seconds of training. Chosen because compilation and warm-up differ from rank to rank."""
MOST_OF_THE_TIME = 0.8
"""Share of the training in which the GPU is the odd one. Chosen because a passing load of the node is shorter."""
CLOCK_SHARE = 0.85
"""Share of the peers' clock. Chosen because clocks of boards of one model differ by some percent, and throttling takes
more.
"""
WORKING_PERCENT = 50.0
"""Percent of utilization. Chosen because a GPU that is used less has time to clock down."""
MORE_WORK = 1.15
"""Times the median of the peers' tensor cores or processors from which a GPU has more work. Chosen because peers with
equal work differ by less.
"""
MORE_POWER = 1.25
"""Times the median of the peers' power. Chosen because the power of boards of one model differs by a tenth for equal
work.
"""
LEAST_PERCENT = 3.0
"""Percent of the time in which tensor cores or processors are busy. Chosen because a ratio of two smaller numbers is
noise.
"""
SPINNING_PERCENT = 80.0
"""Percent of utilization that peers in a collective operation show. Chosen because their kernels poll."""
LESS_USE = 0.85
"""Share of the peers' utilization below which the odd GPU waits between its kernels. Chosen because equal ranks differ
by less.
"""
SAME_WORK = 0.15
"""Share by which the odd GPU's work may differ from that of its peers. Chosen because equal work is measured to within
it.
"""
POLLING_POINTS = 2.0
"""Percentage points that polling adds to the peers' tensor, SM or memory activity. Chosen because it adds less."""
ALIKE = 0.08
"""Deviation of the means of the peers, as a share of their mean. Chosen because equal work deviates by less."""
LEAST_PEERS = 2
"""Peers that a GPU is compared with. Chosen because of two GPUs the rule cannot know which one is odd."""
ODD_SHARE = 0.25
"""Share of the GPUs that may be odd. Chosen because more of them are divided unevenly by design."""


def check(exam: Examination) -> Iterator[Claim]:
    """Compare each GPU with the median of the others, and report the one that is slower or delayed."""
    devices = exam.present
    mask = exam.training & ~interrupted(exam)
    if exam.facts.job_type is not JobType.TRAINING or len(devices) < max(exam.facts.gpus, 2) or not exam.whole_gpus:
        return
    if mask.sum() * exam.step < LEAST_SECONDS or not exam.sampled(mask):
        return
    slow = _throttled(exam, mask, devices)
    if slow is not None:
        odd, share, words = slow
        fix = (
            "Have the GPU's cooling and power limit checked (nvidia-smi -q -d PERFORMANCE); keep the job off its node."
        )
        yield _claim(exam, mask, odd, share, words, fix)
        return
    busiest = _never_waits(mask, devices)
    if busiest is not None:
        yield _claim(exam, mask, *busiest, None)
        return
    held_up = _held_up(mask, devices)
    if held_up is not None:
        fix = "Check the GPU's link to the host (nvidia-smi -q: replays, width) and the data loading of its rank."
        yield _claim(exam, mask, *held_up, fix)


def _throttled(exam: Examination, mask: BoolArray, devices: tuple[Device, ...]) -> tuple[list[int], float, str] | None:
    """The GPUs whose clock is low while they work, the share of their time that the others wait, and the figures as
    text.
    """
    rows = _rows(GpuSignal.SM_CLOCK, mask, devices)
    if rows is None:
        return None
    use = np.array([device.use[mask] for device in devices])
    ratios = _against_others(np.where(np.nan_to_num(use) >= WORKING_PERCENT, rows, np.nan))
    low = [row for row, ratio in enumerate(ratios) if _mostly(ratio < CLOCK_SHARE, ratio)]
    if not low or len(low) > max(1, ODD_SHARE * len(devices)):
        return None
    peers = [row for row in range(len(devices)) if row not in low]
    clock, usual = float(np.nanmedian(rows[low])), float(np.nanmedian(rows[peers]))
    names = exam.names([devices[row] for row in low])
    return low, 1 - clock / usual, f"{names} at {clock:.0f} MHz, the others at {usual:.0f} MHz"


def _never_waits(mask: BoolArray, devices: tuple[Device, ...]) -> tuple[list[int], float, str] | None:
    """The GPU that does more work than the others, by the first signal that decides; returns what _throttled does."""
    if len(devices) <= LEAST_PEERS:
        return None
    use = np.nan_to_num([device.use[mask] for device in devices])
    for signal, least, name, theirs, unit in (
        (GpuSignal.TENSOR, MORE_WORK, "tensor cores", "those", "%"),
        (GpuSignal.SM_ACTIVE, MORE_WORK, "processors", "those", "%"),
        (GpuSignal.POWER, MORE_POWER, "power", "that", "W"),
    ):
        rows = _rows(signal, mask, devices)
        if rows is None or (unit == "%" and float(np.nanmedian(rows)) < LEAST_PERCENT):
            continue
        # GPUs that are not used do not wait for one another.
        ratios = _against_others(np.where((use >= WORKING_PERCENT).all(axis=0), rows, np.nan))
        more = [row for row, ratio in enumerate(ratios) if _mostly(ratio > least, ratio)]
        means = np.nanmean(rows, axis=1)
        peers = np.delete(means, more)
        if len(more) != 1 or float(peers.std()) > ALIKE * float(peers.mean()):
            return None
        own, usual = float(means[more[0]]), float(peers.mean())
        return more, 1 - usual / own, f"{name} at {own:.0f} {unit}, {theirs} of the others at {usual:.0f} {unit}"
    return None


def _held_up(mask: BoolArray, devices: tuple[Device, ...]) -> tuple[list[int], float, str] | None:
    """The GPU that is used less than the others for the same work; returns what _throttled does."""
    if len(devices) <= LEAST_PEERS:
        return None
    use = np.array([device.use[mask] for device in devices])
    less = [row for row, ratio in enumerate(_against_others(use)) if _mostly(ratio < LESS_USE, ratio)]
    peers = np.delete(use, less, axis=0)
    if len(less) != 1 or float(np.nanmean(peers)) < SPINNING_PERCENT:
        return None
    for signal in (GpuSignal.TENSOR, GpuSignal.SM_ACTIVE, GpuSignal.DRAM):
        rows = _rows(signal, mask, devices)
        if rows is None or float(np.nanmedian(rows)) < LEAST_PERCENT:
            continue
        ratio = _against_others(rows)[less[0]]
        # Polling itself takes some of the peers' memory bandwidth.
        same = (np.abs(ratio - 1) < SAME_WORK) | (np.abs(rows[less[0]] - np.median(rows, axis=0)) < POLLING_POINTS)
        if not _mostly(same, ratio):
            return None
        own, usual = float(np.nanmean(use[less[0]])), float(np.nanmean(peers))
        words = f"used {percent(own)} of the time, the others {percent(usual)}, for the same work"
        return less, 1 - own / usual, words
    return None


def _rows(signal: GpuSignal, mask: BoolArray, devices: tuple[Device, ...]) -> FloatArray | None:
    """One row a device, one column a step of the mask; None unless each device has samples in most of them."""
    rows = [values[mask] for device in devices if (values := device.signal(signal)) is not None]
    if len(rows) < len(devices) or any(np.isfinite(row).mean() < MOST_OF_THE_TIME for row in rows):
        return None
    return np.array(rows)


def _against_others(rows: FloatArray) -> FloatArray:
    """Each value divided by the median of the other devices in the same step; NaN where one of them is unknown."""
    complete = np.isfinite(rows).all(axis=0)
    known, others = rows[:, complete], len(rows) - 1
    ordered = np.sort(known, axis=0)

    def without_own(place: int) -> FloatArray:
        """The value at a place of the sorted row without the own value: one place further if that is no larger."""
        return np.asarray(np.where(known > ordered[place], ordered[place], ordered[place + 1]), dtype=np.float64)

    medians = (without_own((others - 1) // 2) + without_own(others // 2)) / 2
    ratios = np.full(rows.shape, np.nan)
    ratios[:, complete] = known / np.maximum(medians, 1e-9)
    return ratios


def _mostly(mask: BoolArray, ratio: FloatArray) -> bool:
    known = np.isfinite(ratio)
    return bool(known.mean() >= MOST_OF_THE_TIME / 2) and float(mask[known].mean()) >= MOST_OF_THE_TIME


def _claim(exam: Examination, mask: BoolArray, odd: list[int], share: float, words: str, fix: str | None) -> Claim:
    devices = [exam.present[row] for row in odd]
    places = np.flatnonzero(mask)
    since, until = exam.time(int(places[0])), exam.until(int(places[-1]) + 1)
    waited = share * (len(exam.present) - len(odd)) * len(places) * exam.step / 3600
    names = exam.names(devices)
    where = {device.pod.node for device in devices if device.pod.node}
    return Claim(
        detail=(
            f"{names} {'is' if len(odd) == 1 else 'are'} slower than the other GPUs, which wait about "
            f"{percent(100 * share)} of the time; about {gpu_hours(waited)} of theirs."
        ),
        evidence="; ".join(
            part
            for part in (
                interval(since, until),
                words,
                f"on {', '.join(sorted(where))}" if where else "",
                _errors(exam, devices),
            )
            if part
        ),
        fix=fix,
        confidence=Confidence.LIKELY,
        sources=(Source.METRICS,),
        since=since,
        until=until,
        recoverable=Recoverable(min=0.0, max=waited, basis="what the others could do if this one kept up"),
        explains=exam.explains(exam.steps(0, 0)),
    )


def _errors(exam: Examination, devices: list[Device]) -> str:
    """Driver errors and PCIe replays of the odd ones over the job's life."""
    said: list[str] = []
    for device in devices:
        xid, replays = device.signal(GpuSignal.XID), device.signal(GpuSignal.PCIE_REPLAY)
        seen = [] if xid is None else sorted({int(number) for number in xid[np.isfinite(xid)] if number > 0})
        if seen:
            said.append(f"XID {', '.join(map(str, seen))} on {exam.names([device])}")
        known = np.empty(0) if replays is None else replays[np.isfinite(replays)]
        if len(known) and known.max() > known.min():
            said.append(f"{known.max() - known.min():.0f} PCIe packets sent again on {exam.names([device])}")
    return ", ".join(said)


RULE = Rule(
    id="D504",
    name="straggler",
    category=Category.STRAGGLER,
    severity=Severity.WARNING,
    summary="One GPU is slower than its peers, which wait for it in each step.",
    fix="Give all ranks the same work, by the length of the samples; have the GPU checked if it stays with the node.",
    check=check,
)
