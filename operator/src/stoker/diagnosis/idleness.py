"""Whether a job as a whole is idle, by the rules of a safe reclaim: missing is never idle, a contradiction means
active.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from stoker.findings.diagnosis import Idleness, IdlenessState
from stoker.findings.finding import rfc3339
from stoker.findings.vocabulary import UnknownReason
from stoker.findings.wording import count, minutes, percent
from stoker.telemetry.activity import ACTIVITY_SIGNALS, idle_ceiling
from stoker.telemetry.screen import LONGEST_GAP, GpuWindow, Screen, ScreenRequest
from stoker.telemetry.series import GpuSignal, JobFacts, PodFacts

STALE_AFTER = timedelta(minutes=3)
"""A GPU whose last sample is older says nothing about now. dcgm-exporter collects each 30 s; scrapes of 60 s are
common.
"""
CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far a screen may lie ahead of the caller's clock."""


def screen_request(facts: JobFacts, *, window: timedelta, now: datetime, idle_percent: float = 0.0) -> ScreenRequest:
    """What a screen must be asked for `idleness` to judge the job: closely only if it can be idle at all by its age."""
    starts = [pod.started_at for pod in facts.pods if pod.started_at is not None]
    old_enough = bool(starts) and now - max(starts) >= window
    return ScreenRequest(
        pods=tuple((facts.namespace, pod.name) for pod in facts.pods),
        window=window,
        detailed=old_enough and _waiting(facts) is None,
        idle_percent=idle_percent,
    )


def idleness(
    facts: JobFacts,
    screen: Screen,
    *,
    window: timedelta,
    min_coverage_percent: float,
    now: datetime,
    idle_percent: float = 0.0,
) -> Idleness:
    """Judge one job by its screen.

    `window` is how long the job must have been idle (the policy's or the job's `idleAfter`): the screen must cover at
    least that. Idle is only what was checked in detail; a summary can prove work, never rest. A job whose latest
    container start lies within the window is not idle yet, however quiet: its state is Active. `idle_percent` is the
    policy's: a GPU at or under it is idle.
    """
    answer = Idleness(
        state=IdlenessState.UNKNOWN, observed_at=screen.at, pod_uids=frozenset(pod.uid for pod in facts.pods)
    )
    if waiting := _waiting(facts):
        return replace(answer, state=IdlenessState.WAITING, message=waiting)

    held = [(pod, gpu) for pod in facts.pods for gpu in screen.gpus.get((facts.namespace, pod.name), ())]
    if facts.shares_gpus:
        message = f"GPUs of {facts.gpu_product} are shared by several pods: their metrics can't be told apart"
        return replace(answer, reason=UnknownReason.PARTIAL, message=message)
    for pod, gpu in held:
        if gpu.shared:
            message = f"{_name(pod, gpu)} is shared by several pods: its metrics can't be told apart"
            return replace(answer, reason=UnknownReason.PARTIAL, message=message)
    lately = f" in the last {minutes(screen.window.total_seconds())}"
    for pod, gpu in held:
        if activity := _activity(gpu.peaks, gpu.context_idle_watts, idle_percent):
            return replace(answer, state=IdlenessState.ACTIVE, message=f"{_name(pod, gpu)}: {activity}{lately}")

    summarized = [(pod, screen.summaries.get((facts.namespace, pod.name))) for pod in facts.pods]
    for pod, summary in summarized:
        if summary is not None and (activity := _activity(summary.averages, None, idle_percent)):
            return replace(answer, state=IdlenessState.ACTIVE, message=f"GPUs of pod {pod.name}: {activity}{lately}")

    for pod in facts.pods:
        if pod.uncounted_gpus is not None:
            message = f"pod {pod.name} holds GPUs for which no samples are queried: {pod.uncounted_gpus}"
            return replace(answer, reason=UnknownReason.UNCOUNTED_GPUS, message=message)
    if fault := _screen_fault(screen, window, now):
        reason, message = fault
        return replace(answer, reason=reason, message=message)
    # Of a job that was not checked in detail only its age can be said, and only if all its pods speak.
    unproven = (
        not held and bool(facts.pods) and facts.gpus > 0 and all(summary is not None for _, summary in summarized)
    )
    if not unproven and (fault := _sample_fault(facts, screen)):
        reason, message = fault
        return replace(answer, reason=reason, message=message)

    started = max(pod.started_at for pod in facts.pods if pod.started_at is not None)
    if screen.at - started < screen.window:
        # The screen's window, not the job's: what it says of the time before the start is not about this job.
        message = f"started at {rfc3339(started)}; counts as idle after {minutes(screen.window.total_seconds())}"
        return replace(answer, state=IdlenessState.ACTIVE, message=message)
    if unproven:
        message = "no work in the last minutes; not checked in detail yet, because too many jobs are idle at once"
        return replace(answer, reason=UnknownReason.PARTIAL, message=message)

    coverage = min(gpu.coverage_percent if math.isfinite(gpu.coverage_percent) else 0.0 for _, gpu in held)
    answer = replace(answer, coverage_percent=math.floor(coverage))
    if coverage < min_coverage_percent:
        message = (
            f"samples cover {coverage:.0f} % of the last {minutes(screen.window.total_seconds())}, "
            f"{min_coverage_percent:.0f} % are needed"
        )
        return replace(answer, reason=UnknownReason.PARTIAL, message=message)

    for pod, gpu in held:
        if gpu.has_gap:
            # A share of a long window is long enough for much work.
            message = (
                f"no samples of {_name(pod, gpu)} for more than {minutes(LONGEST_GAP.total_seconds())} "
                f"within the last {minutes(screen.window.total_seconds())}"
            )
            return replace(answer, reason=UnknownReason.PARTIAL, message=message)

    opened = screen.at - screen.window
    since = max(started, *(min(gpu.quiet_since or opened, opened) for _, gpu in held))
    return replace(answer, state=IdlenessState.IDLE, message=f"{count(facts.gpus, 'GPU')} idle", since=since)


def works(facts: JobFacts, screen: Screen, *, idle_percent: float = 0.0) -> bool | None:
    """Whether any of the job's GPUs worked in the last minutes, as a summary shows it: long before the job counts as
    idle. None where not all its pods run or speak.
    """
    summaries = [screen.summaries.get((facts.namespace, pod.name)) for pod in facts.pods]
    if any(summary is not None and _activity(summary.averages, None, idle_percent) for summary in summaries):
        return True
    silent = not summaries or any(summary is None or summary.average_percent is None for summary in summaries)
    return None if silent or not screen.complete or _waiting(facts) is not None else False


def has_worked(facts: JobFacts, screen: Screen, *, idle_percent: float = 0.0) -> bool:
    """Whether a detailed check shows that one of the job's GPUs worked within the screen's window."""
    held = (gpu for pod in facts.pods for gpu in screen.gpus.get((facts.namespace, pod.name), ()))
    return any(_activity(gpu.peaks, gpu.context_idle_watts, idle_percent) for gpu in held)


Fault = tuple[UnknownReason, str]


def _screen_fault(screen: Screen, window: timedelta, now: datetime) -> Fault | None:
    """Why the screen as a whole proves no idleness."""
    if not screen.complete:
        return UnknownReason.PARTIAL, screen.message or "Prometheus gave a partial answer"
    if screen.window < window:
        looked, needed = minutes(screen.window.total_seconds()), minutes(window.total_seconds())
        return UnknownReason.PARTIAL, f"the metrics were read over {looked}, {needed} are needed"
    if not -CLOCK_TOLERANCE <= now - screen.at <= STALE_AFTER:
        return UnknownReason.STALE, f"the last scan of the metrics was at {rfc3339(screen.at)}"
    return None


def _sample_fault(facts: JobFacts, screen: Screen) -> Fault | None:
    """Why the samples of the job's GPUs prove no idleness: each GPU of each pod must speak, and lately."""
    if facts.gpus <= 0 or not facts.pods:
        return UnknownReason.NO_SAMPLES, "the job holds no GPUs"
    for pod in facts.pods:
        windows = screen.gpus.get((facts.namespace, pod.name), ())
        speaking = {gpu.gpu for gpu in windows if _speaks(gpu)}
        expected = max(facts.gpus_of(pod), len(windows))
        if len(speaking) < expected:
            found = f"{len(speaking)} of {count(expected, 'GPU')} of pod {pod.name}"
            return UnknownReason.NO_SAMPLES, f"utilization samples for {found}"
        for gpu in windows:
            if gpu.last_sample_at is None or screen.at - gpu.last_sample_at > STALE_AFTER:
                last = "is too old" if gpu.last_sample_at is None else f"was at {rfc3339(gpu.last_sample_at)}"
                return UnknownReason.STALE, f"the last sample of {_name(pod, gpu)} {last}"
            if gpu.doubtful:
                doubt = "are not numbers, have a wrong timestamp, or have an unknown unit"
                return UnknownReason.PARTIAL, f"some samples of {_name(pod, gpu)} {doubt}"
    return None


def _waiting(facts: JobFacts) -> str | None:
    """Why the job waits instead of idling; None when all its pods run."""
    if len(facts.pods) < facts.nodes:
        return f"{len(facts.pods)} of {count(facts.nodes, 'pod')} exist"
    for pod in facts.pods:
        if pod.terminating:
            return f"pod {pod.name} is terminating"
        if pod.finished_at is not None:
            return f"the trainer of pod {pod.name} has ended"
        if pod.started_at is None:
            return f"the trainer of pod {pod.name} has not started"
        if not pod.ready:
            return f"pod {pod.name} is not ready"
    return None


def _activity(values: Mapping[GpuSignal, float], context_idle_watts: float | None, idle_percent: float) -> str | None:
    """The first signal that says that a GPU worked; None when none does."""
    for signal in ACTIVITY_SIGNALS:
        value = values.get(signal)
        if value is None:
            continue
        ceiling = idle_ceiling(signal, idle_percent, context_idle_watts)
        # A NaN compares as not greater: it is no evidence of work, and `_speaks` takes it for no evidence of rest
        # either.
        if ceiling is not None and value > ceiling:
            # Without the figure: it changes with every look, and a message that changes is a write of the status.
            return f"{signal} was over its idle level of {_quantity(signal, ceiling)}"
    return None


def _quantity(signal: GpuSignal, value: float) -> str:
    if signal is GpuSignal.POWER:
        return f"{round(value, -1):.0f} W"
    if signal in (GpuSignal.PCIE_RX, GpuSignal.PCIE_TX, GpuSignal.NVLINK):
        return f"{value / 1e6:.0f} MB/s"
    return percent(value)


def _speaks(gpu: GpuWindow) -> bool:
    """Utilization or the graphics engine has a value, of a part of a device the latter: without, silence of the rest
    proves nothing.
    """
    proofs = (GpuSignal.GRAPHICS,) if gpu.partition else (GpuSignal.UTIL, GpuSignal.GRAPHICS)
    return any(math.isfinite(gpu.peaks.get(signal, math.nan)) for signal in proofs)


def _name(pod: PodFacts, gpu: GpuWindow) -> str:
    return f"GPU {gpu.index if gpu.index is not None else gpu.gpu} of pod {pod.name}"
